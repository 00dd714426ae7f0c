/*
 * run.h: one simulation, from a seed: processes that lock and unlock, a service, and what goes wrong meanwhile. At the end
 * all is healed, everybody unlocks, and each key can be had again.
 *
 * A service brings to a run (lk_sim_faulty) how it begins and ends, and the faults that it alone has. The faults of processes,
 * and of the ways between them and the service, are in run.c. A fault is drawn with all its random numbers, whether it is made
 * or not. So if one fault is left out, the others stay the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "judge.h"
#include "world/network.h"

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

/* ------------------------------------------------------------------ what a service brings ---- */

typedef struct {
    unsigned number;
    unsigned kind; /**< any number, as the next two: for the one who makes it to choose by */
    unsigned slot;
    uint64_t detail;
    int64_t span_ns; /**< how long it lasts, if it lasts */
} lk_sim_fault;

typedef struct {
    bool
        is_inside; /**< it is in the processes themselves: nothing goes wrong, and none of the next but the first two is called */
    unsigned modelled_threads; /**< so many has a process at most where the run is modelled; 0: one */
    /** It listens from now on. Answers the URI, which lasts until the end. `random`: what it draws for itself, by
     * lk_sim_draw_from(). `bounds`: all zero. */
    const char *(*begin)(uint64_t *random, lk_sim_bounds *bounds);
    void (*end)(void);
    /** Its servers, from 0; NULL past the last. The ways to them may be clogged. */
    lk_sim_service *(*server)(unsigned place);
    /** Make the fault that this one is. False: it is so already, and nothing was made. */
    bool (*make)(const lk_sim_fault *fault);
    /** No more faults come: what goes on by itself is to come to its end. NULL: there is nothing. */
    void (*settle)(void);
    /** When nobody uses it any more: what was left behind at it; NULL: nothing. */
    const char *(*left)(void);
} lk_sim_faulty;

/** The fault is made now, and is over at once. */
void lk_sim_fault_strikes(const lk_sim_fault *fault, const char *what);
/** It is made now, and `heal` ends it when its time is over. */
void lk_sim_fault_lasts(const lk_sim_fault *fault, const char *what, void (*heal)(void *context),
                        void *context);

void lk_sim_run_with(const lk_sim_faulty *service, const lk_sim_plan *plan, FILE *trace,
                     lk_sim_result *result);
