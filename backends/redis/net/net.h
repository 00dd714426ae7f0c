/* net.h: the floor that knows sockets, bytes, commands and answers, and nothing of what they are about. An owner has a
 * command connection, driven by its callers' threads; a subscription, once wanted; a thread while one is missing. */
#pragma once

#include "call.h"
#include "handshake.h"

typedef struct lk_redis_net lk_redis_net;

/* What its owner is told, with the mutex. */
typedef struct {
    /* A command connection has come up; commands that are submitted meanwhile come before all others. `server_us`: the
     * server's time, in us; 0: it does not tell. `at`: when it was that, on the instance's clock. */
    void (*on_up)(void *owner, int64_t server_us, int64_t at);
    /* There is a subscription, or it is refused for good: messages were missed. */
    void (*on_subscribed)(void *owner);
    void (*on_message)(void *owner, const redisReply *text);
    /* lk_redis_net_stop() did not wait for the thread, which leaves now. Without the mutex. */
    void (*on_left)(void *owner);
} lk_redis_owner;

/* NULL: errno says why. All that is pointed to lasts longer; the target is filled in before it is used.
 * *commands: its command connection (call.h), which is always there. `apart`: NULL, or where one more is wanted, for what
 * keeps a connection busy for long: to the same life of the same server, and nobody's calls. */
lk_redis_net *lk_redis_net_new(lk_redis_shared *shared, const lk_redis_target *target, const char *channel,
                               const lk_redis_owner *events, void *owner, lk_redis_pipeline **commands,
                               lk_redis_pipeline **apart);
/* Nothing else uses it any more. */
void lk_redis_net_free(lk_redis_net *net) LK_UNCHECKED;
/* The first connection, blocking. A server that is loading its data is waited for. `scripts` gets their hashes. */
locker_status lk_redis_net_connect(lk_redis_net *net, const lk_redis_scripts *scripts, locker_error *err);
/* End the thread, at the latest when `until` has come. False: it goes on, and on_left is called. */
bool lk_redis_net_stop(lk_redis_net *net, int64_t until);
/* Of a fork's child, which has no other thread: close the descriptors, and nothing else. */
void lk_redis_net_abandon(const lk_redis_net *net) LK_UNCHECKED;

/* The keeper's turn is between these: reading what has come; and sending, and having connected, what is due, which
 * answers when it wants another. The mutex is held in between. */
int64_t lk_redis_net_begin_turn(lk_redis_net *net) LK_ACQUIRE(lk_redis_mutex);
int64_t lk_redis_net_end_turn(lk_redis_net *net, int64_t now) LK_RELEASE(lk_redis_mutex);

/* A reply said that another server is the master: go and look for it. */
void lk_redis_net_moved_locked(lk_redis_net *net, const redisReply *reply) LK_REDIS_LOCKED;
void lk_redis_net_moved(lk_redis_net *net, const redisReply *reply);
/* Without a connection: have it tried again, unless that was done a moment ago. */
void lk_redis_net_hurry_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* From the keeper's next turn on there is to be a subscription; `now`: at once. */
void lk_redis_net_subscribe_locked(lk_redis_net *net, bool now) LK_REDIS_LOCKED;
/* There is to be none any more. What the server has sent before it knows that is told, if it comes in time. */
void lk_redis_net_unsubscribe_unlocking(lk_redis_net *net, int64_t until) LK_REDIS_LOCKED;
/* A hint that messages come. Without the mutex. */
bool lk_redis_net_is_subscribed(const lk_redis_net *net);
/* Whether the server denies the channel: told once, and then tried again. OK, or what err says. */
locker_status lk_redis_net_take_refusal_locked(lk_redis_net *net, locker_error *err) LK_REDIS_LOCKED;
