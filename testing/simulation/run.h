/*
 * run.h: one simulation, from a seed: processes that lock and unlock, a service, and what goes wrong meanwhile. At the end
 * all is healed, everybody unlocks, and each key can be had again.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

typedef struct lk_sim_result {
    uint64_t steps;
    int64_t simulated_ns;
    unsigned grants, faults;
    char failure[512]; /**< empty: none */
} lk_sim_result;

/** Called by a run that fails, when its result is filled. It must not return. */
extern void (*lk_sim_run_failed)(void);

/** With Redis. Once in a process of the system's: what killed processes held is never freed. */
void lk_sim_run_redis(uint64_t seed, FILE *trace, lk_sim_result *result);
