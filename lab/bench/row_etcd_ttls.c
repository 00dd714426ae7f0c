/* row_etcd_ttls.c: row ettls: locks of one locker of which each has another ttl, as jobs with a deadline of their own have. A lease of
 * etcd has one ttl, so each lock needs one. Measured are the locks a second of the last tenth. Bare is the first tenth. */
#include "bench.h"

enum { LOCKS = 2000, PARTS = 10, KEYS = 100 };

static const int64_t ttl = 10000; /* ms: the shortest */

static double lock_part(lk_bench *b, locker *l, int64_t first, int64_t count)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    const int64_t from = lk_bench_now();
    for (int64_t i = first; i < first + count; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "ttls-%lld", (long long)i % KEYS);
        options.ttl_ms = ttl + i;
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, &options));
    }
    return (double)count * LK_BENCH_S / (double)(lk_bench_now() - from);
}

static void body(lk_bench *b, int member, const void *arg)
{
    const int64_t part = *(const int64_t *)arg;
    char uri[LK_SERVER_TEXT];
    locker *l = lk_open_or_fail(b, lk_bench_etcd_server_uri(uri, b->etcd.own.port, ttl));
    (void)member;
    for (int i = 0; i < KEYS; i++) { /* first-time costs */
        char key[32];
        (void)snprintf(key, sizeof key, "ttls-%d", i);
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
    }
    lk_bench_crew_ready(b);
    for (int i = 0; i < PARTS; i++) {
        const double rate = lock_part(b, l, i * part, part);
        if (i == 0 || i == PARTS - 1)
            b->crew->value[i == 0 ? 0 : 1] = rate;
    }
    (void)locker_close(l);
}

bool lk_row_ettls(lk_bench *b)
{
    static const lk_bench_figure flat = {"ettls",
                                         "2,000 locks with a ttl of their own, the last tenth",
                                         "/s",
                                         "the first",
                                         LK_GOAL_RATIO_AT_LEAST,
                                         0.9};
    const int64_t part = lk_scale(b, LOCKS) / PARTS;
    lk_series rate[2] = {0};
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = body, .arg = &part};
        if (!lk_bench_crew_run(b, &work))
            return false;
        for (int ours = 0; ours < 2; ours++)
            lk_series_add(&rate[ours], b->crew->value[ours]);
    }
    lk_bench_report(b, &flat, &rate[0], &rate[1]);
    return true;
}
