/* claim.h: claims: what their state is, the keys that they are to, the FIFO of each key, and how long they last. */
#pragma once

#include "state.h"

lk_claim *lk_claim_new(const locker *l, const char *key, size_t key_len);
/** Free a claim that is alone. */
void lk_claim_free(const locker *l, lk_claim *claim);
locker_state lk_claim_state(const locker *l, const lk_claim *claim);
/** Why it was lost, for people. Static text. */
const char *lk_lost_why_locked(const locker *l, const lk_claim *claim) LK_REQUIRES(l->mutex);

/** The key that is spelled as that of the claim; NULL when it is not in use. */
lk_key *lk_key_find_locked(const locker *l, const locker_claim *of) LK_REQUIRES(l->mutex);
/** Find the claim's key, or make it. */
void lk_key_use_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** The first of the key's FIFO; NULL: nobody stands in it. */
static inline lk_claim *lk_fifo_first_locked(const locker *l, const lk_key *key) LK_REQUIRES(l->mutex)
{
    lk_list *const first = lk_list_first(&key->fifo);
    (void)l;
    return first == NULL ? NULL : LK_CONTAINER(first, lk_claim, link);
}
/** If nobody contends, and nobody holds it alone, let the first of the FIFO try. */
void lk_promote_locked(locker *l, lk_key *key) LK_REQUIRES(l->mutex);
/** The claim doesn't hold its key any more: the next one may try. */
void lk_key_free_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);

void lk_claim_unref_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** The driver has let go of a claim that was held: drop its reference, and see whether a single handle is left. */
void lk_claim_over_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
