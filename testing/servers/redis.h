/* redis.h: a redis-server that keeps nothing on a disk unless its options say so, with a Unix socket
 * DIRECTORY/socket, by which it is asked. */
#pragma once

#include "servers/server.h"

extern const lk_server_kind lk_server_redis;

/** A Sentinel, which watches no master yet. */
extern const lk_server_kind lk_server_sentinel;

/** A node of a Redis Cluster, which is none yet (cluster.h). Its setup says after how long a node is down (tick_ms). */
extern const lk_server_kind lk_server_cluster;

/** Sends it commands, a line each, at once. False: one was refused, or there was no answer, as `why` says. For commands that
 * answer with a line. */
bool lk_server_tell(const lk_server *server, const char *lines, size_t count, char *why, size_t size);

/** Makes it follow a master, or (NULL) nobody; the first waits until it has the master's data. */
bool lk_server_follow(lk_server *replica, const lk_server *master);

/** Has a Sentinel watch a master by that name, which `quorum` of them have to find down, after so many ms. */
bool lk_server_watch(lk_server *sentinel, const char *name, const lk_server *master, int quorum, int down_ms);
