/* row_readers_zookeeper.c: readers of one key on ZooKeeper, beside the single-threaded C client with all of a process in flight
 * on one session, and a key for each. A reader makes a node, lists, and deletes, as who is alone with a key does; where
 * each has its own key the lists are short, so this is the limit of readers who share one. */
#include "bench.h"

static const int64_t session = 10000; /* ms */
static const char own_key[] = "reader";

static void bare(lk_bench *b, const lk_readers *on, int each, size_t first)
{
    char name[64], own[64];
    (void)on;
    (void)snprintf(name, sizeof name, "%s-%zu", own_key, first);
    lk_zoo *zoo = lk_zoo_open(b, b->zoo.own.port, session);
    for (int i = 0; i < each; i++)
        lk_zoo_make(zoo, lk_lane_key(own, name, i));
    lk_bench_crew_ready(b);
    lk_zoo_lanes(zoo, name, false, each, first);
    lk_zoo_close(zoo);
}

bool lk_row_readers_zookeeper(lk_bench *b)
{
    lk_readers on = {.row = "zread", .against = "in flight", .cpu = b->client_cpu, .bare = bare};
    if (!lk_zoo_server_pin(b, b->server_cpu))
        return false;
    (void)lk_zoo_server_uri(on.uri, b->zoo.own.port, session);
    return lk_readers_run(b, &on);
}
