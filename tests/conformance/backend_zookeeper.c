/* backend_zookeeper.c: the ZooKeeper driver's service is a server of the suite's own; see conformance.h. */
#include "conformance.h"

#include <stdio.h>

#include "zkclient.h"

/* Leases are sessions here, so the server grants none that the suite would have to wait long for. */
enum { SESSION_MAX_MS = 700 };

static void *start(void)
{
    return lk_zks_start_capped(SESSION_MAX_MS);
}

static void stop(void *service)
{
    lk_zks_free(service);
}

static void uri(void *service, char *text, size_t size)
{
    const struct lk_zks *zk = service;

    snprintf(text, size, "zookeeper://127.0.0.1:%d/?namespace=suite", zk->port);
}

static void lose(void *service, const char *key)
{
    struct lk_zkc *client = lk_zkc_open(service);
    char parent[64], node[LK_ZKC_NAME_MAX];

    snprintf(parent, sizeof parent, "/suite/%s", key);
    lk_zkc_nth(client, parent, 0, node);
    assert_int_equal(lk_zkc_delete(client, node), LK_ZKC_OK);
    lk_zkc_close(client);
}

/* Somebody queues behind the holder, who is taken away then. */
static void replace(void *service, const char *key)
{
    struct lk_zkc *client = lk_zkc_open(service);
    char prefix[96];

    snprintf(prefix, sizeof prefix, "/suite/%s/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", key);
    assert_int_equal(lk_zkc_create(client, prefix, "somebody else", LK_ZKC_EPHEMERAL_SEQUENTIAL, NULL),
                     LK_ZKC_OK);
    lk_zkc_drop(client); /* the node lives as long as the session */
    lose(service, key);
}

static void freeze(void *service)
{
    lk_zks_freeze(service);
}

static void thaw(void *service)
{
    lk_zks_thaw(service);
}

static void restart(void *service)
{
    lk_zks_kill(service);
    lk_zks_launch(service, true);
}

const struct lk_backend lk_backend_zookeeper = {.name = "zookeeper",
                                                .start = start,
                                                .stop = stop,
                                                .uri = uri,
                                                .lose = lose,
                                                .replace = replace,
                                                .freeze = freeze,
                                                .thaw = thaw,
                                                .restart = restart};
