/* leader.h: who drives the driver while somebody waits. */
#pragma once

#include "state.h"

/** One call of driver.dispatch. Nobody else may be inside. */
void lk_dispatch_unlocking(locker *l) LK_REQUIRES(l->mutex);
/** Become the leader if there is none. Whether the call is. */
bool lk_leader_take_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
/** Let the keeper watch again, if the call leads. */
void lk_leader_leave_locked(locker *l, const lk_wait *wait) LK_REQUIRES(l->mutex);
/** The leader sleeps until the driver's descriptor is readable, until `until`, or until woken, and gives the driver its
 * turn. */
void lk_leader_sleep_unlocking(locker *l, int64_t until) LK_REQUIRES(l->mutex);
