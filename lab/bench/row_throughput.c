/* row_throughput.c: rows b and c: many threads at once. In b each has a key of its own, in c all want one
 * key, in several processes or in one. */
#include "bench.h"

enum { KEYS = 64, PROCESSES = 4 };

static const char shared_key[] = "bench:one-for-all", shared_list[] = "bench:one-for-all:list";

/* ------------------------------------------------------------------ b: own keys ---- */

typedef struct {
    locker *l;           /* ours, shared by the threads; NULL: bare */
    lk_bare *bare[KEYS]; /* a connection each */
} own;

static void own_thread(lk_bench *b, size_t index, void *arg)
{
    own *o = arg;
    uint64_t cycles = 0;
    char key[32];
    (void)snprintf(key, sizeof key, "bench:own:%zu", index);
    while (!lk_bench_crew_stopped(b)) {
        if (o->l != NULL) {
            lk_unlock_or_fail(b, lk_lock_or_fail(b, o->l, key, NULL));
        } else {
            lk_bare_lock(o->bare[index], key);
            lk_bare_unlock(o->bare[index], key);
        }
        cycles++;
    }
    b->crew->count[index] = cycles;
}

static void own_bare_body(lk_bench *b, int member, const void *arg)
{
    own o = {.l = NULL};
    (void)member;
    (void)arg;
    for (int i = 0; i < KEYS; i++)
        o.bare[i] = lk_bare_open(b);
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, KEYS, own_thread, &o));
}

static void own_lanes_body(lk_bench *b, int member, const void *arg)
{
    lk_bare *bare = lk_bare_open(b);
    (void)member;
    (void)arg;
    lk_bench_crew_ready(b);
    b->crew->count[0] = lk_bare_lanes(bare, KEYS);
    lk_bare_close(bare);
}

static void own_our_body(lk_bench *b, int member, const void *arg)
{
    own o = {.l = lk_open_or_fail(b, b->server.uri)};
    (void)member;
    (void)arg;
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, KEYS, own_thread, &o));
    (void)locker_close(o.l);
}

bool lk_row_b(lk_bench *b)
{
    static const lk_bench_figure
        each = {"b", "64 threads, own keys", "/s", "a connection each", LK_GOAL_RATIO_AT_LEAST, 1.5},
        lanes = {"b", "... beside 64 in flight", "/s", "pipelined", LK_GOAL_RATIO_AT_LEAST, 0.8},
        fair = {"b", "... fairness over the threads", "Jain", NULL, LK_GOAL_NONE, 0};
    void (*const bodies[])(lk_bench *, int, const void *) = {own_bare_body, own_lanes_body, own_our_body};
    lk_series rate[3] = {0}, fairness = {0};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (int i = 0; i < 3; i++) {
            lk_work work = {.members = 1,
                            .duration = lk_scale(b, 2000) * LK_BENCH_MS,
                            .cpu = b->client_cpu,
                            .body = bodies[i]};

            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&rate[i], (double)lk_bench_crew_total(b, KEYS) / b->crew->value[LK_VALUE_SECONDS]);
        }
        lk_series_add(&fairness, lk_bench_crew_fairness(b, KEYS));
    }
    lk_bench_report(b, &each, &rate[0], &rate[2]);
    lk_bench_report(b, &lanes, &rate[1], &rate[2]);
    lk_bench_report(b, &fair, NULL, &fairness);
    return true;
}

/* ------------------------------------------------------------------ c: one key ---- */

typedef struct {
    int waiters, processes;
} herd;

typedef struct {
    locker *l;    /* NULL: bare */
    size_t first; /* place of this process's first waiter in the counts */
    lk_bare *bare[KEYS];
} pen;

static void herd_thread(lk_bench *b, size_t index, void *arg)
{
    pen *p = arg;
    uint64_t turns = 0;
    while (!lk_bench_crew_stopped(b)) {
        if (p->l != NULL) {
            lk_unlock_or_fail(b, lk_lock_or_fail(b, p->l, shared_key, NULL));
        } else {
            if (!lk_bare_pop(p->bare[index], shared_list))
                break;
            lk_bare_push(p->bare[index], shared_list);
        }
        if (!lk_bench_crew_stopped(b))
            turns++;
    }
    if (p->l == NULL) /* the next of those that wait shall see the end too */
        lk_bare_push_end(p->bare[index], shared_list);
    b->crew->count[p->first + index] = turns;
}

static void herd_body(lk_bench *b, int member, const herd *h, bool ours)
{
    const int each = h->waiters / h->processes;
    pen p = {.l = NULL, .first = (size_t)(member * each)};
    if (ours)
        p.l = lk_open_or_fail(b, b->server.uri);
    for (int i = 0; !ours && i < each; i++)
        p.bare[i] = lk_bare_open(b);
    if (!ours && member == 0) {
        lk_bare_delete(p.bare[0], shared_list);
        lk_bare_push(p.bare[0], shared_list);
    }
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, (size_t)each, herd_thread, &p));
    (void)locker_close(p.l);
}

static void herd_bare_body(lk_bench *b, int member, const void *arg)
{
    herd_body(b, member, arg, false);
}

static void herd_our_body(lk_bench *b, int member, const void *arg)
{
    herd_body(b, member, arg, true);
}

typedef struct {
    lk_series rate[2], sent[2], fairness[2];
} outcome;

static bool herd_side(lk_bench *b, const herd *h, int ours, outcome *o)
{
    lk_work work = {.members = h->processes,
                    .duration = lk_scale(b, 2000) * LK_BENCH_MS,
                    .cpu = b->client_cpu,
                    .body = ours != 0 ? herd_our_body : herd_bare_body,
                    .arg = h,
                    .asked = lk_bench_redis_server_commands};
    if (!lk_bench_crew_run(b, &work))
        return false;
    const double turns = (double)lk_bench_crew_total(b, (size_t)h->waiters);
    lk_series_add(&o->rate[ours], turns / b->crew->value[LK_VALUE_SECONDS]);
    lk_series_add(&o->sent[ours], turns > 0 ? (double)b->crew->asked / turns : 0);
    lk_series_add(&o->fairness[ours], lk_bench_crew_fairness(b, (size_t)h->waiters));
    return true;
}

static bool herd_run(lk_bench *b, herd h, double rate_goal)
{
    char what[64];
    lk_bench_figure rate = {"c", what, "/s", "BLPOP", LK_GOAL_RATIO_AT_LEAST, rate_goal};
    lk_bench_figure sent = {"c", "... commands sent for each hand-off", "", "BLPOP", LK_GOAL_AT_MOST, 3};
    lk_bench_figure fair = {"c", "... fairness over the waiters", "Jain", "BLPOP", LK_GOAL_AT_LEAST, 0.95};
    outcome o = {0};
    (void)snprintf(what, sizeof what, "%d waiters, %d process%s, one key", h.waiters, h.processes,
                   h.processes > 1 ? "es" : "");
    for (int round = 0; round < b->rounds; round++)
        for (int ours = 0; ours < 2; ours++)
            if (!herd_side(b, &h, ours, &o))
                return false;
    lk_bench_report(b, &rate, &o.rate[0], &o.rate[1]);
    lk_bench_report(b, &sent, &o.sent[0], &o.sent[1]);
    lk_bench_report(b, &fair, &o.fairness[0], &o.fairness[1]);
    return true;
}

bool lk_row_c(lk_bench *b)
{
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    return herd_run(b, (herd){8, PROCESSES}, 0.9) && herd_run(b, (herd){64, PROCESSES}, 0.9) &&
           herd_run(b, (herd){64, 1}, 10);
}
