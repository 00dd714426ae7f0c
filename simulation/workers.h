/* workers.h: many simulations, each in a process of its own, several at a time. */
#pragma once

#include <stdbool.h>

#include "run.h"

typedef struct {
    const char *driver;
    void (*run)(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result);
    lk_sim_plan plan;      /**< of each, but for its seed */
    uint64_t first, seeds; /**< which */
    uint64_t jobs;         /**< how many at a time */
    FILE *trace;           /**< NULL: none */
    const char *limits;    /**< the plan's options, for the command that repeats a run */
    bool stops;            /**< at the first that fails */
    bool for_programs;     /**< a line for each seed, instead of words */
} lk_sim_orders;

typedef struct {
    uint64_t seeds, steps, grants, faults, failures;
    int64_t simulated_ns, cpu_ns;
    double seconds;
    bool interrupted; /**< by a signal: what was under way then is not counted, and not told */
} lk_sim_totals;

/** Run them all. What fails is told at once. False: no process can be started, errno says why. */
bool lk_sim_run_workers(const lk_sim_orders *orders, lk_sim_totals *totals);
