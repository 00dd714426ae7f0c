/* net.h: the floor that knows sockets, bytes, commands and answers, and nothing of what they are about. An owner has a
 * command connection, driven by its callers' threads; a subscription, once wanted; a thread while the first is missing, and
 * one while something else is. */
#pragma once

#include <sys/epoll.h>

#include "connect.h"
#include "pipeline.h"

typedef struct lk_redis_net lk_redis_net;

/* What its owner is told, with the mutex. */
typedef struct {
    /* A command connection has come up; commands that are submitted meanwhile come before all others. `server_us`: the
     * server's time, in us; 0: it does not tell. `at`: when it was that, on the instance's clock. */
    void (*on_up)(void *owner, int64_t server_us, int64_t at);
    /* There is a subscription, or it is refused for good: messages were missed. `slots`: of a cluster, a bit for each slot whose
     * channel is there, or gone with its slot; NULL: all. */
    void (*on_subscribed)(void *owner, const uint32_t *slots);
    void (*on_message)(void *owner, const redisReply *text);
    /* Of a cluster alone: what has become known of its slots; addresses of up to `max` other servers, answering how many; the
     * name of the channel of a slot; and a channel's slot. */
    void (*on_map)(void *owner, const lk_redis_map *map);
    size_t (*peers)(void *owner, char (*peer)[LK_REDIS_PEER_MAX], size_t max);
    const char *(*channel_of)(void *owner, uint16_t slot, char name[LK_REDIS_CHANNEL_MAX]);
    uint16_t (*slot_of)(void *owner, const char *channel, size_t len);
    /* lk_redis_net_stop() did not wait for a thread; the last of them leaves now. Without the mutex. */
    void (*on_left)(void *owner);
} lk_redis_owner;

/* NULL: errno says why. All that is pointed to lasts longer; the target is filled in before it is used.
 * *commands: its command connection (call.h), which is always there. *apart: one more, for renewals, to the same life of the same
 * server, and nobody's calls. `keeps_apart`: it is always wanted, else while the command connection is silent for longer than
 * leases can bear, and for a minute after that. */
lk_redis_net *lk_redis_net_new(lk_redis_shared *shared, const lk_redis_target *target, const char *channel,
                               const lk_redis_owner *events, void *owner, lk_redis_pipeline **commands,
                               lk_redis_pipeline **apart, bool keeps_apart);
/* Of a cluster: which server it is for, "host:port"; without, it is for the one that lk_redis_net_connect() finds. Nobody else
 * uses it yet. */
void lk_redis_net_is_at(lk_redis_net *net, const char *peer, const lk_redis_scripts *scripts) LK_UNCHECKED;
const char *lk_redis_net_peer(const lk_redis_net *net);
/* One that is without slots, and has no connection, nor a thread that makes one, may be for another server. */
bool lk_redis_net_is_at_rest_locked(const lk_redis_net *net) LK_REDIS_LOCKED;
void lk_redis_net_move_locked(lk_redis_net *net, const char *peer) LK_REDIS_LOCKED;
/* One that is without slots goes from its server, unless that owes an answer. */
void lk_redis_net_leave_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* It is to be connected, if it is not, and for a minute at least also without slots. */
void lk_redis_net_wanted_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* Of a cluster: without slots it is connected no more than it is. Told anew whenever something has become known of slots. */
void lk_redis_net_set_idle_locked(lk_redis_net *net, bool idle) LK_REDIS_LOCKED;
/* Have it asked who has which slots, by what on_map tells; not more often than twice a second. */
void lk_redis_net_want_map_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* Nobody else uses it any more: what is under way learns that no answer comes. */
void lk_redis_net_settle(lk_redis_net *net) LK_UNCHECKED;
/* Of one that was settled. */
void lk_redis_net_free(lk_redis_net *net) LK_UNCHECKED;
/* The first connection, blocking. A server that is loading its data is waited for. `scripts` gets their hashes; *connection, a
 * number that no other connection to that server has. */
locker_status lk_redis_net_connect(lk_redis_net *net, const lk_redis_scripts *scripts, uint64_t *connection,
                                   locker_error *err);
/* End the threads, at the latest when `until` has come. False: one goes on, and on_left is called. */
bool lk_redis_net_stop(lk_redis_net *net, int64_t until);
/* Of a fork's child, which has no other thread: close its own descriptors, and nothing else. */
void lk_redis_net_abandon(const lk_redis_net *net) LK_UNCHECKED;

/* The keeper's turn. What epoll tells of all that share it, taken without the mutex: */
enum { LK_REDIS_EVENTS_MAX = 16 };
typedef struct {
    struct epoll_event event[LK_REDIS_EVENTS_MAX];
    int count;
} lk_redis_events;
void lk_redis_events_take(const lk_redis_shared *shared, lk_redis_events *events);
/* Reading what has come; and sending, and having connected, what is due, which answers when it wants another turn. */
void lk_redis_net_begin_turn_unlocking(lk_redis_net *net, const lk_redis_events *events) LK_REDIS_LOCKED;
int64_t lk_redis_net_end_turn_unlocking(lk_redis_net *net, int64_t now) LK_REDIS_LOCKED;

/* A reply said that another server is the master: go and look for it. */
void lk_redis_net_moved_locked(lk_redis_net *net, const redisReply *reply) LK_REDIS_LOCKED;
void lk_redis_net_moved(lk_redis_net *net, const redisReply *reply);
/* Without a connection: have it tried again, unless that was done a moment ago. */
void lk_redis_net_hurry_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* It may not be the master any more: Sentinels are asked, soon and not too often, and another one is gone to. */
void lk_redis_net_doubt_locked(lk_redis_net *net) LK_REDIS_LOCKED;
void lk_redis_net_doubt(lk_redis_net *net);
/* There is to be a subscription, in a cluster to the slot's channel: from the keeper's next turn on, which nothing need bring about,
 * or `now`. */
void lk_redis_net_subscribe_locked(lk_redis_net *net, uint16_t slot, bool now) LK_REDIS_LOCKED;
/* Of a cluster: the slot's channel is another's. True: it was wanted. */
bool lk_redis_net_forget_slot_locked(lk_redis_net *net, uint16_t slot) LK_REDIS_LOCKED;
/* Whether messages of a slot may have been missed since it was to be listened to; what on_subscribed tells of is not any more
 * afterwards, as far as it is listened to. */
bool lk_redis_net_has_missed_locked(const lk_redis_net *net, uint16_t slot) LK_REDIS_LOCKED;
/* There is to be none any more. What the server has sent before it knows that is told, if it comes in time. */
void lk_redis_net_unsubscribe_unlocking(lk_redis_net *net, int64_t until) LK_REDIS_LOCKED;
/* A hint that messages come. Without the mutex. */
bool lk_redis_net_is_subscribed(const lk_redis_net *net, uint16_t slot);
/* Whether the server denies the channel: told once, and then tried again. OK, or what err says. */
locker_status lk_redis_net_take_refusal_locked(lk_redis_net *net, locker_error *err) LK_REDIS_LOCKED;
