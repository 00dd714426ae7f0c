/* row_break_notice.c: how soon a holder is told that its lock was broken, and what it costs the server to
 * have it listen: from the call of locker_break() by another locker to on_lost of one that never waited,
 * and what the second connection takes. */
#include "bench.h"

enum { BREAKS = 300 };

static const int64_t ttl = 30000; /* ms: a renewal would tell of the loss after a third of it */
static const int64_t noted = 50;  /* ms: held for longer than 5, a lock's holder listens */

static void note(locker_handle *lost, void *user)
{
    (void)lost;
    atomic_store((_Atomic int64_t *)user, lk_bench_now());
}

static void break_one(lk_bench *b, locker *holder, locker *operator_, _Atomic int64_t *lost_at)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.ttl_ms = ttl;
    options.on_lost = note;
    options.user = lost_at;
    atomic_store(lost_at, 0);
    locker_handle *held = lk_lock_or_fail(b, holder, "bench:break", &options);
    lk_bench_sleep(noted * LK_BENCH_MS);
    const int64_t from = lk_bench_now();
    locker_error err;
    if (locker_break(operator_, "bench:break", NULL, NULL, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_break: %s", err.text);
    while (atomic_load(lost_at) == 0)
        lk_bench_sleep(LK_BENCH_MS / 10);
    lk_bench_crew_sample(b, atomic_load(lost_at) - from);
    locker_handle_free(held);
}

static void break_body(lk_bench *b, int member, const void *arg)
{
    locker *holder = lk_open_or_fail(b, b->server.uri), *operator_ = lk_open_or_fail(b, b->server.uri);
    _Atomic int64_t lost_at = 0;
    const int64_t count = lk_scale(b, BREAKS);
    (void)member;
    (void)arg;
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < count; i++)
        break_one(b, holder, operator_, &lost_at);
    (void)locker_close(operator_);
    (void)locker_close(holder);
}

bool lk_row_break(lk_bench *b)
{
    static const lk_bench_figure half = {"break", "from break to on_lost, p50", "ms", NULL, LK_GOAL_NONE, 0},
                                 most = {"break", "... p99", "ms", NULL, LK_GOAL_AT_MOST, 100},
                                 worst = {"break", "... the longest", "ms", NULL, LK_GOAL_AT_MOST, 100};
    lk_series p50 = {0}, p99 = {0}, max = {0};
    lk_work work = {.members = 1, .cpu = b->client_cpu, .body = break_body};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        if (!lk_bench_crew_run(b, &work))
            return false;
        lk_series_add(&p50, lk_bench_crew_quantile_us(b, 0.5) / 1000);
        lk_series_add(&p99, lk_bench_crew_quantile_us(b, 0.99) / 1000);
        lk_series_add(&max, lk_bench_crew_quantile_us(b, 1) / 1000);
    }
    lk_bench_report(b, &half, NULL, &p50);
    lk_bench_report(b, &most, NULL, &p99);
    lk_bench_report(b, &worst, NULL, &max);
    return true;
}
