/* row_etcd_used.c: row eused: lock + unlock of a key that was locked often before. etcd keeps the name of each key that was deleted
 * until it is compacted, and a range goes through those, too: so a lock's contenders must not each have a name of their own. */
#include "bench.h"

enum { FIRST, LAST, SIDES };

static const int64_t ttl = 10000; /* ms */

typedef struct {
    int64_t before, measured; /* cycles */
} plan;

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT], key[64];
    locker *l = lk_open_or_fail(b, lk_bench_etcd_server_uri(uri, b->etcd.own.port, ttl));
    (void)member;
    (void)snprintf(key, sizeof key, "used-%lld", (long long)lk_bench_now()); /* by none before */
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < p->before; i++)
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
    for (int64_t i = 0; i < p->measured; i++) {
        const int64_t from = lk_bench_now();
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    (void)locker_close(l);
}

bool lk_row_eused(lk_bench *b)
{
    static const lk_bench_figure half = {"eused",
                                         "lock + unlock of a key locked 10,000 times before, p50",
                                         "us",
                                         "never",
                                         LK_GOAL_RATIO_AT_MOST,
                                         1.1};
    lk_series p50[SIDES] = {0};
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int side = FIRST; side < SIDES; side++) {
            const plan p = {.before = side == LAST ? lk_scale(b, 10000) : 0, .measured = lk_scale(b, 500)};
            lk_work work = {.members = 1, .cpu = b->client_cpu, .body = body, .arg = &p};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[side], lk_bench_crew_quantile_us(b, 0.5));
        }
    }
    lk_bench_report(b, &half, &p50[FIRST], &p50[LAST]);
    return true;
}
