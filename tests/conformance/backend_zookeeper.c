/*
 * backend_zookeeper.c: the ZooKeeper driver's service is a server of the suite's own; compiled with LK_ZK_TLS
 * with TLS before it, with LK_ZK_SASL one that is logged in to by SASL, and with LK_ZK_ENSEMBLE three that
 * agree.
 */
#include <stdio.h>
#include <string.h>

#include <locker/conformance.h>

#include "expect.h"
#include "stunnel.h"
#include "subject.h"
#include "zkclient.h"

#if defined(LK_ZK_TLS)
static lk_server *tls; /* before the one server */

static void *start(char *uri, size_t size)
{
    lk_server *zk = lk_test_zookeeper(LK_LOGIN_NONE);
    char parameters[400];
    tls = lk_test_stunnel(zk->port);
    lk_stunnel_parameters(tls, "ca", "client", parameters, sizeof parameters);
    snprintf(uri, size, "zookeeper://127.0.0.1:%d/?namespace=suite&%s", tls->port, parameters);
    return zk;
}
#elif defined(LK_ZK_SASL)
static void *start(char *uri, size_t size)
{
    lk_server *zk = lk_test_zookeeper(LK_LOGIN_SASL);
    snprintf(uri, size, "zookeeper://%s:%s@127.0.0.1:%d/?namespace=suite&sasl=digest-md5", LK_SASL_USER,
             LK_SASL_PASSWORD, zk->port);
    return zk;
}
#elif defined(LK_ZK_ENSEMBLE)
static void *start(char *uri, size_t size)
{
    lk_server *members = lk_test_ensemble(0, 0, NULL);
    char hosts[100];
    lk_ensemble_hosts(members, hosts, sizeof hosts);
    snprintf(uri, size, "zookeeper://%s/?namespace=suite", hosts);
    return members;
}
#else
static void *start(char *uri, size_t size)
{
    lk_server *zk = lk_test_zookeeper(LK_LOGIN_NONE);
    snprintf(uri, size, "zookeeper://127.0.0.1:%d/?namespace=suite", zk->port);
    return zk;
}
#endif

static void stop(void *service)
{
#if defined(LK_ZK_TLS)
    lk_test_free(tls);
#endif
#if defined(LK_ZK_ENSEMBLE)
    lk_test_ensemble_free(service);
#else
    lk_test_free(service);
#endif
}

#if defined(LK_ZK_ENSEMBLE)
/* A server that has not answered for an eighth of the session time-out is left: three on one machine need that long at times. */
static locker_conformance_subject subject = {
    .size = sizeof subject, .start = start, .stop = stop, .kept_ttl_ms = 4000};
#else
static bool lose(void *service, const char *key)
{
    lk_zkc *client = lk_zkc_open(service);
    char parent[64], node[LK_ZKC_NAME_MAX];
    snprintf(parent, sizeof parent, "/suite/%s", key);
    lk_zkc_nth(client, parent, 0, node);
    assert_int_equal(lk_zkc_delete(client, node), LK_ZKC_OK);
    lk_zkc_close(client);
    return true;
}

/* Somebody queues behind the holder, who is taken away then. */
static bool replace(void *service, const char *key)
{
    lk_zkc *client = lk_zkc_open(service);
    char prefix[96];
    snprintf(prefix, sizeof prefix, "/suite/%s/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", key);
    assert_int_equal(lk_zkc_create(client, prefix, "somebody else", LK_ZKC_EPHEMERAL_SEQUENTIAL, NULL),
                     LK_ZKC_OK);
    lk_zkc_drop(client); /* the node lives as long as the session */
    return lose(service, key);
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
    return true;
}

static locker_conformance_subject subject = {.size = sizeof subject,
                                             .start = start,
                                             .stop = stop,
                                             .lose = lose,
                                             .replace = replace,
                                             .freeze = freeze,
                                             .thaw = thaw,
                                             .restart = restart};
#endif

int main(int argc, char **argv)
{
    subject.driver = lk_driver_of("zookeeper");
    return locker_conformance_run(&subject, argc, argv);
}
