/* path.c: the path of one lock call: attempts, waiting, time-outs, cancelling, and that every claim is given
 * back. */
#include <fcntl.h>
#include <string.h>

#include "holding.h"
#include "locking.h"
#include "mocking.h"

static void test_arguments(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    char longest[LOCKER_KEY_MAX + 2];
    (void)state;
    memset(longest, 'k', sizeof longest);
    longest[LOCKER_KEY_MAX + 1] = '\0';
    assert_status(LOCKER_INVALID, locker_lock(l, NULL, NULL, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(l, "", NULL, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(l, longest, NULL, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(l, "a\x01", NULL, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(l, "\xC0\xAF", NULL, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(l, "\xED\xA0\x80", NULL, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(l, "k", NULL, NULL, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(NULL, "k", NULL, &h, &err), err);
    o.wait_ms = -2;
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &o, &h, &err), err);
    o = (locker_lock_options)LOCKER_LOCK_OPTIONS_INIT;
    o.size = 4;
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &o, &h, &err), err);
    o = (locker_lock_options)LOCKER_LOCK_OPTIONS_INIT;
    o.ttl_ms = 9;
    assert_status(LOCKER_CONFIG, locker_lock(l, "k", &o, &h, &err), err);
    o.ttl_ms = -9;
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &o, &h, &err), err);
    o = (locker_lock_options)LOCKER_LOCK_OPTIONS_INIT;
    o.owner = "";
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &o, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_unlock(NULL, &err), err);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 0);
    lk_mock_end(mock, l);
}

static void test_grant_and_release(void **state)
{
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    assert_ok(locker_lock(l, "k\xC3\xA9y", NULL, &h, &err), err);
    assert_int_equal(locker_handle_token(h), 1);
    assert_string_equal(locker_handle_key(h), "k\xC3\xA9y");
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    assert_int_equal(locker_handle_remaining_ms(h), 30000);
    assert_ok(locker_unlock(h, &err), err);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_UNLOCKED);
    assert_int_equal(locker_handle_remaining_ms(h), 0);
    assert_status(LOCKER_INVALID, locker_unlock(h, &err), err);
    locker_handle_free(h);
    locker_handle_free(NULL);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 1);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 0);
    lk_mock_end(mock, l);
}

static void test_scope(void **state)
{
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    {
        LOCKER_AUTO locker_handle *h = NULL;
        LOCKER_AUTO locker_handle *never = NULL;

        (void)never;
        assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 0);
    }
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 1);
    lk_mock_end(mock, l);
}

static void test_try_busy(void **state)
{
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire busy");
    assert_status(LOCKER_BUSY, locker_try_lock(l, "k", NULL, &h, &err), err);
    assert_null(h);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    assert_ok(locker_try_lock(l, "k", NULL, &h, &err), err);
    {
        locker_handle *second;

        assert_status(LOCKER_BUSY, locker_try_lock(l, "k", NULL, &second, &err), err);
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE),
                         2); /* held in this process: nobody needs to be asked */
    }
    locker_handle_free(h);
    assert_int_equal(lk_stats(l).busy, 2);
    lk_mock_end(mock, l);
}

static void test_wake_brings_another_attempt(void **state)
{
    lk_locking call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire times=2 busy");
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, NULL, 1);
    locker_mock_wake(mock, NULL);
    assert_int_equal(locker_mock_await_calls(mock, LOCKER_OP_ACQUIRE, NULL, 2), LOCKER_OK);
    lk_mock_await(mock, NULL, 1);
    locker_mock_wake(mock, NULL);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 3);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

static void test_retry_at(void **state)
{
    lk_locking call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire retry=500ms busy");
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, NULL, 1);
    lk_mock_advance_by(mock, 499);
    lk_mock_await(mock, NULL, 1);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 1);
    lk_mock_advance_by(mock, 1);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 2);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

static void test_timeout(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire always busy");
    o.wait_ms = 100;
    lk_locking_start(&call, l, "k", &o);
    lk_mock_await(mock, NULL, 1);
    lk_mock_advance_by(mock, 99);
    lk_mock_await(mock, NULL, 1);
    lk_mock_advance_by(mock, 1);
    assert_int_equal(lk_locking_join(&call), LOCKER_TIMEOUT);
    assert_non_null(strstr(call.err.text, "100 ms"));
    assert_null(call.held);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    assert_int_equal(lk_stats(l).timed_out, 1);
    lk_mock_end(mock, l);
}

static void test_cancel(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking calls[3];
    locker_cancel *cancel = locker_cancel_new();
    locker_handle *h, *again;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    assert_non_null(cancel);
    lk_mock_faults(mock, "acquire always busy");
    o.cancel = cancel;
    for (int i = 0; i < 3; i++)
        lk_locking_start(&calls[i], l, i < 2 ? "k" : "other", &o);
    lk_mock_await(mock, NULL, 3);
    locker_cancel_fire(cancel);
    for (int i = 0; i < 3; i++)
        assert_int_equal(lk_locking_join(&calls[i]), LOCKER_CANCELED);
    assert_status(LOCKER_CANCELED, locker_lock(l, "k", &o, &h, &err), err);
    assert_true(locker_cancel_fired(cancel));
    locker_cancel_reset(cancel);
    locker_mock_forget(mock);
    o.owner = "me";
    assert_ok(locker_lock(l, "k", &o, &h, &err), err);
    locker_cancel_fire(cancel); /* after the grant it changes nothing */
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    assert_status(LOCKER_CANCELED, locker_lock(l, "k", &o, &again, &err), err); /* nor does it enter again */
    o.owner = NULL;
    assert_status(LOCKER_CANCELED, locker_try_lock(l, "k", &o, &again, &err), err);
    lk_give(h);
    lk_mock_end(mock, l);
    locker_cancel_free(cancel);
}

static void test_cancel_inside_an_attempt(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking call;
    locker_cancel *cancel = locker_cancel_new();
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire lose-request");
    o.cancel = cancel;
    lk_locking_start(&call, l, "k", &o);
    lk_mock_await(mock, "k", 1); /* inside the attempt, for the answer */
    locker_cancel_fire(cancel);
    assert_int_equal(lk_locking_join(&call), LOCKER_CANCELED);
    assert_int_equal(lk_mock_answers(mock, LOCKER_OP_ACQUIRE, LOCKER_CANCELED), 1);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    lk_mock_end(mock, l);
    locker_cancel_free(cancel);
}

/* A cancel that has fired and is gone says nothing about one that takes its place in memory. */
static void test_a_fresh_cancel_in_an_old_ones_place(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire always busy");
    for (int i = 0; i < 200; i++) {
        locker_cancel *cancel = locker_cancel_new();
        lk_locking call;

        assert_non_null(cancel);
        o.cancel = cancel;
        lk_locking_start(&call, l, "k", &o);
        lk_mock_await(mock, NULL, 1); /* in vain, if the last one's event reaches this call */
        if (i % 2 == 0)
            locker_mock_wake(mock, NULL); /* it may see the flag before the keeper comes */
        locker_cancel_fire(cancel);
        assert_int_equal(lk_locking_join(&call), LOCKER_CANCELED);
        locker_cancel_free(cancel);
    }
    lk_mock_end(mock, l);
}

static void test_unavailable(void **state)
{
    lk_locking call;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire unavailable"); /* final at the first attempt */
    assert_status(LOCKER_UNAVAILABLE, locker_lock(l, "k", NULL, &h, &err), err);
    assert_non_null(strstr(err.text, "script"));
    lk_mock_faults(mock, "acquire retry=100ms unavailable"); /* final for a try, waited for by the others */
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "k", NULL, &h, &err), err);
    lk_mock_faults(mock, "acquire retry=100ms unavailable; acquire busy; "
                         "acquire retry=1s unavailable"); /* one that waits outlives an outage */
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, NULL, 1);
    assert_int_equal(locker_mock_await_calls(mock, LOCKER_OP_ACQUIRE, NULL, 3), LOCKER_OK);
    lk_mock_advance_by(mock, 100);
    assert_int_equal(locker_mock_await_calls(mock, LOCKER_OP_ACQUIRE, NULL, 4), LOCKER_OK);
    lk_mock_await(mock, NULL, 1);
    locker_mock_wake(mock, NULL);
    assert_int_equal(locker_mock_await_calls(mock, LOCKER_OP_ACQUIRE, NULL, 5), LOCKER_OK);
    lk_mock_await(mock, NULL, 1);
    lk_mock_advance_by(mock, 1000);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

/* What the call's own end cut short tells nothing; what the attempt before it was told still holds. */
static void test_an_attempt_cut_short_keeps_the_last_reason(void **state)
{
    locker_lock_options o = lk_wait_options(150);
    lk_locking call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire retry=100ms unavailable; acquire lose-request");
    lk_locking_start(&call, l, "k", &o);
    lk_mock_await(mock, NULL, 1);
    lk_mock_advance_by(mock, 100);
    lk_mock_await(mock, "k", 1); /* inside the second attempt, for the answer */
    lk_mock_advance_by(mock, 50);
    assert_int_equal(lk_locking_join(&call), LOCKER_UNAVAILABLE);
    assert_non_null(strstr(call.err.text, "script"));
    lk_mock_end(mock, l);
}

/* Without a retry_at it ends the call of one that was enrolled before, too: nothing would ever wake it. */
static void test_final_is_final_for_who_waits(void **state)
{
    lk_locking call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire busy; acquire unavailable");
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, NULL, 1);
    locker_mock_wake(mock, NULL);
    assert_int_equal(lk_locking_join(&call), LOCKER_UNAVAILABLE);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 2);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    lk_mock_end(mock, l);
}

/* A try behind a call that waits is told what that one knows: held by another, or that nobody can say. */
static void test_a_try_behind_a_waiter_gets_the_known_state(void **state)
{
    lk_locking call;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire busy; acquire retry=100ms unavailable");
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, NULL, 1);
    assert_status(LOCKER_BUSY, locker_try_lock(l, "k", NULL, &h, &err), err);
    locker_mock_wake(mock, NULL);
    assert_int_equal(locker_mock_await_calls(mock, LOCKER_OP_ACQUIRE, NULL, 2), LOCKER_OK);
    lk_mock_await(mock, NULL, 1);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "k", NULL, &h, &err), err);
    assert_int_equal(err.os_error, 0);
    lk_mock_advance_by(mock, 100);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    assert_status(LOCKER_BUSY, locker_try_lock(l, "k", NULL, &h, &err), err);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

/* One call's lease is too short for the way to it. That says nothing about the service, and it is not asked
 * for that without a pause. */
static void test_a_lease_too_short_is_no_outage(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking hasty, call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire always delay=50ms");
    o.ttl_ms = 20;
    o.no_renew = true;
    o.wait_ms = 1000;
    lk_locking_start(&hasty, l, "k", &o);
    lk_mock_await(mock, NULL, 1);
    o = (locker_lock_options)LOCKER_LOCK_OPTIONS_INIT;
    o.wait_ms = 500;
    lk_locking_start(&call, l, "k", &o);
    lk_mock_await(mock, NULL, 2);
    lk_mock_advance_by(mock, 1000);
    assert_int_equal(lk_locking_join(&call), LOCKER_TIMEOUT);
    assert_int_equal(lk_locking_join(&hasty), LOCKER_TIMEOUT);
    assert_in_range(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 2, 12);
    lk_mock_end(mock, l);
}

struct canceled_call {
    locker *l;
    locker_handle *held;
    locker_status status;
};

#if defined(__SANITIZE_ADDRESS__)
void __asan_handle_no_return(void);
#endif

static void *lock_and_end(void *context)
{
    struct canceled_call *call = context;
    locker_error err;
    call->status = locker_lock(call->l, "k", NULL, &call->held, &err);
#if defined(__SANITIZE_ADDRESS__) /* it does not see frames that a cancellation leaves */
    __asan_handle_no_return();
#endif
    pthread_testcancel();
    call->status = LOCKER_INVALID;
    return NULL;
}

/* A thread that is canceled while it waits goes on waiting, gets the lock, and ends where the call is
 * over. */
static void test_a_canceled_thread_ends_behind_the_call(void **state)
{
    static struct canceled_call call;
    locker_error err;
    pthread_t thread;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    void *end = NULL;
    (void)state;
    lk_mock_faults(mock, "acquire busy");
    call = (struct canceled_call){.l = l};
    assert_int_equal(pthread_create(&thread, NULL, lock_and_end, &call), 0);
    lk_mock_await(mock, NULL, 1);
    assert_int_equal(pthread_cancel(thread), 0);
    locker_mock_wake(mock, NULL);
    assert_int_equal(locker_mock_await_calls(mock, LOCKER_OP_ACQUIRE, NULL, 2), LOCKER_OK);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_ptr_equal(end, PTHREAD_CANCELED);
    assert_int_equal(call.status, LOCKER_OK);
    assert_ok(locker_unlock(call.held, &err), err);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

static void *free_and_end(void *context)
{
    struct canceled_call *call = context;
    (void)pthread_cancel(pthread_self());
    locker_handle_free(call->held);
    call->status = LOCKER_OK;
#if defined(__SANITIZE_ADDRESS__)
    __asan_handle_no_return();
#endif
    pthread_testcancel();
    return NULL;
}

/* Free a handle that is unlocked, on a thread that is canceled. */
static void free_canceled(locker_handle *held)
{
    struct canceled_call call = {.held = held, .status = LOCKER_UNKNOWN};
    pthread_t thread;
    void *end = NULL;
    assert_int_equal(pthread_create(&thread, NULL, free_and_end, &call), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_ptr_equal(end, PTHREAD_CANCELED);
    assert_int_equal(call.status, LOCKER_OK);
}

/* What a handle leaves to the kernel goes with it: its descriptor, and those of a locker whose last it is. */
static void test_a_canceled_thread_frees_all_of_a_handle(void **state)
{
    locker_handle *with_fd, *last;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    assert_ok(locker_lock(l, "k", NULL, &with_fd, &err), err);
    assert_ok(locker_lock(l, "last", NULL, &last, &err), err);
    const int fd = locker_handle_fd(with_fd);
    assert_ok(locker_unlock(with_fd, &err), err);
    assert_ok(locker_unlock(last, &err), err);
    free_canceled(with_fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    lk_mock_end(mock, l);
    free_canceled(last);
}

/* The lease stays as it was asked for first; a label is shown, and admits nobody. */
static void test_reentry_asks_for_no_more(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *first, *again;
    locker_error err;
    char owner[LOCKER_OWNER_MAX + 1];
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    o.owner = "me";
    o.label = "the one that show prints";
    o.ttl_ms = 5000;
    o.no_renew = true;
    assert_ok(locker_lock(l, "k", &o, &first, &err), err);
    assert_string_equal(locker_handle_owner(first), o.label);
    assert_true(locker_mock_held(mock, "k", owner, NULL));
    assert_string_equal(owner, o.label);
    o.ttl_ms = 5001;
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &o, &again, &err), err);
    o.ttl_ms = 0;
    o.no_renew = false;
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &o, &again, &err), err);
    o.no_renew = true;
    assert_ok(locker_lock(l, "k", &o, &again, &err), err);
    locker_handle_free(again);
    o.owner = NULL;
    assert_status(LOCKER_BUSY, locker_try_lock(l, "k", &o, &again, &err), err); /* by the label alone */
    o.owner = "you";
    assert_status(LOCKER_BUSY, locker_try_lock(l, "k", &o, &again, &err), err);
    o.label = "";
    assert_status(LOCKER_INVALID, locker_try_lock(l, "k", &o, &again, &err), err);
    locker_handle_free(first);
    lk_mock_end(mock, l);
}

static void test_silent_service(void **state)
{
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire lose-request");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "k", NULL, &h, &err), err);
    assert_non_null(strstr(err.text, "command_timeout"));
    lk_mock_faults(mock, "acquire lose-request");
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err); /* one that waits asks again */
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 3);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

/* Out of reach at the end of the wait: nobody knows whether somebody holds it. Held, and the service answers:
 * that is known. */
static void test_out_of_reach_is_no_timeout(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking call;
    locker_handle *h, *none;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    locker *other = lk_mock_host(mock, "other");
    (void)state;
    o.wait_ms = 20000;
    assert_ok(locker_lock(other, "k", NULL, &h, &err), err);
    lk_locking_start(&call, l, "k", &o);
    lk_mock_await(mock, "k", 1);
    lk_mock_advance_by(mock, 5000);
    locker_mock_disconnect(mock, l); /* while it waits */
    lk_mock_advance_by(mock, 15000);
    assert_status(LOCKER_UNAVAILABLE, lk_locking_join(&call), call.err);
    o.wait_ms = 300; /* before it asks, for less than command_timeout */
    assert_status(LOCKER_UNAVAILABLE, locker_lock(l, "k", &o, &none, &err), err);
    lk_locking_start(&call, l, "k", NULL); /* one that waits for ever outlives it */
    lk_mock_await(mock, "k", 1);
    lk_mock_advance_by(mock, 7000);
    locker_mock_reconnect(mock, l);
    locker_handle_free(h);
    lk_mock_advance_by(mock, 1000);
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    assert_status(LOCKER_TIMEOUT, locker_lock(other, "k", &o, &none, &err), err);
    locker_handle_free(call.held);
    lk_close_locker(other);
    lk_mock_end(mock, l);
}

/* A shorter silence than command_timeout tells nothing, a longer one does: also to those who stand behind in
 * this process. What this process holds is held, in reach or not. */
static void test_silence_to_the_end(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking asks, queues;
    locker_handle *h, *none;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire always lose-request");
    for (int longer = 0; longer < 2; longer++) {
        locker_status expected = longer ? LOCKER_UNAVAILABLE : LOCKER_TIMEOUT;

        o.wait_ms = longer ? 5300 : 300;
        lk_locking_start(&asks, l, "k", &o);
        lk_mock_await(mock, "k", 1);
        lk_locking_start(&queues, l, "k", &o);
        lk_mock_await(mock, "k", 2);
        lk_mock_advance_by(mock, longer ? 5000 : 300);
        if (longer) {
            lk_mock_await(mock, "k", 2);
            lk_mock_advance_by(mock, 300);
        }
        assert_status(expected, lk_locking_join(&asks), asks.err);
        assert_status(expected, lk_locking_join(&queues), queues.err);
    }
    locker_mock_forget(mock);
    assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
    locker_mock_disconnect(mock, l);
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "k", &o, &none, &err), err);
    locker_mock_reconnect(mock, l);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

/* The reply with the grant took longer than the lease: success must mean held, so it is given back. */
static void test_stale_grant_is_not_held(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    o.ttl_ms = 50;
    lk_mock_faults(mock, "acquire delay=50ms");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "k", &o, &h, &err), err);
    assert_non_null(strstr(err.text, "longer ttl"));
    lk_mock_faults(mock, "acquire delay=50ms");
    assert_ok(locker_lock(l, "k", &o, &h, &err), err); /* one that waits tries again */
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 3);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

static void test_release_answers(void **state)
{
    static const locker_status answers[] = {LOCKER_OK, LOCKER_LOST, LOCKER_UNKNOWN};
    static const char *const faults[] = {"", "release lost", "release unknown"};
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    for (int i = 0; i < 3; i++) {
        lk_mock_faults(mock, faults[i]);
        assert_ok(locker_lock(l, "k", NULL, &h, &err), err);
        assert_status(answers[i], locker_unlock(h, &err), err);
        assert_int_equal(locker_handle_state(h),
                         answers[i] == LOCKER_LOST ? LOCKER_STATE_LOST : LOCKER_STATE_UNLOCKED);
        locker_handle_free(h);
    }
    assert_int_equal(lk_stats(l).released, 1);
    assert_int_equal(lk_stats(l).lost, 1);
    assert_int_equal(lk_stats(l).unknown, 1);
    lk_mock_end(mock, l);
}

static void test_reentry(void **state)
{
    locker_lock_options mine = LOCKER_LOCK_OPTIONS_INIT, other = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *first, *second, *third;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    mine.owner = "me";
    other.owner = "you";
    assert_ok(locker_lock(l, "k", &mine, &first, &err), err);
    assert_ok(locker_lock(l, "k", &mine, &second, &err), err);
    assert_status(LOCKER_BUSY, locker_try_lock(l, "k", &other, &third, &err), err);
    assert_status(LOCKER_BUSY, locker_try_lock(l, "k", NULL, &third, &err), err);
    assert_int_equal(locker_handle_token(first), locker_handle_token(second));
    assert_string_equal(locker_handle_owner(second), "me");
    assert_ok(locker_unlock(first, &err), err);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 0);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    locker_handle_free(first);
    assert_ok(locker_unlock(second, &err), err);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 1);
    locker_handle_free(second);
    assert_int_equal(lk_stats(l).reentered, 1);
    lk_mock_end(mock, l);
}

static void test_close(void **state)
{
    lk_locking calls[2];
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    assert_ok(locker_lock(l, "held", NULL, &h, &err), err);
    lk_mock_faults(mock, "acquire:k always busy");
    lk_locking_start(&calls[0], l, "k", NULL);
    lk_locking_start(&calls[1], l, "k", NULL); /* in the local FIFO */
    lk_mock_await(mock, NULL, 2);
    lk_close_locker(l);
    assert_int_equal(lk_locking_join(&calls[0]), LOCKER_CLOSED);
    assert_int_equal(lk_locking_join(&calls[1]), LOCKER_CLOSED);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_UNLOCKED);
    assert_status(LOCKER_CLOSED, locker_unlock(h, &err), err);
    assert_string_equal(locker_handle_key(h), "held");
    locker_handle_free(h);
    lk_mock_end(mock, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_grant_and_release),
        cmocka_unit_test(test_scope),
        cmocka_unit_test(test_try_busy),
        cmocka_unit_test(test_wake_brings_another_attempt),
        cmocka_unit_test(test_retry_at),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_inside_an_attempt),
        cmocka_unit_test(test_a_fresh_cancel_in_an_old_ones_place),
        cmocka_unit_test(test_unavailable),
        cmocka_unit_test(test_an_attempt_cut_short_keeps_the_last_reason),
        cmocka_unit_test(test_final_is_final_for_who_waits),
        cmocka_unit_test(test_a_try_behind_a_waiter_gets_the_known_state),
        cmocka_unit_test(test_a_lease_too_short_is_no_outage),
        cmocka_unit_test(test_a_canceled_thread_ends_behind_the_call),
        cmocka_unit_test(test_a_canceled_thread_frees_all_of_a_handle),
        cmocka_unit_test(test_silent_service),
        cmocka_unit_test(test_out_of_reach_is_no_timeout),
        cmocka_unit_test(test_silence_to_the_end),
        cmocka_unit_test(test_reentry_asks_for_no_more),
        cmocka_unit_test(test_stale_grant_is_not_held),
        cmocka_unit_test(test_release_answers),
        cmocka_unit_test(test_reentry),
        cmocka_unit_test(test_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
