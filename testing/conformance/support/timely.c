/* timely.c: tests that hang on time, run anew when they were late; see timely.h. */
#include "timely.h"

#include <stdio.h>

#include "expect.h"

static struct {
    bool runs_anew; /* there is another run for the test that is run */
    bool was_late;  /* and it is wanted */
} timely;

void lk_timely_begin(int run)
{
    timely.runs_anew = run < LK_TIMELY_RUNS;
    timely.was_late = false;
}

bool lk_timely_was_late(void)
{
    timely.runs_anew = false;
    return timely.was_late;
}

bool lk_timely_expect(bool is_so, const char *what, const char *file, int line)
{
    if (is_so)
        return true;
    if (!timely.runs_anew)
        lk_expect_fail(file, line, "not so, or late each time: %s", what);
    print_message("%s:%d: late? the test is run anew: %s\n", file, line, what);
    timely.was_late = true;
    return false;
}

void lk_timely_check(int64_t took_ms, int64_t limit_ms, const char *what, const char *file, int line)
{
    char text[256];
    snprintf(text, sizeof text, "%s is %lld ms, and should be less than %lld", what, (long long)took_ms,
             (long long)limit_ms);
    (void)lk_timely_expect(took_ms < limit_ms, text, file, line);
}
