/* users.c: a server that wants to know who asks: a user and a password in the URI, wrong ones, one who may not, and a login
 * that the server has forgotten. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <locker/driver.h>

#include "etcd_tests.h"

/* They may write below shop/; the other one nowhere. */
#define USER     "clerk"
#define PASSWORD "sesame-4711"
#define OTHER    "guest"
#define OTHERS   "guest-0815"

static int with_users_and(void **state, const char *const *options)
{
    static const char *const lines[] = {"user add root:root-1",
                                        "user grant-role root root",
                                        "role add clerks",
                                        "user add " USER ":" PASSWORD,
                                        "user add " OTHER ":" OTHERS,
                                        "role grant-permission clerks --prefix=true readwrite shop/",
                                        "user grant-role " USER " clerks",
                                        "auth enable"};
    if (lk_env_with(state, options) != 0)
        return -1;
    const lk_env *env = *state;
    lk_etcdctl_do(env->etcd, "role add root");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        lk_etcdctl_do(env->etcd, "%s", lines[i]);
    return setenv("ETCDCTL_USER", "root:root-1", 1);
}

static int with_users(void **state)
{
    return with_users_and(state, NULL);
}

/* What a login is given is good for a second. Any file is a secret. */
static int with_brief_logins(void **state)
{
    static const char *const options[] = {
        LK_TEST_ETCD_FAST, "--auth-token=jwt,sign-method=HS256,priv-key=/etc/passwd,ttl=1s", NULL};
    return with_users_and(state, options);
}

static int end(void **state)
{
    unsetenv("ETCDCTL_USER");
    return lk_env_end(state);
}

static locker *open_as(const lk_env *env, const char *who, const char *rest)
{
    locker *l;
    locker_error err;
    assert_ok(lk_try_uri(&l, &err, "etcd://%s@127.0.0.1:%d%s", who, env->etcd->port, rest), err);
    return l;
}

static void a_user_and_a_password(void **state)
{
    lk_env *env = *state;
    locker *l = open_as(env, USER ":" PASSWORD, "/shop?ttl=3s"),
           *rival = open_as(env, USER ":" PASSWORD, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "known");
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "known", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/known/", 2);
    lk_require_renewal(l);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void write_password(const char *path, const char *password)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%s\n", password);
    fclose(file);
}

/* Open a locker with this lease time whose password is in a file; `path` gets the file's. */
static locker *open_by_file(lk_env *env, int port, const char *ttl, char path[128])
{
    locker *l;
    locker_error err;
    (void)snprintf(path, 128, "%s/password", env->etcd->directory);
    write_password(path, PASSWORD);
    assert_ok(
        lk_try_uri(&l, &err, "etcd://" USER "@127.0.0.1:%d/shop?ttl=%s&password_file=%s", port, ttl, path),
        err);
    return l;
}

/* Give the user another password, in the file and at the server. */
static void change_password(lk_env *env, const char *path)
{
    write_password(path, "the-second");
    lk_etcdctl_do(env->etcd, "user delete " USER);
    lk_etcdctl_do(env->etcd, "user add " USER ":the-second");
    lk_etcdctl_do(env->etcd, "user grant-role " USER " clerks");
}

static void a_password_that_changes_is_read_again(void **state)
{
    lk_env *env = *state;
    char path[128];
    locker *const l = open_by_file(env, env->etcd->port, "30s", path);
    lk_give(lk_take(l, "rotated"));
    change_password(env, path);
    lk_give(lk_take(l, "rotated"));
    lk_close_locker(l);
}

static atomic_bool file_hangs, went_on;
static lk_gate came, go_on, gone;

typedef char *read_secret(const char *, locker_error *);

/* Of the whole program, exported to the libraries that it loads (CMakeLists.txt), instead of the library's. */
__attribute__((visibility("default"))) char *locker_secret_read(const char *file, locker_error *err)
{
    read_secret *real;
    *(void **)&real = dlsym(RTLD_NEXT, "locker_secret_read");
    const bool hangs = atomic_load(&file_hangs);
    if (hangs) {
        lk_gate_open(&came, 1);
        (void)lk_gate_pass(&go_on);
        atomic_store(&went_on, true);
    }
    char *const secret = real(file, err);
    if (hangs)
        lk_gate_open(&gone, 1);
    return secret;
}

/* The file is on a server that hangs: the login is made by the password that is known, and calls wait for that alone. */
static void a_password_file_that_hangs(void **state)
{
    lk_env *env = *state;
    char path[128];
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    locker *const l = open_by_file(env, lk_proxy_port(env->proxy), "3s", path);
    locker_handle *held = lk_take(l, "held");
    lk_gate_init(&came);
    lk_gate_init(&go_on);
    lk_gate_init(&gone);
    atomic_store(&went_on, false);
    atomic_store(&file_hangs, true);
    for (int i = 0; i < 2; i++) { /* a login that finds it hanging waits no more */
        lk_proxy_cut_all(env->proxy);
        lk_give(lk_take(l, "other"));
    }
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
    lk_gate_await(&came, 1, "the file should have been read again");
    assert_false(atomic_load(&went_on));
    atomic_store(&file_hangs, false);
    lk_gate_open(&go_on, 1);
    lk_gate_await(&gone, 1, "the thread that reads should go on");
}

static bool is_denied(void *l)
{
    locker_handle *held = NULL;
    const locker_status status = locker_try_lock(l, "other", NULL, &held, NULL);
    if (status == LOCKER_OK)
        lk_give(held);
    return status == LOCKER_DENIED;
}

static bool is_served(void *l)
{
    locker_handle *held = NULL;
    const bool serves = locker_try_lock(l, "other", NULL, &held, NULL) == LOCKER_OK;
    if (serves)
        lk_give(held);
    return serves;
}

/* The file takes longer to be read than a login waits for it, each time. A later login is made by what has been read meanwhile. */
static void a_password_file_that_is_slow(void **state)
{
    lk_env *env = *state;
    char path[128];
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    locker *const l = open_by_file(env, lk_proxy_port(env->proxy), "3s", path);
    lk_give(lk_take(l, "other"));
    change_password(env, path);
    lk_gate_init(&came);
    lk_gate_init(&go_on);
    lk_gate_init(&gone);
    atomic_store(&file_hangs, true);
    lk_proxy_cut_all(env->proxy);
    lk_require(is_denied, l, "the first password should be denied");
    lk_gate_open(&go_on, 1);
    lk_gate_await(&gone, 1, "the thread that reads should go on");
    lk_require(is_served, l, "the second password should be known");
    lk_gate_await(&came, 2, "the file should have been read again");
    atomic_store(&file_hangs, false);
    lk_gate_open(&go_on, 1);
    lk_gate_await(&gone, 1, "the thread that reads should go on");
    lk_close_locker(l);
}

/* What is said of it has no password. */
static void expect_denied(lk_env *env, const char *who)
{
    locker *l;
    locker_handle *held = NULL;
    locker_error err;
    locker_status status = lk_try_uri(&l, &err, "etcd://%s127.0.0.1:%d/shop", who, env->etcd->port);
    if (status == LOCKER_OK) {
        status = locker_try_lock(l, "denied", NULL, &held, &err);
        lk_close_locker(l);
    }
    assert_status(LOCKER_DENIED, status, err);
    assert_null(strstr(err.text, "4711"));
    assert_null(strstr(err.text, "0815"));
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/"), 0);
}

static void a_wrong_password_is_denied(void **state)
{
    expect_denied(*state, USER ":wrong-4711@");
    expect_denied(*state, "nobody:" PASSWORD "@");
}

static void a_user_without_rights_is_denied(void **state)
{
    expect_denied(*state, OTHER ":" OTHERS "@");
}

static void an_anonymous_client_is_denied(void **state)
{
    expect_denied(*state, "");
}

/* What a login was given is only in the server's memory. */
static void a_login_that_the_server_has_forgotten(void **state)
{
    lk_env *env = *state;
    locker *l = open_as(env, USER ":" PASSWORD, "/shop?ttl=60s");
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->etcd);
    lk_test_launch(env->etcd, true);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(lk_take(l, "other"));
    lk_give(held);
    lk_close_locker(l);
}

/* ... or is over there, while the connection stays. */
static void a_login_that_is_over(void **state)
{
    lk_env *env = *state;
    locker *l = open_as(env, USER ":" PASSWORD, "/shop?ttl=60s");
    lk_give(lk_take(l, "before"));
    lk_etcdctl_do(env->etcd,
                  "role add another"); /* tells nobody; but a login is of one revision of the users */
    lk_etcdctl_do(env->etcd, "auth disable");
    unsetenv("ETCDCTL_USER");
    lk_etcdctl_do(env->etcd, "auth enable");
    setenv("ETCDCTL_USER", "root:root-1", 1);
    lk_give(lk_take(l, "after"));
    lk_close_locker(l);
}

enum { BUSY = 8, BUSY_MS = 6000 };

typedef struct {
    locker *l;
    pthread_t thread;
    char key[2]; /* of two of them */
    int failures;
} busy;

static void *lock_and_unlock(void *argument)
{
    busy *b = argument;
    const locker_lock_options patient = lk_wait_options(LK_TEST_PATIENCE_MS);
    for (const int64_t until = lk_test_now_ms() + BUSY_MS; lk_test_now_ms() < until;) {
        locker_handle *held = NULL;
        locker_error err;
        b->failures += locker_lock(b->l, b->key, &patient, &held, &err) != LOCKER_OK;
        if (held != NULL)
            b->failures += locker_unlock(held, &err) != LOCKER_OK;
        locker_handle_free(held);
    }
    return NULL;
}

/* What was asked before it ran out is answered: nobody who unlocks is told that it isn't known what became of that. */
static void a_login_that_runs_out(void **state)
{
    lk_env *env = *state;
    locker *l = open_as(env, USER ":" PASSWORD, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "kept");
    busy all[BUSY];
    int failures = 0;
    for (int i = 0; i < BUSY; i++) {
        all[i] = (busy){.l = l, .key = {(char)('a' + i / 2), '\0'}};
        assert_int_equal(pthread_create(&all[i].thread, NULL, lock_and_unlock, &all[i]), 0);
    }
    for (int i = 0; i < BUSY; i++) {
        lk_join(all[i].thread, "one who locks and unlocks");
        failures += all[i].failures;
    }
    assert_int_equal(failures, 0);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* A permission is taken away while a lock is held: whether it was given back isn't known, and it ends with its lease. */
static void a_permission_that_is_taken_away(void **state)
{
    lk_env *env = *state;
    locker *l = open_as(env, USER ":" PASSWORD, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "held"), *none = NULL;
    locker_error err;
    lk_etcdctl_do(env->etcd, "user revoke-role " USER " clerks");
    assert_status(LOCKER_DENIED, locker_try_lock(l, "new", NULL, &none, &err), err);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    assert_non_null(strstr(err.text, "denied"));
    locker_handle_free(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_etcdctl_do(env->etcd, "user grant-role " USER " clerks");
    lk_give(lk_take(l, "held"));
    lk_close_locker(l);
}

/* ... and a watch on it has to be made anew, which is refused, as is a look at it: neither is asked for without a pause. */
static void a_permission_that_is_missing_for_a_watch(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    assert_ok(lk_try_uri(&l, &err, "etcd://" USER ":" PASSWORD "@127.0.0.1:%d/shop?ttl=60s",
                         lk_proxy_port(env->proxy)),
              err);
    locker_handle *held = lk_take(l, "held");
    lk_etcdctl_do(env->etcd, "user revoke-role " USER " clerks");
    lk_proxy_cut_all(env->proxy);
    lk_require_state(held, LOCKER_STATE_HELD);
    const lk_passed others = lk_proxy_passed(env->proxy, ""); /* of no kind that has a name: such looks */
    const int64_t began = lk_test_now_ms();
    lk_proxy_await_passed(others, 5);
    assert_true(lk_test_now_ms() - began >= 300);
    lk_etcdctl_do(env->etcd, "user grant-role " USER " clerks");
    lk_give(held);
    lk_close_locker(l);
}

#define users_test(f) cmocka_unit_test_setup_teardown(f, with_users, end)

/* etcd revokes no lease on which there is one key that the user may not write. What may be deleted goes all the same. */
static void closing_deletes_the_keys_it_has_rights_for(void **state)
{
    enum { COUNT = 600 };
    lk_env *env = *state;
    locker *l = open_as(env, USER ":" PASSWORD, "/shop?ttl=60s");
    locker_handle *held[COUNT], *odd = lk_take(l, "odd");
    for (int i = 0; i < COUNT; i++) {
        char key[32];
        snprintf(key, sizeof key, "may-%d", i);
        held[i] = lk_take(l, key);
    }
    lk_etcdctl_do(env->etcd, "role grant-permission clerks --prefix=true readwrite shop/may-");
    lk_etcdctl_do(env->etcd, "role revoke-permission --prefix=true clerks shop/");
    lk_close_locker(l);
    lk_etcdctl_require_count(env->etcd, "shop/may-", 0);
    for (int i = 0; i < COUNT; i++)
        locker_handle_free(held[i]);
    locker_handle_free(odd);
}

/* To order a look as a write takes no right to write. */
static void a_user_with_read_rights_may_show_the_holder(void **state)
{
    lk_env *env = *state;
    locker *l = open_as(env, USER ":" PASSWORD, "/shop?ttl=60s"), *reader;
    locker_handle *held = lk_take(l, "held");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_etcdctl_do(env->etcd, "role revoke-permission --prefix=true clerks shop/");
    lk_etcdctl_do(env->etcd, "role grant-permission clerks --prefix=true read shop/");
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    lk_proxy_answer(env->proxy, LK_EP_MEMBER, lk_proxy_etcd_unavailable);
    assert_ok(lk_try_uri(&reader, &err, "etcd://" USER ":" PASSWORD "@127.0.0.1:%d/shop?ttl=60s",
                         lk_proxy_port(env->proxy)),
              err);
    assert_ok(locker_show(reader, "held", &info, &err), err);
    assert_true(info.held);
    assert_int_equal(info.token, locker_handle_token(held));
    locker_info_clear(&info);
    assert_status(LOCKER_DENIED, locker_break(reader, "held", NULL, NULL, &err), err);
    lk_close_locker(reader);
    locker_handle_free(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    users_test(a_user_with_read_rights_may_show_the_holder),
    users_test(closing_deletes_the_keys_it_has_rights_for),
    users_test(a_user_and_a_password),
    users_test(a_password_that_changes_is_read_again),
    users_test(a_password_file_that_hangs),
    users_test(a_password_file_that_is_slow),
    users_test(a_wrong_password_is_denied),
    users_test(a_user_without_rights_is_denied),
    users_test(an_anonymous_client_is_denied),
    users_test(a_login_that_the_server_has_forgotten),
    users_test(a_login_that_is_over),
    cmocka_unit_test_setup_teardown(a_login_that_runs_out, with_brief_logins, end),
    users_test(a_permission_that_is_taken_away),
    users_test(a_permission_that_is_missing_for_a_watch),
};

const lk_group lk_users = {"users", tests, sizeof tests / sizeof tests[0], NULL, NULL};
