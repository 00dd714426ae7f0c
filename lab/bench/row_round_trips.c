/* row_round_trips.c: row net: a Redis lock over a way that is 10 ms longer. Bare is blocking hiredis. */
#include "bench.h"

static const char key[] = "bench:far";

static void *bare_open(lk_bench *b, int port)
{
    b->server.port = port; /* this process's own copy */
    lk_bare *bare = lk_bare_open(b);
    lk_bare_delete(bare, key);
    return bare;
}

static void bare_cycle(lk_bench *b, void *client)
{
    (void)b;
    lk_bare_lock(client, key);
    lk_bare_unlock(client, key);
}

static void bare_request(void *client)
{
    lk_bare_delete(client, "bench:none");
}

static void bare_close(void *client)
{
    lk_bare_close(client);
}

static void *our_open(lk_bench *b, int port)
{
    char uri[LK_SERVER_TEXT];
    (void)snprintf(uri, sizeof uri, "redis://127.0.0.1:%d/0", port);
    return lk_open_or_fail(b, uri);
}

static void our_cycle(lk_bench *b, void *client)
{
    lk_unlock_or_fail(b, lk_lock_or_fail(b, client, key, NULL));
}

static void our_close(void *client)
{
    (void)locker_close(client);
}

bool lk_row_net(lk_bench *b)
{
    static const lk_far_side sides[2] = {{"hiredis", bare_open, bare_cycle, bare_request, bare_close},
                                         {"liblocker", our_open, our_cycle, NULL, our_close}};
    if (b->server.own.pid <= 0) {
        lk_bench_progress("net is left out: the proxy leads to a server of the benchmark's own");
        return true;
    }
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    return lk_far_row(b, "net", b->server.port, sides);
}
