/* clock.c: the mock's clock: what is due happens in order, and who moves it. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gate.h"
#include "locking.h"
#include "mocking.h"

static void test_what_is_due_happens_in_order(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking calls[3];
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    locker_mock_call call;
    int64_t began = locker_mock_now_ms(mock), last = began;
    (void)state;
    assert_int_equal(locker_mock_take(mock, "a", "stranger", 400, NULL), LOCKER_OK);
    assert_int_equal(locker_mock_take(mock, "b", "stranger", 700, NULL), LOCKER_OK);
    assert_int_equal(locker_mock_take(mock, "c", "stranger", 0, NULL), LOCKER_OK);
    o.wait_ms = 550;
    o.ttl_ms = 300;
    lk_locking_start(&calls[0], l, "b", &o); /* times out at 550 */
    lk_locking_start(&calls[1], l, "a", &o); /* granted at 400, renewed at 500, 600, ... */
    o.wait_ms = 650;
    lk_locking_start(&calls[2], l, "c", &o); /* times out at 650 */
    lk_mock_await(mock, NULL, 3);
    lk_mock_advance_by(mock, 1000);
    assert_int_equal(lk_locking_join(&calls[0]), LOCKER_TIMEOUT);
    assert_int_equal(lk_locking_join(&calls[1]), LOCKER_OK);
    assert_int_equal(lk_locking_join(&calls[2]), LOCKER_TIMEOUT);
    for (size_t i = 3; locker_mock_call_at(mock, i, &call); i++) {
        int64_t at = call.at_ms - began;

        assert_true(call.at_ms >= last);
        last = call.at_ms;
        if (call.op == LOCKER_OP_WITHDRAW)
            assert_int_equal(at, call.key[0] == 'b' ? 550 : 650);
        else if (call.op == LOCKER_OP_ACQUIRE)
            assert_int_equal(at, 400);
        else
            assert_int_equal(at % 100, 0);
    }
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 6);
    locker_handle_free(calls[1].held);
    lk_mock_end(mock, l);
}

struct seen {
    locker_mock *mock;
    bool held; /* at the service, when on_lost was called */
};

static void look_at_service(locker_handle *lost, void *user)
{
    struct seen *seen = user;
    (void)lost;
    seen->held = locker_mock_held(seen->mock, "k", NULL, NULL);
}

/* At one moment the holder learns first that its lease is over; then the service gives the lock away. */
static void test_the_holder_knows_first(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    struct seen seen = {mock, false};
    (void)state;
    o.no_renew = true;
    o.on_lost = look_at_service;
    o.user = &seen;
    assert_ok(locker_lock(l, "k", &o, &held, &err), err);
    lk_mock_advance_by(mock, 30000);
    assert_true(seen.held);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    assert_false(locker_mock_held(mock, "k", NULL, NULL));
    locker_handle_free(held);
    lk_mock_end(mock, l);
}

static void test_the_tests_own_thread_moves_it(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    int64_t began = locker_mock_now_ms(mock);
    (void)state;
    assert_int_equal(locker_mock_take(mock, "k", "stranger", 60000, NULL), LOCKER_OK);
    o.wait_ms = 5000;
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "k", &o, &held, &err), err);
    assert_int_equal(locker_mock_now_ms(mock), began + 5000);
    o.wait_ms = -1;
    assert_ok(locker_lock(l, "k", &o, &held, &err), err);
    assert_int_equal(locker_mock_now_ms(mock), began + 60000);
    locker_handle_free(held);
    lk_mock_end(mock, l);
}

static void *leave_later(void *mock)
{
    return (void *)(intptr_t)(locker_mock_await_waiters(mock, "k", 1) == LOCKER_OK
                                  ? locker_mock_leave(mock, "k")
                                  : LOCKER_TIMEOUT);
}

static void test_a_still_clock(void **state)
{
    const locker_mock_options options = {.size = sizeof options, .still_clock = true};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&options, &l);
    int64_t began = locker_mock_now_ms(mock);
    pthread_t thread;
    (void)state;
    assert_int_equal(locker_mock_take(mock, "k", "stranger", 0, NULL), LOCKER_OK);
    assert_int_equal(pthread_create(&thread, NULL, leave_later, mock), 0);
    o.wait_ms = 5000;
    assert_ok(locker_lock(l, "k", &o, &held, &err), err);
    assert_int_equal(locker_mock_now_ms(mock), began);
    lk_join(thread, "the stranger's leaving");
    locker_handle_free(held);
    lk_mock_end(mock, l);
}

static void test_delays_on_another_thread_wait_for_the_clock(void **state)
{
    lk_locking call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire delay=200ms");
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, "k", 1);
    lk_mock_advance_by(mock, 199);
    assert_int_equal(locker_mock_waiters(mock, "k"), 1);
    assert_int_equal(locker_mock_waiters(mock, "other"), 0);
    lk_mock_advance_by(mock, 1);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

struct inside {
    locker_mock *mock;
    locker_status advance, waiters, calls;
    lk_gate begun, go;
};

static void ask_inside(locker_handle *lost, void *user)
{
    struct inside *inside = user;
    (void)lost;
    inside->advance = locker_mock_advance(inside->mock, 1);
    inside->waiters = locker_mock_await_waiters(inside->mock, NULL, 0);
    inside->calls = locker_mock_await_calls(inside->mock, LOCKER_OP_ANY, NULL, 0);
    lk_gate_open(&inside->begun, 1);
    (void)lk_gate_pass(&inside->go);
}

/* Inside a callback nothing may wait; and a callback that blocks is named instead of waited for. */
static void test_callbacks(void **state)
{
    locker_mock_options options = LOCKER_MOCK_OPTIONS_INIT;
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    struct inside inside = {.mock = NULL};
    locker_handle *held;
    locker_error err;
    locker *l;
    char text[500];
    (void)state;
    options.patience_ms = 50;
    lk_gate_init(&inside.begun);
    lk_gate_init(&inside.go);
    assert_ok(locker_mock_new(&options, &inside.mock, &err), err);
    assert_ok(locker_mock_open(inside.mock, "test", NULL, &l, &err), err);
    o.on_lost = ask_inside;
    o.user = &inside;
    assert_ok(locker_lock(l, "k", &o, &held, &err), err);
    assert_int_equal(locker_mock_lose(inside.mock, "k"), LOCKER_OK);
    lk_gate_await(&inside.begun, 1, "the callback");
    assert_int_equal(locker_mock_advance(inside.mock, 0), LOCKER_TIMEOUT);
    assert_int_equal(locker_mock_verify(inside.mock, text, sizeof text), 1);
    assert_string_equal(text,
                        "threads did not come to rest within 50 ms: a callback of 'test' may be blocking");
    lk_gate_open(&inside.go, 1);
    locker_handle_free(held);
    assert_int_equal(inside.advance, LOCKER_INVALID);
    assert_int_equal(inside.waiters, LOCKER_INVALID);
    assert_int_equal(inside.calls, LOCKER_INVALID);
    assert_int_equal(locker_close(l), LOCKER_OK);
    locker_mock_free(inside.mock);
    lk_gate_destroy(&inside.begun);
    lk_gate_destroy(&inside.go);
}

static void test_waiting_in_vain_ends(void **state)
{
    locker_mock_options options = LOCKER_MOCK_OPTIONS_INIT;
    locker_mock *mock;
    locker_error err;
    (void)state;
    options.patience_ms = 20;
    assert_ok(locker_mock_new(&options, &mock, &err), err);
    assert_int_equal(locker_mock_await_waiters(mock, "k", 1), LOCKER_TIMEOUT);
    assert_int_equal(locker_mock_await_calls(mock, LOCKER_OP_PING, NULL, 1), LOCKER_TIMEOUT);
    assert_int_equal(locker_mock_advance(mock, -1), LOCKER_INVALID);
    assert_int_equal(locker_mock_advance(NULL, 1), LOCKER_INVALID);
    locker_mock_free(mock);
}

/* The child of the next test: waits on its own thread for what never comes. */
static void wait_for_ever(int stderr_fd)
{
    locker_mock_options options = LOCKER_MOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_mock *mock;
    locker *l;
    (void)dup2(stderr_fd, STDERR_FILENO);
    options.patience_ms = 100;
    if (locker_mock_new(&options, &mock, NULL) == LOCKER_OK &&
        locker_mock_open(mock, "test", NULL, &l, NULL) == LOCKER_OK &&
        locker_mock_take(mock, "k", "stranger", 0, NULL) == LOCKER_OK &&
        locker_lock(l, "k", NULL, &held, NULL) == LOCKER_OK)
        _exit(2);
    _exit(1);
}

static void test_a_call_that_nothing_can_end(void **state)
{
    char text[500] = "";
    int fds[2], status;
    ssize_t n;
    pid_t child;
    (void)state;
    assert_int_equal(pipe(fds), 0);
    child = fork();
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        wait_for_ever(fds[1]);
    }
    assert_true(child > 0);
    (void)close(fds[1]);
    n = read(fds[0], text, sizeof text - 1);
    assert_true(n > 0);
    (void)close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_memory_equal(text, "locker mock: the test's own thread waits for k in vain", 54);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_due_happens_in_order),
        cmocka_unit_test(test_the_holder_knows_first),
        cmocka_unit_test(test_the_tests_own_thread_moves_it),
        cmocka_unit_test(test_a_still_clock),
        cmocka_unit_test(test_delays_on_another_thread_wait_for_the_clock),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_waiting_in_vain_ends),
        cmocka_unit_test(test_a_call_that_nothing_can_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
