/* clock.c: the system's clock. */
#include <locker/driver.h>

#include "lk_poll.h"

static int64_t system_now(void *context)
{
    (void)context;
    return lk_time_of(CLOCK_BOOTTIME);
}

/* glibc's condition variables take no CLOCK_BOOTTIME: wait for the time that remains, on CLOCK_MONOTONIC.
 * After a suspend the wait is late by that at most; states are by CLOCK_BOOTTIME and are right at once. */
static void system_wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    if (until == LOCKER_NEVER) {
        pthread_cond_wait(cond, mutex);
        return;
    }
    const int64_t left = until - system_now(context);
    if (left <= 0)
        return;
    struct timespec t = lk_time_spec(lk_time_after(lk_time_of(CLOCK_MONOTONIC), left));
    pthread_cond_timedwait(cond, mutex, &t);
}

static void system_poll(void *context, int fd, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)lk_poll_until(&p, 1, until == LOCKER_NEVER ? 0 : system_now(context), until);
}

const locker_clock *locker_system_clock(void)
{
    static const locker_clock clock = {sizeof clock, system_now, system_wait, system_poll, NULL, NULL};
    return &clock;
}

int locker_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    const int rc = pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
    return rc;
}
