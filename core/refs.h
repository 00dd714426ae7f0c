/* refs.h: how long a claim lasts. */
#pragma once

#include "state.h"

/** Drop one reference. */
void lk_claim_unref_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** The driver has let go of a claim that was held: drop its reference, and see whether a single handle is left. */
void lk_claim_over_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
