/* clock.h: the locker's clock, and the system's timer for the keeper. */
#pragma once

#include "state.h"

static inline int64_t lk_now(const locker *l)
{
    return l->clock.now(l->clock.context);
}

bool lk_clock_is_system(const locker_clock *clock);

/** A timer of the system's clock for the keeper's epoll, or -1 and errno. It counts a stop of the process and a suspend of
 * the machine, which a wait for the time that is left would not. */
int lk_timer_new(void);
/** Have it expire at `at`; LOCKER_NEVER: not at all. */
void lk_timer_set(int fd, int64_t at);
