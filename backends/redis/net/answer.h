/* answer.h: how the answer to a command reaches whoever sent it. */
#pragma once

#include <stdbool.h>

#include <hiredis/hiredis.h>

/* The replies of a flight that may come before its last. */
enum { LK_REDIS_EARLY_MAX = 2 };

/* For a command that nobody waits for: called with the mutex. reply NULL: the connection was lost. */
typedef void (*lk_redis_done)(void *context, redisReply *reply);

/* A thread that waits for its answer, and can be interrupted meanwhile. All zero at first; guarded by the mutex. */
typedef struct {
    struct lk_redis_op *op; /* what it waits for; NULL: for nothing */
    bool interrupted;
} lk_redis_caller;

typedef enum {
    LK_REDIS_CALL_ANSWERED,
    LK_REDIS_CALL_CUT,         /* sent, or perhaps sent; the connection was lost */
    LK_REDIS_CALL_LATE,        /* sent, no answer by `until` */
    LK_REDIS_CALL_AWAY,        /* not sent: no connection by `until`, or `prompt`; err says why */
    LK_REDIS_CALL_REFUSED,     /* not sent: connecting fails for good; err says why */
    LK_REDIS_CALL_INTERRUPTED, /* sent or not; see `sent` */
    LK_REDIS_CALL_STALE,       /* not sent: the connection that it is for is gone */
    LK_REDIS_CALL_NOMEM
} lk_redis_outcome;
