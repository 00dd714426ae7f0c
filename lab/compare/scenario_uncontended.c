/* scenario_uncontended.c: one worker locks and unlocks, and nobody else wants the lock. */
#include <stdlib.h>

#include "scenario.h"

static void run(lk_cell *cell)
{
    const lk_pace pace = {
        .for_ms = cell->quick ? 1000 : 3000, .count = cell->quick ? 200 : 2000, .told = 100};
    lk_hire(cell, "worker");
    lk_cycles all = lk_cycle_all(cell, &pace);
    for (size_t i = 0; i < all.len; i++) {
        lk_measure(cell, "lock", "ms", (double)(all.turns[i].got - all.turns[i].asked) / 1e6);
        lk_measure(cell, "unlock", "ms", (double)(all.turns[i].given - all.turns[i].gave) / 1e6);
    }
    free(all.turns);
}

static void conclude(lk_result *result)
{
    const lk_measured *lock = lk_measured_of(result, "lock"), *unlock = lk_measured_of(result, "unlock");
    char half[4][24];
    lk_figure(result, "lock %s, unlock %s (median; 99 %%: %s and %s)",
              lk_ms_words(lk_measured_quantile(lock, 0.5), half[0], sizeof half[0]),
              lk_ms_words(lk_measured_quantile(unlock, 0.5), half[1], sizeof half[1]),
              lk_ms_words(lk_measured_quantile(lock, 0.99), half[2], sizeof half[2]),
              lk_ms_words(lk_measured_quantile(unlock, 0.99), half[3], sizeof half[3]));
}

const lk_scenario lk_scenario_uncontended = {
    .name = "uncontended",
    .title = "No other process wants it",
    .question = "One process locks and unlocks, again and again. How long does each take?",
    .run = run,
    .conclude = conclude,
};
