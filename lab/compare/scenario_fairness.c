/* scenario_fairness.c: six workers want one lock again and again: in which order do they get it? */
#include <stdio.h>
#include <stdlib.h>

#include "scenario.h"

enum { WORKERS = 6, HOLD_US = 4000, REST_US = 2000 };

/* Whether somebody behind was passed over who stood in the queue, as its own process saw, before this one
 * asked. Of two whose requests were under way at the same time nobody knows which came first. */
static bool overtakes(const lk_cycles *all, size_t at)
{
    const lk_cycle *first = &all->turns[at];
    for (size_t i = at + 1; i < all->len; i++)
        if (all->turns[i].queued > 0 && all->turns[i].queued < first->asked)
            return true;
    return false;
}

/* Jain's index of the grants for each process: 1 is even, 1/WORKERS is all for one. */
static double evenness(const lk_cell *cell, const lk_cycles *all)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < cell->crew_len; i++) {
        double grants = 0;

        for (size_t turn = 0; turn < all->len; turn++)
            grants += all->turns[turn].process == cell->crew[i]->pid;
        sum += grants;
        squares += grants * grants;
    }
    return squares > 0 ? sum * sum / ((double)cell->crew_len * squares) : 0;
}

static void promise(lk_cell *cell)
{
    if (cell->backend->column->semantics.fairness == LOCKER_FAIR_GLOBAL)
        lk_promise(cell, "Callers are served in the order of arrival, over all processes.");
}

static void run(lk_cell *cell)
{
    const lk_pace pace = {.for_ms = cell->quick ? 1000 : 2000,
                          .count = 10000,
                          .hold_us = HOLD_US,
                          .rest_us = REST_US,
                          .told = 10000,
                          .watched = true};
    const bool ordered = cell->backend->column->semantics.fairness == LOCKER_FAIR_GLOBAL;
    size_t passed = 0;
    char name[32];
    promise(cell);
    for (int i = 0; i < WORKERS; i++) {
        snprintf(name, sizeof name, "worker-%d", i + 1);
        lk_hire(cell, name);
    }
    const lk_cycles all = lk_cycle_all(cell, &pace);
    for (size_t i = 0; i < all.len; i++) {
        lk_measure(cell, "wait", "ms", (double)(all.turns[i].got - all.turns[i].asked) / 1e6);
        passed += overtakes(&all, i);
    }
    lk_measure(cell, "out of order", "", (double)passed);
    lk_measure(cell, "evenness", "", evenness(cell, &all));
    if (passed > 0 && ordered)
        lk_broken(cell, "%zu of %zu grants overtook a process that was already in the queue", passed,
                  all.len);
    free(all.turns);
}

static void conclude(lk_result *result)
{
    const lk_measured *wait = lk_measured_of(result, "wait");
    char passed[32], longest[24];
    lk_figure(result, "%s of %zu grants out of order, longest wait %s, evenness among %d processes %.2f",
              lk_range_words(result, "out of order", passed, sizeof passed), wait ? wait->len : 0,
              lk_ms_words(lk_measured_quantile(wait, 1), longest, sizeof longest), WORKERS,
              lk_measured_quantile(lk_measured_of(result, "evenness"), 0));
}

const lk_scenario lk_scenario_fairness = {
    .name = "fairness",
    .title = "The order of the grants",
    .question =
        "Six processes take one lock again and again. Does a process get the lock before another that "
        "was already in the queue, and how long is the longest wait?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
