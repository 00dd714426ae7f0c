/* run_servers.c: see run_servers.h. */
#include "run_servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/seams.h"

#define MS INT64_C(1000000)

enum { MOST = LK_SIM_SERVERS_MOST };

/* From one server to another. */
typedef struct {
    int from, to;
} pair;

static struct {
    lk_sim_servers_run of;
    const lk_sim_servers *servers;
    int numbers[MOST]; /* 0 to 2: the contexts of those that heal a server */
    bool stopped[MOST], away[MOST], slow[MOST], frozen[MOST];
    int64_t led_until[MOST]; /* when it was stopped as the others' leader; 0: it was not */
    pair pairs[MOST][MOST];
    lk_sim_fault awaited; /* strikes when a server answers */
    bool awaits;          /* that has not come yet */
    bool ends;            /* no fault comes any more */
} run;

/* ------------------------------------------------------------------ servers ---- */

/* Half of the time the leader. */
static int drawn_server(const lk_sim_fault *fault)
{
    const int leader = run.servers->leader();
    return leader >= 0 && fault->slot % 2 == 0 ? leader : (int)(fault->slot / 2 % (unsigned)run.of.count);
}

static bool leads_others(int server)
{
    return run.of.count > 1 && run.servers->leader() == server;
}

static bool is_written(const lk_sim_fault *fault)
{
    return fault->detail / 128 % 2 == 0;
}

static void goes_on(void *context)
{
    const int server = *(const int *)context;
    const int64_t led_until = run.led_until[server];
    lk_sim_tell("server %d goes on", server + 1);
    run.stopped[server] = false;
    /* longer, and what was assumed of servers isn't so (models/README.md, session); another leader gives sessions their time */
    if (run.of.session_ns > 0 && led_until > 0 && leads_others(server) &&
        lk_sim_now() - led_until > run.of.session_ns * 3 / 8)
        lk_sim_judge_was_deaf(led_until);
    if (!run.away[server])
        run.servers->go_on(server);
}

static bool stop(const lk_sim_fault *fault, int server)
{
    if (run.stopped[server] || run.away[server])
        return false;
    run.stopped[server] = true;
    run.led_until[server] = leads_others(server) ? lk_sim_now() : 0;
    lk_sim_fault_lasts(fault, "a server stands still", goes_on, &run.numbers[server]);
    run.servers->stop(server);
    return true;
}

static bool kill(const lk_sim_fault *fault, int server)
{
    if (run.away[server])
        return false;
    lk_sim_fault_strikes(fault, "a server is killed, and starts again");
    run.led_until[server] = 0;
    run.servers->kill(server, is_written(fault));
    run.servers->start(server, true);
    return true;
}

static void is_back(void *context)
{
    const int server = *(const int *)context;
    lk_sim_tell("server %d starts", server + 1);
    run.away[server] = false;
    run.servers->start(server, true);
}

static bool take_away(const lk_sim_fault *fault, int server)
{
    if (run.away[server])
        return false;
    run.away[server] = true;
    run.led_until[server] = 0;
    lk_sim_fault_lasts(fault, "a server is away", is_back, &run.numbers[server]);
    run.servers->kill(server, is_written(fault));
    return true;
}

static void is_fast(void *context)
{
    const int server = *(const int *)context;
    run.slow[server] = false;
    run.servers->slow(server, false);
}

static bool make_slow(const lk_sim_fault *fault, int server)
{
    if (run.slow[server])
        return false;
    run.slow[server] = true;
    lk_sim_fault_lasts(fault, "a server is slow to write", is_fast, &run.numbers[server]);
    run.servers->slow(server, true);
    return true;
}

static void writes_again(void *context)
{
    const int server = *(const int *)context;
    lk_sim_tell("server %d writes again", server + 1);
    run.frozen[server] = false;
    run.servers->freeze(server, false);
}

/* The server answers what it need not write, and goes by what it knew. */
static bool freeze(const lk_sim_fault *fault, int server)
{
    if (run.frozen[server])
        return false;
    run.frozen[server] = true;
    lk_sim_fault_lasts(fault, "a server's disk stands still", writes_again, &run.numbers[server]);
    run.servers->freeze(server, true);
    return true;
}

static bool forget(const lk_sim_fault *fault, int server)
{
    if (!run.of.forgets || run.away[server])
        return false;
    lk_sim_fault_strikes(fault, "the server forgets");
    lk_sim_judge_forgets_all();
    lk_sim_judge_trouble(run.of.session_ns + run.of.settle_ns); /* a waiter keeps his session for two */
    run.servers->kill(server, true);
    run.servers->start(server, false);
    return true;
}

/* ------------------------------------------------------------------ between servers ---- */

static pair *way_of(const lk_sim_fault *fault, int server)
{
    const unsigned count = (unsigned)run.of.count, other = (unsigned)(fault->detail / 32 % (count - 1));
    return &run.pairs[server][((unsigned)server + 1 + other) % count];
}

static void set_clogged(int from, int to, bool clogged)
{
    lk_sim_tell("what server %d sends server %d %s", from + 1, to + 1, clogged ? "waits" : "goes on");
    run.servers->clog(from, to, clogged);
}

static void set_both(const pair *way, bool clogged)
{
    set_clogged(way->from, way->to, clogged);
    set_clogged(way->to, way->from, clogged);
}

static void clogs(void *context)
{
    const pair *const way = context;
    set_clogged(way->from, way->to, true);
}

static void unclogs(void *context)
{
    const pair *const way = context;
    set_clogged(way->from, way->to, false);
}

static void unclogs_both(void *context)
{
    set_both(context, false);
}

static bool clog_one(const lk_sim_fault *fault, int server)
{
    pair *const way = way_of(fault, server);
    lk_sim_fault_lasts(fault, "a way between servers is clogged in one direction", unclogs, way);
    set_clogged(way->from, way->to, true);
    return true;
}

static bool clog_both(const lk_sim_fault *fault, int server)
{
    pair *const way = way_of(fault, server);
    lk_sim_fault_lasts(fault, "a way between servers is clogged", unclogs_both, way);
    set_both(way, true);
    return true;
}

static bool cut(const lk_sim_fault *fault, int server)
{
    const pair *const way = way_of(fault, server);
    lk_sim_fault_strikes(fault, "what is on the way between two servers is lost");
    run.servers->cut(way->from, way->to);
    return true;
}

static void set_all_of(int server, bool clogged)
{
    for (int other = 0; other < run.of.count; other++)
        if (other != server)
            set_both(&run.pairs[server][other], clogged);
}

static void joins(void *context)
{
    set_all_of(*(const int *)context, false);
}

/* What was on the way is lost with the connections, or comes late. */
static void joins_anew(void *context)
{
    for (int other = 0; other < run.of.count; other++)
        run.servers->cut(*(const int *)context, other);
    joins(context);
}

static bool isolate(const lk_sim_fault *fault, int server)
{
    lk_sim_fault_lasts(fault, "a server is cut off from the others",
                       run.of.loses && fault->detail / 128 % 2 > 0 ? joins_anew : joins,
                       &run.numbers[server]);
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
        for (int other = 0; other < run.of.count; other++) {
            lk_sim_way *const way = lk_sim_way_of(p->clients[i], run.servers->service((unsigned)other));
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
    part *const p = lk_sim_alloc(sizeof *p);
    p->server = server;
    p->count = run.servers->clients(server, p->clients, PARTED_MOST);
    lk_sim_fault_lasts(fault, "a server and its clients are cut off from the others", meets, p);
    set_parted(p, true);
    return true;
}

static void is_over(void *context)
{
    (void)context;
}

/* All are clogged, one after another, and opened again in another order. */
static bool swizzle(const lk_sim_fault *fault, int server)
{
    const uint64_t half = (uint64_t)fault->span_ns / 2 + 1;
    uint64_t random = fault->detail;
    (void)server;
    lk_sim_fault_lasts(fault, "ways between servers are clogged one after another", is_over, NULL);
    for (int from = 0; from < run.of.count; from++) {
        for (int to = 0; to < run.of.count; to++) {
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
static bool reset_in_a_row(const lk_sim_fault *fault, int server)
{
    int64_t at = lk_sim_now();
    uint64_t random = fault->detail;
    (void)server;
    lk_sim_fault_strikes(fault, "all connections are reset several times in a row");
    for (uint64_t left = 2 + lk_sim_draw_from(&random, 5); left > 0; left--) {
        at += (int64_t)lk_sim_draw_from(&random, 5 * MS);
        lk_sim_at(at, resets, NULL);
    }
    return true;
}

/* ------------------------------------------------------------------ which, and when ---- */

static bool part_or_forget(const lk_sim_fault *fault, int server)
{
    return run.of.count > 1 ? part_network(fault, server) : forget(fault, server);
}

static bool make_at(const lk_sim_fault *fault, int server)
{
    enum { ALONE = 6, TOGETHER = 12, FREEZES_ALONE = 7, FREEZES_TOGETHER = 14 };
    typedef bool strike(const lk_sim_fault *fault, int server);
    static strike *const all[TOGETHER] = {kill,           take_away, make_slow, reset_in_a_row,
                                          part_or_forget, stop,      stop,      clog_one,
                                          clog_both,      cut,       isolate,   swizzle};
    static strike *const and_freeze[FREEZES_TOGETHER] = {
        kill,     take_away, make_slow, reset_in_a_row, part_or_forget, stop,   freeze,
        clog_one, clog_both, cut,       isolate,        stop,           freeze, swizzle};
    const bool freezes = run.servers->freeze != NULL;
    if (run.of.count == 1)
        return (freezes ? and_freeze[fault->detail % FREEZES_ALONE] : all[fault->detail % ALONE])(fault,
                                                                                                  server);
    return (freezes ? and_freeze[fault->detail % FREEZES_TOGETHER] : all[fault->detail % TOGETHER])(fault,
                                                                                                    server);
}

static bool is_for_quiet(const lk_sim_fault *fault)
{
    return run.of.session_ns > 0 && fault->detail / 512 % 2 == 0;
}

/* What is told to a client of which nothing had been heard for long is told by a server that knows little of it, and the
 * others know less: mostly those lose sight of both then, for about as long as they wait for that. */
static bool part_of_quiet(const lk_sim_fault *given, int server)
{
    lk_sim_fault fault = *given;
    const int64_t session_ns = run.of.session_ns;
    if (run.of.count == 1 || fault.detail / 2048 % 4 == 0)
        return make_at(&fault, server);
    fault.span_ns = session_ns / 2 + (int64_t)(fault.detail / 8192 % (uint64_t)session_ns);
    return part_network(&fault, server);
}

static void strikes(void *context)
{
    const int server = *(const int *)context;
    if (run.ends)
        return;
    run.awaits =
        is_for_quiet(&run.awaited) ? !part_of_quiet(&run.awaited, server) : !make_at(&run.awaited, server);
}

/* The fault strikes while the answer is on its way, or a bit later. */
void lk_sim_servers_answer(int server, bool was_quiet)
{
    const bool at_once = run.awaited.detail / 256 % 2 == 0;
    if (!run.awaits || (is_for_quiet(&run.awaited) && !was_quiet))
        return;
    run.awaits = false;
    lk_sim_at(lk_sim_now() + (at_once ? 0 : (int64_t)(run.awaited.detail / 1024 % (20 * MS))), strikes,
              &run.numbers[server]);
}

/* Half of them strike the server that answers next, or next answers a client that was stopped or cut off: when a client has
 * just been told something, it relies on what the other servers need not know yet. */
bool lk_sim_servers_make(const lk_sim_fault *fault)
{
    if (fault->detail / 64 % 2 == 0 || run.awaits)
        return make_at(fault, drawn_server(fault));
    run.awaited = *fault;
    run.awaits = true;
    return true;
}

/* ------------------------------------------------------------------ the service ---- */

/* While there is a server that serves nobody, nothing is expected in time. */
static void look(void *context)
{
    if (run.of.look != NULL)
        run.of.look();
    for (int server = 0; server < run.of.count; server++) {
        if (run.servers->serves(server))
            continue;
        lk_sim_judge_trouble(run.of.settle_ns);
        break;
    }
    lk_sim_at(lk_sim_now() + run.of.look_ns, look, context);
}

void lk_sim_servers_begin(const lk_sim_servers_run *of)
{
    memset(&run, 0, sizeof run);
    run.of = *of;
    run.servers = of->servers;
    for (int from = 0; from < MOST; from++) {
        run.numbers[from] = from;
        for (int to = 0; to < MOST; to++)
            run.pairs[from][to] = (pair){from, to};
    }
    lk_sim_at(of->look_ns, look, NULL);
}

lk_sim_service *lk_sim_servers_service(unsigned server)
{
    return run.servers->service(server);
}

/* The fault that is about to strike does not strike any more: where it can't, it would wait for another answer, however late. */
void lk_sim_servers_settle(void)
{
    run.ends = true;
    run.awaits = false;
}

/* Leases and sessions end by themselves, and with them their keys and nodes; empty containers a server removes in time. */
const char *lk_sim_servers_left(void)
{
    static char text[256];
    char what[200];
    if (!run.servers->left(what, sizeof what))
        return NULL;
    (void)snprintf(text, sizeof text, "%s was left behind", what);
    return text;
}
