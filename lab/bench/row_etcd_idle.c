/* row_etcd_idle.c: row ee: what it costs to hold a thousand locks. Bare holds as many keys on one lease, which it keeps alive every
 * third of its time: that proves little to the holder (backends/etcd/DESIGN.md), and is no transaction. Ours put the keys to a
 * new lease. */
#include "bench.h"

enum { TTL_MS = 6000, PARTS = 3 };

static void hold_bare(lk_bench *b, const lk_held *h)
{
    lk_bench_etcd *etcd = lk_bench_etcd_open(b, h->port, h->ttl_ms / 1000);
    lk_bench_etcd_hold(etcd, h->prefix, h->locks);
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_bench_etcd_idle(etcd, h->ttl_ms / h->parts * LK_BENCH_MS);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    lk_bench_etcd_close(etcd);
}

bool lk_row_ee(lk_bench *b)
{
    static const lk_bench_figure figures[5] = {
        {"ee", "1,000 locks held, TTL 6 s, transactions", "/s", "KeepAlive", LK_GOAL_NONE, 0},
        {"ee", "... in each third of the TTL, leases included", "", NULL, LK_GOAL_AT_MOST, 10},
        {"ee", "... client CPU", "%", "KeepAlive", LK_GOAL_NONE, 0},
        {"ee", "... heap for each lock", "B", NULL, LK_GOAL_NONE, 0},
        {"ee", "... resident memory for each lock", "B", NULL, LK_GOAL_NONE, 0}};
    const lk_held h = {.bare = hold_bare,
                       .uri = lk_bench_etcd_server_uri,
                       .asked = lk_bench_etcd_server_transactions,
                       .port = b->etcd.own.port,
                       .ttl_ms = TTL_MS,
                       .parts = PARTS,
                       .prefix = "held"};
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    return lk_held_row(b, h, figures);
}
