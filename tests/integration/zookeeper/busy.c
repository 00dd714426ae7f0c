/* busy.c: a server that is too busy for some requests (its answer is "throttled"), and not for others, is
 * asked again after a pause: else who waits would ask as fast as it answers, and keep it busy. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "zk_tests.h"

enum { REFUSALS = 3, PAUSE_MS = 100 };

/* What the server is too busy for; guarded by what the proxy does in between. */
static struct {
    lk_proxy *proxy;
    const char *kind;
    unsigned left;
} busy;

static size_t refuse(const lk_message *reply, char *out, size_t size)
{
    if (--busy.left > 0)
        lk_proxy_forge(busy.proxy, busy.kind, refuse);
    return lk_proxy_zookeeper_throttled(reply, out, size);
}

/* What was asked of a server that refuses, and since when. */
typedef struct {
    lk_passed requests;
    int64_t began_ms;
} refused;

/* The server is too busy for the next few requests of that kind. */
static refused refuse_some(lk_env *env, const char *kind)
{
    busy.proxy = env->proxy;
    busy.kind = kind;
    busy.left = REFUSALS;
    const refused some = {lk_proxy_passed(env->proxy, kind), lk_test_now_ms()};
    lk_proxy_forge(env->proxy, kind, refuse);
    return some;
}

/* Each refusal was followed by a pause; then came an answer. */
static void expect_pauses(const refused *some)
{
    lk_proxy_await_passed(some->requests, REFUSALS + 1);
    assert_true(lk_test_now_ms() - some->began_ms >= REFUSALS * PAUSE_MS);
}

/* A try is told BUSY by a fresh list only, which takes a check. */
static void a_check_before_a_list(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "checked");
    const refused checks = refuse_some(env, LK_ZKP_MULTI);
    lk_expect_busy(l, "checked");
    expect_pauses(&checks);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* A list that comes late grants only with a check. */
static void a_check_before_a_grant(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=60s&command_timeout=20s");
    lk_locking late;
    lk_give(lk_take(l, "late"));
    const lk_passed lists = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&late, l, "late", NULL);
    lk_proxy_await_passed(lists, 1);
    usleep(150000); /* so late is too late */
    const refused checks = refuse_some(env, LK_ZKP_MULTI);
    lk_proxy_hold(env->proxy, false, false);
    locker_handle *held = lk_locking_grant(&late);
    expect_pauses(&checks);
    lk_give(held);
    lk_close_locker(l);
}

static lk_env *read_after;
static refused marks;

/* The node is deleted, and nobody says so: whether somebody broke the lock has to be read. */
static size_t delete_and_refuse_reads(const lk_message *reply, char *out, size_t size)
{
    marks = refuse_some(read_after, LK_ZKP_GET);
    return lk_proxy_zookeeper_throttled(reply, out, size);
}

static void a_mark_that_an_unlock_reads(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=60s&command_timeout=20s");
    const lk_passed reads = lk_proxy_passed(env->proxy, LK_ZKP_GET);
    locker_handle *held = lk_take(l, "marked");
    lk_proxy_await_passed(reads, 1); /* its watch on itself */
    read_after = env;
    lk_proxy_forge(env->proxy, LK_ZKP_DELETE, delete_and_refuse_reads);
    lk_give(held);
    lk_proxy_await_harm(env->proxy, REFUSALS + 1); /* the proxy has written `marks` */
    expect_pauses(&marks);
    lk_close_locker(l);
}

static void a_watch_on_ones_own_node(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=60s");
    const refused reads = refuse_some(env, LK_ZKP_GET);
    locker_handle *held = lk_take(l, "watched");
    expect_pauses(&reads);
    lk_give(held);
    lk_close_locker(l);
}

/* A place that gave up is deleted later, without a caller; that is not sent again at once either. */
static void a_delete_without_a_caller(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "left");
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiter;
    o.cancel = locker_cancel_new();
    lk_locking_start(&waiter, l, "left", &o);
    lk_zkc_require_count(env->client, "/shop/left", 2);
    const refused deletes = refuse_some(env, LK_ZKP_DELETE);
    locker_cancel_fire(o.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    expect_pauses(&deletes);
    locker_cancel_free(o.cancel);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* ------------------------------------------------------------------ too much to do ---- */

enum { CALLERS = 16, CALLS = 16, IN_FLIGHT_MAX = 64 };

typedef struct {
    locker *l;
    int number;
    pthread_t thread;
} caller;

/* Locks of keys that nobody else wants, by a server that doesn't answer. */
static void *call_in_vain(void *context)
{
    const caller *const c = context;
    const locker_lock_options soon = lk_wait_options(20);
    for (int i = 0; i < CALLS; i++) {
        char key[32];
        locker_handle *held = NULL;
        snprintf(key, sizeof key, "vain-%d-%d", c->number, i);
        if (locker_lock(c->l, key, &soon, &held, NULL) == LOCKER_OK)
            (void)locker_unlock(held, NULL);
        locker_handle_free(held);
    }
    return NULL;
}

/* Calls that end without an answer, and come again, leave no more in flight than a heartbeat can wait for. */
static void what_is_in_flight_is_bounded(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=60s");
    caller callers[CALLERS];
    lk_give(lk_take(l, "vain"));
    const unsigned before = lk_proxy_requests(env->proxy, LK_ZKP_CREATE2);
    lk_proxy_hold(env->proxy, false, true);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.l = l, .number = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_in_vain, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++)
        (void)pthread_join(callers[i].thread, NULL);
    assert_true(lk_proxy_requests(env->proxy, LK_ZKP_CREATE2) - before <= IN_FLIGHT_MAX);
    lk_proxy_hold(env->proxy, false, false);
    lk_give(lk_take(l, "vain"));
    lk_close_locker(l);
}

/* A connection that lives again confirms what is held before it goes on with what was interrupted. */
static void a_heartbeat_goes_first(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=60s&command_timeout=20s");
    const locker_lock_options patient = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = lk_take(l, "held");
    lk_locking waiter;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_CREATE2, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_locking_start(&waiter, l, "interrupted", &patient);
    lk_proxy_await_harm(env->proxy, 1);
    const unsigned connections = lk_proxy_requests(env->proxy, LK_ZKP_CONNECT);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_LIST, 1,
                  0); /* what it is searched by, and all behind */
    lk_proxy_refuse(env->proxy, false);
    lk_require_renewal(l);
    assert_int_equal(lk_proxy_requests(env->proxy, LK_ZKP_CONNECT), connections + 1);
    lk_proxy_cut_all(env->proxy);
    lk_give(lk_locking_grant(&waiter));
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_delete_without_a_caller), proxied_test(a_check_before_a_list),
    proxied_test(a_check_before_a_grant),    proxied_test(a_mark_that_an_unlock_reads),
    proxied_test(a_watch_on_ones_own_node),  proxied_test(what_is_in_flight_is_bounded),
    proxied_test(a_heartbeat_goes_first),
};

const lk_group lk_busy = {"busy", tests, sizeof tests / sizeof tests[0], NULL, NULL};
