/* run_zookeeper.c: a run with ZooKeeper, of one server or of three, with ZooKeeper's own client library. run_servers.h has the
 * faults of the servers. */
#include <stdio.h>
#include <string.h>

#include "run_servers.h"
#include "world/seams.h"
#include "zookeeper_service.h"

#define MS INT64_C(1000000)

static struct {
    lk_sim_process machine;
    char uri[256];
} run;

static const char *begin(uint64_t *random, lk_sim_bounds *bounds)
{
    memset(&run, 0, sizeof run);
    const int count = lk_sim_draw_from(random, 4) == 0 ? 1 : LK_SIM_ZOOKEEPER_MOST;
    const int timeout_ms = 400 + 300 * (int)lk_sim_draw_from(random, 4);
    const bool knows_tick = lk_sim_draw_from(random, 2) == 0;
    const bool forgets = count == 1 && lk_sim_draw_from(random, 3) == 0 && !lk_sim_is_modelled();
    const int64_t timeout_ns = timeout_ms * MS,
                  settle_ns = timeout_ns + 1000 * MS; /* sessions that nobody has end */
    *bounds = (lk_sim_bounds){.call_ns = 1000 * MS,
                              .idle_ns = 500 * MS,
                              .broken_ns = 300 * MS,
                              .settle_ns = settle_ns,
                              .term_ns = timeout_ns,
                              .breaks_prove = true,
                              .has_tokens = true,
                              .has_order = true};
    run.machine = (lk_sim_process){.host = "zookeeper"};
    lk_sim_stand_in(&run.machine);
    lk_sim_zookeeper *const zookeeper = lk_sim_zookeeper_begin(count);
    zookeeper->on_answer = lk_sim_servers_answer;
    zookeeper->on_ended = lk_sim_judge_ended;
    zookeeper->on_late = lk_sim_judge_trouble;
    if (lk_sim_is_modelled())
        lk_sim_zookeeper_steps_begin(zookeeper);
    lk_sim_servers_begin(&(lk_sim_servers_run){.servers = &lk_sim_zookeeper_servers,
                                               .count = count,
                                               .forgets = forgets,
                                               .settle_ns = settle_ns,
                                               .session_ns = timeout_ns,
                                               .look_ns = 100 * MS});
    (void)snprintf(run.uri, sizeof run.uri,
                   "zookeeper://zk1.example%s/?session_timeout=%dms&command_timeout=1s&connect_timeout=1s%s",
                   count > 1 ? ",zk2.example,zk3.example" : "", timeout_ms, knows_tick ? "&tick=200ms" : "");
    lk_sim_tell("%d servers, %s", count, run.uri);
    return run.uri;
}

void lk_sim_run_zookeeper(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {.modelled_threads = 2,
                                          .begin = begin,
                                          .end = lk_sim_zookeeper_end,
                                          .server = lk_sim_servers_service,
                                          .make = lk_sim_servers_make,
                                          .settle = lk_sim_servers_settle,
                                          .left = lk_sim_servers_left};
    lk_sim_run_with(&service, plan, trace, result);
}
