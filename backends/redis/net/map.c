/* map.c: see map.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "map.h"

/* The host of "host:port" or "[v6]:port", as it stands there. */
static size_t host_len(const char *peer)
{
    const char *const colon = strrchr(peer, ':');
    return colon != NULL ? (size_t)(colon - peer) : strlen(peer);
}

/* `host`: NULL, "" or "?": that of `from`. */
static bool name_peer(const char *host, long long port, const char *from, char *peer)
{
    if (port <= 0 || port > 65535)
        return false;
    if (host == NULL || host[0] == '\0' || strcmp(host, "?") == 0)
        return (size_t)snprintf(peer, LK_REDIS_PEER_MAX, "%.*s:%lld", (int)host_len(from), from, port) <
               LK_REDIS_PEER_MAX;
    if (strlen(host) > 255)
        return false;
    lk_redis_peer_name(host, (int)port, peer);
    return true;
}

static bool is_slot(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && reply->integer < LK_REDIS_SLOTS;
}

/* [first, last, [host, port, ...], replicas ...] */
static bool read_range(const redisReply *reply, const char *from, lk_redis_range *range)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 || !is_slot(reply->element[0]) ||
        !is_slot(reply->element[1]))
        return false;
    const redisReply *const master = reply->element[2];
    if (master->type != REDIS_REPLY_ARRAY || master->elements < 2 ||
        master->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    const redisReply *const host = master->element[0];
    range->first = (uint16_t)reply->element[0]->integer;
    range->last = (uint16_t)reply->element[1]->integer;
    return name_peer(host->type == REDIS_REPLY_STRING ? host->str : NULL, master->element[1]->integer, from,
                     range->peer);
}

lk_redis_map *lk_redis_map_read(const redisReply *reply, const char *from)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return NULL;
    lk_redis_map *map = malloc(sizeof *map + reply->elements * sizeof map->range[0]);
    if (map == NULL)
        return NULL;
    map->count = 0;
    for (size_t i = 0; i < reply->elements; i++)
        map->count += read_range(reply->element[i], from, &map->range[map->count]);
    return map;
}

bool lk_redis_redirection(const char *text, const char *from, char peer[LK_REDIS_PEER_MAX])
{
    char host[256];
    const char *const at = strrchr(text, ' '), *const colon = strrchr(text, ':');
    if (at == NULL || colon == NULL || colon < at || (size_t)(colon - at - 1) >= sizeof host)
        return false;
    const size_t len = (size_t)(colon - at - 1);
    memcpy(host, at + 1, len);
    host[len] = '\0';
    return name_peer(host, strtoll(colon + 1, NULL, 10), from, peer);
}
