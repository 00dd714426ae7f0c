/*
 * spawn.h: single servers of our own: a redis-server, a ZooKeeper server. The kinds of backends are put
 * together of them, and so are the copies whose networks are cut. Their directories are in the scratch
 * directory, and they die with our process. Those that start one end the program with one line when its
 * program is missing.
 */
#ifndef LOCKER_TOOLS_COMPARE_SPAWN_H
#define LOCKER_TOOLS_COMPARE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "netns.h"

/** A redis-server. */
typedef struct lk_redis {
    pid_t pid; /**< 0 while it isn't running */
    lk_place place;
    int port;
    bool durable; /**< appendonly, and fsync before each answer */
    char directory[200], socket[240];
} lk_redis;

void lk_redis_start(lk_redis *redis, const lk_place *place, bool durable);
bool lk_redis_await(lk_redis *redis);
void lk_redis_kill(lk_redis *redis);

/** Start it again on its port after lk_redis_kill(), and wait until it serves. */
bool lk_redis_start_again(lk_redis *redis, bool keep_data);

/** Make it follow a master, or (NULL) nobody; the first waits until it has the master's data. */
bool lk_redis_follow(lk_redis *redis, const lk_redis *master);

/** "Redis 7.0.15". */
void lk_redis_version(const lk_redis *redis, char *out, size_t size);

enum { LK_ENSEMBLE = 3, LK_ZOOKEEPER_TICK_MS = 200 };

/** A ZooKeeper server. */
typedef struct lk_zookeeper {
    pid_t pid; /**< 0 while it isn't running */
    lk_place place;
    int id; /**< in its ensemble, from 1; 0: it is alone */
    int port, quorum_port, election_port;
    int sync_limit;               /**< ticks after which leader and follower give each other up */
    struct lk_zookeeper *members; /**< of its ensemble; NULL: it is alone */
    char directory[200];
} lk_zookeeper;

/** One that is alone. */
void lk_zookeeper_start(lk_zookeeper *zk, const lk_place *place);

/** LK_ENSEMBLE of them; `places` has as many. */
void lk_ensemble_start(lk_zookeeper *members, const lk_place *places, int sync_limit);

/** Wait until it serves. `netns`: from where to ask. */
bool lk_zookeeper_await(lk_zookeeper *zk, int netns);
void lk_zookeeper_kill(lk_zookeeper *zk);

/** Start it again on its ports after lk_zookeeper_kill(); it may not serve yet. */
void lk_zookeeper_launch(lk_zookeeper *zk, bool keep_data);

/** The member that leads; NULL when none does within 20 s. */
lk_zookeeper *lk_ensemble_leader(lk_zookeeper *members, int netns);

/** "ZooKeeper 3.8.0". */
void lk_zookeeper_version(const lk_zookeeper *zk, int netns, char *out, size_t size);

#endif
