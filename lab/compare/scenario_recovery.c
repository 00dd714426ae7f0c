/* scenario_recovery.c: the server loses its data, by a restart or a failover, and all clients have the parameter `recovery`. */
#include <stdio.h>

#include "scenario.h"
#include "servers/wait.h"
#include "spawn.h"

enum { RECOVERY_MS = 3000 /* and the lease */ };

static void empty(lk_cell *cell)
{
    lk_compare_fault(cell, true, "restart", "without its data");
    lk_spawn_kill(cell->backend);
    if (!lk_spawn_start_again(cell->backend, false))
        lk_fail(cell, "the server did not come back");
    lk_compare_fault(cell, false, "restart", "");
}

static void lag(lk_cell *cell)
{
    if (!cell->backend->kind->lag(cell->backend, true))
        lk_fail(cell, "the replica could not be made to lag");
}

static void replace(lk_cell *cell)
{
    lk_compare_fault(cell, true, "failover", "the leading server is killed");
    if (!cell->backend->kind->fail_over(cell->backend))
        lk_fail(cell, "no other server took over");
    lk_compare_fault(cell, false, "failover", "another leads");
}

/* The lock stays with its holder, and others have to wait for any lock: that is the price. */
static void contest(lk_cell *cell, lk_worker *holder, lk_worker *rival)
{
    char other[160];
    snprintf(other, sizeof other, "%s-other", cell->key);
    const int64_t back = lk_now_ns();
    const lk_answer early = lk_ask(rival, "try %s 0 1", cell->key),
                    free = lk_ask(rival, "lock %s 20000 1", other);
    lk_ask(rival, "unlock");
    const lk_answer late = lk_ask(rival, "try %s 0 1", cell->key), given = lk_ask(holder, "unlock");
    if (lk_failed(cell))
        return;
    if (early.status == LOCKER_OK || late.status == LOCKER_OK)
        lk_broken(cell, "another process got the lock");
    if (free.status != LOCKER_OK)
        lk_broken(cell, "a free lock was not granted: %s", free.text);
    if (given.status != LOCKER_OK)
        lk_broken(cell, "the holder's unlock returned %s", locker_status_name(given.status));
    lk_measure(cell, "kept", "", given.status == LOCKER_OK);
    lk_measure(cell, "price", "ms", (double)(free.received - back) / 1e6);
}

static void run(lk_cell *cell, void (*before)(lk_cell *cell), void (*lose)(lk_cell *cell))
{
    lk_promise(cell,
               "With recovery=%d ms, holders keep their locks when the server loses its data, and no other "
               "lock is granted for this time.",
               RECOVERY_MS);
    char uri[600];
    snprintf(uri, sizeof uri, "%s?ttl=%dms&recovery=%dms", cell->backend->uri, RECOVERY_MS, RECOVERY_MS);
    cell->ttl_ms = RECOVERY_MS;
    cell->harmed = true;
    if (before != NULL)
        before(cell);
    lk_worker *holder = lk_hire_at(cell, "holder", uri, -1);
    lk_worker *rival = lk_hire_at(cell, "rival", uri, -1);
    lk_compare_take(holder);
    if (lk_failed(cell))
        return;
    lose(cell);
    if (!lk_failed(cell))
        contest(cell, holder, rival);
}

static void run_restart(lk_cell *cell)
{
    run(cell, NULL, empty);
}

static void run_failover(lk_cell *cell)
{
    run(cell, lag, replace);
}

static void concluded(lk_result *result)
{
    char price[24];
    lk_figure(result, "the lock %s with its holder; no other lock was granted for %s",
              lk_every(result, "kept") ? "stayed" : "DID NOT STAY",
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "price"), 1), price, sizeof price));
}

const lk_scenario lk_scenario_recovery = {
    .name = "recovery",
    .title = "The same, with recovery",
    .question = "The server is killed with -9 and comes back without its data, and all clients have "
                "recovery=3s. Does the lock stay with its holder, and for how long is no other lock granted?",
    .needs = LK_CAN_FORGET | LK_CAN_RECOVER,
    .run = run_restart,
    .conclude = concluded,
};

const lk_scenario lk_scenario_failover_recovery = {
    .name = "failover-recovery",
    .title = "The same, with recovery",
    .question = "Redis' master is killed before its replica receives the lock, and all clients have "
                "recovery=3s. Does the lock stay with its holder, and for how long is no other lock granted?",
    .needs = LK_CAN_FAIL_OVER | LK_CAN_LAG | LK_CAN_RECOVER,
    .run = run_failover,
    .conclude = concluded,
};
