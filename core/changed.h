/* changed.h: waiting for a change of the locker: no call is in flight any more, or an operation of the driver, interrupt,
 * dispatch or a callback has ended. It is told only when somebody waits, which is seldom. */
#pragma once

#include "state.h"

static inline void lk_await_unlocking(locker *l) LK_REQUIRES(l->mutex)
{
    l->awaiting++;
    lk_mutex_wait(&l->mutex, &l->changed);
    l->awaiting--;
}

static inline void lk_changed_locked(locker *l) LK_REQUIRES(l->mutex)
{
    if (l->awaiting > 0)
        pthread_cond_broadcast(&l->changed);
}
