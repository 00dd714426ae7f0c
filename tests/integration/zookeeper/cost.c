/* cost.c: how much a lock, a wait, a hand-over and a heartbeat ask of the server, counted by a proxy. */
#include <stdio.h>

#include "zk_tests.h"

static unsigned creates(struct env *env)
{
    return lk_zkp_requests(env->proxy, LK_ZKP_CREATE2);
}

static unsigned lists(struct env *env)
{
    return lk_zkp_requests(env->proxy, LK_ZKP_LIST);
}

/* create and list to lock, delete to unlock, and nothing for the parents once they are there. */
static void one_request_of_each_kind(void **state)
{
    enum { TIMES = 10 };
    struct env *env = *state;
    locker *l = lk_open_through(env, "/shop");
    unsigned created, listed, deleted, parents;

    lk_give(lk_take(l, "counted"));
    created = creates(env);
    listed = lists(env);
    deleted = lk_zkp_requests(env->proxy, LK_ZKP_DELETE);
    parents = lk_zkp_requests(env->proxy, LK_ZKP_CREATE_CONTAINER);
    for (int i = 0; i < TIMES; i++)
        lk_give(lk_take(l, "counted"));
    assert_int_equal(creates(env) - created, TIMES);
    assert_int_equal(lists(env) - listed, TIMES);
    assert_int_equal(lk_zkp_requests(env->proxy, LK_ZKP_DELETE) - deleted, TIMES);
    assert_int_equal(lk_zkp_requests(env->proxy, LK_ZKP_CREATE_CONTAINER), parents);
    lk_close_locker(l);
}

struct flight {
    struct env *env;
    unsigned created, listed;
};

static bool both_are_out(void *context)
{
    const struct flight *flight = context;

    return creates(flight->env) == flight->created + 1 && lists(flight->env) == flight->listed + 1;
}

/* Both requests of a lock are with the server before the answer to either: one round trip. */
static void create_and_list_in_one_flight(void **state)
{
    struct env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    struct lk_locking locking;
    struct flight flight = {env, 0, 0};

    lk_give(lk_take(l, "flight"));
    flight.created = creates(env);
    flight.listed = lists(env);
    lk_zkp_hold(env->proxy, false, true);
    lk_locking_start(&locking, l, "flight", NULL);
    lk_require(both_are_out, &flight, "create and list should be sent without waiting for an answer");
    lk_zkp_hold(env->proxy, false, false);
    assert_status(LOCKER_OK, lk_locking_join(&locking), locking.err);
    lk_give(locking.held);
    lk_close_locker(l);
}

static void a_waiting_process_is_quiet(void **state)
{
    enum { WAITERS = 5 };
    struct env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop");
    locker_handle *held = lk_take(holder, "quiet");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    struct lk_locking waiters[WAITERS];
    unsigned created, listed, got;

    options.cancel = cancel;
    for (size_t i = 0; i < WAITERS; i++) {
        lk_locking_start(&waiters[i], l, "quiet", &options);
        lk_zkc_require_count(env->client, "/shop/quiet", i + 2);
    }
    assert_false(lk_readable(locker_handle_fd(held), 500)); /* their watches are set */
    created = creates(env);
    listed = lists(env);
    got = lk_zkp_requests(env->proxy, LK_ZKP_GET);
    assert_false(lk_readable(locker_handle_fd(held), 2000));
    assert_int_equal(creates(env), created);
    assert_int_equal(lists(env), listed);
    assert_int_equal(lk_zkp_requests(env->proxy, LK_ZKP_GET), got);
    locker_cancel_fire(cancel);
    for (size_t i = 0; i < WAITERS; i++)
        assert_status(LOCKER_CANCELED, lk_locking_join(&waiters[i]), waiters[i].err);
    lk_give(held);
    locker_cancel_free(cancel);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* The deletion of the node ahead is the grant: who was right behind it asks nothing more, and those further
 * behind hear nothing. */
static void a_release_wakes_one(void **state)
{
    struct env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop");
    locker_handle *held = lk_take(holder, "wakes");
    struct lk_locking first, second;
    unsigned created, listed;
    uint64_t attempts;

    lk_locking_start(&first, l, "wakes", NULL);
    lk_zkc_require_count(env->client, "/shop/wakes", 2);
    lk_locking_start(&second, l, "wakes", NULL);
    lk_zkc_require_count(env->client, "/shop/wakes", 3);
    assert_false(lk_readable(locker_handle_fd(held), 500)); /* their watches are set */
    created = creates(env);
    listed = lists(env);
    attempts = lk_stats(l).attempts;
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&first), first.err);
    assert_int_equal(lists(env), listed);
    assert_int_equal(creates(env), created);
    assert_int_equal(lk_stats(l).attempts - attempts, 1);
    lk_give(first.held);
    assert_status(LOCKER_OK, lk_locking_join(&second), second.err);
    assert_true(lists(env) - listed <= 1);
    assert_int_equal(creates(env), created);
    lk_give(second.held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static void one_heartbeat_for_many_locks(void **state)
{
    enum { MANY = 50 };
    struct env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=2s");
    locker_handle *held[MANY];
    unsigned before;

    for (int i = 0; i < MANY; i++) {
        char key[32];

        snprintf(key, sizeof key, "beat-%d", i);
        held[i] = lk_take(l, key);
    }
    before = lk_zkp_requests(env->proxy, LK_ZKP_MULTI);
    assert_false(lk_readable(locker_handle_fd(held[0]), 2500)); /* longer than the session would last */
    assert_in_range(lk_zkp_requests(env->proxy, LK_ZKP_MULTI) - before, 2, 10);
    assert_int_equal(lk_stats(l).lost, 0);
    for (int i = 0; i < MANY; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(one_request_of_each_kind),     proxied_test(create_and_list_in_one_flight),
    proxied_test(a_waiting_process_is_quiet),   proxied_test(a_release_wakes_one),
    proxied_test(one_heartbeat_for_many_locks),
};

const struct lk_group lk_cost = {"cost", tests, sizeof tests / sizeof tests[0], NULL, NULL};
