/* lk_wakeup.h: ending a poll from another thread, by a descriptor that becomes readable: an eventfd. */
#pragma once

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lk_fd.h"

/** -1: errno says why. To be closed by close(). */
static inline int lk_wakeup_new(void)
{
    return lk_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

/** Readable from now on. Also from a signal handler, which has to save errno. */
static inline void lk_wakeup_ring(int fd)
{
    const uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0) {
        /* EAGAIN: its counter is full, so it is readable. Nothing else can happen to an eventfd. */
    }
}

/** Not readable any more, however often it was rung. */
static inline void lk_wakeup_clear(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) < 0) {
        /* EAGAIN: it was not rung. */
    }
}
