/* row_renewals.c: row held: how long a lock and its unlock take while the same locker keeps 20,000 leases, whose renewals must not
 * hold them up. Bare is the same locker without the leases, for what the machine itself does to a thread. */
#include <stdlib.h>

#include "bench.h"

enum { LEASES = 20000 };

static const int64_t ttl = 3000; /* ms: all are renewed in each second */

static void held_body(lk_bench *b, int member, const void *arg)
{
    const int64_t count = *(const int64_t *)arg;
    locker *l = lk_open_or_fail(b, b->server.uri);
    locker_handle **held = calloc((size_t)count + 1, sizeof *held);
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_statistics stats = {.size = sizeof stats};
    (void)member;
    options.ttl_ms = ttl;
    if (held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    for (int64_t i = 0; i < count; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "bench:kept:%lld", (long long)i);
        held[i] = lk_lock_or_fail(b, l, key, &options);
    }
    lk_bench_crew_ready(b);
    while (!lk_bench_crew_stopped(b)) {
        const int64_t from = lk_bench_now();
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "bench:beside", NULL));
        lk_bench_crew_sample(b, lk_bench_now() - from);
        lk_bench_sleep(LK_BENCH_MS / 5);
    }
    (void)locker_stats(l, &stats);
    if (stats.lost > 0)
        lk_bench_crew_fail(b, "%llu of %lld leases were lost", (unsigned long long)stats.lost,
                           (long long)count);
    for (int64_t i = 0; i < count; i++)
        lk_unlock_or_fail(b, held[i]);
    (void)locker_close(l);
    free(held);
}

bool lk_row_e_held_up(lk_bench *b)
{
    static const lk_bench_figure half = {"held",       "lock + unlock beside 20,000 leases, p50",
                                         "us",         "without them",
                                         LK_GOAL_NONE, 0},
                                 most = {"held", "... p99.9", "ms", "without them", LK_GOAL_AT_MOST, 5},
                                 worst = {"held", "... the longest", "ms", "without them", LK_GOAL_NONE, 0};
    lk_series p50[2] = {0}, p999[2] = {0}, max[2] = {0};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            const int64_t count = ours != 0 ? lk_scale(b, LEASES) : 0;
            const lk_work work = {.members = 1,
                                  .duration = lk_scale(b, 9000) * LK_BENCH_MS,
                                  .cpu = b->client_cpu,
                                  .body = held_body,
                                  .arg = &count};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[ours], lk_bench_crew_quantile_us(b, 0.5));
            lk_series_add(&p999[ours], lk_bench_crew_quantile_us(b, 0.999) / 1000);
            lk_series_add(&max[ours], lk_bench_crew_quantile_us(b, 1) / 1000);
        }
    }
    lk_bench_report(b, &half, &p50[0], &p50[1]);
    lk_bench_report(b, &most, &p999[0], &p999[1]);
    lk_bench_report(b, &worst, &max[0], &max[1]);
    return true;
}
