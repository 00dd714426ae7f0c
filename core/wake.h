/* wake.h: waking who sleeps: a call, or the keeper. */
#pragma once

#include "state.h"

/** Wake the call up, if it sleeps, whether it leads or not; NULL is allowed. */
void lk_wake_call_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
void lk_wake_keeper_locked(locker *l) LK_REQUIRES(l->mutex);
/** The keeper, or the leader, is awake, and what woke it is read. */
void lk_wake_keeper_done_locked(locker *l) LK_REQUIRES(l->mutex);
/** Whether the leader was woken by us. */
bool lk_wake_leader_done_locked(locker *l) LK_REQUIRES(l->mutex);
