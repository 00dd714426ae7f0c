/* row_permits.c: row permits: many permits of one key on Redis. The server serves nobody else while a script runs, so no script may
 * take long, however many hold a permit. Measured is the longest script while permits are taken, renewed and given back, and while
 * more of them are taken and broken; and the longest call of a bystander in another process. Bare is the bystander without them. */
#include <stdlib.h>

#include "bench.h"

enum { RENEWED = 20000, BROKEN = 60000, THREADS = 8 };
enum { HOLDER, BYSTANDER, MEMBERS };

static const int64_t ttl = 3000; /* ms */
static const char key[] = "bench:permits";

typedef struct {
    int64_t count;
    bool is_broken;
} plan;

typedef struct {
    locker *l;
    locker_handle **held;
    size_t count;
} permits;

static void take_thread(lk_bench *b, size_t index, void *arg)
{
    const permits *all = arg;
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.permits = LOCKER_PERMITS_MAX;
    for (size_t i = index; i < all->count; i += THREADS)
        all->held[i] = lk_lock_or_fail(b, all->l, key, &options);
}

static void give_thread(lk_bench *b, size_t index, void *arg)
{
    const permits *all = arg;
    for (size_t i = index; i < all->count; i += THREADS)
        lk_unlock_or_fail(b, all->held[i]);
}

/* Take the permits from their holder, and free what it has of them once it knows. */
static void break_all(lk_bench *b, const permits *all)
{
    locker *operator= lk_open_or_fail(b, b->server.uri);
    locker_statistics stats = {.size = sizeof stats};
    locker_error err;
    const int64_t from = lk_bench_now();
    if (locker_break(operator, key, NULL, NULL, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_break: %s", err.text);
    b->crew->value[0] = (double)(lk_bench_now() - from) / LK_BENCH_S;
    while (locker_stats(all->l, &stats) == LOCKER_OK && stats.lost < all->count)
        lk_bench_sleep(LK_BENCH_MS);
    for (size_t i = 0; i < all->count; i++)
        locker_handle_free(all->held[i]);
    (void)locker_close(operator);
}

static void keep_and_give_back(lk_bench *b, permits *all)
{
    locker_statistics stats = {.size = sizeof stats};
    lk_bench_sleep(lk_scale(b, 2 * ttl) * LK_BENCH_MS);
    (void)locker_stats(all->l, &stats);
    if (stats.lost > 0)
        lk_bench_crew_fail(b, "%llu of %zu permits were lost", (unsigned long long)stats.lost, all->count);
    lk_threads_join(lk_threads_start(b, THREADS, give_thread, all));
}

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT];
    if (member == BYSTANDER) {
        lk_bystander(b, b->server.uri);
        return;
    }
    permits all = {
        .l = lk_open_or_fail(b, lk_bench_redis_server_uri(b, uri, p->is_broken ? "ttl=60s" : "ttl=3s")),
        .held = calloc((size_t)p->count + 1, sizeof *all.held),
        .count = (size_t)p->count};
    if (all.held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, THREADS, take_thread, &all));
    if (p->is_broken)
        break_all(b, &all);
    else
        keep_and_give_back(b, &all);
    lk_bystander_end(b);
    (void)locker_close(all.l);
    free(all.held);
}

/* What one plan led to, each in ms but the break in s. */
typedef struct {
    lk_series script, beside, took;
} outcome;

static bool measure(lk_bench *b, const plan *p, outcome *o)
{
    const lk_work work = {.members = MEMBERS, .cpu = b->client_cpu, .body = body, .arg = p};
    lk_bench_redis_server_watch_scripts(b);
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(&o->script, lk_bench_redis_server_longest_script_ms(b));
    lk_series_add(&o->beside, lk_bench_crew_quantile_us(b, 1) / 1000);
    lk_series_add(&o->took, b->crew->value[0]);
    return true;
}

bool lk_row_permits(lk_bench *b)
{
    static const lk_bench_figure
        kept = {"permits", "20,000 permits of one key renewed, longest script", "ms", NULL, LK_GOAL_AT_MOST,
                5},
        beside_kept = {"permits", "... a bystander's longest call", "ms", "without them", LK_GOAL_NONE, 0},
        broken = {"permits", "60,000 permits of one key broken, longest script", "ms", NULL, LK_GOAL_AT_MOST,
                  5},
        beside_broken = {"permits", "... a bystander's longest call", "ms", "without them", LK_GOAL_NONE, 0},
        took = {"permits", "... the break", "s", NULL, LK_GOAL_NONE, 0};
    const plan none = {0}, renewal = {.count = lk_scale(b, RENEWED)},
               breaking = {.count = lk_scale(b, BROKEN), .is_broken = true};
    outcome without = {0}, renewed = {0}, after = {0};
    if (b->server.own.pid <= 0) {
        lk_bench_progress("permits is left out: it sets the slow log of a server of the benchmark's own");
        return true;
    }
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++)
        if (!measure(b, &none, &without) || !measure(b, &renewal, &renewed) || !measure(b, &breaking, &after))
            return false;
    lk_bench_report(b, &kept, NULL, &renewed.script);
    lk_bench_report(b, &beside_kept, &without.beside, &renewed.beside);
    lk_bench_report(b, &broken, NULL, &after.script);
    lk_bench_report(b, &beside_broken, &without.beside, &after.beside);
    lk_bench_report(b, &took, NULL, &after.took);
    return true;
}
