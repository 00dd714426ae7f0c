/* row_etcd_idle.c: row ee: what it costs to hold a thousand locks. Bare holds as many keys on one lease, which it keeps alive every
 * third of its time: that proves little to the holder (backends/etcd/DESIGN.md), and is no transaction. Ours put the keys to a
 * new lease. */
#include <stdlib.h>

#include "bench.h"

enum { LOCKS = 1000, PARTS = 3 };

static const int64_t ttl = 6000; /* ms */
static const int64_t settle =
    3000; /* ms: after it all are on one lease, and each has a watch on its own key */
static const int64_t duration = 12500; /* ms */
static const char prefix[] = "held";

static void bare_body(lk_bench *b, int member, const void *arg)
{
    lk_bench_etcd *etcd = lk_bench_etcd_open(b, b->etcd.own.port, ttl / 1000);
    (void)member;
    lk_bench_etcd_hold(etcd, prefix, *(const int *)arg);
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_bench_etcd_idle(etcd, ttl / PARTS * LK_BENCH_MS);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    lk_bench_etcd_close(etcd);
}

static void our_body(lk_bench *b, int member, const void *arg)
{
    const size_t n = (size_t) * (const int *)arg;
    locker_handle **held = calloc(n, sizeof *held);
    locker_statistics stats = {.size = sizeof stats};
    char uri[LK_SERVER_TEXT];
    locker *l = lk_open_or_fail(b, lk_bench_etcd_server_uri(uri, b->etcd.own.port, ttl));
    (void)member;
    if (held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    lk_unlock_or_fail(b, lk_lock_or_fail(b, l, prefix, NULL)); /* first-time costs */
    const int64_t allocated = lk_bench_allocated();
    const int64_t resident = lk_bench_resident();
    for (size_t i = 0; i < n; i++) {
        char key[64];
        held[i] = lk_lock_or_fail(b, l, lk_bench_etcd_lane_key(key, prefix, (int)i), NULL);
    }
    lk_bench_sleep(lk_scale(b, settle) * LK_BENCH_MS);
    b->crew->value[1] = (double)(lk_bench_allocated() - allocated) / (double)n;
    b->crew->value[2] = (double)(lk_bench_resident() - resident) / (double)n;
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_bench_crew_wait_halt(b);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    (void)locker_stats(l, &stats);
    if (stats.lost > 0)
        lk_bench_crew_fail(b, "%llu of %zu locks were lost", (unsigned long long)stats.lost, n);
    for (size_t i = 0; i < n; i++)
        lk_unlock_or_fail(b, held[i]);
    (void)locker_close(l);
    free(held);
}

bool lk_row_ee(lk_bench *b)
{
    static const lk_bench_figure
        rate = {"ee", "1,000 locks held, TTL 6 s, transactions", "/s", "KeepAlive", LK_GOAL_NONE, 0},
        third = {"ee", "... in each third of the TTL, leases included", "", NULL, LK_GOAL_AT_MOST, 10},
        used = {"ee", "... client CPU", "%", "KeepAlive", LK_GOAL_NONE, 0},
        heap = {"ee", "... heap for each lock", "B", NULL, LK_GOAL_NONE, 0},
        real = {"ee", "... resident memory for each lock", "B", NULL, LK_GOAL_NONE, 0};
    lk_series logged[2] = {0}, cpu[2] = {0}, thirds = {0}, allocated = {0}, resident = {0};
    int n = (int)lk_scale(b, LOCKS);
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            lk_work work = {.members = 1,
                            .duration = lk_scale(b, duration) * LK_BENCH_MS,
                            .cpu = b->client_cpu,
                            .body = ours != 0 ? our_body : bare_body,
                            .arg = &n,
                            .asked = lk_bench_etcd_server_transactions};

            if (!lk_bench_crew_run(b, &work))
                return false;
            const double seconds = b->crew->value[LK_VALUE_SECONDS];
            lk_series_add(&logged[ours], (double)b->crew->asked / seconds);
            lk_series_add(&cpu[ours], b->crew->value[0] / LK_BENCH_S / seconds * 100);
            if (ours == 0)
                continue;
            /* as many renewals as can fall into the time */
            lk_series_add(&thirds, (double)b->crew->asked /
                                       (double)(int64_t)(seconds * 1000 * PARTS / (double)ttl + 1));
            lk_series_add(&allocated, b->crew->value[1]);
            lk_series_add(&resident, b->crew->value[2]);
        }
    }
    lk_bench_report(b, &rate, &logged[0], &logged[1]);
    lk_bench_report(b, &third, NULL, &thirds);
    lk_bench_report(b, &used, &cpu[0], &cpu[1]);
    lk_bench_report(b, &heap, NULL, &allocated);
    lk_bench_report(b, &real, NULL, &resident);
    return true;
}
