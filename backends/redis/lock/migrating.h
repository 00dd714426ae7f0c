/* migrating.h: renewal and release of an exclusive lock in a hash slot that migrates, key by key, from one server of a Cluster to
 * another. The servers refuse a command of several keys while the source has some and the target has others (TRYAGAIN, ASK).
 * A command of one key finds its key. If the source answers that the key has gone (ASK), the driver asks the target behind
 * ASKING. It never does so without that answer: the command could create a second key of the same name at the target.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection
 *
 * A migration may take minutes, and leases do not last so long. So a holder's requests, each a script elsewhere, are sent as
 * one command for each key here. Attempts, queries and breaks are answered UNAVAILABLE until the slot has migrated. A release
 * hands the lock to no waiter; the first waiter is notified to try again. */
#pragma once

#include "instance.h"

/* As lk_redis_ask(), for one command of one key in that slot. ANSWERED also if the redirections do not end. */
lk_redis_outcome lk_redis_migrating_ask(lk_redis *r, uint16_t slot, lk_redis_call *call,
                                        const lk_redis_command *a, locker_error *err);

/* Send the command without waiting. `done` is called with the answer (NULL: there is none; also from inside this call) and with
 * the connection on which it came. */
typedef void (*lk_redis_migrating_done)(void *context, redisReply *reply, lk_redis_pipeline *on);
void lk_redis_migrating_submit_locked(lk_redis *r, uint16_t slot, const lk_redis_command *a,
                                      lk_redis_migrating_done done, void *context) LK_REDIS_LOCKED;
/* The lock was released: notify the first waiter of its queue to try. If that waiter has ended, the next waiter's poll finds the
 * lock free. */
void lk_redis_migrating_call_first_locked(lk_redis *r, uint16_t slot, lk_redis_keys *keys) LK_REDIS_LOCKED;
