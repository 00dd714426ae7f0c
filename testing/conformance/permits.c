/* permits.c: at most so many hold a key at once, each with a slot of its own. */
#include "kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { PERMITS = 3, TRIERS = 64 };

#define needs_permits(fixture) needs((fixture)->promises.permits_most >= PERMITS)

static void expect_busy(locker *l, const char *key)
{
    const locker_lock_options one = lk_permit_options(PERMITS);
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(l, key, &one, &held, &err), err);
}

/* All permits of the key can be had, each with a slot of its own; they are given back. */
static void require_all_free(lk_fixture *fixture, const char *key)
{
    locker_lock_options one = lk_permit_options(PERMITS);
    locker *l = lk_open_locker(fixture, "");
    locker_handle *held[PERMITS];
    unsigned slots = 0;
    one.wait_ms = LK_TEST_PATIENCE_MS;
    for (int i = 0; i < PERMITS; i++) {
        held[i] = lk_take(l, key, &one);
        assert_in_range(locker_handle_slot(held[i]), 0, PERMITS - 1);
        slots |= 1U << locker_handle_slot(held[i]);
    }
    assert_int_equal(slots, (1U << PERMITS) - 1);
    expect_busy(l, key);
    for (int i = 0; i < PERMITS; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

static void as_many_hold_as_there_are_permits(void **state)
{
    needs_permits((lk_fixture *)*state);
    const locker_lock_options one = lk_permit_options(PERMITS);
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held[PERMITS];
    for (int i = 0; i < PERMITS; i++) {
        held[i] = lk_take(i % 2 == 0 ? a : b, "permits", &one);
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(locker_handle_slot(held[i]), locker_handle_slot(held[j]));
            assert_true(locker_handle_token(held[i]) > locker_handle_token(held[j]) ||
                        locker_handle_token(held[i]) == 0);
        }
    }
    expect_busy(a, "permits");
    expect_busy(b, "permits");
    const int32_t freed = locker_handle_slot(held[1]);
    lk_give(held[1]);
    held[1] = lk_take(a, "permits", &one);
    assert_int_equal(locker_handle_slot(held[1]), freed);
    for (int i = 0; i < PERMITS; i++)
        lk_give(held[i]);
    require_all_free(*state, "permits");
    lk_close_locker(b);
    lk_close_locker(a);
}

static void one_permit_is_a_lock(void **state)
{
    needs_permits((lk_fixture *)*state);
    const locker_lock_options one = lk_permit_options(1);
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "one", &one), *other = NULL;
    locker_error err;
    assert_int_equal(locker_handle_slot(held), 0);
    assert_status(LOCKER_BUSY, locker_try_lock(b, "one", &one, &other, &err), err);
    lk_give(held);
    lk_close_locker(b);
    lk_close_locker(a);
}

static void waiters_get_permits_in_order(void **state)
{
    lk_fixture *const fixture = *state;
    needs_permits(fixture);
    locker *l = lk_open_locker(fixture, "");
    const locker_lock_options one = lk_permit_options(PERMITS);
    locker_handle *held[PERMITS];
    lk_locking first, second;
    for (int i = 0; i < PERMITS; i++)
        held[i] = lk_take(l, "order", &one);
    lk_locking_start(&first, l, "order", &one);
    lk_require_waiting(l, 1);
    lk_locking_start(&second, l, "order", &one);
    lk_require_waiting(l, 2);
    lk_give(held[0]);
    held[0] = lk_locking_grant(&first);
    lk_require_waiting(l, 1); /* it may have been awake to see that there is no room */
    lk_give(held[1]);
    held[1] = lk_locking_grant(&second);
    for (int i = 0; i < PERMITS; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

/* Several come back at once: several enter at once. */
static void waiters_of_many_lockers_enter_together(void **state)
{
    needs_permits((lk_fixture *)*state);
    const locker_lock_options one = lk_permit_options(PERMITS);
    locker *l = lk_open_locker(*state, ""), *others[PERMITS];
    locker_handle *held[PERMITS];
    lk_locking waiter[PERMITS];
    for (int i = 0; i < PERMITS; i++)
        held[i] = lk_take(l, "many", &one);
    for (int i = 0; i < PERMITS; i++) {
        others[i] = lk_open_locker(*state, "");
        lk_locking_start(&waiter[i], others[i], "many", &one);
        lk_require_waiting(others[i], 1);
    }
    for (int i = 0; i < PERMITS; i++)
        lk_give(held[i]);
    for (int i = 0; i < PERMITS; i++)
        held[i] = lk_locking_grant(&waiter[i]); /* none waits for another to unlock */
    expect_busy(l, "many");
    for (int i = 0; i < PERMITS; i++)
        lk_give(held[i]);
    for (int i = 0; i < PERMITS; i++)
        lk_close_locker(others[i]);
    lk_close_locker(l);
}

static void expect_other_use(locker *l, const locker_lock_options *options, const char *words)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_CONFIG, locker_lock(l, "use", options, &held, &err), err);
    assert_null(held);
    if (strstr(err.text, words) == NULL)
        test_fails("the error text does not contain '%s': %s", words, err.text);
}

static void a_key_is_used_in_one_way_at_a_time(void **state)
{
    needs_permits((lk_fixture *)*state);
    const locker_lock_options three = lk_permit_options(PERMITS), two = lk_permit_options(2);
    const locker_lock_options lock = lk_wait_options(5000);
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "use", &three);
    expect_other_use(a, &two, "in use with 3 permits, but this call says 2");
    expect_other_use(b, &two, "in use with 3 permits, but this call says 2");
    expect_other_use(a, &lock, "in use with 3 permits, but this call asks for a lock");
    expect_other_use(b, &lock, "in use with 3 permits, but this call asks for a lock");
    lk_give(held);
    held = lk_take(b, "use", &two);
    assert_int_equal(locker_handle_slot(held), 0);
    lk_give(held);
    held = lk_take(b, "use", NULL);
    expect_other_use(a, &two, "in use as a lock, but this call asks for one of 2 permits");
    expect_other_use(b, &two, "in use as a lock, but this call asks for one of 2 permits");
    lk_give(held);
    lk_close_locker(b);
    lk_close_locker(a);
}

struct trier {
    locker *l;
    pthread_barrier_t *together;
    atomic_int *granted;
    pthread_t thread;
};

static void *try_once(void *argument)
{
    struct trier *self = argument;
    const locker_lock_options one = lk_permit_options(PERMITS);
    locker_handle *held = NULL;
    pthread_barrier_wait(self->together);
    if (locker_try_lock(self->l, "triers", &one, &held, NULL) == LOCKER_OK)
        atomic_fetch_add(self->granted, 1);
    pthread_barrier_wait(self->together);
    locker_handle_free(held);
    return NULL;
}

/* kazoo's pull request 214: a try let in more than there were permits. */
static void tries_get_no_more_than_there_are(void **state)
{
    needs_permits((lk_fixture *)*state);
    static struct trier triers[TRIERS];
    static pthread_barrier_t together;
    static atomic_int granted;
    locker *l[] = {lk_open_locker(*state, ""), lk_open_locker(*state, "")};
    pthread_barrier_init(&together, NULL, TRIERS);
    atomic_store(&granted, 0);
    for (int i = 0; i < TRIERS; i++) {
        triers[i] = (struct trier){l[i % 2], &together, &granted, 0};
        assert_int_equal(pthread_create(&triers[i].thread, NULL, try_once, &triers[i]), 0);
    }
    for (int i = 0; i < TRIERS; i++)
        lk_join(triers[i].thread, "a thread that tries");
    pthread_barrier_destroy(&together);
    assert_in_range(atomic_load(&granted), 1, PERMITS);
    lk_close_locker(l[0]);
    lk_close_locker(l[1]);
    require_all_free(*state, "triers");
}

/* Curator's leaks: a wait that ends in any way leaves all permits there. */
static void waits_that_end_leave_all_permits(void **state)
{
    needs_permits((lk_fixture *)*state);
    locker_lock_options one = lk_permit_options(PERMITS);
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held[PERMITS];
    lk_locking waiter;
    for (int i = 0; i < PERMITS; i++)
        held[i] = lk_take(a, "leaks", &one);
    one.wait_ms = 50;
    lk_locking_start(&waiter, b, "leaks", &one);
    assert_status(LOCKER_TIMEOUT, lk_locking_join(&waiter), waiter.err);
    one.wait_ms = -1;
    one.cancel = locker_cancel_new();
    lk_locking_start(&waiter, b, "leaks", &one);
    lk_require_waiting(b, 1);
    locker_cancel_fire(one.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    lk_locking_start(&waiter, b, "leaks",
                     &(locker_lock_options){.size = sizeof one, .wait_ms = -1, .permits = PERMITS});
    lk_require_waiting(b, 1);
    lk_close_locker(b);
    assert_status(LOCKER_CLOSED, lk_locking_join(&waiter), waiter.err);
    for (int i = 0; i < PERMITS; i++)
        lk_give(held[i]);
    locker_cancel_free(one.cancel);
    lk_close_locker(a);
    require_all_free(*state, "leaks");
}

/* redisson#3046: the permits of the dead never came back. */
static void permits_of_the_dead_come_back(void **state)
{
    lk_fixture *const fixture = *state;
    needs_permits(fixture);
    needs_processes(fixture);
    const locker_lock_options one = lk_permit_options(PERMITS);
    lk_child *dies[PERMITS];
    for (int i = 0; i < PERMITS; i++) {
        dies[i] = lk_start_puppet(fixture, "ttl=1s");
        assert_int_equal(lk_puppet_take(dies[i], "dead", &one), LOCKER_OK);
    }
    locker *l = lk_open_locker(fixture, "ttl=1s");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "dead", &one);
    lk_require_waiting(l, 1);
    for (int i = 0; i < PERMITS; i++)
        lk_child_kill(dies[i]);
    lk_give_unless_late(lk_locking_grant(&waiter));
    lk_close_locker(l);
    require_all_free(fixture, "dead");
}

static bool is_held(locker_handle *held)
{
    return locker_handle_state(held) != LOCKER_STATE_LOST;
}

static void permits_are_renewed_and_lapse(void **state)
{
    lk_fixture *const fixture = *state;
    needs_permits(fixture);
    needs(fixture->promises.leases);
    locker_lock_options one = lk_permit_options(PERMITS), brief = one;
    locker *a = lk_open_locker(fixture, ""), *b = lk_open_locker(fixture, "");
    one.ttl_ms = 1000;
    brief.ttl_ms = 500;
    brief.no_renew = true;
    locker_handle *kept = lk_take(a, "lapse", &one), *third = lk_take(a, "lapse", &one),
                  *lapses = lk_take(a, "lapse", &brief);
    const int32_t slot = locker_handle_slot(lapses);
    locker_handle *next = lk_take(b, "lapse", &one); /* waits for it */
    /* Renewals that are late free another permit, too. */
    (void)assert_unless_late(locker_handle_slot(next) == slot);
    assert_int_equal(locker_handle_state(lapses), LOCKER_STATE_LOST);
    lk_give_lost(lapses);
    (void)lk_readable(locker_handle_fd(kept), 1500);
    locker_handle *none = NULL;
    const locker_status tried = locker_try_lock(b, "lapse", &one, &none, NULL);
    if (assert_unless_late(is_held(kept) && is_held(third) &&
                           is_held(next))) /* at the time of the try, too */
        assert_int_equal(tried, LOCKER_BUSY);
    locker_handle_free(none);
    lk_give_unless_late(kept);
    lk_give_unless_late(third);
    lk_give_unless_late(next);
    lk_close_locker(b);
    lk_close_locker(a);
}

static void show_and_break_know_permits(void **state)
{
    lk_fixture *const fixture = *state;
    needs_permits(fixture);
    const locker_lock_options one = lk_permit_options(PERMITS);
    locker *a = lk_open_locker(fixture, ""), *b = lk_open_locker(fixture, "");
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    locker_handle *first = lk_take(a, "shown-permits", &one), *second = lk_take(b, "shown-permits", &one);
    assert_ok(locker_show(b, "shown-permits", &info, &err), err);
    assert_int_equal(info.permits, PERMITS);
    assert_int_equal(info.holders_len, 2);
    assert_int_equal(locker_info_holder(&info, 0)->slot, locker_handle_slot(first));
    assert_int_equal(locker_info_holder(&info, 1)->slot, locker_handle_slot(second));
    locker_info_clear(&info);
    if (fixture->promises.can_break) {
        only.token = locker_handle_token(first);
        assert_ok(locker_break(b, "shown-permits", &only, NULL, &err), err);
        lk_require_state(first, LOCKER_STATE_LOST);
        lk_give_lost(first);
        assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    } else {
        lk_give(first);
    }
    lk_give(second);
    assert_ok(locker_show(b, "shown-permits", &info, &err), err);
    assert_false(info.held);
    assert_int_equal(info.holders_len, 0);
    locker_info_clear(&info);
    lk_close_locker(b);
    lk_close_locker(a);
    require_all_free(fixture, "shown-permits");
}

/* Where the service knows who waits. */
static void show_tells_the_number_of_permits_of_a_waiter(void **state)
{
    needs_permits((lk_fixture *)*state);
    const locker_lock_options one = lk_permit_options(2);
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *const held[] = {lk_take(a, "awaited", &one), lk_take(a, "awaited", &one)};
    locker_lock_options wait = one;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_locking waiter;
    wait.wait_ms = LK_TEST_PATIENCE_MS;
    lk_locking_start(&waiter, b, "awaited", &wait);
    lk_require_waiting(b, 1);
    assert_ok(locker_show(a, "awaited", &info, &err), err);
    if (info.queue_len > 0) {
        assert_int_equal(locker_info_waiter(&info, 0)->permits, 2);
        assert_int_equal(locker_info_waiter(&info, 0)->mode, LOCKER_EXCLUSIVE);
    }
    locker_info_clear(&info);
    lk_give(held[0]);
    lk_give(lk_locking_grant(&waiter));
    lk_give(held[1]);
    lk_close_locker(b);
    lk_close_locker(a);
}

static void invalid_permit_options_are_refused(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = NULL;
    locker_error err;
    locker_lock_options options = lk_permit_options(-1);
    assert_status(LOCKER_INVALID, locker_lock(l, "nonsense", &options, &held, &err), err);
    options.permits = LOCKER_PERMITS_MAX + 1;
    assert_status(LOCKER_INVALID, locker_lock(l, "nonsense", &options, &held, &err), err);
    options.permits = 2;
    options.mode = LOCKER_SHARED;
    assert_status(LOCKER_INVALID, locker_lock(l, "nonsense", &options, &held, &err), err);
    options.permits = 0;
    options.mode = (locker_mode)7;
    assert_status(LOCKER_INVALID, locker_lock(l, "nonsense", &options, &held, &err), err);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(as_many_hold_as_there_are_permits),
    cmocka_unit_test(one_permit_is_a_lock),
    cmocka_unit_test(waiters_get_permits_in_order),
    cmocka_unit_test(waiters_of_many_lockers_enter_together),
    cmocka_unit_test(a_key_is_used_in_one_way_at_a_time),
    cmocka_unit_test(tries_get_no_more_than_there_are),
    cmocka_unit_test(waits_that_end_leave_all_permits),
    cmocka_unit_test(permits_of_the_dead_come_back),
    cmocka_unit_test(permits_are_renewed_and_lapse),
    cmocka_unit_test(show_and_break_know_permits),
    cmocka_unit_test(show_tells_the_number_of_permits_of_a_waiter),
    cmocka_unit_test(invalid_permit_options_are_refused),
};

const lk_group lk_permits = {"permits", tests, sizeof tests / sizeof tests[0]};
