/* redis_faults.c: see redis_faults.h. */
#include "redis_faults.h"

#include <stdio.h>
#include <string.h>

#include "redis_locks.h"
#include "world/seams.h"

#define MS INT64_C(1000000)

static struct {
    bool is_awaited;
    lk_sim_fault fault; /* strikes then */
} hand_over;

/* ------------------------------------------------------------------ the service ---- */

void lk_sim_redis_faults_begin(lk_sim_bounds *bounds)
{
    hand_over.is_awaited = false;
    *bounds = (lk_sim_bounds){.broken_ns = 300 * MS,
                              .lease_ns = LK_SIM_REDIS_LEASE_NS,
                              .settle_ns = 500 * MS,
                              .back_ns = LK_SIM_REDIS_BACK_OFF_NS,
                              .term_ns = LK_SIM_REDIS_LEASE_NS,
                              .keeps_count = true,
                              .breaks_prove = true,
                              .waiters = lk_sim_redis_locks_waiters,
                              .is_first = lk_sim_redis_locks_is_first,
                              .has_leases = true,
                              .tells_breaks = true};
}

const char *lk_sim_redis_draw_uri(const lk_sim_redis_use *use, uint64_t *random, lk_sim_bounds *bounds)
{
    static const unsigned polls[] = {100, 1000, 20}, commands[] = {300, 1000},
                          cleanups[] = {300, 2000, 2000, 2000};
    static char uri[320];
    const unsigned poll = polls[lk_sim_draw_from(random, use->polls)],
                   command = commands[lk_sim_draw_from(random, 2)],
                   cleanup = cleanups[lk_sim_draw_from(random, 4)];
    bounds->call_ns = command * MS;
    bounds->cleanup_ns = cleanup * MS;
    bounds->poll_ns = poll * MS;
    bounds->idle_ns = bounds->poll_ns + 250 * MS;
    bounds->drift = use->drift - 1;
    bounds->has_tokens = use->has_tokens;
    (void)snprintf(
        uri, sizeof uri,
        "%s?command_timeout=%ums&connect_timeout=1s&poll=%ums&cleanup_timeout=%ums&clock_drift=%u%s%s%s",
        use->address, command, poll, cleanup, use->drift, use->has_tokens ? "" : "&fencing=off",
        use->confirms ? "&wait_replicas=1&wait_timeout=200ms" : "",
        use->recovers ? "&ttl=3s&recovery=3s" : "");
    return uri;
}

/* ------------------------------------------------------------------ a server ---- */

static void speaks(void *context)
{
    lk_sim_redis_speaks(context);
    lk_sim_network_goes_on();
}

bool lk_sim_redis_is_silent(const lk_sim_fault *fault, lk_sim_redis *redis)
{
    if (redis->service.silent)
        return false;
    redis->service.silent = true;
    lk_sim_fault_lasts(fault, "a server stands still", speaks, redis);
    return true;
}

bool lk_sim_redis_is_away(const lk_sim_fault *fault, lk_sim_redis *redis, void (*is_back)(void *redis))
{
    if (redis->service.refuses)
        return false;
    lk_sim_redis_restart(redis, true);
    redis->service.refuses = true;
    lk_sim_fault_lasts(fault, "a server is away", is_back, redis);
    return true;
}

static void memory_is_back(void *context)
{
    const lk_sim_redis *const redis = context;
    lk_sr_set_memory(redis->server, 0);
}

bool lk_sim_redis_has_no_memory(const lk_sim_fault *fault, lk_sim_redis *redis)
{
    lk_sim_redis_advance(redis);
    lk_sr_set_memory(redis->server, 1);
    lk_sim_fault_lasts(fault, "a server has no memory", memory_is_back, redis);
    return true;
}

static void goes_on(void *context)
{
    lk_sim_redis *const redis = context;
    redis->halts = false;
}

bool lk_sim_redis_lags(const lk_sim_fault *fault, lk_sim_redis *master)
{
    if (master->replica == NULL || master->halts)
        return false;
    master->halts = true;
    lk_sim_fault_lasts(fault, "a replica hears nothing", goes_on, master);
    return true;
}

/* ------------------------------------------------------------------ a hand-over ---- */

bool lk_sim_redis_waits_for_a_hand_over(const lk_sim_fault *fault)
{
    if (hand_over.is_awaited)
        return false;
    hand_over.fault = *fault;
    hand_over.is_awaited = true;
    lk_sim_fault_strikes(fault, "when a lock is handed over, something happens");
    return true;
}

lk_sim_fault *lk_sim_redis_handed_over(lk_sim_connection *connection)
{
    const uint64_t detail = hand_over.fault.detail;
    if (!hand_over.is_awaited)
        return NULL;
    hand_over.is_awaited = false;
    if (detail / 256 % 2 == 0) {
        lk_sim_connection_delay(connection, (int64_t)(detail / 512 % 1000) * MS);
        lk_sim_judge_trouble(1000 * MS);
    }
    return &hand_over.fault;
}

/* ------------------------------------------------------------------ clocks ---- */

static const int64_t slews_each_ns = 10 * MS;

static struct {
    lk_sim_redis_clocks of;
    bool is_slewing, slews_all;
    int64_t slews_by_ns; /* so much each time */
} clocks;

void lk_sim_redis_clocks_begin(const lk_sim_redis_clocks *of)
{
    clocks.of = *of;
    clocks.is_slewing = false;
}

void lk_sim_redis_faults_settle(void)
{
    clocks.is_slewing = false;
    hand_over.is_awaited = false;
}

static void slews(void *context)
{
    (void)context;
    if (!clocks.is_slewing)
        return;
    if (clocks.of.may_set())
        clocks.of.set(clocks.slews_by_ns, clocks.slews_all);
    lk_sim_at(lk_sim_now() + slews_each_ns, slews, NULL);
}

static void ends_slew(void *context)
{
    (void)context;
    clocks.is_slewing = false;
}

bool lk_sim_redis_clocks_move(const lk_sim_fault *given)
{
    static const unsigned most_ms[] = {10, 200, 3000, 300000};
    lk_sim_fault fault = *given;
    uint64_t random = fault.detail;
    const int64_t sign = lk_sim_draw_from(&random, 2) == 0 && clocks.of.go_back ? -1 : 1;
    const bool all = !clocks.of.differ || lk_sim_draw_from(&random, 2) == 0;
    if (clocks.is_slewing || !clocks.of.may_set())
        return false;
    if (lk_sim_draw_from(&random, 3) == 0) {
        clocks.is_slewing = true;
        clocks.slews_by_ns = sign * (1 + (int64_t)lk_sim_draw_from(&random, 80)) * (slews_each_ns / 1000);
        clocks.slews_all = all;
        fault.span_ns += 500 * MS;
        lk_sim_tell("the clock slews by %lld in a thousand",
                    (long long)(clocks.slews_by_ns * 1000 / slews_each_ns));
        lk_sim_fault_lasts(&fault, all ? "a clock slews" : "the replica's clock slews", ends_slew, NULL);
        slews(NULL);
        return true;
    }
    const unsigned most = most_ms[lk_sim_draw_from(&random, 4)];
    const int64_t by_us = 1 + (int64_t)lk_sim_draw_from(&random, most * 1000);
    lk_sim_fault_strikes(&fault, all ? "a clock steps" : "the replica's clock steps");
    lk_sim_tell("by %lld us", (long long)(sign * by_us));
    clocks.of.set(sign * by_us * 1000, all);
    return true;
}
