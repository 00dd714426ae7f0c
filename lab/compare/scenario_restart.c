/* scenario_restart.c: the server is killed and started again, with its data and without. */
#include <stdio.h>

#include "scenario.h"
#include "servers/wait.h"
#include "spawn.h"

enum { EMPTY_LEASE_MS = 6000 };

static bool restart(lk_cell *cell, bool keep_data)
{
    if (lk_failed(cell))
        return false;
    cell->harmed = true;
    const int64_t began =
        lk_compare_fault(cell, true, "restart", keep_data ? "with its data" : "without its data");
    lk_spawn_kill(cell->backend);
    const bool serves = lk_spawn_start_again(cell->backend, keep_data);
    lk_measure(cell, "away", "ms", (double)(lk_compare_fault(cell, false, "restart", "") - began) / 1e6);
    if (!serves)
        lk_fail(cell, "the server did not come back");
    return serves;
}

static double longest_away(const lk_cell *cell)
{
    return lk_measured_quantile(lk_measured_of(cell->result, "away"), 1);
}

static void with_data(lk_cell *cell)
{
    lk_promise(cell, "%s", cell->backend->column->semantics.service_restarts);
    cell->ttl_ms = 3 * cell->backend->kind->back_ms;
    lk_worker *holder = lk_hire(cell, "holder");
    lk_worker *rival = lk_hire(cell, "rival");
    lk_observe(cell, cell->backend->uri, -1);
    const lk_answer held = lk_compare_take(holder);
    if (!restart(cell, true))
        return;
    const lk_answer tried = lk_ask(rival, "try %s 0 1", cell->key);
    lk_await_news(holder, &held, lk_now_ns()); /* it goes on being renewed at the server that came back */
    lk_answer given = lk_ask(holder, "unlock");
    if (tried.status == LOCKER_OK)
        lk_ask(rival, "unlock");
    if (longest_away(cell) > (double)cell->backend->kind->back_ms)
        lk_fail(cell, "the server was away for longer than a third of the lease: the machine is too slow");
    if (lk_failed(cell))
        return;
    if (tried.status == LOCKER_OK)
        lk_broken(cell, "another process got the lock");
    if (given.status != LOCKER_OK)
        lk_broken(cell, "the holder's unlock returned %s", locker_status_name(given.status));
    lk_measure(cell, "kept", "", tried.status != LOCKER_OK && given.status == LOCKER_OK);
}

static void with_data_concluded(lk_result *result)
{
    char away[24];
    lk_figure(result, "the lock was %s over %s without a server, and renewed afterwards",
              lk_every(result, "kept") ? "kept" : "LOST",
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "away"), 1), away, sizeof away));
}

const lk_scenario lk_scenario_restart = {
    .name = "restart",
    .title = "The server restarts, with its data",
    .question =
        "The server is killed with -9 and started again on its data while a lock is held. Is the lock "
        "still held, and is it renewed?",
    .needs = LK_CAN_RESTART,
    .run = with_data,
    .conclude = with_data_concluded,
};

/* ------------------------------------------------------------------ without its data ---- */

static const char forgotten[] =
    "the server lost its data, and with it the lock, before the holder was notified";

static void without_data(lk_cell *cell)
{
    lk_promise(cell, "%s Fencing token: %s", cell->backend->column->semantics.service_restarts,
               cell->backend->column->semantics.token);
    lk_allow(cell, LK_CHECK_OVERLAP, forgotten);
    lk_allow(cell, LK_CHECK_TRUTH, forgotten);
    if (cell->backend->kind->token_is_of_data)
        lk_allow(cell, LK_CHECK_TOKENS, "its fencing tokens start again when its data are lost");
    cell->ttl_ms = EMPTY_LEASE_MS;
    lk_worker *holder = lk_hire(cell, "holder");
    lk_worker *rival = lk_hire(cell, "rival");
    lk_observe(cell, cell->backend->uri, -1);
    lk_compare_take(holder);
    if (!restart(cell, false))
        return;
    const int64_t back = lk_now_ns();
    const lk_answer got = lk_compare_take(rival);
    const lk_answer lost = lk_ask(holder, "lost 20000");
    lk_answer given = lk_ask(holder, "unlock");
    lk_ask(rival, "unlock");
    if (lk_failed(cell))
        return;
    if (lost.state != LOCKER_STATE_LOST || given.status == LOCKER_OK)
        lk_broken(cell, "the holder was not notified of its loss");
    lk_measure(cell, "rival", "ms", (double)(got.received - back) / 1e6);
    lk_measure(cell, "notice", "ms", (double)(lost.received - back) / 1e6);
}

static void without_data_concluded(lk_result *result)
{
    const double both = lk_measured_quantile(lk_measured_of(result, "overlap"), 1);
    char rival[24], notice[24], overlap[24], words[64] = "never two holders";
    if (both > 0)
        snprintf(words, sizeof words, "two held the lock for %s", lk_ms_words(both, overlap, sizeof overlap));
    lk_figure(result,
              "another process had the lock %s after the server was back, the holder was "
              "notified after %s; %s",
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "rival"), 1), rival, sizeof rival),
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "notice"), 1), notice, sizeof notice),
              words);
}

const lk_scenario lk_scenario_restart_empty = {
    .name = "restart-empty",
    .title = "The server restarts, without its data",
    .question = "The server is killed with -9 and comes back without its data while a lock is held. "
                "When is the holder notified, and do two processes hold the lock at once?",
    .needs = LK_CAN_FORGET,
    .run = without_data,
    .conclude = without_data_concluded,
};
