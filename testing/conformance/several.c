/* several.c: several keys by one call and one handle. */
#include "kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { TEN = 10, ROUNDS = 60 };

static const char *const ten[TEN] = {"s/0", "s/1", "s/2", "s/3", "s/4", "s/5", "s/6", "s/7", "s/8", "s/9"};

static locker_handle *take_all(locker *l, const char *const *keys, size_t n)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock_all(l, keys, n, NULL, &held, &err), err);
    assert_non_null(held);
    return held;
}

static void all_are_held_by_one_handle(void **state)
{
    static const char *const keys[] = {"s/b", "s/a", "s/c", "s/a"};
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held = take_all(a, keys, 4);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_int_equal(locker_handle_count(held), 3);
    assert_string_equal(locker_handle_key_at(held, 0), "s/a");
    assert_string_equal(locker_handle_key_at(held, 1), "s/b");
    assert_string_equal(locker_handle_key_at(held, 2), "s/c");
    assert_null(locker_handle_key_at(held, 3));
    assert_string_equal(locker_handle_key(held), "s/a");
    assert_true(locker_handle_token(held) == locker_handle_token_at(held, 0));
    assert_true(locker_handle_token_at(held, 3) == 0);
    const uint64_t before = locker_handle_token_at(held, 2);
    for (int i = 0; i < 3; i++)
        lk_expect_busy(b, keys[i]);
    locker_error err;
    assert_ok(locker_unlock(held, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_UNLOCKED);
    assert_status(LOCKER_INVALID, locker_unlock(held, &err), err);
    locker_handle_free(held);
    for (int i = 0; i < 3; i++)
        lk_give(lk_take(b, keys[i], NULL));
    held = take_all(b, keys, 4);
    assert_true(locker_handle_token_at(held, 2) > before || before == 0);
    locker_handle_free(held); /* unlocks */
    lk_give(lk_take(a, "s/c", NULL));
    lk_close_locker(b);
    lk_close_locker(a);
}

static void all_or_none(void **state)
{
    static const char *const keys[] = {"s/a", "s/b", "s/c"};
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_lock_options options = lk_wait_options(0);
    locker_handle *held = lk_take(a, "s/b", NULL), *all = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_lock_all(b, keys, 3, &options, &all, &err), err);
    assert_null(all);
    assert_non_null(strstr(err.text, "s/b"));
    options.wait_ms = 100;
    assert_status(LOCKER_TIMEOUT, locker_lock_all(b, keys, 3, &options, &all, &err), err);
    assert_null(all);
    lk_give(lk_take(a, "s/a", NULL));
    lk_give(lk_take(a, "s/c", NULL));
    lk_give(held);
    lk_give(take_all(b, keys, 3));
    lk_close_locker(b);
    lk_close_locker(a);
}

struct taker {
    locker *l;
    bool backwards;
    atomic_int *inside, *failed;
    atomic_uint *done;
    pthread_t thread;
};

static void *take_ten(void *argument)
{
    struct taker *self = argument;
    const char *keys[TEN];
    for (int i = 0; i < TEN; i++)
        keys[i] = ten[self->backwards ? TEN - 1 - i : i];
    for (int i = 0; i < ROUNDS; i++) {
        locker_handle *held = NULL;
        if (locker_lock_all(self->l, keys, TEN, NULL, &held, NULL) != LOCKER_OK ||
            atomic_fetch_add(self->inside, 1) != 0)
            atomic_fetch_add(self->failed, 1);
        atomic_fetch_sub(self->inside, 1);
        if (held != NULL && locker_unlock(held, NULL) != LOCKER_OK)
            atomic_fetch_add(self->failed, 1);
        locker_handle_free(held);
        atomic_fetch_add(self->done, 1);
    }
    return NULL;
}

static void opposite_orders_do_not_deadlock(void **state)
{
    static atomic_int inside, failed;
    static atomic_uint done;
    static struct taker takers[4];
    locker *l[] = {lk_open_locker(*state, ""), lk_open_locker(*state, "")};
    atomic_store(&inside, 0);
    atomic_store(&failed, 0);
    atomic_store(&done, 0);
    for (int i = 0; i < 4; i++) {
        takers[i] = (struct taker){l[i / 2], i % 2 != 0, &inside, &failed, &done, 0};
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_ten, &takers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        lk_join_worker(takers[i].thread, &done, "four threads that take ten keys");
    assert_int_equal(atomic_load(&failed), 0);
    lk_close_locker(l[0]);
    lk_close_locker(l[1]);
}

static atomic_int losses;

static void count_loss(locker_handle *lost, void *user)
{
    (void)user;
    if (locker_handle_state(lost) == LOCKER_STATE_LOST)
        atomic_fetch_add(&losses, 1);
}

static void free_lost(locker_handle *lost, void *user)
{
    (void)user;
    locker_handle_free(lost);
    atomic_fetch_add(&losses, 1);
}

static bool was_told(void *context)
{
    (void)context;
    return atomic_load(&losses) > 0;
}

static void losing_one_is_losing_all(void **state)
{
    lk_fixture *const fixture = *state;
    static const char *const keys[] = {"s/a", "s/b", "s/c"};
    needs(fixture->promises.can_break);
    locker *l = lk_open_locker(fixture, ""), *other = lk_open_locker(fixture, "");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held = NULL;
    locker_error err;
    options.on_lost = count_loss;
    atomic_store(&losses, 0);
    assert_ok(locker_lock_all(l, keys, 3, &options, &held, &err), err);
    const int fd = locker_handle_fd(held);
    assert_true(fd >= 0);
    assert_false(lk_readable(fd, 0));
    assert_ok(locker_break(other, "s/b", NULL, NULL, &err), err);
    lk_require_state(held, LOCKER_STATE_LOST);
    assert_true(lk_readable(fd, LK_TEST_PATIENCE_MS));
    lk_require(was_told, NULL, "on_lost should be called");
    assert_int_equal(locker_handle_remaining_ms(held), 0);
    lk_expect_busy(other, "s/a");
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    locker_handle_free(held);
    assert_int_equal(atomic_load(&losses), 1);
    lk_give(take_all(other, keys, 3));
    lk_close_locker(other);
    lk_close_locker(l);
}

static void a_handle_of_several_can_be_freed_in_its_callback(void **state)
{
    lk_fixture *const fixture = *state;
    static const char *const keys[] = {"s/a", "s/b"};
    needs(fixture->promises.can_break);
    locker *l = lk_open_locker(fixture, ""), *other = lk_open_locker(fixture, "");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held = NULL;
    locker_error err;
    options.on_lost = free_lost;
    atomic_store(&losses, 0);
    assert_ok(locker_lock_all(l, keys, 2, &options, &held, &err), err);
    assert_ok(locker_break(other, "s/a", NULL, NULL, &err), err);
    lk_require(was_told, NULL, "on_lost should be called");
    lk_give(take_all(other, keys, 2)); /* the other was released in the background */
    lk_close_locker(other);
    lk_close_locker(l);
}

struct taking {
    locker *l;
    locker_lock_options options;
    locker_status status;
    locker_handle *held;
};

static void *take_three(void *argument)
{
    static const char *const keys[] = {"s/a", "s/b", "s/c"};
    struct taking *self = argument;
    self->status = locker_lock_all(self->l, keys, 3, &self->options, &self->held, NULL);
    return NULL;
}

static void a_wait_for_several_that_ends_leaves_nothing(void **state)
{
    static struct taking taking;
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "s/b", NULL);
    pthread_t thread;
    taking = (struct taking){.l = b, .options = LOCKER_LOCK_OPTIONS_INIT};
    taking.options.cancel = locker_cancel_new();
    assert_non_null(taking.options.cancel);
    assert_int_equal(pthread_create(&thread, NULL, take_three, &taking), 0);
    lk_require_waiting(b, 1);
    locker_cancel_fire(taking.options.cancel);
    lk_join(thread, "a thread that takes three keys");
    assert_int_equal(taking.status, LOCKER_CANCELED);
    locker_cancel_free(taking.options.cancel);
    lk_give(lk_take(a, "s/a", NULL));
    taking = (struct taking){.l = b, .options = LOCKER_LOCK_OPTIONS_INIT};
    assert_int_equal(pthread_create(&thread, NULL, take_three, &taking), 0);
    lk_require_waiting(b, 1);
    lk_close_locker(b);
    lk_join(thread, "a thread that takes three keys");
    assert_int_equal(taking.status, LOCKER_CLOSED);
    lk_give(lk_take(a, "s/a", NULL));
    lk_give(held);
    lk_close_locker(a);
}

/* All keys of both calls, as with one key: whichever has them first. */
static void calls_of_one_owner_have_several_together(void **state)
{
    static struct taking taking[2];
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "s/b", NULL);
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        taking[i] = (struct taking){.l = b, .options = LOCKER_LOCK_OPTIONS_INIT};
        taking[i].options.owner = "ann";
        assert_int_equal(pthread_create(&thread[i], NULL, take_three, &taking[i]), 0);
        lk_require_waiting(b, (uint64_t)i + 1);
    }
    lk_give(held);
    for (int i = 0; i < 2; i++) {
        lk_join(thread[i], "a thread that takes three keys");
        assert_int_equal(taking[i].status, LOCKER_OK);
    }
    lk_give(taking[0].held);
    lk_expect_busy(a, "s/a");
    assert_int_equal(locker_handle_state(taking[1].held), LOCKER_STATE_HELD);
    lk_give(taking[1].held);
    lk_give(take_all(a, ten, TEN));
    lk_close_locker(b);
    lk_close_locker(a);
}

static bool has_lost(void *context)
{
    return lk_stats(context).lost > 0;
}

/* Whoever has the first and waits for the next may lose it meanwhile. */
static void a_key_lost_while_the_call_waits_for_others_is_locked_again(void **state)
{
    lk_fixture *const fixture = *state;
    static struct taking taking;
    needs(fixture->promises.can_break);
    locker *a = lk_open_locker(fixture, ""), *b = lk_open_locker(fixture, "ttl=2s");
    locker_handle *held = lk_take(a, "s/b", NULL);
    locker_error err;
    pthread_t thread;
    taking = (struct taking){.l = b, .options = LOCKER_LOCK_OPTIONS_INIT};
    assert_int_equal(pthread_create(&thread, NULL, take_three, &taking), 0);
    lk_require_waiting(b, 1);
    assert_ok(locker_break(a, "s/a", NULL, NULL, &err), err);
    locker_handle *first = lk_take(a, "s/a", NULL);
    const uint64_t token = locker_handle_token(first);
    lk_give(first);
    lk_require(has_lost, b, "the loss of the first key should be reported");
    lk_give(held);
    lk_join(thread, "a thread that takes three keys");
    assert_int_equal(taking.status, LOCKER_OK);
    assert_true(locker_handle_token(taking.held) > token || token == 0);
    locker_handle_free(taking.held);
    lk_close_locker(b);
    lk_close_locker(a);
}

static void closing_frees_several(void **state)
{
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held = take_all(a, ten, TEN);
    locker_error err;
    lk_close_locker(a);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_UNLOCKED);
    assert_status(LOCKER_CLOSED, locker_unlock(held, &err), err);
    locker_handle_free(held);
    lk_give(take_all(b, ten, TEN));
    lk_close_locker(b);
}

static void too_few_and_too_many_are_refused(void **state)
{
    const char *keys[LOCKER_KEYS_MAX + 1];
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = NULL;
    locker_error err;
    for (int i = 0; i <= LOCKER_KEYS_MAX; i++)
        keys[i] = "s/same";
    assert_status(LOCKER_INVALID, locker_lock_all(l, keys, 0, NULL, &held, &err), err);
    assert_status(LOCKER_INVALID, locker_lock_all(l, keys, LOCKER_KEYS_MAX + 1, NULL, &held, &err), err);
    assert_ok(locker_lock_all(l, keys, LOCKER_KEYS_MAX, NULL, &held, &err), err);
    assert_int_equal(locker_handle_count(held), 1);
    lk_give(held);
    keys[3] = "";
    assert_status(LOCKER_INVALID, locker_lock_all(l, keys, 4, NULL, &held, &err), err);
    lk_give(lk_take(l, "s/same", NULL));
    lk_close_locker(l);
}

static void several_can_be_shared(void **state)
{
    needs(((lk_fixture *)*state)->promises.shared != LOCKER_ORDER_NONE);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *first = NULL, *second = NULL;
    locker_error err;
    assert_ok(locker_lock_all(a, ten, TEN, &share, &first, &err), err);
    assert_ok(locker_lock_all(b, ten, TEN, &share, &second, &err), err);
    lk_expect_busy(a, ten[9]);
    lk_give(first);
    lk_give(second);
    lk_give(take_all(a, ten, TEN));
    lk_close_locker(b);
    lk_close_locker(a);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_are_held_by_one_handle),
    cmocka_unit_test(all_or_none),
    cmocka_unit_test(opposite_orders_do_not_deadlock),
    cmocka_unit_test(losing_one_is_losing_all),
    cmocka_unit_test(a_handle_of_several_can_be_freed_in_its_callback),
    cmocka_unit_test(a_wait_for_several_that_ends_leaves_nothing),
    cmocka_unit_test(a_key_lost_while_the_call_waits_for_others_is_locked_again),
    cmocka_unit_test(calls_of_one_owner_have_several_together),
    cmocka_unit_test(closing_frees_several),
    cmocka_unit_test(too_few_and_too_many_are_refused),
    cmocka_unit_test(several_can_be_shared),
};

const lk_group lk_several = {"several", tests, sizeof tests / sizeof tests[0]};
