/* run_redis.c: a run with Redis: how it begins and ends, and the faults that it has. See run.h and faults.h. */
#include <stdio.h>
#include <string.h>

#include "faults.h"
#include "judge.h"
#include "redis/state.h"
#include "redis_service.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

enum { SERVERS = 2, STRANGERS_KEYS = 3 };

static const int64_t back_off_ns = 3000 * MS; /* the driver's greatest, and the time to connect */
static const int64_t lease_ns = 3200 * MS;    /* the longest, and a little */

static struct {
    lk_sim_redis at[SERVERS];
    lk_sim_redis *master;
    bool forgets;       /* it may lose its data */
    bool fails_over;    /* it has a replica */
    bool has_strangers; /* there are clients that know nothing of ours */
    unsigned stranger;  /* the latest one's number */
    char uri[128];
} run;

static lk_sim_redis *other(void)
{
    return run.master == &run.at[0] ? &run.at[1] : &run.at[0];
}

/* ------------------------------------------------------------------ strangers ---- */

/* Somebody who takes a key by SET NX, keeps it until its lease is over, and shares no clock with anybody. */
static void stranger_takes(unsigned key, int64_t span_ms)
{
    static const char *const keys[STRANGERS_KEYS] = {"a", "b", "c"};
    char name[32], span[32], answer[64];
    (void)snprintf(name, sizeof name, "stranger %u", ++run.stranger);
    (void)snprintf(span, sizeof span, "%lld", (long long)span_ms);
    const char *const argv[] = {"SET", keys[key], name, "NX", "PX", span};
    lk_sim_redis_ask(run.master, 6, argv, answer, sizeof answer);
    lk_sim_tell("%s on key %u for %lld ms: %.4s", name, key, (long long)span_ms, answer);
    if (strcmp(answer, "+OK\r\n") == 0) /* whose clock may run faster */
        lk_sim_judge_stranger(key, span_ms * MS - span_ms * MS / 100);
}

static void stranger_comes(void *context)
{
    (void)context;
    if (!run.master->service.silent && !run.master->service.refuses)
        stranger_takes((unsigned)lk_sim_draw(STRANGERS_KEYS), 1 + (int64_t)lk_sim_draw(300));
    lk_sim_at(lk_sim_now() + (int64_t)lk_sim_draw(800 * MS), stranger_comes, NULL);
}

/* ------------------------------------------------------------------ one server ---- */

static void speaks(void *context)
{
    lk_sim_redis *const redis = context;
    redis->service.silent = false;
    lk_sim_network_goes_on();
}

static bool is_silent(const lk_sim_fault *fault)
{
    if (run.master->service.silent)
        return false;
    run.master->service.silent = true;
    lk_sim_fault_lasts(fault, "the server stands still", speaks, run.master);
    return true;
}

static bool starts_again(const lk_sim_fault *fault)
{
    lk_sim_fault_strikes(fault, "the server starts again");
    lk_sim_redis_restart(run.master, true);
    return true;
}

static void is_back(void *context)
{
    lk_sim_redis *const redis = context;
    redis->service.refuses = false;
    lk_sim_judge_trouble(back_off_ns);
}

static bool is_away(const lk_sim_fault *fault)
{
    if (run.master->service.refuses)
        return false;
    lk_sim_redis_restart(run.master, true);
    run.master->service.refuses = true;
    lk_sim_fault_lasts(fault, "the server is away", is_back, run.master);
    return true;
}

static void memory_is_back(void *context)
{
    const lk_sim_redis *const redis = context;
    lk_sr_set_memory(redis->server, 0);
}

static bool has_no_memory(const lk_sim_fault *fault)
{
    lk_sim_redis_advance(run.master);
    lk_sr_set_memory(run.master->server, 1);
    lk_sim_fault_lasts(fault, "the server has no memory", memory_is_back, run.master);
    return true;
}

static void lose_data(void)
{
    lk_sim_judge_forgets();
    lk_sim_judge_trouble(lease_ns);
}

/* Somebody empties it, and a stranger is the first to have each key. */
static void flush(void)
{
    static const char *const argv[] = {"FLUSHALL"};
    char answer[64];
    lk_sim_redis_ask(run.master, 1, argv, answer, sizeof answer);
    for (unsigned key = 0; run.has_strangers && key < STRANGERS_KEYS; key++)
        stranger_takes(key, 1000);
}

static bool forgets(const lk_sim_fault *fault)
{
    if (!run.forgets)
        return false;
    lk_sim_fault_strikes(fault, "the server forgets");
    lose_data();
    if (fault->detail / 64 % 2 == 0)
        lk_sim_redis_restart(run.master, false);
    else
        flush();
    return true;
}

static int64_t counters_until; /* until then they are deleted again and again */

static void counters_go(void *context)
{
    static const char *const argv[] = {"DEL", "{a}:locker:fence", "{b}:locker:fence", "{c}:locker:fence"};
    char answer[64];
    if (lk_sim_now() >= counters_until)
        return;
    if (!run.master->service.silent && !run.master->service.refuses)
        lk_sim_redis_ask(run.master, 4, argv, answer, sizeof answer);
    lk_sim_at(lk_sim_now() + 20 * MS, counters_go, context);
}

static void counters_stay(void *context)
{
    (void)context;
}

/* Somebody deletes the counters of fencing numbers, or the server has no room for them. */
static bool has_no_counters(const lk_sim_fault *fault)
{
    if (counters_until > lk_sim_now())
        return false;
    counters_until = lk_sim_now() + fault->span_ns;
    lk_sim_fault_lasts(fault, "counters are deleted", counters_stay, NULL);
    counters_go(NULL);
    return true;
}

/* ------------------------------------------------------------------ two servers ---- */

/* The name leads to the replica, which is the master now. */
static void promote(void)
{
    lk_sim_redis *const replica = other();
    lk_sim_tell("%s is the master", replica->service.host);
    if (lk_sim_redis_promote(run.master))
        lose_data();
    run.master->service.alias = NULL;
    replica->service.alias = "redis.example";
    run.master = replica;
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
    promote();
    lk_sim_redis_restart(old, true);
    old->service.refuses = true;
    lk_sim_fault_lasts(fault, "the master dies", follows, NULL);
    lk_sim_judge_trouble(back_off_ns);
    return true;
}

/* They change places; whoever is connected to the old one is told so at his next command. */
static bool change_places(const lk_sim_fault *fault)
{
    if (run.master->replica == NULL)
        return false;
    lk_sim_fault_strikes(fault, "the master becomes a replica");
    promote();
    lk_sim_redis_replicate(run.master, other());
    lk_sim_judge_trouble(back_off_ns);
    return true;
}

static void goes_on(void *context)
{
    lk_sim_redis *const redis = context;
    redis->halts = false;
}

static bool lags(const lk_sim_fault *fault)
{
    if (run.master->replica == NULL || run.master->halts)
        return false;
    run.master->halts = true;
    lk_sim_fault_lasts(fault, "the replica hears nothing", goes_on, run.master);
    return true;
}

static lk_sim_fault waiting; /* until a lock is handed over */

static void strikes(void *context)
{
    (void)context;
    (void)(waiting.detail / 64 % 2 == 0 ? dies(&waiting) : change_places(&waiting));
}

static void handed(lk_sim_redis *redis)
{
    (void)redis;
    lk_sim_at(lk_sim_now(), strikes, NULL);
}

static bool dies_at_a_hand_over(const lk_sim_fault *fault)
{
    if (run.master->replica == NULL || run.master->handed != NULL)
        return false;
    waiting = *fault;
    run.master->handed = handed;
    lk_sim_fault_strikes(fault, "the master is to die when it hands a lock over");
    return true;
}

static bool fail_over(const lk_sim_fault *fault)
{
    if (!run.fails_over)
        return false;
    switch (fault->detail / 128 % 5) {
    case 0:
        return dies(fault);
    case 1:
        return change_places(fault);
    case 2:
        return lags(fault);
    default:
        return dies_at_a_hand_over(fault);
    }
}

static bool make(const lk_sim_fault *fault)
{
    switch (fault->detail % 7) {
    case 0:
        return is_silent(fault);
    case 1:
        return starts_again(fault);
    case 2:
        return is_away(fault);
    case 3:
        return has_no_memory(fault);
    case 4:
        return forgets(fault);
    case 5:
        return has_no_counters(fault);
    default:
        return fail_over(fault);
    }
}

/* ------------------------------------------------------------------ the service ---- */

static const char *begin(uint64_t *random)
{
    static const char *const hosts[SERVERS] = {"redis-1.example", "redis-2.example"};
    const char *const poll = lk_sim_draw_from(random, 2) == 0 ? "100ms" : "1s";
    memset(&run, 0, sizeof run);
    run.forgets = lk_sim_draw_from(random, 5) == 0;
    run.fails_over = lk_sim_draw_from(random, 4) == 0;
    run.has_strangers = lk_sim_draw_from(random, 4) == 0;
    for (unsigned i = 0; i < SERVERS; i++)
        lk_sim_redis_begin(&run.at[i], hosts[i], i > 0 ? &run.at[0] : NULL,
                           lk_sim_draw_from(random, UINT64_MAX));
    run.master = &run.at[0];
    run.master->service.alias = "redis.example";
    if (run.fails_over)
        lk_sim_redis_replicate(run.master, other());
    if (run.has_strangers)
        lk_sim_at(100 * MS, stranger_comes, NULL);
    lk_sim_stand_in(&run.master->machine);
    (void)snprintf(run.uri, sizeof run.uri,
                   "redis://redis.example/?command_timeout=1s&connect_timeout=1s&poll=%s", poll);
    return run.uri;
}

static void end(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        lk_sim_redis_end(&run.at[i]);
}

/* Locks are given back, their queues are empty, and what else there is has an end. */
static const char *left(void)
{
    static char text[256];
    const lk_sr_server *const server = run.master->server;
    lk_sim_redis_advance(run.master);
    LK_LIST_EACH(link, &server->spaces[0].keys) {
        const lk_sr_key *const key = LK_CONTAINER(link, lk_sr_key, link);
        (void)snprintf(text, sizeof text, "%.*s was left behind", LK_SR_SHOWN(lk_sr_view(&key->name)));
        const bool ends = key->expires_ms >= 0, is_over = ends && key->expires_ms < lk_sr_clock_ms(server);
        const bool is_lock = strstr(text, ":locker:") == NULL && !run.has_strangers;
        if (!is_over && (!ends || is_lock || strstr(text, ":locker:queue") != NULL))
            return text;
    }
    return NULL;
}

static lk_sim_service *server(unsigned place)
{
    return place < SERVERS ? &run.at[place].service : NULL;
}

void lk_sim_run_redis(const lk_sim_plan *plan, FILE *trace, lk_sim_result *result)
{
    static const lk_sim_faulty service = {.bounds = {.idle_ns = 1200 * MS,
                                                     .broken_ns = 300 * MS,
                                                     .keeps_count = true,
                                                     .has_leases = true}, /* the first is a poll's */
                                          .begin = begin,
                                          .end = end,
                                          .server = server,
                                          .make = make,
                                          .left = left};
    lk_sim_run_with(&service, plan, trace, result);
}
