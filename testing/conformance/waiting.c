/* waiting.c: order among waiters, handing over, re-entry of waiters, closing while others wait. */
#include "kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAITERS = 8 };

/* One that waits in a line, and writes its number down when it is served. */
struct in_line {
    locker *l;
    const char *key;
    int *served;       /* numbers in the order of the grants; guarded by the lock that is tested */
    atomic_int *count; /* how many are in served */
    pthread_t thread;
    int number;
    locker_status status;
};

static void *stand_in_line(void *argument)
{
    struct in_line *self = argument;
    locker_handle *held = NULL;
    self->status = locker_lock(self->l, self->key, NULL, &held, NULL);
    if (self->status == LOCKER_OK) {
        self->served[atomic_fetch_add(self->count, 1)] = self->number;
        self->status = locker_unlock(held, NULL);
    }
    locker_handle_free(held);
    return NULL;
}

static void waiters_of_one_locker_are_served_in_order(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "line", NULL);
    struct in_line line[WAITERS];
    int served[WAITERS] = {0};
    atomic_int count = 0;
    for (int i = 0; i < WAITERS; i++) {
        line[i] = (struct in_line){.l = l, .key = "line", .served = served, .count = &count, .number = i};
        assert_int_equal(pthread_create(&line[i].thread, NULL, stand_in_line, &line[i]), 0);
        lk_require_waiting(l, (uint64_t)i + 1);
    }
    lk_give(held);
    for (int i = 0; i < WAITERS; i++) {
        lk_join(line[i].thread, "a waiter in the queue");
        assert_int_equal(line[i].status, LOCKER_OK);
    }
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(served[i], i);
    lk_close_locker(l);
}

static void a_try_does_not_overtake(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "overtake", NULL);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "overtake", NULL);
    lk_require_waiting(l, 1);
    lk_expect_busy(l, "overtake");
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_expect_busy(l, "overtake");
    lk_give(waiter.held);
    lk_close_locker(l);
}

static void hand_over(locker *from, locker *to, const char *key)
{
    locker_handle *held = lk_take(from, key, NULL);
    lk_locking waiter;
    const uint64_t token = locker_handle_token(held);
    lk_locking_start(&waiter, to, key, NULL);
    lk_require_waiting(to, 1);
    assert_timely_from();
    const int64_t released = lk_test_now_ms();
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(locker_handle_token(waiter.held) > token);
    /* The waiter is woken up: it does not wait for a lease to end, nor for a poll once a second. */
    assert_timely(waiter.ended_ms - released, LK_TEST_SLACK_MS);
    lk_give(waiter.held);
}

/* A wake-up that is dropped once in a hundred times shows. */
enum { HAND_OVERS = 100 };

static void unlock_hands_over_within_a_locker(void **state)
{
    locker *l = lk_open_locker(*state, "");
    for (int i = 0; i < HAND_OVERS; i++)
        hand_over(l, l, "within");
    lk_close_locker(l);
}

static void unlock_hands_over_between_lockers(void **state)
{
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    for (int i = 0; i < HAND_OVERS / 2; i++) {
        hand_over(a, b, "between");
        hand_over(b, a, "between");
    }
    lk_close_locker(b);
    lk_close_locker(a);
}

/* On a slow machine the wait may be over before it is seen. */
static bool has_waited(void *context)
{
    const locker_statistics stats = lk_stats(context);
    return stats.waiting + stats.timed_out > 0;
}

/* A waiter that gives up lets the ones behind it pass. */
static void a_waiter_that_gives_up_is_passed_over(void **state)
{
    locker *l = lk_open_locker(*state, ""), *other = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "passed", NULL);
    locker_lock_options brief = lk_wait_options(200);
    lk_locking first;
    lk_locking_start(&first, other, "passed", &brief);
    lk_require(has_waited, other, "the first call should wait");
    lk_locking second;
    lk_locking_start(&second, other, "passed", NULL);
    assert_status(LOCKER_TIMEOUT, lk_locking_join(&first), first.err);
    lk_require_waiting(other, 1);
    lk_give(held);
    lk_give(lk_locking_grant(&second));
    lk_close_locker(other);
    lk_close_locker(l);
}

static void closing_ends_the_waits(void **state)
{
    locker *holder = lk_open_locker(*state, ""), *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(holder, "closed", NULL);
    lk_locking waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        lk_locking_start(&waiters[i], l, "closed", NULL);
    lk_require_waiting(l, WAITERS);
    lk_close_locker(l);
    for (int i = 0; i < WAITERS; i++) {
        assert_status(LOCKER_CLOSED, lk_locking_join(&waiters[i]), waiters[i].err);
        assert_null(waiters[i].held);
    }
    lk_give(held);
    lk_give(lk_take(holder, "closed", NULL));
    lk_close_locker(holder);
}

static void closing_releases_what_is_held(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle *a = lk_take(l, "left-a", NULL), *b = lk_take(l, "left-b", NULL);
    lk_locking waiter;
    const int fd = locker_handle_fd(a);
    lk_locking_start(&waiter, rival, "left-a", NULL);
    lk_require_waiting(rival, 1);
    lk_close_locker(l);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_int_equal(locker_handle_state(a), LOCKER_STATE_UNLOCKED);
    assert_int_equal(locker_handle_remaining_ms(a), 0);
    assert_string_equal(locker_handle_key(a), "left-a");
    assert_false(lk_readable(fd, 0));
    locker_error err;
    assert_status(LOCKER_CLOSED, locker_unlock(a, &err), err);
    assert_int_equal(locker_handle_fd(b) >= 0 || locker_handle_fd(b) == -1, 1);
    locker_handle_free(a);
    locker_handle_free(b);
    lk_give(waiter.held);
    lk_give(lk_take(rival, "left-b", NULL));
    lk_close_locker(rival);
}

static void closing_while_waiting_and_holding_many_times(void **state)
{
    for (int i = 0; i < 20; i++) {
        locker *l = lk_open_locker(*state, "");
        locker_handle *held = lk_take(l, "churn", NULL);
        lk_locking waiter;

        lk_locking_start(&waiter, l, "churn", NULL);
        lk_require_waiting(l, 1);
        lk_close_locker(l);
        /* the waiter may be handed the lock by the close, or be told; either way nothing is left */
        if (lk_locking_join(&waiter) != LOCKER_CLOSED)
            assert_ok(waiter.status, waiter.err);
        locker_handle_free(waiter.held);
        locker_handle_free(held);
    }
    locker *l = lk_open_locker(*state, "");
    lk_give(lk_take(l, "churn", NULL));
    lk_close_locker(l);
}

struct crowd {
    locker *l;
    int64_t waiters;
};

static bool are_enrolled(void *context)
{
    const struct crowd *crowd = context;
    locker_info info = LOCKER_INFO_INIT;
    const locker_status status = locker_show(crowd->l, "long-line", &info, NULL);
    const bool enrolled = status == LOCKER_OK && info.waiters == crowd->waiters;
    locker_info_clear(&info);
    return enrolled;
}

/* A service that queues by itself serves all lockers in the order of their asking. */
static void waiters_of_many_lockers_are_served_in_order(void **state)
{
    lk_fixture *fixture = *state;
    needs(fixture->promises.fairness == LOCKER_FAIR_GLOBAL);
    locker *l = lk_open_locker(fixture, ""), *others[WAITERS];
    locker_handle *held = lk_take(l, "long-line", NULL);
    struct in_line line[WAITERS];
    int served[WAITERS] = {0};
    atomic_int count = 0;

    for (int i = 0; i < WAITERS; i++) {
        struct crowd crowd = {l, i + 1};

        others[i] = lk_open_locker(fixture, "");
        line[i] = (struct in_line){
            .l = others[i], .key = "long-line", .served = served, .count = &count, .number = i};
        assert_int_equal(pthread_create(&line[i].thread, NULL, stand_in_line, &line[i]), 0);
        lk_require(are_enrolled, &crowd, "each waiter should stand in the service's queue");
    }
    lk_give(held);
    for (int i = 0; i < WAITERS; i++) {
        lk_join(line[i].thread, "a waiter in a queue of many lockers");
        assert_int_equal(line[i].status, LOCKER_OK);
    }
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(served[i], i);
        lk_close_locker(others[i]);
    }
    lk_close_locker(l);
}

/* While a lock is held its waiter is woken by nothing; it asks as often as the driver says that it polls. */
static void a_waiter_rests_while_the_lock_is_held(void **state)
{
    lk_fixture *fixture = *state;
    locker *l = lk_open_locker(fixture, ""), *rival = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "rest", NULL);
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "rest", NULL);
    lk_require_waiting(rival, 1);
    assert_false(lk_readable(locker_handle_fd(held), 500)); /* it looks once more when it has enrolled */
    const uint64_t before = lk_stats(rival).attempts;
    const int64_t began = lk_test_now_ms();
    assert_false(lk_readable(locker_handle_fd(held), 2000));
    assert_unless_late(lk_stats(rival).attempts - before <= lk_polls(fixture, began));
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(waiters_of_one_locker_are_served_in_order),
    cmocka_unit_test(a_try_does_not_overtake),
    cmocka_unit_test(unlock_hands_over_within_a_locker),
    cmocka_unit_test(unlock_hands_over_between_lockers),
    cmocka_unit_test(a_waiter_that_gives_up_is_passed_over),
    cmocka_unit_test(closing_ends_the_waits),
    cmocka_unit_test(closing_releases_what_is_held),
    cmocka_unit_test(closing_while_waiting_and_holding_many_times),
    cmocka_unit_test(waiters_of_many_lockers_are_served_in_order),
    cmocka_unit_test(a_waiter_rests_while_the_lock_is_held),
};

const lk_group lk_waiting = {"waiting", tests, sizeof tests / sizeof tests[0]};
