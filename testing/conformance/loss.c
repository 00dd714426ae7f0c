/* loss.c: locks that are taken away: deleted, replaced, out of reach until the deadline; unlock's answers. */
#include "kit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { TTL = 600, LONG_TTL = 3000 };

static void count_loss(locker_handle *lost, void *user)
{
    (void)lost;
    atomic_fetch_add((atomic_int *)user, 1);
}

/* Takes a renewed lock whose loss is counted. */
static locker_handle *take_counted(locker *l, const char *key, atomic_int *losses)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.on_lost = count_loss;
    options.user = losses;
    return lk_take(l, key, &options);
}

static void expect_loss_noticed(locker_handle *held, int64_t harmed_ms)
{
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    /* at the next renewal, after a third of the lease time */
    assert_timely(lk_test_now_ms() - harmed_ms, LONG_TTL / 2 + LK_TEST_SLACK_MS);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
}

static bool was_called(void *context)
{
    return atomic_load((atomic_int *)context) > 0;
}

static void a_deleted_lock_is_lost(void **state)
{
    lk_fixture *fixture = *state;
    atomic_int losses = 0;
    needs(lk_can_lose(fixture));
    locker *l = lk_open_locker(fixture, "ttl=3s");
    locker_handle *held = take_counted(l, "deleted", &losses);

    lk_lose(fixture, "deleted");
    expect_loss_noticed(held, lk_test_now_ms());
    lk_require(was_called, &losses, "on_lost");
    lk_give_lost(held);
    lk_give(lk_take(l, "deleted", NULL));
    lk_close_locker(l);
    assert_int_equal(atomic_load(&losses), 1);
}

static void a_replaced_lock_is_lost_and_left_alone(void **state)
{
    lk_fixture *fixture = *state;
    atomic_int losses = 0;
    needs(lk_can_lose(fixture));
    locker *l = lk_open_locker(fixture, "ttl=3s");
    locker_handle *held = take_counted(l, "replaced", &losses);

    lk_replace(fixture, "replaced");
    expect_loss_noticed(held, lk_test_now_ms());
    lk_require(was_called, &losses, "on_lost"); /* unlocking first would tell the loss instead */
    lk_give_lost(held);
    locker_handle *none = NULL;
    /* one that had lost it already was not replaced */
    if (assert_unless_late(locker_try_lock(l, "replaced", NULL, &none, NULL) == LOCKER_BUSY))
        lk_lose(fixture, "replaced");
    locker_handle_free(none);
    lk_give(lk_take(l, "replaced", NULL));
    lk_close_locker(l);
    assert_int_equal(atomic_load(&losses), 1);
}

/* Unlocking asks the service: what was deleted or replaced a moment ago is LOST, not OK. */
static void unlock_says_lost_at_once(void **state)
{
    lk_fixture *fixture = *state;
    needs(lk_can_lose(fixture));
    locker *l = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "gone", NULL);

    lk_lose(fixture, "gone");
    locker_error err;
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    assert_status(LOCKER_INVALID, locker_unlock(held, &err), err);
    locker_handle_free(held);
    held = lk_take(l, "gone", NULL);
    lk_replace(fixture, "gone");
    lk_give_lost(held);
    lk_expect_busy(l, "gone");
    lk_lose(fixture, "gone");
    assert_int_equal(lk_stats(l).released, 0);
    lk_close_locker(l);
}

static void a_lock_is_suspect_and_then_lost_if_the_service_is_out_of_reach(void **state)
{
    lk_fixture *fixture = *state;
    atomic_int losses = 0;
    needs(lk_can_freeze(fixture) && fixture->promises.leases);
    locker *l = lk_open_locker(fixture, "ttl=600ms");
    locker_handle *held = take_counted(l, "away", &losses);
    int64_t frozen = lk_test_now_ms();

    lk_freeze(fixture);
    lk_require_state(held, LOCKER_STATE_LOST);
    assert_timely(lk_test_now_ms() - frozen, TTL + LK_TEST_SLACK_MS);
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    assert_int_equal(locker_handle_remaining_ms(held), 0);
    lk_require(was_called, &losses, "on_lost");
    lk_thaw(fixture);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST); /* it never comes back */
    assert_int_equal(locker_unlock(held, NULL), LOCKER_LOST);
    locker_handle_free(held);
    lk_give(lk_take(l, "away", NULL));
    lk_close_locker(l);
    assert_int_equal(atomic_load(&losses), 1);
}

static void unlock_out_of_reach_is_unknown(void **state)
{
    lk_fixture *fixture = *state;
    needs(lk_can_freeze(fixture));
    locker *l = lk_open_locker(fixture, "ttl=20s&command_timeout=300ms"),
           *rival = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "unknown", NULL);

    lk_freeze(fixture);
    int64_t began = lk_test_now_ms();
    locker_error err;
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    assert_timely(lk_test_now_ms() - began, 300 + LK_TEST_SLACK_MS);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_UNLOCKED);
    assert_int_equal(lk_stats(l).unknown, 1);
    lk_thaw(fixture);
    locker_handle_free(held);
    /* releasing goes on in the background: the rival need not wait for the lease's end */
    locker_lock_options options = lk_wait_options(5000);
    held = lk_take(rival, "unknown", &options);
    lk_give(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_try_out_of_reach_is_unavailable(void **state)
{
    lk_fixture *fixture = *state;
    needs(lk_can_freeze(fixture));
    locker *l = lk_open_locker(fixture, "command_timeout=300ms"), *rival = lk_open_locker(fixture, "");
    locker_handle *held = NULL;
    locker_info info = LOCKER_INFO_INIT;

    lk_freeze(fixture);
    int64_t began = lk_test_now_ms();
    locker_error err;
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "unreachable", NULL, &held, &err), err);
    assert_null(held);
    assert_status(LOCKER_UNAVAILABLE, locker_show(l, "unreachable", &info, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_ping(l, NULL, &err), err);
    assert_timely(lk_test_now_ms() - began, 3 * 300 + LK_TEST_SLACK_MS);
    lk_thaw(fixture);
    /* the late grant was given back; the rival has more time for an answer */
    locker_lock_options options = lk_wait_options(5000);
    lk_give(lk_take(rival, "unreachable", &options));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_timed_wait_keeps_its_time_out_of_reach(void **state)
{
    lk_fixture *fixture = *state;
    needs(lk_can_freeze(fixture));
    locker *l = lk_open_locker(fixture, ""), *rival = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "late", NULL);
    locker_lock_options options = lk_wait_options(400);
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options patient = {.size = sizeof patient, .wait_ms = -1, .cancel = cancel};
    lk_locking timed;

    lk_locking_start(&timed, rival, "late", &options);
    lk_locking canceled;
    lk_locking_start(&canceled, rival, "late2", NULL);
    assert_status(LOCKER_OK, lk_locking_join(&canceled), canceled.err);
    lk_freeze(fixture);
    locker_handle *second = canceled.held;
    lk_locking_start(&canceled, rival, "late3", &patient);
    lk_locking_join(&timed);
    /* it timed out, or the attempt that was under way could not be answered */
    assert_true(timed.status == LOCKER_TIMEOUT || timed.status == LOCKER_UNAVAILABLE);
    assert_true(timed.ended_ms - timed.began_ms >= 399);
    assert_timely(timed.ended_ms - timed.began_ms, 400 + LK_TEST_SLACK_MS);
    int64_t fired = lk_test_now_ms();
    locker_cancel_fire(cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&canceled), canceled.err);
    assert_timely(canceled.ended_ms - fired, LK_TEST_SLACK_MS);
    lk_thaw(fixture);
    lk_give(second);
    lk_give(held);
    lk_give(lk_take(l, "late", NULL));
    lk_give(lk_take(l, "late3", NULL)); /* the request that was cancelled in flight left nothing */
    locker_cancel_free(cancel);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_stalled_holder_knows_and_harms_nobody(void **state)
{
    lk_fixture *fixture = *state;
    needs_processes(fixture);
    needs(fixture->promises.leases);
    locker *l = lk_open_locker(fixture, "");
    lk_child *puppet = lk_start_puppet(fixture, "ttl=600ms");
    uint64_t stale = 0;

    assert_int_equal(lk_puppet_lock(puppet, "stalled", -1, TTL, true, &stale), LOCKER_OK);
    lk_puppet_stop(puppet);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "stalled", NULL);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_child_signal(puppet, SIGCONT);
    lk_puppet_expect_state(puppet, LOCKER_STATE_LOST);
    assert_int_equal(lk_puppet_unlock(puppet), LOCKER_LOST);
    assert_int_equal(locker_handle_state(waiter.held), LOCKER_STATE_HELD);
    assert_true(locker_handle_token(waiter.held) > stale);
    lk_give(waiter.held); /* still ours, with proof */
    assert_int_equal(lk_child_end(puppet), 0);
    lk_close_locker(l);
}

/* Without leases a lock is its holder's however long that stands still. */
static void a_stopped_holder_keeps_its_lock(void **state)
{
    lk_fixture *fixture = *state;
    needs_processes(fixture);
    needs(!fixture->promises.leases);
    locker *l = lk_open_locker(fixture, "");
    lk_child *puppet = lk_start_puppet(fixture, "");
    locker_lock_options options = lk_wait_options(3L * TTL);
    locker_handle *none = NULL;

    assert_int_equal(lk_puppet_lock(puppet, "stopped", -1, TTL, true, NULL), LOCKER_OK);
    lk_puppet_stop(puppet);
    locker_error err;
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "stopped", &options, &none, &err), err);
    lk_child_signal(puppet, SIGCONT);
    lk_puppet_expect_state(puppet, LOCKER_STATE_HELD);
    assert_int_equal(lk_puppet_unlock(puppet), LOCKER_OK);
    lk_give(lk_take(l, "stopped", NULL));
    assert_int_equal(lk_child_end(puppet), 0);
    lk_close_locker(l);
}

static int thaw_after(void **state)
{
    lk_fixture *fixture = *state;
    /* a test that failed may have left it frozen */
    if (lk_can_freeze(fixture))
        lk_thaw(fixture);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_deleted_lock_is_lost),
    cmocka_unit_test(a_replaced_lock_is_lost_and_left_alone),
    cmocka_unit_test(unlock_says_lost_at_once),
    cmocka_unit_test_teardown(a_lock_is_suspect_and_then_lost_if_the_service_is_out_of_reach, thaw_after),
    cmocka_unit_test_teardown(unlock_out_of_reach_is_unknown, thaw_after),
    cmocka_unit_test_teardown(a_try_out_of_reach_is_unavailable, thaw_after),
    cmocka_unit_test_teardown(a_timed_wait_keeps_its_time_out_of_reach, thaw_after),
    cmocka_unit_test(a_stalled_holder_knows_and_harms_nobody),
    cmocka_unit_test(a_stopped_holder_keeps_its_lock),
};

const lk_group lk_loss = {"loss", tests, sizeof tests / sizeof tests[0]};
