/* fence.c: see fence.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fence.h"

void lk_redis_fences_set_least(lk_redis_fences *fences, int64_t server_us)
{
    const uint64_t time = lk_redis_fence_least(server_us);
    const uint64_t least = time < LK_REDIS_FENCE_MOST ? time : LK_REDIS_FENCE_MOST;
    char text[LK_REDIS_FENCE_DIGITS + 1];
    (void)snprintf(text, sizeof text, "%0*" PRIu64, LK_REDIS_FENCE_DIGITS, least);
    for (size_t i = 0; i < sizeof fences->least / sizeof *fences->least; i++) {
        uint64_t digits;
        memcpy(&digits, text + i * sizeof digits, sizeof digits);
        LK_WRITE(fences->least[i], digits);
    }
    for (size_t i = 0; i < sizeof fences->lifted / sizeof *fences->lifted; i++)
        LK_WRITE(fences->lifted[i], 0);
}
