/*
 * fence_cache.c: see fence_cache.h.
 *
 * A counter that isn't there has to be started before it is counted up, which is a command of its own. So it
 * is remembered of the keys that were used lately that theirs is there. That is a hint and no more: a counter
 * that was lost meanwhile answers with a number that is too low, and is lifted (acquire.c).
 */
#include "fence_cache.h"

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
uint64_t lk_redis_fence_hash(const locker_claim *claim)
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

bool lk_redis_fence_known(const lk_redis_fence_cache *cache, uint64_t hash)
{
    return atomic_load_explicit(&cache->mark[hash % LK_REDIS_FENCE_CACHE], memory_order_relaxed) ==
           mark_of(hash);
}

void lk_redis_fence_seen(lk_redis_fence_cache *cache, uint64_t hash)
{
    if (!lk_redis_fence_known(cache, hash)) /* a write would take the line from other processors' caches */
        atomic_store_explicit(&cache->mark[hash % LK_REDIS_FENCE_CACHE], mark_of(hash), memory_order_relaxed);
}
