/* row_cluster.c: row cluster: lock + unlock at a Redis Cluster of three masters, beside the same at one server: one thread, and 64
 * with keys of their own. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "servers/cluster.h"

enum { ALONE, CLUSTER, SIDES };

static lk_cluster cluster;

/* How many commands of these kinds it was sent, by clients alone: what scripts call is counted by Redis, too. */
static int64_t asked_of(const lk_server *server, const char *const *names)
{
    char answer[16384], line[40];
    int64_t total = 0;
    if (!lk_server_ask(server, "INFO commandstats", answer, sizeof answer))
        return 0;
    for (; *names != NULL; names++) {
        (void)snprintf(line, sizeof line, "cmdstat_%s:calls=", *names);
        const char *at = strstr(answer, line);
        total += at != NULL ? strtoll(at + strlen(line), NULL, 10) : 0;
    }
    return total;
}

/* Where nobody waits no script sets a lock but the first of its slot. */
static int64_t asked_of_server(lk_bench *b)
{
    static const char *const names[] = {"set", "incr", "evalsha", "eval", NULL};
    return asked_of(&b->server.own, names);
}

/* Of its masters; the others are sent nothing while it is measured. There all locks are taken by scripts. */
static int64_t asked_of_cluster(lk_bench *b)
{
    static const char *const names[] = {"evalsha", "eval", "asking", "cluster|slots", NULL};
    int64_t total = 0;
    (void)b;
    for (int i = 0; i < LK_CLUSTER_MASTERS; i++)
        total += asked_of(&cluster.node[i], names);
    return total;
}

static bool run(lk_bench *b, lk_side sides[SIDES])
{
    char hosts[300];
    (void)snprintf(sides[ALONE].uri, sizeof sides[ALONE].uri, "%s", b->server.uri);
    (void)snprintf(sides[CLUSTER].uri, sizeof sides[CLUSTER].uri, "redis+cluster://%s/",
                   lk_cluster_hosts(&cluster, 0, hosts, sizeof hosts));
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        (void)lk_bench_pin_process(cluster.node[i].pid, b->server_cpu);
    (void)lk_bench_redis_server_pin(b, b->server_cpu);
    for (int round = 0; round < b->rounds; round++)
        for (int which = 0; which < SIDES; which++)
            if (!lk_side_run(b, &sides[which]))
                return false;
    return true;
}

bool lk_row_cluster(lk_bench *b)
{
    /* Of all keys in turn, so of all masters. */
    lk_side sides[SIDES] = {{.keys = LK_SIDE_KEYS, .asked = asked_of_server},
                            {.keys = LK_SIDE_KEYS, .asked = asked_of_cluster}};
    if (b->server.own.pid <= 0) {
        lk_bench_progress("cluster is left out: it takes servers of our own");
        return true;
    }
    const bool good = lk_cluster_start(&cluster, &(lk_cluster_setup){0});
    if (!good)
        lk_bench_progress("%s", cluster.error);
    const bool ran = good && run(b, sides);
    lk_cluster_remove(&cluster);
    if (!ran)
        return false;
    lk_sides_report(b, "cluster", "one server", &sides[ALONE], &sides[CLUSTER]);
    return true;
}
