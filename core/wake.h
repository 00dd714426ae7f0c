/* wake.h: waking who sleeps: a call, the keeper, or who waits for a change; and who gives the driver its turns. */
#pragma once

#include "state.h"

/** Sleep until the locker changes: no call is in flight any more, or an operation or a callback has ended. */
static inline void lk_await_unlocking(locker *l) LK_REQUIRES(l->mutex)
{
    l->awaiting++;
    lk_mutex_wait(&l->mutex, &l->changed);
    l->awaiting--;
}

/** It is told only when somebody waits, which is seldom. */
static inline void lk_changed_locked(locker *l) LK_REQUIRES(l->mutex)
{
    if (l->awaiting > 0)
        pthread_cond_broadcast(&l->changed);
}

/** Wake the call up, if it sleeps, whether it leads or not; NULL is allowed. */
void lk_wake_call_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
void lk_wake_keeper_locked(locker *l) LK_REQUIRES(l->mutex);

/** One call of driver.dispatch. Nobody else may be inside. */
void lk_dispatch_unlocking(locker *l) LK_REQUIRES(l->mutex);
/** Become the leader if there is none. Whether the call is. */
bool lk_leader_take_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
/** Let the keeper watch again, if the call leads. */
void lk_leader_leave_locked(locker *l, const lk_wait *wait) LK_REQUIRES(l->mutex);
/** The leader sleeps until the driver's descriptor is readable, `until`, or woken, and gives the driver its turn. */
void lk_leader_sleep_unlocking(locker *l, int64_t until) LK_REQUIRES(l->mutex);
