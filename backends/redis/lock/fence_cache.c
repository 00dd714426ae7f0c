/*
 * fence_cache.c: which counters of fencing numbers are known to be at the server.
 *
 * A counter that isn't there has to be started before it is counted up, which is a command of its own. So it
 * is remembered of the keys that were used lately that theirs is there. That is a hint and no more: a counter
 * that was lost meanwhile answers with a number that is too low, and is lifted (acquire.c).
 */
#include "internal.h"

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
uint64_t lk_counter_hash(const locker_claim *claim)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < claim->key_len; i++)
        hash = (hash ^ (unsigned char)claim->key[i]) * UINT64_C(1099511628211);
    return hash;
}

/* What stands in the table for a key, and never is 0. */
static uint32_t mark_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

bool lk_counter_known(const struct lk_redis *r, uint64_t hash)
{
    return atomic_load_explicit(&r->counters[hash % LK_COUNTERS], memory_order_relaxed) == mark_of(hash);
}

void lk_counter_seen(struct lk_redis *r, uint64_t hash)
{
    if (!lk_counter_known(r, hash)) /* a write would take the line from other processors' caches */
        atomic_store_explicit(&r->counters[hash % LK_COUNTERS], mark_of(hash), memory_order_relaxed);
}
