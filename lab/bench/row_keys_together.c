/* row_keys_together.c: rows several, zseveral and eseveral: 64 keys by one locker_lock_all() over a way that is 100 ms long. Measured
 * are its lock and its unlock in round trips: their time divided by the one of locker_ping(). */
#include <math.h>

#include "bench.h"

enum { LOCK, UNLOCK, TIMES };

static const int64_t one_way_ms = 50, ttl = 30000; /* ms */

/* The URI of the service by that port. */
typedef const char *(*uri_fn)(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms);

typedef struct {
    uri_fn uri_of;
    int port;
    size_t keys;
} plan;

static double ping_ns(lk_bench *b, locker *l)
{
    int64_t us;
    locker_error err;
    if (locker_ping(l, &us, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_ping: %s", err.text);
    return (double)(us * LK_BENCH_US);
}

static void body(lk_bench *b, int member, const void *arg)
{
    const plan *p = arg;
    char uri[LK_SERVER_TEXT], names[LOCKER_KEYS_MAX][32];
    const char *keys[LOCKER_KEYS_MAX];
    locker *l = lk_open_or_fail(b, p->uri_of(uri, p->port, ttl));
    locker_handle *held;
    locker_error err;
    (void)member;
    for (size_t i = 0; i < p->keys; i++) {
        (void)snprintf(names[i], sizeof names[i], "bench:all:%02zu", i);
        keys[i] = names[i];
    }
    lk_unlock_or_fail(b, lk_lock_or_fail(b, l, "bench:all", NULL)); /* first-time costs */
    lk_bench_crew_ready(b);
    const double round_trip = ping_ns(b, l);
    const int64_t from = lk_bench_now();
    if (locker_lock_all(l, keys, p->keys, NULL, &held, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "locker_lock_all: %s", err.text);
    const int64_t locked = lk_bench_now();
    lk_unlock_or_fail(b, held);
    const int64_t unlocked = lk_bench_now();
    b->crew->value[LOCK] = (double)(locked - from) / round_trip;
    b->crew->value[UNLOCK] = (double)(unlocked - locked) / round_trip;
    (void)locker_close(l);
}

static bool several_row(lk_bench *b, const char *row, int port, uri_fn uri_of)
{
    const lk_bench_figure unlock =
                              {row, "64 keys at 100 ms, unlock in round trips", "", NULL, LK_GOAL_AT_MOST, 2},
                          lock = {row, "... lock in round trips", "", NULL, LK_GOAL_NONE, 0};
    lk_series trips[TIMES] = {0};
    plan p = {.uri_of = uri_of, .keys = (size_t)lk_scale(b, LOCKER_KEYS_MAX)};
    const pid_t proxy = lk_delay_start(b, port, lk_scale(b, one_way_ms), &p.port);
    bool good = proxy > 0;
    for (int round = 0; round < b->rounds && good; round++) {
        const lk_work work = {.members = 1, .cpu = b->client_cpu, .body = body, .arg = &p};
        good = lk_bench_crew_run(b, &work);
        for (int i = 0; i < TIMES && good; i++)
            lk_series_add(&trips[i], rint(b->crew->value[i] * 10) /
                                         10); /* what is beyond is the clock's and the proxy's */
    }
    lk_delay_stop(proxy);
    if (!good)
        return false;
    lk_bench_report(b, &unlock, NULL, &trips[UNLOCK]);
    lk_bench_report(b, &lock, NULL, &trips[LOCK]);
    return true;
}

#if defined LOCKER_BENCH_REDIS
static const char *redis_uri(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms)
{
    (void)snprintf(out, LK_SERVER_TEXT, "redis://127.0.0.1:%d/0?ttl=%lldms", port, (long long)ttl_ms);
    return out;
}

bool lk_row_several(lk_bench *b)
{
    if (b->server.own.pid <= 0) {
        lk_bench_progress("several is left out: the proxy leads to a server of the benchmark's own");
        return true;
    }
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    return several_row(b, "several", b->server.port, redis_uri);
}
#endif

#if defined LOCKER_BENCH_ZOOKEEPER
bool lk_row_zseveral(lk_bench *b)
{
    (void)lk_zoo_server_pin(b, b->server_cpu);
    return several_row(b, "zseveral", b->zoo.own.port, lk_zoo_server_uri);
}
#endif

#if defined LOCKER_BENCH_ETCD
bool lk_row_eseveral(lk_bench *b)
{
    (void)lk_bench_etcd_server_pin(b, b->server_cpu);
    return several_row(b, "eseveral", b->etcd.own.port, lk_bench_etcd_server_uri);
}
#endif
