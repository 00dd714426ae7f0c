/* handle.h: handles, for the thread that tells them of a loss. */
#pragma once

#include "state.h"

/** Withdraw what was lost and tell its handles. Keeper, or closer after it. */
void lk_losses_tell_unlocking(locker *l) LK_REQUIRES(l->mutex);
