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
    LK_REDIS_MASTERS_MAX = 1024, /* of a cluster; of more, those that were named last are not known */
    LK_REDIS_CHANNEL_MAX = 80    /* bytes of a channel's name, with its NUL */
};

typedef struct {
    size_t slots;                                       /* so many have a master */
    size_t masters;                                     /* so many there are */
    uint16_t master[LK_REDIS_SLOTS];                    /* of each slot, from 1; 0: none */
    char peer[LK_REDIS_MASTERS_MAX][LK_REDIS_PEER_MAX]; /* the first of them first */
} lk_redis_map;

struct redisReader;
struct redisReply;

/* Has a reader read the next reply as a map, if it is one; what it says else becomes a reply as ever. `from`: the server that tells,
 * which leaves out its own host where it doesn't know by what name it is reached; it lasts until the end. */
typedef struct lk_redis_map_reading lk_redis_map_reading;
/* NULL: no memory. */
lk_redis_map_reading *lk_redis_map_begin(struct redisReader *reader, const char *from);
/* The reader is as it was. NULL: the reply, which is an empty array where it was a map, was none. Free with free(). */
lk_redis_map *lk_redis_map_end(lk_redis_map_reading *reading);

/* Where "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381" lead; false: they name no address. `from`: as above. */
bool lk_redis_redirection(const char *text, const char *from, char peer[LK_REDIS_PEER_MAX]);

/* ---------------------------------------------------------------- the channels of a slot ---- */

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
