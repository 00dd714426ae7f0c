/* clock.h: the locker's clock, and the system's timer for the keeper. */
#pragma once

#include "state.h"

static inline int64_t lk_now(const locker *l)
{
    return l->clock->now(l->clock->context);
}

/** A timer for the keeper's epoll, -1 (errno) where it can't be had or the clock is not the system's. It counts a stop
 * of the process and a suspend of the machine, which a wait for the time that is left would not. */
int lk_timer_new(const locker_clock *clock);
/** Have it expire at `at`; LOCKER_NEVER: not at all. */
void lk_timer_set(int fd, int64_t at);
