/* row_etcd_throughput.c: rows eb and ec: many contenders at once, with a key each, or with one key for all. Bare, they are all in
 * flight on one connection of a process, without a thread for each; ours are threads. */
#include "bench.h"

enum { KEYS = 64, PROCESSES = 4 };

static const int64_t bare_ttl_s = 180; /* Bare doesn't renew. */

enum { BARE = LK_HERD_BARE, OURS = LK_HERD_OURS, SIDES };

static void bare_herd(lk_bench *b, const lk_herd *h, int contenders, size_t first)
{
    lk_bench_etcd *etcd = lk_bench_etcd_open(b, h->port, bare_ttl_s);
    lk_bench_crew_ready(b);
    lk_bench_etcd_lanes(etcd, h->key, h->shared, contenders, first);
    lk_bench_etcd_close(etcd);
}

static bool run(lk_bench *b, lk_herd h, lk_herd_outcome *o)
{
    h.bare = bare_herd;
    h.uri = lk_bench_etcd_server_uri;
    h.requests = lk_bench_etcd_server_requests;
    h.port = b->etcd.own.port;
    h.sides = SIDES;
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    return lk_herd_run(b, h, o);
}

/* ------------------------------------------------------------------ the rows ---- */

bool lk_row_eb(lk_bench *b)
{
    static const lk_bench_figure
        rate = {"eb", "64 threads, own keys", "/s", "64 in flight", LK_GOAL_RATIO_AT_LEAST, 0.9},
        sent = {"eb", "... requests for each cycle", "", "64 in flight", LK_GOAL_NONE, 0},
        fair = {"eb", "... fairness over the threads", "Jain", "64 in flight", LK_GOAL_NONE, 0};
    lk_herd_outcome o = {0};
    if (!run(b, (lk_herd){.waiters = KEYS, .processes = 1, .key = "own"}, &o))
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
    lk_herd_outcome o = {0};
    (void)snprintf(what, sizeof what, "%d waiters, %d processes, one key", waiters, PROCESSES);
    if (!run(b, (lk_herd){.waiters = waiters, .processes = PROCESSES, .key = "for-all", .shared = true}, &o))
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
