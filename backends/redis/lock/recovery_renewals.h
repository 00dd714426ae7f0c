/* recovery_renewals.h: with recovery (recovery.h), the command of renewals. */
#pragma once

#include "instance.h"

/* It is of locks that may have to be set again (`shares`: by several who hold them); the most that it takes for one, and its end. */
size_t lk_redis_recovery_room(const lk_redis *r, const locker_claim *claim);
char *lk_redis_recovery_put_locked(lk_redis *r, const lk_redis_renewed *slots, size_t count, bool shares,
                                   const char *script, bool whole, char *out) LK_REDIS_LOCKED;
