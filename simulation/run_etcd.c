/* run_etcd.c: a run with etcd, of one member or of three: how it begins and ends, and the faults of the members and of what is
 * between them. See run.h and faults.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_service.h"
#include "etcd_steps.h"
#include "faults.h"
#include "judge.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { MOST = LK_SIMETCD_MEMBERS_MAX, ELECTION_TICKS = 10 };

/* From one member to another. */
typedef struct {
    int from, to;
} pair;

static struct {
    lk_sim_etcd etcd;
    lk_sim_process machine;
    bool forgets; /* it may lose its data: only one that is alone */
    bool stopped[MOST], away[MOST], slow[MOST], frozen[MOST];
    pair pairs[MOST][MOST];
    lk_sim_fault awaited; /* strikes when a member answers */
    bool awaits;          /* that has not come yet */
    bool ends;            /* no fault comes any more */
    bool compacts;        /* what is old is forgotten now and then, and soon */
    int64_t settle_ns;
    uint64_t term; /* of who led when that was looked at */
    char uri[256];
} run;

/* ------------------------------------------------------------------ members ---- */

/* Half of the time the leader. */
static int drawn_member(const lk_sim_fault *fault)
{
    const int leader = lk_simetcd_leader(run.etcd.etcd);
    return leader >= 0 && fault->slot % 2 == 0 ? leader : (int)(fault->slot / 2 % (unsigned)run.etcd.count);
}

/* A member, for those who heal. */
static int member_of(const void *context)
{
    return (int)((const lk_sim_etcd_member *)context - run.etcd.members);
}

static void goes_on(void *context)
{
    const int member = member_of(context);
    lk_sim_tell("member %d goes on", member + 1);
    run.stopped[member] = false;
    if (!run.away[member])
        lk_sim_etcd_continue(&run.etcd, member);
}

static bool stop(const lk_sim_fault *fault, int member)
{
    if (run.stopped[member] || run.away[member])
        return false;
    run.stopped[member] = true;
    lk_sim_fault_lasts(fault, "a member stands still", goes_on, &run.etcd.members[member]);
    lk_sim_etcd_stop(&run.etcd, member);
    return true;
}

static bool kill(const lk_sim_fault *fault, int member)
{
    if (run.away[member])
        return false;
    lk_sim_fault_strikes(fault, "a member is killed, and starts again");
    lk_sim_etcd_kill(&run.etcd, member, fault->detail / 128 % 2 == 0);
    lk_sim_etcd_start(&run.etcd, member, true);
    return true;
}

static void is_back(void *context)
{
    const int member = member_of(context);
    lk_sim_tell("member %d starts", member + 1);
    run.away[member] = false;
    lk_sim_etcd_start(&run.etcd, member, true);
}

static bool take_away(const lk_sim_fault *fault, int member)
{
    if (run.away[member])
        return false;
    run.away[member] = true;
    lk_sim_fault_lasts(fault, "a member is away", is_back, &run.etcd.members[member]);
    lk_sim_etcd_kill(&run.etcd, member, fault->detail / 128 % 2 == 0);
    return true;
}

static void is_fast(void *context)
{
    run.slow[member_of(context)] = false;
    run.etcd.members[member_of(context)].slow = false;
}

static bool make_slow(const lk_sim_fault *fault, int member)
{
    if (run.slow[member])
        return false;
    run.slow[member] = run.etcd.members[member].slow = true;
    lk_sim_fault_lasts(fault, "a member is slow to write", is_fast, &run.etcd.members[member]);
    return true;
}

static void writes_again(void *context)
{
    const int member = member_of(context);
    lk_sim_tell("member %d writes again", member + 1);
    run.frozen[member] = false;
    lk_sim_etcd_freeze(&run.etcd, member, false);
}

/* It answers what it need not write, and goes by what it knew. */
static bool freeze(const lk_sim_fault *fault, int member)
{
    if (run.frozen[member])
        return false;
    run.frozen[member] = true;
    lk_sim_fault_lasts(fault, "a member's disk stands still", writes_again, &run.etcd.members[member]);
    lk_sim_etcd_freeze(&run.etcd, member, true);
    return true;
}

static bool forget(const lk_sim_fault *fault, int member)
{
    if (!run.forgets || run.away[member])
        return false;
    lk_sim_fault_strikes(fault, "the server forgets");
    lk_sim_judge_forgets_all();
    lk_sim_etcd_kill(&run.etcd, member, true);
    lk_sim_etcd_start(&run.etcd, member, false);
    return true;
}

/* ------------------------------------------------------------------ between members ---- */

static void set_clogged(const pair *way, bool clogged)
{
    lk_sim_tell("what member %d sends member %d %s", way->from + 1, way->to + 1,
                clogged ? "waits" : "goes on");
    lk_sim_etcd_clog(&run.etcd, way->from, way->to, clogged);
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
    lk_sim_fault_lasts(fault, "a way between members is clogged in one direction", unclogs, way);
    set_clogged(way, true);
    return true;
}

static bool clog_both(const lk_sim_fault *fault, pair *way)
{
    lk_sim_fault_lasts(fault, "a way between members is clogged", unclogs_both, way);
    set_clogged(way, true);
    set_clogged(&run.pairs[way->to][way->from], true);
    return true;
}

static bool cut(const lk_sim_fault *fault, const pair *way)
{
    lk_sim_fault_strikes(fault, "what is on the way between two members is lost");
    lk_sim_etcd_break(&run.etcd, way->from, way->to);
    return true;
}

static void set_all_of(int member, bool clogged)
{
    for (int other = 0; other < run.etcd.count; other++) {
        if (other == member)
            continue;
        set_clogged(&run.pairs[member][other], clogged);
        set_clogged(&run.pairs[other][member], clogged);
    }
}

static void joins(void *context)
{
    set_all_of(member_of(context), false);
}

/* What was on the way is lost with the connections, or comes late. */
static void joins_anew(void *context)
{
    for (int other = 0; other < run.etcd.count; other++)
        lk_sim_etcd_break(&run.etcd, member_of(context), other);
    joins(context);
}

static bool isolate(const lk_sim_fault *fault, int member)
{
    lk_sim_fault_lasts(fault, "a member is cut off from the others",
                       fault->detail / 128 % 2 == 0 ? joins : joins_anew, &run.etcd.members[member]);
    set_all_of(member, true);
    return true;
}

enum { PARTED_MOST = 8 };

/* A member, and clients of it, apart from the others. */
typedef struct {
    int member;
    size_t count;
    lk_sim_process *clients[PARTED_MOST];
} part;

static void set_parted(const part *p, bool parted)
{
    set_all_of(p->member, parted);
    for (size_t i = 0; i < p->count; i++) {
        for (int other = 0; other < run.etcd.count; other++) {
            lk_sim_way *const way = lk_sim_way_of(p->clients[i], &run.etcd.members[other].service);
            way->clogged_to = way->clogged_from = parted && other != p->member;
        }
    }
    lk_sim_network_goes_on();
}

static void meets(void *context)
{
    set_parted(context, false);
    free(context);
}

static bool part_network(const lk_sim_fault *fault, int member)
{
    part *const p = calloc(1, sizeof *p);
    if (p == NULL)
        abort();
    p->member = member;
    p->count = lk_sim_etcd_clients(&run.etcd, member, p->clients, PARTED_MOST);
    lk_sim_fault_lasts(fault, "a member and its clients are cut off from the others", meets, p);
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
    lk_sim_fault_lasts(fault, "ways between members are clogged one after another", is_over, NULL);
    for (int from = 0; from < run.etcd.count; from++) {
        for (int to = 0; to < run.etcd.count; to++) {
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

/* So soon after one another that a client is still about what the one before has left to do. */
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

static bool make_at(const lk_sim_fault *fault, int member)
{
    const unsigned count = (unsigned)run.etcd.count;
    const unsigned other = (unsigned)(fault->detail / 32 % (count > 1 ? count - 1 : 1));
    pair *const way = &run.pairs[member][((unsigned)member + 1 + other) % count];
    switch (fault->detail % (count > 1 ? 14 : 7)) {
    case 0:
        return kill(fault, member);
    case 1:
        return take_away(fault, member);
    case 2:
        return make_slow(fault, member);
    case 3:
        return reset_in_a_row(fault);
    case 4:
        return count > 1 ? part_network(fault, member) : forget(fault, member);
    case 5:
        return stop(fault, member);
    case 6:
        return freeze(fault, member);
    case 7:
        return clog_one(fault, way);
    case 8:
        return clog_both(fault, way);
    case 9:
        return cut(fault, way);
    case 10:
        return isolate(fault, member);
    case 11:
        return stop(fault, member);
    case 12:
        return freeze(fault, member);
    default:
        return swizzle(fault);
    }
}

static void strikes(void *context)
{
    if (!run.ends)
        run.awaits = !make_at(&run.awaited, member_of(context));
}

/* While the answer is on its way, or a bit later. */
static void answers(lk_sim_etcd_member *member)
{
    const bool at_once = run.awaited.detail / 256 % 2 == 0;
    if (!run.awaits)
        return;
    run.awaits = false;
    lk_sim_at(lk_sim_now() + (at_once ? 0 : (int64_t)(run.awaited.detail / 1024 % (20 * MS))), strikes,
              member);
}

/* Half of them strike the member that answers next. */
static bool make(const lk_sim_fault *fault)
{
    if (fault->detail / 64 % 2 == 0 || run.awaits)
        return make_at(fault, drawn_member(fault));
    run.awaited = *fault;
    run.awaits = true;
    return true;
}

/* ------------------------------------------------------------------ the service ---- */

/* While there is a member that serves nobody, nothing is expected in time. A new leader gives all leases all their time again. */
static void look_at_members(void *context)
{
    const uint64_t term = lk_simetcd_term(run.etcd.etcd);
    if (term != run.term)
        lk_sim_judge_leaves();
    run.term = term;
    for (int member = 0; member < run.etcd.count; member++) {
        if (lk_simetcd_serves(run.etcd.etcd, member))
            continue;
        lk_sim_judge_trouble(run.settle_ns);
        break;
    }
    lk_sim_at(lk_sim_now() + 50 * MS, look_at_members, context);
}

/* Watches may have to begin anew then. */
static void compacts(void *context)
{
    if (lk_sim_draw(3) > 0)
        lk_sim_etcd_forget(&run.etcd, (int64_t)lk_sim_draw(10));
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
    run.forgets = count == 1 && lk_sim_draw_from(random, 3) == 0;
    run.compacts = lk_sim_draw_from(random, 2) == 0;
    bool reads_late = lk_sim_draw_from(random, 2) == 0;
    if (lk_sim_is_modelled())
        run.forgets = reads_late = false;
    run.settle_ns = 2 * election_ns + 1000 * MS;
    *bounds =
        (lk_sim_bounds){.call_ns = command * MS,
                        .cleanup_ns = cleanup * MS,
                        .idle_ns = 500 * MS,
                        .broken_ns = 300 * MS,
                        .lease_ns = 5000 * MS, /* whole seconds, an election, and what it takes to look */
                        .settle_ns = run.settle_ns,
                        .term_ns = 5000 * MS,
                        .breaks_prove = true,
                        .has_tokens = true,
                        .has_order = true,
                        .has_leases = true,
                        .shares_leases = true};
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++)
            run.pairs[from][to] = (pair){from, to};
    run.machine = (lk_sim_process){.host = "etcd"};
    lk_sim_stand_in(&run.machine);
    lk_sim_etcd_begin(&run.etcd, count, tick_ms, reads_late);
    run.etcd.on_answer = answers;
    run.etcd.on_ended = lk_sim_judge_ended;
    if (lk_sim_is_modelled())
        lk_sim_etcd_steps_begin(&run.etcd);
    lk_sim_at(50 * MS, look_at_members, NULL);
    if (run.compacts)
        lk_sim_at(500 * MS, compacts, NULL);
    (void)snprintf(run.uri, sizeof run.uri,
                   "etcd://etcd1.example%s/?command_timeout=%ums&connect_timeout=1s&cleanup_timeout=%ums",
                   count > 1 ? ",etcd2.example,etcd3.example" : "", command, cleanup);
    lk_sim_tell("%d members%s, %s", count, reads_late ? " of before 3.4.42" : "", run.uri);
    return run.uri;
}

static void end(void)
{
    lk_sim_etcd_end(&run.etcd);
}

/* Nor does the one that is about to strike: where it can't, it would wait for another answer, however late that comes. */
static void settle(void)
{
    run.ends = true;
    run.awaits = false;
}

/* Leases end by themselves, and with them their keys. */
static const char *left(void)
{
    static char text[256];
    char what[200];
    if (!lk_simetcd_left(run.etcd.etcd, what, sizeof what))
        return NULL;
    (void)snprintf(text, sizeof text, "%s was left behind", what);
    return text;
}

static lk_sim_service *server(unsigned place)
{
    return place < (unsigned)run.etcd.count ? &run.etcd.members[place].service : NULL;
}

void lk_sim_run_etcd(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {
        .begin = begin, .end = end, .server = server, .make = make, .settle = settle, .left = left};
    lk_sim_run_with(&service, plan, trace, result);
}
