/*
 * net.h: the floor that knows sockets, bytes, commands and answers, and nothing of what they are about. An owner has a
 * command connection, which its callers' own threads drive; a subscription, once it is wanted; and a thread only while
 * one of them is missing.
 */
#pragma once

#include "call.h"
#include "handshake.h"

/* ------------------------------------------------------------------ its life ---- */

/* NULL: errno says why. All that is pointed to lasts longer; the target is filled in before it is connected to. */
lk_redis_net *lk_redis_net_new(lk_redis_shared *shared, const lk_redis_target *target, const char *channel,
                               const lk_redis_owner *events, void *owner);
/* Nothing else uses it any more. */
void lk_redis_net_free(lk_redis_net *net) LK_UNCHECKED;
/* The first connection, blocking. A server that is loading its data is waited for. `scripts` gets their hashes. */
locker_status lk_redis_net_connect(lk_redis_net *net, const lk_redis_scripts *scripts, locker_error *err);
/* In on_up: who waits for a connection may send. */
void lk_redis_net_admit_unlocking(lk_redis_net *net) LK_REDIS_LOCKED;
/* End the thread, at the latest when `until` has come. False: it goes on, and on_left is called. */
bool lk_redis_net_stop(lk_redis_net *net, int64_t until);
/* Of a fork's child, which has no other thread: close the descriptors, and nothing else. */
void lk_redis_net_abandon(const lk_redis_net *net) LK_UNCHECKED;

/* The keeper's turn is between these: reading what has come; and sending, and having connected, what is due, which
 * answers when it wants another. The mutex is held in between. */
int64_t lk_redis_net_begin_turn(lk_redis_net *net) LK_ACQUIRE(lk_redis_mutex);
int64_t lk_redis_net_end_turn(lk_redis_net *net, int64_t now) LK_RELEASE(lk_redis_mutex);
/* A turn of a thread that waits for answers which are nobody's: asleep until `until` at most. */
void lk_redis_net_drive_unlocking(lk_redis_net *net, int64_t until) LK_REDIS_LOCKED;

/* ------------------------------------------------------------------ the connections ---- */

bool lk_redis_net_is_up_locked(const lk_redis_net *net) LK_REDIS_LOCKED;
/* A reply said that another server is the master: go and look for it. */
void lk_redis_net_moved_locked(lk_redis_net *net, const redisReply *reply) LK_REDIS_LOCKED;
void lk_redis_net_moved(lk_redis_net *net, const redisReply *reply);
/* Counts the connections, from 1. Whoever sees one (acquire) sees what on_up did, or a later one's. */
unsigned lk_redis_net_connection(const lk_redis_net *net);
/* Counts the servers that we were connected to (lk_redis_up.other). Relaxed: whoever has sent a command since the
 * connection was made has had the mutex since. */
unsigned lk_redis_net_era(const lk_redis_net *net);

/* From the keeper's next turn on there is to be a subscription; `now`: at once. */
void lk_redis_net_subscribe_locked(lk_redis_net *net, bool now) LK_REDIS_LOCKED;
/* Another server is asked from now on. */
void lk_redis_net_resubscribe_locked(lk_redis_net *net) LK_REDIS_LOCKED;
/* A hint that messages come. Without the mutex. */
bool lk_redis_net_is_subscribed(const lk_redis_net *net);
/* Whether the server denies the channel: told once, and then tried again. OK, or what err says. */
locker_status lk_redis_net_take_refusal_locked(lk_redis_net *net, locker_error *err) LK_REDIS_LOCKED;
