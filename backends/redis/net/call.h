/* call.h: commands: of callers that wait for their answers, and of nobody. */
#pragma once

#include "owner.h"
#include "shared.h"

typedef struct {
    int64_t until;
    lk_redis_caller *caller; /* NULL: can't be interrupted */
    unsigned only;           /* the connection that it is to be sent on, else STALE; 0: any */
    bool prompt;             /* AWAY at once where nothing listens */
    /* results */
    redisReply *reply; /* ANSWERED: free with freeReplyObject() */
    /* of the commands before the last: free with lk_redis_call_clear() */
    redisReply *early[LK_REDIS_EARLY_MAX];
    int64_t sent;      /* a time before it was sent; 0: it was not */
    unsigned on;       /* the connection that it was sent on ... */
    unsigned era;      /* ... its era ... */
    int64_t server_us; /* ... and the server's time when that was made; 0: not known */
} lk_redis_call;

/* Send one command and wait for its answer. Without the mutex. */
lk_redis_outcome lk_redis_ask(lk_redis_net *net, lk_redis_call *call, const lk_redis_command *a,
                              locker_error *err);
/* The same for up to LK_REDIS_EARLY_MAX + 1 commands in one flight: they reach the server one right behind the other. */
lk_redis_outcome lk_redis_ask_flight(lk_redis_net *net, lk_redis_call *call, const lk_redis_command *a,
                                     size_t count, locker_error *err);
/* Free the replies of a flight. */
void lk_redis_call_clear(lk_redis_call *call);
/* Have who waits return INTERRUPTED, now or once it comes to wait. */
void lk_redis_interrupt_locked(lk_redis_net *net, lk_redis_caller *caller) LK_REDIS_LOCKED;

/* Room for a command of that length at most, to be put there and submitted. NULL when there is no connection, or no
 * memory. */
char *lk_redis_room_locked(lk_redis_net *net, size_t len) LK_REDIS_LOCKED;
/* Send the command that was put there and ends at `end`, without waiting; `done` may be NULL. False when there is no
 * memory: nothing was done. */
bool lk_redis_submit_locked(lk_redis_net *net, const char *end, lk_redis_done done,
                            void *context) LK_REDIS_LOCKED;
/* Both in one. */
bool lk_redis_submit_command_locked(lk_redis_net *net, const lk_redis_command *a, lk_redis_done done,
                                    void *context) LK_REDIS_LOCKED;
/* Send what was appended, and see to it that somebody reads the answers. */
void lk_redis_pump_unlocking(lk_redis_net *net) LK_REDIS_LOCKED;
