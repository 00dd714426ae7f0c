/* redis.h: a redis-server, or Valkey's, that keeps nothing on a disk unless its options say so, with a Unix socket
 * DIRECTORY/socket, by which it is asked. */
#pragma once

#include "servers/server.h"

/** Its program: what LOCKER_TEST_REDIS_SERVER in the environment names, a word for PATH or a path; else redis-server, or
 * valkey-server where there is no other. */
const char *lk_server_redis_program(void);

/** The version that INFO tells: "Redis 7.0.15", "Valkey 8.1.1"; left alone when it tells none. */
void lk_server_redis_version(const char *info, char *text, size_t size);

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

/** How often it tells the others and the servers what it knows, and asks these; 0: as it does by itself, each 2 and 10 s. Four
 * of the first have to pass before an old master is told to follow the new one. */
bool lk_server_pace(lk_server *sentinel, int publish_ms, int info_ms);
