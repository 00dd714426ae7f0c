/* row_zookeeper_throughput.c: rows zb and zc: many contenders at once, with a key each, or with one key for
 * all. Bare, they are all in flight on one session of a process, without a thread for each, and for zc with
 * threads as well; ours are threads. */
#include "bench.h"

enum { KEYS = 64, PROCESSES = 4 };

static const int64_t session = 10000; /* ms */

enum { BARE = LK_HERD_BARE, OURS = LK_HERD_OURS, TRUSTING, THREADED, SIDES };

static void bare_herd(lk_bench *b, const lk_herd *h, int contenders, size_t first)
{
    lk_zoo *zoo = lk_zoo_open(b, h->port, session);
    char own[64];
    for (int i = 0; i < (h->shared ? 1 : contenders); i++)
        lk_zoo_make(zoo, h->shared ? h->key : lk_lane_key(own, h->key, i));
    if (h->side == TRUSTING)
        lk_zoo_trust(zoo);
    lk_bench_crew_ready(b);
    if (h->side == THREADED)
        lk_zoo_lane_threads(zoo, h->key, contenders, first);
    else
        lk_zoo_lanes(zoo, h->key, h->shared, contenders, first);
    lk_zoo_close(zoo);
}

static bool run(lk_bench *b, lk_herd h, lk_herd_outcome *o)
{
    h.bare = bare_herd;
    h.uri = lk_zoo_server_uri;
    h.requests = lk_zoo_server_requests;
    h.port = b->zoo.own.port;
    (void)lk_zoo_server_pin(b, b->server_cpu);
    return lk_herd_run(b, h, o);
}

/* ------------------------------------------------------------------ the rows ---- */

bool lk_row_zb(lk_bench *b)
{
    static const lk_bench_figure
        rate = {"zb", "64 threads, own keys", "/s", "64 in flight", LK_GOAL_RATIO_AT_LEAST, 1},
        sent = {"zb", "... requests for each cycle", "", "64 in flight", LK_GOAL_NONE, 0},
        fair = {"zb", "... fairness over the threads", "Jain", "64 in flight", LK_GOAL_NONE, 0};
    lk_herd_outcome o = {0};
    if (!run(b, (lk_herd){.sides = OURS + 1, .waiters = KEYS, .processes = 1, .key = "own"}, &o))
        return false;
    lk_bench_report(b, &rate, &o.rate[BARE], &o.rate[OURS]);
    lk_bench_report(b, &sent, &o.sent[BARE], &o.sent[OURS]);
    lk_bench_report(b, &fair, &o.fairness[BARE], &o.fairness[OURS]);
    return true;
}

static bool one_key(lk_bench *b, int waiters)
{
    char what[64];
    lk_bench_figure rate = {"zc", what, "/s", "listing again", LK_GOAL_RATIO_AT_LEAST, 1};
    lk_bench_figure sent = {"zc", "... requests for each cycle", "", "listing again", LK_GOAL_NONE, 0};
    lk_bench_figure fair = {"zc", "... fairness over the waiters", "Jain", "listing again", LK_GOAL_AT_LEAST,
                            0.95};
    lk_bench_figure order = {"zc", "... grants out of the order of arrival", "", NULL, LK_GOAL_AT_MOST, 0};
    lk_bench_figure threads = {"zc", "... beside it with a thread for each", "/s", "in threads", LK_GOAL_NONE,
                               0};
    lk_bench_figure trust = {"zc", "... beside one that asks no more", "/s", "trusting", LK_GOAL_NONE, 0};
    lk_herd_outcome o = {0};
    (void)snprintf(what, sizeof what, "%d waiters, %d processes, one key", waiters, PROCESSES);
    if (!run(
            b,
            (lk_herd){
                .sides = SIDES, .waiters = waiters, .processes = PROCESSES, .key = "for-all", .shared = true},
            &o))
        return false;
    lk_bench_report(b, &rate, &o.rate[BARE], &o.rate[OURS]);
    lk_bench_report(b, &threads, &o.rate[THREADED], &o.rate[OURS]);
    lk_bench_report(b, &trust, &o.rate[TRUSTING], &o.rate[OURS]);
    lk_bench_report(b, &sent, &o.sent[BARE], &o.sent[OURS]);
    lk_bench_report(b, &fair, &o.fairness[BARE], &o.fairness[OURS]);
    lk_bench_report(b, &order, NULL, &o.disorder);
    return true;
}

bool lk_row_zc(lk_bench *b)
{
    return one_key(b, 8) && one_key(b, 64);
}
