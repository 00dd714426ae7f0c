/* run_etcd.c: a run with etcd, of one member or of three. run_servers.h has the faults of the members. */
#include <stdio.h>
#include <string.h>

#include "etcd_service.h"
#include "run_servers.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { MOST = LK_SIMETCD_MEMBERS_MAX, ELECTION_TICKS = 10 };

static struct {
    lk_sim_etcd *etcd;
    lk_sim_process machine;
    uint64_t term; /* of who led when that was looked at */
    char uri[256];
} run;

/* A new leader gives all leases all their time again. */
static void look(void)
{
    const uint64_t term = lk_simetcd_term(run.etcd->etcd);
    if (term != run.term)
        lk_sim_judge_leaves();
    run.term = term;
}

/* Watches may have to begin anew then. */
static void compacts(void *context)
{
    if (lk_sim_draw(3) > 0)
        lk_sim_etcd_forget((int64_t)lk_sim_draw(10));
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(500 * MS), compacts, context);
}

static const char *begin(uint64_t *random, lk_sim_bounds *bounds)
{
    memset(&run, 0, sizeof run);
    const int count = lk_sim_draw_from(random, 3) == 0 ? 1 : MOST,
              tick_ms = lk_sim_draw_from(random, 4) == 0 ? 50 : 20;
    const int64_t election_ns = ELECTION_TICKS * tick_ms * MS;
    static const unsigned commands[] = {300, 1000}, cleanups[] = {300, 2000, 2000, 2000};
    const unsigned command = commands[lk_sim_draw_from(random, 2)],
                   cleanup = cleanups[lk_sim_draw_from(random, 4)];
    bool forgets = count == 1 && lk_sim_draw_from(random, 3) == 0;
    const bool compacts_soon = lk_sim_draw_from(random, 2) == 0;
    bool reads_late = lk_sim_draw_from(random, 2) == 0;
    if (lk_sim_is_modelled())
        forgets = reads_late = false;
    const int64_t settle_ns = 2 * election_ns + 1000 * MS;
    *bounds =
        (lk_sim_bounds){.call_ns = command * MS,
                        .cleanup_ns = cleanup * MS,
                        .idle_ns = 500 * MS,
                        .broken_ns = 300 * MS,
                        .lease_ns = 5000 * MS, /* whole seconds, an election, and what it takes to look */
                        .settle_ns = settle_ns,
                        .term_ns = 5000 * MS,
                        .breaks_prove = true,
                        .has_tokens = true,
                        .has_order = true,
                        .has_leases = true,
                        .shares_leases = true};
    run.machine = (lk_sim_process){.host = "etcd"};
    lk_sim_stand_in(&run.machine);
    run.etcd = lk_sim_etcd_begin(count, tick_ms, reads_late);
    run.etcd->on_answer = lk_sim_servers_answer;
    run.etcd->on_ended = lk_sim_judge_ended;
    if (lk_sim_is_modelled())
        lk_sim_etcd_steps_begin(run.etcd);
    lk_sim_servers_begin(&(lk_sim_servers_run){.servers = &lk_sim_etcd_servers,
                                               .count = count,
                                               .forgets = forgets,
                                               .loses = true,
                                               .settle_ns = settle_ns,
                                               .look_ns = 50 * MS,
                                               .look = look});
    if (compacts_soon)
        lk_sim_at(500 * MS, compacts, NULL);
    (void)snprintf(run.uri, sizeof run.uri,
                   "etcd://etcd1.example%s/?command_timeout=%ums&connect_timeout=1s&cleanup_timeout=%ums",
                   count > 1 ? ",etcd2.example,etcd3.example" : "", command, cleanup);
    lk_sim_tell("%d members%s, %s", count, reads_late ? " of before 3.4.42" : "", run.uri);
    return run.uri;
}

void lk_sim_run_etcd(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {.begin = begin,
                                          .end = lk_sim_etcd_end,
                                          .server = lk_sim_servers_service,
                                          .make = lk_sim_servers_make,
                                          .settle = lk_sim_servers_settle,
                                          .left = lk_sim_servers_left};
    lk_sim_run_with(&service, plan, trace, result);
}
