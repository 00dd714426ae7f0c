/*
 * run.h: one simulation, from a seed: processes that lock and unlock, a service, and what goes wrong meanwhile. At the end
 * all is healed, everybody unlocks, and each key can be had again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** What is run. All but the seed is for finding the least that still fails. */
typedef struct {
    uint64_t seed;
    const uint32_t *without; /**< numbers of faults that are left out; those that stay are what they were */
    size_t without_count;
    unsigned processes, keys,
        threads; /**< at most so many at first, in all, in a process; 0: as the seed has it */
    uint64_t
        course; /**< another one of all but the faults: who goes on, how long messages take; 0: the seed's */
    bool modelled; /**< nothing happens that the models leave out, and the trace has steps alone (steps.h) */
} lk_sim_plan;

typedef struct {
    uint64_t steps;
    int64_t simulated_ns;
    unsigned grants;
    unsigned faults;   /**< that were made */
    unsigned drawn;    /**< that came, also those that were not made: they have the numbers below this one */
    char failure[512]; /**< empty: none */
} lk_sim_result;

/** Called by a run that fails, when its result is filled. It must not return. */
extern void (*lk_sim_run_failed)(void);

/** With Redis. Once in a process of the system's: what killed processes held is never freed. A trace may be NULL. */
void lk_sim_run_redis(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result);
/** The same with a Redis Cluster. */
void lk_sim_run_redis_cluster(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result);
/** The same with locks in memory, which all processes share: none of them stands still or is killed. */
void lk_sim_run_memory(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result);
/** The same with ZooKeeper, where there is an archive of its client library. */
void lk_sim_run_zookeeper(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result);
/** The same with etcd. */
void lk_sim_run_etcd(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result);

/** Whether the run has only what the models have: locks of one holder, one server that keeps its data, no breaks. */
bool lk_sim_is_modelled(void);

/** Whether several may hold the key at once, or that is not known yet. */
bool lk_sim_may_be_shared(unsigned key);
