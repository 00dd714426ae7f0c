/* backend_etcd.c: the etcd driver's service is a server of the suite's own; compiled with LK_ETCD_TLS by TLS, with
 * LK_ETCD_ENSEMBLE three that agree. */
#include <stdio.h>

#include <locker/conformance.h>

#ifdef LK_ETCD_TLS
#include "certified.h"
#endif
#include "etcdctl.h"
#include "expect.h"
#include "subject.h"

#if defined(LK_ETCD_ENSEMBLE)
static void *start(char *uri, size_t size)
{
    lk_server *members = lk_test_etcd_ensemble(NULL, NULL);
    char hosts[100];
    lk_ensemble_hosts(members, hosts, sizeof hosts);
    snprintf(uri, size, "etcd://%s/?namespace=suite", hosts);
    return members;
}

static void stop(void *service)
{
    lk_test_ensemble_free(service);
}

/* A server that has not answered for a part of the lease is left: three on one machine need that long at times. */
static locker_conformance_subject subject = {
    .size = sizeof subject, .start = start, .stop = stop, .kept_ttl_ms = 4000};
#else
#if defined(LK_ETCD_TLS)
static void *start(char *uri, size_t size)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--client-cert-auth", NULL};
    lk_server *etcd = lk_test_etcd_tls(options);
    const char *directory = etcd->directory;
    snprintf(
        uri, size,
        "etcds://127.0.0.1:%d/?namespace=suite&tls_ca=%s/ca.crt&tls_cert=%s/client.crt&tls_key=%s/client.key",
        etcd->port, directory, directory, directory);
    return etcd;
}
#else
static void *start(char *uri, size_t size)
{
    lk_server *etcd = lk_test_etcd(NULL);
    snprintf(uri, size, "etcd://127.0.0.1:%d/?namespace=suite", etcd->port);
    return etcd;
}
#endif

static void stop(void *service)
{
    lk_test_free(service);
}

static bool lose(void *service, const char *key)
{
    char queue[96];
    snprintf(queue, sizeof queue, "suite/%s/", key);
    lk_etcdctl_do(service, "del %s", lk_etcdctl_nth(service, queue, 0).name);
    return true;
}

/* Somebody queues behind the holder, who is taken away then. */
static bool replace(void *service, const char *key)
{
    lk_etcdctl_do(service, "put suite/%s/somebody-else here", key);
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
                                             .restart = restart,
                                             .kept_ttl_ms = 2000,
                                             .freed_ttl_ms =
                                                 1500}; /* whole seconds, looked at twice a second */
#endif

int main(int argc, char **argv)
{
    subject.driver = lk_driver_of("etcd");
    return locker_conformance_run(&subject, argc, argv);
}
