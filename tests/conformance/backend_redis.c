/* backend_redis.c: the Redis driver's service is a redis-server of the suite's own; compiled with LK_REDIS_TLS, by TLS. */
#include <stdio.h>

#include <locker/conformance.h>

#include "expect.h"
#include "subject.h"
#include "test_redis.h"
#ifdef LK_REDIS_TLS
#include "test_tls.h"

static int tls_port; /* 0: it has none yet */

/* A server that was started anew has forgotten it. */
static void speak_tls(lk_server *server)
{
    tls_port = lk_test_speak_tls(server, tls_port, "server", "yes");
}

static void *start(char *uri, size_t size)
{
    lk_server *server = lk_test_redis(NULL);
    const char *directory = server->directory;
    lk_test_certificates(server);
    speak_tls(server);
    snprintf(
        uri, size,
        "rediss://127.0.0.1:%d/0?namespace=suite&tls_ca=%s/ca.crt&tls_cert=%s/client.crt&tls_key=%s/client.key",
        tls_port, directory, directory, directory);
    return server;
}
#else
static void speak_tls(lk_server *server)
{
    (void)server;
}

static void *start(char *uri, size_t size)
{
    lk_server *server = lk_test_redis(NULL);
    snprintf(uri, size, LK_SCHEME("redis") "://127.0.0.1:%d/0?namespace=suite", server->port);
    return server;
}
#endif

static void stop(void *service)
{
    lk_test_redis_free(service);
}

static bool lose(void *service, const char *key)
{
    assert_int_equal(lk_server_integer(service, "DEL suite:%s", key), 1);
    return true;
}

static bool replace(void *service, const char *key)
{
    lk_server_do(service, "SET suite:%s somebody-else", key);
    return true;
}

static bool freeze(void *service)
{
    lk_test_freeze(service);
    return true;
}

static bool thaw(void *service)
{
    lk_server_thaw(service);
    return true;
}

static bool restart(void *service)
{
    lk_server_kill(service);
    lk_test_launch(service, true);
    speak_tls(service);
    return true;
}

int main(int argc, char **argv)
{
    const locker_conformance_subject subject = {.size = sizeof subject,
                                                .driver = lk_driver_of(LK_SCHEME("redis")),
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
