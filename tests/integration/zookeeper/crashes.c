/* crashes.c: processes that hold or wait are killed or stopped. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "zk_tests.h"

/* So long that a machine which stands still for a moment ends no session. */
enum { TTL_MS = 2000 };

static lk_child *puppet_with_ttl(lk_env *env, int ttl_ms)
{
    return lk_env_puppet(env, "zookeeper://127.0.0.1:%d/shop?ttl=%dms", env->zk->port, ttl_ms);
}

static void a_killed_holder_is_followed_within_its_session(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop");
    for (int round = 0; round < 3; round++) {
        lk_child *holder = puppet_with_ttl(env, TTL_MS);
        lk_locking waiter;
        uint64_t token;
        int64_t killed;

        assert_int_equal(lk_puppet_lock(holder, "killed", 0, 0, true, &token), LOCKER_OK);
        lk_locking_start(&waiter, l, "killed", NULL);
        lk_zkc_require_count(env->client, "/shop/killed", 2);
        killed = lk_test_now_ms();
        lk_env_kill(env, holder);
        assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
        assert_timely(waiter.ended_ms - killed, TTL_MS + 2 * LK_ZOOKEEPER_TICK_MS + LK_TEST_SLACK_MS);
        assert_true(locker_handle_token(waiter.held) > token);
        lk_give(waiter.held);
    }
    lk_close_locker(l);
}

/* Its place goes when its session ends; those behind keep theirs, and nobody gets on before. */
static void a_waiter_killed_in_the_middle_of_the_queue(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *last = lk_open_at(env->zk, "/shop");
    lk_child *before = puppet_with_ttl(env, TTL_MS), *middle = puppet_with_ttl(env, TTL_MS);
    locker_handle *held = lk_take(holder, "queue");
    lk_locking waiter;
    uint64_t token;
    lk_puppet_wait(before, "queue", -1, 0, true);
    lk_zkc_require_count(env->client, "/shop/queue", 2);
    lk_puppet_wait(middle, "queue", -1, 0, true);
    lk_zkc_require_count(env->client, "/shop/queue", 3);
    lk_locking_start(&waiter, last, "queue", NULL);
    lk_zkc_require_count(env->client, "/shop/queue", 4);
    lk_env_kill(env, middle);
    lk_zkc_require_count(env->client, "/shop/queue", 3);
    lk_require_waiting(last, 1);
    lk_give(held);
    assert_int_equal(lk_puppet_granted(before, &token), LOCKER_OK);
    lk_require_waiting(last, 1);
    assert_int_equal(lk_puppet_unlock(before), LOCKER_OK);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(locker_handle_token(waiter.held) > token);
    lk_give(waiter.held);
    lk_close_locker(last);
    lk_close_locker(holder);
}

/* A holder that stood still for too long finds out by its own clock, and never takes up its lock again. */
static void a_stopped_holder_never_revives(void **state)
{
    lk_env *env = *state;
    lk_child *holder = puppet_with_ttl(env, TTL_MS);
    locker *l = lk_open_at(env->zk, "/shop");
    locker_handle *held;
    assert_int_equal(lk_puppet_lock(holder, "stopped", 0, 0, true, NULL), LOCKER_OK);
    lk_child_stop(holder);
    held = lk_take(l, "stopped");
    lk_child_signal(holder, SIGCONT);
    lk_puppet_expect_state(holder, LOCKER_STATE_LOST);
    assert_int_equal(lk_puppet_unlock(holder), LOCKER_LOST);
    assert_int_equal(lk_zkc_count(env->client, "/shop/stopped"), 1);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(a_killed_holder_is_followed_within_its_session),
    server_test(a_waiter_killed_in_the_middle_of_the_queue),
    server_test(a_stopped_holder_never_revives),
};

const lk_group lk_crashes = {"crashes", tests, sizeof tests / sizeof tests[0], NULL, NULL};
