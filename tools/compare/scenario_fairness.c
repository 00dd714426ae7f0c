/* scenario_fairness.c: six workers want one lock again and again: in which order do they get it? */
#include <stdio.h>
#include <stdlib.h>

#include "scenario.h"

/* Two that ask within SLACK_NS of each other have no order: their requests are under way at the same time. On
 * a busy machine a request may take longer to arrive, so a promise is broken only when the one passed over
 * also has the smaller fencing token: a service that promises an order gives tokens out on arrival. */
enum { WORKERS = 6, HOLD_US = 4000, REST_US = 2000, SLACK_NS = 5000000 };

/* Whether somebody behind had asked before this one, clearly, and was passed over; `queued`: and had arrived
 * before it. */
static bool overtakes(const lk_cycles *all, size_t at, bool queued)
{
    const lk_cycle *first = &all->turns[at];

    for (size_t i = at + 1; i < all->len && all->turns[i].got - first->got < 60 * INT64_C(1000000000); i++)
        if (all->turns[i].asked + SLACK_NS < first->asked && (!queued || all->turns[i].token < first->token))
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
        lk_promise(cell, "Served in the order of arrival, over all processes.");
}

static void run(lk_cell *cell)
{
    const lk_pace pace = {.for_ms = cell->quick ? 1000 : 2000,
                          .count = 10000,
                          .hold_us = HOLD_US,
                          .rest_us = REST_US,
                          .told = 10000};
    const bool ordered = cell->backend->column->semantics.fairness == LOCKER_FAIR_GLOBAL;
    size_t passed = 0;
    lk_cycles all;
    char name[32];

    promise(cell);
    for (int i = 0; i < WORKERS; i++) {
        snprintf(name, sizeof(name), "worker-%d", i + 1);
        lk_hire(cell, name);
    }
    all = lk_cycle_all(cell, &pace);
    for (size_t i = 0; i < all.len; i++) {
        lk_measure(cell, "wait", "ms", (double)(all.turns[i].got - all.turns[i].asked) / 1e6);
        passed += overtakes(&all, i, ordered);
    }
    lk_measure(cell, "out of order", "", (double)passed);
    lk_measure(cell, "evenness", "", evenness(cell, &all));
    if (passed > 0 && ordered)
        lk_broken(cell, "%zu of %zu grants passed over one that had asked 5 ms earlier", passed, all.len);
    free(all.turns);
}

static void conclude(lk_result *result)
{
    const lk_measured *wait = lk_measured_of(result, "wait");
    char passed[32], longest[24];

    lk_figure(result, "%s of %zu grants out of order, longest wait %s, evenness among %d processes %.2f",
              lk_range_words(result, "out of order", passed, sizeof(passed)), wait ? wait->len : 0,
              lk_ms_words(lk_measured_quantile(wait, 1), longest, sizeof(longest)), WORKERS,
              lk_measured_quantile(lk_measured_of(result, "evenness"), 0));
}

const lk_scenario lk_scenario_fairness = {
    .name = "fairness",
    .title = "In which order they get it",
    .question = "Six processes want one lock again and again. Who gets it before another that had asked 5 ms "
                "earlier, and how long does one wait at most?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
