/* callbacks.c: on_lost, what is legal inside, and the log callback. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gate.h"
#include "locking.h"
#include "mocking.h"

/* What the callback saw; read by the test after `done`. */
struct seen {
    locker *l;
    lk_gate done, hold;
    bool holds;           /* the callback waits for `hold` */
    bool frees;           /* it frees the handle */
    locker_handle *other; /* a handle that is held: it tries to unlock it, then frees it */
    _Atomic int calls;
    locker_handle *lost;
    locker_state state;
    locker_status lock, close, unlock_lost, unlock_other, ping;
};

static void on_lost(locker_handle *lost, void *user)
{
    struct seen *seen = user;
    locker_handle *h = NULL;
    (void)atomic_fetch_add(&seen->calls, 1);
    seen->lost = lost;
    seen->state = locker_handle_state(lost);
    seen->lock = locker_lock(seen->l, "x", NULL, &h, NULL);
    seen->ping = locker_ping(seen->l, NULL, NULL);
    seen->close = locker_close(seen->l);
    if (seen->other != NULL) {
        seen->unlock_other = locker_unlock(seen->other, NULL);
        locker_handle_free(seen->other);
    }
    seen->unlock_lost = locker_unlock(lost, NULL);
    if (seen->frees)
        locker_handle_free(lost);
    lk_gate_open(&seen->done, 1);
    if (seen->holds)
        (void)lk_gate_pass(&seen->hold);
}

/* A lock whose lease nobody renews. */
static locker_mock *begin(struct seen *seen, locker_handle **h)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    locker_mock *mock = lk_mock_begin(NULL, &seen->l);
    lk_gate_init(&seen->done);
    lk_gate_init(&seen->hold);
    o.on_lost = on_lost;
    o.user = seen;
    lk_mock_faults(mock, "renew always unavailable");
    assert_ok(locker_lock(seen->l, "k", &o, h, &err), err);
    return mock;
}

static void end(struct seen *seen, locker_mock *mock)
{
    locker_mock_forget(mock);
    lk_mock_end(mock, seen->l);
    lk_gate_destroy(&seen->done);
    lk_gate_destroy(&seen->hold);
}

static void test_a_loss_calls_back_once(void **state)
{
    struct seen seen = {.calls = 0};
    locker_handle *h;
    locker_mock *mock = begin(&seen, &h);
    (void)state;
    lk_mock_advance_by(mock, 30000);
    lk_gate_await(&seen.done, 1, "on_lost");
    assert_ptr_equal(seen.lost, h);
    assert_int_equal(seen.state, LOCKER_STATE_LOST);
    assert_int_equal(seen.lock, LOCKER_INVALID);
    assert_int_equal(seen.ping, LOCKER_INVALID);
    assert_int_equal(seen.close, LOCKER_INVALID);
    assert_int_equal(seen.unlock_lost, LOCKER_LOST);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    locker_handle_free(h);
    assert_int_equal(atomic_load(&seen.calls), 1);
    end(&seen, mock);
}

static void test_freed_inside(void **state)
{
    struct seen seen = {.frees = true};
    locker_handle *h;
    locker_mock *mock = begin(&seen, &h);
    (void)state;
    lk_mock_advance_by(mock, 30000);
    lk_gate_await(&seen.done, 1, "on_lost");
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    end(&seen, mock);
}

static void test_another_handle_inside(void **state)
{
    struct seen seen = {.calls = 0};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker_error err;
    locker_mock *mock = begin(&seen, &h);
    (void)state;
    o.ttl_ms = 60000;
    assert_ok(locker_lock(seen.l, "other", &o, &seen.other, &err), err);
    lk_mock_advance_by(mock, 30000);
    lk_gate_await(&seen.done, 1, "on_lost");
    assert_int_equal(seen.unlock_other, LOCKER_INVALID);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 2);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RELEASE), 0); /* in the background */
    locker_handle_free(h);
    end(&seen, mock);
}

struct freeing {
    locker_handle *h;
    _Atomic int tid;
    atomic_bool returned;
};

static void *free_it(void *arg)
{
    struct freeing *f = arg;
    atomic_store(&f->tid, (int)syscall(SYS_gettid));
    locker_handle_free(f->h);
    atomic_store(&f->returned, true);
    return NULL;
}

/* Until it waits for something, or has returned without. */
static void await_asleep(const struct freeing *f)
{
    char path[64], text[128] = "";
    while (atomic_load(&f->tid) == 0)
        sched_yield();
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&f->tid));
    while (!atomic_load(&f->returned) && strstr(text, ") S ") == NULL) {
        FILE *stat = fopen(path, "r");

        if (stat == NULL || fgets(text, sizeof text, stat) == NULL)
            text[0] = '\0';
        if (stat != NULL)
            (void)fclose(stat);
    }
}

static void *advance_it(void *mock)
{
    return (void *)(intptr_t)locker_mock_advance(mock, 30000);
}

static void test_free_waits_for_the_callback(void **state)
{
    struct seen seen = {.holds = true};
    struct freeing freeing = {.h = NULL};
    pthread_t thread, mover;
    locker_mock *mock = begin(&seen, &freeing.h);
    (void)state;
    assert_int_equal(pthread_create(&mover, NULL, advance_it, mock), 0);
    lk_gate_await(&seen.done, 1, "on_lost");
    assert_int_equal(pthread_create(&thread, NULL, free_it, &freeing), 0);
    await_asleep(&freeing);
    assert_false(freeing.returned);
    lk_gate_open(&seen.hold, 1);
    lk_join(thread, "the free that waited");
    lk_join(mover, "the clock");
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    end(&seen, mock);
}

static void test_no_callback_after_an_unlock(void **state)
{
    struct seen seen = {.calls = 0};
    locker_handle *h;
    locker_error err;
    locker_mock *mock = begin(&seen, &h);
    (void)state;
    assert_ok(locker_unlock(h, &err), err);
    lk_mock_advance_by(mock, 60000);
    locker_handle_free(h);
    end(&seen, mock);
    assert_int_equal(atomic_load(&seen.calls), 0);
}

static void test_every_handle_of_a_reentered_lock_gets_its_callback(void **state)
{
    struct seen seen = {.calls = 0};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *one, *two;
    locker_error err;
    locker_mock *mock = lk_mock_begin(NULL, &seen.l);
    (void)state;
    lk_gate_init(&seen.done);
    lk_gate_init(&seen.hold);
    o.owner = "me";
    o.on_lost = on_lost;
    o.user = &seen;
    lk_mock_faults(mock, "renew always unavailable");
    assert_ok(locker_lock(seen.l, "k", &o, &one, &err), err);
    assert_ok(locker_lock(seen.l, "k", &o, &two, &err), err);
    lk_mock_advance_by(mock, 30000);
    lk_gate_await(&seen.done, 2, "on_lost for both");
    locker_handle_free(one);
    locker_handle_free(two);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    end(&seen, mock);
}

struct logged {
    locker_log_level level;
    char text[256];
};

static void log_line(locker_log_level level, const char *text, void *user)
{
    struct logged *logged = user;
    logged->level = level;
    (void)strncpy(logged->text, text, sizeof logged->text - 1);
}

static void test_loss_is_logged(void **state)
{
    struct logged logged = {.level = LOCKER_LOG_DEBUG};
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_handle *h;
    locker_error err;
    locker *l, *logs;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    o.log = log_line;
    o.log_user = &logged;
    assert_ok(locker_mock_open(mock, NULL, &o, &logs, &err), err);
    assert_ok(locker_lock(logs, "orders/42", NULL, &h, &err), err);
    assert_int_equal(locker_mock_lose(mock, "orders/42"), LOCKER_OK);
    lk_mock_advance_by(mock, 0);
    assert_int_equal(logged.level, LOCKER_LOG_ERROR);
    assert_non_null(strstr(logged.text, "orders/42"));
    locker_handle_free(h);
    assert_int_equal(locker_close(logs), LOCKER_OK);
    lk_mock_end(mock, l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loss_calls_back_once),
        cmocka_unit_test(test_freed_inside),
        cmocka_unit_test(test_another_handle_inside),
        cmocka_unit_test(test_free_waits_for_the_callback),
        cmocka_unit_test(test_no_callback_after_an_unlock),
        cmocka_unit_test(test_every_handle_of_a_reentered_lock_gets_its_callback),
        cmocka_unit_test(test_loss_is_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
