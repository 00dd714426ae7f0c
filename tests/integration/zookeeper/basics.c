/* basics.c: what stands at the server, where, and who may touch it. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "zk_tests.h"

/* Curator's naming, our label as data, the czxid as the token. */
static void a_lock_is_a_node_as_curator_names_it(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/apps/shop?namespace=orders&owner=the-owner");
    locker_handle *held = lk_take(l, "a/b c");
    char path[LK_ZKC_NAME_MAX], data[256], uuid[64];
    const char *parent = "/apps/shop/orders/a%2Fb%20c";
    lk_zkc_stat stat;
    int number;
    lk_zkc_nth(env->client, parent, 0, path);
    assert_memory_equal(path, parent, strlen(parent));
    assert_int_equal(sscanf(path + strlen(parent), "/_c_%36[0-9a-f-]-lock-%10d", uuid, &number), 2);
    assert_int_equal(strlen(uuid), 36);
    for (size_t i = 8; i <= 23; i += 5)
        assert_int_equal(uuid[i], '-');
    assert_int_equal(strlen(path), strlen(parent) + strlen("/_c_-lock-") + 36 + 10);
    assert_int_equal(lk_zkc_get(env->client, path, data, sizeof data, &stat), LK_ZKC_OK);
    assert_non_null(strstr(data, "the-owner"));
    assert_true(stat.session != 0);
    assert_int_equal(locker_handle_token(held), stat.czxid);
    lk_give(held);
    assert_int_equal(lk_zkc_count(env->client, parent), 0);
    lk_close_locker(l);
}

/* Names that ZooKeeper refuses, names that look alike, and the longest ones. */
static void keys_have_nodes_of_their_own(void **state)
{
    lk_env *env = *state;
    static const char *const keys[] = {".",      "..",     "/", "a/b", "a%2Fb", "zookeeper", "a b",
                                       "\u20ac", "\ue000", "A", "a",   "a.",    ".a"};
    enum { COUNT = sizeof keys / sizeof keys[0] };
    locker *l = lk_open_at(env->zk, "");
    locker_handle *held[COUNT], *longest;
    char key[LOCKER_KEY_MAX + 1];
    for (size_t i = 0; i < COUNT; i++)
        held[i] = lk_take(l, keys[i]); /* two of one node would wait for each other */
    memset(key, '/', LOCKER_KEY_MAX);
    key[LOCKER_KEY_MAX] = '\0';
    longest = lk_take(l, key);
    lk_expect_busy(l, key);
    lk_give(longest);
    for (size_t i = 0; i < COUNT; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

static void tokens_grow_over_sessions(void **state)
{
    lk_env *env = *state;
    uint64_t last = 0;
    for (int round = 0; round < 3; round++) {
        locker *l = lk_open_at(env->zk, "/shop");
        locker_handle *held = lk_take(l, "token");

        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
        lk_close_locker(l);
        lk_server_kill(env->zk);
        lk_test_launch(env->zk, true);
    }
}

/* What is no contender stands in nobody's way, and contenders by other clients' names are waited for. */
static void foreign_names(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    locker_info info = LOCKER_INFO_INIT;
    char made[LK_ZKC_NAME_MAX];
    lk_locking waiter;
    locker_error err;
    lk_give(lk_take(l, "foreign"));
    assert_int_equal(lk_zkc_create(env->client, "/shop/foreign/config", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/foreign/lease-0000000000", "", LK_ZKC_PLAIN, NULL),
                     LK_ZKC_OK);
    lk_give(lk_take(l, "foreign"));
    assert_int_equal(lk_zkc_create(env->client, "/shop/foreign/0123456789abcdef0123456789abcdef__lock__",
                                   "kazoo's", LK_ZKC_EPHEMERAL_SEQUENTIAL, made),
                     LK_ZKC_OK);
    lk_expect_busy(l, "foreign");
    assert_ok(locker_show(l, "foreign", &info, &err), err);
    assert_true(info.held);
    locker_info_clear(&info);
    lk_locking_start(&waiter, l, "foreign", NULL);
    lk_zkc_require_count(env->client, "/shop/foreign", 4);
    assert_int_equal(lk_zkc_delete(env->client, made), LK_ZKC_OK);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

static void make(lk_env *env, const char *path, int kind, char made[LK_ZKC_NAME_MAX])
{
    assert_int_equal(lk_zkc_create(env->client, path, "data", kind, made), LK_ZKC_OK);
}

/* Fails unless the node is there, as it was made. */
static void expect_data(lk_env *env, const char *path)
{
    char data[16];
    if (lk_zkc_get(env->client, path, data, sizeof data, NULL) != LK_ZKC_OK)
        test_fails("'%s' is gone", path);
    assert_string_equal(data, "data");
}

/* Every call that wants the key, a look, and a break: what an application keeps there, and below, is left as it is. With force that
 * alone is deleted which stands in a lock's place. */
static void expect_left(lk_env *env, locker *l, const char *key, const char *in_the_way)
{
    const locker_break_options force = {.size = sizeof force, .force = true};
    locker_lock_options shared = LOCKER_LOCK_OPTIONS_INIT, permit = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held = NULL;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    shared.mode = LOCKER_SHARED;
    permit.permits = 1;
    assert_int_not_equal(locker_try_lock(l, key, NULL, &held, &err), LOCKER_OK);
    assert_int_not_equal(locker_try_lock(l, key, &shared, &held, &err), LOCKER_OK);
    assert_int_not_equal(locker_try_lock(l, key, &permit, &held, &err), LOCKER_OK);
    assert_ok(locker_show(l, key, &info, &err), err);
    locker_info_clear(&info);
    expect_data(env, in_the_way);
    assert_status(LOCKER_CONFIG, locker_break(l, key, NULL, NULL, &err), err);
    expect_data(env, in_the_way);
    assert_ok(locker_break(l, key, &force, NULL, &err), err);
    assert_int_equal(lk_zkc_get(env->client, in_the_way, NULL, 0, NULL), LK_ZKC_NONODE);
}

static void foreign_data_is_left_unchanged(void **state)
{
    static const char *const below_a_lock[] = {"/shop/app/config", "/shop/app/node-0000000001"};
    static const char *const below_permits[] = {"/shop/dhcp/leases/10.0.0.1"};
    lk_env *const env = *state;
    locker *const l = lk_open_at(env->zk, "/shop");
    char made[LK_ZKC_NAME_MAX];
    lk_give(lk_take(l, "root")); /* makes /shop */
    make(env, "/shop/app", LK_ZKC_PLAIN, NULL);
    for (size_t i = 0; i < sizeof below_a_lock / sizeof below_a_lock[0]; i++)
        make(env, below_a_lock[i], LK_ZKC_PLAIN, NULL);
    make(env, "/shop/app/block-0000000001", LK_ZKC_PLAIN, NULL);
    expect_left(env, l, "app", "/shop/app/block-0000000001");
    lk_give(lk_take(l, "app")); /* beside the rest */
    for (size_t i = 0; i < sizeof below_a_lock / sizeof below_a_lock[0]; i++)
        expect_data(env, below_a_lock[i]);
    expect_data(env, "/shop/app");
    make(env, "/shop/app/lock-", LK_ZKC_EPHEMERAL_SEQUENTIAL, made); /* another client's lock */
    locker_error err;
    assert_ok(locker_break(l, "app", NULL, NULL, &err), err);
    expect_data(env, "/shop/app");

    make(env, "/shop/dhcp", LK_ZKC_PLAIN, NULL);
    make(env, "/shop/dhcp/leases", LK_ZKC_PLAIN, NULL);
    make(env, below_permits[0], LK_ZKC_EPHEMERAL, NULL);
    expect_left(env, l, "dhcp", below_permits[0]);
    make(env, "/shop/dhcp/leases/lease-0000000007", LK_ZKC_PLAIN, NULL);
    expect_left(env, l, "dhcp", "/shop/dhcp/leases/lease-0000000007");
    expect_data(env, "/shop/dhcp/leases");
    make(env, "/shop/dhcp/leases/_c_0-lease-", LK_ZKC_EPHEMERAL_SEQUENTIAL, made); /* as Curator's permits */
    assert_ok(locker_break(l, "dhcp", NULL, NULL, &err), err);
    lk_close_locker(l);
}

static void a_try_on_a_busy_lock_makes_no_node(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop"), *holder = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(holder, "busy");
    unsigned before = 0;
    lk_expect_busy(l, "busy"); /* whatever a first one makes */
    before = lk_proxy_requests(env->proxy, LK_ZKP_CREATE) + lk_proxy_requests(env->proxy, LK_ZKP_CREATE2);
    for (int i = 0; i < 20; i++)
        lk_expect_busy(l, "busy");
    assert_int_equal(
        lk_proxy_requests(env->proxy, LK_ZKP_CREATE) + lk_proxy_requests(env->proxy, LK_ZKP_CREATE2), before);
    assert_int_equal(lk_zkc_count(env->client, "/shop/busy"), 1);
    lk_give(held);
    lk_close_locker(holder);
    lk_close_locker(l);
}

/* Each waiter watches its predecessor alone: one that gives up in the middle wakes nobody, and a release
 * wakes one, which asks the server nothing more. */
static void a_queue_shows_its_order_and_keeps_it(void **state)
{
    enum { COUNT = 5 };
    lk_env *env = *state;
    locker *l[COUNT], *looker = lk_open_at(env->zk, "/shop");
    locker_cancel *cancel = locker_cancel_new();
    locker_info info = LOCKER_INFO_INIT;
    lk_locking waiters[COUNT];
    locker_handle *held = lk_take(looker, "queue");
    locker_error err;
    for (size_t i = 0; i < COUNT; i++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;

        l[i] = lk_open_uri("zookeeper://127.0.0.1:%d/shop?owner=waiter-%zu", env->zk->port, i);
        options.cancel = i == 2 ? cancel : NULL;
        lk_locking_start(&waiters[i], l[i], "queue", &options);
        lk_zkc_require_count(env->client, "/shop/queue", i + 2);
    }
    assert_ok(locker_show(looker, "queue", &info, &err), err);
    assert_int_equal(info.waiters, COUNT);
    assert_int_equal(info.queue_len, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        char owner[32];

        snprintf(owner, sizeof owner, "waiter-%zu", i);
        assert_string_equal(info.queue[i].owner, owner);
    }
    locker_info_clear(&info);
    locker_cancel_fire(cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiters[2]), waiters[2].err);
    lk_zkc_require_count(env->client, "/shop/queue", COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        if (i == 2)
            continue;
        lk_give(held);
        assert_status(LOCKER_OK, lk_locking_join(&waiters[i]), waiters[i].err);
        held = waiters[i].held;
    }
    lk_give(held);
    for (size_t i = 0; i < COUNT; i++)
        lk_close_locker(l[i]);
    lk_close_locker(looker);
    locker_cancel_free(cancel);
}

static void break_ends_the_holders_lock(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?owner=stuck"), *operator_ = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(l, "broken");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_ok(locker_break(operator_, "broken", NULL, &info, &err), err);
    assert_string_equal(info.owner, "stuck");
    locker_info_clear(&info);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    assert_status(LOCKER_INVALID, locker_break(operator_, "broken", NULL, NULL, &err), err);
    lk_close_locker(operator_);
    lk_close_locker(l);
}

/* The key's node is everybody's, who may delete there, and the holder's its own. A break that can't read
 * whose lock it is could not tell the holder's unlock that it took it. */
static void a_break_needs_to_read_whose_lock_it_is(void **state)
{
    lk_env *env = *state;
    locker *anybody = lk_open_at(env->zk, "/shop");
    lk_give(lk_take(anybody, "mixed"));
    locker *l = lk_open_uri("zookeeper://me:sesame-4711@127.0.0.1:%d/shop", env->zk->port);
    locker_handle *held = lk_take(l, "mixed");
    locker_error err;
    assert_status(LOCKER_DENIED, locker_break(anybody, "mixed", NULL, NULL, &err), err);
    assert_non_null(strstr(err.text, "log in as the user who owns these locks"));
    assert_int_equal(lk_zkc_count(env->client, "/shop/mixed"), 1);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(anybody);
}

/* The same where the record that takes its mark was not read, the server being too busy. */
static void a_break_needs_to_read_what_it_marks(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop"), *operator_ = lk_open_through(env, "/shop");
    locker_handle *held = lk_take(l, "unread");
    locker_error err;
    lk_proxy_forge(env->proxy, LK_ZKP_GET, lk_proxy_zookeeper_throttled);
    assert_status(LOCKER_UNAVAILABLE, locker_break(operator_, "unread", NULL, NULL, &err), err);
    assert_int_equal(lk_proxy_harmed(env->proxy), 1);
    lk_give(held);
    lk_close_locker(operator_);
    lk_close_locker(l);
}

/* A break in a thread; the test joins it. */
struct breaking {
    locker *l;
    pthread_t thread;
    locker_status status;
    _Atomic bool done;
};

static void *break_it(void *context)
{
    struct breaking *b = context;
    b->status = locker_break(b->l, "busy", NULL, NULL, NULL);
    b->done = true;
    return NULL;
}

/* Whoever holds the lock, the key's node changes between each look and the break. */
static locker_status break_while_it_changes(lk_env *env, locker *l)
{
    struct breaking b = {.l = l};
    assert_int_equal(pthread_create(&b.thread, NULL, break_it, &b), 0);
    while (!b.done)
        assert_int_equal(lk_zkc_set(env->client, "/shop/busy", ""), LK_ZKC_OK);
    assert_int_equal(pthread_join(b.thread, NULL), 0);
    return b.status;
}

/* Where the changes came too late it was broken, and is taken again. */
static void a_break_that_is_always_overtaken_says_so(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop"), *operator_ = lk_open_through(env, "/shop");
    locker_handle *held = lk_take(l, "busy");
    locker_status status;
    lk_proxy_delay(env->proxy, 0, 50);
    while ((status = break_while_it_changes(env, operator_)) == LOCKER_OK) {
        lk_give_lost(held);
        held = lk_take(l, "busy");
    }
    assert_int_equal(status, LOCKER_BUSY);
    lk_give(held);
    lk_close_locker(operator_);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ addresses and logins ---- */

static void dead_hosts_in_the_list(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    for (int i = 0; i < 5; i++) { /* the client library begins with any of them */
        l = lk_open_uri("zookeeper://127.0.0.1:1,127.0.0.1:%d,127.0.0.2:1/shop?connect_timeout=10s",
                        env->zk->port);
        lk_give(lk_take(l, "alive"));
        lk_close_locker(l);
    }
    l = lk_open_uri("zookeeper://localhost:%d/shop", env->zk->port);
    lk_give(lk_take(l, "by-name"));
    lk_close_locker(l);
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&l, &err, "zookeeper://127.0.0.1:1,127.0.0.2:1/shop?connect_timeout=500ms"),
                  err);
}

/* Leaves this process that many more descriptors, and answers which it took; they go up to -1. */
static void take_all_descriptors_but(rlim_t left, int taken[], size_t most)
{
    struct rlimit limit;
    size_t n = 0;
    int fd;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((fd = dup(0)) >= 0)
        taken[n++] = fd;
    assert_true(n > left);
    for (; left > 0; left--)
        close(taken[--n]);
    taken[n] = -1;
}

static locker_status open_with(rlim_t left, const char *host, int port, int timeout_ms, locker_error *err)
{
    enum { MOST = 64 };
    int taken[MOST + 1];
    struct rlimit before;
    locker *l = NULL;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    take_all_descriptors_but(left, taken, MOST);
    const locker_status status =
        lk_try_uri(&l, err, "zookeeper://%s:%d/shop?connect_timeout=%dms", host, port, timeout_ms);
    for (int *fd = taken; *fd >= 0; fd++)
        close(*fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (status == LOCKER_OK)
        lk_close_locker(l);
    return status;
}

/* A server may be too slow for the time: the same with more of it. */
static void expect_want_of_descriptors(const lk_env *env, const char *host)
{
    enum { ENOUGH = 16, BRIEF_MS = 300 };
    locker_status status = LOCKER_UNAVAILABLE;
    for (rlim_t left = 0; status != LOCKER_OK && left < ENOUGH; left++) {
        locker_error err = {.os_error = 0};
        for (int ms = BRIEF_MS; ms < LK_TEST_PATIENCE_MS && status != LOCKER_OK && err.os_error == 0; ms *= 3)
            status = open_with(left, host, env->zk->port, ms, &err);
        if (status != LOCKER_OK &&
            (status != LOCKER_UNAVAILABLE || err.os_error != EMFILE || strstr(err.text, "ulimit -n") == NULL))
            test_fails("with %d descriptors left: %s (errno %d)", (int)left, err.text, err.os_error);
    }
    assert_int_equal(status, LOCKER_OK);
}

/* However many are left, what is missing for opening is a descriptor, and that is said. */
static void missing_descriptors_are_reported(void **state)
{
    expect_want_of_descriptors(*state, "127.0.0.1");
    expect_want_of_descriptors(*state, "localhost"); /* a file is read to resolve it */
}

static void chroots_and_namespaces_are_apart(void **state)
{
    lk_env *env = *state;
    locker *l[] = {lk_open_at(env->zk, ""), lk_open_at(env->zk, "/one"), lk_open_at(env->zk, "/one/two"),
                   lk_open_at(env->zk, "/one?namespace=three")};
    locker_handle *held[4];
    for (size_t i = 0; i < 4; i++)
        held[i] = lk_take(l[i], "same");
    assert_int_equal(lk_zkc_count(env->client, "/same"), 1);
    assert_int_equal(lk_zkc_count(env->client, "/one/same"), 1);
    assert_int_equal(lk_zkc_count(env->client, "/one/two/same"), 1);
    assert_int_equal(lk_zkc_count(env->client, "/one/three/same"), 1);
    for (size_t i = 0; i < 4; i++) {
        lk_give(held[i]);
        lk_close_locker(l[i]);
    }
}

/* A user's locks are this user's alone, under whatever process; others queue at other keys beside them. */
static void a_login_keeps_others_out(void **state)
{
    lk_env *env = *state;
    locker *mine = lk_open_uri("zookeeper://me:sesame-4711@127.0.0.1:%d/shop", env->zk->port);
    locker *also = lk_open_uri("zookeeper://me:sesame-4711@127.0.0.1:%d/shop", env->zk->port);
    locker *theirs = lk_open_uri("zookeeper://them:other-0815@127.0.0.1:%d/shop", env->zk->port);
    locker_handle *held = lk_take(mine, "guarded"), *none = NULL;
    lk_zkc_children *children = calloc(1, sizeof *children);
    locker_info info = LOCKER_INFO_INIT;
    char path[LK_ZKC_NAME_MAX];
    locker_error err;
    lk_expect_busy(also, "guarded");
    assert_status(LOCKER_DENIED, locker_try_lock(theirs, "guarded", NULL, &none, &err), err);
    assert_null(strstr(err.text, "0815"));
    assert_status(LOCKER_DENIED, locker_lock(theirs, "guarded", NULL, &none, &err), err);
    assert_status(LOCKER_DENIED, locker_show(theirs, "guarded", &info, &err), err);
    assert_status(LOCKER_DENIED, locker_break(theirs, "guarded", NULL, NULL, &err), err);
    lk_give(lk_take(theirs, "another"));
    assert_int_equal(lk_zkc_list(env->client, "/shop/guarded", children), LK_ZKC_NOAUTH);
    assert_int_equal(lk_zkc_login(env->client, "me:sesame-4711"), LK_ZKC_OK);
    lk_zkc_nth(env->client, "/shop/guarded", 0, path);
    assert_int_equal(lk_zkc_get(env->client, path, NULL, 0, NULL), LK_ZKC_OK);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    held = lk_take(also, "guarded");
    assert_ok(locker_break(mine, "guarded", NULL, NULL, &err), err);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    free(children);
    lk_close_locker(theirs);
    lk_close_locker(also);
    lk_close_locker(mine);
}

static void expect_refused(locker *l, locker_status status, const char *words)
{
    locker_lock_options options[3] = {lk_wait_options(LK_TEST_PATIENCE_MS),
                                      lk_wait_options(LK_TEST_PATIENCE_MS),
                                      lk_wait_options(LK_TEST_PATIENCE_MS)};
    locker_handle *held;
    locker_error err;
    options[1].mode = LOCKER_SHARED;
    options[2].permits = 2;
    for (size_t i = 0; i < 3; i++) {
        assert_status(status, locker_lock(l, "key", &options[i], &held, &err), err);
        if (strstr(err.text, words) == NULL)
            test_fails("'%s' lacks '%s'", err.text, words);
    }
    lk_close_locker(l);
}

/* Where the nodes for a lock can't be made, the answer is the server's reason. */
static void the_error_says_why_no_node_can_be_created(void **state)
{
    lk_env *env = *state;
    locker *mine = lk_open_uri("zookeeper://me:sesame-4711@127.0.0.1:%d/shop", env->zk->port);
    locker_handle *held = lk_take(mine, "guarded");
    expect_refused(lk_open_at(env->zk, "/shop/guarded/deep"), LOCKER_DENIED,
                   "creating the parents of a queue");
    lk_give(held);
    lk_close_locker(mine);
    make(env, "/brief", LK_ZKC_EPHEMERAL, NULL);
    expect_refused(lk_open_at(env->zk, "/brief"), LOCKER_CONFIG, "an ephemeral node");
    make(env, "/full", LK_ZKC_PLAIN, NULL);
    make(env, "/zookeeper/quota/full", LK_ZKC_PLAIN, NULL);
    assert_int_equal(lk_zkc_create(env->client, "/zookeeper/quota/full/zookeeper_limits",
                                   "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1", LK_ZKC_PLAIN,
                                   NULL),
                     LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/zookeeper/quota/full/zookeeper_stats", "count=1,bytes=4",
                                   LK_ZKC_PLAIN, NULL),
                     LK_ZKC_OK);
    expect_refused(lk_open_at(env->zk, "/full"), LOCKER_CONFIG, "a quota");
    assert_true(lk_zkc_clear(env->client, "/zookeeper/quota"));
}

static void options_that_the_build_lacks_are_refused(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    if (!lk_client_has("zookeeper_init_ssl")) { /* Debian's has neither */
        assert_status(LOCKER_UNSUPPORTED,
                      lk_try_uri(&l, &err, "zookeeper://127.0.0.1:%d/?tls=on", env->zk->port), err);
        assert_non_null(strstr(err.text, "cannot use TLS for ZooKeeper: "));
        assert_non_null(strstr(err.text, "a tunnel"));
    }
    if (!lk_client_has("zookeeper_init_sasl")) {
        assert_status(LOCKER_UNSUPPORTED,
                      lk_try_uri(&l, &err, "zookeeper://127.0.0.1:%d/?sasl=digest-md5", env->zk->port), err);
        assert_non_null(strstr(err.text, "cannot use SASL for ZooKeeper: "));
        assert_non_null(strstr(err.text, "(digest)"));
    }
    assert_status(LOCKER_CONFIG,
                  lk_try_uri(&l, &err, "zookeeper://127.0.0.1:%d/?tls_ca=/ca.crt", env->zk->port), err);
    assert_non_null(strstr(err.text, "tls=on"));
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "zookeeper://127.0.0.1:%d/a//b", env->zk->port), err);
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "zookeeper://127.0.0.1:%d/?tsl=on", env->zk->port),
                  err);
    l = lk_open_uri("zk://127.0.0.1:%d", env->zk->port); /* the short scheme */
    assert_int_equal(locker_ping(l, NULL, &err), LOCKER_OK);
    lk_close_locker(l);
}

/* The session time-out that the server allows rules, not the one that was asked for. */
static void the_session_is_as_negotiated(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=10s&session_timeout=300ms"); /* the server grants 400 ms */
    locker_handle *held = lk_take(l, "short");
    assert_in_range(locker_handle_remaining_ms(held), 0, 396);
    lk_test_freeze(env->zk);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_server_thaw(env->zk);
    lk_give_lost(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(a_lock_is_a_node_as_curator_names_it),
    server_test(keys_have_nodes_of_their_own),
    server_test(tokens_grow_over_sessions),
    server_test(foreign_names),
    server_test(foreign_data_is_left_unchanged),
    proxied_test(a_try_on_a_busy_lock_makes_no_node),
    server_test(a_queue_shows_its_order_and_keeps_it),
    server_test(break_ends_the_holders_lock),
    server_test(a_break_needs_to_read_whose_lock_it_is),
    proxied_test(a_break_needs_to_read_what_it_marks),
    proxied_test(a_break_that_is_always_overtaken_says_so),
    server_test(dead_hosts_in_the_list),
    server_test(missing_descriptors_are_reported),
    server_test(chroots_and_namespaces_are_apart),
    server_test(a_login_keeps_others_out),
    server_test(the_error_says_why_no_node_can_be_created),
    server_test(options_that_the_build_lacks_are_refused),
    server_test(the_session_is_as_negotiated),
};

const lk_group lk_basics = {"basics", tests, sizeof tests / sizeof tests[0], NULL, NULL};
