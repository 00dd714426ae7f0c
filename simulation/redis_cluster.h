/* redis_cluster.h: simulated Redis servers that are a cluster: three masters, each perhaps with a replica, which tell each other
 * what has become of slots and of masters, and whose slots move. */
#pragma once

#include "redis_service.h"

enum { LK_SIM_PLACES = 3, LK_SIM_NODES = 2 * LK_SIM_PLACES };

/** It begins: each master has a third of the slots. */
void lk_sim_cluster_begin(bool has_replicas, uint64_t *random);
void lk_sim_cluster_end(void);

/** All nodes, from 0. Of a place the first is the master at first, and three behind it its replica. */
lk_sim_redis *lk_sim_cluster_node(unsigned node);

/** The master of a place now. */
lk_sim_redis *lk_sim_cluster_master(unsigned place);

/** Whether it can be reached by others, and serves. */
bool lk_sim_cluster_is_well(const lk_sim_redis *redis);

/** Who has that key, or the place for it: `at`, and whether that has to be asked for by ASKING. False: he can't be asked now. */
bool lk_sim_cluster_find(const char *name, lk_sim_redis **at, bool *is_asking);

/* ------------------------------------------------------------------ masters ---- */

/** It has begun anew, and takes no commands for two seconds, as a master does. */
void lk_sim_cluster_comes_up(lk_sim_redis *redis);

/** The others hear it no more, or again. After a second of that it finds that the cluster is down; clients reach it still. */
void lk_sim_cluster_cut(lk_sim_redis *redis, bool is_cut);

/** Whether its replica could take the place now: one of whose slots none moves. */
bool lk_sim_cluster_has_heir(unsigned place);

/** The replica is the master. `is_planned`: it catches up before, and nothing is lost. The one before follows when
 * lk_sim_cluster_follows() says so. */
void lk_sim_cluster_promote(unsigned place, bool is_planned);
void lk_sim_cluster_follows(unsigned place);

/* ------------------------------------------------------------------ slots ---- */

enum { LK_SIM_CLUSTER_SLOTS = 2 }; /* those that the run's keys have */

/** The slot begins to move to another place. Some of its keys do so soon, and the others not before that time has passed. False: it
 * moves already, or one of the two can't. */
bool lk_sim_cluster_move(unsigned slot, unsigned steps, int64_t span_ns);

/** True while the slot migrates. */
bool lk_sim_cluster_is_moving(unsigned slot);

/** Who has the slot, and since when; 0: since the beginning. */
unsigned lk_sim_cluster_place(unsigned slot, int64_t *since);

/** If it moves, the rest of it does so now. */
void lk_sim_cluster_hurry(unsigned slot);

/** What is left when nobody uses it any more: a key that ought not to be there, or is there twice; NULL: nothing. */
const char *lk_sim_cluster_left(bool has_strangers);
