/* cleanup.h: what goes on without a caller. */
#pragma once

#include "instance.h"

/* The lock that has that value, its info if it was noted, and the place in the queue of `queued` (NULL: none), are wanted by
 * nobody here any more. Takes the keys over, also when memory runs out. The caller pumps. */
void lk_redis_cleanup_start_locked(lk_redis *r, lk_redis_keys *keys, uint16_t slot, uint64_t value,
                                   bool noted, const locker_claim *queued) LK_REDIS_LOCKED;
/* Send what is due; answers when there is more to do. */
int64_t lk_redis_cleanups_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
/* Of an instance that nothing else uses any more. */
void lk_redis_cleanups_free(lk_redis *r) LK_UNCHECKED;
