/* clock.c: the system's clock. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/timerfd.h>
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

/* When the process was stopped (SIGSTOP, a debugger) and goes on, the kernel takes up an interrupted ppoll
 * with the time that was left, and poll with the time at which it was to end. So ppoll, which is finer, has
 * the short waits alone. */
static void system_poll(void *context, int fd, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t left = until == LOCKER_NEVER ? 0 : until - system_now(context);

    if (until == LOCKER_NEVER) {
        (void)poll(&p, 1, -1);
    } else if (left > 10 * LK_MS) {
        (void)poll(&p, 1, (int)lk_min((left + LK_MS - 1) / LK_MS, INT_MAX));
    } else {
        struct timespec t = as_timespec(left > 0 ? left : 0);

        (void)ppoll(&p, 1, &t, NULL);
    }
}

int lk_timer_new(const locker_clock *clock)
{
    return clock == locker_system_clock() ? timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK) : -1;
}

void lk_timer_set(int fd, int64_t at)
{
    const struct itimerspec spec = {.it_value = as_timespec(at == LOCKER_NEVER ? 0 : at > 0 ? at : 1)};

    (void)timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL); /* can't fail: the time is in range */
}

const locker_clock *locker_system_clock(void)
{
    static const locker_clock clock = {.now = system_now, .wait = system_wait, .poll = system_poll};

    return &clock;
}

/* Made once: each call that sleeps makes a condition variable. */
static struct {
    pthread_once_t once;
    pthread_condattr_t attr;
    int rc; /* of making it */
} monotonic = {.once = PTHREAD_ONCE_INIT};

static void make_monotonic(void)
{
    monotonic.rc = pthread_condattr_init(&monotonic.attr);
    if (monotonic.rc == 0)
        monotonic.rc = pthread_condattr_setclock(&monotonic.attr, CLOCK_MONOTONIC);
}

int locker_cond_init(pthread_cond_t *cond)
{
    (void)pthread_once(&monotonic.once, make_monotonic);
    return monotonic.rc != 0 ? monotonic.rc : pthread_cond_init(cond, &monotonic.attr);
}
