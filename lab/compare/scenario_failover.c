/* scenario_failover.c: the leading server is killed and another takes over: one that has the lock, or one
 * that missed it. */
#include <stdio.h>

#include "scenario.h"
#include "servers/wait.h"

static bool fail_over(lk_cell *cell)
{
    if (lk_failed(cell))
        return false;
    cell->harmed = true;
    lk_compare_fault(cell, true, "failover", "the leading server is killed");
    const bool serves = cell->backend->kind->fail_over(cell->backend);
    lk_compare_fault(cell, false, "failover", "another leads");
    if (!serves)
        lk_fail(cell, "no other server took over");
    return serves;
}

static bool lag(lk_cell *cell, bool on)
{
    cell->harmed = true;
    if (!lk_failed(cell) && !cell->backend->kind->lag(cell->backend, on))
        lk_fail(cell, on ? "the replica could not be made to lag" : "the replica does not follow");
    return !lk_failed(cell);
}

/* A rival asks the server that leads now; the holder goes on, and both look. */
static void contest(lk_cell *cell, lk_worker *holder, lk_worker *rival, const lk_answer *held)
{
    const lk_answer tried = lk_ask(rival, "try %s 0 1", cell->key), state = lk_ask(holder, "state");
    lk_await_news(holder, held, lk_now_ns());
    lk_answer given = lk_ask(holder, "unlock");
    if (tried.status == LOCKER_OK)
        lk_ask(rival, "unlock");
    if (lk_failed(cell))
        return;
    lk_measure(cell, "two held", "", tried.status == LOCKER_OK && state.state <= LOCKER_STATE_SUSPECT);
    lk_measure(cell, "kept", "", tried.status != LOCKER_OK && given.status == LOCKER_OK);
    if (tried.status == LOCKER_OK) {
        lk_measure(cell, "token grew", "", tried.token > held->token);
        if (tried.token <= held->token)
            lk_broken(cell, "the second grant has token %llu, which is not greater than the first, %llu",
                      (unsigned long long)tried.token, (unsigned long long)held->token);
        if (given.status == LOCKER_OK)
            lk_broken(cell, "the first holder's unlock returned ok");
    }
}

static lk_answer begin(lk_cell *cell, const char *uri, lk_worker **holder, lk_worker **rival)
{
    cell->ttl_ms = 3 * cell->backend->kind->back_ms;
    *holder = lk_hire_at(cell, "holder", uri, -1);
    *rival = lk_hire(cell, "rival");
    lk_observe(cell, cell->backend->uri, -1);
    return lk_compare_take(*holder);
}

static const char missed_it[] =
    "the server that took over had not received the lock; the fencing tokens show which holder is newer";

static void missed(lk_cell *cell)
{
    const bool can_lag = (cell->backend->can & LK_CAN_LAG) != 0;
    lk_promise(cell, "%s", cell->backend->column->semantics.failover);
    if (can_lag) {
        lk_allow(cell, LK_CHECK_OVERLAP, missed_it);
        lk_allow(cell, LK_CHECK_TRUTH, missed_it);
        lag(cell, true);
    }
    lk_worker *holder, *rival;
    const lk_answer held = begin(cell, cell->backend->uri, &holder, &rival);
    if (!fail_over(cell))
        return;
    contest(cell, holder, rival, &held);
    if (!can_lag && !lk_failed(cell) && !lk_every(cell->result, "kept"))
        lk_broken(cell, "the lock did not stay with its holder");
}

static void conclude(lk_result *result)
{
    char overlap[24];
    if (lk_every(result, "kept"))
        lk_figure(result, "the lock stayed with its holder");
    else
        lk_figure(
            result, "two processes held the lock for %s; the second has %s token",
            lk_ms_words(lk_measured_quantile(lk_measured_of(result, "overlap"), 1), overlap, sizeof overlap),
            lk_every(result, "token grew") ? "a greater" : "NO GREATER");
}

const lk_scenario lk_scenario_failover = {
    .name = "failover",
    .title = "The leading server is killed",
    .question =
        "A lock is taken, and the leading server is killed with -9 (Redis: the master, before its "
        "replica receives the lock). Does another process get the lock from the server that takes over?",
    .needs = LK_CAN_FAIL_OVER,
    .run = missed,
    .conclude = conclude,
};

/* ------------------------------------------------------------------ with WAIT ---- */

/* Without the replica a grant is refused; with it the lock survives. */
static void waited(lk_cell *cell)
{
    lk_promise(cell, "With wait_replicas=1, a lock is granted only if the replica has it.");
    char uri[600];
    snprintf(uri, sizeof uri, "%s?wait_replicas=1&wait_timeout=500ms", cell->backend->uri);
    if (!lag(cell, true))
        return;
    lk_worker *refused = lk_hire_at(cell, "refused", uri, -1);
    const lk_answer tried = lk_ask(refused, "try %s 0 1", cell->key);
    if (!lag(cell, false))
        return;
    if (tried.status == LOCKER_OK)
        lk_broken(cell, "a lock was granted that the replica did not have");
    lk_measure(cell, "refused", "", tried.status != LOCKER_OK);
    lk_worker *holder, *rival;
    const lk_answer held = begin(cell, uri, &holder, &rival);
    if (!fail_over(cell))
        return;
    contest(cell, holder, rival, &held);
    if (!lk_failed(cell) && lk_every(cell->result, "two held"))
        lk_broken(cell, "two processes held the lock");
}

static void waited_concluded(lk_result *result)
{
    lk_figure(result, "without the replica the lock was %s; with the replica it %s the failover",
              lk_every(result, "refused") ? "refused" : "GRANTED",
              lk_every(result, "two held") ? "DID NOT SURVIVE" : "survived");
}

const lk_scenario lk_scenario_failover_wait = {
    .name = "failover-wait",
    .title = "The same, with WAIT",
    .question = "Redis' master is killed, and locks are taken with wait_replicas=1. Is a lock refused if the "
                "replica lacks it, and does a lock survive that the replica has?",
    .needs = LK_CAN_FAIL_OVER | LK_CAN_LAG,
    .run = waited,
    .conclude = waited_concluded,
};
