/* lk_time.h: times and spans, int64_t nanoseconds. INT64_MAX is the time that never comes (LOCKER_NEVER). */
#pragma once

#include <stdint.h>
#include <time.h>

#define LK_US INT64_C(1000)
#define LK_MS INT64_C(1000000)
#define LK_S  INT64_C(1000000000)

/** The time that is `span`, not negative, behind `at`; never, where that is too far or `at` is never. */
static inline int64_t lk_time_after(int64_t at, int64_t span)
{
    return at > INT64_MAX - span ? INT64_MAX : at + span;
}

static inline int64_t lk_time_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t lk_time_later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/** How long it is from `now` until `until`: never negative. */
static inline int64_t lk_time_left(int64_t now, int64_t until)
{
    return until > now ? until - now : 0;
}

/** What one of the system's clocks shows. */
static inline int64_t lk_time_of(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * LK_S + t.tv_nsec;
}

/** A span or time that isn't negative, as the system has them. */
static inline struct timespec lk_time_spec(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / LK_S), .tv_nsec = (long)(ns % LK_S)};
}
