/* loss.h: telling what was lost. */
#ifndef LK_LOSS_H
#define LK_LOSS_H

#include "state.h"

/** Withdraw what was lost and tell its handles. Keeper, or closer after it. */
void lk_losses_tell_unlocking(locker *l) LK_REQUIRES(l->mutex);

#endif
