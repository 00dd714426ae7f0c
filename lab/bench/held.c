/* held.c: what it costs to hold a thousand locks: requests, processor time and memory; see bench.h. */
#include <stdlib.h>

#include "bench.h"

enum { LOCKS = 1000 };

static const int64_t settle = 3000;    /* ms: after it, each lock has a watch on its own key */
static const int64_t duration = 12500; /* ms */

static void bare_body(lk_bench *b, int member, const void *arg)
{
    const lk_held *const h = arg;
    (void)member;
    h->bare(b, h);
}

static void our_body(lk_bench *b, int member, const void *arg)
{
    const lk_held *const h = arg;
    const size_t n = (size_t)h->locks;
    locker_handle **held = calloc(n, sizeof *held);
    locker_statistics stats = {.size = sizeof stats};
    char uri[LK_SERVER_TEXT];
    locker *l = lk_open_or_fail(b, h->uri(uri, h->port, h->ttl_ms));
    (void)member;
    if (held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    lk_unlock_or_fail(b, lk_lock_or_fail(b, l, h->prefix, NULL)); /* first-time costs */
    const int64_t allocated = lk_bench_allocated();
    const int64_t resident = lk_bench_resident();
    for (size_t i = 0; i < n; i++) {
        char key[64];
        held[i] = lk_lock_or_fail(b, l, lk_lane_key(key, h->prefix, (int)i), NULL);
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

bool lk_held_row(lk_bench *b, lk_held h, const lk_bench_figure figures[5])
{
    lk_series asked[2] = {0}, cpu[2] = {0}, renewals = {0}, allocated = {0}, resident = {0};
    h.locks = (int)lk_scale(b, LOCKS);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            lk_work work = {.members = 1,
                            .duration = lk_scale(b, duration) * LK_BENCH_MS,
                            .cpu = b->client_cpu,
                            .body = ours != 0 ? our_body : bare_body,
                            .arg = &h,
                            .asked = h.asked};

            if (!lk_bench_crew_run(b, &work))
                return false;
            const double seconds = b->crew->value[LK_VALUE_SECONDS];
            lk_series_add(&asked[ours], (double)b->crew->asked / seconds);
            lk_series_add(&cpu[ours], b->crew->value[0] / LK_BENCH_S / seconds * 100);
            if (ours == 0)
                continue;
            /* divided by as many renewals as can fall into the time */
            lk_series_add(&renewals, (double)b->crew->asked /
                                         (double)(int64_t)(seconds * 1000 * h.parts / (double)h.ttl_ms + 1));
            lk_series_add(&allocated, b->crew->value[1]);
            lk_series_add(&resident, b->crew->value[2]);
        }
    }
    lk_bench_report(b, &figures[0], &asked[0], &asked[1]);
    lk_bench_report(b, &figures[1], NULL, &renewals);
    lk_bench_report(b, &figures[2], &cpu[0], &cpu[1]);
    lk_bench_report(b, &figures[3], NULL, &allocated);
    lk_bench_report(b, &figures[4], NULL, &resident);
    return true;
}
