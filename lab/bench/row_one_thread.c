/* row_one_thread.c: rows a and a1: one thread locks and unlocks one free key. In a the server has a
 * processor of its own, in a1 it shares the client's. */
#include "bench.h"

typedef enum { ASLEEP, LOOKING, OURS, OURS_PLAIN, SIDES } side_of;

typedef struct {
    side_of side;
    int64_t cycles;
} plan;

static const int64_t look_for = 100 * LK_BENCH_US;
static const char key[] = "bench:one";

static void one_bare(lk_bench *b, const plan *p)
{
    lk_bare *bare = lk_bare_open(b);
    if (p->side == LOOKING)
        lk_bare_spin(bare, look_for);
    lk_bare_delete(bare, key);
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    for (int64_t i = 0; i < p->cycles; i++) {
        const int64_t from = lk_bench_now();

        lk_bare_lock(bare, key);
        lk_bare_unlock(bare, key);
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu) / (double)p->cycles / LK_BENCH_US;
    lk_bare_close(bare);
}

static void one_ours(lk_bench *b, const plan *p)
{
    char uri[LK_SERVER_TEXT];
    locker *l = lk_open_or_fail(
        b, lk_bench_redis_server_uri(b, uri, p->side == OURS_PLAIN ? "fencing=off" : "fencing=on"));

    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    for (int64_t i = 0; i < p->cycles; i++) {
        const int64_t from = lk_bench_now();

        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu) / (double)p->cycles / LK_BENCH_US;
    (void)locker_close(l);
}

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    (void)member;
    if (p->side == ASLEEP || p->side == LOOKING)
        one_bare(b, p);
    else
        one_ours(b, p);
}

static bool run(lk_bench *b, lk_series p50[SIDES], lk_series cpu[SIDES])
{
    for (int round = 0; round < b->rounds; round++) {
        for (side_of side = 0; side < SIDES; side++) {
            plan p = {.side = side, .cycles = lk_scale(b, 5000)};
            lk_work work = {.members = 1, .cpu = b->client_cpu, .body = body, .arg = &p};

            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[side], lk_bench_crew_quantile_us(b, 0.5));
            lk_series_add(&cpu[side], b->crew->value[0]);
        }
    }
    return true;
}

bool lk_row_a(lk_bench *b)
{
    static const lk_bench_figure
        asleep = {"a", "1 thread, lock + unlock, p50", "us", "asleep", LK_GOAL_RATIO_AT_MOST, 1.05},
        spin = {"a", "... with the adaptive spin", "us", "asleep", LK_GOAL_RATIO_AT_MOST, 0.5},
        looking = {"a", "... beside one that looks for 100 us first", "us", "looking", LK_GOAL_NONE, 0},
        plain = {"a", "... without fencing token", "us", "asleep", LK_GOAL_NONE, 0},
        used = {"a", "client CPU for each cycle", "us", "asleep", LK_GOAL_NONE, 0},
        used_looking = {"a", "client CPU for each cycle", "us", "looking", LK_GOAL_NONE, 0};
    lk_series p50[SIDES] = {0}, cpu[SIDES] = {0};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    if (!run(b, p50, cpu))
        return false;
    lk_bench_report(b, &asleep, &p50[ASLEEP], &p50[OURS]);
    lk_bench_report(b, &spin, &p50[ASLEEP], &p50[OURS]);
    lk_bench_report(b, &looking, &p50[LOOKING], &p50[OURS]);
    lk_bench_report(b, &plain, &p50[ASLEEP], &p50[OURS_PLAIN]);
    lk_bench_report(b, &used, &cpu[ASLEEP], &cpu[OURS]);
    lk_bench_report(b, &used_looking, &cpu[LOOKING], &cpu[OURS]);
    return true;
}

bool lk_row_a1(lk_bench *b)
{
    static const lk_bench_figure one = {"a1",
                                        "the same, server and client on one CPU",
                                        "us",
                                        "asleep",
                                        LK_GOAL_RATIO_AT_MOST,
                                        1.2},
                                 plain = {"a1", "... without fencing token", "us", "asleep", LK_GOAL_NONE, 0},
                                 used = {"a1", "client CPU for each cycle", "us", "asleep", LK_GOAL_NONE, 0};
    lk_series p50[SIDES] = {0}, cpu[SIDES] = {0};
    if (!lk_bench_redis_server_pin(b, b->client_cpu)) {
        lk_bench_progress("a1 is left out: the server can't be put on the client's processor");
        return true;
    }
    const bool good = run(b, p50, cpu);
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    if (!good)
        return false;
    lk_bench_report(b, &one, &p50[ASLEEP], &p50[OURS]);
    lk_bench_report(b, &plain, &p50[ASLEEP], &p50[OURS_PLAIN]);
    lk_bench_report(b, &used, &cpu[ASLEEP], &cpu[OURS]);
    return true;
}
