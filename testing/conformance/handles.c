/* handles.c: unlocking twice and from many threads, re-entry, labels, handles after their locker. */
#include "kit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void a_second_unlock_is_invalid(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "twice", NULL);
    locker_error err;
    assert_ok(locker_unlock(held, &err), err);
    locker_handle *second = lk_take(rival, "twice", NULL);
    assert_status(LOCKER_INVALID, locker_unlock(held, &err), err);
    assert_int_equal(locker_unlock(held, NULL), LOCKER_INVALID);
    lk_expect_busy(l, "twice"); /* the second holder's lock is untouched */
    locker_handle_free(held);
    lk_expect_busy(l, "twice");
    lk_give(second);
    locker_handle_free(NULL);
    locker_cleanup(NULL);
    lk_close_locker(rival);
    lk_close_locker(l);
}

enum { UNLOCKERS = 100 };

struct crowd {
    locker_handle *held;
    pthread_barrier_t start;
    atomic_int answers[LOCKER_FORKED + 1];
};

static void *unlock_with_the_crowd(void *argument)
{
    struct crowd *crowd = argument;
    pthread_barrier_wait(&crowd->start);
    atomic_fetch_add(&crowd->answers[locker_unlock(crowd->held, NULL)], 1);
    return NULL;
}

static void of_100_unlocks_one_is_ok(void **state)
{
    locker *l = lk_open_locker(*state, "");
    for (int round = 0; round < 5; round++) {
        struct crowd crowd = {.held = lk_take(l, "crowd", NULL)};

        pthread_barrier_init(&crowd.start, NULL, UNLOCKERS);
        pthread_t threads[UNLOCKERS];
        for (int i = 0; i < UNLOCKERS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, unlock_with_the_crowd, &crowd), 0);
        for (int i = 0; i < UNLOCKERS; i++)
            lk_join(threads[i], "one of 100 threads that unlock");
        assert_int_equal(atomic_load(&crowd.answers[LOCKER_OK]), 1);
        assert_int_equal(atomic_load(&crowd.answers[LOCKER_INVALID]), UNLOCKERS - 1);
        pthread_barrier_destroy(&crowd.start);
        locker_handle_free(crowd.held);
    }
    assert_int_equal(lk_stats(l).released, 5);
    lk_close_locker(l);
}

static void *give_elsewhere(void *argument)
{
    return locker_unlock(argument, NULL) == LOCKER_OK ? argument : NULL;
}

static void another_thread_may_unlock(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "elsewhere", NULL);
    pthread_t thread;
    void *answer = NULL;
    assert_int_equal(pthread_create(&thread, NULL, give_elsewhere, held), 0);
    pthread_join(thread, &answer);
    assert_ptr_equal(answer, held);
    locker_handle_free(held);
    lk_close_locker(l);
}

static locker_lock_options owned_by(const char *owner, int64_t wait_ms)
{
    locker_lock_options options = lk_wait_options(wait_ms);
    options.owner = owner;
    return options;
}

/* Whether they wait or come later: when one of an owner's calls holds the key, all of them do. */
static void the_calls_of_an_owner_enter_together(void **state)
{
    locker *l = lk_open_locker(*state, ""), *other = lk_open_locker(*state, "");
    const locker_lock_options options = owned_by("ann", LK_TEST_PATIENCE_MS);
    locker_handle *held = lk_take(other, "re", NULL), *mine[2];
    lk_locking call[2];
    for (int i = 0; i < 2; i++) {
        lk_locking_start(&call[i], l, "re", &options);
        lk_require_waiting(l, (uint64_t)i + 1);
    }
    lk_give(held);
    for (int i = 0; i < 2; i++)
        mine[i] = lk_locking_grant(&call[i]);
    assert_true(locker_handle_token(mine[0]) == locker_handle_token(mine[1]));
    lk_give(mine[0]);
    lk_expect_busy(other, "re");
    lk_give(mine[1]);
    lk_give(lk_take(other, "re", NULL));
    lk_close_locker(other);
    lk_close_locker(l);
}

/* A call that waits for its own locker's other call, and has no owner, is told so. */
static void busy_and_timeout_say_that_the_locker_itself_holds_the_lock(void **state)
{
    locker *l = lk_open_locker(*state, ""), *other = lk_open_locker(*state, "");
    const locker_lock_options waits = lk_wait_options(50);
    locker_handle *held = lk_take(l, "own", NULL), *none;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(l, "own", NULL, &none, &err), err);
    assert_non_null(strstr(err.text, "this locker itself"));
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "own", &waits, &none, &err), err);
    assert_non_null(strstr(err.text, "this locker itself"));
    assert_status(LOCKER_BUSY, locker_try_lock(other, "own", NULL, &none, &err), err);
    assert_null(strstr(err.text, "this locker itself"));
    assert_status(LOCKER_TIMEOUT, locker_lock(other, "own", &waits, &none, &err), err);
    assert_null(strstr(err.text, "this locker itself"));
    lk_give(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

static void the_same_owner_enters_again(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_lock_options ann = owned_by("ann", -1), bob = owned_by("bob", 0), ann_there = owned_by("ann", 0);
    locker_handle *first = lk_take(l, "re", &ann), *second = lk_take(l, "re", &ann), *third = NULL;
    assert_string_equal(locker_handle_owner(first), "ann");
    assert_ptr_not_equal(first, second);
    assert_int_equal(locker_handle_token(first), locker_handle_token(second));
    assert_int_equal(lk_stats(l).reentered, 1);
    assert_int_equal(lk_stats(l).acquired, 1);
    locker_error err;
    assert_status(LOCKER_BUSY, locker_lock(l, "re", &bob, &third, &err), err);
    assert_status(LOCKER_BUSY, locker_lock(rival, "re", &ann_there, &third, &err), err); /* another locker */
    lk_expect_busy(l, "re"); /* no owner given: no re-entry */
    lk_give(first);          /* in any order */
    lk_expect_busy(rival, "re");
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    assert_ok(locker_try_lock(l, "re", &ann, &third, &err), err);
    lk_give(second);
    lk_expect_busy(rival, "re");
    lk_give(third);
    lk_give(lk_take(rival, "re", NULL));
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A holder enters again past those that wait, or it would wait for itself. */
static void re_entry_does_not_wait_behind_waiters(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_lock_options ann = owned_by("ann", -1), bob = owned_by("bob", -1);
    locker_handle *first = lk_take(l, "re-line", &ann);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "re-line", &bob);
    lk_require_waiting(l, 1);
    locker_handle *second = lk_take(l, "re-line", &ann);
    lk_give(first);
    assert_int_equal(lk_stats(l).waiting, 1);
    lk_give(second);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_string_equal(locker_handle_owner(waiter.held), "bob");
    lk_give(waiter.held);
    lk_close_locker(l);
}

static void a_lost_re_entered_lock_is_lost_for_all_handles(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_lock_options options = owned_by("ann", -1);
    options.ttl_ms = 300;
    options.no_renew = true;
    locker_handle *first = lk_take(l, "re-lost", &options);
    locker_handle *second = lk_take(l, "re-lost", &options);
    assert_true(lk_readable(locker_handle_fd(first), LK_TEST_PATIENCE_MS));
    assert_true(lk_readable(locker_handle_fd(second), LK_TEST_PATIENCE_MS));
    locker_error err;
    assert_status(LOCKER_LOST, locker_unlock(first, &err), err);
    assert_status(LOCKER_LOST, locker_unlock(second, &err), err);
    locker_handle_free(first);
    locker_handle_free(second);
    lk_give(lk_take(l, "re-lost", NULL));
    lk_close_locker(l);
}

static void freeing_unlocks(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "freed", NULL);
    locker_lock_options ann = owned_by("ann", -1);
    locker_handle_free(held);
    lk_give(lk_take(rival, "freed", NULL));
    held = lk_take(l, "freed", &ann);
    locker_handle_free(lk_take(l, "freed", &ann));
    lk_expect_busy(rival, "freed");
    locker_handle_free(held);
    lk_give(lk_take(rival, "freed", NULL));
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Whoever comes to a key first, unlocks and keeps the handle: the key is the others' as well. */
static void unlocked_handles_stay_whole(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *first = lk_take(l, "whole", NULL);
    lk_locking second;
    lk_locking_start(&second, l, "whole", NULL);
    lk_require_waiting(l, 1);
    locker_error err;
    assert_ok(locker_unlock(first, &err), err);
    assert_status(LOCKER_OK, lk_locking_join(&second), second.err);
    assert_string_equal(locker_handle_key(first), "whole");
    lk_give(second.held);
    locker_handle *third = lk_take(l, "whole", NULL);
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_UNLOCKED);
    assert_status(LOCKER_INVALID, locker_unlock(first, &err), err);
    lk_expect_busy(l, "whole");
    locker_handle_free(first);
    lk_expect_busy(l, "whole");
    lk_give(third);
    lk_give(lk_take(l, "whole", NULL));
    lk_close_locker(l);
}

static void handles_outlive_their_locker(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_lock_options ann = owned_by("ann", -1);
    locker_handle *held = lk_take(l, "outlive", &ann), *again = lk_take(l, "outlive", &ann);
    locker_handle *done = lk_take(l, "outlive-done", NULL);
    locker_error err;
    assert_ok(locker_unlock(done, &err), err);
    lk_close_locker(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_UNLOCKED);
    assert_int_equal(locker_handle_state(again), LOCKER_STATE_UNLOCKED);
    assert_string_equal(locker_handle_key(held), "outlive");
    assert_string_equal(locker_handle_owner(held), "ann");
    assert_status(LOCKER_CLOSED, locker_unlock(held, &err), err);
    assert_int_equal(locker_handle_state(done), LOCKER_STATE_UNLOCKED);
    locker_handle_free(held);
    locker_handle_free(again);
    locker_handle_free(done);
    locker_close(NULL);
}

/* What a program that becomes another has: tests of the locker command look at that. */
static void keeping_over_exec(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_error err;
    const locker_status kept = locker_keeps_over_exec(l) ? LOCKER_OK : LOCKER_UNSUPPORTED;
    locker_handle *held = lk_take(l, "exec", NULL);
    assert_status(kept, locker_handle_keep_over_exec(held, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_expect_busy(l, "exec");
    assert_ok(locker_unlock(held, &err), err);
    assert_status(kept == LOCKER_OK ? LOCKER_INVALID : kept, locker_handle_keep_over_exec(held, &err), err);
    locker_handle_free(held);
    assert_status(LOCKER_INVALID, locker_handle_keep_over_exec(NULL, &err), err);
    assert_false(locker_keeps_over_exec(NULL));
    lk_give(lk_take(l, "exec", NULL));
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_second_unlock_is_invalid),
    cmocka_unit_test(of_100_unlocks_one_is_ok),
    cmocka_unit_test(another_thread_may_unlock),
    cmocka_unit_test(the_same_owner_enters_again),
    cmocka_unit_test(the_calls_of_an_owner_enter_together),
    cmocka_unit_test(busy_and_timeout_say_that_the_locker_itself_holds_the_lock),
    cmocka_unit_test(re_entry_does_not_wait_behind_waiters),
    cmocka_unit_test(a_lost_re_entered_lock_is_lost_for_all_handles),
    cmocka_unit_test(freeing_unlocks),
    cmocka_unit_test(unlocked_handles_stay_whole),
    cmocka_unit_test(handles_outlive_their_locker),
    cmocka_unit_test(keeping_over_exec),
};

const lk_group lk_handles = {"handles", tests, sizeof tests / sizeof tests[0]};
