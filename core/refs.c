/* refs.c: how long a claim lasts: until nothing refers to it, and no claim to its key is left if the key lives in it.
 * Its model is models/handover.pml. */
#include "refs.h"
#include "claim.h"
#include "keys.h"

void lk_claim_unref_locked(locker *l, lk_claim *claim)
{
    if (--claim->refs > 0)
        return;
    if (claim->key != NULL)
        lk_key_drop_locked(l, claim);
    if (claim->own_key.users == 0)
        lk_claim_free(l, claim);
}

void lk_claim_over_locked(locker *l, lk_claim *claim)
{
    if (claim->refs == 2) {
        lk_key_drop_locked(l, claim);
        claim->key = NULL;
        if (claim->own_key.users == 0)
            atomic_store_explicit(&claim->alone, true, memory_order_release);
    }
    lk_claim_unref_locked(l, claim);
}
