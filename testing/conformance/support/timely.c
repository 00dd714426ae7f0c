/* timely.c: tests that are run again when the machine was late; see timely.h. */
#include "timely.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "servers/lateness.h"

/* A condition without a number in ms: the machine was late by at least this. */
enum { LATE_MS = 20 };

static struct {
    const char *test;
    bool has_another; /* there is another run for the test that is run */
    bool was_late;    /* and it is wanted */
} timely;

void lk_timely_begin(const char *test, int run)
{
    timely.test = test;
    timely.has_another = run < LK_TIMELY_RUNS;
    timely.was_late = false;
    lk_lateness_mark();
}

bool lk_timely_was_late(void)
{
    timely.has_another = false;
    return timely.was_late;
}

void assert_timely_from(void)
{
    if (timely.has_another)
        lk_lateness_mark();
}

static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void report_rerun(const char *what, int64_t missed_ms, int64_t late_ms, const char *file, int line)
{
    char text[512];
    snprintf(text, sizeof text, "%s.%s %s:%d: %s; missed by %lld ms, the machine was late by %lld ms",
             program_invocation_short_name, timely.test, base_name(file), line, what, (long long)missed_ms,
             (long long)late_ms);
    print_message("RERUN: %s\n", text);
    const char *const name = getenv("LOCKER_TEST_RERUNS");
    FILE *const ledger = name != NULL ? fopen(name, "ae") : NULL;
    if (ledger == NULL)
        return;
    fprintf(ledger, "%s\n", text);
    fclose(ledger);
}

/* Runs the test again if the machine was late by `missed_ms`, else fails it. */
static void miss(const char *what, int64_t missed_ms, const char *file, int line)
{
    if (!timely.has_another)
        lk_expect_fail(file, line, "failed, or late in each run: %s", what);
    if (!lk_lateness_is_busy())
        lk_expect_fail(file, line, "failed on a machine that is not busy: %s", what);
    const int64_t late_ms = lk_lateness_ms();
    if (late_ms < missed_ms)
        lk_expect_fail(file, line, "missed by %lld ms, but the machine was late by only %lld ms: %s",
                       (long long)missed_ms, (long long)late_ms, what);
    report_rerun(what, missed_ms, late_ms, file, line);
    timely.was_late = true;
}

bool lk_timely_expect(bool is_so, const char *what, const char *file, int line)
{
    if (!is_so)
        miss(what, LATE_MS, file, line);
    return is_so;
}

void lk_timely_check(int64_t took_ms, int64_t limit_ms, const char *what, const char *file, int line)
{
    char text[256];
    if (took_ms < limit_ms)
        return;
    snprintf(text, sizeof text, "%s is %lld ms, and should be less than %lld", what, (long long)took_ms,
             (long long)limit_ms);
    miss(text, took_ms - limit_ms, file, line);
}
