/* row_zookeeper_one_thread.c: rows za, za1, zfresh, zh and zhi: one thread that locks and unlocks, and the
 * hand-off from an unlock to a waiter in another process. Bare is the single-threaded C client, driven by
 * the thread that waits: as it is, and with its requests sent in one piece; in the hand-off also one that
 * doesn't ask whether it is the first. */
#include "bench.h"

enum { BARE, OURS, WHOLE, SIDES_ALONE, TRUSTING = SIDES_ALONE, SIDES };

static const int64_t session = 10000; /* ms */
static const char key[] = "one", fresh_key[] = "fresh";

/* ------------------------------------------------------------------ za, za1, zfresh ---- */

typedef struct {
    int side;
    bool fresh;
    int64_t cycles;
    int64_t sleep; /* ns: of the taker, before a hand-off */
} plan;

static lk_zoo *open_bare(lk_bench *b, int side)
{
    lk_zoo *zoo = lk_zoo_open(b, b->zoo.own.port, session);
    if (side == WHOLE)
        lk_zoo_send_whole(zoo);
    if (side == TRUSTING)
        lk_zoo_trust(zoo);
    return zoo;
}

static void name_key(char out[64], const plan *p, int64_t i)
{
    /* the round is in the name, so that no key is used twice */
    if (p->fresh)
        (void)snprintf(out, 64, "%s-%lld-%lld", fresh_key, (long long)lk_bench_now(), (long long)i);
    else
        (void)snprintf(out, 64, "%s", key);
}

static void one_body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT];
    lk_zoo *zoo = p->side == OURS ? NULL : open_bare(b, p->side);
    locker *l = p->side == OURS ? lk_open_or_fail(b, lk_zoo_server_uri(uri, b->zoo.own.port, session)) : NULL;
    (void)member;
    if (zoo != NULL)
        lk_zoo_make(zoo, key);
    else
        lk_unlock_or_fail(b, lk_lock_or_fail(b, l, key, NULL)); /* first-time costs */
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    for (int64_t i = 0; i < p->cycles; i++) {
        char name[64];
        name_key(name, p, i);
        const int64_t from = lk_bench_now();
        if (zoo != NULL) {
            lk_zoo_lock(zoo, name, p->fresh);
            lk_zoo_unlock(zoo);
        } else {
            lk_unlock_or_fail(b, lk_lock_or_fail(b, l, name, NULL));
        }
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu) / (double)p->cycles / LK_BENCH_US;
    (void)locker_close(l);
    if (zoo != NULL)
        lk_zoo_close(zoo);
}

static bool one_row(lk_bench *b, const char *row, const char *what, bool fresh)
{
    const lk_bench_figure half = {row, what, "us", "st client", LK_GOAL_RATIO_AT_MOST, 1.1},
                          whole = {row,          "... beside requests in one piece",
                                   "us",         "in one piece",
                                   LK_GOAL_NONE, 0},
                          used = {row, "client CPU for each cycle", "us", "st client", LK_GOAL_NONE, 0};
    lk_series p50[SIDES_ALONE] = {0}, cpu[SIDES_ALONE] = {0};
    for (int round = 0; round < b->rounds; round++) {
        for (int side = BARE; side < SIDES_ALONE; side++) {
            plan p = {.side = side, .fresh = fresh, .cycles = lk_scale(b, 5000)};
            lk_work work = {.members = 1, .cpu = b->client_cpu, .body = one_body, .arg = &p};

            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[side], lk_bench_crew_quantile_us(b, 0.5));
            lk_series_add(&cpu[side], b->crew->value[0]);
        }
    }
    lk_bench_report(b, &half, &p50[BARE], &p50[OURS]);
    lk_bench_report(b, &whole, &p50[WHOLE], &p50[OURS]);
    lk_bench_report(b, &used, &cpu[BARE], &cpu[OURS]);
    return true;
}

bool lk_row_za(lk_bench *b)
{
    (void)lk_zoo_server_pin(b, b->server_cpu);
    return one_row(b, "za", "1 thread, lock + unlock, p50", false);
}

bool lk_row_za1(lk_bench *b)
{
    if (!lk_zoo_server_pin(b, b->client_cpu)) {
        lk_bench_progress("za1 is left out: the server can't be put on the client's processor");
        return true;
    }
    const bool good = one_row(b, "za1", "the same, server and client on one CPU", false);
    (void)lk_zoo_server_pin(b, b->server_cpu);
    return good;
}

bool lk_row_zfresh(lk_bench *b)
{
    (void)lk_zoo_server_pin(b, b->server_cpu);
    return one_row(b, "zfresh", "1 thread, a fresh key each time, p50", true);
}

/* ------------------------------------------------------------------ zh ---- */

/* Its session lasts meanwhile. */
static void sleep_bare(lk_zoo *zoo, int64_t ns)
{
    for (; ns > session / 5 * LK_BENCH_MS; ns -= session / 5 * LK_BENCH_MS) {
        lk_bench_sleep(session / 5 * LK_BENCH_MS);
        lk_zoo_ping(zoo);
    }
    lk_bench_sleep(ns);
}

/* The giver locks, the taker queues behind it and falls asleep, the giver unlocks. */
static void bare_handoff(lk_bench *b, int member, const plan *p)
{
    const int64_t times = p->cycles;
    lk_zoo *zoo = open_bare(b, p->side);
    lk_zoo_make(zoo, key);
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < times; i++) {
        if (member == LK_GIVER) {
            lk_zoo_lock(zoo, key, false);
            lk_bench_crew_give_turn(b, LK_TAKER);
            lk_bench_crew_wait_turn(b, LK_GIVER);
            sleep_bare(zoo, p->sleep);
            b->crew->mark = lk_bench_now();
            lk_zoo_unlock(zoo);
            lk_bench_crew_wait_turn(b, LK_GIVER);
        } else {
            lk_bench_crew_wait_turn(b, LK_TAKER);
            lk_zoo_enter(zoo, key);
            lk_bench_crew_give_turn(b, LK_GIVER);
            lk_zoo_await(zoo);
            lk_bench_crew_sample(b, lk_bench_now() - b->crew->mark);
            lk_zoo_unlock(zoo);
            lk_bench_crew_give_turn(b, LK_GIVER);
        }
    }
    lk_zoo_close(zoo);
}

static void handoff_body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT];
    if (p->side == OURS)
        lk_handoff(b, member, lk_zoo_server_uri(uri, b->zoo.own.port, session), key, p->cycles, p->sleep);
    else
        bare_handoff(b, member, p);
}

bool lk_row_zh(lk_bench *b)
{
    static const lk_bench_figure
        half = {"zh", "hand-off to a sleeping process, p50", "us", "listing again", LK_GOAL_RATIO_AT_MOST, 1},
        whole = {"zh", "... beside requests in one piece", "us", "in one piece", LK_GOAL_NONE, 0},
        trust = {"zh", "... beside one that asks no more", "us", "trusting", LK_GOAL_NONE, 0},
        most = {"zh", "... p99", "us", "listing again", LK_GOAL_NONE, 0};
    lk_series p50[SIDES] = {0}, p99[SIDES] = {0};
    (void)lk_zoo_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int side = BARE; side < SIDES; side++) {
            plan p = {.side = side, .cycles = lk_scale(b, 500), .sleep = lk_handoff_sleep};
            lk_work work = {.members = 2, .cpu = b->client_cpu, .body = handoff_body, .arg = &p};

            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[side], lk_bench_crew_quantile_us(b, 0.5));
            lk_series_add(&p99[side], lk_bench_crew_quantile_us(b, 0.99));
        }
    }
    lk_bench_report(b, &half, &p50[BARE], &p50[OURS]);
    lk_bench_report(b, &whole, &p50[WHOLE], &p50[OURS]);
    lk_bench_report(b, &trust, &p50[TRUSTING], &p50[OURS]);
    lk_bench_report(b, &most, &p99[BARE], &p99[OURS]);
    return true;
}

/* To one that has waited for long: no deadline of before is far enough any more. */
bool lk_row_zhi(lk_bench *b)
{
    static const lk_bench_figure half = {
        "zhi", "hand-off after 30 s of waiting, p50", "us", "listing again", LK_GOAL_RATIO_AT_MOST, 2};
    lk_series p50[SIDES] = {0};
    (void)lk_zoo_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int side = BARE; side <= OURS; side += OURS - BARE) {
            plan p = {.side = side, .cycles = lk_scale(b, 5), .sleep = lk_scale(b, 30000) * LK_BENCH_MS};
            lk_work work = {.members = 2, .cpu = b->client_cpu, .body = handoff_body, .arg = &p};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&p50[side], lk_bench_crew_quantile_us(b, 0.5));
        }
    }
    lk_bench_report(b, &half, &p50[BARE], &p50[OURS]);
    return true;
}
