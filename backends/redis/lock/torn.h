/* torn.h: a slot that is on its way from one server of a cluster to another, key by key. A command of several keys is refused
 * there as long as some are here and some there (TRYAGAIN, ASK); one of one key finds its key, or the place where it is to
 * be: where its server says that it has gone (ASK), the other one is asked, behind ASKING, and never without having been told
 * so, or a second key of that name would stand in the way of the first.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection
 *
 * So in such a slot what is one script elsewhere is one command for each key here, in an order in which none that is missing
 * does harm: the number of a grant comes after its lock; nothing is handed on, and who waits polls. Waiting until the slot has
 * moved would not do: a migration may take minutes, and leases do not last so long. */
#pragma once

#include "instance.h"

/* As lk_redis_ask(), one command of one key in that slot. ANSWERED also where it was sent around in vain. `at`: who was asked
 * last. */
lk_redis_outcome lk_redis_torn_ask_at(lk_redis *r, uint16_t slot, lk_redis_call *call,
                                      const lk_redis_command *a, lk_redis_node **at, locker_error *err);
lk_redis_outcome lk_redis_torn_ask(lk_redis *r, uint16_t slot, lk_redis_call *call, const lk_redis_command *a,
                                   locker_error *err);

/* The same for nobody who waits: `done` is called with the answer (NULL: none, also from inside the call), and with the
 * connection on which it came. */
typedef void (*lk_redis_torn_done)(void *context, redisReply *reply, lk_redis_pipeline *on);
void lk_redis_torn_submit_locked(lk_redis *r, uint16_t slot, const lk_redis_command *a,
                                 lk_redis_torn_done done, void *context) LK_REDIS_LOCKED;
/* The lock was given back: the first of its queue is asked to come for it. If that one has gone, who comes next looks. */
void lk_redis_torn_call_first_locked(lk_redis *r, uint16_t slot, lk_redis_keys *keys) LK_REDIS_LOCKED;
