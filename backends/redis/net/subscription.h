/* subscription.h: the second connection, for messages. It subscribes to one channel, once somebody wants it. */
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
    lk_redis_slot_channels *slots;                /* NULL: one channel for all; constant */
    bool ending;                                  /* it was asked to end */
    lk_redis_socket *socket LK_GUARDED_BY(mutex); /* NULL: none. Received from by the keeper alone */
    bool wanted LK_GUARDED_BY(mutex);
    bool look LK_GUARDED_BY(mutex); /* read it without being told: something may be in the parser */
    locker_error refused LK_GUARDED_BY(mutex); /* why the server denies the channel; OK: it does not */
    atomic_bool ready; /* acknowledged; written with the mutex, read without: a hint */
} lk_redis_subscription;

/* Subscribe on a new socket, blocking. False: why says it. */
bool lk_redis_subscribe(const lk_redis_subscription *sub, lk_redis_socket *socket, int64_t until,
                        lk_redis_failure *why);
/* It is up; false: it can't be watched, and is closed. */
bool lk_redis_subscription_install_locked(lk_redis_subscription *sub,
                                          lk_redis_socket *socket) LK_REDIS_LOCKED;
/* Close it, if there is one, and have it made anew. */
void lk_redis_subscription_lose_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED;
/* In a cluster: to the slot's channel, too. */
void lk_redis_subscription_want_locked(lk_redis_subscription *sub, uint16_t slot) LK_REDIS_LOCKED;
/* Ask for all that are wanted and were not asked for yet. */
void lk_redis_subscription_again_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED;
/* Read the messages that are there. By the keeper only. */
void lk_redis_subscription_read_locked(lk_redis_subscription *sub) LK_REDIS_LOCKED;
/* Ask for no more, and read what comes before the answer, with which it is lost. Instead of the keeper. */
void lk_redis_unsubscribe_unlocking(lk_redis_subscription *sub, int64_t until) LK_REDIS_LOCKED;
