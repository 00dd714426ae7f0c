/* claim.c: making, counting and freeing claims, and what their state is. Its model is models/handover.pml. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A function of its own, or compilers turn malloc and memset into calloc, which glibc before 2.41 serves
 * without its per-thread cache: 25 ns more for each block. */
__attribute__((noinline)) static void *zero(void *memory, size_t size)
{
    return memory == NULL ? NULL : memset(memory, 0, size);
}

void *lk_zalloc(size_t size)
{
    return zero(malloc(size), size);
}

lk_claim *lk_claim_new(const locker *l, const char *key, size_t key_len)
{
    size_t size =
        offsetof(lk_claim, pub) + ((sizeof(locker_claim) + 15) & ~(size_t)15) + l->driver->claim_size;
    size_t start = size < sizeof(lk_claim) ? sizeof(lk_claim) : size;
    lk_claim *claim = zero(malloc(start + key_len + 1), start);
    char *text;

    if (claim == NULL)
        return NULL;
    text = (char *)claim + start;
    memcpy(text, key, key_len);
    text[key_len] = '\0';
    claim->pub.key = text;
    claim->pub.key_len = key_len;
    claim->pub.key_hash = locker_key_hash(key, key_len);
    claim->refs = 2; /* the driver's side, and the call's, which becomes its handle's */
    claim->heap_at = LK_NOT_IN_HEAP;
    atomic_init(&claim->valid_until, LOCKER_NEVER);
    atomic_init(&claim->suspect_at, LOCKER_NEVER);
    return claim;
}

void lk_claim_unref_locked(locker *l, lk_claim *claim)
{
    if (--claim->refs > 0)
        return;
    if (claim->key != NULL)
        lk_key_drop_locked(l, claim);
    if (claim->own_key.users == 0)
        lk_claim_free(l, claim);
}

void lk_claim_free(const locker *l, lk_claim *claim)
{
    if (claim->pub.owner != l->owner && claim->pub.owner != claim->owner)
        free((char *)(uintptr_t)claim->pub.owner);
    free(claim->owner);
    free(claim);
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

void lk_withdraw_locked(locker *l, lk_claim *claim)
{
    lk_busy_begin_locked(l, claim, LK_IN_RELEASE);
    (void)pthread_mutex_unlock(&l->mutex);
    l->driver->withdraw(l->self, &claim->pub);
    (void)pthread_mutex_lock(&l->mutex);
    lk_busy_end_locked(l, claim);
    memset(locker_claim_private(&claim->pub), 0, l->driver->claim_size);
    claim->pub.granted_at = 0;
}

/* ------------------------------------------------------------------ state ---- */

/* The clock is read before the deadline. So a LOST that is told stays true: whoever extends the lease later
 * reads a later time, sees that the deadline has passed, and leaves it. */
locker_state lk_claim_state(const locker *l, const lk_claim *claim)
{
    uint8_t phase = atomic_load_explicit(&claim->phase, memory_order_relaxed);
    int64_t until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);

    if (phase == LK_LOST)
        return LOCKER_STATE_LOST;
    if (phase == LK_GONE)
        return LOCKER_STATE_UNLOCKED;
    if (until != LOCKER_NEVER) {
        int64_t now = lk_now(l);

        if (now >= atomic_load_explicit(&claim->valid_until, memory_order_relaxed))
            return LOCKER_STATE_LOST;
        if (claim->pub.renewed && (now >= atomic_load_explicit(&claim->suspect_at, memory_order_relaxed) ||
                                   atomic_load_explicit(&l->out_of_reach, memory_order_relaxed)))
            return LOCKER_STATE_SUSPECT;
    }
    return LOCKER_STATE_HELD;
}

const char *lk_lost_why(const lk_claim *claim)
{
    if (claim->lost_why != NULL)
        return claim->lost_why;
    return claim->pub.renewed ? "its lease could not be renewed in time"
                              : "its lease ended, and was not to be renewed";
}
