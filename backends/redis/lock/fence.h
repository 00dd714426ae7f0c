/* fence.h: what the numbers of grants are made from.
 *
 * A counter of numbers has to be above the server's time when the connection was made. One that is not may lack numbers
 * that were given out before: the server may have been restarted or made master since. It is lifted to that time, once
 * for each counter and connection.
 *
 * A counter that isn't there has to be started at the server's time, which takes a script. So it is remembered of the
 * keys that were used lately that theirs is there. That is a hint and no more: a counter that was lost meanwhile answers
 * with a number that is too low, and is lifted (acquire.c). */
#pragma once

#include "lk_atomic.h"
#include "net/command.h"

#define LK_REDIS_FENCE_MOST (UINT64_C(1) << 53) /* numbers stay below it: Lua's doubles hold them exactly */

enum {
    LK_REDIS_FENCE_CACHE = 1024, /* keys whose counter is remembered to be there */
    LK_REDIS_FENCE_DIGITS = 16   /* of the numbers */
};

typedef struct {
    /* What a counter has to be above, for every script, as its digits. Written before the connection's count is; relaxed:
     * one that is read while it changes is for a connection that is gone, and not sent. (Nobody reads it before there was
     * the first.) */
    atomic_uint_least64_t least[LK_REDIS_FENCE_DIGITS / sizeof(uint64_t)];
    atomic_uint_least32_t known[LK_REDIS_FENCE_CACHE]; /* by their keys' hashes; relaxed: hints */
} lk_redis_fences;

/* `server_us`: that time; 0: it is not known, and all are lifted. */
static inline uint64_t lk_redis_fence_least(int64_t server_us)
{
    return server_us > 0 ? (uint64_t)server_us : LK_REDIS_FENCE_MOST;
}

/* Scripts are told that time from now on. */
void lk_redis_fences_set_least(lk_redis_fences *fences, int64_t server_us);

/* It as text, for a script: it stands in `text`. */
static inline const char *lk_redis_fence_least_text(const lk_redis_fences *fences,
                                                    char text[LK_REDIS_FENCE_DIGITS + 1])
{
    for (size_t i = 0; i < sizeof fences->least / sizeof *fences->least; i++) {
        const uint64_t digits = LK_READ(fences->least[i]);
        memcpy(text + i * sizeof digits, &digits, sizeof digits);
    }
    text[LK_REDIS_FENCE_DIGITS] = '\0';
    return text;
}

/* What stands in the table for a key, and never is 0. */
static inline uint32_t lk_redis_fence_mark(uint32_t hash)
{
    return hash | 1;
}

/* Whether the counter of the key with this hash is likely to be at the server. */
static inline bool lk_redis_fence_known(const lk_redis_fences *fences, uint32_t hash)
{
    return LK_READ(fences->known[hash % LK_REDIS_FENCE_CACHE]) == lk_redis_fence_mark(hash);
}

/* It is there. */
static inline void lk_redis_fence_seen(lk_redis_fences *fences, uint32_t hash)
{
    if (!lk_redis_fence_known(fences, hash)) /* a write would take the line from other processors' caches */
        LK_WRITE(fences->known[hash % LK_REDIS_FENCE_CACHE], lk_redis_fence_mark(hash));
}
