/* map.h: which server of a cluster has which hash slots, as CLUSTER SLOTS tells:
 * https://redis.io/docs/latest/commands/cluster-slots/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target.h"

enum { LK_REDIS_SLOTS = 16384, LK_REDIS_CHANNEL_MAX = 80 /* bytes of a channel's name, with its NUL */ };

struct redisReply;

/* The slots from `first` to `last`, and their master. */
typedef struct {
    uint16_t first, last;
    char peer[LK_REDIS_PEER_MAX];
} lk_redis_range;

typedef struct {
    size_t count;
    lk_redis_range range[];
} lk_redis_map;

/* Free with free(); NULL: it is no such answer, or there is no memory. `from`: the server that tells, which leaves out its own
 * host where it doesn't know by what name it is reached. */
lk_redis_map *lk_redis_map_read(const struct redisReply *reply, const char *from);

/* Where "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381" lead; false: they name no address. `from`: as above. */
bool lk_redis_redirection(const char *text, const char *from, char peer[LK_REDIS_PEER_MAX]);
