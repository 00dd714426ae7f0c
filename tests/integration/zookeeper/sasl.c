/* sasl.c: logins by SASL, with a client library that has it and a server that knows two users. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sasl/sasl.h>

#include "../../../backends/zookeeper/net/tls_sasl.h"
#include "host_name.h"
#include "zk_tests.h"

/* The driver declares by itself what it gives to Cyrus' library. */
_Static_assert(sizeof(lk_zk_sasl_callback) == sizeof(sasl_callback_t), "sasl_callback_t");
_Static_assert(offsetof(lk_zk_sasl_callback, id) == offsetof(sasl_callback_t, id), "id");
_Static_assert(offsetof(lk_zk_sasl_callback, proc) == offsetof(sasl_callback_t, proc), "proc");
_Static_assert(offsetof(lk_zk_sasl_callback, context) == offsetof(sasl_callback_t, context), "context");
_Static_assert(sizeof(lk_zk_sasl_secret) == sizeof(sasl_secret_t), "sasl_secret_t");
_Static_assert(offsetof(lk_zk_sasl_secret, len) == offsetof(sasl_secret_t, len), "len");
_Static_assert(offsetof(lk_zk_sasl_secret, data) == offsetof(sasl_secret_t, data), "data");
_Static_assert(LK_ZK_SASL_LIST_END == SASL_CB_LIST_END && LK_ZK_SASL_LOG == SASL_CB_LOG &&
                   LK_ZK_SASL_USER == SASL_CB_USER && LK_ZK_SASL_AUTHNAME == SASL_CB_AUTHNAME &&
                   LK_ZK_SASL_PASS == SASL_CB_PASS && LK_ZK_SASL_GETREALM == SASL_CB_GETREALM,
               "SASL_CB_");

/* One server serves all tests of the group; each begins with it running. */
static lk_server *server;

static int begin_group(void **state)
{
    (void)state;
    if (!lk_client_has("zookeeper_init_sasl"))
        test_fails("the client library has no SASL; build one with %s, and put it into LD_LIBRARY_PATH",
                   "script/zookeeper-client");
    server = lk_test_zookeeper(LK_LOGIN_SASL_ONLY);
    return 0;
}

static int end_group(void **state)
{
    (void)state;
    lk_test_free(server);
    return 0;
}

static int sasl_env(void **state)
{
    if (lk_env_empty(state) != 0)
        return -1;
    if (server->pid == 0)
        lk_test_launch(server, true);
    ((lk_env *)*state)->zk = server;
    return 0;
}

/* The server stays. */
static int sasl_end(void **state)
{
    lk_env *env = *state;
    lk_server_thaw(env->zk);
    env->zk = NULL;
    return lk_env_end(state);
}

#define sasl_test(f) cmocka_unit_test_setup_teardown(f, sasl_env, sasl_end)

static locker *open_sasl(const lk_env *env, const char *login, const char *rest)
{
    return lk_open_uri("zookeeper://%s@127.0.0.1:%d/shop?sasl=digest-md5%s", login, env->zk->port, rest);
}

#define OURS   LK_SASL_USER ":" LK_SASL_PASSWORD
#define THEIRS LK_SASL_OTHER ":" LK_SASL_OTHERS

/* Locks of one user, who has several programs, and of nobody else. */
static void locks_are_the_users_alone(void **state)
{
    lk_env *env = *state;
    locker *l = open_sasl(env, OURS, ""), *rival = open_sasl(env, OURS, ""),
           *other = open_sasl(env, THEIRS, "");
    locker_handle *held = lk_take(l, "mine"), *none = NULL;
    lk_locking waiter;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_expect_busy(rival, "mine");
    lk_locking_start(&waiter, rival, "mine", NULL);
    lk_require_waiting(rival, 1);
    assert_status(LOCKER_DENIED, locker_try_lock(other, "mine", NULL, &none, &err), err);
    assert_status(LOCKER_DENIED, locker_break(other, "mine", NULL, &info, &err), err);
    lk_give(lk_take(other, "theirs"));
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(other);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void refused(const lk_env *env, locker_status wanted, const char *login, const char *parameters,
                    const char *words)
{
    const int64_t began = lk_test_now_ms();
    locker_error err;
    locker *l;
    assert_status(
        wanted, lk_try_uri(&l, &err, "zookeeper://%s127.0.0.1:%d/shop?%s", login, env->zk->port, parameters),
        err);
    if (strstr(err.text, words) == NULL || strstr(err.text, LK_SASL_PASSWORD) != NULL)
        test_fails("'%s' should have said '%s', and no password", err.text, words);
    assert_timely(lk_test_now_ms() - began, 5000); /* the answer, not the time-out */
}

static void a_client_that_does_not_log_in_is_refused(void **state)
{
    lk_env *env = *state;
    locker *plain = lk_open_at(env->zk, "/shop");
    locker_handle *none = NULL;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    refused(env, LOCKER_DENIED, LK_SASL_USER ":wrong@", "sasl=digest-md5", "check user and password");
    refused(env, LOCKER_DENIED, "nobody:wrong@", "sasl=DIGEST-MD5", "check user and password");
    refused(env, LOCKER_CONFIG, "", "sasl=digest-md5", "user is missing");
    refused(env, LOCKER_CONFIG, LK_SASL_USER "@", "sasl=digest-md5", "no password");
    refused(env, LOCKER_UNSUPPORTED, OURS "@", "sasl=abracadabra", "no mechanism 'abracadabra'");
    refused(env, LOCKER_CONFIG, OURS "@", "sasl_host=here", "needs sasl");
    assert_status(LOCKER_DENIED, locker_try_lock(plain, "any", NULL, &none, &err), err);
    assert_non_null(strstr(err.text, "sasl=digest-md5"));
    assert_status(LOCKER_DENIED, locker_ping(plain, NULL, &err), err);
    assert_status(LOCKER_DENIED, locker_show(plain, "any", &info, &err), err);
    assert_status(LOCKER_DENIED, locker_break(plain, "any", NULL, NULL, &err), err);
    (void)locker_close(plain);
}

/* A server that knows nothing of SASL. */
static void a_server_without_sasl_refuses(void **state)
{
    lk_env *env = *state;
    refused(env, LOCKER_DENIED, OURS "@", "sasl=digest-md5", "that the servers support this mechanism");
}

/* Cyrus' library asks for this host's own name, and the answer takes longer than one has time. */
static void a_login_that_does_not_begin_says_why(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    lk_host_name_delay(4);
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&l, &err,
                             "zookeeper://" OURS "@127.0.0.1:%d/?sasl=digest-md5&connect_timeout=2s",
                             env->zk->port),
                  err);
    lk_host_name_delay(0);
    assert_non_null(strstr(err.text, "looking up this host's name"));
    lk_close_locker(open_sasl(env, OURS, ""));
}

/* Each connection logs in anew. */
static void a_lost_connection_loses_no_lock(void **state)
{
    lk_env *env = *state;
    locker *l = open_sasl(env, OURS, "&ttl=20s");
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->zk);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    lk_test_launch(env->zk, true);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* And so does a new session. */
static void an_expired_session(void **state)
{
    lk_env *env = *state;
    locker *l = open_sasl(env, OURS, "&ttl=1s");
    locker_handle *held = lk_take(l, "gone");
    lk_test_freeze(env->zk);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_server_thaw(env->zk);
    lk_give(lk_take(l, "gone"));
    lk_give_lost(held);
    lk_close_locker(l);
}

static void restart_with(const lk_env *env, const char *password)
{
    lk_server_kill(env->zk);
    assert_true(lk_zookeeper_set_password(env->zk, password));
    lk_test_launch(env->zk, true);
}

static bool is_served(void *context)
{
    return locker_ping(context, NULL, NULL) == LOCKER_OK;
}

/* Who is refused meanwhile is told so, and comes back by himself. */
static void a_password_that_is_changed_and_back(void **state)
{
    lk_env *env = *state;
    locker *l = open_sasl(env, OURS, "&ttl=20s");
    locker_handle *held = lk_take(l, "changed"), *none = NULL;
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_error err;
    restart_with(env, "another");
    lk_require_state(held, LOCKER_STATE_LOST);
    assert_status(LOCKER_DENIED, locker_lock(l, "other", &options, &none, &err), err);
    restart_with(env, LK_SASL_PASSWORD);
    lk_require(is_served, l, "the login should be accepted again");
    lk_give(lk_take(l, "other"));
    lk_give_lost(held);
    lk_close_locker(l);
}

/* First in the file and then at the server, which restarts: the next login is made by the new one, and no lock is lost. */
static void a_password_that_changes_is_read_again(void **state)
{
    lk_env *env = *state;
    char path[128], rest[160];
    (void)snprintf(path, sizeof path, "%s/password", env->zk->directory);
    (void)snprintf(rest, sizeof rest, "&ttl=20s&password_file=%s", path);
    assert_true(lk_server_write(env->zk, "password", LK_SASL_PASSWORD "\n"));
    locker *const l = open_sasl(env, LK_SASL_USER, rest);
    locker_handle *held = lk_take(l, "rotated");
    assert_true(lk_server_write(env->zk, "password", "another\n"));
    restart_with(env, "another");
    lk_require(is_served, l, "the new password should be known");
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    restart_with(env, LK_SASL_PASSWORD); /* which the file has not */
    assert_int_equal(unlink(path), 0);
    lk_close_locker(l);
}

enum { THREADS = 8, CYCLES = 5 };

static void *open_and_close(void *context)
{
    const lk_env *env = context;
    uintptr_t done = 0;
    for (int i = 0; i < CYCLES; i++) {
        locker_handle *held = NULL;
        locker_error err = {0};
        locker *l;
        char uri[128];

        snprintf(uri, sizeof uri, "zookeeper://" OURS "@127.0.0.1:%d/shop?sasl=digest-md5", env->zk->port);
        if (locker_open(uri, NULL, &l, &err) != LOCKER_OK) {
            print_error("%s\n", err.text);
            continue;
        }
        if (locker_lock(l, "many", NULL, &held, &err) == LOCKER_OK && locker_unlock(held, &err) == LOCKER_OK)
            done++;
        else
            print_error("%s\n", err.text);
        locker_handle_free(held);
        (void)locker_close(l);
    }
    return (void *)done;
}

/* Cyrus' library has state of the process. */
static void many_log_in_at_once(void **state)
{
    lk_env *env = *state;
    pthread_t threads[THREADS];
    void *done;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, env), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_int_equal((uintptr_t)done, CYCLES);
    }
}

static const struct CMUnitTest tests[] = {
    sasl_test(locks_are_the_users_alone),
    sasl_test(a_client_that_does_not_log_in_is_refused),
    server_test(a_server_without_sasl_refuses),
    sasl_test(a_login_that_does_not_begin_says_why),
    sasl_test(a_lost_connection_loses_no_lock),
    sasl_test(an_expired_session),
    sasl_test(a_password_that_is_changed_and_back),
    sasl_test(a_password_that_changes_is_read_again),
    sasl_test(many_log_in_at_once),
};

const lk_group lk_sasl = {"sasl", tests, sizeof tests / sizeof tests[0], begin_group, end_group};
