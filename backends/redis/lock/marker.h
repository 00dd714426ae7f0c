/* marker.h: what the key of a lock says that several hold (lua/sets.lua). */
#pragma once

#include "claim.h"

enum { LK_REDIS_MARKER_MAX = 2 * LK_REDIS_NUMBER_MAX + 2 };

/* What the lock's key says of the set that the grant is in. */
void lk_redis_marker_text(const locker_claim *grant, char out[LK_REDIS_MARKER_MAX]);

/* What `value` of a lock's key says. False: it is no marker. */
typedef struct {
    uint64_t epoch;
    int32_t permits; /* 0: it is shared */
} lk_redis_marker;
bool lk_redis_marker_read(const char *value, lk_redis_marker *marker);
