/* scenario_crash.c: the holder is killed with -9 while another waits. */
#include <stdio.h>

#include "scenario.h"

static void promise(lk_cell *cell)
{
    const locker_semantics *s = &cell->backend->column->semantics;
    lk_promise(cell, "%s", s->holder_dies);
}

static void once(lk_cell *cell, int turn)
{
    char name[32];
    snprintf(name, sizeof name, "holder-%d", turn);
    lk_worker *holder = lk_hire(cell, name);
    snprintf(name, sizeof name, "next-%d", turn);
    lk_worker *next = lk_hire(cell, name);
    const lk_answer held = lk_compare_take(holder);
    lk_stand_in_line(next);
    lk_compare_fault(cell, true, "kill", holder->name);
    const int64_t killed = lk_kill(holder);
    const lk_answer got = lk_hear(next);
    lk_compare_fault(cell, false, "kill", holder->name);
    if (lk_failed(cell))
        return;
    const double gap = (double)(got.received - killed) / 1e6;
    if (got.status != LOCKER_OK)
        lk_broken(cell, "the next process did not get the lock: %s", got.text);
    else if (gap > (double)lk_free_ms(cell, &held))
        lk_broken(cell, "the lock was free only %.0f ms after the kill, but its lease is %lld ms", gap,
                  (long long)lk_lease_ms(cell, &held));
    lk_measure(cell, "gap", "ms", gap);
    lk_measure(cell, "lease", "ms", (double)lk_lease_ms(cell, &held));
    lk_ask(next, "unlock");
}

static void run(lk_cell *cell)
{
    promise(cell);
    lk_observe(cell, cell->backend->uri, -1);
    for (int turn = 1; turn <= (cell->quick ? 1 : 3); turn++)
        once(cell, turn);
}

static void conclude(lk_result *result)
{
    const lk_measured *gap = lk_measured_of(result, "gap"), *lease = lk_measured_of(result, "lease");
    char most[24], half[24], ttl[24];
    lk_ms_words(lk_measured_quantile(lease, 1), ttl, sizeof ttl);
    lk_figure(result, "the next process has the lock after %s (median of %zu; at most %s; lease %s)",
              lk_ms_words(lk_measured_quantile(gap, 0.5), half, sizeof half), gap ? gap->len : 0,
              lk_ms_words(lk_measured_quantile(gap, 1), most, sizeof most),
              lk_measured_quantile(lease, 1) > 0 ? ttl : "none");
}

const lk_scenario lk_scenario_crash = {
    .name = "crash",
    .title = "The holder is killed",
    .question = "The holder is killed with -9 while another process waits. When does the waiting "
                "process have the lock?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
