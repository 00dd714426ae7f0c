/* cancel.h: ending waits from outside. */
#pragma once

#include "state.h"

/** Let the keeper watch the cancel of a call. False: the system lacks something. */
bool lk_cancel_watch_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
void lk_cancel_unwatch_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
/** Tell calls that wait: all of them (cancel NULL: closing) or those with this cancel. Keeper or closer. */
void lk_interrupt_unlocking(locker *l, const locker_cancel *cancel) LK_REQUIRES(l->mutex);
