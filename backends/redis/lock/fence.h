/* fence.h: what the numbers of grants are made from: a counter for each hash slot, which all locks of the slot share. So
 * however many keys are ever locked, there are no more than 16,384 counters, and none of them has to expire.
 *
 * A counter of numbers has to be above the server's time when the connection was made. One that is not may lack numbers
 * that were given out before: the server may have been restarted or made master since. It is lifted to that time, which
 * takes a script, once for each counter and connection. So it is remembered which were seen to be above it. That is a hint
 * and no more: a counter that was lost meanwhile answers with a number that is too low, and is lifted (acquire.c). */
#pragma once

#include "lk_atomic.h"
#include "net/command.h"
#include "slot.h"

#define LK_REDIS_FENCE_MOST (UINT64_C(1) << 53) /* numbers stay below it: Lua's doubles hold them exactly */

enum { LK_REDIS_FENCE_DIGITS = 16 /* of the numbers */ };

typedef struct {
    /* What a counter has to be above, for every script, as its digits. Written before the connection's count is; relaxed:
     * one that is read while it changes is for a connection that is gone, and not sent. (Nobody reads it before there was
     * the first.) */
    atomic_uint_least64_t least[LK_REDIS_FENCE_DIGITS / sizeof(uint64_t)];
    atomic_uint_least32_t lifted[LK_REDIS_SLOTS / 32]; /* a bit for each slot's; relaxed: hints */
} lk_redis_fences;

/* `server_us`: that time; 0: it is not known, and all are lifted. */
static inline uint64_t lk_redis_fence_least(int64_t server_us)
{
    return server_us > 0 ? (uint64_t)server_us : LK_REDIS_FENCE_MOST;
}

/* Scripts are told that time from now on, and no counter is known to be above it. */
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

/* Whether the slot's counter is likely to be above that time. */
static inline bool lk_redis_fence_is_lifted(const lk_redis_fences *fences, uint16_t slot)
{
    return (LK_READ(fences->lifted[slot / 32]) >> slot % 32 & 1) != 0;
}

/* It is. */
static inline void lk_redis_fence_seen(lk_redis_fences *fences, uint16_t slot)
{
    if (!lk_redis_fence_is_lifted(fences,
                                  slot)) /* a write would take the line from other processors' caches */
        atomic_fetch_or_explicit(&fences->lifted[slot / 32], UINT32_C(1) << slot % 32, memory_order_relaxed);
}
