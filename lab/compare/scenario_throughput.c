/* scenario_throughput.c: four workers lock and unlock as fast as they can: keys of their own, and one for
 * all. */
#include <stdio.h>
#include <stdlib.h>

#include "scenario.h"

enum { WORKERS = 4, TOLD = 200 };

static double rate(lk_cell *cell, bool own_keys)
{
    const lk_pace pace = {.for_ms = cell->quick ? 300 : 1000,
                          .count = 100000,
                          .told = own_keys ? 0 : TOLD,
                          .own_keys = own_keys};
    lk_cycles all = lk_cycle_all(cell, &pace);
    const double seconds = (double)(all.end - all.begin) / 1e9;
    free(all.turns);
    return (double)all.len / seconds;
}

static void run(lk_cell *cell)
{
    char name[32];
    for (int i = 0; i < WORKERS; i++) {
        snprintf(name, sizeof name, "worker-%d", i + 1);
        lk_hire(cell, name);
    }
    lk_measure(cell, "own keys", "1/s", rate(cell, true));
    lk_measure(cell, "one key", "1/s", rate(cell, false));
}

static void conclude(lk_result *result)
{
    lk_figure(result, "%.0f locks a second on keys of their own, %.0f on one key (%d processes)",
              lk_measured_quantile(lk_measured_of(result, "own keys"), 0.5),
              lk_measured_quantile(lk_measured_of(result, "one key"), 0.5), WORKERS);
}

const lk_scenario lk_scenario_throughput = {
    .name = "throughput",
    .title = "As fast as they can",
    .question = "Four processes lock and unlock without a pause, first each its own key, then all the "
                "same key. How many locks a second do they get?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
    .no_lanes = true,
};
