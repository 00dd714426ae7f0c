/* fifo.c: order inside a locker: one contender for each key, FIFO, handing over, many waiters. */
#include <pthread.h>
#include <stdlib.h>

#include "holding.h"
#include "locking.h"
#include "mocking.h"

enum { WAITERS = 20, CROWD = 300 };

static const locker_mock_options passes = {.size = sizeof passes, .pass = true};

struct order {
    pthread_mutex_t mutex;
    locker *l;
    int next;            /* guarded by mutex */
    int seen[WAITERS];   /* who came as the n-th; likewise */
    locker_status worst; /* likewise */
};

struct waiter {
    struct order *order;
    int number;
    pthread_t thread;
};

static void *wait_in_order(void *context)
{
    struct waiter *w = context;
    locker_handle *h = NULL;
    locker_status status = locker_lock(w->order->l, "k", NULL, &h, NULL);
    pthread_mutex_lock(&w->order->mutex);
    w->order->seen[w->order->next++] = w->number;
    if (status != LOCKER_OK)
        w->order->worst = status;
    pthread_mutex_unlock(&w->order->mutex);
    locker_handle_free(h);
    return NULL;
}

/* Twenty that wait are served in the order in which they came. */
static locker_mock *check_fifo(const locker_mock_options *options, locker **l)
{
    struct order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct waiter waiters[WAITERS];
    locker_handle *h;
    locker_error err;
    locker_mock *mock = lk_mock_begin(options, l);
    order.l = *l;
    assert_ok(locker_lock(*l, "k", NULL, &h, &err), err);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].order = &order;
        waiters[i].number = i;
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_in_order, &waiters[i]), 0);
        lk_mock_await(mock, "k", (size_t)i + 1);
    }
    locker_handle_free(h);
    for (int i = 0; i < WAITERS; i++)
        lk_join(waiters[i].thread, "a waiter");
    assert_int_equal(order.worst, LOCKER_OK);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(order.seen[i], i);
    assert_int_equal(lk_mock_answers(mock, LOCKER_OP_ACQUIRE, LOCKER_BUSY), 0); /* one at a time */
    return mock;
}

static void test_fifo_by_releasing(void **state)
{
    locker *l;
    locker_mock *mock = check_fifo(NULL, &l);
    (void)state;
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), WAITERS + 1);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), WAITERS + 1);
    lk_mock_end(mock, l);
}

static void test_fifo_by_handing_over(void **state)
{
    locker *l;
    locker_mock *mock = check_fifo(&passes, &l);
    (void)state;
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_PASS), WAITERS);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 1);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 1);
    assert_int_equal(lk_stats(l).handed_over, WAITERS);
    lk_mock_end(mock, l);
}

static void test_refused_hand_over_releases(void **state)
{
    lk_locking call;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&passes, &l);
    (void)state;
    lk_mock_faults(mock, "pass busy");
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, "k", 1);
    lk_give(h);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    locker_handle_free(call.held);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 2);
    lk_mock_end(mock, l);
}

/* Others must get their turn: handing over ends after 10 ms of the clock, or 64 times. */
static void test_handing_over_is_bounded_in_time(void **state)
{
    lk_locking calls[2];
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&passes, &l);
    (void)state;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    lk_locking_start(&calls[0], l, "k", NULL);
    lk_mock_await(mock, "k", 1);
    lk_locking_start(&calls[1], l, "k", NULL);
    lk_mock_await(mock, "k", 2);
    locker_handle_free(h);
    assert_int_equal(lk_locking_join(&calls[0]), LOCKER_OK);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_PASS), 1);
    lk_mock_advance_by(mock, 10);
    locker_handle_free(calls[0].held);
    assert_int_equal(lk_locking_join(&calls[1]), LOCKER_OK);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_PASS), 1);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 1);
    locker_handle_free(calls[1].held);
    lk_mock_end(mock, l);
}

static void test_no_hand_over_to_another_ttl(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking call;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&passes, &l);
    (void)state;
    o.ttl_ms = 60000;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    lk_locking_start(&call, l, "k", &o);
    lk_mock_await(mock, "k", 1);
    locker_handle_free(h);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_PASS), 0);
    assert_int_equal(locker_handle_remaining_ms(call.held), 60000);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

static void test_no_hand_over_to_a_call_without_renewal(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking call;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&passes, &l);
    (void)state;
    o.no_renew = true;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    lk_locking_start(&call, l, "k", &o);
    lk_mock_await(mock, "k", 1);
    locker_handle_free(h);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_PASS), 0);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

static void test_a_waiter_that_leaves_lets_the_next_try(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking first, second;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire busy");
    o.wait_ms = 50;
    lk_locking_start(&first, l, "k", &o);
    lk_mock_await(mock, "k", 1);
    lk_locking_start(&second, l, "k", NULL);
    lk_mock_await(mock, "k", 2);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 1);
    lk_mock_advance_by(mock, 50);
    assert_int_equal(lk_locking_join(&first), LOCKER_TIMEOUT);
    assert_int_equal(lk_locking_join(&second), LOCKER_OK);
    locker_handle_free(second.held);
    lk_mock_end(mock, l);
}

static void test_queueing_service_gets_all(void **state)
{
    static const locker_mock_options queues = {.size = sizeof queues, .queue = true};
    lk_locking calls[3];
    locker *l;
    locker_mock *mock = lk_mock_begin(&queues, &l);
    (void)state;
    assert_int_equal(locker_mock_take(mock, "k", "a stranger", 0, NULL), LOCKER_OK);
    for (size_t i = 0; i < 3; i++) {
        lk_locking_start(&calls[i], l, "k", NULL);
        lk_mock_await(mock, "k", i + 1);
    }
    assert_int_equal(lk_mock_answers(mock, LOCKER_OP_ACQUIRE, LOCKER_BUSY),
                     3); /* all three reach the driver */
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lk_locking_join(&calls[i]), LOCKER_OK);
        locker_handle_free(calls[i].held);
    }
    lk_mock_end(mock, l);
}

static void *take_and_free(void *context)
{
    locker_handle *h = NULL;
    locker_status status = locker_lock(context, "k", NULL, &h, NULL);
    locker_handle_free(h);
    return (void *)(intptr_t)status;
}

static void test_a_crowd_sends_one_attempt_at_a_time(void **state)
{
    pthread_t threads[CROWD];
    pthread_attr_t attr;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], &attr, take_and_free, l), 0);
    lk_mock_await(mock, "k", CROWD);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 1);
    locker_handle_free(h);
    for (int i = 0; i < CROWD; i++) {
        void *status;

        assert_int_equal(pthread_join(threads[i], &status), 0);
        assert_int_equal((intptr_t)status, LOCKER_OK);
    }
    assert_int_equal(lk_mock_answers(mock, LOCKER_OP_ACQUIRE, LOCKER_BUSY), 0);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), CROWD + 1);
    pthread_attr_destroy(&attr);
    lk_mock_end(mock, l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo_by_releasing),
        cmocka_unit_test(test_fifo_by_handing_over),
        cmocka_unit_test(test_refused_hand_over_releases),
        cmocka_unit_test(test_handing_over_is_bounded_in_time),
        cmocka_unit_test(test_no_hand_over_to_another_ttl),
        cmocka_unit_test(test_no_hand_over_to_a_call_without_renewal),
        cmocka_unit_test(test_a_waiter_that_leaves_lets_the_next_try),
        cmocka_unit_test(test_queueing_service_gets_all),
        cmocka_unit_test(test_a_crowd_sends_one_attempt_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
