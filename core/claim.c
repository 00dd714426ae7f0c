/* claim.c: making and freeing claims, and what their state is. */
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "clock.h"

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

/* Nobody else knows it yet. */
LK_UNCHECKED lk_claim *lk_claim_new(const locker *l, const char *key, size_t key_len)
{
    const size_t start = sizeof(lk_claim) + l->driver->claim_size;
    lk_claim *claim = zero(malloc(start + key_len + 1), start);
    if (claim == NULL)
        return NULL;
    char *text = (char *)claim + start;
    memcpy(text, key, key_len);
    text[key_len] = '\0';
    claim->pub.key = text;
    claim->pub.data = claim->data;
    claim->pub.key_len = key_len;
    claim->pub.key_hash = locker_key_hash(key, key_len);
    claim->refs = 2; /* the driver's side, and the call's, which becomes its handle's */
    claim->heap_at = LK_NOT_IN_HEAP;
    atomic_init(&claim->valid_until, LOCKER_NEVER);
    atomic_init(&claim->suspect_at, LOCKER_NEVER);
    return claim;
}

void lk_claim_free(const locker *l, lk_claim *claim)
{
    if (claim->pub.owner != l->owner && claim->pub.owner != claim->owner)
        free((char *)(uintptr_t)claim->pub.owner);
    free(claim->owner);
    free(claim);
}

/* The clock is read before the deadline. So a LOST that is told stays true: whoever extends the lease later
 * reads a later time, sees that the deadline has passed, and leaves it. */
locker_state lk_claim_state(const locker *l, const lk_claim *claim)
{
    const uint8_t phase = atomic_load_explicit(&claim->phase, memory_order_relaxed);
    const int64_t until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);
    if (phase == LK_LOST)
        return LOCKER_STATE_LOST;
    if (phase == LK_GONE)
        return LOCKER_STATE_UNLOCKED;
    if (until != LOCKER_NEVER) {
        const int64_t now = lk_now(l);

        if (now >= atomic_load_explicit(&claim->valid_until, memory_order_relaxed))
            return LOCKER_STATE_LOST;
        if (claim->pub.renewed && (now >= atomic_load_explicit(&claim->suspect_at, memory_order_relaxed) ||
                                   atomic_load_explicit(&l->out_of_reach, memory_order_relaxed)))
            return LOCKER_STATE_SUSPECT;
    }
    return LOCKER_STATE_HELD;
}

const char *lk_lost_why_locked(const locker *l, const lk_claim *claim)
{
    (void)l;
    if (claim->lost_why != NULL)
        return claim->lost_why;
    return claim->pub.renewed ? "its lease could not be renewed in time"
                              : "its lease ended, and was not to be renewed";
}
