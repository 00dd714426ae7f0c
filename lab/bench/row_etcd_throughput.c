/* row_etcd_throughput.c: rows eb and ec: many contenders at once, with a key each, or with one key for all. Bare, they are all in
 * flight on one connection of a process, without a thread for each; ours are threads. */
#include "bench.h"

enum { KEYS = 64, PROCESSES = 4, DISORDER = LK_COUNTS_MAX - 1 };

static const int64_t ttl = 10000, bare_ttl_s = 180; /* ms; bare doesn't renew */
static const char own_key[] = "own", shared_key[] = "for-all";

enum { BARE, OURS, SIDES };

typedef struct {
    int side;
    int waiters, processes;
    const char *key; /* for all; NULL: each has its own */
} herd;

typedef struct {
    const herd *h;
    locker *l;
    size_t first; /* place of this process's first waiter in the counts */
} pen;

/* Fencing tokens are given when a waiter enters the queue, so that in order of arrival they only grow. Called by the holder of
 * the lock, who is alone. */
static void look_at_order(lk_bench *b, const locker_handle *held)
{
    const int64_t token = (int64_t)locker_handle_token(held);
    if (token < b->crew->mark)
        b->crew->count[DISORDER]++;
    b->crew->mark = token;
}

static void herd_thread(lk_bench *b, size_t index, void *arg)
{
    const pen *p = arg;
    uint64_t turns = 0;
    char own[64];
    const char *key = p->h->key != NULL ? p->h->key : lk_bench_etcd_lane_key(own, own_key, (int)index);
    while (!lk_bench_crew_stopped(b)) {
        locker_handle *held = lk_lock_or_fail(b, p->l, key, NULL);

        if (p->h->key != NULL)
            look_at_order(b, held);
        lk_unlock_or_fail(b, held);
        if (!lk_bench_crew_stopped(b))
            turns++;
    }
    b->crew->count[p->first + index] = turns;
}

static void herd_body(lk_bench *b, int member, const void *arg)
{
    const herd *h = arg;
    const int each = h->waiters / h->processes, port = b->etcd.own.port;
    pen p = {.h = h, .first = (size_t)(member * each)};
    char uri[LK_SERVER_TEXT];
    if (h->side == BARE) {
        lk_bench_etcd *etcd = lk_bench_etcd_open(b, port, bare_ttl_s);
        lk_bench_crew_ready(b);
        lk_bench_etcd_lanes(etcd, h->key != NULL ? h->key : own_key, h->key != NULL, each, p.first);
        lk_bench_etcd_close(etcd);
        return;
    }
    p.l = lk_open_or_fail(b, lk_bench_etcd_server_uri(uri, port, ttl));
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, (size_t)each, herd_thread, &p));
    (void)locker_close(p.l);
}

/* ------------------------------------------------------------------ the rows ---- */

typedef struct {
    lk_series rate[SIDES], sent[SIDES], fairness[SIDES], disorder;
} outcome;

static bool herd_run(lk_bench *b, herd h, outcome *o)
{
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++) {
        for (h.side = BARE; h.side < SIDES; h.side++) {
            lk_work work = {.members = h.processes,
                            .duration = lk_scale(b, 3000) * LK_BENCH_MS,
                            .cpu = b->client_cpu,
                            .body = herd_body,
                            .arg = &h,
                            .asked = lk_bench_etcd_server_requests};

            if (!lk_bench_crew_run(b, &work))
                return false;
            const double turns = (double)lk_bench_crew_total(b, (size_t)h.waiters);
            lk_series_add(&o->rate[h.side], turns / b->crew->value[LK_VALUE_SECONDS]);
            lk_series_add(&o->sent[h.side], turns > 0 ? (double)b->crew->asked / turns : 0);
            lk_series_add(&o->fairness[h.side], lk_bench_crew_fairness(b, (size_t)h.waiters));
            if (h.side == OURS)
                lk_series_add(&o->disorder, (double)b->crew->count[DISORDER]);
        }
    }
    return true;
}

bool lk_row_eb(lk_bench *b)
{
    static const lk_bench_figure
        rate = {"eb", "64 threads, own keys", "/s", "64 in flight", LK_GOAL_RATIO_AT_LEAST, 0.9},
        sent = {"eb", "... requests for each cycle", "", "64 in flight", LK_GOAL_NONE, 0},
        fair = {"eb", "... fairness over the threads", "Jain", "64 in flight", LK_GOAL_NONE, 0};
    outcome o = {0};
    if (!herd_run(b, (herd){.waiters = KEYS, .processes = 1}, &o))
        return false;
    lk_bench_report(b, &rate, &o.rate[BARE], &o.rate[OURS]);
    lk_bench_report(b, &sent, &o.sent[BARE], &o.sent[OURS]);
    lk_bench_report(b, &fair, &o.fairness[BARE], &o.fairness[OURS]);
    return true;
}

static bool one_key(lk_bench *b, int waiters)
{
    char what[64];
    lk_bench_figure rate = {"ec", what, "/s", "in flight", LK_GOAL_RATIO_AT_LEAST, 0.9},
                    sent = {"ec", "... requests for each cycle", "", "in flight", LK_GOAL_NONE, 0},
                    fair = {"ec", "... fairness over the waiters", "Jain", "in flight", LK_GOAL_AT_LEAST,
                            0.95},
                    order = {"ec", "... grants out of the order of arrival", "", NULL, LK_GOAL_AT_MOST, 0};
    outcome o = {0};
    (void)snprintf(what, sizeof what, "%d waiters, %d processes, one key", waiters, PROCESSES);
    if (!herd_run(b, (herd){.waiters = waiters, .processes = PROCESSES, .key = shared_key}, &o))
        return false;
    lk_bench_report(b, &rate, &o.rate[BARE], &o.rate[OURS]);
    lk_bench_report(b, &sent, &o.sent[BARE], &o.sent[OURS]);
    lk_bench_report(b, &fair, &o.fairness[BARE], &o.fairness[OURS]);
    lk_bench_report(b, &order, NULL, &o.disorder);
    return true;
}

bool lk_row_ec(lk_bench *b)
{
    return one_key(b, 8) && one_key(b, 64);
}
