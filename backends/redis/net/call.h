/* call.h: commands: of callers that wait for their answers, and of nobody. */
#pragma once

#include "pipeline.h"

typedef struct {
    int64_t until;
    lk_redis_caller *caller; /* NULL: can't be interrupted */
    unsigned only;           /* the connection that it is to be sent on, else STALE; 0: any */
    unsigned map; /* of a cluster: what `maps` was when the server was chosen; 0: there is one alone */
    bool prompt;  /* AWAY at once where nothing listens */
    bool patient; /* asked again: it waits for the back-off where there is no connection */
    /* results */
    redisReply *replies[LK_REDIS_FLIGHT_MAX]; /* of a flight: free with lk_redis_call_clear() */
    redisReply *reply; /* ANSWERED: the last of them; of one command: freeReplyObject() */
    int64_t sent;      /* a time before it was sent; 0: it was not */
    unsigned on;       /* the connection that it was sent on ... */
    unsigned era;      /* ... its era ... */
    int64_t server_us; /* ... and the server's time when that was made; 0: not known */
} lk_redis_call;

/* Send up to LK_REDIS_FLIGHT_MAX commands in one flight (they reach the server one right behind the other), and wait for
 * their answers. Without the mutex. */
lk_redis_outcome lk_redis_ask(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a,
                              size_t count, locker_error *err);
void lk_redis_call_clear(lk_redis_call *call);

/* The same for one command in two steps: append it, if there is a connection now (NULL: there is none, or no memory); and wait for
 * the answer, without the mutex. */
lk_redis_op *lk_redis_call_begin_locked(lk_redis_pipeline *p, lk_redis_call *call,
                                        const lk_redis_command *a) LK_REDIS_LOCKED;
lk_redis_outcome lk_redis_call_end(lk_redis_pipeline *p, lk_redis_call *call, lk_redis_op *op);
/* Return the answer to a command that was begun and that nobody waits for yet, or NULL: there is none. *cut: there will be none. The
 * answer belongs to the op; lk_redis_op_free_locked() frees both. Without the mutex, by the thread that will wait. */
const redisReply *lk_redis_call_peek(const lk_redis_op *op, bool *cut);

/* Append a command without waiting, as lk_redis_submit_locked() (pipeline.h). */
bool lk_redis_submit_command_locked(lk_redis_pipeline *p, const lk_redis_command *a, lk_redis_done done,
                                    void *context) LK_REDIS_LOCKED;
