/* round_trips.c: how many round trips a cycle takes, for the rows net and znet. A cycle is timed through a
 * proxy that passes on at once and through one that adds 10 ms, and so is one bare request; what the delay
 * adds to the cycle, divided by what it adds to the request, is the number of round trips. */
#include <math.h>
#include <stdlib.h>

#include "bench.h"

enum { REQUESTS = 100, NEAR = 0, FAR = 1 };

static const int64_t one_way_ms = 5; /* each way, so that the round trip is 10 ms longer */

typedef struct {
    const lk_far_side *side;
    int port;
    int64_t cycles, requests;
} plan;

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    void *client = p->side->open(b, p->port);
    const size_t n = p->requests < REQUESTS ? (size_t)p->requests : REQUESTS;
    (void)member;
    p->side->cycle(b, client); /* first-time costs */
    lk_bench_crew_ready(b);
    int64_t request[REQUESTS];
    for (size_t i = 0; p->side->request != NULL && i < n; i++) {
        const int64_t from = lk_bench_now();

        p->side->request(client);
        request[i] = lk_bench_now() - from;
    }
    if (p->side->request != NULL) {
        qsort(request, n, sizeof request[0], lk_bench_compare);
        b->crew->value[0] = (double)lk_bench_quantile(request, n, 0.5) / LK_BENCH_US;
    }
    for (int64_t i = 0; i < p->cycles; i++) {
        const int64_t from = lk_bench_now();

        p->side->cycle(b, client);
        lk_bench_crew_sample(b, lk_bench_now() - from);
    }
    p->side->close(client);
}

/* The times of a round, in us. */
typedef struct {
    double cycle[2][2]; /* bare and ours; near and far */
    double request[2];
} times;

static bool measure(lk_bench *b, const lk_far_side sides[2], const int ports[2], times *t)
{
    for (int way = NEAR; way <= FAR; way++) {
        for (int ours = 0; ours < 2; ours++) {
            plan p = {.side = &sides[ours],
                      .port = ports[way],
                      .cycles = lk_scale(b, way == FAR ? 150 : 1000),
                      .requests = lk_scale(b, REQUESTS)};
            lk_work work = {.members = 1, .cpu = b->client_cpu, .body = body, .arg = &p};

            if (!lk_bench_crew_run(b, &work))
                return false;
            t->cycle[ours][way] = lk_bench_crew_quantile_us(b, 0.5);
            if (ours == 0)
                t->request[way] = b->crew->value[0];
        }
    }
    return true;
}

/* In tenths: what is beyond is the clock's and the proxy's. */
static double round_trips(const times *t, int ours)
{
    const double more = t->cycle[ours][FAR] - t->cycle[ours][NEAR];
    return rint(more / (t->request[FAR] - t->request[NEAR]) * 10) / 10;
}

bool lk_far_row(lk_bench *b, const char *row, int port, const lk_far_side sides[2])
{
    const lk_bench_figure trips = {row,
                                   "10 ms more: round trips of lock + unlock",
                                   "",
                                   sides[0].name,
                                   LK_GOAL_AT_MOST,
                                   2},
                          cycle = {row, "... lock + unlock, p50", "ms", sides[0].name, LK_GOAL_NONE, 0};
    lk_series count[2] = {0}, far_ms[2] = {0};
    bool good = true;
    pid_t pids[2];
    int ports[2];
    pids[NEAR] = lk_delay_start(b, port, 0, &ports[NEAR]);
    pids[FAR] = lk_delay_start(b, port, one_way_ms, &ports[FAR]);
    for (int round = 0; round < b->rounds && good; round++) {
        times t;

        good = pids[NEAR] > 0 && pids[FAR] > 0 && measure(b, sides, ports, &t);
        for (int ours = 0; ours < 2 && good; ours++) {
            lk_series_add(&count[ours], round_trips(&t, ours));
            lk_series_add(&far_ms[ours], t.cycle[ours][FAR] / 1000);
        }
    }
    lk_delay_stop(pids[NEAR]);
    lk_delay_stop(pids[FAR]);
    if (!good)
        return false;
    lk_bench_report(b, &trips, &count[0], &count[1]);
    lk_bench_report(b, &cycle, &far_ms[0], &far_ms[1]);
    return true;
}
