/* scenario_permits.c: three permits, and more processes that want one: a holder is killed while another waits,
 * and then all take and give them without a pause. */
#include <stdio.h>
#include <stdlib.h>

#include "scenario.h"

enum { WORKERS = 6, PERMITS = 3, HOLD_US = 4000, REST_US = 1000 };

static void promise(lk_cell *cell)
{
    lk_promise(cell,
               "At most %d holders at once, each with its own slot. A call with another number of permits is "
               "refused. The permit of a killed holder is free %s.",
               PERMITS, cell->backend->column->semantics.leases ? "when its lease ends" : "at once");
}

static void hire(lk_cell *cell, lk_worker *workers[WORKERS])
{
    char name[16];
    for (int i = 0; i < WORKERS; i++) {
        snprintf(name, sizeof name, "worker-%d", i + 1);
        workers[i] = lk_hire(cell, name);
        lk_ask_permit(workers[i], PERMITS);
    }
}

static void need(lk_cell *cell, const lk_answer *answer, locker_status status, const char *what)
{
    if (answer->status != status)
        lk_broken(cell, "%s returned %s instead of %s", what, locker_status_name(answer->status),
                  locker_status_name(status));
}

/* All are taken. */
static void refuse(lk_cell *cell, lk_worker *worker)
{
    const lk_answer beyond = lk_ask(worker, "try %s 0 1", cell->key);
    need(cell, &beyond, LOCKER_BUSY, "a try while all permits were taken");
    lk_ask_permit(worker, PERMITS + 1);
    const lk_answer other = lk_ask(worker, "try %s 0 1", cell->key);
    need(cell, &other, LOCKER_CONFIG, "a try with another number of permits");
    lk_ask_permit(worker, PERMITS);
}

static void kill_one(lk_cell *cell, lk_worker *workers[WORKERS])
{
    lk_answer held[PERMITS];
    for (int i = 0; i < PERMITS; i++)
        held[i] = lk_compare_take(workers[i]);
    refuse(cell, workers[WORKERS - 1]);
    lk_worker *next = workers[PERMITS];
    lk_stand_in_line(next);
    lk_compare_fault(cell, true, "kill", workers[0]->name);
    const int64_t killed = lk_kill(workers[0]);
    const lk_answer got = lk_hear(next);
    lk_compare_fault(cell, false, "kill", workers[0]->name);
    const double gap = (double)(got.received - killed) / 1e6;
    if (lk_failed(cell))
        return;
    lk_measure(cell, "gap", "ms", gap);
    if (got.status != LOCKER_OK)
        lk_broken(cell, "the next process did not get the killed holder's permit: %s", got.text);
    else if (gap > (double)lk_free_ms(cell, &held[0]))
        lk_broken(cell, "the permit was free only %.0f ms after the kill, but its lease is %lld ms", gap,
                  (long long)lk_lease_ms(cell, &held[0]));
    for (int i = 1; i <= PERMITS; i++)
        lk_ask(workers[i], "unlock");
}

static void take_on(lk_cell *cell)
{
    const lk_pace pace = {.for_ms = cell->quick ? 300 : 2000,
                          .count = 10000,
                          .hold_us = HOLD_US,
                          .rest_us = REST_US,
                          .told = 10000,
                          .watched = true};
    const lk_cycles all = lk_cycle_all(cell, &pace);
    if (!lk_failed(cell)) {
        lk_measure(cell, "at once", "", (double)lk_cycles_at_once(&all, false));
        lk_measure(cell, "wait", "ms", lk_cycles_longest_wait(&all, false));
    }
    free(all.turns);
}

static void run(lk_cell *cell)
{
    lk_worker *workers[WORKERS];
    promise(cell);
    hire(cell, workers);
    lk_observe(cell, cell->backend->uri, -1);
    kill_one(cell, workers);
    take_on(cell);
}

static void conclude(lk_result *result)
{
    const lk_measured *gap = lk_measured_of(result, "gap"), *wait = lk_measured_of(result, "wait");
    char free_after[24], waited[24], most[32];
    lk_figure(result,
              "a killed holder's permit is free after %s; %s of %d permits taken at once by %d "
              "processes, longest wait %s",
              lk_ms_words(lk_measured_quantile(gap, 1), free_after, sizeof free_after),
              lk_range_words(result, "at once", most, sizeof most), PERMITS, WORKERS - 1,
              lk_ms_words(lk_measured_quantile(wait, 1), waited, sizeof waited));
}

const lk_scenario lk_scenario_permits = {
    .name = "permits",
    .title = "Three permits",
    .question =
        "Three processes have the three permits of a key, another waits, and a holder is killed. When "
        "does the waiting process have a permit? Then five processes take and return permits without a "
        "pause. How many hold a permit at once, and how long is the longest wait?",
    .needs = LK_CAN_BE_SHARED | LK_CAN_PERMIT,
    .run = run,
    .conclude = conclude,
};
