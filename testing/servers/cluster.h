/* cluster.h: a Redis Cluster: three masters, which share the slots, and a replica for each of them. Slots can be moved as
 * slowly as a test likes; nodes are killed, frozen and asked as any server (server.h). What fails says why in `error`. Its nodes
 * are meant by their numbers, from 0. */
#pragma once

#include "servers/redis.h"

enum {
    LK_CLUSTER_MASTERS = 3, /* at its start: the first ones; node n + 3 follows node n */
    LK_CLUSTER_NODES = 6,
    LK_CLUSTER_SLOTS = 16384,
    LK_CLUSTER_TIMEOUT_MS = 15000
};

/** What it is started with. All zeros will do. */
typedef struct {
    int timeout_ms; /**< after which a node is down for the others; 0: LK_CLUSTER_TIMEOUT_MS, as long as Redis' own, so that
                         none is because the machine is busy, and replicas are told to take over */
    const char *const *options; /**< of each node, as those of lk_server_setup */
    const char *certificates;   /**< likewise */
    const lk_place *places;     /**< one for each node; NULL: all are here */
    unsigned
        few; /**< so many slots are the third master's, which are moved in no time: each tells all nodes of itself; 0: a third */
} lk_cluster_setup;

typedef struct {
    lk_server node[LK_CLUSTER_NODES];
    char id[LK_CLUSTER_NODES][41];
    unsigned few; /**< of its setup */
    char error[256];
} lk_cluster;

/** Starts it, and waits until it serves. */
bool lk_cluster_start(lk_cluster *cluster, const lk_cluster_setup *setup);

/** Kills all of it and removes its directories. What was never started is allowed. */
void lk_cluster_remove(lk_cluster *cluster);

/** Waits until those that run agree on who serves what, all slots are with one of them, and replicas follow their masters. */
bool lk_cluster_await(lk_cluster *cluster);

/** Starts what is dead with its data, thaws what is frozen, and waits until all is well. */
bool lk_cluster_heal(lk_cluster *cluster);

/** The slot of a key. */
unsigned lk_cluster_slot(const char *key);

/** The first slot that was node `share`'s at the start; LK_CLUSTER_MASTERS: LK_CLUSTER_SLOTS. */
unsigned lk_cluster_first(const lk_cluster *cluster, int share);

/** Who serves it, by his own word: of two that say so the later one. -1: nobody does. */
int lk_cluster_owner(lk_cluster *cluster, unsigned slot);

/** A running replica of that master; -1: there is none. */
int lk_cluster_replica(lk_cluster *cluster, int master);

/** Has a replica take its master's place, and waits until all know. `how`: "" while that one is
 * well, "FORCE" when it is not, "TAKEOVER" when the others are not asked either. */
bool lk_cluster_fail_over(lk_cluster *cluster, int replica, const char *how);

/** A slot on its way. Keys that are there when it begins stay where they are until they are moved. */
typedef struct {
    unsigned slot;
    int from, to;
} lk_move;
bool lk_cluster_move_begin(lk_cluster *cluster, const lk_move *move);
/** Moves a key. False: it is not there (any more), or the other node has one of that name, which is an error of those who have
 * made it: `error` has BUSYKEY. */
bool lk_cluster_move_key(lk_cluster *cluster, const lk_move *move, const char *key);
/** Moves the other keys and ends it. */
bool lk_cluster_move_end(lk_cluster *cluster, const lk_move *move);

/** Moves the slots that were node `share`'s at the start, some hundred at a time, from who has them now to another. (With less
 * than three masters that have slots no failover gets a majority.) */
bool lk_cluster_move_share(lk_cluster *cluster, int share, int to);

/** Gives each other slot of share `share`, none of which has a key, from one to another master, so that its map is in pieces.
 * (Nothing else of this header is for such a cluster, but its end and this back.) */
bool lk_cluster_scatter(lk_cluster *cluster, int share, int from, int to);

/** The part of a URI that names all nodes, beginning with that one. Returns `text`. */
const char *lk_cluster_hosts(const lk_cluster *cluster, int first, char *text, size_t size);
