/* clock.c: the system's clock. */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "internal.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * LK_S + t.tv_nsec;
}

static struct timespec as_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / LK_S), .tv_nsec = (long)(ns % LK_S)};
}

static int64_t system_now(void *context)
{
    (void)context;
    return read_clock(CLOCK_BOOTTIME);
}

/* glibc's condition variables take no CLOCK_BOOTTIME: wait for the time that remains, on CLOCK_MONOTONIC.
 * After a suspend the wait is late by the time suspended at the most; states compare with CLOCK_BOOTTIME and
 * are right at once. */
static void system_wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    struct timespec t;
    int64_t left;

    if (until == LOCKER_NEVER) {
        (void)pthread_cond_wait(cond, mutex);
        return;
    }
    left = until - system_now(context);
    if (left <= 0)
        return;
    t = as_timespec(lk_later(read_clock(CLOCK_MONOTONIC), left));
    (void)pthread_cond_timedwait(cond, mutex, &t);
}

static void system_poll(void *context, int fd, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct timespec t;
    int64_t left;

    if (until == LOCKER_NEVER) {
        (void)ppoll(&p, 1, NULL, NULL);
        return;
    }
    left = until - system_now(context);
    t = as_timespec(left > 0 ? left : 0);
    (void)ppoll(&p, 1, &t, NULL);
}

const locker_clock *locker_system_clock(void)
{
    static const locker_clock clock = {.now = system_now, .wait = system_wait, .poll = system_poll};

    return &clock;
}

int locker_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return rc;
}
