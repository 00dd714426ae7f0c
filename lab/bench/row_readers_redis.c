/* row_readers_redis.c: readers of one key on Redis, beside hiredis with a connection for each: a script that looks whether a
 * writer has the key and adds a member with its end to a sorted set, and ZREM. Less a reader can't ask for: it has to
 * see the writer and be seen by the next one, in one step, and to go. It does not fence, renew, queue or ride. */
#include <stdlib.h>

#include "bench.h"

static void read_once(lk_bench *b, size_t index, void *arg)
{
    lk_bare *const *each = arg;
    (void)b;
    lk_bare_share(each[index], "bench:readers:bare", (int)index);
}

static void bare(lk_bench *b, const lk_readers *on, int each, size_t first)
{
    lk_bare **connections = calloc((size_t)each, sizeof *connections);
    (void)on;
    if (connections == NULL)
        lk_bench_crew_fail(b, "out of memory");
    for (int i = 0; i < each; i++)
        connections[i] = lk_bare_open(b);
    lk_readers_turns(b, each, first, read_once, connections);
    for (int i = 0; i < each; i++)
        lk_bare_close(connections[i]);
    free(connections);
}

bool lk_row_readers_redis(lk_bench *b)
{
    lk_readers on = {.row = "read", .against = "a connection each", .cpu = b->client_cpu, .bare = bare};
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    (void)lk_bench_redis_server_uri(b, on.uri, "");
    return lk_readers_run(b, &on);
}
