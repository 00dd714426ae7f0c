/* member.h: the name of a claim in a lock's queue: "instance value ttl_ms numbers owner". */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "claim.h"
#include "value.h"

enum { LK_REDIS_MEMBER_MAX = LK_REDIS_VALUE_LEN * 2 + LOCKER_OWNER_MAX + 32 };

static inline void lk_redis_member_text(const char *instance, const locker_claim *claim, const char *value,
                                        char out[LK_REDIS_MEMBER_MAX])
{
    (void)snprintf(out, LK_REDIS_MEMBER_MAX, "%s %s %" PRId64 " %u %.*s", instance, value,
                   claim->ttl_ns / LK_MS, (unsigned)lk_redis_claim_of(claim)->numbers, LOCKER_OWNER_MAX,
                   claim->owner);
}
