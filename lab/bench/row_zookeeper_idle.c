/* row_zookeeper_idle.c: row ze: what it costs to hold a thousand locks. Bare holds as many nodes, and its
 * library pings every third of the session time-out, which proves nothing to the holder; ours ask the
 * majority every eighth. */
#include "bench.h"

enum { SESSION_MS = 4000, PARTS = 8 };

static void hold_bare(lk_bench *b, const lk_held *h)
{
    lk_zoo *zoo = lk_zoo_open(b, h->port, h->ttl_ms);
    lk_zoo_hold(zoo, h->prefix, h->locks);
    lk_bench_crew_ready(b);
    const int64_t cpu = lk_bench_cpu();
    lk_zoo_idle(zoo);
    b->crew->value[0] = (double)(lk_bench_cpu() - cpu);
    lk_zoo_close(zoo);
}

bool lk_row_ze(lk_bench *b)
{
    static const lk_bench_figure figures[5] = {
        {"ze", "1,000 locks held, session 4 s, requests", "/s", "pings", LK_GOAL_NONE, 0},
        {"ze", "... requests for each heartbeat", "", NULL, LK_GOAL_AT_MOST, 1},
        {"ze", "... client CPU", "%", "pings", LK_GOAL_NONE, 0},
        {"ze", "... heap for each lock", "B", NULL, LK_GOAL_AT_MOST, 1024},
        {"ze", "... resident memory for each lock", "B", NULL, LK_GOAL_NONE, 0}};
    const lk_held h = {.bare = hold_bare,
                       .uri = lk_zoo_server_uri,
                       .asked = lk_zoo_server_requests,
                       .port = b->zoo.own.port,
                       .ttl_ms = SESSION_MS,
                       .parts = PARTS,
                       .prefix = "held"};
    (void)lk_zoo_server_pin(b, b->server_cpu);
    return lk_held_row(b, h, figures);
}
