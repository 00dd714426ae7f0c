/* map.h: which server of a cluster has which hash slots, as CLUSTER SLOTS tells:
 * https://redis.io/docs/latest/commands/cluster-slots/
 * It names with each range of slots the master and all its replicas, so the answer of a cluster whose slots are in many pieces is
 * many times what it says. It is read as it comes, and no more is kept of it than the map. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target.h"

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
