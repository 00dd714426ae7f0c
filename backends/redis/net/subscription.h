/* subscription.h: the second connection, for messages. It is made when a claim first wants to hear
 * messages, and subscribes to one channel, in a cluster to one of each slot. */
#pragma once

#include "cluster.h"
#include "lk_atomic.h"
#include "reconnect.h"

/* Guarded by the mutex. */
typedef struct {
    lk_redis_shared *shared;
    lk_redis_reconnect *reconnect;
    void (*on_message)(void *owner, const redisReply *text);
    void *owner;
    const char *channel;
    lk_redis_slot_channels *slots;                /* NULL: one channel for all locks; constant */
    bool ending;                                  /* it was unsubscribed */
    lk_redis_socket *socket LK_GUARDED_BY(mutex); /* NULL: none. Only the keeper receives from it */
    bool wanted LK_GUARDED_BY(mutex);
    bool look LK_GUARDED_BY(mutex);            /* read it without an event: the parser may hold a message */
    locker_error refused LK_GUARDED_BY(mutex); /* why the server denies the channel; OK: it does not */
    atomic_bool ready; /* the subscription is acknowledged. Written with the mutex, read without it: a hint */
} lk_redis_subscription;

/* Subscribe on a new socket. Blocks. False: `why` says why. */
bool lk_redis_subscribe(const lk_redis_subscription *sub, lk_redis_socket *socket, int64_t until,
                        lk_redis_failure *why);
/* Use the socket. False: epoll cannot watch it, and it is closed. */
bool lk_redis_subscription_install_locked(lk_redis_subscription *sub,
                                          lk_redis_socket *socket) LK_REDIS_LOCKED;
/* Close the connection, if there is one, and have it made again. */
void lk_redis_subscription_lose_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED;
/* Of a cluster: subscribe to the slot's channel too. */
void lk_redis_subscription_want_locked(lk_redis_subscription *sub, uint16_t slot) LK_REDIS_LOCKED;
/* Subscribe to all wanted channels that were not asked for yet. */
void lk_redis_subscription_again_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED;
/* Read the messages that have come. Called by the keeper only. */
void lk_redis_subscription_read_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED;
/* Unsubscribe, and read what comes before the acknowledgment. Then the connection is closed. Called
 * instead of the keeper's reads. */
void lk_redis_unsubscribe_unlocking(lk_redis_subscription *sub, int64_t until) LK_REDIS_LOCKED;
