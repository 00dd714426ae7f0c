/* claim.h: making and freeing claims, and what their state is. */
#pragma once

#include "state.h"

/** Zeroed memory, or NULL. */
void *lk_zalloc(size_t size);
lk_claim *lk_claim_new(const locker *l, const char *key, size_t key_len);
/** Free a claim that is alone. */
void lk_claim_free(const locker *l, lk_claim *claim);
locker_state lk_claim_state(const locker *l, const lk_claim *claim);
/** Why it was lost, for people. Static text. */
const char *lk_lost_why_locked(const locker *l, const lk_claim *claim) LK_REQUIRES(l->mutex);
