/* recovery_renewals.h: with recovery (recovery.h), the command of renewals. */
#pragma once

#include "instance.h"

/* Return the most bytes that a claim takes of the command. */
size_t lk_redis_recovery_room(const lk_redis *r, const locker_claim *claim);
/* Put the command that extends these leases, and sets the locks again where the server lost them. Return its end. */
char *lk_redis_recovery_put_locked(lk_redis *r, const lk_redis_renewed *slots, size_t count,
                                   const char *script, bool whole, char *out) LK_REDIS_LOCKED;
