/* cluster.c: the map of a cluster's hash slots, and the channels of a slot. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"

/* Return the length of the host in "host:port" or "[v6]:port". */
static size_t host_len(const char *peer)
{
    const char *const colon = strrchr(peer, ':');
    return colon != NULL ? (size_t)(colon - peer) : strlen(peer);
}

/* Write the address of a peer. `host` NULL, "" or "?" means the host of `from`. */
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

/* ---------------------------------------------------------------- reading a map as it comes ---- */

/* The answer is [range ...]. A range is [first, last, [host, port, ...], replicas ...]. The parser gets
 * one object that stands for each value inside, so no reply is built. */
struct lk_redis_map_reading {
    redisReader *reader;
    redisReplyObjectFunctions *as_before;
    redisReplyObjectFunctions own;
    lk_redis_map *map;
    const char *from;
    /* the present range; -1: not read yet */
    long long first, last;
    char host[256];
};

enum { RANGE = 1, OF_RANGE = 2, OF_NODE = 3, FIRST = 0, LAST = 1, MASTER = 2, HOST = 0, PORT = 1 };

static int depth_of(const redisReadTask *task)
{
    int depth = 0;
    for (; task->parent != NULL; task = task->parent)
        depth++;
    return depth;
}

/* Return true if the value is the HOST or the PORT (`which`) of the range's master. */
static bool is_of_master(const redisReadTask *task, int which)
{
    return depth_of(task) == OF_NODE && task->parent->idx == MASTER && task->idx == which;
}

/* Return the index of a master, from 1 on; 0: there are too many. */
static uint16_t number_of(lk_redis_map *map, const char *peer)
{
    for (size_t i = map->masters; i > 0; i--) /* ranges of a master often follow each other */
        if (strcmp(map->peer[i - 1], peer) == 0)
            return (uint16_t)i;
    if (map->masters == LK_REDIS_MASTERS_MAX)
        return 0;
    (void)snprintf(map->peer[map->masters], sizeof map->peer[0], "%s", peer);
    return (uint16_t)++map->masters;
}

static void end_range(lk_redis_map_reading *reading, long long port)
{
    lk_redis_map *const map = reading->map;
    char peer[LK_REDIS_PEER_MAX];
    const bool is_range =
        reading->first >= 0 && reading->first <= reading->last && reading->last < LK_REDIS_SLOTS;
    if (!is_range || !name_peer(reading->host, port, reading->from, peer))
        return;
    const uint16_t number = number_of(map, peer);
    for (long long slot = reading->first; number > 0 && slot <= reading->last; slot++) {
        map->slots += map->master[slot] == 0;
        map->master[slot] = number;
    }
}

static void *take_string(const redisReadTask *task, char *text, size_t len)
{
    lk_redis_map_reading *const reading = task->privdata;
    if (task->parent == NULL)
        return reading->as_before->createString(task, text, len);
    if (is_of_master(task, HOST) && memchr(text, '\0', len) == NULL)
        (void)snprintf(reading->host, sizeof reading->host, "%.*s", len < 256 ? (int)len : 0, text);
    return reading;
}

static void *take_integer(const redisReadTask *task, long long value)
{
    lk_redis_map_reading *const reading = task->privdata;
    if (task->parent == NULL)
        return reading->as_before->createInteger(task, value);
    if (depth_of(task) == OF_RANGE && task->idx == FIRST)
        reading->first = value;
    if (depth_of(task) == OF_RANGE && task->idx == LAST)
        reading->last = value;
    if (is_of_master(task, PORT))
        end_range(reading, value);
    return reading;
}

static void *take_nil(const redisReadTask *task)
{
    lk_redis_map_reading *const reading = task->privdata;
    return task->parent == NULL ? reading->as_before->createNil(task) : reading;
}

#if HIREDIS_MAJOR >= 1
static void *take_array(const redisReadTask *task, size_t elements)
#else
static void *take_array(const redisReadTask *task, int elements)
#endif
{
    lk_redis_map_reading *const reading = task->privdata;
    (void)elements;
    if (task->parent == NULL) /* an array without elements */
        return reading->as_before->createArray(task, 0);
    if (depth_of(task) == RANGE) {
        reading->first = reading->last = -1;
        reading->host[0] = '\0';
    }
    return reading;
}

lk_redis_map_reading *lk_redis_map_begin(redisReader *reader, const char *from)
{
    lk_redis_map_reading *const reading = calloc(1, sizeof *reading);
    lk_redis_map *const map = calloc(1, sizeof *map); /* calloc: most of its pages are never touched */
    if (reading == NULL || map == NULL) {
        free(reading);
        free(map);
        return NULL;
    }
    reading->reader = reader;
    reading->as_before = reader->fn;
    reading->map = map;
    reading->from = from;
    reading->own = *reader->fn;
    reading->own.createString = take_string;
    reading->own.createArray = take_array;
    reading->own.createInteger = take_integer;
    reading->own.createNil = take_nil;
    reader->fn = &reading->own;
    reader->privdata = reading;
    return reading;
}

lk_redis_map *lk_redis_map_end(lk_redis_map_reading *reading)
{
    lk_redis_map *map = reading->map;
    reading->reader->fn = reading->as_before;
    reading->reader->privdata = NULL;
    free(reading);
    if (map->slots > 0)
        return map;
    free(map);
    return NULL;
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

lk_redis_slot_channels *lk_redis_slot_channels_new(const lk_redis_slot_events *events)
{
    lk_redis_slot_channels *c = calloc(1, sizeof *c);
    if (c != NULL)
        c->events = *events;
    return c;
}

void lk_redis_slot_channels_free(lk_redis_slot_channels *c)
{
    if (c != NULL)
        free(c->out.data);
    free(c);
}

static void ask_locked(lk_redis_slot_channels *c, void *owner, uint16_t slot) LK_REDIS_LOCKED
{
    char name[LK_REDIS_CHANNEL_MAX];
    const lk_redis_command a = LK_REDIS_COMMAND("SSUBSCRIBE", c->events.channel_of(owner, slot, name));
    char *const room = lk_buffer_room(&c->out, lk_redis_command_room(&a));
    if (room == NULL)
        return; /* waiters poll */
    c->out.len += (size_t)(lk_redis_command_put(&a, room) - room);
    c->sent[slot / 32] |= UINT32_C(1) << slot % 32;
}

void lk_redis_slot_channels_want_locked(lk_redis_slot_channels *c, void *owner, uint16_t slot)
{
    c->wanted[slot / 32] |= UINT32_C(1) << slot % 32;
    if (!c->none && (c->sent[slot / 32] >> slot % 32 & 1) == 0)
        ask_locked(c, owner, slot);
}

void lk_redis_slot_channels_begin_locked(lk_redis_slot_channels *c, void *owner)
{
    lk_redis_slot_channels_end_locked(c);
    c->none = false;
    lk_redis_slot_channels_again_locked(c, owner);
}

void lk_redis_slot_channels_again_locked(lk_redis_slot_channels *c, void *owner)
{
    for (unsigned slot = 0; slot < LK_REDIS_SLOTS; slot++)
        if (((c->wanted[slot / 32] & ~c->sent[slot / 32]) >> slot % 32 & 1) != 0)
            ask_locked(c, owner, (uint16_t)slot);
}

void lk_redis_slot_channels_end_locked(lk_redis_slot_channels *c)
{
    for (size_t i = 0; i < LK_REDIS_SLOTS / 32; i++) {
        LK_WRITE(c->heard[i], 0);
        c->sent[i] = 0;
        c->missed[i] |= c->wanted[i];
    }
    lk_buffer_empty(&c->out);
    c->gone = 0;
}

/* Ask again for all channels that are not subscribed yet: the server does not say which of them it has
 * refused. The next waiter asks, at the server that has the slot by then. */
static void forget_locked(lk_redis_slot_channels *c) LK_REDIS_LOCKED
{
    for (size_t i = 0; i < LK_REDIS_SLOTS / 32; i++)
        c->wanted[i] = c->sent[i] = LK_READ(c->heard[i]);
}

/* Clear a slot's bit, and return its old value. */
static bool take_bit(uint32_t *bits, uint16_t slot)
{
    const uint32_t bit = UINT32_C(1) << slot % 32;
    const bool is = (bits[slot / 32] & bit) != 0;
    bits[slot / 32] &= ~bit;
    return is;
}

bool lk_redis_slot_channels_forget_locked(lk_redis_slot_channels *c, uint16_t slot)
{
    (void)take_bit(c->missed, slot);
    return take_bit(c->wanted, slot);
}

bool lk_redis_slot_channels_missed_locked(const lk_redis_slot_channels *c, uint16_t slot)
{
    return (c->missed[slot / 32] >> slot % 32 & 1) != 0;
}

void lk_redis_slot_channels_tell_locked(lk_redis_slot_channels *c, void *owner)
{
    if (!c->has_news)
        return;
    c->has_news = false;
    c->events.on_subscribed(owner, c->news);
    for (size_t i = 0; i < LK_REDIS_SLOTS / 32; i++) {
        c->missed[i] &= ~(c->news[i] & LK_READ(c->heard[i]));
        c->news[i] = 0;
    }
}

bool lk_redis_slot_channels_hear_locked(lk_redis_slot_channels *c, void *owner, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        c->none = strstr(reply->str, "unknown command") != NULL;
        forget_locked(c);
        return true;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return false;
    const bool begins = strcmp(reply->element[0]->str, "ssubscribe") == 0;
    if (!begins && strcmp(reply->element[0]->str, "sunsubscribe") != 0)
        return false;
    if (reply->element[1]->type != REDIS_REPLY_STRING) /* there was no subscription to end */
        return !begins;
    const uint16_t slot = c->events.slot_of(owner, reply->element[1]->str, reply->element[1]->len);
    const uint32_t bit = UINT32_C(1) << slot % 32;
    const uint32_t heard = LK_READ(c->heard[slot / 32]);
    LK_WRITE(c->heard[slot / 32], begins ? heard | bit : heard & ~bit);
    c->sent[slot / 32] = begins ? c->sent[slot / 32] | bit : c->sent[slot / 32] & ~bit;
    if (begins)
        c->wanted[slot / 32] |= bit;
    else
        c->missed[slot / 32] |= c->wanted[slot / 32] & bit;
    c->news[slot / 32] |= bit;
    c->has_news = true;
    return true;
}
