/* run_redis.c: a run with Redis: how it begins and ends, and the faults that it has. See run.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_faults.h"
#include "redis_locks.h"
#include "run.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { SERVERS = 2, KEYS = LK_SIM_REDIS_KEYS };

static const int64_t recovery_ns = 3000 * MS; /* no lease is longer */

static struct {
    lk_sim_redis at[SERVERS];
    lk_sim_redis *master;
    bool forgets;       /* it may lose its data */
    bool fails_over;    /* it has a replica */
    bool confirms;      /* ... which confirms grants */
    bool has_tokens;    /* fencing is on */
    bool recovers;      /* holders keep their locks over a loss of data */
    bool has_strangers; /* there are clients that know nothing of ours */
    bool is_split;      /* the old master does not know that there is a new one */
    lk_sim_redis_clocks clocks;
    int64_t greatest_lead_ns; /* that of any master's clock */
} run;

/* A life of a server begins: nothing is granted for a while after somebody has come to it. */
static void lives(void *context)
{
    (void)context;
    if (run.recovers)
        lk_sim_judge_trouble(LK_SIM_REDIS_BACK_OFF_NS + recovery_ns);
}

static lk_sim_redis *other(void)
{
    return run.master == &run.at[0] ? &run.at[1] : &run.at[0];
}

/* ------------------------------------------------------------------ clocks ---- */

static bool may_set_clocks(void)
{
    return !run.is_split && !run.at[0].service.silent && !run.at[1].service.silent;
}

static void tell_clock(void)
{
    if (run.greatest_lead_ns < run.master->lead_ns)
        run.greatest_lead_ns = run.master->lead_ns;
    lk_sim_judge_clock(run.master->lead_ns);
}

/* Of the servers, or of the replica alone. */
static void set_clocks(int64_t by_ns, bool all)
{
    if (run.fails_over)
        lk_sim_redis_set_clock(other(), by_ns);
    if (!all)
        return;
    lk_sim_redis_set_clock(run.master, by_ns);
    tell_clock();
}

/* Where it is behind: after a failover tokens could go back. */
static void set_right(lk_sim_redis *redis)
{
    if (redis->lead_ns < run.greatest_lead_ns)
        lk_sim_redis_set_clock(redis, run.greatest_lead_ns - redis->lead_ns);
}

/* ------------------------------------------------------------------ strangers ---- */

static void stranger_comes(void *context)
{
    (void)context;
    if (!run.master->service.silent && !run.master->service.refuses)
        lk_sim_redis_stranger(run.master, false, (unsigned)lk_sim_draw(KEYS), 1 + (int64_t)lk_sim_draw(300));
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(800 * MS), stranger_comes, NULL);
}

/* ------------------------------------------------------------------ one server ---- */

static bool starts_again(const lk_sim_fault *fault)
{
    lk_sim_fault_strikes(fault, "the server starts again");
    lk_sim_redis_restart(run.master, true);
    lives(NULL);
    return true;
}

static void is_back(void *context)
{
    lk_sim_redis *const redis = context;
    redis->service.refuses = false;
    lk_sim_judge_trouble(LK_SIM_REDIS_BACK_OFF_NS);
    lives(NULL);
}

/* Somebody empties it, and a stranger is the first to have each key. */
static void flush(void)
{
    static const char *const argv[] = {"FLUSHALL"};
    char answer[64];
    lk_sim_redis_ask(run.master, false, 1, argv, answer, sizeof answer);
    for (unsigned key = 0; run.has_strangers && key < KEYS; key++)
        lk_sim_redis_stranger(run.master, false, key, 1000);
}

static bool forgets(const lk_sim_fault *fault)
{
    if (!run.forgets)
        return false;
    lk_sim_fault_strikes(fault, "the server forgets");
    lk_sim_judge_leaves();
    if (run.recovers) /* all but what no holder has to bring back */
        lk_sim_judge_forgets_all_ends(false);
    if (fault->detail / 64 % 2 == 0) {
        if (!run.recovers)
            lk_sim_judge_forgets_all();
        lk_sim_redis_restart(run.master, false);
    } else {
        if (!run.recovers)
            lk_sim_judge_flushes();
        flush();
    }
    lives(NULL);
    return true;
}

static int64_t counters_until; /* until then they are deleted again and again */

static void counters_go(void *context)
{
    static const char *const argv[] = {"DEL", "locker:fence:{20200}", "locker:fence:{20202}"};
    char answer[64];
    if (lk_sim_now() >= counters_until)
        return;
    if (!run.master->service.silent && !run.master->service.refuses)
        lk_sim_redis_ask(run.master, false, 3, argv, answer, sizeof answer);
    lk_sim_at(lk_sim_now() + 20 * MS, counters_go, context);
}

static void counters_stay(void *context)
{
    (void)context;
}

/* Somebody deletes the counters of fencing numbers, or the server has no room for them; for as long as a lease: what else
 * goes wrong then meets with it. */
static bool has_no_counters(const lk_sim_fault *given)
{
    lk_sim_fault fault = *given;
    if (counters_until > lk_sim_now() || run.clocks.go_back ||
        lk_sim_is_modelled()) /* on a clock that is behind they begin anew too low */
        return false;
    fault.span_ns = LK_SIM_REDIS_LEASE_NS / 4 + fault.span_ns;
    counters_until = lk_sim_now() + fault.span_ns;
    lk_sim_fault_lasts(&fault, "counters are deleted", counters_stay, NULL);
    counters_go(NULL);
    return true;
}

/* ------------------------------------------------------------------ two servers ---- */

/* What a replica had to confirm is there still, and what a holder brings back. */
static void forgets_some(void)
{
    for (unsigned key = 0; key < KEYS; key++) {
        if (!lk_sim_redis_locks_were_lost(key))
            continue;
        lk_sim_judge_leaves();
        if (run.confirms || run.recovers)
            lk_sim_judge_forgets_ends(key);
        else
            lk_sim_judge_forgets(key);
    }
}

/* The name leads to the replica, which is the master now. `splits`: the old one goes on for those who are connected. */
static void promote(bool splits)
{
    lk_sim_redis *const replica = other();
    lk_sim_tell("%s is the master", replica->service.host);
    lk_sim_network_reset(NULL, &replica->service); /* as Sentinel does when it makes it a replica */
    lk_sim_redis_promote(run.master);
    set_right(replica);
    forgets_some();
    if (splits) {
        lk_sim_judge_leaves();
        lk_sim_judge_forgets_all_ends(true);
    }
    lives(NULL);
    run.master->service.alias = NULL;
    replica->service.alias = "redis.example";
    lk_sim_judge_moves(&run.master->service);
    run.master = replica;
    if (run.clocks.are_set)
        tell_clock();
}

static void follows(void *context)
{
    (void)context;
    other()->service.refuses = false;
    lk_sim_redis_replicate(run.master, other());
}

/* Its host is gone, and comes back as a replica. */
static bool dies(const lk_sim_fault *fault)
{
    lk_sim_redis *const old = run.master;
    if (old->replica == NULL || old->service.refuses)
        return false;
    promote(false);
    lk_sim_redis_restart(old, true);
    old->service.refuses = true;
    lk_sim_fault_lasts(fault, "the master dies", follows, NULL);
    lk_sim_judge_trouble(LK_SIM_REDIS_BACK_OFF_NS);
    return true;
}

static void is_told(void *context)
{
    lk_sim_redis *const old = context;
    run.is_split = false;
    lk_sim_network_reset(NULL, &old->service);
    lk_sim_redis_replicate(run.master, old);
    lk_sim_judge_forgets_all_ends(false);
    lk_sim_judge_leaves();
    lk_sim_judge_trouble(LK_SIM_REDIS_BACK_OFF_NS);
}

/* The old master is cut off from the new one, and clients are at both. */
static bool splits(const lk_sim_fault *fault)
{
    lk_sim_redis *const old = run.master;
    if (!run.confirms || run.is_split || old->replica == NULL)
        return false;
    promote(true);
    run.is_split = true;
    lk_sim_fault_lasts(fault, "the old master goes on beside the new one", is_told, old);
    return true;
}

/* They change places; whoever is connected to the old one is told so at his next command. */
static bool change_places(const lk_sim_fault *fault)
{
    if (run.master->replica == NULL)
        return false;
    lk_sim_fault_strikes(fault, "the master becomes a replica");
    promote(false);
    lk_sim_redis_replicate(run.master, other());
    lk_sim_judge_trouble(LK_SIM_REDIS_BACK_OFF_NS);
    return true;
}

static lk_sim_fault last; /* of what the replica didn't hear */

static void dies_before(void *context)
{
    (void)context;
    (void)dies(&last);
}

/* Half of the time it never hears it. */
static bool lags(const lk_sim_fault *fault)
{
    if (!lk_sim_redis_lags(fault, run.master))
        return false;
    last = *fault;
    if (fault->detail / 1024 % 2 == 0)
        lk_sim_at(lk_sim_now() + fault->span_ns / 2, dies_before, NULL);
    return true;
}

/* ------------------------------------------------------------------ when a lock is handed over ---- */

static void strikes(void *context)
{
    const lk_sim_fault *const fault = context;
    switch (fault->detail / 64 % 4) {
    case 0:
        (void)forgets(fault);
        break;
    case 1:
        (void)dies(fault);
        break;
    case 2:
        (void)change_places(fault);
        break;
    default:
        break;
    }
}

static void tells(lk_sim_connection *connection, const char *text)
{
    unsigned key;
    (void)lk_sim_redis_locks_told(connection, text, &key);
    lk_sim_fault *const fault = lk_sim_redis_handed_over(connection);
    if (fault != NULL)
        lk_sim_at(lk_sim_now(), strikes, fault);
}

static bool fail_over(const lk_sim_fault *fault)
{
    if (!run.fails_over)
        return false;
    switch (fault->detail / 128 % 4) {
    case 0:
        return dies(fault);
    case 1:
        return change_places(fault);
    case 2:
        return run.confirms ? splits(fault) : change_places(fault);
    default:
        return lags(fault);
    }
}

static bool make(const lk_sim_fault *fault)
{
    if (run.clocks.are_set && fault->detail / 4096 % 4 > 0)
        return lk_sim_redis_clocks_move(fault);
    switch (fault->detail % 8) {
    case 0:
        return lk_sim_redis_is_silent(fault, run.master);
    case 1:
        return starts_again(fault);
    case 2:
        return lk_sim_redis_is_away(fault, run.master, is_back);
    case 3:
        return lk_sim_redis_has_no_memory(fault, run.master);
    case 4:
        return forgets(fault);
    case 5:
        return has_no_counters(fault);
    case 6:
        return lk_sim_redis_waits_for_a_hand_over(fault);
    default:
        return fail_over(fault);
    }
}

/* ------------------------------------------------------------------ the service ---- */

/* From numbers of its own, so that other runs are what they were. A stranger takes what a server has lost before its holder brings
 * it back. */
static void draw_recovery(uint64_t random)
{
    run.recovers =
        lk_sim_draw_from(&random, 4) == 0 && run.has_tokens && !run.has_strangers && !lk_sim_is_modelled();
    if (run.recovers)
        run.forgets = lk_sim_draw_from(&random, 2) == 0;
}

/* The same. What a server has lost, also by a failover, begins anew by its clock, so it is not set back; and what a
 * stranger has, or a server that recovers waits for, goes by it too. */
static void draw_clocks(uint64_t random)
{
    run.clocks.are_set =
        lk_sim_draw_from(&random, 2) == 0 && !run.has_strangers && !run.recovers && !lk_sim_is_modelled();
    run.clocks.go_back =
        run.clocks.are_set && !run.forgets && !run.fails_over && lk_sim_draw_from(&random, 3) > 0;
    run.clocks.drift = run.clocks.are_set && lk_sim_draw_from(&random, 2) == 0 ? 10 : 1;
    run.clocks.differ = run.fails_over;
    run.clocks.may_set = may_set_clocks;
    run.clocks.set = set_clocks;
    lk_sim_redis_clocks_begin(&run.clocks);
}

static const lk_sr_key *find(const char *name)
{
    return lk_sr_keyspace_find(&run.master->server->spaces[0], lk_sr_word(name));
}

static bool is_free(unsigned key)
{
    const lk_sr_key *const lock = find(lk_sim_redis_key_names[key]);
    return lock == NULL || (lock->expires_ms >= 0 && lock->expires_ms < lk_sr_clock_ms(run.master->server));
}

static const char *begin(uint64_t *random, lk_sim_bounds *bounds)
{
    static const char *const hosts[SERVERS] = {"redis-1.example", "redis-2.example"};
    memset(&run, 0, sizeof run);
    lk_sim_redis_locks_begin(find);
    lk_sim_redis_faults_begin(bounds);
    bounds->is_free = is_free;
    run.forgets = lk_sim_draw_from(random, 5) == 0;
    run.fails_over = lk_sim_draw_from(random, 4) == 0;
    run.has_strangers = lk_sim_draw_from(random, 4) == 0;
    if (lk_sim_is_modelled())
        run.forgets = run.fails_over = run.has_strangers = false;
    for (unsigned i = 0; i < SERVERS; i++)
        lk_sim_redis_begin(&run.at[i], hosts[i], i > 0 ? &run.at[0] : NULL,
                           lk_sim_draw_from(random, UINT64_MAX));
    run.at[0].tells = run.at[1].tells = tells;
    run.at[0].puts = run.at[1].puts = lk_sim_redis_locks_put;
    run.at[0].expires = run.at[1].expires = lk_sim_redis_locks_expire;
    run.at[0].loses = run.at[1].loses = lk_sim_redis_locks_lose;
    run.master = &run.at[0];
    run.master->service.alias = "redis.example";
    run.has_tokens = lk_sim_draw_from(random, 8) > 0 || lk_sim_is_modelled();
    run.confirms = run.fails_over && lk_sim_draw_from(random, 2) == 0;
    draw_recovery(~*random);
    draw_clocks(*random ^ UINT64_C(0x636c6f636b));
    if (run.recovers)
        lk_sim_at(0, lives, NULL);
    bounds->has_replica = run.fails_over;
    if (run.fails_over)
        lk_sim_redis_replicate(run.master, other());
    if (run.has_strangers)
        lk_sim_at(100 * MS, stranger_comes, NULL);
    if (lk_sim_is_modelled())
        lk_sim_redis_steps_begin(run.master);
    lk_sim_stand_in(&run.master->machine);
    return lk_sim_redis_draw_uri(&(lk_sim_redis_use){.address = "redis://redis.example/",
                                                     .polls = run.fails_over ? 3 : 2,
                                                     .drift = run.clocks.drift,
                                                     .has_tokens = run.has_tokens,
                                                     .confirms = run.confirms,
                                                     .recovers = run.recovers},
                                 random, bounds);
}

static void end(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        lk_sim_redis_end(&run.at[i]);
}

/* What was left behind ends by clocks that are set right. */
static void settle(void)
{
    lk_sim_redis_faults_settle();
    if (!run.clocks.go_back)
        return;
    set_right(run.master);
    tell_clock();
    lk_sim_judge_trouble(500 * MS);
}

static const char *left(void)
{
    return lk_sim_redis_left(run.master, run.has_strangers);
}

static lk_sim_service *server(unsigned place)
{
    return place < SERVERS ? &run.at[place].service : NULL;
}

void lk_sim_run_redis(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {
        .begin = begin, .end = end, .server = server, .make = make, .settle = settle, .left = left};
    lk_sim_run_with(&service, plan, trace, result);
}
