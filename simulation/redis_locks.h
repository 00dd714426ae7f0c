/* redis_locks.h: what is seen of the driver's locks at simulated Redis servers, for runs with one (run_redis.c) and with a
 * cluster of them (run_redis_cluster.c): the keys, messages of hand-overs, marks of breaks, and what is left behind. */
#pragma once

#include <stdbool.h>

#include "redis/state.h"
#include "redis_service.h"

enum { LK_SIM_REDIS_KEYS = 3 };

/** Their names; a key's number is its first letter's. The first two have one hash slot. */
extern const char *const lk_sim_redis_key_names[LK_SIM_REDIS_KEYS];

/** `find`: the key of that name, wherever it is now. */
void lk_sim_redis_locks_begin(const lk_sr_key *(*find)(const char *name));

/** A message is about to be sent there. Answers whether it says that the key was handed to somebody, who has to take it or give
 * it back. */
bool lk_sim_redis_locks_told(const lk_sim_connection *connection, const char *text, unsigned *key);

/** A failover loses these commands, as a master sends them to its replica. */
void lk_sim_redis_locks_lose(lk_sr_text commands);

/** Whether any of those that were lost since this was asked last names the lock of that key, which is another one now, or may be. */
bool lk_sim_redis_locks_were_lost(unsigned key);

/** SET has put something there. */
void lk_sim_redis_locks_put(const char *name);

/** The server's clock was set, which ends that key. */
void lk_sim_redis_locks_expire(const char *name);

/** How many stand in the queue of that key. */
size_t lk_sim_redis_locks_waiters(unsigned key);

/** Whether that process is among the first LK_SIM_FIRST of them, and not behind them as well. */
bool lk_sim_redis_locks_is_first(unsigned key, int pid);

/** Somebody who takes a key by SET NX, keeps it until its lease is over, and shares no clock with anybody. His answer to `at` is
 * told to the judge. */
void lk_sim_redis_stranger(lk_sim_redis *at, bool is_asking, unsigned key, int64_t span_ms);

/** When nobody uses the server any more: a key that ought not to be there; NULL: there is none. Locks are given back, their queues are
 * empty, and what told of them is gone; counters stay, one for each slot. */
const char *lk_sim_redis_left(lk_sim_redis *redis, bool has_strangers);
