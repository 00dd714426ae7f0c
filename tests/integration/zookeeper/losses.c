/* losses.c: a lock is taken away: by a second client, with its session, by a server that stops. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "skips.h"
#include "zk_tests.h"

static void a_deleted_node_is_a_lost_lock(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    char path[LK_ZKC_NAME_MAX];
    lk_gate gate;
    locker_handle *held;
    int64_t deleted;
    lk_gate_init(&gate);
    held = lk_take_with_gate(l, "gone", &gate);
    lk_zkc_nth(env->client, "/shop/gone", 0, path);
    deleted = lk_test_now_ms();
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_gate_await(&gate, 1, "the loss should be told");
    assert_timely(lk_test_now_ms() - deleted, 5000); /* by the watch, and not by the first heartbeat */
    lk_give(lk_take(l, "gone"));
    lk_give_lost(held);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

/* Somebody else's node in front of the queue is never touched by the one that lost its own. */
static void a_lost_lock_leaves_the_next_holder_alone(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop"), *rival = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(l, "next");
    char path[LK_ZKC_NAME_MAX];
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "next", NULL);
    lk_zkc_require_count(env->client, "/shop/next", 2);
    lk_zkc_nth(env->client, "/shop/next", 0, path);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_give_lost(held);
    assert_int_equal(lk_zkc_count(env->client, "/shop/next"), 1);
    assert_int_equal(locker_handle_state(waiter.held), LOCKER_STATE_HELD);
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Holders are told, those who wait queue again with new nodes, and the locker goes on. */
static void an_expired_session(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop"), *rival = lk_open_at(env->zk, "/shop");
    char before[LK_ZKC_NAME_MAX], after[LK_ZKC_NAME_MAX];
    locker_handle *first, *second, *other = lk_take(rival, "waited");
    lk_locking waiter;
    lk_gate gate;
    lk_gate_init(&gate);
    first = lk_take_with_gate(l, "first", &gate);
    second = lk_take_with_gate(l, "second", &gate);
    lk_locking_start(&waiter, l, "waited", NULL);
    lk_zkc_require_count(env->client, "/shop/waited", 2);
    lk_zkc_nth(env->client, "/shop/waited", 1, before);
    lk_zkc_end_session(env->zk, lk_session_of(env->client, "/shop/first", 0));
    lk_gate_await(&gate, 2, "both losses should be told");
    lk_zkc_require_count(env->client, "/shop/waited", 2);
    lk_zkc_nth(env->client, "/shop/waited", 1, after);
    assert_string_not_equal(before, after);
    assert_int_not_equal(strncmp(before, after, strlen("/shop/waited/_c_") + 36), 0); /* another uuid */
    lk_give(other);
    lk_give(lk_locking_grant(&waiter));
    lk_give_lost(first);
    lk_give(lk_take(l, "first"));
    lk_give_lost(second);
    lk_close_locker(rival);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

/* A server that forwards to its leader goes on answering reads and pings of a session that has been closed,
 * and passes on what the leader says to everything else: that the session has expired. */
static void a_session_whose_end_only_the_leader_tells(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=8s");
    locker_handle *held = lk_take(l, "told");
    lk_proxy_forge(env->proxy, LK_ZKP_MULTI, lk_proxy_zookeeper_expired);
    lk_proxy_await_harm(env->proxy, 1);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give(lk_take(l, "other"));
    lk_give_lost(held);
    lk_close_locker(l);
}

/* One of its nodes was deleted, so the session may have been closed behind our back; and before a heartbeat
 * is answered the connection is gone, too. What was found to be first by then may be gone as well. `held_back`: its own
 * watch of that node comes too late, and is told that there is none. */
static void doubt_a_session(lk_env *env, bool held_back)
{
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    lk_passed reads = lk_proxy_passed(env->proxy, LK_ZKP_GET),
              touches = lk_proxy_passed(env->proxy, LK_ZKP_EXISTS);
    locker_handle *held = lk_take(l, "watched");
    lk_proxy_hold(env->proxy, held_back, false);
    const int64_t session = lk_session_of(env->client, "/shop/watched", 0);
    lk_locking entering;
    char path[LK_ZKC_NAME_MAX];
    if (!held_back)
        lk_proxy_await_passed(reads, 1); /* it watches its own node */
    lk_zkc_nth(env->client, "/shop/watched", 0, path);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_proxy_await_passed(touches, 1); /* nothing is there to be checked yet */
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_MULTI, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_locking_start(&entering, l, "first", NULL);
    lk_proxy_await_harm(env->proxy, 1);
    lk_zkc_end_session(env->zk, session);
    lk_zkc_require_count(env->client, "/shop/first", 0);
    lk_proxy_refuse(env->proxy, false);
    assert_status(LOCKER_OK, lk_locking_join(&entering), entering.err);
    assert_int_equal(lk_zkc_count(env->client, "/shop/first"), 1);
    assert_int_not_equal(lk_session_of(env->client, "/shop/first", 0), session);
    lk_give(entering.held);
    lk_give_lost(held);
    lk_close_locker(l);
}

static void a_session_in_doubt_grants_nothing(void **state)
{
    doubt_a_session(*state, false);
}

/* Its leader takes longer to order a heartbeat than is waited for one before another connection is tried. */
static void a_session_in_doubt_at_a_slow_server_goes_on(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=8s&command_timeout=20s");
    locker_handle *kept = lk_take(l, "kept"), *held = lk_take(l, "broken");
    char path[LK_ZKC_NAME_MAX];
    lk_zkc_nth(env->client, "/shop/broken", 0, path);
    lk_proxy_delay(env->proxy, 0, 1300);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give(lk_take(l, "other"));
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give(kept);
    lk_give_lost(held);
    lk_close_locker(l);
}

static void a_session_in_doubt_before_it_was_watched_grants_nothing(void **state)
{
    doubt_a_session(*state, true);
}

/* A server may keep a connection whose session was closed by another one, and answer it nothing. The end of
 * its node is what there is to see: whoever locks then is served by a new connection soon, and not when the
 * client library gives the server up, after two thirds of 24 s. */
static void the_end_of_a_node_puts_its_session_in_doubt(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=24s&command_timeout=30s");
    lk_passed reads = lk_proxy_passed(env->proxy, LK_ZKP_GET);
    char path[LK_ZKC_NAME_MAX];
    lk_gate gate;
    locker_handle *held;
    int64_t ended;
    lk_gate_init(&gate);
    held = lk_take_with_gate(l, "doubt", &gate);
    lk_proxy_await_passed(reads, 1); /* it watches its own node */
    lk_zkc_nth(env->client, "/shop/doubt", 0, path);
    lk_proxy_hold_old(env->proxy, true);
    ended = lk_test_now_ms();
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_gate_await(&gate, 1, "the loss should be told");
    lk_give(lk_take(l, "doubt"));
    assert_timely(lk_test_now_ms() - ended, 8000); /* an eighth is 3 s */
    lk_give_lost(held);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

/* A server closes the connection of one who sends more than its jute.maxbuffer at once; and heartbeats for
 * many locks must not. The java launcher takes its options from the environment, too. */
static void heartbeats_for_many_locks_fit(void **state)
{
    enum { LOCKS = 600 };
    static locker_handle *held[LOCKS];
    lk_server *small;
    char key[208];
    locker *l;
    (void)state;
    setenv("JDK_JAVA_OPTIONS", "-Djute.maxbuffer=131072", 1);
    small = lk_test_zookeeper(LK_LOGIN_NONE);
    unsetenv("JDK_JAVA_OPTIONS");
    l = lk_open_at(small, "/shop?ttl=8s");
    for (int i = 0; i < LOCKS; i++) {
        snprintf(key, sizeof key, "%0200d", i);
        held[i] = lk_take(l, key);
    }
    for (int i = 0; i < 3; i++)
        lk_require_renewal(l);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(locker_handle_state(held[i]), LOCKER_STATE_HELD);
        lk_give(held[i]);
    }
    lk_close_locker(l);
    lk_test_free(small);
}

/* LOST comes at the deadline by our own clock, since nobody tells; and it never comes back. */
static void a_server_stopped_beyond_the_session(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=2s");
    int64_t frozen, remaining;
    lk_gate gate;
    locker_handle *held;
    lk_gate_init(&gate);
    held = lk_take_with_gate(l, "stopped", &gate);
    assert_in_range(locker_handle_remaining_ms(held), 1, 1980);
    lk_test_freeze(env->zk);
    frozen = lk_test_now_ms();
    remaining = locker_handle_remaining_ms(held);
    assert_true(remaining > 0);
    lk_require_lost_by(held, frozen + 2000);
    lk_gate_await(&gate, 1, "the loss should be told");
    assert_int_equal(locker_handle_remaining_ms(held), 0);
    lk_server_thaw(env->zk);
    lk_give(lk_take(l, "stopped")); /* the server is back, the lock is free within its session time-out */
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    lk_give_lost(held);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

static void a_short_stop_loses_nothing(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=80s"); /* a busy machine takes long to start a server */
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->zk);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    lk_test_launch(env->zk, true);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_expect_busy(l, "kept");
    lk_give(held);
    lk_close_locker(l);
}

struct attempt {
    locker *l;
    const char *key;
    locker_handle *held;
};

static bool takes(void *context)
{
    struct attempt *attempt = context;
    locker_error err;
    return locker_try_lock(attempt->l, attempt->key, NULL, &attempt->held, &err) == LOCKER_OK;
}

/* Such a server refuses a client that has seen more than it knows, so nothing is told: the session is given
 * up by our own clock, and then there is another one. */
static void a_server_that_comes_back_empty(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "wiped");
    struct attempt attempt = {l, "wiped", NULL};
    lk_server_kill(env->zk);
    lk_test_launch(env->zk, false);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_require(takes, &attempt, "the lock should be free on the empty server");
    lk_give(attempt.held);
    lk_give_lost(held);
    lk_close_locker(l);
}

/* Of a lease that isn't renewed nothing is left at its end, though its session goes on. */
static void a_lease_that_is_meant_to_end(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=20s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    int64_t began = lk_test_now_ms(), taken;
    locker_handle *held, *still;
    locker_error err;
    options.ttl_ms = 600;
    options.no_renew = true;
    assert_ok(locker_lock(l, "ends", &options, &held, &err), err);
    taken = lk_test_now_ms();
    still = lk_take(l, "other");
    lk_require_lost_by(held, taken + 600);
    assert_true(lk_test_now_ms() - began >= 590);
    lk_zkc_require_count(env->client, "/shop/ends", 0);
    assert_int_equal(locker_handle_state(still), LOCKER_STATE_HELD);
    lk_give(still);
    lk_give_lost(held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ nothing listens ---- */

static void try_without_a_server(locker *l)
{
    locker_handle *held = NULL;
    locker_error err;
    int64_t began = lk_test_now_ms();
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "deserted", NULL, &held, &err), err);
    assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
    assert_non_null(strstr(err.text, "check that a majority is running"));
}

/* A try has each server asked anew, whatever pause the attempts of others are in. */
static void a_try_does_not_wait_for_servers_that_are_gone(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?command_timeout=60s&ttl=20s"), *late;
    int64_t began;
    locker_error err;
    lk_give(lk_take(l, "deserted"));
    lk_server_kill(env->zk);
    for (int i = 0; i < 100; i++)
        try_without_a_server(l);
    began = lk_test_now_ms();
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&late, &err, "zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?connect_timeout=60s",
                             env->zk->port, lk_free_port()),
                  err);
    assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
    lk_test_launch(env->zk, true);
    lk_give(lk_take(l, "deserted"));
    lk_close_locker(l);
}

/* The same for one that was on its way; a call that waits goes on. */
static void a_try_in_flight_is_unavailable_when_the_server_has_gone(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?command_timeout=60s&ttl=20s");
    lk_check_a_try_under_way(l, env->zk);
    lk_close_locker(l);
}

/* A socket on which clients can connect, and are never answered. */
static int listen_dumbly(int port)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int dumb = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(dumb, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(dumb, 8), 0);
    return dumb;
}

static bool has_asked(void *context)
{
    return lk_stats(context).attempts >= 2;
}

/* One refuses, again and again, and the other one is there and says nothing. */
static void one_server_of_two_that_refuses_proves_nothing(void **state)
{
    lk_env *env = *state;
    const int port = lk_free_port(), dumb = listen_dumbly(port);
    locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?command_timeout=60s&ttl=20s",
                            env->zk->port, port);
    locker_lock_options try_it = lk_wait_options(0);
    lk_locking trying;
    lk_give(lk_take(l, "deserted"));
    lk_test_freeze(env->zk);
    lk_locking_start(&trying, l, "deserted", &try_it);
    lk_require(has_asked, l, "it should have asked");
    lk_server_kill(env->zk);
    for (int i = 0; i < 5; i++) { /* the first may have come when the locker was opened */
        const int client = accept(dumb, NULL, NULL);

        assert_true(client >= 0);
        (void)close(client);
    }
    lk_test_launch(env->zk, true);
    lk_give(lk_locking_grant(&trying));
    lk_close_locker(l);
    (void)close(dumb);
}

/* ------------------------------------------------------------------ addresses ---- */

static bool have_ipv6(void)
{
    const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool have = fd >= 0 && bind(fd, (const struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0)
        (void)close(fd);
    return have;
}

/* ... alone, and as one of two: each is tried, also after one that refuses. */
static void a_server_at_an_ipv6_address(void **state)
{
    lk_env *env = *state;
    locker *l;
    if (!have_ipv6())
        skip_reported("servers at IPv6 addresses", "can't bind to ::1: this host has no IPv6");
    lk_server_kill(env->zk);
    lk_test_listen_everywhere(env->zk);
    lk_test_launch(env->zk, true);
    l = lk_open_uri("zookeeper://[::1]:%d/shop?connect_timeout=20s", env->zk->port);
    lk_give(lk_take(l, "wide"));
    lk_close_locker(l);
    for (int i = 0; i < 8; i++) { /* which comes first is chance */
        l = lk_open_uri("zookeeper://127.0.0.1:%d,[::1]:%d/shop?connect_timeout=20s", lk_free_port(),
                        env->zk->port);
        lk_give(lk_take(l, "wide"));
        lk_close_locker(l);
    }
}

/* A TCP connection to an address of many is refused by this machine itself, with a route or without. */
static void an_address_that_is_out_of_reach(void **state)
{
    locker *l = NULL;
    locker_error err;
    int64_t began = lk_test_now_ms();
    (void)state;
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&l, &err, "zookeeper://224.0.0.1:2181/shop?connect_timeout=60s"), err);
    assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
}

/* As IPv6 is off on many a machine: in a network namespace without a single interface that is up. */
static void an_address_of_a_family_that_is_off(void **state)
{
    const int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    locker *l = NULL;
    locker_error err;
    (void)state;
    if (home < 0 || unshare(CLONE_NEWNET) != 0) {
        if (home >= 0)
            close(home);
        skip_reported("an address of a family that is off",
                      "can't make a network namespace, which takes root");
    }
    const int64_t began = lk_test_now_ms();
    const locker_status status = lk_try_uri(&l, &err, "zookeeper://[::1]:2181/shop?connect_timeout=60s");
    const int64_t took = lk_test_now_ms() - began;
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    close(home);
    assert_status(LOCKER_UNAVAILABLE, status, err);
    assert_true(took < LK_TEST_PATIENCE_MS);
}

/* ------------------------------------------------------------------ rights ---- */

static lk_gate refused, given_up;

static void note_refusal(locker_log_level level, const char *text, void *user)
{
    (void)level, (void)user;
    if (strstr(text, "cannot delete a node") != NULL)
        lk_gate_open(&refused, 1);
    if (strstr(text, "has ended; waiters queue again") != NULL)
        lk_gate_open(&given_up, 1);
}

/* The namespace of a user, in which others may make nodes and delete none, is another's key. */
static void take_what_cannot_be_given_back(locker *l)
{
    locker_handle *held = lk_take(l, "team");
    locker_error err;
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    assert_non_null(strstr(err.text, "ZooKeeper denied deleting"));
    locker_handle_free(held);
}

/* A node that can't be deleted costs no other lock. Its session ends once nothing is held, or when the locker is closed. */
static void a_node_that_cannot_be_deleted_costs_no_lock(void **state)
{
    lk_env *env = *state;
    locker *me = lk_open_uri("zookeeper://me:sesame-4711@127.0.0.1:%d/shop/team", env->zk->port), *l;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_handle *held = NULL;
    locker_error err;
    char uri[128];
    lk_give(lk_take(me, "own"));
    lk_close_locker(me);
    l = lk_open_at(env->zk, "/shop?ttl=20s&command_timeout=300ms&cleanup_timeout=20s");
    take_what_cannot_be_given_back(l);
    lk_close_locker(l);
    assert_int_equal(lk_zkc_count(env->client, "/shop/team"), 1); /* the user's own key */
    lk_gate_init(&refused);
    lk_gate_init(&given_up);
    options.log = note_refusal;
    snprintf(uri, sizeof uri,
             "zookeeper://127.0.0.1:%d/shop?ttl=20s&command_timeout=300ms&cleanup_timeout=200ms",
             env->zk->port);
    assert_ok(locker_open(uri, &options, &l, &err), err);
    locker_handle *kept = lk_take(l, "kept");
    take_what_cannot_be_given_back(l);
    lk_gate_await(&refused, 1, "the log should tell of the node");
    assert_status(LOCKER_DENIED, locker_try_lock(l, "team", NULL, &held, &err), err);
    lk_give(lk_take(l, "another"));
    assert_true(locker_handle_state(kept) <= LOCKER_STATE_SUSPECT);
    lk_give(kept);
    lk_gate_await(&given_up, 1, "the session should be given up");
    lk_close_locker(l);
    lk_gate_destroy(&given_up);
    lk_gate_destroy(&refused);
}

static const struct CMUnitTest tests[] = {
    server_test(a_server_at_an_ipv6_address),
    empty_test(an_address_that_is_out_of_reach),
    empty_test(an_address_of_a_family_that_is_off),
    server_test(a_try_does_not_wait_for_servers_that_are_gone),
    server_test(a_try_in_flight_is_unavailable_when_the_server_has_gone),
    server_test(one_server_of_two_that_refuses_proves_nothing),
    server_test(a_deleted_node_is_a_lost_lock),
    server_test(a_lost_lock_leaves_the_next_holder_alone),
    server_test(an_expired_session),
    proxied_test(the_end_of_a_node_puts_its_session_in_doubt),
    proxied_test(a_session_whose_end_only_the_leader_tells),
    proxied_test(a_session_in_doubt_grants_nothing),
    proxied_test(a_session_in_doubt_at_a_slow_server_goes_on),
    proxied_test(a_session_in_doubt_before_it_was_watched_grants_nothing),
    server_test(a_server_stopped_beyond_the_session),
    server_test(a_short_stop_loses_nothing),
    cmocka_unit_test(heartbeats_for_many_locks_fit),
    server_test(a_server_that_comes_back_empty),
    server_test(a_lease_that_is_meant_to_end),
    server_test(a_node_that_cannot_be_deleted_costs_no_lock),
};

const lk_group lk_losses = {"losses", tests, sizeof tests / sizeof tests[0], NULL, NULL};
