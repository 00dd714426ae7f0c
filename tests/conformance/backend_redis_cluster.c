/* backend_redis_cluster.c: the Redis driver's service is a Redis Cluster of the suite's own. */
#include <stdio.h>

#include <locker/conformance.h>

#include "expect.h"
#include "servers/cluster.h"
#include "subject.h"

static void need(lk_cluster *cluster, bool good)
{
    if (!good)
        test_fails("%s", cluster->error);
}

static void *start(char *uri, size_t size)
{
    static const char *const options[] = {"--appendonly", "yes", "--appendfsync", "no", NULL};
    static lk_cluster cluster;
    char hosts[300];
    need(&cluster, lk_cluster_start(&cluster, &(lk_cluster_setup){.options = options}));
    snprintf(uri, size, "redis+cluster://%s/?namespace=suite",
             lk_cluster_hosts(&cluster, 0, hosts, sizeof hosts));
    return &cluster;
}

static void stop(void *service)
{
    lk_cluster_remove(service);
}

/* A command about the key, at the node that has it. */
static bool command(lk_cluster *cluster, const char *format, const char *key, const char *wanted)
{
    char name[200], question[300], answer[100];
    snprintf(name, sizeof name, "suite:%s", key);
    snprintf(question, sizeof question, format, name);
    const int node = lk_cluster_owner(cluster, lk_cluster_slot(name));
    assert_true(node >= 0 && lk_server_ask(&cluster->node[node], question, answer, sizeof answer));
    assert_string_equal(answer, wanted);
    return true;
}

static bool lose(void *service, const char *key)
{
    return command(service, "DEL %s", key, "1");
}

static bool replace(void *service, const char *key)
{
    return command(service, "SET %s somebody-else", key, "OK");
}

static bool freeze(void *service)
{
    lk_cluster *cluster = service;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        assert_true(lk_server_freeze(&cluster->node[i]));
    return true;
}

static bool thaw(void *service)
{
    lk_cluster *cluster = service;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        lk_server_thaw(&cluster->node[i]);
    return true;
}

static bool restart(void *service)
{
    lk_cluster *cluster = service;
    for (int i = 0; i < LK_CLUSTER_NODES; i++)
        lk_server_kill(&cluster->node[i]);
    need(cluster, lk_cluster_heal(cluster));
    return true;
}

int main(int argc, char **argv)
{
    const locker_conformance_subject subject = {.size = sizeof subject,
                                                .driver = lk_driver_of("redis+cluster"),
                                                .start = start,
                                                .stop = stop,
                                                .poll_ms = 1000,
                                                .lose = lose,
                                                .replace = replace,
                                                .freeze = freeze,
                                                .thaw = thaw,
                                                .restart = restart};
    return locker_conformance_run(&subject, argc, argv);
}
