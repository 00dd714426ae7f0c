/* owner.h: what the floor tells whoever it works for. */
#pragma once

#include "command.h"

typedef struct lk_redis_net lk_redis_net; /* the floor (net.h) */

/* A command connection that has come up. */
typedef struct {
    int64_t server_us; /* the server's time, in us; 0: it does not tell */
    int64_t server_at; /* ... and when it was that, on the instance's clock */
    /* Another server than the one before, or it isn't known: a restart, or a replica that was made master, is another,
     * and so is one that does not tell who it is. */
    bool other;
    bool again; /* there was on_down before */
} lk_redis_up;

/* What its owner is told, with the mutex. */
typedef struct {
    /* Commands that are submitted meanwhile come before all others. Ends by lk_redis_net_admit_unlocking() (net.h). */
    void (*on_up)(void *owner, const lk_redis_up *up);
    void (*on_down)(void *owner);
    /* There is a subscription, or it is refused for good: messages were missed. */
    void (*on_subscribed)(void *owner);
    void (*on_message)(void *owner, const redisReply *text);
    /* lk_redis_net_stop() did not wait for the thread, which leaves now. Without the mutex. */
    void (*on_left)(void *owner);
} lk_redis_owner;
