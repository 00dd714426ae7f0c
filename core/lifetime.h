/* lifetime.h: how long a locker's memory lasts: until it is closed and its last handle is freed. */
#pragma once

#include "config.h"
#include "state.h"

/** NULL: no memory. */
locker *lk_locker_new(const lk_config *config, const locker_options *options, const locker_clock *clock);
/** Of one that was never given out. */
void lk_locker_free(locker *l);
/** One handle less. */
void lk_handle_gone(locker *l) LK_EXCLUDES(l->mutex);
/** The user's reference goes; calls can begin no more. */
void lk_user_gone(locker *l) LK_EXCLUDES(l->mutex);
