/* readers.c: many readers of one key, for each service the same (row_readers_*.c): how often they take and give it
 * beside a bare limit, how long a writer waits behind readers who never pause, and what those of one process cost
 * the service. */
#include <stdlib.h>

#include "bench.h"

enum { WRITER = 4, READERS_EACH = 4, WRITES = 40, TOGETHER = 1000, BEYOND_MS = 100 };

static const char key[] = "bench:readers";

static locker_handle *share(lk_bench *b, locker *l)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.mode = LOCKER_SHARED;
    return lk_lock_or_fail(b, l, key, &options);
}

/* ------------------------------------------------------------------ how often ---- */

typedef struct {
    void (*cycle)(lk_bench *b, size_t index, void *arg);
    void *arg;
    size_t first;
} turns;

static void turn_thread(lk_bench *b, size_t index, void *arg)
{
    const turns *t = arg;
    uint64_t cycles = 0;
    while (!lk_bench_crew_stopped(b)) {
        t->cycle(b, index, t->arg);
        cycles++;
    }
    b->crew->count[t->first + index] = cycles;
}

void lk_readers_turns(lk_bench *b, int each, size_t first,
                      void (*cycle)(lk_bench *b, size_t index, void *arg), void *arg)
{
    turns t = {cycle, arg, first};
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, (size_t)each, turn_thread, &t));
}

static void share_once(lk_bench *b, size_t index, void *arg)
{
    (void)index;
    lk_unlock_or_fail(b, share(b, arg));
}

typedef struct {
    const lk_readers *on;
    int readers, processes;
    bool ours;
} crowd;

static void crowd_body(lk_bench *b, int member, const void *arg)
{
    const crowd *c = arg;
    const int each = c->readers / c->processes;
    const size_t first = (size_t)member * (size_t)each;
    if (!c->ours) {
        c->on->bare(b, c->on, each, first);
        return;
    }
    locker *l = lk_open_or_fail(b, c->on->uri);
    lk_readers_turns(b, each, first, share_once, l);
    (void)locker_close(l);
}

static bool run_crowd(lk_bench *b, const lk_readers *on, int readers, int processes)
{
    char what[64];
    const lk_bench_figure rate = {on->row, what, "/s", on->against, LK_GOAL_NONE, 0};
    lk_series series[2] = {0};
    (void)snprintf(what, sizeof what, "%d reader%s, %d process%s, one key", readers, readers > 1 ? "s" : "",
                   processes, processes > 1 ? "es" : "");
    for (int round = 0; round < b->rounds; round++)
        for (int ours = 0; ours < 2; ours++) {
            const crowd c = {on, readers, processes, ours != 0};
            const lk_work work = {.members = processes,
                                  .duration = lk_scale(b, 1000) * LK_BENCH_MS,
                                  .cpu = on->cpu,
                                  .body = crowd_body,
                                  .arg = &c};

            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&series[ours],
                          (double)lk_bench_crew_total(b, (size_t)readers) / b->crew->value[LK_VALUE_SECONDS]);
        }
    lk_bench_report(b, &rate, &series[0], &series[1]);
    return true;
}

/* ------------------------------------------------------------------ a writer among them ---- */

/* Readers of different patience, so that there is no moment at which all let go. */
static void hold_once(lk_bench *b, size_t index, void *arg)
{
    locker_handle *held = share(b, arg);
    const int64_t from = lk_bench_now();
    lk_bench_sleep((int64_t)(index + 1) * 5 * LK_BENCH_MS);
    lk_unlock_or_fail(b, held);
    const int64_t hold = lk_bench_now() - from;
    int64_t before =
        atomic_load_explicit(&b->crew->mark, memory_order_relaxed); /* a figure: nothing hangs on it */
    while (hold > before && !atomic_compare_exchange_weak_explicit(
                                &b->crew->mark, &before, hold, memory_order_relaxed, memory_order_relaxed))
        ;
}

/* It comes at any moment of theirs. */
static void write_among(lk_bench *b, locker *l)
{
    lk_bench_crew_ready(b);
    for (int64_t i = 0; i < lk_scale(b, WRITES); i++) {
        lk_bench_sleep((20 + i % 7 * 3) * LK_BENCH_MS);
        const int64_t from = lk_bench_now();
        locker_handle *held = lk_lock_or_fail(b, l, key, NULL);
        lk_bench_crew_sample(b, lk_bench_now() - from);
        lk_unlock_or_fail(b, held);
    }
    atomic_store(&b->crew->stop, true);
}

static void writer_body(lk_bench *b, int member, const void *arg)
{
    const lk_readers *on = arg;
    locker *l = lk_open_or_fail(b, on->uri);
    if (member == WRITER)
        write_among(b, l);
    else
        lk_readers_turns(b, READERS_EACH, 0, hold_once, l);
    (void)locker_close(l);
}

static bool run_writer(lk_bench *b, const lk_readers *on)
{
    const lk_bench_figure half = {on->row,      "a writer behind 4 x 4 readers who never pause, p50",
                                  "ms",         NULL,
                                  LK_GOAL_NONE, 0},
                          most = {on->row, "... the longest", "ms", NULL, LK_GOAL_NONE, 0},
                          hold = {on->row, "... the longest that a reader held", "ms", NULL, LK_GOAL_NONE, 0},
                          late = {on->row, "... beyond twice that", "ms", NULL, LK_GOAL_AT_MOST, BEYOND_MS};
    lk_series p50 = {0}, longest = {0}, held = {0}, beyond = {0};
    const lk_work work = {.members = WRITER + 1, .cpu = on->cpu, .body = writer_body, .arg = on};
    for (int round = 0; round < b->rounds; round++) {
        if (!lk_bench_crew_run(b, &work))
            return false;
        const double wait = lk_bench_crew_quantile_us(b, 1) / 1000,
                     mark = (double)b->crew->mark / LK_BENCH_MS;

        lk_series_add(&p50, lk_bench_crew_quantile_us(b, 0.5) / 1000);
        lk_series_add(&longest, wait);
        lk_series_add(&held, mark);
        lk_series_add(&beyond, wait > 2 * mark ? wait - 2 * mark : 0);
    }
    lk_bench_report(b, &half, NULL, &p50);
    lk_bench_report(b, &most, NULL, &longest);
    lk_bench_report(b, &hold, NULL, &held);
    lk_bench_report(b, &late, NULL, &beyond);
    return true;
}

/* ------------------------------------------------------------------ those of one process ---- */

enum { GRANTS, HOLDERS, RENEWALS, HEAP };

static void together_body(lk_bench *b, int member, const void *arg)
{
    const lk_readers *on = arg;
    const size_t n = (size_t)lk_scale(b, TOGETHER);
    locker *l = lk_open_or_fail(b, on->uri);
    locker_handle **held = calloc(n, sizeof *held);
    locker_info info = LOCKER_INFO_INIT;
    locker_statistics before = LOCKER_STATISTICS_INIT, after = LOCKER_STATISTICS_INIT;
    double *value = b->crew->value;
    (void)member;
    if (held == NULL)
        lk_bench_crew_fail(b, "out of memory");
    held[0] = share(b, l);
    const int64_t heap = lk_bench_allocated();
    for (size_t i = 1; i < n; i++)
        held[i] = share(b, l);
    value[HEAP] = n > 1 ? (double)(lk_bench_allocated() - heap) / (double)(n - 1) : 0;
    lk_bench_crew_ready(b);
    if (locker_stats(l, &before) != LOCKER_OK || locker_show(l, key, &info, NULL) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_show failed");
    lk_bench_crew_wait_halt(b);
    (void)locker_stats(l, &after);
    value[GRANTS] = (double)before.acquired;
    value[HOLDERS] = info.holders_len > 0 ? (double)info.holders_len : info.held;
    value[RENEWALS] = (double)(after.renewals - before.renewals);
    locker_info_clear(&info);
    for (size_t i = 0; i < n; i++)
        lk_unlock_or_fail(b, held[i]);
    free(held);
    (void)locker_close(l);
}

static bool run_together(lk_bench *b, const lk_readers *on)
{
    const lk_bench_figure grants = {on->row,
                                    "1,000 readers of one process: grants by the service",
                                    "",
                                    NULL,
                                    LK_GOAL_AT_MOST,
                                    1},
                          holders = {on->row, "... holders at the service", "", NULL, LK_GOAL_AT_MOST, 1},
                          renewals = {on->row, "... leases renewed", "/s", NULL, LK_GOAL_NONE, 0},
                          heap = {on->row, "... heap for each reader", "B", NULL, LK_GOAL_NONE, 0};
    lk_series all[HEAP + 1] = {0};
    const lk_work work = {.members = 1,
                          .duration = lk_scale(b, 3000) * LK_BENCH_MS,
                          .cpu = on->cpu,
                          .body = together_body,
                          .arg = on};
    for (int round = 0; round < b->rounds; round++) {
        if (!lk_bench_crew_run(b, &work))
            return false;
        b->crew->value[RENEWALS] /= b->crew->value[LK_VALUE_SECONDS];
        for (int i = 0; i <= HEAP; i++)
            lk_series_add(&all[i], b->crew->value[i]);
    }
    lk_bench_report(b, &grants, NULL, &all[GRANTS]);
    lk_bench_report(b, &holders, NULL, &all[HOLDERS]);
    lk_bench_report(b, &renewals, NULL, &all[RENEWALS]);
    lk_bench_report(b, &heap, NULL, &all[HEAP]);
    return true;
}

/* ------------------------------------------------------------------ all of it ---- */

bool lk_readers_run(lk_bench *b, const lk_readers *on)
{
    static const struct {
        int readers, processes;
    } crowds[] = {{1, 1}, {8, 1}, {64, 1}, {4, 4}, {8, 4}, {64, 4}};
    for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++)
        if ((crowds[i].processes == 1 || !on->one_process) &&
            !run_crowd(b, on, crowds[i].readers, crowds[i].processes))
            return false;
    return (on->one_process || run_writer(b, on)) && run_together(b, on);
}
