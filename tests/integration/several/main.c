/* main.c: how long calls for several keys take when the service stops, and how many round trips when it does not: as long, and
 * as many, as those for one key. Each group has a real server of one service, and the tests are the same for all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "groups.h"
#include "holding.h"
#include "locking.h"
#include "proxying.h"
#include "test_servers.h"
#ifdef LK_SEVERAL_REDIS
#include "test_redis.h"
#endif

enum { COMMAND_MS = 1000, CLEANUP_MS = 1000, LATE_MS = 4000, SIZES = 3 };

static const size_t sizes[SIZES] = {1, 8, LOCKER_KEYS_MAX};

/* A service. */
typedef struct {
    lk_server *(*start)(void);
    void (*end)(lk_server *server);
    const lk_protocol *protocol;
    const char *release; /* the kind of request that releases a lock */
    const char *settle;  /* ... and that settles a release whose answer was lost */
    bool proves;         /* that tells whether it was us who released */
    const char *uri;     /* in printf's form: the port, and more parameters */
} service;

typedef struct {
    const service *kind;
    lk_server *server;
    lk_proxy *proxy;
} lk_env;

static locker *open_at(const lk_env *env, int port, const char *query)
{
    char uri[256];
    locker *l;
    locker_error err;
    (void)snprintf(uri, sizeof uri, env->kind->uri, port, query);
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    return l;
}

/* One that gives up soon. */
static locker *open_here(const lk_env *env)
{
    return open_at(env, env->server->port, "command_timeout=1s&cleanup_timeout=1s");
}

static locker *open_patient(const lk_env *env)
{
    return open_at(env, env->server->port, "command_timeout=20s");
}

/* The keys of the test, in the order of their bytes. Each test has keys of its own: one that fails leaves its own taken. */
static const char *keys[LOCKER_KEYS_MAX];

static void name_keys(void)
{
    static char text[LOCKER_KEYS_MAX][32];
    static int test;
    test++;
    for (int i = 0; i < LOCKER_KEYS_MAX; i++) {
        (void)snprintf(text[i], sizeof text[i], "test-%d key-%02d", test, i);
        keys[i] = text[i];
    }
}

static locker_handle *take(locker *l, size_t count)
{
    const locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock_all(l, keys, count, &options, &held, &err), err);
    return held;
}

/* A locker_lock_all() of `count` keys on a thread of its own. */
typedef struct {
    locker *l;
    size_t count;
    locker_lock_options options;
    pthread_t thread;
    locker_status status;
    locker_handle *held;
    int64_t ended_ms;
} taking;

static void *take_on_a_thread(void *argument)
{
    taking *const call = argument;
    call->status = locker_lock_all(call->l, keys, call->count, &call->options, &call->held, NULL);
    call->ended_ms = lk_test_now_ms();
    return NULL;
}

/* Another locker holds the last of the keys; the call waits for it, and then the server stops. */
typedef struct {
    lk_env *env;
    locker *l, *other;
    locker_handle *last;
    taking *call;
} waiting;

static waiting wait_for_the_last(lk_env *env, size_t count, int64_t wait_ms, locker_cancel *cancel)
{
    static taking call;
    waiting w = {env, cancel != NULL ? open_patient(env) : open_here(env), open_patient(env), NULL, &call};
    const locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_error err;
    assert_ok(locker_lock(w.other, keys[count - 1], &options, &w.last, &err), err);
    call = (taking){.l = w.l, .count = count, .options = lk_wait_options(wait_ms)};
    call.options.cancel = cancel;
    assert_int_equal(pthread_create(&call.thread, NULL, take_on_a_thread, &call), 0);
    lk_require_waiting(w.l, 1);
    lk_test_freeze(env->server);
    return w;
}

/* What the call had taken is free again once the server goes on. */
static void end_waiting(const waiting *w)
{
    lk_server_thaw(w->env->server);
    (void)locker_unlock(w->last, NULL);
    locker_handle_free(w->last);
    locker_handle_free(take(w->other, w->call->count));
    lk_close_locker(w->other);
}

/* ------------------------------------------------------------------ a server that is stopped ---- */

static void unlock_takes_one_command_timeout(void **state)
{
    lk_env *env = *state;
    locker *l = open_here(env), *other = open_patient(env);
    for (int i = 0; i < SIZES; i++) {
        locker_handle *held = take(l, sizes[i]);
        locker_error err;
        lk_test_freeze(env->server);
        const int64_t began = lk_test_now_ms();
        const locker_status status = locker_unlock(held, &err);
        const int64_t took = lk_test_now_ms() - began;
        lk_server_thaw(env->server);
        assert_int_equal(status, LOCKER_UNKNOWN);
        assert_timely(took, COMMAND_MS + LATE_MS);
        locker_handle_free(held);
        locker_handle_free(take(other, sizes[i])); /* the releases go on in the background */
    }
    lk_close_locker(other);
    lk_close_locker(l);
}

static void freeing_takes_one_command_timeout(void **state)
{
    lk_env *env = *state;
    locker *l = open_here(env), *other = open_patient(env);
    locker_handle *held = take(l, 8);
    lk_test_freeze(env->server);
    const int64_t began = lk_test_now_ms();
    locker_handle_free(held);
    const int64_t took = lk_test_now_ms() - began;
    lk_server_thaw(env->server);
    assert_timely(took, COMMAND_MS + LATE_MS);
    locker_handle_free(take(other, 8));
    lk_close_locker(other);
    lk_close_locker(l);
}

/* How long it takes to take the keys while all is well, so that a call is not over before it waits for the last of them. */
static int64_t ms_to_take(lk_env *env, size_t count)
{
    locker *l = open_patient(env);
    const int64_t began = lk_test_now_ms();
    locker_handle_free(take(l, count));
    const int64_t took = lk_test_now_ms() - began;
    lk_close_locker(l);
    return took;
}

static void a_wait_ends_at_its_time(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        const int64_t wait_ms = COMMAND_MS + 4 * ms_to_take(*state, sizes[i]), began = lk_test_now_ms();
        const waiting w = wait_for_the_last(*state, sizes[i], wait_ms, NULL);
        lk_join(w.call->thread, "the call");
        assert_true(w.call->status == LOCKER_TIMEOUT || w.call->status == LOCKER_UNAVAILABLE);
        assert_timely(w.call->ended_ms - began, wait_ms + LATE_MS);
        end_waiting(&w);
        lk_close_locker(w.l);
    }
}

static void a_cancel_ends_a_wait_at_once(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        locker_cancel *cancel = locker_cancel_new();
        const waiting w = wait_for_the_last(*state, sizes[i], -1, cancel);
        const int64_t began = lk_test_now_ms();
        locker_cancel_fire(cancel);
        lk_join(w.call->thread, "the call");
        assert_int_equal(w.call->status, LOCKER_CANCELED);
        assert_timely(w.call->ended_ms - began, LATE_MS);
        end_waiting(&w);
        lk_close_locker(w.l);
        locker_cancel_free(cancel);
    }
}

static void closing_takes_one_cleanup_timeout(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        const waiting w = wait_for_the_last(*state, sizes[i], -1, NULL);
        const int64_t began = lk_test_now_ms();
        lk_close_locker(w.l);
        const int64_t took = lk_test_now_ms() - began;
        lk_join(w.call->thread, "the call");
        assert_int_equal(w.call->status, LOCKER_CLOSED);
        assert_timely(took, CLEANUP_MS + LATE_MS);
        lk_server_thaw(w.env->server);
        (void)locker_unlock(w.last, NULL);
        locker_handle_free(w.last);
        lk_close_locker(w.other);
    }
}

/* ------------------------------------------------------------------ a server that is far away ---- */

/* All requests are at the server before the first answer has come: so an unlock takes one round trip. */
static void releases_are_in_flight_together(void **state)
{
    lk_env *env = *state;
    locker *l = open_at(env, lk_proxy_port(env->proxy), "command_timeout=20s");
    for (int i = 0; i < SIZES; i++) {
        locker_handle *held = take(l, sizes[i]);
        lk_unlocking unlocking;
        lk_proxy_hold(env->proxy, false, true);
        const lk_passed passed = lk_proxy_passed(env->proxy, env->kind->release);
        lk_unlocking_start(&unlocking, held);
        lk_proxy_await_passed(passed, (unsigned)sizes[i]);
        lk_proxy_hold(env->proxy, false, false);
        assert_status(LOCKER_OK, lk_unlocking_join(&unlocking), unlocking.err);
        locker_handle_free(held);
    }
    lk_close_locker(l);
}

/* The connection is lost between two answers. What had none is asked again; whether it was us who released need not be known. */
static void releases_that_are_cut_off_are_asked_again(void **state)
{
    lk_env *env = *state;
    locker *l = open_at(env, lk_proxy_port(env->proxy), "command_timeout=20s"), *other = open_patient(env);
    locker_handle *held = take(l, 8);
    locker_error err;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, env->kind->release, 3, 0);
    const locker_status status = locker_unlock(held, &err);
    assert_true(status == LOCKER_OK || status == LOCKER_UNKNOWN);
    lk_proxy_await_harm(env->proxy, 1);
    locker_handle_free(held);
    locker_handle_free(take(other, 8));
    lk_close_locker(other);
    lk_close_locker(l);
}

/* The connection is lost when all keys are released, and before the first answer. The first key asks again alone. When
 * it has its answer, the other keys' requests are all at the server before the next answer comes: so an unlock takes a constant
 * number of round trips. Then the connection is lost once more. */
static void releases_that_are_cut_off_are_asked_again_together(void **state)
{
    lk_env *env = *state;
    locker *l = open_at(env, lk_proxy_port(env->proxy), "command_timeout=60s"), *other = open_patient(env);
    locker_handle *held = take(l, LOCKER_KEYS_MAX);
    lk_unlocking unlocking;
    lk_proxy_hold(env->proxy, false, true);
    const lk_passed first = lk_proxy_passed(env->proxy, env->kind->release);
    lk_unlocking_start(&unlocking, held);
    lk_proxy_await_passed(first, LOCKER_KEYS_MAX);
    locker_handle_free(take(other, LOCKER_KEYS_MAX)); /* the server has carried them out */
    lk_proxy_cut_all(env->proxy);
    const lk_passed second = lk_proxy_passed(env->proxy, env->kind->settle);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, env->kind->settle, 2, 0);
    lk_proxy_hold(env->proxy, false, false);
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_refuse(env->proxy, true); /* nothing is asked again on another connection */
    lk_proxy_await_passed(second, LOCKER_KEYS_MAX);
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_cut_all(env->proxy);
    const locker_status status = lk_unlocking_join(&unlocking);
    assert_true(status == LOCKER_OK || (status == LOCKER_UNKNOWN && !env->kind->proves));
    locker_handle_free(held);
    locker_handle_free(take(other, LOCKER_KEYS_MAX));
    lk_close_locker(other);
    lk_close_locker(l);
}

/* A try of keys whose leases end before the last is taken says so, and does not take them again and again. */
static void a_try_with_leases_that_are_too_short_ends(void **state)
{
    lk_env *env = *state;
    locker *l = open_at(env, lk_proxy_port(env->proxy), "command_timeout=20s");
    locker_lock_options options = lk_wait_options(0);
    locker_handle *held = NULL;
    locker_error err;
    options.ttl_ms = 3000; /* of 64 round trips of 80 ms */
    options.no_renew = true;
    lk_proxy_delay(env->proxy, 40, 40);
    assert_status(LOCKER_UNAVAILABLE, locker_lock_all(l, keys, LOCKER_KEYS_MAX, &options, &held, &err), err);
    assert_unless_late(strstr(err.text, "longer ttl") != NULL); /* else one key alone took too long */
    lk_close_locker(l);
}

#define several_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static lk_env current;

static int set_up(void **state)
{
    *state = &current;
    lk_server_thaw(current.server); /* a test that failed may have left it frozen */
    name_keys();
    current.proxy = lk_proxy_begin(current.kind->protocol, current.server->port);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lk_proxy_free(current.proxy);
    return 0;
}

static int start(const service *kind)
{
    current.kind = kind;
    current.server = kind->start();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    current.kind->end(current.server);
    return 0;
}

static const struct CMUnitTest tests[] = {
    several_test(unlock_takes_one_command_timeout),
    several_test(freeing_takes_one_command_timeout),
    several_test(a_wait_ends_at_its_time),
    several_test(a_cancel_ends_a_wait_at_once),
    several_test(closing_takes_one_cleanup_timeout),
    several_test(releases_are_in_flight_together),
    several_test(releases_that_are_cut_off_are_asked_again),
    several_test(releases_that_are_cut_off_are_asked_again_together),
    several_test(a_try_with_leases_that_are_too_short_ends),
};

/* ------------------------------------------------------------------ the services ---- */

#ifdef LK_SEVERAL_REDIS
static lk_server *start_redis(void)
{
    return lk_test_redis(NULL);
}

static int use_redis(void **state)
{
    static const service redis = {.start = start_redis,
                                  .end = lk_test_redis_free,
                                  .protocol = &lk_proxy_redis,
                                  .release = "EVALSHA",
                                  .settle = "EVALSHA",
                                  .proves = true,
                                  .uri = "redis://127.0.0.1:%d/?ttl=30s&%s"};
    (void)state;
    return start(&redis);
}

static const lk_group on_redis = {"redis", tests, sizeof tests / sizeof tests[0], use_redis, stop};
#endif

#ifdef LK_SEVERAL_ZOOKEEPER
static lk_server *start_zookeeper(void)
{
    return lk_test_zookeeper(LK_LOGIN_NONE);
}

static int use_zookeeper(void **state)
{
    static const service zookeeper = {.start = start_zookeeper,
                                      .end = lk_test_free,
                                      .protocol = &lk_proxy_zookeeper,
                                      .release = LK_ZKP_DELETE,
                                      .settle = LK_ZKP_GET,
                                      .proves = true,
                                      .uri = "zookeeper://127.0.0.1:%d/several?ttl=30s&%s"};
    (void)state;
    return start(&zookeeper);
}

static const lk_group on_zookeeper = {"zookeeper", tests, sizeof tests / sizeof tests[0], use_zookeeper,
                                      stop};
#endif

#ifdef LK_SEVERAL_ETCD
static lk_server *start_etcd(void)
{
    return lk_test_etcd(NULL);
}

static int use_etcd(void **state)
{
    static const service etcd = {.start = start_etcd,
                                 .end = lk_test_free,
                                 .protocol = &lk_proxy_etcd,
                                 .release = LK_EP_DELETE,
                                 .settle = LK_EP_DELETE,
                                 .uri = "etcd://127.0.0.1:%d/several?ttl=30s&%s"};
    (void)state;
    return start(&etcd);
}

static const lk_group on_etcd = {"etcd", tests, sizeof tests / sizeof tests[0], use_etcd, stop};
#endif

int main(int argc, char **argv)
{
    static const lk_group *const groups[] = {
#ifdef LK_SEVERAL_REDIS
        &on_redis,
#endif
#ifdef LK_SEVERAL_ZOOKEEPER
        &on_zookeeper,
#endif
#ifdef LK_SEVERAL_ETCD
        &on_etcd,
#endif
        NULL};
    static const lk_role roles[] = {{NULL, NULL}};
    return lk_run_group(argc, argv, groups, roles);
}
