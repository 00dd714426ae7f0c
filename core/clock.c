/* clock.c: the system's clock. */
#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

#include "clock.h"
#include "lk_poll.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return lk_time_of_spec(&t);
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
    if (until == LOCKER_NEVER) {
        pthread_cond_wait(cond, mutex);
        return;
    }
    const int64_t left = until - system_now(context);
    if (left <= 0)
        return;
    struct timespec t = lk_time_spec(lk_time_after(read_clock(CLOCK_MONOTONIC), left));
    pthread_cond_timedwait(cond, mutex, &t);
}

static void system_poll(void *context, int fd, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)lk_poll_until(&p, 1, until == LOCKER_NEVER ? 0 : system_now(context), until);
}

bool lk_clock_is_system(const locker_clock *clock)
{
    return clock->now == system_now && clock->wait == system_wait && clock->poll == system_poll;
}

int lk_timer_new(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void lk_timer_set(int fd, int64_t at)
{
    const struct itimerspec spec = {.it_value = lk_time_spec(at == LOCKER_NEVER ? 0 : at > 0 ? at : 1)};
    (void)timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL); /* can't fail: the time is in range */
}

const locker_clock *locker_system_clock(void)
{
    static const locker_clock clock = {sizeof clock, system_now, system_wait, system_poll, NULL, NULL};
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
    pthread_once(&monotonic.once, make_monotonic);
    return monotonic.rc != 0 ? monotonic.rc : pthread_cond_init(cond, &monotonic.attr);
}
