/* scenario_handoff.c: two workers take turns: how long does the lock take from one to the other? */
#include <stdlib.h>

#include "scenario.h"

/* The rest lets the other have its turn where nothing else does. */
enum { HOLD_US = 3000, REST_US = 1000 };

static void run(lk_cell *cell)
{
    const int turns = cell->quick ? 40 : 100;
    const lk_pace pace = {
        .for_ms = 20000, .count = turns, .hold_us = HOLD_US, .rest_us = REST_US, .told = 100};
    lk_hire(cell, "ping");
    lk_hire(cell, "pong");
    lk_cycles all = lk_cycle_all(cell, &pace);
    for (size_t i = 1; i < all.len; i++) {
        const lk_cycle *before = &all.turns[i - 1], *after = &all.turns[i];

        /* the next one stood in line for a while before the lock was given back */
        if (after->process != before->process && before->gave - after->asked > HOLD_US * 1000 / 3)
            lk_measure(cell, "hand-off", "ms", (double)(after->got - before->gave) / 1e6);
    }
    free(all.turns);
}

static void conclude(lk_result *result)
{
    const lk_measured *times = lk_measured_of(result, "hand-off");
    char half[24], most[24];
    lk_figure(result, "%s from unlock to the next holder (median of %zu; 99 %%: %s)",
              lk_ms_words(lk_measured_quantile(times, 0.5), half, sizeof half), times ? times->len : 0,
              lk_ms_words(lk_measured_quantile(times, 0.99), most, sizeof most));
}

const lk_scenario lk_scenario_handoff = {
    .name = "hand-off",
    .title = "From one process to the next",
    .question = "Two processes take turns. How long is it from an unlock to the other process's lock?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
