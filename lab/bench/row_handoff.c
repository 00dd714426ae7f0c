/* row_handoff.c: row h: from an unlock to the moment when a waiter, asleep in another process, has the lock.
 * Bare is a list: LPUSH here, BLPOP there. */
#include "bench.h"

static const char key[] = "bench:handoff", list[] = "bench:handoff:list";

static void bare_body(lk_bench *b, int member, const void *arg)
{
    const int64_t times = *(const int64_t *)arg;
    lk_bare *bare = lk_bare_open(b);
    if (member == LK_GIVER)
        lk_bare_delete(bare, list);
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < times; i++) {
        if (member == LK_GIVER) {
            lk_bench_crew_wait_turn(b, LK_GIVER);
            lk_bench_sleep(lk_handoff_sleep);
            b->crew->mark = lk_bench_now();
            lk_bare_push(bare, list);
        } else {
            lk_bench_crew_give_turn(b, LK_GIVER);
            (void)lk_bare_pop(bare, list);
            lk_bench_crew_sample(b, lk_bench_now() - b->crew->mark);
        }
    }
    lk_bare_close(bare);
}

static void our_body(lk_bench *b, int member, const void *arg)
{
    lk_handoff(b, member, b->server.uri, key, *(const int64_t *)arg, lk_handoff_sleep);
}

static bool side(lk_bench *b, bool ours, const int64_t *times, lk_series *p50, lk_series *p99)
{
    lk_work work = {.members = 2, .cpu = b->client_cpu, .body = ours ? our_body : bare_body, .arg = times};
    if (!lk_bench_crew_run(b, &work))
        return false;
    lk_series_add(p50, lk_bench_crew_quantile_us(b, 0.5));
    lk_series_add(p99, lk_bench_crew_quantile_us(b, 0.99));
    return true;
}

bool lk_row_h(lk_bench *b)
{
    static const lk_bench_figure half = {"h",
                                         "hand-off to a sleeping process, p50",
                                         "us",
                                         "BLPOP",
                                         LK_GOAL_RATIO_AT_MOST,
                                         1.3},
                                 most = {"h", "... p99", "us", "BLPOP", LK_GOAL_NONE, 0};
    lk_series p50[2] = {0}, p99[2] = {0};
    int64_t times = lk_scale(b, 300);
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++)
        for (int ours = 0; ours < 2; ours++)
            if (!side(b, ours != 0, &times, &p50[ours], &p99[ours]))
                return false;
    lk_bench_report(b, &half, &p50[0], &p50[1]);
    lk_bench_report(b, &most, &p99[0], &p99[1]);
    return true;
}
