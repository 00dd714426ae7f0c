/* run_zookeeper.c: a run with ZooKeeper, with ZooKeeper's own client library: how it begins and ends, and the faults of the
 * servers and of what is between them. See run.h and faults.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "judge.h"
#include "world/seams.h"
#include "zookeeper_service.h"
#include "zookeeper_steps.h"

#define MS INT64_C(1000000)

/* From one server to another. */
typedef struct {
    int from, to;
} pair;

static struct {
    lk_sim_zookeeper zookeeper;
    lk_sim_process machine;
    bool forgets; /* it may lose its data: only one that is alone, because more survive the loss of one's */
    bool stopped[LK_SIM_ZOOKEEPER_MOST], away[LK_SIM_ZOOKEEPER_MOST], slow[LK_SIM_ZOOKEEPER_MOST];
    pair pairs[LK_SIM_ZOOKEEPER_MOST][LK_SIM_ZOOKEEPER_MOST];
    lk_sim_fault awaited;                     /* strikes at a moment of its own */
    bool awaits;                              /* that has not come yet */
    bool ends;                                /* no fault comes any more */
    int64_t timeout_ns;                       /* of sessions */
    int64_t led_until[LK_SIM_ZOOKEEPER_MOST]; /* when it was stopped as the others' leader; 0: it was not */
    int64_t settle_ns;
    char uri[256];
} run;

/* ------------------------------------------------------------------ servers ---- */

/* Half of the time the leader. */
static int drawn_server(const lk_sim_fault *fault)
{
    const int leader = lk_simzk_leader(run.zookeeper.ensemble);
    return leader >= 0 && fault->slot % 2 == 0 ? leader
                                               : (int)(fault->slot / 2 % (unsigned)run.zookeeper.count);
}

/* A server, for those who heal. */
static int server_of(const void *context)
{
    return (int)((const lk_sim_zookeeper_server *)context - run.zookeeper.servers);
}

static void goes_on(void *context)
{
    const int server = server_of(context);
    lk_sim_tell("server %d goes on", server + 1);
    run.stopped[server] = false;
    /* longer, and what was assumed of servers isn't so (models/README.md, session); another leader gives sessions their time */
    if (run.led_until[server] > 0 && lk_simzk_leader(run.zookeeper.ensemble) == server &&
        lk_sim_now() - run.led_until[server] > run.timeout_ns * 3 / 8)
        lk_sim_judge_was_deaf(run.led_until[server]);
    if (!run.away[server])
        lk_sim_zookeeper_continue(&run.zookeeper, server);
}

static bool stop(const lk_sim_fault *fault, int server)
{
    if (run.stopped[server] || run.away[server])
        return false;
    run.stopped[server] = true;
    run.led_until[server] =
        run.zookeeper.count > 1 && lk_simzk_leader(run.zookeeper.ensemble) == server ? lk_sim_now() : 0;
    lk_sim_fault_lasts(fault, "a server stands still", goes_on, &run.zookeeper.servers[server]);
    lk_sim_zookeeper_stop(&run.zookeeper, server);
    return true;
}

static bool kill(const lk_sim_fault *fault, int server)
{
    if (run.away[server])
        return false;
    lk_sim_fault_strikes(fault, "a server is killed, and starts again");
    run.led_until[server] = 0;
    lk_sim_zookeeper_kill(&run.zookeeper, server, fault->detail / 128 % 2 == 0);
    lk_sim_zookeeper_start(&run.zookeeper, server, true);
    return true;
}

static void is_back(void *context)
{
    const int server = server_of(context);
    lk_sim_tell("server %d starts", server + 1);
    run.away[server] = false;
    lk_sim_zookeeper_start(&run.zookeeper, server, true);
}

static bool take_away(const lk_sim_fault *fault, int server)
{
    if (run.away[server])
        return false;
    run.away[server] = true;
    run.led_until[server] = 0;
    lk_sim_fault_lasts(fault, "a server is away", is_back, &run.zookeeper.servers[server]);
    lk_sim_zookeeper_kill(&run.zookeeper, server, fault->detail / 128 % 2 == 0);
    return true;
}

static void is_fast(void *context)
{
    run.slow[server_of(context)] = false;
    lk_sim_zookeeper_slow(&run.zookeeper, server_of(context), false);
}

static bool make_slow(const lk_sim_fault *fault, int server)
{
    if (run.slow[server])
        return false;
    run.slow[server] = true;
    lk_sim_fault_lasts(fault, "a server is slow to write", is_fast, &run.zookeeper.servers[server]);
    lk_sim_zookeeper_slow(&run.zookeeper, server, true);
    return true;
}

static bool forget(const lk_sim_fault *fault, int server)
{
    if (!run.forgets || run.away[server])
        return false;
    lk_sim_fault_strikes(fault, "the server forgets");
    lk_sim_judge_forgets_all();
    lk_sim_judge_trouble(run.timeout_ns + run.settle_ns); /* a waiter keeps his session for two */
    lk_sim_zookeeper_kill(&run.zookeeper, server, true);
    lk_sim_zookeeper_start(&run.zookeeper, server, false);
    return true;
}

/* ------------------------------------------------------------------ between servers ---- */

static void set_clogged(const pair *way, bool clogged)
{
    lk_sim_tell("what server %d sends server %d %s", way->from + 1, way->to + 1,
                clogged ? "waits" : "goes on");
    lk_sim_zookeeper_clog(&run.zookeeper, way->from, way->to, clogged);
}

static void clogs(void *context)
{
    set_clogged(context, true);
}

static void unclogs(void *context)
{
    set_clogged(context, false);
}

static void unclogs_both(void *context)
{
    const pair *const way = context;
    set_clogged(way, false);
    set_clogged(&run.pairs[way->to][way->from], false);
}

static bool clog_one(const lk_sim_fault *fault, pair *way)
{
    lk_sim_fault_lasts(fault, "a way between servers is clogged in one direction", unclogs, way);
    set_clogged(way, true);
    return true;
}

static bool clog_both(const lk_sim_fault *fault, pair *way)
{
    lk_sim_fault_lasts(fault, "a way between servers is clogged", unclogs_both, way);
    set_clogged(way, true);
    set_clogged(&run.pairs[way->to][way->from], true);
    return true;
}

static bool cut(const lk_sim_fault *fault, const pair *way)
{
    lk_sim_fault_strikes(fault, "the connections between two servers are reset");
    lk_sim_zookeeper_break(&run.zookeeper, way->from, way->to);
    return true;
}

static void set_all_of(int server, bool clogged)
{
    for (int other = 0; other < run.zookeeper.count; other++) {
        if (other == server)
            continue;
        set_clogged(&run.pairs[server][other], clogged);
        set_clogged(&run.pairs[other][server], clogged);
    }
}

static void joins(void *context)
{
    set_all_of(server_of(context), false);
}

static bool isolate(const lk_sim_fault *fault, int server)
{
    lk_sim_fault_lasts(fault, "a server is cut off from the others", joins, &run.zookeeper.servers[server]);
    set_all_of(server, true);
    return true;
}

enum { PARTED_MOST = 8 };

/* A server, and clients of it, apart from the others. */
typedef struct {
    int server;
    size_t count;
    lk_sim_process *clients[PARTED_MOST];
} part;

static void set_parted(const part *p, bool parted)
{
    set_all_of(p->server, parted);
    for (size_t i = 0; i < p->count; i++) {
        for (int other = 0; other < run.zookeeper.count; other++) {
            lk_sim_way *const way = lk_sim_way_of(p->clients[i], &run.zookeeper.servers[other].service);
            way->clogged_to = way->clogged_from = parted && other != p->server;
        }
    }
    lk_sim_network_goes_on();
}

static void meets(void *context)
{
    set_parted(context, false);
    free(context);
}

static bool part_network(const lk_sim_fault *fault, int server)
{
    part *const p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    p->server = server;
    p->count = lk_sim_zookeeper_clients(&run.zookeeper, server, p->clients, PARTED_MOST);
    lk_sim_fault_lasts(fault, "a server and its clients are cut off from the others", meets, p);
    set_parted(p, true);
    return true;
}

static void is_over(void *context)
{
    (void)context;
}

/* All are clogged, one after another, and opened again in another order. */
static bool swizzle(const lk_sim_fault *fault)
{
    const uint64_t half = (uint64_t)fault->span_ns / 2 + 1;
    uint64_t random = fault->detail;
    lk_sim_fault_lasts(fault, "ways between servers are clogged one after another", is_over, NULL);
    for (int from = 0; from < run.zookeeper.count; from++) {
        for (int to = 0; to < run.zookeeper.count; to++) {
            if (to == from)
                continue;
            lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw_from(&random, half), clogs, &run.pairs[from][to]);
            lk_sim_at(lk_sim_now() + (int64_t)(half + lk_sim_draw_from(&random, half)), unclogs,
                      &run.pairs[from][to]);
        }
    }
    return true;
}

static void resets(void *context)
{
    (void)context;
    lk_sim_tell("all connections are reset");
    lk_sim_network_reset(NULL, NULL);
}

/* The resets follow each other so closely that a client is still busy with the work that the last reset caused. */
static bool reset_in_a_row(const lk_sim_fault *fault)
{
    int64_t at = lk_sim_now();
    uint64_t random = fault->detail;
    lk_sim_fault_strikes(fault, "all connections are reset several times in a row");
    for (uint64_t left = 2 + lk_sim_draw_from(&random, 5); left > 0; left--) {
        at += (int64_t)lk_sim_draw_from(&random, 5 * MS);
        lk_sim_at(at, resets, NULL);
    }
    return true;
}

/* ------------------------------------------------------------------ which, and when ---- */

static bool make_at(const lk_sim_fault *fault, int server)
{
    const unsigned count = (unsigned)run.zookeeper.count;
    const unsigned other = (unsigned)(fault->detail / 32 % (count > 1 ? count - 1 : 1));
    pair *const way = &run.pairs[server][((unsigned)server + 1 + other) % count];
    switch (fault->detail % (count > 1 ? 12 : 6)) {
    case 0:
        return kill(fault, server);
    case 1:
        return take_away(fault, server);
    case 2:
        return make_slow(fault, server);
    case 3:
        return reset_in_a_row(fault);
    case 4:
        return count > 1 ? part_network(fault, server) : forget(fault, server);
    case 5:
    case 6:
        return stop(fault, server);
    case 7:
        return clog_one(fault, way);
    case 8:
        return clog_both(fault, way);
    case 9:
        return cut(fault, way);
    case 10:
        return isolate(fault, server);
    default:
        return swizzle(fault);
    }
}

static bool is_for_quiet(const lk_sim_fault *fault)
{
    return fault->detail / 512 % 2 == 0;
}

/* What is told to a client of which nothing had been heard for long is told by a server that knows little of it, and the
 * others know less: mostly those lose sight of both then, for about as long as they wait for that. */
static bool part_of_quiet(const lk_sim_fault *given, int server)
{
    lk_sim_fault fault = *given;
    if (run.zookeeper.count == 1 || fault.detail / 2048 % 4 == 0)
        return make_at(&fault, server);
    fault.span_ns = run.timeout_ns / 2 + (int64_t)(fault.detail / 8192 % (uint64_t)run.timeout_ns);
    return part_network(&fault, server);
}

static void strikes(void *context)
{
    const int server = server_of(context);
    if (run.ends)
        return;
    run.awaits =
        is_for_quiet(&run.awaited) ? !part_of_quiet(&run.awaited, server) : !make_at(&run.awaited, server);
}

/* While the answer is on its way, or a bit later. */
static void answers(lk_sim_zookeeper_server *server, bool was_quiet)
{
    const bool at_once = run.awaited.detail / 256 % 2 == 0;
    if (!run.awaits || (is_for_quiet(&run.awaited) && !was_quiet))
        return;
    run.awaits = false;
    lk_sim_at(lk_sim_now() + (at_once ? 0 : (int64_t)(run.awaited.detail / 1024 % (20 * MS))), strikes,
              server);
}

/* Half of them strike the server that answers next, or next answers a client that was stopped or cut off: when a client has
 * just been told something, it relies on what the other servers need not know yet. */
static bool make(const lk_sim_fault *fault)
{
    if (fault->detail / 64 % 2 == 0 || run.awaits)
        return make_at(fault, drawn_server(fault));
    run.awaited = *fault;
    run.awaits = true;
    return true;
}

/* ------------------------------------------------------------------ the service ---- */

/* While there is a server that serves nobody, nothing is expected in time. */
static void look_at_servers(void *context)
{
    for (int server = 0; server < run.zookeeper.count; server++) {
        if (lk_simzk_serves(run.zookeeper.ensemble, server))
            continue;
        lk_sim_judge_trouble(run.settle_ns);
        break;
    }
    lk_sim_at(lk_sim_now() + 100 * MS, look_at_servers, context);
}

static const char *begin(uint64_t *random, lk_sim_bounds *bounds)
{
    memset(&run, 0, sizeof run);
    const int count = lk_sim_draw_from(random, 4) == 0 ? 1 : LK_SIM_ZOOKEEPER_MOST;
    const int timeout_ms = 400 + 300 * (int)lk_sim_draw_from(random, 4);
    const bool knows_tick = lk_sim_draw_from(random, 2) == 0;
    run.forgets = count == 1 && lk_sim_draw_from(random, 3) == 0 && !lk_sim_is_modelled();
    run.timeout_ns = timeout_ms * MS;
    run.settle_ns = run.timeout_ns + 1000 * MS; /* sessions that nobody has end */
    *bounds = (lk_sim_bounds){.call_ns = 1000 * MS,
                              .idle_ns = 500 * MS,
                              .broken_ns = 300 * MS,
                              .settle_ns = run.settle_ns,
                              .term_ns = run.timeout_ns,
                              .breaks_prove = true,
                              .has_tokens = true,
                              .has_order = true};
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++)
            run.pairs[from][to] = (pair){from, to};
    run.machine = (lk_sim_process){.host = "zookeeper"};
    lk_sim_stand_in(&run.machine);
    lk_sim_zookeeper_begin(&run.zookeeper, count);
    run.zookeeper.on_answer = answers;
    run.zookeeper.on_ended = lk_sim_judge_ended;
    run.zookeeper.on_late = lk_sim_judge_trouble;
    if (lk_sim_is_modelled())
        lk_sim_zookeeper_steps_begin(&run.zookeeper);
    lk_sim_at(100 * MS, look_at_servers, NULL);
    (void)snprintf(run.uri, sizeof run.uri,
                   "zookeeper://zk1.example%s/?session_timeout=%dms&command_timeout=1s&connect_timeout=1s%s",
                   count > 1 ? ",zk2.example,zk3.example" : "", timeout_ms, knows_tick ? "&tick=200ms" : "");
    lk_sim_tell("%d servers, %s", count, run.uri);
    return run.uri;
}

static void end(void)
{
    lk_sim_zookeeper_end(&run.zookeeper);
}

/* Nor does the one that is about to strike: where it can't, it would wait for another answer, however late that comes. */
static void settle(void)
{
    run.ends = true;
    run.awaits = false;
}

/* Sessions are closed, and with them their nodes; empty containers a server removes in time. */
static const char *left(void)
{
    static char text[256];
    char what[200];
    if (!lk_simzk_left(run.zookeeper.ensemble, what, sizeof what))
        return NULL;
    (void)snprintf(text, sizeof text, "%s was left behind", what);
    return text;
}

static lk_sim_service *server(unsigned place)
{
    return place < (unsigned)run.zookeeper.count ? &run.zookeeper.servers[place].service : NULL;
}

void lk_sim_run_zookeeper(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {.modelled_threads = 2,
                                          .begin = begin,
                                          .end = end,
                                          .server = server,
                                          .make = make,
                                          .settle = settle,
                                          .left = left};
    lk_sim_run_with(&service, plan, trace, result);
}
