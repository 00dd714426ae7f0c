/* sentinels_tls.c: TLS with Sentinels and not with the servers, and the other way round. Each Sentinel serves at a port without
 * TLS and at one with. */
#include "sentinel_house.h"

#include <stdio.h>
#include <string.h>

/* A house whose certificates lie in the master's directory, without Sentinels. */
static int begin(void **state)
{
    lk_house *h = lk_house_new();
    *state = h;
    lk_test_certificates(h->master);
    return 0;
}

#define tls_test(f) cmocka_unit_test_setup_teardown(f, begin, lk_house_end)

/* A word of its own in the house, which lasts as long as that. */
static const char *word(lk_house *h, size_t *used, const char *name)
{
    char *const out = h->text + *used;
    const int length = snprintf(out, sizeof h->text - *used, "%s%s", h->master->directory, name);
    *used += (size_t)length + 1;
    assert_true(*used < sizeof h->text);
    return out;
}

/* Starts the Sentinels, and answers their ports for TLS; `port` is the master's, spoken to by TLS or not. */
static void watch(lk_house *h, int port, const char *by_tls, int tls_port[LK_SENTINELS])
{
    size_t used = 0;
    const char *const certificate = word(h, &used, "/server.crt"), *const key = word(h, &used, "/server.key"),
                      *const ca = word(h, &used, "/ca.crt");
    for (int i = 0; i < LK_SENTINELS; i++) {
        char number[16];
        tls_port[i] = lk_free_port();
        snprintf(number, sizeof number, "%d", tls_port[i]);
        const char *const options[] = {"--tls-port",
                                       number,
                                       "--tls-cert-file",
                                       certificate,
                                       "--tls-key-file",
                                       key,
                                       "--tls-ca-cert-file",
                                       ca,
                                       "--tls-auth-clients",
                                       "no",
                                       "--tls-replication",
                                       by_tls,
                                       NULL};
        lk_house_sentinel(h, i, options);
        lk_house_watch(h, i, port);
    }
}

static void require_lock_at(const lk_server *server)
{
    char answer[100];
    assert_true(lk_server_ask(server, "EXISTS k", answer, sizeof answer));
    assert_string_equal(answer, "1");
}

/* The lock is taken at the master, and at the replica when that is made master. */
static void followed(lk_house *h, locker *l, int port, int next_port)
{
    locker_handle *held = lk_take(l, "k");
    require_lock_at(h->master);
    lk_give(held);
    lk_house_require_known(h, port, 1);
    lk_server_kill(h->master);
    assert_int_equal(lk_house_require_other(h, port), next_port);
    held = lk_take(l, "k");
    require_lock_at(h->replica);
    lk_give(held);
    lk_close_locker(l);
}

static void refused(const lk_house *h, const char *scheme, const char *query, const char *words)
{
    locker_error err;
    locker *l;
    assert_int_not_equal(lk_house_try_open(h, scheme, lk_master_name, query, &l, &err), LOCKER_OK);
    if (strstr(err.text, words) == NULL)
        test_fails("'%s' has no '%s'", err.text, words);
}

static void tls_with_the_sentinels_alone(void **state)
{
    lk_house *h = *state;
    char query[200];
    locker_error err;
    locker *l;
    int ports[LK_SENTINELS];
    watch(h, h->master->port, "no", ports);
    memcpy(h->port, ports, sizeof ports);
    refused(h, "redis+sentinel", "", "TLS port, set sentinel_tls=on");
    snprintf(query, sizeof query, "sentinel_tls=on&tls_ca=%s/other-ca.crt", h->master->directory);
    refused(h, "redis+sentinel", query, "the certificate of Sentinel at 127.0.0.1:");
    snprintf(query, sizeof query, "sentinel_tls=on&tls_ca=%s/ca.crt&ttl=5s", h->master->directory);
    assert_ok(lk_house_try_open(h, "redis+sentinel", lk_master_name, query, &l, &err), err);
    followed(h, l, h->master->port, h->replica->port);
}

/* The server's TLS port, for others and for its replication. */
static int serve_by_tls(const lk_house *h, lk_server *server)
{
    const char *const directory = h->master->directory;
    const int port = lk_free_port();
    lk_server_do(
        server,
        "CONFIG SET tls-cert-file %s/server.crt tls-key-file %s/server.key tls-ca-cert-file %s/ca.crt "
        "tls-auth-clients no tls-replication yes tls-port %d",
        directory, directory, directory, port);
    return port;
}

static bool is_linked(void *replica)
{
    char text[8192];
    lk_server_text(replica, text, sizeof text, "INFO replication");
    return strstr(text, "master_link_status:up") != NULL;
}

/* What the Sentinels name is checked as well as what a URI names: the certificate has to be for that address. */
static void tls_with_the_servers_alone(void **state)
{
    lk_house *h = *state;
    char query[200];
    locker_error err;
    locker *l;
    int unused[LK_SENTINELS];
    const int port = serve_by_tls(h, h->master), next_port = serve_by_tls(h, h->replica);
    lk_server_do(h->replica, "REPLICAOF 127.0.0.1 %d", port);
    lk_require(is_linked, h->replica, "the replica should follow");
    watch(h, port, "yes", unused);
    snprintf(query, sizeof query, "tls_ca=%s/ca.crt", h->master->directory);
    refused(h, "rediss+sentinel", query,
            "does not speak TLS at this port; name its TLS port, or set sentinel_tls=off");
    snprintf(query, sizeof query, "sentinel_tls=off&tls_ca=%s/ca.crt&tls_name=another", h->master->directory);
    refused(h, "rediss+sentinel", query, "the certificate of Redis at 127.0.0.1:");
    snprintf(query, sizeof query, "sentinel_tls=off&tls_ca=%s/ca.crt&ttl=5s", h->master->directory);
    assert_ok(lk_house_try_open(h, "rediss+sentinel", lk_master_name, query, &l, &err), err);
    followed(h, l, port, next_port);
}

static const struct CMUnitTest tests[] = {
    tls_test(tls_with_the_sentinels_alone),
    tls_test(tls_with_the_servers_alone),
};

const lk_group lk_sentinels_tls = {"sentinels_tls", tests, sizeof tests / sizeof tests[0], NULL, NULL};
