/* cancel.c: ending waits from other threads and from signal handlers. */
#include "kit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

static locker_lock_options cancelable(locker_cancel *cancel)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.cancel = cancel;
    return options;
}

static void fired_before(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = cancelable(cancel);
    locker_handle *held = NULL;
    assert_non_null(cancel);
    assert_false(locker_cancel_fired(cancel));
    locker_cancel_fire(cancel);
    locker_cancel_fire(cancel);
    assert_true(locker_cancel_fired(cancel));
    locker_error err;
    assert_status(LOCKER_CANCELED, locker_lock(l, "before", &options, &held, &err), err);
    assert_null(held);
    locker_cancel_reset(cancel);
    assert_false(locker_cancel_fired(cancel));
    held = lk_take(l, "before", &options);
    lk_give(held);
    locker_cancel_free(cancel);
    locker_cancel_free(NULL);
    lk_close_locker(l);
}

static void fired_during_the_wait(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = cancelable(cancel);
    locker_handle *held = lk_take(l, "during", NULL);
    lk_locking waiters[4];
    for (int i = 0; i < 4; i++)
        lk_locking_start(&waiters[i], i % 2 == 0 ? l : rival, "during", &options);
    lk_require_waiting(l, 2);
    lk_require_waiting(rival, 2);
    const int64_t fired = lk_test_now_ms();
    locker_cancel_fire(cancel);
    for (int i = 0; i < 4; i++) {
        assert_status(LOCKER_CANCELED, lk_locking_join(&waiters[i]), waiters[i].err);
        assert_null(waiters[i].held);
        assert_timely(waiters[i].ended_ms - fired, LK_TEST_SLACK_MS);
    }
    assert_int_equal(lk_stats(rival).canceled, 2);
    lk_give(held);
    lk_give(lk_take(rival, "during", NULL)); /* nothing is left behind */
    locker_cancel_free(cancel);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void fired_after_the_grant(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = cancelable(cancel);
    locker_handle *held = lk_take(l, "after", &options);
    locker_cancel_fire(cancel);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_expect_busy(rival, "after");
    lk_give(held);
    locker_cancel_free(cancel);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Whatever the moment, the answer is a held lock or CANCELED, and nothing is left behind. */
static void fired_around_the_grant(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    for (int i = 0; i < 100; i++) {
        locker_cancel *cancel = locker_cancel_new();
        locker_lock_options options = cancelable(cancel);
        locker_handle *held = lk_take(l, "around", NULL);
        lk_locking waiter;

        lk_locking_start(&waiter, rival, "around", &options);
        lk_require_waiting(rival, 1);
        if (i % 2 == 0)
            locker_cancel_fire(cancel);
        locker_error err;
        assert_ok(locker_unlock(held, &err), err);
        if (i % 2 == 1)
            locker_cancel_fire(cancel);
        locker_handle_free(held);
        if (lk_locking_join(&waiter) == LOCKER_OK)
            lk_give(waiter.held);
        else
            assert_status(LOCKER_CANCELED, waiter.status, waiter.err);
        lk_give(lk_take(l, "around", NULL));
        locker_cancel_free(cancel);
    }
    assert_int_equal(lk_stats(rival).held, 0);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static _Atomic(locker_cancel *) interrupted;

static void on_signal(int number)
{
    const int before = errno;
    (void)number;
    errno = 4711;
    locker_cancel_fire(atomic_load(&interrupted));
    if (errno != 4711)
        abort(); /* firing keeps errno */
    errno = before;
}

static void fired_by_a_signal_handler(void **state)
{
    struct sigaction action = {.sa_handler = on_signal};
    locker *l = lk_open_locker(*state, "");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = cancelable(cancel);
    locker_handle *held = lk_take(l, "signal", NULL);
    atomic_store(&interrupted, cancel);
    struct sigaction before;
    sigaction(SIGUSR1, &action, &before);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "signal", &options);
    lk_require_waiting(l, 1);
    pthread_kill(waiter.thread, SIGUSR1); /* on the very thread that waits */
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    sigaction(SIGUSR1, &before, NULL);
    lk_give(held);
    locker_cancel_free(cancel);
    lk_close_locker(l);
}

/* A signal that fires nothing doesn't end a wait. */
static void on_other_signal(int number)
{
    (void)number;
}

static void a_signal_alone_ends_no_wait(void **state)
{
    struct sigaction action = {.sa_handler = on_other_signal}, before;
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "eintr", NULL);
    sigaction(SIGUSR1, &action, &before);
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "eintr", NULL);
    lk_require_waiting(rival, 1);
    for (int i = 0; i < 20; i++)
        pthread_kill(waiter.thread, SIGUSR1);
    lk_require_waiting(rival, 1);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    sigaction(SIGUSR1, &before, NULL);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fired_before),
    cmocka_unit_test(fired_during_the_wait),
    cmocka_unit_test(fired_after_the_grant),
    cmocka_unit_test(fired_around_the_grant),
    cmocka_unit_test(fired_by_a_signal_handler),
    cmocka_unit_test(a_signal_alone_ends_no_wait),
};

const lk_group lk_cancel = {"cancel", tests, sizeof tests / sizeof tests[0]};
