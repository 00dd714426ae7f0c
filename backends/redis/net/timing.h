/* timing.h: units of time, and the system's clock for what runs before or after an instance (connecting). */
#ifndef LK_REDIS_TIMING_H
#define LK_REDIS_TIMING_H

#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <time.h>

#include <locker/driver.h>

#define LK_US INT64_C(1000)
#define LK_MS INT64_C(1000000)
#define LK_S  INT64_C(1000000000)

static inline int64_t lk_system_now(void)
{
    const locker_clock *clock = locker_system_clock();
    return clock->now(clock->context);
}

/* The time until `until`, seen from `now`, as poll and futex want it: never negative. */
static inline struct timespec lk_remaining(int64_t now, int64_t until)
{
    const int64_t left = until > now ? until - now : 0;
    return (struct timespec){.tv_sec = (time_t)(left / LK_S), .tv_nsec = (long)(left % LK_S)};
}

/* ppoll until `until`, seen from `now`. What is not short goes by poll: when the process was stopped and goes
 * on, the kernel takes up poll with the time at which it was to end, but ppoll with the time that was
 * left. */
static inline int lk_poll_until(struct pollfd *fds, nfds_t count, int64_t now, int64_t until)
{
    const int64_t left = until - now;
    const struct timespec span = lk_remaining(now, until);
    if (until == LOCKER_NEVER)
        return poll(fds, count, -1);
    if (left > 10 * LK_MS)
        return poll(fds, count, left / LK_MS < INT_MAX ? (int)(left / LK_MS) + 1 : INT_MAX);
    return ppoll(fds, count, &span, NULL);
}

static inline int64_t lk_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t lk_after(int64_t start, int64_t span)
{
    return start > LOCKER_NEVER - span ? LOCKER_NEVER : start + span;
}

#endif
