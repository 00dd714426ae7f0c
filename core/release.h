/* release.h: giving a grant back. */
#pragma once

#include "state.h"

/** The last handle of a grant is being unlocked: hand it over, or have it released. */
locker_status lk_release_unlocking(locker *l, lk_claim *claim, int64_t now, locker_error *err)
    LK_REQUIRES(l->mutex);
/** Release a grant in the background, without an answer. */
void lk_let_go_unlocking(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** LOST, with the text for an unlock that came too late. */
locker_status lk_told_lost_locked(const locker *l, const lk_claim *claim, locker_error *err)
    LK_REQUIRES(l->mutex);
