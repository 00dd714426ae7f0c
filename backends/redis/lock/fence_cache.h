/* fence_cache.h: which counters of fencing numbers are known to be at the server. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <locker/driver.h>

enum { LK_REDIS_FENCE_CACHE = 1024 /* keys whose counter is remembered to be there */ };

typedef struct {
    atomic_uint_least32_t mark[LK_REDIS_FENCE_CACHE]; /* relaxed: hints */
} lk_redis_fence_cache;

uint64_t lk_redis_fence_hash(const locker_claim *claim);
/* Whether the counter of the key with this hash is likely to be at the server. */
bool lk_redis_fence_known(const lk_redis_fence_cache *cache, uint64_t hash);
/* It is there. */
void lk_redis_fence_seen(lk_redis_fence_cache *cache, uint64_t hash);
