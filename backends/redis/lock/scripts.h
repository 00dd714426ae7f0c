/* scripts.h: the Lua that runs inside Redis (5 or later), one atomic step each. The texts are made of backends/redis/lua at build time.
 *
 * KEYS are the lock, its queue, the counter of its slot's fencing numbers and its info, as far as a script uses them (keys.c). The lock
 * is a plain string: the holder's value. The queue is a sorted set of the waiters in the order in which they came, each "instance value
 * ttl_ms numbers owner". A release hands the lock on to the first waiter that still listens: it sets the lock to the waiter's value, and
 * notifies the waiter's process on its own channel. So one release wakes one process, and no other client takes the lock in between. The
 * info is written by notes.c, and ends with the lock. A foreign client may have left any type of value under our names. */
#pragma once

typedef enum {
    LK_REDIS_SCRIPT_ACQUIRE,
    LK_REDIS_SCRIPT_RELEASE,
    LK_REDIS_SCRIPT_RENEW,
    LK_REDIS_SCRIPT_WAIT,
    LK_REDIS_SCRIPT_SHOW,
    LK_REDIS_SCRIPT_BREAK,
    LK_REDIS_SCRIPTS_LOADED, /* by each handshake; the others when they are used for the first time (requests.c) */
    LK_REDIS_SCRIPT_SHARED_ACQUIRE = LK_REDIS_SCRIPTS_LOADED,
    LK_REDIS_SCRIPT_SHARED_RELEASE,
    LK_REDIS_SCRIPT_SHARED_SHOW,
    LK_REDIS_SCRIPT_SHARED_BREAK,
    LK_REDIS_SCRIPT_COUNT
} lk_redis_script;

/* The scripts for a single server or a group with Sentinels; for a cluster, where WAIT has one more argument, the tag of its locks' slot;
 * and for a locker with `recovery` (recovery.c). */
extern const char *const lk_redis_one_text[LK_REDIS_SCRIPT_COUNT];
extern const char *const lk_redis_cluster_text[LK_REDIS_SCRIPT_COUNT];
extern const char *const lk_redis_recovery_text[LK_REDIS_SCRIPT_COUNT];

/* Scripts that are always sent as a text (EVAL). */
extern const char *const lk_redis_note_text;
extern const char *const lk_redis_recovery_meet_text;
extern const char *const lk_redis_migrating_drop_text;
extern const char *const lk_redis_migrating_extend_text;
