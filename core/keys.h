/* keys.h: the keys in use, and the FIFO of each. */
#pragma once

#include "state.h"

/** The key that is spelled as that of the claim; NULL when it is not in use. */
lk_key *lk_key_find_locked(const locker *l, const locker_claim *of) LK_REQUIRES(l->mutex);
/** Find the claim's key, or make it. */
void lk_key_use_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** One claim less. Frees the one that the key lived in, when it waited for that. */
void lk_key_drop_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
void lk_fifo_append_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
void lk_fifo_remove_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** Nobody contends or holds: let the first of the FIFO try. */
void lk_promote_locked(locker *l, lk_key *key) LK_REQUIRES(l->mutex);

/** NULL: nobody stands in it. */
static inline lk_claim *lk_fifo_first_locked(const locker *l, const lk_key *key) LK_REQUIRES(l->mutex)
{
    lk_list *const first = lk_list_first(&key->fifo);
    (void)l;
    return first == NULL ? NULL : LK_CONTAINER(first, lk_claim, link);
}
