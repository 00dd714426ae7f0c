/* scenario.h: the scenarios of locker compare, one small file each, listed in scenarios.c. */
#pragma once

#include "cell.h"

typedef struct {
    const char *name;                    /**< as --scenario takes it */
    const char *title;                   /**< a few words */
    const char *question;                /**< what is done and asked; a sentence or two */
    unsigned needs;                      /**< LK_CAN_*: what has to be done to the backend */
    void (*run)(lk_cell *cell);          /**< one run */
    void (*conclude)(lk_result *result); /**< after all runs: the headline */
    bool no_lanes;                       /**< too much happens for a picture of who held when */
} lk_scenario;

extern const lk_scenario lk_scenario_counter, lk_scenario_uncontended, lk_scenario_handoff,
    lk_scenario_throughput, lk_scenario_fairness, lk_scenario_crash, lk_scenario_stall, lk_scenario_slow_work,
    lk_scenario_restart, lk_scenario_restart_empty, lk_scenario_recovery, lk_scenario_failover,
    lk_scenario_failover_wait, lk_scenario_failover_recovery, lk_scenario_partition,
    lk_scenario_unlock_after_loss, lk_scenario_readers, lk_scenario_permits;

/** All of them in the order in which they are run and shown, ended by NULL. */
extern const lk_scenario *const lk_scenarios[];
