/* callbacks.c: on_lost, what is legal inside, and the log callback. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "locking.h"
#include "script.h"

/* What the callback saw; read by the test after `done`. */
struct seen {
    locker *l;
    struct lk_gate done, hold;
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

static struct script *begin(struct seen *seen, locker_handle **h)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    struct script *s = script_open(0, &seen->l);

    lk_gate_init(&seen->done);
    lk_gate_init(&seen->hold);
    o.on_lost = on_lost;
    o.user = seen;
    assert_ok(locker_lock(seen->l, "k", &o, h, &err), err);
    return s;
}

static void end(struct seen *seen, struct script *s)
{
    script_close(s, seen->l);
    lk_gate_destroy(&seen->done);
    lk_gate_destroy(&seen->hold);
}

static void test_told_once(void **state)
{
    struct seen seen = {.calls = 0};
    locker_handle *h;
    struct script *s = begin(&seen, &h);

    (void)state;
    script_advance(s, 30000);
    lk_gate_await(&seen.done, 1, "on_lost");
    assert_ptr_equal(seen.lost, h);
    assert_int_equal(seen.state, LOCKER_STATE_LOST);
    assert_int_equal(seen.lock, LOCKER_INVALID);
    assert_int_equal(seen.ping, LOCKER_INVALID);
    assert_int_equal(seen.close, LOCKER_INVALID);
    assert_int_equal(seen.unlock_lost, LOCKER_LOST);
    lk_gate_await(&s->withdrew, 1, "the withdrawal");
    locker_handle_free(h);
    assert_int_equal(atomic_load(&seen.calls), 1);
    end(&seen, s);
}

static void test_freed_inside(void **state)
{
    struct seen seen = {.frees = true};
    locker_handle *h;
    struct script *s = begin(&seen, &h);

    (void)state;
    script_advance(s, 30000);
    lk_gate_await(&seen.done, 1, "on_lost");
    lk_gate_await(&s->withdrew, 1, "the withdrawal");
    end(&seen, s);
}

static void test_another_handle_inside(void **state)
{
    struct seen seen = {.calls = 0};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker_error err;
    struct script *s = begin(&seen, &h);

    (void)state;
    o.ttl_ms = 60000;
    assert_ok(locker_lock(seen.l, "other", &o, &seen.other, &err), err);
    script_advance(s, 30000);
    lk_gate_await(&seen.done, 1, "on_lost");
    assert_int_equal(seen.unlock_other, LOCKER_INVALID);
    lk_gate_await(&s->withdrew, 2, "both withdrawals: the held one is released in the background");
    assert_int_equal(s->released, 0);
    locker_handle_free(h);
    end(&seen, s);
}

static void *free_it(void *handle)
{
    locker_handle_free(handle);
    return NULL;
}

static void test_free_waits_for_the_callback(void **state)
{
    struct seen seen = {.holds = true};
    locker_handle *h;
    pthread_t thread;
    struct timespec soon;
    struct script *s = begin(&seen, &h);

    (void)state;
    script_advance(s, 30000);
    lk_gate_await(&seen.done, 1, "on_lost");
    assert_int_equal(pthread_create(&thread, NULL, free_it, h), 0);
    (void)clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 0;
    assert_int_not_equal(pthread_timedjoin_np(thread, NULL, &soon), 0);
    lk_gate_open(&seen.hold, 1);
    lk_join(thread, "the free that waited");
    lk_gate_await(&s->withdrew, 1, "the withdrawal");
    end(&seen, s);
}

static void test_not_told_once_unlocked(void **state)
{
    struct seen seen = {.calls = 0};
    locker_handle *h;
    locker_error err;
    struct script *s = begin(&seen, &h);

    (void)state;
    assert_ok(locker_unlock(h, &err), err);
    script_advance(s, 60000);
    locker_handle_free(h);
    end(&seen, s);
    assert_int_equal(atomic_load(&seen.calls), 0);
}

static void test_every_handle_of_a_reentered_lock_is_told(void **state)
{
    struct seen seen = {.calls = 0};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *one, *two;
    locker_error err;
    struct script *s = script_open(0, &seen.l);

    (void)state;
    lk_gate_init(&seen.done);
    lk_gate_init(&seen.hold);
    o.owner = "me";
    o.on_lost = on_lost;
    o.user = &seen;
    assert_ok(locker_lock(seen.l, "k", &o, &one, &err), err);
    assert_ok(locker_lock(seen.l, "k", &o, &two, &err), err);
    script_advance(s, 30000);
    lk_gate_await(&seen.done, 2, "on_lost for both");
    locker_handle_free(one);
    locker_handle_free(two);
    lk_gate_await(&s->withdrew, 1, "the withdrawal");
    end(&seen, s);
}

struct logged {
    struct lk_gate any;
    locker_log_level level;
    char text[256];
};

static void log_line(locker_log_level level, const char *text, void *user)
{
    struct logged *logged = user;

    logged->level = level;
    (void)strncpy(logged->text, text, sizeof logged->text - 1);
    lk_gate_open(&logged->any, 1);
}

static void test_loss_is_logged(void **state)
{
    struct logged logged = {.level = LOCKER_LOG_DEBUG};
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    struct script *s = script_new();
    locker_handle *h;
    locker_error err;
    locker *l;

    (void)state;
    lk_gate_init(&logged.any);
    o.log = log_line;
    o.log_user = &logged;
    d.options = &o;
    d.clock = script_clock(s);
    assert_ok(locker_open_driver(script_driver(s, 0), &d, &l, &err), err);
    assert_ok(locker_lock(l, "orders/42", NULL, &h, &err), err);
    script_advance(s, 30000);
    lk_gate_await(&logged.any, 1, "the log line");
    assert_int_equal(logged.level, LOCKER_LOG_ERROR);
    assert_non_null(strstr(logged.text, "orders/42"));
    locker_handle_free(h);
    script_close(s, l);
    lk_gate_destroy(&logged.any);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told_once),
        cmocka_unit_test(test_freed_inside),
        cmocka_unit_test(test_another_handle_inside),
        cmocka_unit_test(test_free_waits_for_the_callback),
        cmocka_unit_test(test_not_told_once_unlocked),
        cmocka_unit_test(test_every_handle_of_a_reentered_lock_is_told),
        cmocka_unit_test(test_loss_is_logged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
