/* fifo.c: order inside a locker: one contender for each key, FIFO, handing over, many waiters. */
#include <pthread.h>
#include <stdlib.h>

#include "locking.h"
#include "script.h"

enum { WAITERS = 20, CROWD = 300 };

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

    (void)pthread_mutex_lock(&w->order->mutex);
    w->order->seen[w->order->next++] = w->number;
    if (status != LOCKER_OK)
        w->order->worst = status;
    (void)pthread_mutex_unlock(&w->order->mutex);
    locker_handle_free(h);
    return NULL;
}

static void check_fifo(unsigned flags, struct script **script, locker **l)
{
    struct order order = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct waiter waiters[WAITERS];
    locker_handle *h;
    locker_error err;
    struct script *s = script_open(flags, l);

    order.l = *l;
    *script = s;
    assert_ok(locker_lock(*l, "k", NULL, &h, &err), err);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].order = &order;
        waiters[i].number = i;
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_in_order, &waiters[i]), 0);
        lk_require_waiting(*l, (uint64_t)i + 1);
    }
    locker_handle_free(h);
    for (int i = 0; i < WAITERS; i++)
        lk_join(waiters[i].thread, "a waiter");
    assert_int_equal(order.worst, LOCKER_OK);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(order.seen[i], i);
    assert_int_equal(s->in_flight_max, 1);
}

static void test_fifo_by_releasing(void **state)
{
    struct script *s;
    locker *l;

    (void)state;
    check_fifo(0, &s, &l);
    assert_int_equal(s->attempts, WAITERS + 1);
    assert_int_equal(s->released, WAITERS + 1);
    script_close(s, l);
}

static void test_fifo_by_handing_over(void **state)
{
    struct script *s;
    locker *l;

    (void)state;
    check_fifo(SCRIPT_PASSES, &s, &l);
    assert_int_equal(s->passed, WAITERS);
    assert_int_equal(s->attempts, 1);
    assert_int_equal(s->released, 1);
    assert_int_equal(lk_stats(l).handed_over, WAITERS);
    script_close(s, l);
}

static void test_refused_hand_over_releases(void **state)
{
    struct lk_locking call;
    locker_handle *h;
    locker_error err;
    locker *l;
    struct script *s = script_open(SCRIPT_PASSES, &l);

    (void)state;
    s->pass_status = LOCKER_BUSY;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    assert_ok(locker_unlock(h, &err), err);
    locker_handle_free(h);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    locker_handle_free(call.held);
    assert_int_equal(s->released, 2);
    script_close(s, l);
}

/* Others must get their turn: handing over ends after 10 ms of the clock, or 64 times. */
static void test_handing_over_is_bounded_in_time(void **state)
{
    struct lk_locking calls[2];
    locker_handle *h;
    locker_error err;
    locker *l;
    struct script *s = script_open(SCRIPT_PASSES, &l);

    (void)state;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    lk_locking_start(&calls[0], l, "k", NULL);
    lk_require_waiting(l, 1);
    lk_locking_start(&calls[1], l, "k", NULL);
    lk_require_waiting(l, 2);
    locker_handle_free(h);
    assert_int_equal(lk_locking_join(&calls[0]), LOCKER_OK);
    assert_int_equal(s->passed, 1);
    script_advance(s, 10);
    locker_handle_free(calls[0].held);
    assert_int_equal(lk_locking_join(&calls[1]), LOCKER_OK);
    assert_int_equal(s->passed, 1);
    assert_int_equal(s->released, 1);
    locker_handle_free(calls[1].held);
    script_close(s, l);
}

static void test_no_hand_over_to_another_ttl(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    struct lk_locking call;
    locker_handle *h;
    locker_error err;
    locker *l;
    struct script *s = script_open(SCRIPT_PASSES, &l);

    (void)state;
    o.ttl_ms = 60000;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    lk_locking_start(&call, l, "k", &o);
    lk_require_waiting(l, 1);
    locker_handle_free(h);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    assert_int_equal(s->passed, 0);
    assert_int_equal(locker_handle_remaining_ms(call.held), 60000);
    locker_handle_free(call.held);
    script_close(s, l);
}

static void test_one_that_leaves_lets_the_next_try(void **state)
{
    const struct script_answer busy = {LOCKER_BUSY, 0, 0, 0};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    struct lk_locking first, second;
    locker *l;
    struct script *s = script_open(0, &l);

    (void)state;
    script_answer(s, busy);
    o.wait_ms = 50;
    lk_locking_start(&first, l, "k", &o);
    lk_require_waiting(l, 1);
    lk_locking_start(&second, l, "k", NULL);
    lk_require_waiting(l, 2);
    assert_int_equal(s->attempts, 1);
    script_advance(s, 50);
    assert_int_equal(lk_locking_join(&first), LOCKER_TIMEOUT);
    assert_int_equal(lk_locking_join(&second), LOCKER_OK);
    locker_handle_free(second.held);
    script_close(s, l);
}

static void test_queueing_service_gets_all(void **state)
{
    const struct script_answer busy = {LOCKER_BUSY, 0, 0, 0};
    struct lk_locking calls[3];
    locker *l;
    struct script *s = script_open(SCRIPT_QUEUES, &l);

    (void)state;
    script_usual(s, busy);
    for (int i = 0; i < 3; i++)
        lk_locking_start(&calls[i], l, "k", NULL);
    (void)script_claim(s, 2); /* all three reach the driver */
    lk_require_waiting(l, 3);
    script_usual(s, (struct script_answer){LOCKER_OK, 0, 0, 0});
    for (size_t i = 0; i < 3; i++)
        script_wake(s, script_claim(s, i));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lk_locking_join(&calls[i]), LOCKER_OK);
        locker_handle_free(calls[i].held);
    }
    script_close(s, l);
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
    struct script *s = script_open(0, &l);

    (void)state;
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], &attr, take_and_free, l), 0);
    lk_require_waiting(l, CROWD);
    assert_int_equal(s->attempts, 1);
    locker_handle_free(h);
    for (int i = 0; i < CROWD; i++) {
        void *status;

        assert_int_equal(pthread_join(threads[i], &status), 0);
        assert_int_equal((intptr_t)status, LOCKER_OK);
    }
    assert_int_equal(s->in_flight_max, 1);
    assert_int_equal(s->attempts, CROWD + 1);
    (void)pthread_attr_destroy(&attr);
    script_close(s, l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo_by_releasing),
        cmocka_unit_test(test_fifo_by_handing_over),
        cmocka_unit_test(test_refused_hand_over_releases),
        cmocka_unit_test(test_handing_over_is_bounded_in_time),
        cmocka_unit_test(test_no_hand_over_to_another_ttl),
        cmocka_unit_test(test_one_that_leaves_lets_the_next_try),
        cmocka_unit_test(test_queueing_service_gets_all),
        cmocka_unit_test(test_a_crowd_sends_one_attempt_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
