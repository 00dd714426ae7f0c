/* row_etcd_round_trips.c: row enet: a lock of etcd over a way that is 10 ms longer. Bare is the driver's connection alone. */
#include "bench.h"

static const int64_t ttl = 10000, bare_ttl_s = 180; /* ms; bare doesn't renew */
static const char key[] = "far";

static void *bare_open(lk_bench *b, int port)
{
    return lk_bench_etcd_open(b, port, bare_ttl_s);
}

static void bare_cycle(lk_bench *b, void *client)
{
    (void)b;
    lk_bench_etcd_lock(client, key);
    lk_bench_etcd_unlock(client);
}

static void bare_request(void *client)
{
    lk_bench_etcd_ping(client);
}

static void bare_close(void *client)
{
    lk_bench_etcd_close(client);
}

static void *our_open(lk_bench *b, int port)
{
    char uri[LK_SERVER_TEXT];
    return lk_open_or_fail(b, lk_bench_etcd_server_uri(uri, port, ttl));
}

static void our_cycle(lk_bench *b, void *client)
{
    lk_unlock_or_fail(b, lk_lock_or_fail(b, client, key, NULL));
}

static void our_close(void *client)
{
    (void)locker_close(client);
}

bool lk_row_enet(lk_bench *b)
{
    static const lk_far_side sides[2] = {
        {"connection alone", bare_open, bare_cycle, bare_request, bare_close},
        {"liblocker", our_open, our_cycle, NULL, our_close}};
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    return lk_far_row(b, "enet", b->etcd.own.port, sides);
}
