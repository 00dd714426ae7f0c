/* clock.c: the clock of the places' lockers: the system's, ahead of it, or standing still. See
 * file_test.h. */
#include "file_test.h"

#include <locker/driver.h>

static _Atomic int64_t ahead_ns;
static _Atomic int64_t stopped_at; /* 0: it goes */

static int64_t clock_now(void *context)
{
    const int64_t at = stopped_at;
    return at != 0 ? at : locker_system_clock()->now(context) + ahead_ns;
}

/* The system's time for one of ours. Nothing is due while the clock stands still, but it may go on. */
static int64_t system_time(void *context, int64_t until)
{
    if (until == LOCKER_NEVER)
        return until;
    return stopped_at != 0 ? locker_system_clock()->now(context) + 10 * 1000000 : until - ahead_ns;
}

static void clock_wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    locker_system_clock()->wait(context, cond, mutex, system_time(context, until));
}

static void clock_poll(void *context, int fd, int64_t until)
{
    locker_system_clock()->poll(context, fd, system_time(context, until));
}

const locker_clock *lk_clock(void)
{
    static const locker_clock clock = {sizeof clock, clock_now, clock_wait, clock_poll, NULL, NULL};
    return &clock;
}

void lk_clock_stop(void)
{
    stopped_at = clock_now(NULL);
}

void lk_clock_skip(int64_t ns)
{
    stopped_at += ns;
}

void lk_clock_go(int64_t ahead)
{
    ahead_ns = ahead;
    stopped_at = 0;
}
