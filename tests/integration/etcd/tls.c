/* tls.c: a server that speaks TLS, and wants certificates of its clients; who it is not, and who may not. What TLS itself does
 * wrong is the same for all drivers that have it: the tests of Redis show it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "certified.h"
#include "etcd_tests.h"

static int start(void **state, const char *const *options)
{
    lk_env *env = calloc(1, sizeof *env);
    *state = env;
    if (env == NULL)
        return -1;
    env->etcd = lk_test_etcd_tls(options);
    return 0;
}

static int with_tls(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, NULL};
    return start(state, options);
}

static int with_clients_certificates(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--client-cert-auth", NULL};
    return start(state, options);
}

/* `ca`: whom we trust; `client`: what we show, NULL: nothing. */
static locker_status try_open(lk_env *env, const char *host, const char *ca, const char *client, locker **l,
                              locker_error *err)
{
    const char *const directory = env->etcd->directory;
    char certificate[256] = "";
    if (client != NULL)
        snprintf(certificate, sizeof certificate, "&tls_cert=%s/%s.crt&tls_key=%s/%s.key", directory, client,
                 directory, client);
    return lk_try_uri(l, err, "etcds://%s:%d/shop?ttl=3s&tls_ca=%s/%s.crt%s", host, env->etcd->port,
                      directory, ca, certificate);
}

static void refused(lk_env *env, locker_status wanted, const char *ca, const char *client, const char *words)
{
    locker *l;
    locker_error err;
    assert_status(wanted, try_open(env, "127.0.0.1", ca, client, &l, &err), err);
    if (strstr(err.text, words) == NULL)
        test_fails("'%s' is not in '%s'", words, err.text);
}

static void hand_on(lk_env *env, const char *client)
{
    locker *l, *rival;
    locker_error err;
    lk_locking waiter;
    assert_ok(try_open(env, "127.0.0.1", "ca", client, &l, &err), err);
    assert_ok(try_open(env, "localhost", "ca", client, &rival, &err), err);
    locker_handle *held = lk_take(l, "tls");
    lk_locking_start(&waiter, rival, "tls", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/tls/", 2);
    lk_require_renewal(l);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void locks_are_taken_and_handed_on(void **state)
{
    hand_on(*state, NULL);
}

static void clients_certificates_are_shown(void **state)
{
    lk_env *env = *state;
    hand_on(env, "client");
    refused(env, LOCKER_DENIED, "ca", NULL, "client's certificate");
    refused(env, LOCKER_DENIED, "ca", "other", "refuses the client's certificate");
}

static void another_server_is_not_trusted(void **state)
{
    refused(*state, LOCKER_PROTOCOL, "other-ca", NULL, "not trusted");
}

static void a_restart_loses_nothing(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    char uri[512];
    snprintf(uri, sizeof uri, "etcds://127.0.0.1:%d/shop?ttl=60s&tls_ca=%s/ca.crt", env->etcd->port,
             env->etcd->directory);
    assert_ok(lk_try_uri(&l, &err, "%s", uri), err);
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->etcd);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    lk_test_launch(env->etcd, true);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* Each is told what the other end speaks, or that it speaks nothing that is understood; and none hangs. */
static void errors_name_the_protocol_of_the_other_end(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    assert_int_not_equal(lk_try_uri(&l, &err, "etcd://127.0.0.1:%d/shop", env->etcd->port), LOCKER_OK);
    if (strstr(err.text, "TLS") == NULL)
        test_fails("'%s' does not tell of TLS", err.text);
    assert_int_not_equal(lk_try_uri(&l, &err, "etcds://127.0.0.1:%d/shop?tls_ca=%s/ca.crt",
                                    env->etcd->election_port, env->etcd->directory),
                         LOCKER_OK);
    if (strstr(err.text, "its TLS port") == NULL)
        test_fails("'%s' does not ask for a port of TLS", err.text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(locks_are_taken_and_handed_on, with_tls, lk_env_end),
    cmocka_unit_test_setup_teardown(clients_certificates_are_shown, with_clients_certificates, lk_env_end),
    cmocka_unit_test_setup_teardown(another_server_is_not_trusted, with_tls, lk_env_end),
    cmocka_unit_test_setup_teardown(a_restart_loses_nothing, with_tls, lk_env_end),
    cmocka_unit_test_setup_teardown(errors_name_the_protocol_of_the_other_end, with_tls, lk_env_end),
};

const lk_group lk_tls = {"tls", tests, sizeof tests / sizeof tests[0], NULL, NULL};
