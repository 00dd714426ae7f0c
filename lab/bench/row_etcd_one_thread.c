/* row_etcd_one_thread.c: rows ea, ea1, eh and ehw: one thread that locks and unlocks, and the hand-off from an unlock to a waiter in
 * another process. Bare is the driver's connection alone (etcd_bare.c). */
#include "bench.h"

enum { BARE, OURS, SIDES };

static const int64_t ttl = 10000, bare_ttl_s = 180; /* ms; bare doesn't renew */
static const char key[] = "one";

/* ------------------------------------------------------------------ ea, ea1 ---- */

typedef struct {
    int side;
    int64_t cycles;
} plan;

static void one_body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT];
    const int port = b->etcd.own.port;
    lk_bench_etcd *etcd = p->side == BARE ? lk_bench_etcd_open(b, port, bare_ttl_s) : NULL;
    locker *l = p->side == OURS ? lk_open_or_fail(b, lk_bench_etcd_server_uri(uri, port, ttl)) : NULL;
    (void)member;
    if (l != NULL)
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL)); /* first-time costs: its lease */
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    for (int64_t i = 0; i < p->cycles; i++) {
        const int64_t from = lk_bench_now();
        if (etcd != NULL) {
            lk_bench_etcd_lock(etcd, key);
            lk_bench_etcd_unlock(etcd);
        } else {
            lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL));
        }
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu) / (double)p->cycles / LK_BENCH_US;
    (void)locker_close(l);
    if (etcd != NULL)
        lk_bench_etcd_close(etcd);
}

static bool one_row(lk_bench *b, const char *row, const char *what)
{
    const lk_bench_figure half = {row, what, "us", "connection alone", LK_GOAL_RATIO_AT_MOST, 1.1},
                          most = {row, "... p99", "us", "connection alone", LK_GOAL_NONE, 0},
                          used = {row, "client CPU for each cycle", "us", "connection alone", LK_GOAL_NONE,
                                  0};
    lk_series p50[SIDES] = {0}, p99[SIDES] = {0}, cpu[SIDES] = {0};
    for (int round = 0; round < b->rounds; round++) {
        for (int side = BARE; side < SIDES; side++) {
            plan p = {.side = side, .cycles = lk_scale(b, 3000)};
            lk_work work = {.members = 1, .cpu = b->client_cpu, .body = one_body, .arg = &p};

            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[side], lk_bench_crew_quantile_us(b, 0.5));
            lk_series_add(&p99[side], lk_bench_crew_quantile_us(b, 0.99));
            lk_series_add(&cpu[side], b->crew->value[0]);
        }
    }
    lk_bench_report(b, &half, &p50[BARE], &p50[OURS]);
    lk_bench_report(b, &most, &p99[BARE], &p99[OURS]);
    lk_bench_report(b, &used, &cpu[BARE], &cpu[OURS]);
    return true;
}

bool lk_row_ea(lk_bench *b)
{
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    return one_row(b, "ea", "1 thread, lock + unlock, p50");
}

bool lk_row_ea1(lk_bench *b)
{
    if (!lk_bench_etcd_server_pin(b, b->client_cpu)) {
        lk_bench_progress("ea1 is left out: the server can't be put on the client's processor");
        return true;
    }
    const bool good = one_row(b, "ea1", "the same, server and client on one CPU");
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    return good;
}

/* ------------------------------------------------------------------ eh ---- */

/* The giver locks, the taker queues behind it and falls asleep, the giver unlocks. */
static void bare_handoff(lk_bench *b, int member, int64_t times)
{
    lk_bench_etcd *etcd = lk_bench_etcd_open(b, b->etcd.own.port, bare_ttl_s);
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < times; i++) {
        if (member == LK_GIVER) {
            lk_bench_etcd_lock(etcd, key);
            lk_bench_crew_give_turn(b, LK_TAKER);
            lk_bench_crew_wait_turn(b, LK_GIVER);
            lk_bench_sleep(lk_handoff_sleep);
            b->crew->mark = lk_bench_now();
            lk_bench_etcd_unlock(etcd);
            lk_bench_crew_wait_turn(b, LK_GIVER);
        } else {
            lk_bench_crew_wait_turn(b, LK_TAKER);
            lk_bench_etcd_enter(etcd, key);
            lk_bench_crew_give_turn(b, LK_GIVER);
            lk_bench_etcd_await(etcd);
            lk_bench_crew_sample(b, lk_bench_now() - b->crew->mark);
            lk_bench_etcd_unlock(etcd);
            lk_bench_crew_give_turn(b, LK_GIVER);
        }
    }
    lk_bench_etcd_close(etcd);
}

/* Somebody who writes other keys all the time, until they have done. */
static void write_meanwhile(lk_bench *b, int64_t times)
{
    lk_bench_etcd *etcd = lk_bench_etcd_open(b, b->etcd.own.port, bare_ttl_s);
    lk_bench_crew_ready(b);
    while (atomic_load(&b->crew->sample_count) < (size_t)times) {
        lk_bench_etcd_lock(etcd, "other");
        lk_bench_etcd_unlock(etcd);
    }
    lk_bench_etcd_close(etcd);
}

static void handoff_body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT];
    if (member > LK_TAKER)
        write_meanwhile(b, p->cycles);
    else if (p->side == OURS)
        lk_handoff(b, member, lk_bench_etcd_server_uri(uri, b->etcd.own.port, ttl), key, p->cycles,
                   lk_handoff_sleep);
    else
        bare_handoff(b, member, p->cycles);
}

static bool handoff_row(lk_bench *b, const char *row, const char *what, int members, int64_t times)
{
    const lk_bench_figure half = {row, what, "us", "connection alone", LK_GOAL_RATIO_AT_MOST, 1.3},
                          most = {row, "... p99", "us", "connection alone", LK_GOAL_NONE, 0};
    lk_series p50[SIDES] = {0}, p99[SIDES] = {0};
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int side = BARE; side < SIDES; side++) {
            plan p = {.side = side, .cycles = lk_scale(b, times)};
            lk_work work = {.members = members, .cpu = b->client_cpu, .body = handoff_body, .arg = &p};

            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[side], lk_bench_crew_quantile_us(b, 0.5));
            lk_series_add(&p99[side], lk_bench_crew_quantile_us(b, 0.99));
        }
    }
    lk_bench_report(b, &half, &p50[BARE], &p50[OURS]);
    lk_bench_report(b, &most, &p99[BARE], &p99[OURS]);
    return true;
}

bool lk_row_eh(lk_bench *b)
{
    return handoff_row(b, "eh", "hand-off to a sleeping process, p50", 2, 300);
}

/* A watch that begins at a revision which has passed is looked at ten times a second by the server. */
bool lk_row_ehw(lk_bench *b)
{
    return handoff_row(b, "ehw", "... while a third writes other keys, p50", 3, 100);
}
