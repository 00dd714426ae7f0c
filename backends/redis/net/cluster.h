/* cluster.h: which server of a cluster has which hash slots, and the channels of a slot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command.h"
#include "lk_atomic.h"
#include "shared.h"
#include "target.h"

/* ---------------------------------------------------------------- the map ---- */

enum {
    LK_REDIS_SLOTS = 16384,
    LK_REDIS_MASTERS_MAX = 1024, /* of a cluster; further masters are ignored */
    LK_REDIS_CHANNEL_MAX = 80    /* bytes of a channel's name with its NUL */
};

typedef struct {
    size_t slots;                    /* number of slots with a master */
    size_t masters;                  /* number of masters */
    uint16_t master[LK_REDIS_SLOTS]; /* index of each slot's master in `peer`, from 1 on; 0: none */
    char peer[LK_REDIS_MASTERS_MAX]
             [LK_REDIS_PEER_MAX]; /* of the masters, "host:port", in the order of the answer */
} lk_redis_map;

struct redisReader;
struct redisReply;

/* Have a reader read the next reply as a map, if it is one. Any other reply is read as usual. `from`: the
 * server that answers; its own host may be missing in the reply. `from` must last until the end. */
typedef struct lk_redis_map_reading lk_redis_map_reading;
/* Begin to read a map. NULL: no memory. */
lk_redis_map_reading *lk_redis_map_begin(struct redisReader *reader, const char *from);
/* Restore the reader, and return the map, which free() frees. NULL: the reply was no map. The reply to a
 * map is an empty array. */
lk_redis_map *lk_redis_map_end(lk_redis_map_reading *reading);

/* Read the address in "MOVED 3999 127.0.0.1:6381" or "ASK 3999 127.0.0.1:6381". False: the text has none.
 * `from`: as above. */
bool lk_redis_redirection(const char *text, const char *from, char peer[LK_REDIS_PEER_MAX]);

/* ---------------------------------------------------------------- the channels of a slot ---- */

/* The owner's functions, as in net.h. */
typedef struct {
    void (*on_subscribed)(void *owner, const uint32_t *slots);
    const char *(*channel_of)(void *owner, uint16_t slot, char *name);
    uint16_t (*slot_of)(void *owner, const char *channel, size_t len);
} lk_redis_slot_events;

/* The channels, with a bit for each slot. Guarded by the mutex unless a member says otherwise. */
typedef struct {
    lk_redis_slot_events events;
    atomic_uint_least32_t heard[LK_REDIS_SLOTS / 32]; /* subscribed; read without the mutex: hints */
    uint32_t wanted[LK_REDIS_SLOTS / 32];
    uint32_t sent[LK_REDIS_SLOTS / 32];   /* asked for on this connection */
    uint32_t missed[LK_REDIS_SLOTS / 32]; /* messages may have been missed since the channel was wanted */
    uint32_t news[LK_REDIS_SLOTS / 32];   /* subscribed or lost, and the owner does not know yet */
    bool has_news;
    lk_buffer out; /* commands to be sent, from `gone` on */
    size_t gone;
    bool none; /* the server has no such channels */
} lk_redis_slot_channels;

lk_redis_slot_channels *lk_redis_slot_channels_new(const lk_redis_slot_events *events);
void lk_redis_slot_channels_free(lk_redis_slot_channels *c);

static inline bool lk_redis_slot_is_heard(const lk_redis_slot_channels *c, uint16_t slot)
{
    return (LK_READ(c->heard[slot / 32]) >> slot % 32 & 1) != 0;
}

/* Want a slot's channel from now on. Put its command into `out`, unless it was asked for on this
 * connection. */
void lk_redis_slot_channels_want_locked(lk_redis_slot_channels *c, void *owner,
                                        uint16_t slot) LK_REDIS_LOCKED;
/* A connection is up: put the commands for all wanted channels into `out`. */
void lk_redis_slot_channels_begin_locked(lk_redis_slot_channels *c, void *owner) LK_REDIS_LOCKED;
/* The connection has ended. */
void lk_redis_slot_channels_end_locked(lk_redis_slot_channels *c) LK_REDIS_LOCKED;
/* The slot belongs to another server now. Return true if its channel was wanted. */
bool lk_redis_slot_channels_forget_locked(lk_redis_slot_channels *c, uint16_t slot) LK_REDIS_LOCKED;
/* As lk_redis_net_has_missed_locked(). */
bool lk_redis_slot_channels_missed_locked(const lk_redis_slot_channels *c, uint16_t slot) LK_REDIS_LOCKED;
/* Report all news to the owner at once. */
void lk_redis_slot_channels_tell_locked(lk_redis_slot_channels *c, void *owner) LK_REDIS_LOCKED;
/* Put the commands for wanted channels that were not asked for on this connection into `out`. */
void lk_redis_slot_channels_again_locked(lk_redis_slot_channels *c, void *owner) LK_REDIS_LOCKED;
/* Handle a reply that is no message. Return false if it makes no sense. */
bool lk_redis_slot_channels_hear_locked(lk_redis_slot_channels *c, void *owner,
                                        const redisReply *reply) LK_REDIS_LOCKED;
