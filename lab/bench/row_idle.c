/* row_idle.c: rows d and e: what it costs to do nothing: threads asleep on a lock that is held, and leases
 * that are kept alive. */
#include <stdlib.h>

#include "bench.h"

enum { ASLEEP = 100, LEASES = 1000, LEASES_LONG = 100000 };

static const int64_t ttl = 3000, ttl_long = 30000; /* ms */
static const char held_key[] = "bench:held", lease_prefix[] = "bench:lease:";

/* ------------------------------------------------------------------ d: waiters asleep ---- */

static void asleep_thread(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    lk_unlock_or_fail(b, lk_lock_or_fail(b, arg, held_key, NULL));
}

/* The holder is a foreign client, which tells nobody when it releases: the most watchful case. */
static void asleep_body(lk_bench *b, int member, const void *arg)
{
    lk_bare *foreign = lk_bare_open(b);
    locker *l = lk_open_or_fail(b, b->server.uri);
    (void)member;
    (void)arg;
    lk_bare_hold(foreign, held_key, 600000);
    lk_threads *set = lk_threads_start(b, ASLEEP, asleep_thread, l);
    lk_until_waiting(b, l, ASLEEP);
    lk_bench_sleep(lk_scale(b, 1000) * LK_BENCH_MS);
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_bench_crew_wait_halt(b);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    lk_bare_delete(foreign, held_key);
    lk_threads_join(set);
    (void)locker_close(l);
    lk_bare_close(foreign);
}

bool lk_row_d(lk_bench *b)
{
    static const lk_bench_figure sent = {"d",
                                         "100 waiters asleep on a held key, commands",
                                         "/s",
                                         NULL,
                                         LK_GOAL_AT_MOST,
                                         1},
                                 used = {"d", "... CPU", "%", NULL, LK_GOAL_NONE, 0};
    lk_series rate = {0}, cpu = {0};
    lk_work work = {.members = 1,
                    .duration = lk_scale(b, 6000) * LK_BENCH_MS,
                    .cpu = b->client_cpu,
                    .body = asleep_body,
                    .asked = lk_bench_redis_server_commands};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        if (!lk_bench_crew_run(b, &work))
            return false;
        const double seconds = b->crew->value[LK_VALUE_SECONDS];
        lk_series_add(&rate, (double)b->crew->asked / seconds);
        lk_series_add(&cpu, b->crew->value[0] / LK_BENCH_S / seconds * 100);
    }
    lk_bench_report(b, &sent, NULL, &rate);
    lk_bench_report(b, &used, NULL, &cpu);
    return true;
}

/* ------------------------------------------------------------------ e: leases ---- */

typedef struct {
    int count;
    int64_t ttl_ms;
} leases;

/* A script call for each lease, all in one flight, every third of the TTL. */
static void lease_bare_body(lk_bench *b, int member, const void *arg)
{
    const leases *p = arg;
    lk_bare *bare = lk_bare_open(b);
    const int64_t period = p->ttl_ms * LK_BENCH_MS / 3;
    (void)member;
    char key[64];
    for (int i = 0; i < p->count; i++) {
        (void)snprintf(key, sizeof key, "%s%d", lease_prefix, i);
        lk_bare_hold(bare, key, p->ttl_ms);
    }
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    int64_t next = lk_bench_now();
    while (!lk_bench_crew_stopped(b)) {
        lk_bare_renew(bare, lease_prefix, p->count, p->ttl_ms);
        next += period;
        lk_bench_sleep(next - lk_bench_now());
    }
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    for (int i = 0; i < p->count; i++) {
        (void)snprintf(key, sizeof key, "%s%d", lease_prefix, i);
        lk_bare_delete(bare, key);
    }
    lk_bare_close(bare);
}

static void lease_our_body(lk_bench *b, int member, const void *arg)
{
    const leases *p = arg;
    locker_handle **held = calloc((size_t)p->count, sizeof *held);
    locker *l = lk_open_or_fail(b, b->server.uri);
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_statistics stats = {.size = sizeof stats};
    (void)member;
    if (held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    options.ttl_ms = p->ttl_ms;
    lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "bench:lease", &options)); /* first-time costs */
    const int64_t allocated = lk_bench_allocated();
    const int64_t resident = lk_bench_resident();
    for (int i = 0; i < p->count; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s%d", lease_prefix, i);
        held[i] = lk_lock_or_fail(b, l, key, &options);
    }
    b->crew->value[1] = (double)(lk_bench_allocated() - allocated) / p->count;
    b->crew->value[2] = (double)(lk_bench_resident() - resident) / p->count;
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_bench_crew_wait_halt(b);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    (void)locker_stats(l, &stats);
    if (stats.lost > 0)
        lk_bench_crew_fail(b, "%llu of %d leases were lost", (unsigned long long)stats.lost, p->count);
    for (int i = 0; i < p->count; i++)
        lk_unlock_or_fail(b, held[i]);
    (void)locker_close(l);
    free(held);
}

typedef struct {
    lk_series rate[2], cpu[2], allocated, resident;
} upkeep;

static bool lease_side(lk_bench *b, const leases *p, int64_t duration, int ours, upkeep *u)
{
    lk_work work = {.members = 1,
                    .duration = duration,
                    .cpu = b->client_cpu,
                    .body = ours != 0 ? lease_our_body : lease_bare_body,
                    .arg = p,
                    .asked = lk_bench_redis_server_commands};
    if (!lk_bench_crew_run(b, &work))
        return false;
    const double seconds = b->crew->value[LK_VALUE_SECONDS];
    lk_series_add(&u->rate[ours], (double)b->crew->asked / seconds);
    lk_series_add(&u->cpu[ours], b->crew->value[0] / LK_BENCH_S / seconds * 100);
    if (ours != 0) {
        lk_series_add(&u->allocated, b->crew->value[1]);
        lk_series_add(&u->resident, b->crew->value[2]);
    }
    return true;
}

/* `name`: of the first figure; `cpu`: the goal for the processor, in percent. */
static bool lease_row(lk_bench *b, const char *row, const char *name, const leases *p, int64_t ms, int rounds,
                      double cpu)
{
    const lk_bench_figure sent = {row, name, "/s", "a script call each", LK_GOAL_NONE, 0},
                          used = {row, "... client CPU", "%", "a script call each", LK_GOAL_AT_MOST, cpu},
                          heap = {row, "... heap for each lock", "B", NULL, LK_GOAL_AT_MOST, 512},
                          real = {row, "... resident memory for each lock", "B", NULL, LK_GOAL_NONE, 0};
    upkeep u = {0};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < rounds; round++)
        for (int ours = 0; ours < 2; ours++)
            if (!lease_side(b, p, lk_scale(b, ms) * LK_BENCH_MS, ours, &u))
                return false;
    lk_bench_report(b, &sent, &u.rate[0], &u.rate[1]);
    lk_bench_report(b, &used, &u.cpu[0], &u.cpu[1]);
    lk_bench_report(b, &heap, NULL, &u.allocated);
    lk_bench_report(b, &real, NULL, &u.resident);
    return true;
}

bool lk_row_e(lk_bench *b)
{
    const leases p = {LEASES, ttl};
    return lease_row(b, "e", "1,000 leases, TTL 3 s, commands", &p, 9000, b->rounds, 0.1);
}

bool lk_row_e_long(lk_bench *b)
{
    const leases p = {LEASES_LONG, ttl_long};
    return lease_row(b, "e100k", "100,000 leases, TTL 30 s, commands", &p, 40000, 1, 5);
}
