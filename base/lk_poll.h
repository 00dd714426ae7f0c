/* lk_poll.h: waiting for descriptors until a time. */
#pragma once

#include <limits.h>
#include <poll.h>

#include "lk_time.h"

/** poll(2) until the time `until`, seen from `now`. When the process was stopped (SIGSTOP, a debugger) and
 * goes on, the kernel takes up an interrupted ppoll with the time that was left, and poll with the time at
 * which it was to end. So ppoll, which is finer, has the short waits alone. */
static inline int lk_poll_until(struct pollfd *fds, nfds_t count, int64_t now, int64_t until)
{
    if (until == INT64_MAX)
        return poll(fds, count, -1);
    const int64_t left = lk_time_left(now, until);
    if (left > 10 * LK_MS)
        return poll(fds, count, left / LK_MS < INT_MAX ? (int)((left + LK_MS - 1) / LK_MS) : INT_MAX);
    const struct timespec span = lk_time_spec(left);
    return ppoll(fds, count, &span, NULL);
}
