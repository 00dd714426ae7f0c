/* cleanup.h: what goes on without a caller. */
#pragma once

#include "instance.h"

/* What is given back: a lock; one whose info the server was told, which goes too; a place among those who share it. */
typedef enum { LK_REDIS_UNNOTED, LK_REDIS_NOTED, LK_REDIS_SHARING } lk_redis_given_back;

/* The lock that has that value, and the place in the queue of `queued` (NULL: none), are wanted by
 * nobody here any more. Takes the keys over, also when memory runs out. The caller pumps. */
void lk_redis_cleanup_start_locked(lk_redis *r, lk_redis_keys *keys, uint16_t slot, uint64_t value,
                                   lk_redis_given_back what, const locker_claim *queued) LK_REDIS_LOCKED;
/* Send what is due; answers when there is more to do. */
int64_t lk_redis_cleanups_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
/* Of an instance that nothing else uses any more. */
void lk_redis_cleanups_free(lk_redis *r) LK_UNCHECKED;
