/* scenarios.c: the list of scenarios; see scenario.h. */
#include "scenario.h"

#include <stddef.h>

const lk_scenario *const lk_scenarios[] = {
    &lk_scenario_counter,
    &lk_scenario_uncontended,
    &lk_scenario_handoff,
    &lk_scenario_throughput,
    &lk_scenario_fairness,
    &lk_scenario_crash,
    &lk_scenario_stall,
    &lk_scenario_slow_work,
    &lk_scenario_unlock_after_loss,
    &lk_scenario_readers,
    &lk_scenario_permits,
    &lk_scenario_restart,
    &lk_scenario_restart_empty,
    &lk_scenario_recovery,
    &lk_scenario_failover,
    &lk_scenario_failover_wait,
    &lk_scenario_failover_recovery,
    &lk_scenario_partition,
    NULL,
};
