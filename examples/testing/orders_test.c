/*
 * orders_test.c: the tests of orders.c, with cmocka, on a mock. No server, no sleeping: hours pass in
 * milliseconds.
 *
 * The work that an order takes is a function, so each test says there what happens meanwhile.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locker/mock.h>

#include "orders.h"

/* Made anew for each test: one lock service, and two hosts that use it. */
static locker_mock *mock;
static locker *here, *there;
static order_books books;
static locker_error problem;

static int begin(void **state)
{
    (void)state;
    books = (order_books){0, 0};
    return locker_mock_new(NULL, &mock, NULL) == LOCKER_OK &&
                   locker_mock_open(mock, "here", NULL, &here, NULL) == LOCKER_OK &&
                   locker_mock_open(mock, "there", NULL, &there, NULL) == LOCKER_OK
               ? 0
               : -1;
}

/* A lock that a test's code has forgotten, or a fault that never came, fails the test. */
static int end(void **state)
{
    char left[1000];
    size_t lines = locker_mock_verify(mock, left, sizeof left);
    (void)state;
    if (lines > 0)
        print_error("%s\n", left);
    (void)locker_close(here);
    (void)locker_close(there);
    locker_mock_free(mock);
    return lines > 0 ? -1 : 0;
}

static void no_work(const char *order, void *user)
{
    (void)order;
    (void)user;
}

static void paid(void **state)
{
    (void)state;
    assert_int_equal(order_process(here, "42", &books, no_work, NULL, &problem), ORDER_PAID);
    assert_false(locker_mock_held(mock, "orders/42", NULL, NULL));
    assert_int_equal(books.entries, 1);
}

/* Another holds the lock for ever: the call gives up after its 5 s, which take no time here. */
static void busy(void **state)
{
    int64_t began = locker_mock_now_ms(mock);
    (void)state;
    assert_int_equal(locker_mock_take(mock, "orders/42", "a colleague", 0, NULL), LOCKER_OK);
    assert_int_equal(order_process(here, "42", &books, no_work, NULL, &problem), ORDER_LATER);
    assert_int_equal(locker_mock_now_ms(mock), began + 5000);
    assert_int_equal(books.entries, 0);
}

/* The other leaves in time: its lock was meant to end after 3 s. */
static void free_in_time(void **state)
{
    (void)state;
    assert_int_equal(locker_mock_take(mock, "orders/42", "a colleague", 3000, NULL), LOCKER_OK);
    assert_int_equal(order_process(here, "42", &books, no_work, NULL, &problem), ORDER_PAID);
}

static void service_is_down(void **state)
{
    (void)state;
    locker_mock_on(mock, &(locker_fault){.op = LOCKER_OP_ACQUIRE, .status = LOCKER_UNAVAILABLE}, NULL);
    assert_int_equal(order_process(here, "42", &books, no_work, NULL, &problem), ORDER_FAILED);
    assert_int_equal(problem.status, LOCKER_UNAVAILABLE);
}

static void lose_it(const char *order, void *user)
{
    (void)order;
    (void)user;
    (void)locker_mock_lose(mock, "orders/42");
    (void)locker_mock_advance(mock, 0);
}

static void lost_in_the_middle(void **state)
{
    (void)state;
    assert_int_equal(order_process(here, "42", &books, lose_it, NULL, &problem), ORDER_STALE);
    assert_int_equal(books.entries, 0);
}

static void take_an_hour(const char *order, void *user)
{
    (void)order;
    (void)user;
    (void)locker_mock_advance(mock, 3600000);
}

static void renewed_for_an_hour(void **state)
{
    (void)state;
    assert_int_equal(order_process(here, "42", &books, take_an_hour, NULL, &problem), ORDER_PAID);
    assert_int_equal(locker_mock_count(mock, LOCKER_OP_RENEW, "orders/42"), 360); /* each 10 s */
}

static void renewal_refused(void **state)
{
    (void)state;
    locker_mock_script(mock, "renew always unavailable", NULL);
    assert_int_equal(order_process(here, "42", &books, take_an_hour, NULL, &problem), ORDER_STALE);
}

/* The lock was given back, and the answer was lost: the entry stands, but nobody knows about the lock. */
static void unlock_unknown(void **state)
{
    (void)state;
    locker_mock_script(mock, "release lose-reply", NULL);
    assert_int_equal(order_process(here, "42", &books, no_work, NULL, &problem), ORDER_UNSURE);
    assert_int_equal(books.entries, 1);
    assert_false(locker_mock_held(mock, "orders/42", NULL, NULL));
}

/* The other host, on a thread of its own. */
struct race {
    pthread_t thread;
    locker_status waits; /* OK: the other stood waiting while this host worked */
    order_result result; /* the other's */
};

static void *process_there(void *user)
{
    struct race *race = user;
    race->result = order_process(there, "42", &books, no_work, NULL, NULL);
    return NULL;
}

static void let_the_other_come(const char *order, void *user)
{
    struct race *race = user;
    (void)order;
    (void)pthread_create(&race->thread, NULL, process_there, race);
    race->waits = locker_mock_await_waiters(mock, "orders/42", 1);
}

static void two_hosts_race(void **state)
{
    (void)state;
    struct race race;
    assert_int_equal(order_process(here, "42", &books, let_the_other_come, &race, &problem), ORDER_PAID);
    assert_int_equal(pthread_join(race.thread, NULL), 0);
    assert_int_equal(race.waits, LOCKER_OK);
    assert_int_equal(race.result, ORDER_PAID);
    assert_int_equal(books.entries, 2);
}

/* This host is cut off for so long that the other one does the order. Its own entry comes too late. */
static void be_overtaken(const char *order, void *token)
{
    (void)locker_mock_held(mock, "orders/42", NULL, token);
    locker_mock_disconnect(mock, here);
    (void)locker_mock_advance(mock, 30000);
    (void)order_process(there, order, &books, no_work, NULL, NULL);
}

static void stale_write_refused(void **state)
{
    uint64_t stale = 0;
    (void)state;
    assert_int_equal(order_process(here, "42", &books, be_overtaken, &stale, &problem), ORDER_STALE);
    assert_int_equal(books.entries, 1);
    assert_true(stale > 0 && stale < books.turn);
    assert_false(books_write(&books, stale)); /* nor had it been written without looking */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(paid, begin, end),
        cmocka_unit_test_setup_teardown(busy, begin, end),
        cmocka_unit_test_setup_teardown(free_in_time, begin, end),
        cmocka_unit_test_setup_teardown(service_is_down, begin, end),
        cmocka_unit_test_setup_teardown(lost_in_the_middle, begin, end),
        cmocka_unit_test_setup_teardown(renewed_for_an_hour, begin, end),
        cmocka_unit_test_setup_teardown(renewal_refused, begin, end),
        cmocka_unit_test_setup_teardown(unlock_unknown, begin, end),
        cmocka_unit_test_setup_teardown(two_hosts_race, begin, end),
        cmocka_unit_test_setup_teardown(stale_write_refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
