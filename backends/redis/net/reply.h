/* reply.h: what a server's answer means. */
#pragma once

#include <hiredis/hiredis.h>
#include <lk_error.h>

typedef enum {
    LK_REDIS_FAULT_NONE,
    LK_REDIS_FAULT_NOSCRIPT,  /* EVAL with the text */
    LK_REDIS_FAULT_TRANSIENT, /* LOADING and the like: again in a moment */
    LK_REDIS_FAULT_MOVED,     /* READONLY, MOVED: another server is the master */
    LK_REDIS_FAULT_MIGRATING, /* ASK, TRYAGAIN: the slot is moving to another server */
    LK_REDIS_FAULT_DENIED,    /* NOAUTH, WRONGPASS, NOPERM */
    LK_REDIS_FAULT_REFUSED,   /* OOM, MISCONF, NOREPLICAS: it can't write now */
    LK_REDIS_FAULT_DATA,      /* NOLOCK, of scripts of ours: the lock's key holds an application's data */
    LK_REDIS_FAULT_OTHER      /* anything else */
} lk_redis_fault;

lk_redis_fault lk_redis_reply_fault(const redisReply *reply);
/* True for an error that says that a command is not there, by a script or at the top: it was renamed. */
bool lk_redis_reply_is_unknown_command(const redisReply *reply);
/* Fill err with what a reply that is none of those expected means for the user; `doing` completes "while ...". */
locker_status lk_redis_reply_error(const redisReply *reply, const char *doing, locker_error *err);

/* TIME's answer in us; false when it is none. */
bool lk_redis_reply_time(const redisReply *reply, int64_t *us);
