/* scenario_stall.c: the holder is stopped beyond its lease, and goes on as if nothing were. */
#include <stdio.h>

#include "scenario.h"

/* Without a lease it keeps the lock; the next one gets it by its unlock. */
static void keeps(lk_cell *cell, lk_worker *holder, lk_worker *next, const char *store)
{
    lk_compare_freeze(holder);
    lk_rest(cell, cell->ttl_ms * 3 / 2);
    lk_compare_thaw(holder);
    lk_compare_fault(cell, false, "stop", holder->name);
    lk_answer write = lk_ask(holder, "write %s", store);
    lk_answer given = lk_ask(holder, "unlock");
    lk_answer got = lk_hear(next);
    if (lk_failed(cell))
        return;
    if (write.status != LOCKER_OK)
        lk_broken(cell, "the holder's write was refused, although it should have kept the lock");
    if (given.status != LOCKER_OK)
        lk_broken(cell, "the holder's unlock returned %s", locker_status_name(given.status));
    if (got.status != LOCKER_OK || got.received < given.sent)
        lk_broken(cell, "the next process did not get the lock after the unlock");
    lk_measure(cell, "kept", "", write.status == LOCKER_OK && given.status == LOCKER_OK);
}

/* What it believes, does and is told when it goes on. */
static void goes_on(lk_cell *cell, lk_worker *holder, int64_t since, const char *store)
{
    const lk_answer write = lk_ask(holder, "write %s", store), state = lk_ask(holder, "state");
    const lk_answer told = lk_ask(holder, "lost 2000"), given = lk_ask(holder, "unlock");
    if (lk_failed(cell))
        return;
    if (write.status == LOCKER_OK)
        lk_broken(cell, "the store accepted a write with the stale token %llu",
                  (unsigned long long)write.token);
    if (state.state != LOCKER_STATE_LOST || told.state != LOCKER_STATE_LOST)
        lk_broken(cell, "the stopped holder did not see that it had lost the lock");
    if (given.status != LOCKER_LOST)
        lk_broken(cell, "the stopped holder's unlock returned %s instead of lost",
                  locker_status_name(given.status));
    lk_measure(cell, "first look", "ms", (double)(state.received - since) / 1e6);
    lk_measure(cell, "notice", "ms", (double)(told.received - since) / 1e6);
    lk_measure(cell, "late write refused", "", write.status != LOCKER_OK);
    lk_measure(cell, "look said lost", "", state.state == LOCKER_STATE_LOST);
    lk_measure(cell, "unlock said lost", "", given.status == LOCKER_LOST);
}

static void run(lk_cell *cell)
{
    lk_worker *holder = lk_hire(cell, "holder"), *next = lk_hire(cell, "next");
    lk_promise(cell, "%s", cell->backend->column->semantics.holder_stalls);
    char store[320];
    snprintf(store, sizeof store, "%s.store", cell->history);
    lk_observe(cell, cell->backend->uri, -1);
    const lk_answer held = lk_compare_take(holder);
    lk_ask(holder, "write %s", store);
    lk_stand_in_line(next);
    lk_compare_fault(cell, true, "stop", holder->name);
    if (lk_lease_ms(cell, &held) == 0) {
        keeps(cell, holder, next, store);
        return;
    }
    lk_compare_freeze(holder);
    const lk_answer got = lk_hear(next);
    if (got.status != LOCKER_OK)
        lk_broken(cell, "the next process did not get the lock: %s", got.text);
    if (lk_ask(next, "write %s", store).status != LOCKER_OK)
        lk_broken(cell, "the store refused the new holder's write");
    lk_measure(cell, "gap", "ms", (double)(got.received - held.received) / 1e6);
    lk_rest(cell, lk_lease_ms(cell, &held) / 2);
    const int64_t thawed = lk_compare_fault(cell, false, "stop", holder->name);
    lk_compare_thaw(holder);
    goes_on(cell, holder, thawed, store);
    if (lk_ask(next, "unlock").status != LOCKER_OK)
        lk_broken(cell, "the new holder's unlock did not return ok");
}

static void conclude(lk_result *result)
{
    if (lk_measured_of(result, "kept")) {
        lk_figure(result, "the holder %s the lock while it was stopped",
                  lk_every(result, "kept") ? "kept" : "LOST");
        return;
    }
    char look[24], notice[24];
    lk_figure(result,
              "another process had the lock meanwhile; the holder's late write was %s, its state, %s after "
              "it continued, was %s, the notification came after %s, unlock %s",
              lk_every(result, "late write refused") ? "refused" : "ACCEPTED",
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "first look"), 1), look, sizeof look),
              lk_every(result, "look said lost") ? "lost" : "HELD",
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "notice"), 1), notice, sizeof notice),
              lk_every(result, "unlock said lost") ? "returned lost" : "DID NOT RETURN LOST");
}

const lk_scenario lk_scenario_stall = {
    .name = "stall",
    .title = "The holder is stopped, and continues",
    .question = "The holder is stopped (SIGSTOP) for longer than its lease while another process "
                "waits. Then it continues as if it held the lock: it writes to a store that checks "
                "fencing tokens, reads its state, and unlocks. Does it learn of its loss?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
