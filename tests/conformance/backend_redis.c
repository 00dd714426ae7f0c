/* backend_redis.c: the Redis driver's service is a redis-server of the suite's own; see conformance.h. */
#include "conformance.h"

#include <stdio.h>

#include "server.h"

static void *start(void)
{
    return lk_server_start(NULL);
}

static void stop(void *service)
{
    lk_server_free(service);
}

static void uri(void *service, char *text, size_t size)
{
    struct lk_server *server = service;

    snprintf(text, size, "redis://127.0.0.1:%d/0?namespace=suite", server->port);
}

static void lose(void *service, const char *key)
{
    assert_int_equal(lk_server_integer(service, "DEL suite:%s", key), 1);
}

static void replace(void *service, const char *key)
{
    lk_server_do(service, "SET suite:%s somebody-else", key);
}

static void freeze(void *service)
{
    lk_server_freeze(service);
}

static void thaw(void *service)
{
    lk_server_thaw(service);
}

static void restart(void *service)
{
    lk_server_kill(service);
    lk_server_launch(service, true);
}

const struct lk_backend lk_backend_redis = {.name = "redis",
                                            .start = start,
                                            .stop = stop,
                                            .uri = uri,
                                            .lose = lose,
                                            .replace = replace,
                                            .freeze = freeze,
                                            .thaw = thaw,
                                            .restart = restart};
