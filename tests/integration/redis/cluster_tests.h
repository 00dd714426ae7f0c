/* cluster_tests.h: what tests of Redis Cluster share. Each group has a cluster of its own (servers/cluster.h), which is *state of its
 * tests, and is whole before each. Its third master has few slots, which are moved in no time. */
#pragma once

#include "redis_tests.h"
#include "servers/cluster.h"

/** Of a group: a cluster with the default time-out, that is, none of its nodes is down because the machine is busy. */
int lk_cluster_begin(void **state);
int lk_cluster_begin_with(void **state, const lk_cluster_setup *setup);
int lk_cluster_end(void **state);

/** Of a test: makes the cluster whole. */
int lk_cluster_whole(void **state);
#define cluster_test(f) cmocka_unit_test_setup(f, lk_cluster_whole)

/** Fails the test with the cluster's error, unless it is `good`. */
void lk_cluster_need(lk_cluster *cluster, bool good);

/** Opens a locker that is told of all nodes, from that one on. */
locker *lk_open_cluster(const lk_cluster *cluster, int first, const char *query);

/** The share in which a slot was at the beginning: the number of its first master. */
int lk_share_of(const lk_cluster *cluster, unsigned slot);

/** The nth key of a share, each in another slot. Returns `key`. */
const char *lk_key_of_share(const lk_cluster *cluster, int share, int n, char key[32]);

/** The node that serves the key; fails the test when none does. */
int lk_node_of(lk_cluster *cluster, const char *key);

/** The keys that a node has in a slot, with a space around each. */
void lk_keys_at(lk_cluster *cluster, int node, unsigned slot, char *text, size_t size);

/** A number that a node answers. Fails the test when it doesn't. */
long long lk_node_number(lk_cluster *cluster, int node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** How long a master left a PING without an answer, or this process was not let run, at the worst, in ms: what a busy machine
 * does to leases. */
typedef struct lk_canary lk_canary;
lk_canary *lk_canary_begin(const lk_cluster *cluster);
int64_t lk_canary_end(lk_canary *canary);

/* ------------------------------------------------------------------ load ---- */

enum { LK_LOAD_KEYS = 12, LK_LOAD_THREADS = 4 };

/** Threads that lock and unlock keys of all shares, each by one of two lockers, and look whether they are alone. */
typedef struct lk_load lk_load;
lk_load *lk_load_begin(lk_cluster *cluster, const char *query);

/** Waits until keys of all shares have been locked so many times more. */
void lk_load_require(lk_load *load, unsigned cycles, const char *what);

/** What it saw: two who were sure to have a lock; a token that was no greater than the one before; an unlock that answered what
 * it may not. */
typedef struct {
    unsigned overlaps, tokens, answers, lost, cycles;
    char text[160]; /* the last that was wrong */
} lk_load_result;
lk_load_result lk_load_end(lk_load *load);
