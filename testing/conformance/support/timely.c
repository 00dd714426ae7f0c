/* timely.c: tests that hang on time, run anew when they were late; see timely.h. */
#include "timely.h"

#include <stdio.h>

#include "expect.h"

/* What all processors have done, in ticks (proc_stat(5)). */
typedef struct {
    unsigned long long idle, all;
} ticks;

static struct {
    bool runs_anew; /* there is another run for the test that is run */
    bool was_late;  /* and it is wanted */
    ticks began;
} timely;

/* Zeros: it can't be told. */
static ticks read_ticks(void)
{
    enum { IDLE = 3, KINDS = 8 };
    unsigned long long kinds[KINDS] = {0};
    ticks now = {0, 0};
    FILE *const file = fopen("/proc/stat", "re");
    if (file == NULL)
        return now;
    if (fscanf(file, "cpu") == 0)
        for (int i = 0; i < KINDS && fscanf(file, "%llu", &kinds[i]) == 1; i++)
            now.all += kinds[i];
    now.idle = kinds[IDLE];
    fclose(file);
    return now;
}

/* Since this run began they had something to do for more than a quarter of the time. */
static bool is_busy(void)
{
    const ticks now = read_ticks();
    return now.all == 0 || 4 * (now.idle - timely.began.idle) < 3 * (now.all - timely.began.all);
}

void lk_timely_begin(int run)
{
    timely.runs_anew = run < LK_TIMELY_RUNS;
    timely.was_late = false;
    timely.began = read_ticks();
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
    if (!is_busy())
        lk_expect_fail(file, line, "not so, on a machine that is not busy: %s", what);
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
