/* run_redis_cluster.c: a run with a Redis Cluster: how it begins and ends, and the faults that it has. See run.h. The
 * migration of a slot is no fault. It excuses only that nobody gets, sees or breaks a lock in the slot meanwhile. */
#include <stdio.h>
#include <string.h>

#include "redis_cluster.h"
#include "redis_faults.h"
#include "redis_locks.h"
#include "run.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

static const int64_t comes_up_ns = 2000 * MS; /* a master that has begun anew serves */
static const int64_t election_ns = 1500 * MS; /* from a master's silence to its heir */

static struct {
    bool forgets;       /* nodes may lose their data */
    bool fails_over;    /* each master has a replica */
    bool confirms;      /* ... which confirms grants */
    bool has_tokens;    /* fencing is on */
    bool has_strangers; /* there are clients that know nothing of ours */
    bool is_restless;   /* slots move all the time */
    bool ends;          /* ... no more */
    lk_sim_redis_clocks clocks;
    int64_t lead_ns; /* of all clocks */
    struct {
        unsigned place;
        bool is_away;    /* something of it lasts ... */
        int64_t away_at; /* ... since then */
        bool is_followed;
        const lk_sim_redis *old;
    } places[LK_SIM_PLACES];
} run;

static unsigned place_of(const lk_sim_fault *fault)
{
    return (unsigned)(fault->detail / 4096 % LK_SIM_PLACES);
}

/* ------------------------------------------------------------------ slots ---- */

/* For some ms, for half a lease, for some leases. */
static int64_t drawn_span(uint64_t detail)
{
    const uint64_t kind = detail % 8, rest = detail / 8;
    return (int64_t)(rest % (uint64_t)(kind < 2   ? 20 * MS
                                       : kind < 6 ? LK_SIM_REDIS_LEASE_NS / 2
                                                  : 3 * LK_SIM_REDIS_LEASE_NS));
}

/* A slot has two keys. While it moves, what several hold is not to be had, nor renewed (docs/promises.md). */
static bool moves(unsigned slot, uint64_t detail)
{
    if (lk_sim_may_be_shared(2 * slot) || lk_sim_may_be_shared(2 * slot + 1))
        return false;
    return lk_sim_cluster_move(slot, (unsigned)(detail % 7), drawn_span(detail / 7));
}

static bool slot_moves(const lk_sim_fault *fault)
{
    if (!moves((unsigned)(fault->detail / 8 % LK_SIM_CLUSTER_SLOTS), fault->detail / 64))
        return false;
    lk_sim_tell("fault %u: a slot moves", fault->number);
    return true;
}

static void is_restless(void *context)
{
    (void)context;
    if (run.ends)
        return;
    (void)moves((unsigned)lk_sim_draw(LK_SIM_CLUSTER_SLOTS), lk_sim_draw(UINT64_MAX));
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(1500 * MS), is_restless, NULL);
}

/* ------------------------------------------------------------------ strangers ---- */

static void stranger_comes(void *context)
{
    const unsigned key = (unsigned)lk_sim_draw(LK_SIM_REDIS_KEYS);
    const int64_t span_ms = 1 + (int64_t)lk_sim_draw(300);
    lk_sim_redis *at;
    bool is_asking;
    (void)context;
    if (lk_sim_cluster_find(lk_sim_redis_key_names[key], &at, &is_asking))
        lk_sim_redis_stranger(at, is_asking, key, span_ms);
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(800 * MS), stranger_comes, NULL);
}

/* ------------------------------------------------------------------ clocks ---- */

static bool may_set_clocks(void)
{
    for (unsigned i = 0; i < LK_SIM_NODES; i++)
        if (lk_sim_cluster_node(i)->service.silent)
            return false;
    return true;
}

/* All of them: where a slot, or a place, comes to a node whose clock is behind, tokens go back (docs/promises.md). */
static void set_clocks(int64_t by_ns, bool all)
{
    (void)all;
    for (unsigned i = 0; i < LK_SIM_NODES; i++)
        lk_sim_redis_set_clock(lk_sim_cluster_node(i), by_ns);
    run.lead_ns += by_ns;
    lk_sim_judge_clock(run.lead_ns);
}

/* From numbers of its own, so that other runs are what they were. What a stranger has goes by it, too. */
static void draw_clocks(uint64_t random)
{
    run.clocks = (lk_sim_redis_clocks){.drift = 1, .may_set = may_set_clocks, .set = set_clocks};
    run.clocks.are_set = lk_sim_draw_from(&random, 2) == 0 && !run.has_strangers;
    if (run.clocks.are_set && lk_sim_draw_from(&random, 2) == 0)
        run.clocks.drift = 10;
    lk_sim_redis_clocks_begin(&run.clocks);
}

/* ------------------------------------------------------------------ one node ---- */

static bool starts_again(const lk_sim_fault *fault, lk_sim_redis *master)
{
    lk_sim_fault_strikes(fault, "a node starts again");
    lk_sim_redis_restart(master, true);
    lk_sim_cluster_comes_up(master);
    lk_sim_judge_trouble(comes_up_ns + LK_SIM_REDIS_BACK_OFF_NS);
    return true;
}

static void is_back(void *context)
{
    lk_sim_redis *const redis = context;
    redis->service.refuses = false;
    lk_sim_cluster_comes_up(redis);
    lk_sim_judge_trouble(comes_up_ns + LK_SIM_REDIS_BACK_OFF_NS);
}

/* What is there: of a slot that is half moved, some keys. */
static bool forgets(const lk_sim_fault *fault, lk_sim_redis *master)
{
    if (!run.forgets || master->service.refuses)
        return false;
    lk_sim_fault_strikes(fault, "a node forgets");
    lk_sim_judge_leaves();
    for (unsigned key = 0; key < LK_SIM_REDIS_KEYS; key++) {
        lk_sim_redis *at;
        bool is_asking;
        (void)lk_sim_cluster_find(lk_sim_redis_key_names[key], &at, &is_asking);
        if (at == master)
            lk_sim_judge_forgets(key);
    }
    lk_sim_redis_restart(master, false);
    lk_sim_cluster_comes_up(master);
    lk_sim_judge_trouble(comes_up_ns + LK_SIM_REDIS_BACK_OFF_NS);
    return true;
}

/* Somebody deletes the counters of fencing numbers. */
static bool has_no_counters(const lk_sim_fault *fault)
{
    static const char *const counters[] = {"locker:fence:{20200}", "locker:fence:{20202}"};
    lk_sim_fault_strikes(fault, "counters are deleted");
    for (unsigned i = 0; i < LK_SIM_CLUSTER_SLOTS; i++) {
        const char *const argv[] = {"DEL", counters[i]};
        char answer[64];
        lk_sim_redis *at;
        bool is_asking;
        if (lk_sim_cluster_find(counters[i], &at, &is_asking))
            lk_sim_redis_ask(at, is_asking, 2, argv, answer, sizeof answer);
    }
    return true;
}

/* ------------------------------------------------------------------ a node and its replica ---- */

/* Of what was lost of a key. What had come by a move just before is not what a replica was waited for. */
static void forgets_some(unsigned place)
{
    for (unsigned key = 0; key < LK_SIM_REDIS_KEYS; key++) {
        int64_t came_at;
        const bool is_lost = lk_sim_redis_locks_were_lost(key);
        const bool is_there = lk_sim_cluster_place(key / 2, &came_at) == place;
        const bool has_just_come = came_at > 0 && lk_sim_now() - came_at <= LK_SIM_REDIS_LEASE_NS;
        if (!is_there || !is_lost)
            continue;
        lk_sim_judge_leaves();
        if (run.confirms && !has_just_come)
            lk_sim_judge_forgets_ends(key);
        else
            lk_sim_judge_forgets(key);
    }
}

/* Its replica takes the place. */
static void promote(unsigned place, bool is_planned)
{
    lk_sim_redis *const old = lk_sim_cluster_master(place);
    run.places[place].old = old;
    lk_sim_cluster_promote(place, is_planned);
    forgets_some(place);
    lk_sim_judge_moves(&old->service);
    lk_sim_judge_trouble(LK_SIM_REDIS_BACK_OFF_NS);
}

/* The others have noticed by now, if it has been so all the time. */
static void takes_over(void *context)
{
    const unsigned place = *(const unsigned *)context;
    const lk_sim_redis *const old = lk_sim_cluster_master(place);
    const bool is_noticed =
        run.places[place].is_away && lk_sim_now() - run.places[place].away_at >= election_ns;
    if (is_noticed && old == run.places[place].old && lk_sim_cluster_has_heir(place))
        promote(place, false);
}

static void goes_for_long(unsigned place)
{
    run.places[place].is_away = true;
    run.places[place].away_at = lk_sim_now();
    run.places[place].old = lk_sim_cluster_master(place);
    lk_sim_at(lk_sim_now() + election_ns, takes_over, &run.places[place].place);
}

/* It has come back: as a replica, where another has its place. */
static void comes_back(void *context)
{
    const unsigned place = *(const unsigned *)context;
    lk_sim_redis *const was = lk_sim_cluster_node(place), *const also =
                                                              lk_sim_cluster_node(place + LK_SIM_PLACES);
    lk_sim_redis *const master = lk_sim_cluster_master(place);
    lk_sim_redis *const gone = was->service.refuses ? was : also;
    run.places[place].is_away = false;
    gone->service.refuses = false;
    if (gone == master)
        lk_sim_cluster_comes_up(master);
    else
        lk_sim_cluster_follows(place);
    lk_sim_judge_trouble(comes_up_ns + LK_SIM_REDIS_BACK_OFF_NS);
}

static bool dies(const lk_sim_fault *fault, unsigned place)
{
    lk_sim_redis *const master = lk_sim_cluster_master(place);
    lk_sim_fault longer = *fault;
    longer.span_ns += election_ns / 2;
    if (run.places[place].is_away || master->service.refuses || master->service.silent)
        return false;
    lk_sim_redis_restart(master, true);
    master->service.refuses = true;
    goes_for_long(place);
    lk_sim_fault_lasts(&longer, "a master dies", comes_back, &run.places[place].place);
    return true;
}

static void is_whole(void *context)
{
    const unsigned place = *(const unsigned *)context;
    lk_sim_redis *const master = lk_sim_cluster_master(place);
    run.places[place].is_away = false;
    for (unsigned i = place; i < LK_SIM_NODES; i += LK_SIM_PLACES)
        lk_sim_cluster_cut(lk_sim_cluster_node(i), false);
    if (run.fails_over && master->replica == NULL)
        lk_sim_cluster_follows(place);
    lk_sim_judge_trouble(comes_up_ns + LK_SIM_REDIS_BACK_OFF_NS);
}

/* Clients reach it, and it no other node. */
static bool is_cut_off(const lk_sim_fault *fault, unsigned place)
{
    lk_sim_redis *const master = lk_sim_cluster_master(place);
    lk_sim_fault longer = *fault;
    longer.span_ns += fault->span_ns % 2 == 0 ? election_ns : 0;
    if (run.places[place].is_away || master->service.refuses || master->service.silent)
        return false;
    lk_sim_cluster_cut(master, true);
    goes_for_long(place);
    lk_sim_fault_lasts(&longer, "a master is cut off from the others", is_whole, &run.places[place].place);
    return true;
}

static bool change_places(const lk_sim_fault *fault, unsigned place)
{
    const lk_sim_redis *const master = lk_sim_cluster_master(place);
    if (run.places[place].is_away || !lk_sim_cluster_is_well(master) || !lk_sim_cluster_has_heir(place))
        return false;
    lk_sim_fault_strikes(fault, "a master and its replica change places");
    promote(place, true);
    lk_sim_cluster_follows(place);
    return true;
}

/* ------------------------------------------------------------------ faults ---- */

static bool strikes_node(const lk_sim_fault *fault)
{
    lk_sim_redis *const master = lk_sim_cluster_master(place_of(fault));
    switch (fault->detail / 8 % 6) {
    case 0:
        return lk_sim_redis_is_silent(fault, master);
    case 1:
        return starts_again(fault, master);
    case 2:
        return lk_sim_redis_is_away(fault, master, is_back);
    case 3:
        return lk_sim_redis_has_no_memory(fault, master);
    case 4:
        return forgets(fault, master);
    default:
        return has_no_counters(fault);
    }
}

static bool strikes_place(const lk_sim_fault *fault)
{
    const unsigned place = place_of(fault);
    switch (fault->detail / 8 % 4) {
    case 0:
        return dies(fault, place);
    case 1:
        return is_cut_off(fault, place);
    case 2:
        return change_places(fault, place);
    default:
        return lk_sim_redis_lags(fault, lk_sim_cluster_master(place));
    }
}

/* Its slot may begin to move at that moment. */
static void tells(lk_sim_connection *connection, const char *text)
{
    unsigned key;
    const bool is_handed_over = lk_sim_redis_locks_told(connection, text, &key);
    const lk_sim_fault *const fault = is_handed_over ? lk_sim_redis_handed_over(connection) : NULL;
    if (fault != NULL && fault->detail / 1024 % 4 > 0)
        (void)moves(key / 2, fault->detail / 4096);
}

static bool make(const lk_sim_fault *fault)
{
    if (run.clocks.are_set && fault->detail / 4096 / LK_SIM_PLACES % 4 == 0)
        return lk_sim_redis_clocks_move(fault);
    switch (fault->detail % 8) {
    case 0:
    case 1:
        return strikes_node(fault);
    case 2:
    case 3:
        return strikes_place(fault);
    case 4:
        return lk_sim_redis_waits_for_a_hand_over(fault);
    default:
        return slot_moves(fault);
    }
}

/* ------------------------------------------------------------------ the service ---- */

static const lk_sr_key *find(const char *name)
{
    lk_sim_redis *at;
    bool is_asking;
    (void)lk_sim_cluster_find(name, &at, &is_asking);
    return lk_sr_keyspace_find(&at->server->spaces[0], lk_sr_word(name));
}

/* While a slot migrates, the driver only renews and releases its locks. */
static bool is_withheld(unsigned key)
{
    return key / 2 < LK_SIM_CLUSTER_SLOTS && lk_sim_cluster_is_moving(key / 2);
}

static const char *begin(uint64_t *random, lk_sim_bounds *bounds)
{
    memset(&run, 0, sizeof run);
    lk_sim_redis_faults_begin(bounds);
    bounds->is_withheld = is_withheld;
    lk_sim_redis_locks_begin(find);
    run.forgets = lk_sim_draw_from(random, 8) == 0;
    run.fails_over = lk_sim_draw_from(random, 2) == 0;
    run.has_strangers = lk_sim_draw_from(random, 4) == 0;
    run.is_restless = lk_sim_draw_from(random, run.fails_over ? 4 : 2) ==
                      0; /* a slot that moves keeps a replica from its turn */
    run.has_tokens = lk_sim_draw_from(random, 8) > 0;
    run.confirms = run.fails_over && lk_sim_draw_from(random, 2) == 0;
    draw_clocks(*random ^ UINT64_C(0x636c6f636b));
    lk_sim_cluster_begin(run.fails_over, random);
    for (unsigned i = 0; i < LK_SIM_NODES; i++) {
        lk_sim_cluster_node(i)->tells = tells;
        lk_sim_cluster_node(i)->puts = lk_sim_redis_locks_put;
        lk_sim_cluster_node(i)->expires = lk_sim_redis_locks_expire;
        lk_sim_cluster_node(i)->loses = lk_sim_redis_locks_lose;
    }
    for (unsigned place = 0; place < LK_SIM_PLACES; place++)
        run.places[place].place = place;
    bounds->has_replica = run.fails_over;
    if (run.has_strangers)
        lk_sim_at(100 * MS, stranger_comes, NULL);
    if (run.is_restless)
        lk_sim_at(100 * MS, is_restless, NULL);
    lk_sim_stand_in(&lk_sim_cluster_master(0)->machine);
    return lk_sim_redis_draw_uri(
        &(lk_sim_redis_use){.address = "redis+cluster://redis-1.example,redis-2.example,redis-3.example/",
                            .polls = 2,
                            .drift = run.clocks.drift,
                            .has_tokens = run.has_tokens,
                            .confirms = run.confirms},
        random, bounds);
}

/* In a slot that stays who uses it last finds places in its queue that nobody wants. */
static void settle(void)
{
    run.ends = true;
    lk_sim_redis_faults_settle();
    for (unsigned slot = 0; slot < LK_SIM_CLUSTER_SLOTS; slot++)
        lk_sim_cluster_hurry(slot);
}

static const char *left(void)
{
    return lk_sim_cluster_left(run.has_strangers);
}

/* The ways to those that are masters at first. */
static lk_sim_service *server(unsigned place)
{
    const unsigned count = run.fails_over ? LK_SIM_NODES : LK_SIM_PLACES;
    return place < count ? &lk_sim_cluster_node(place)->service : NULL;
}

void lk_sim_run_redis_cluster(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {.begin = begin,
                                          .end = lk_sim_cluster_end,
                                          .server = server,
                                          .make = make,
                                          .settle = settle,
                                          .left = left};
    lk_sim_run_with(&service, plan, trace, result);
}
