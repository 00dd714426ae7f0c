/* slot_channels.h: of a cluster, the channels that a subscription listens to: one for each hash slot in which somebody waits, in
 * that slot, by sharded Pub/Sub: https://redis.io/docs/latest/develop/interact/pubsub/#sharded-pubsub
 * A server that has slots no more ends the subscriptions to their channels; one before Redis 7 has none, and waiters poll. */
#pragma once

#include "command.h"
#include "lk_atomic.h"
#include "map.h"
#include "shared.h"

/* As in net.h. */
typedef struct {
    void (*on_subscribed)(void *owner, const uint32_t *slots);
    const char *(*channel_of)(void *owner, uint16_t slot, char *name);
    uint16_t (*slot_of)(void *owner, const char *channel, size_t len);
} lk_redis_slot_events;

/* A bit for each slot. Guarded by the mutex but where it says otherwise. */
typedef struct {
    lk_redis_slot_events events;
    atomic_uint_least32_t heard[LK_REDIS_SLOTS / 32]; /* acknowledged; read without the mutex: hints */
    uint32_t wanted[LK_REDIS_SLOTS / 32];
    uint32_t sent[LK_REDIS_SLOTS / 32];   /* on this connection */
    uint32_t missed[LK_REDIS_SLOTS / 32]; /* messages, perhaps, since it was wanted */
    uint32_t news[LK_REDIS_SLOTS / 32];   /* there, or gone, and not told yet */
    bool has_news;
    lk_buffer out; /* commands that are yet to be sent, from `gone` on */
    size_t gone;
    bool none; /* the server knows no such channels */
} lk_redis_slot_channels;

lk_redis_slot_channels *lk_redis_slot_channels_new(const lk_redis_slot_events *events);
void lk_redis_slot_channels_free(lk_redis_slot_channels *c);

static inline bool lk_redis_slot_is_heard(const lk_redis_slot_channels *c, uint16_t slot)
{
    return (LK_READ(c->heard[slot / 32]) >> slot % 32 & 1) != 0;
}

/* From now on. Its command is put into `out`, unless it was already on this connection. */
void lk_redis_slot_channels_want_locked(lk_redis_slot_channels *c, void *owner,
                                        uint16_t slot) LK_REDIS_LOCKED;
/* There is a new connection: all that are wanted are put there. */
void lk_redis_slot_channels_begin_locked(lk_redis_slot_channels *c, void *owner) LK_REDIS_LOCKED;
/* There is none any more. */
void lk_redis_slot_channels_end_locked(lk_redis_slot_channels *c) LK_REDIS_LOCKED;
/* It is another server's now. True: it was wanted. */
bool lk_redis_slot_channels_forget_locked(lk_redis_slot_channels *c, uint16_t slot) LK_REDIS_LOCKED;
/* As lk_redis_net_has_missed_locked(). */
bool lk_redis_slot_channels_missed_locked(const lk_redis_slot_channels *c, uint16_t slot) LK_REDIS_LOCKED;
/* Tell of what was heard, all at once. */
void lk_redis_slot_channels_tell_locked(lk_redis_slot_channels *c, void *owner) LK_REDIS_LOCKED;
/* Put what is wanted and was not asked for on this connection. */
void lk_redis_slot_channels_again_locked(lk_redis_slot_channels *c, void *owner) LK_REDIS_LOCKED;
/* What came, and is no message. False: it is of no sense. */
bool lk_redis_slot_channels_hear_locked(lk_redis_slot_channels *c, void *owner,
                                        const redisReply *reply) LK_REDIS_LOCKED;
