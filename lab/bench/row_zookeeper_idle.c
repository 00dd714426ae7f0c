/* row_zookeeper_idle.c: row ze: what it costs to hold a thousand locks. Bare holds as many nodes, and its
 * library pings every third of the session time-out, which proves nothing to the holder; ours ask the
 * majority every eighth. */
#include <stdlib.h>

#include "bench.h"

enum { LOCKS = 1000, PARTS = 8 };

static const int64_t session = 4000;   /* ms */
static const int64_t settle = 3000;    /* ms: after it, each lock has a watch on its own node */
static const int64_t duration = 12500; /* ms */
static const char prefix[] = "held-";

static void bare_body(lk_bench *b, int member, const void *arg)
{
    const int n = *(const int *)arg;
    lk_zoo *zoo = lk_zoo_open(b, b->zoo.own.port, session);
    (void)member;
    lk_zoo_hold(zoo, prefix, n);
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_zoo_idle(zoo);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    lk_zoo_close(zoo);
}

static void our_body(lk_bench *b, int member, const void *arg)
{
    const size_t n = (size_t) * (const int *)arg;
    locker_handle **held = calloc(n, sizeof *held);
    locker_statistics stats = {.size = sizeof stats};
    char uri[LK_SERVER_TEXT];
    locker *l = lk_open_or_fail(b, lk_zoo_server_uri(uri, b->zoo.own.port, session));
    (void)member;
    if (held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "held", NULL)); /* first-time costs */
    const int64_t allocated = lk_bench_allocated();
    const int64_t resident = lk_bench_resident();
    for (size_t i = 0; i < n; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s%zu", prefix, i);
        held[i] = lk_lock_or_fail(b, l, key, NULL);
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

bool lk_row_ze(lk_bench *b)
{
    static const lk_bench_figure rate = {"ze",         "1,000 locks held, session 4 s, requests",
                                         "/s",         "pings",
                                         LK_GOAL_NONE, 0},
                                 beat = {"ze", "... requests for each heartbeat", "", NULL, LK_GOAL_AT_MOST,
                                         1},
                                 used = {"ze", "... client CPU", "%", "pings", LK_GOAL_NONE, 0},
                                 heap = {"ze", "... heap for each lock", "B", NULL, LK_GOAL_AT_MOST, 1024},
                                 real = {"ze", "... resident memory for each lock", "B", NULL, LK_GOAL_NONE,
                                         0};
    lk_series sent[2] = {0}, cpu[2] = {0}, beats = {0}, allocated = {0}, resident = {0};
    int n = (int)lk_scale(b, LOCKS);
    (void)lk_zoo_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            lk_work work = {.members = 1,
                            .duration = lk_scale(b, duration) * LK_BENCH_MS,
                            .cpu = b->client_cpu,
                            .body = ours != 0 ? our_body : bare_body,
                            .arg = &n,
                            .asked = lk_zoo_server_requests};

            if (!lk_bench_crew_run(b, &work))
                return false;
            const double seconds = b->crew->value[LK_VALUE_SECONDS];
            lk_series_add(&sent[ours], (double)b->crew->asked / seconds);
            lk_series_add(&cpu[ours], b->crew->value[0] / LK_BENCH_S / seconds * 100);
            if (ours == 0)
                continue;
            /* as many heartbeats as can fall into the time */
            lk_series_add(&beats, (double)b->crew->asked /
                                      (double)(int64_t)(seconds * 1000 * PARTS / (double)session + 1));
            lk_series_add(&allocated, b->crew->value[1]);
            lk_series_add(&resident, b->crew->value[2]);
        }
    }
    lk_bench_report(b, &rate, &sent[0], &sent[1]);
    lk_bench_report(b, &beat, NULL, &beats);
    lk_bench_report(b, &used, &cpu[0], &cpu[1]);
    lk_bench_report(b, &heap, NULL, &allocated);
    lk_bench_report(b, &real, NULL, &resident);
    return true;
}
