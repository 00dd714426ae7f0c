/*
 * validity.c: until when a ZooKeeper session is there for certain, by the rule alone: times are made up. T is
 * 8,000, so that P is 3,000 without a tick, and a hundredth 80.
 */
#include "validity.h"
#include "expect.h"

enum { T = 8000, P = 3000, MARGIN = 80, BEGUN = 1000 };

static lk_zk_validity connected(int64_t tick)
{
    lk_zk_validity v = {0};
    lk_zk_validity_connected(&v, BEGUN, T, tick);
    return v;
}

/* A read, answered at once. */
static void touch(lk_zk_validity *v, int64_t at)
{
    lk_zk_validity_answered(v, at, at + 10);
}

static void nothing_is_known_before_a_request_was_ordered(void **state)
{
    lk_zk_validity v = {0};
    (void)state;
    assert_int_equal(lk_zk_validity_deadline(&v), 0);
    v = connected(0);
    touch(&v, 2000);
    touch(&v, 9000);
    assert_int_equal(lk_zk_validity_deadline(&v), 0);
}

static void a_connection_counts_once_something_on_it_was_ordered(void **state)
{
    lk_zk_validity v = connected(0);
    (void)state;
    assert_int_equal(lk_zk_validity_promise(&v, BEGUN + 5), BEGUN + T - MARGIN);
    lk_zk_validity_ordered(&v, BEGUN + 5);
    assert_int_equal(lk_zk_validity_deadline(&v), BEGUN + T - MARGIN);
    lk_zk_validity_ordered(&v, BEGUN + 2000); /* and nothing else was before it */
    assert_int_equal(lk_zk_validity_deadline(&v), BEGUN + T - MARGIN);
}

/* What is ordered says nothing of its own touch, nor of any that may not have been passed on yet. */
static void a_touch_counts_p_after_its_answer(void **state)
{
    lk_zk_validity v = connected(0);
    (void)state;
    lk_zk_validity_answered(&v, 2000, 2500);
    lk_zk_validity_answered(&v, 4000, 4010);
    lk_zk_validity_ordered(&v, 2500 + P - 1);
    assert_int_equal(lk_zk_validity_deadline(&v), BEGUN + T - MARGIN);
    lk_zk_validity_ordered(&v, 2500 + P);
    assert_int_equal(lk_zk_validity_deadline(&v), 2000 + T - MARGIN); /* from the sending */
    lk_zk_validity_ordered(&v, 4010 + P);
    assert_int_equal(lk_zk_validity_deadline(&v), 4000 + T - MARGIN);
}

static void the_latest_that_counts_is_taken(void **state)
{
    lk_zk_validity v = connected(0);
    (void)state;
    for (int64_t at = 2000; at <= 20000; at += 1000)
        touch(&v, at);
    lk_zk_validity_ordered(&v, 20000);
    assert_int_equal(lk_zk_validity_deadline(&v), 16000 + T - MARGIN);
}

/* However many requests there were, those that P asks for are remembered. */
static void a_busy_session_is_as_good_as_an_idle_one(void **state)
{
    lk_zk_validity v = connected(0);
    int64_t at = BEGUN;
    (void)state;
    for (; at < 10 * T; at++)
        lk_zk_validity_answered(&v, at, at);
    lk_zk_validity_ordered(&v, at);
    assert_true(lk_zk_validity_deadline(&v) <= at - P + T - MARGIN);
    assert_true(lk_zk_validity_deadline(&v) > at - P - T / LK_ZK_TOUCHES + T - MARGIN - 2);
}

/* Touches each eighth, beside which other requests go, are never older than that and a thirty-second. */
static void a_touch_is_young_enough(void **state)
{
    lk_zk_validity v = connected(0);
    (void)state;
    for (int64_t at = BEGUN; at < 10 * T; at += T / 8) {
        touch(&v, at);
        touch(&v, at + T / 32 + at % 300);
        lk_zk_validity_ordered(&v, at + 777);
        if (at > T)
            assert_true(lk_zk_validity_deadline(&v) >= at + 777 - 10 - P - T / 8 - T / 32 + T - MARGIN);
        assert_true(lk_zk_validity_deadline(&v) <= at + 777 - P + T - MARGIN || at < T);
    }
}

static void a_known_tick_makes_p_shorter(void **state)
{
    lk_zk_validity v = connected(200);
    (void)state;
    touch(&v, 2000);
    lk_zk_validity_ordered(&v, 2010 + T / 8 + 99);
    assert_int_equal(lk_zk_validity_deadline(&v), BEGUN + T - MARGIN);
    lk_zk_validity_ordered(&v, 2010 + T / 8 + 100);
    assert_int_equal(lk_zk_validity_deadline(&v), 2000 + T - MARGIN);
}

/* The server that was left may never have passed on what it was told. */
static void another_connection_knows_nothing_of_the_touches_before(void **state)
{
    lk_zk_validity v = connected(0);
    (void)state;
    lk_zk_validity_ordered(&v, BEGUN + 5);
    touch(&v, 2000);
    touch(&v, 6000);
    lk_zk_validity_connected(&v, 6500, T, 0);
    assert_int_equal(lk_zk_validity_deadline(&v), BEGUN + T - MARGIN); /* nothing was ordered yet */
    assert_int_equal(lk_zk_validity_promise(&v, 7000), 6500 + T - MARGIN);
    lk_zk_validity_ordered(&v, 12000);
    assert_int_equal(lk_zk_validity_deadline(&v), 6500 + T - MARGIN);
}

/* A connection that began before what is known already, as when the clock's readings are coarse. */
static void it_never_goes_back(void **state)
{
    lk_zk_validity v = connected(0);
    (void)state;
    touch(&v, 4000);
    lk_zk_validity_ordered(&v, 4010 + P);
    lk_zk_validity_connected(&v, 3000, T, 0);
    lk_zk_validity_ordered(&v, 8000);
    assert_int_equal(lk_zk_validity_deadline(&v), 4000 + T - MARGIN);
}

/* A client was stopped for most of T. What it asks then was touched long ago, as far as it can know. */
static void a_stop_makes_the_touch_old(void **state)
{
    lk_zk_validity v = connected(0);
    int64_t at = BEGUN;
    (void)state;
    for (; at < 3 * T; at += T / 8)
        touch(&v, at);
    at -= T / 8; /* the last before the stop */
    lk_zk_validity_ordered(&v, at + T / 10 * 9);
    assert_int_equal(lk_zk_validity_deadline(&v), at + T - MARGIN);
    assert_int_equal(lk_zk_validity_promise(&v, at + T), at + T - MARGIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_a_request_was_ordered),
        cmocka_unit_test(a_connection_counts_once_something_on_it_was_ordered),
        cmocka_unit_test(a_touch_counts_p_after_its_answer),
        cmocka_unit_test(the_latest_that_counts_is_taken),
        cmocka_unit_test(a_busy_session_is_as_good_as_an_idle_one),
        cmocka_unit_test(a_touch_is_young_enough),
        cmocka_unit_test(a_known_tick_makes_p_shorter),
        cmocka_unit_test(another_connection_knows_nothing_of_the_touches_before),
        cmocka_unit_test(it_never_goes_back),
        cmocka_unit_test(a_stop_makes_the_touch_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
