/* scenario_slow_work.c: work that takes longer than the lease, with renewal and without. */
#include <stdio.h>

#include "scenario.h"

/* The lease is renewed: nobody else gets in, and unlock says released. */
static void renewed(lk_cell *cell, lk_worker *worker, lk_worker *rival)
{
    const lk_answer held = lk_compare_take(worker);
    lk_rest(cell, lk_lease_ms(cell, &held) > 0 ? lk_lease_ms(cell, &held) * 5 / 2 : cell->ttl_ms * 5 / 2);
    lk_answer tried = lk_ask(rival, "try %s 0 1", cell->key);
    lk_answer given = lk_ask(worker, "unlock");
    if (tried.status == LOCKER_OK)
        lk_ask(rival, "unlock");
    if (lk_failed(cell))
        return;
    if (tried.status != LOCKER_BUSY)
        lk_broken(cell, "with renewal: the try of another process returned %s",
                  locker_status_name(tried.status));
    if (given.status != LOCKER_OK)
        lk_broken(cell, "with renewal: unlock returned %s", locker_status_name(given.status));
    lk_measure(cell, "held", "", tried.status == LOCKER_BUSY && given.status == LOCKER_OK);
    lk_measure(cell, "worked", "ms", (double)(given.sent - held.received) / 1e6);
}

/* It is not: the holder is told at its deadline, and the next one gets in. */
static void not_renewed(lk_cell *cell, lk_worker *worker, lk_worker *rival, const char *store)
{
    const lk_answer held = lk_ask(worker, "lock %s 20000 0", cell->key);
    lk_stand_in_line(rival);
    const lk_answer lost = lk_ask(worker, "lost 20000");
    const lk_answer got = lk_hear(rival);
    lk_ask(rival, "write %s", store);
    const lk_answer write = lk_ask(worker, "write %s", store);
    lk_answer given = lk_ask(worker, "unlock");
    lk_ask(rival, "unlock");
    if (lk_failed(cell))
        return;
    if (lost.state != LOCKER_STATE_LOST || given.status != LOCKER_LOST)
        lk_broken(cell, "without renewal: the holder was not notified of its loss");
    if (got.status != LOCKER_OK)
        lk_broken(cell, "without renewal: the next process did not get the lock: %s", got.text);
    if (write.status == LOCKER_OK)
        lk_broken(cell, "without renewal: the store accepted a write with a stale token");
    lk_measure(cell, "late write refused", "", write.status != LOCKER_OK);
    lk_measure(cell, "notice", "ms", (double)(lost.received - lost.until) / 1e6);
    lk_measure(cell, "gap", "ms", (double)(got.received - held.received) / 1e6);
}

static void run(lk_cell *cell)
{
    lk_worker *worker = lk_hire(cell, "worker"), *rival = lk_hire(cell, "rival");
    lk_promise(cell, "With renewal, a lock is held for as long as the work takes. Without renewal, the "
                     "holder is notified at its deadline, before another process can have the lock.");
    char store[320];
    snprintf(store, sizeof store, "%s.store", cell->history);
    lk_observe(cell, cell->backend->uri, -1);
    renewed(cell, worker, rival);
    not_renewed(cell, worker, rival, store);
}

static void conclude(lk_result *result)
{
    char worked[24], notice[24], gap[24];
    lk_figure(result,
              "with renewal: %s for %s of work; without: notified %s after the deadline, the next process "
              "had the lock after %s, a late write was %s",
              lk_every(result, "held") ? "held" : "NOT HELD",
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "worked"), 0), worked, sizeof worked),
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "notice"), 1), notice, sizeof notice),
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "gap"), 1), gap, sizeof gap),
              lk_every(result, "late write refused") ? "refused" : "ACCEPTED");
}

const lk_scenario lk_scenario_slow_work = {
    .name = "slow-work",
    .title = "Work that outlasts the lease",
    .question =
        "The holder works for two and a half leases, once with renewal and once without. Does it keep "
        "the lock, or is it notified of the loss?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
