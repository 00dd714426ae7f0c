/* marker.c: see marker.h. */
#include <inttypes.h>
#include <stdio.h>

#include "marker.h"

void lk_redis_marker_text(const locker_claim *grant, char out[LK_REDIS_MARKER_MAX])
{
    const uint64_t epoch = lk_redis_claim_of(grant)->epoch;
    if (grant->permits > 0)
        (void)snprintf(out, LK_REDIS_MARKER_MAX, "P%" PRIu64 "/%d", epoch, (int)grant->permits);
    else
        (void)snprintf(out, LK_REDIS_MARKER_MAX, "S%" PRIu64, epoch);
}

bool lk_redis_marker_read(const char *value, lk_redis_marker *marker)
{
    const char *at = value + 1;
    int64_t epoch, permits = 0;
    const bool shared = value[0] == 'S' && lk_redis_read_number(&at, '\0', &epoch);
    const bool counted = value[0] == 'P' && lk_redis_read_number(&at, '/', &epoch) &&
                         lk_redis_read_number(&at, '\0', &permits) && permits > 0 &&
                         permits <= LOCKER_PERMITS_MAX;
    if (!shared && !counted)
        return false;
    *marker = (lk_redis_marker){(uint64_t)epoch, (int32_t)permits};
    return true;
}
