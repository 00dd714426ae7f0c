/* net.h: one server's connections. This floor knows sockets, bytes, commands and answers, and not what
 * they are about. A net has a command connection, which its callers' threads drive; a subscription, once
 * it is wanted; a thread while the command connection is missing, and another thread while anything else
 * is missing. */
#pragma once

#include <sys/epoll.h>

#include "connect.h"
#include "pipeline.h"

typedef struct lk_redis_net lk_redis_net;

/* The owner's functions, called with the mutex. */
typedef struct {
    /* A command connection has come up. Commands that are submitted here go before all others.
     * `server_us`: the server's time in us; 0: not known. `at`: when that was, on the instance's clock. */
    void (*on_up)(void *owner, int64_t server_us, int64_t at);
    /* A subscription exists, or is refused for good: messages were missed. `slots`: of a cluster, a bit
     * for each slot whose channel was subscribed or lost; NULL: all slots. */
    void (*on_subscribed)(void *owner, const uint32_t *slots);
    void (*on_message)(void *owner, const redisReply *text);
    /* Of a cluster only: a new map of the slots; the addresses of up to `max` other servers (returns how
     * many); the name of a slot's channel; the slot of a channel. */
    void (*on_map)(void *owner, const lk_redis_map *map);
    size_t (*peers)(void *owner, char (*peer)[LK_REDIS_PEER_MAX], size_t max);
    const char *(*channel_of)(void *owner, uint16_t slot, char name[LK_REDIS_CHANNEL_MAX]);
    uint16_t (*slot_of)(void *owner, const char *channel, size_t len);
    /* A thread for which lk_redis_net_stop() did not wait ends now, as the last one. Without the mutex. */
    void (*on_left)(void *owner);
} lk_redis_owner;

/* Make a net. NULL: errno says why. All that is pointed to must outlive it; the target is filled in before
 * its first use. *commands: the command connection, which always exists. *apart: another connection to the
 * same life of the same server, for renewals; no caller uses it. `keeps_apart`: it is always wanted;
 * otherwise only while the command connection is silent for longer than leases can wait, and for a minute
 * after that. */
lk_redis_net *lk_redis_net_new(lk_redis_shared *shared, const lk_redis_target *target, const char *channel,
                               const lk_redis_owner *events, void *owner, lk_redis_pipeline **commands,
                               lk_redis_pipeline **apart, bool keeps_apart);
/* Of a cluster: set the server, "host:port". Without this, the net is for the server that
 * lk_redis_net_connect() finds. No other thread uses the net yet. */
void lk_redis_net_is_at(lk_redis_net *net, const char *peer, const lk_redis_scripts *scripts) LK_UNCHECKED;
const char *lk_redis_net_peer(const lk_redis_net *net);
/* Return true if the net may be given another server: it has no slots, no connection, and no thread that
 * connects. */
bool lk_redis_net_is_at_rest_locked(const lk_redis_net *net) LK_REDIS_LOCKED;
void lk_redis_net_move_locked(lk_redis_net *net, const char *peer) LK_REDIS_LOCKED;
/* Leave the server, if the net has no slots and no answer is awaited. */
void lk_redis_net_leave_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* Connect the net if it is not connected. Keep it connected for at least a minute, even without slots. */
void lk_redis_net_wanted_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* Of a cluster: an idle net (without slots) makes no new connection. Set again whenever slots change. */
void lk_redis_net_set_idle_locked(lk_redis_net *net, bool idle) LK_REDIS_LOCKED;
/* Ask the server for the map of the slots, which comes by on_map; at most twice a second. */
void lk_redis_net_want_map_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* Settle the net, which no other thread uses any more: commands in flight end without an answer. */
void lk_redis_net_settle(lk_redis_net *net) LK_UNCHECKED;
/* Free a settled net. */
void lk_redis_net_free(lk_redis_net *net) LK_UNCHECKED;
/* Make the first connection. Blocks, also while the server loads its data. `scripts` gets the hashes.
 * *connection: a number that no other connection to this server has. */
locker_status lk_redis_net_connect(lk_redis_net *net, const lk_redis_scripts *scripts, uint64_t *connection,
                                   locker_error *err);
/* End the threads until `until` at the latest. Return false if a thread goes on; then on_left follows. */
bool lk_redis_net_stop(lk_redis_net *net, int64_t until);
/* In a fork's child, which has no other thread: close our own descriptors, and touch nothing else. */
void lk_redis_net_abandon(const lk_redis_net *net) LK_UNCHECKED;

/* The keeper's turn. The events of all nets that share the epoll descriptor, taken without the mutex: */
enum { LK_REDIS_EVENTS_MAX = 16 };
typedef struct {
    struct epoll_event event[LK_REDIS_EVENTS_MAX];
    int count;
} lk_redis_events;
void lk_redis_events_take(const lk_redis_shared *shared, lk_redis_events *events);
/* Read what has come; then send and reconnect as far as that is due, and return when the next turn is due. */
void lk_redis_net_begin_turn_unlocking(lk_redis_net *net, const lk_redis_events *events) LK_REDIS_LOCKED;
int64_t lk_redis_net_end_turn_unlocking(lk_redis_net *net, int64_t now) LK_REDIS_LOCKED;

/* A reply says that another server is the master: look for it. */
void lk_redis_net_moved_locked(lk_redis_net *net, const redisReply *reply) LK_REDIS_LOCKED;
void lk_redis_net_moved(lk_redis_net *net, const redisReply *reply);
/* Try at once to connect, if there is no connection and no attempt was made a moment ago. */
void lk_redis_net_hurry_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* The server may not be the master any more. Ask the Sentinels, soon and not too often, and go to another
 * master if they name one. */
void lk_redis_net_doubt_locked(lk_redis_net *net) LK_REDIS_LOCKED;
void lk_redis_net_doubt(lk_redis_net *net);
/* Subscribe, in a cluster to the slot's channel: at the keeper's next turn, which this call does not bring
 * about, or `now`. */
void lk_redis_net_subscribe_locked(lk_redis_net *net, uint16_t slot, bool now) LK_REDIS_LOCKED;
/* Of a cluster: the slot belongs to another server. Return true if its channel was wanted. */
bool lk_redis_net_forget_slot_locked(lk_redis_net *net, uint16_t slot) LK_REDIS_LOCKED;
/* Return true if messages of a slot may have been missed since its channel was wanted. After on_subscribed
 * for the slot, none are missed while the subscription lasts. */
bool lk_redis_net_has_missed_locked(const lk_redis_net *net, uint16_t slot) LK_REDIS_LOCKED;
/* Unsubscribe. Messages that the server has sent before are still handed over if they come in time. */
void lk_redis_net_unsubscribe_unlocking(lk_redis_net *net, int64_t until) LK_REDIS_LOCKED;
/* Return true if messages are probably received: a hint. Without the mutex. */
bool lk_redis_net_is_subscribed(const lk_redis_net *net, uint16_t slot);
/* Return what refuses the channel, or OK. A refusal is returned once; then the subscription is tried
 * again. */
locker_status lk_redis_net_take_refusal_locked(lk_redis_net *net, locker_error *err) LK_REDIS_LOCKED;
