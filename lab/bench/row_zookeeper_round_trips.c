/* row_zookeeper_round_trips.c: row znet: a ZooKeeper lock over a way that is 10 ms longer. Bare is the C
 * client. */
#include "bench.h"

static const int64_t session = 10000; /* ms */
static const char key[] = "far";

static void *bare_open(lk_bench *b, int port)
{
    lk_zoo *zoo = lk_zoo_open(b, port, session);
    lk_zoo_make(zoo, key);
    return zoo;
}

static void bare_cycle(lk_bench *b, void *client)
{
    (void)b;
    lk_zoo_lock(client, key, false);
    lk_zoo_unlock(client);
}

static void bare_request(void *client)
{
    lk_zoo_ping(client);
}

static void bare_close(void *client)
{
    lk_zoo_close(client);
}

static void *our_open(lk_bench *b, int port)
{
    char uri[LK_SERVER_TEXT];
    return lk_open_or_fail(b, lk_zoo_server_uri(uri, port, session));
}

static void our_cycle(lk_bench *b, void *client)
{
    lk_unlock_or_fail(b, lk_lock_or_fail(b, client, key, NULL));
}

static void our_close(void *client)
{
    (void)locker_close(client);
}

bool lk_row_znet(lk_bench *b)
{
    static const lk_far_side sides[2] = {{"st client", bare_open, bare_cycle, bare_request, bare_close},
                                         {"liblocker", our_open, our_cycle, NULL, our_close}};
    (void)lk_zoo_server_pin(b, b->server_cpu);
    return lk_far_row(b, "znet", b->zoo.own.port, sides);
}
