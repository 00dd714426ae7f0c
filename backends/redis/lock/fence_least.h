/*
 * fence_least.h: what a counter of fencing numbers has to be above: the server's time when the connection was made. One
 * that is not may lack numbers that were given out before: the server may have been restarted or made master since. It
 * is lifted to that time, once for each counter and connection.
 */
#pragma once

#include <stdatomic.h>

#include "net/command.h"

#define LK_REDIS_FENCE_MOST (UINT64_C(1) << 53) /* numbers stay below it: Lua's doubles hold them exactly */

enum { LK_REDIS_LEAST_WORDS = 3 /* of 8 bytes: 20 digits and a NUL */ };

/* It as text, for every script, in words that are copied without the mutex. Written before the connection's count is;
 * relaxed: one that is made while they change is for a connection that is gone, and not sent. */
typedef struct {
    atomic_uint_fast64_t word[LK_REDIS_LEAST_WORDS];
} lk_redis_fence_least;

typedef struct {
    uint64_t word[LK_REDIS_LEAST_WORDS];
} lk_redis_least_text;

/* `server_us`: that time; 0: it is not known, and all are lifted. */
static inline uint64_t lk_redis_fence_least_of(int64_t server_us)
{
    return server_us > 0 ? (uint64_t)server_us : LK_REDIS_FENCE_MOST;
}

static inline void lk_redis_fence_least_set(lk_redis_fence_least *least, int64_t server_us)
{
    uint64_t words[LK_REDIS_LEAST_WORDS] = {0};
    (void)lk_redis_number_text((char *)words, lk_redis_fence_least_of(server_us));
    for (size_t i = 0; i < LK_REDIS_LEAST_WORDS; i++)
        atomic_store_explicit(&least->word[i], words[i], memory_order_relaxed);
}

/* The text, ended by a NUL; it stands in `copy`. */
static inline const char *lk_redis_fence_least_text(const lk_redis_fence_least *least,
                                                    lk_redis_least_text *copy)
{
    for (size_t i = 0; i < LK_REDIS_LEAST_WORDS; i++)
        copy->word[i] = atomic_load_explicit(&least->word[i], memory_order_relaxed);
    return (const char *)copy->word;
}
