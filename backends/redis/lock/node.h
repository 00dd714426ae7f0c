/* node.h: the servers of an instance, and which of them keeps the locks of which slots. */
#pragma once

#include "instance.h"

/* Room for the map of a cluster, all of whose slots are the first server's until more is known. False: no memory. */
bool lk_redis_nodes_init(lk_redis *r) LK_UNCHECKED;
/* One more; `peer`: its address; NULL: the configuration's. NULL: errno says why. */
lk_redis_node *lk_redis_node_new(lk_redis *r, const char *peer) LK_REDIS_LOCKED;

/* What is told to an owner (net.h) of a cluster's node, and asked of it. */
void lk_redis_on_map_locked(void *self, const lk_redis_map *map) LK_REDIS_LOCKED;
size_t lk_redis_peers_locked(void *self, char (*peer)[LK_REDIS_PEER_MAX], size_t max) LK_REDIS_LOCKED;
const char *lk_redis_channel_of(void *self, uint16_t slot, char *name);
uint16_t lk_redis_slot_of_channel(void *self, const char *channel, size_t len);

/* What a server answered about who has its locks is followed: another master, as it says or as is found out; or, of a cluster
 * that is down, who has which slots is asked for. What is none of these changes nothing. */
void lk_redis_heed_locked(lk_redis_node *node, uint16_t slot, const redisReply *reply) LK_REDIS_LOCKED;
void lk_redis_heed(lk_redis_node *node, uint16_t slot, const redisReply *reply);
/* The server of a cluster at an address that another named. NULL: it can't be made. */
lk_redis_node *lk_redis_node_at_locked(lk_redis *r, const char *peer) LK_REDIS_LOCKED;
