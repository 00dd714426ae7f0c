/* shared.c: who shares a key with whom, in which order readers and writers are served, and riding. */
#include "kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { READERS = 4, RIDERS = 100 };

#define needs_shared(fixture) needs((fixture)->promises.shared != LOCKER_ORDER_NONE)

static void expect_busy(locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(l, key, options, &held, &err), err);
    assert_null(held);
}

static bool was_granted(void *context)
{
    return lk_stats(context).acquired > 0;
}

/* Who waits is not granted, for as long as one that goes past others would take. */
static void expect_still_waiting(locker *l)
{
    assert_false(lk_until(was_granted, l, 100));
}

static void readers_hold_together(void **state)
{
    needs_shared((lk_fixture *)*state);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *first = lk_take(a, "together", &share), *second = lk_take(b, "together", &share);
    const uint64_t last = locker_handle_token(second);
    assert_true(last > locker_handle_token(first) || last == 0);
    assert_int_equal(locker_handle_slot(first), -1);
    lk_expect_busy(a, "together");
    lk_expect_busy(b, "together");
    lk_give(first);
    lk_expect_busy(a, "together");
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    lk_give(second);
    locker_handle *alone = lk_take(a, "together", NULL);
    assert_true(locker_handle_token(alone) > last || last == 0);
    expect_busy(b, "together", &share);
    expect_busy(a, "together", &share);
    lk_give(alone);
    lk_give(lk_take(b, "together", &share));
    lk_close_locker(b);
    lk_close_locker(a);
}

static bool is_next(void *context)
{
    locker **const lockers = context;
    return lk_stats(lockers[0]).acquired + lk_stats(lockers[1]).acquired > 0;
}

/* kazoo#649: the reader and the second writer each waited for the other. */
static void a_reader_stands_between_two_writers(void **state)
{
    const locker_semantics *const promises = &((lk_fixture *)*state)->promises;
    needs_shared((lk_fixture *)*state);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, ""), *c = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "between", NULL);
    lk_locking reader, writer;
    lk_locking_start(&reader, b, "between", &share);
    lk_require_waiting(b, 1);
    lk_locking_start(&writer, c, "between", NULL);
    lk_require_waiting(c, 1);
    lk_give(held);
    lk_require(is_next, (locker *[]){b, c}, "the reader or the writer should be granted the lock");
    const bool reads = lk_stats(b).acquired > 0;
    assert_true(reads || promises->shared != LOCKER_ORDER_ARRIVAL);
    lk_give(lk_locking_grant(reads ? &reader : &writer));
    lk_give(lk_locking_grant(reads ? &writer : &reader));
    lk_close_locker(c);
    lk_close_locker(b);
    lk_close_locker(a);
}

static void readers_enter_together_and_not_past_a_writer(void **state)
{
    lk_fixture *const fixture = *state;
    needs(fixture->promises.shared == LOCKER_ORDER_ARRIVAL);
    const locker_lock_options share = lk_shared_options();
    locker *holder = lk_open_locker(fixture, ""), *writes = lk_open_locker(fixture, ""),
           *late = lk_open_locker(fixture, ""), *reads[READERS];
    locker_handle *held = lk_take(holder, "line", NULL), *readers[READERS];
    lk_locking reader[READERS], writer, last;
    for (int i = 0; i < READERS; i++) {
        reads[i] = lk_open_locker(fixture, "");
        lk_locking_start(&reader[i], reads[i], "line", &share);
        lk_require_waiting(reads[i], 1);
    }
    lk_locking_start(&writer, writes, "line", NULL);
    lk_require_waiting(writes, 1);
    lk_locking_start(&last, late, "line", &share);
    lk_require_waiting(late, 1);
    lk_give(held);
    for (int i = 0; i < READERS; i++) /* none of them waits for another to unlock */
        readers[i] = lk_locking_grant(&reader[i]);
    expect_still_waiting(late);
    for (int i = 0; i < READERS; i++)
        lk_give(readers[i]);
    held = lk_locking_grant(&writer);
    expect_still_waiting(late);
    lk_give(held);
    lk_give(lk_locking_grant(&last));
    for (int i = 0; i < READERS; i++)
        lk_close_locker(reads[i]);
    lk_close_locker(late);
    lk_close_locker(writes);
    lk_close_locker(holder);
}

static void a_reader_does_not_overtake_a_writer(void **state)
{
    lk_fixture *const fixture = *state;
    needs(fixture->promises.shared == LOCKER_ORDER_ARRIVAL);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(fixture, ""), *b = lk_open_locker(fixture, ""),
           *c = lk_open_locker(fixture, "");
    locker_handle *reader = lk_take(a, "overtaken", &share);
    lk_locking writer;
    lk_locking_start(&writer, b, "overtaken", NULL);
    lk_require_waiting(b, 1);
    expect_busy(c, "overtaken", &share);
    lk_give(reader);
    lk_give(lk_locking_grant(&writer));
    lk_close_locker(c);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* Of the same locker: a try that rides would go past it. */
static void a_reader_does_not_ride_past_a_writer_of_its_locker(void **state)
{
    needs_shared((lk_fixture *)*state);
    const locker_lock_options share = lk_shared_options();
    locker *l = lk_open_locker(*state, "");
    locker_handle *reader = lk_take(l, "ridden", &share);
    lk_locking writer;
    lk_locking_start(&writer, l, "ridden", NULL);
    lk_require_waiting(l, 1);
    expect_busy(l, "ridden", &share);
    lk_give(reader);
    lk_give(lk_locking_grant(&writer));
    lk_close_locker(l);
}

static void a_writer_that_gives_up_lets_readers_pass(void **state)
{
    needs_shared((lk_fixture *)*state);
    const locker_lock_options share = lk_shared_options(), brief = lk_wait_options(200);
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, ""), *c = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "gives-up", &share);
    lk_locking writer, reader;
    lk_locking_start(&writer, b, "gives-up", &brief);
    lk_locking_start(&reader, c, "gives-up", &share);
    assert_status(LOCKER_TIMEOUT, lk_locking_join(&writer), writer.err);
    lk_give(lk_locking_grant(&reader));
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(c);
    lk_close_locker(b);
    lk_close_locker(a);
}

static void a_canceled_reader_leaves_nothing(void **state)
{
    needs_shared((lk_fixture *)*state);
    locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "canceled", NULL);
    lk_locking reader;
    share.cancel = locker_cancel_new();
    assert_non_null(share.cancel);
    lk_locking_start(&reader, b, "canceled", &share);
    lk_require_waiting(b, 1);
    locker_cancel_fire(share.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&reader), reader.err);
    lk_give(held);
    lk_give(lk_take(a, "canceled", NULL));
    locker_cancel_free(share.cancel);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* A thousand would do; a hundred threads are enough to see it. */
static void readers_of_one_locker_ride_on_one_grant(void **state)
{
    needs_shared((lk_fixture *)*state);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(a, "rides", NULL), *readers[RIDERS];
    static lk_locking reader[RIDERS];
    for (int i = 0; i < RIDERS; i++)
        lk_locking_start(&reader[i], l, "rides", &share);
    lk_require_waiting(l, RIDERS);
    lk_give(held);
    for (int i = 0; i < RIDERS; i++) {
        readers[i] = lk_locking_grant(&reader[i]);
        assert_true(locker_handle_token(readers[i]) == locker_handle_token(readers[0]));
    }
    assert_int_equal(lk_stats(l).acquired, 1);
    assert_int_equal(lk_stats(l).rode, RIDERS - 1);
    assert_int_equal(lk_stats(l).held, 1);
    for (int i = 0; i < RIDERS; i++) {
        lk_expect_busy(a, "rides");
        lk_give(readers[i]);
    }
    lk_give(lk_take(a, "rides", NULL));
    lk_close_locker(l);
    lk_close_locker(a);
}

static void a_reader_with_another_lease_does_not_ride(void **state)
{
    needs_shared((lk_fixture *)*state);
    locker_lock_options share = lk_shared_options();
    locker *l = lk_open_locker(*state, "");
    locker_handle *first = lk_take(l, "another-lease", &share);
    share.label = "another";
    locker_handle *second = lk_take(l, "another-lease", &share);
    assert_int_equal(lk_stats(l).rode, 0);
    assert_int_equal(lk_stats(l).held, 2);
    assert_string_equal(locker_handle_owner(second), "another");
    lk_give(first);
    lk_expect_busy(l, "another-lease");
    lk_give(second);
    lk_close_locker(l);
}

/* redisson#891: the reader's unlock deleted the writer's lock. */
static void an_owner_does_not_upgrade_and_may_read_what_it_writes(void **state)
{
    needs_shared((lk_fixture *)*state);
    locker_lock_options share = lk_shared_options(), alone = LOCKER_LOCK_OPTIONS_INIT;
    locker *l = lk_open_locker(*state, "");
    locker_handle *second = NULL;
    locker_error err;
    share.owner = alone.owner = "task";
    locker_handle *first = lk_take(l, "upgrade", &share);
    assert_status(LOCKER_INVALID, locker_lock(l, "upgrade", &alone, &second, &err), err);
    assert_null(second);
    lk_give(first);
    first = lk_take(l, "upgrade", &alone);
    second = lk_take(l, "upgrade", &share);
    assert_true(locker_handle_token(first) == locker_handle_token(second));
    lk_give(second);
    lk_expect_busy(l, "upgrade");
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_HELD);
    lk_give(first);
    lk_close_locker(l);
}

static void show_tells_holders_and_modes(void **state)
{
    needs_shared((lk_fixture *)*state);
    locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, ""), *c = lk_open_locker(*state, "");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_locking writer;
    share.label = "first";
    locker_handle *first = lk_take(a, "shown", &share);
    share.label = "second";
    locker_handle *second = lk_take(b, "shown", &share);
    lk_locking_start(&writer, c, "shown", NULL);
    lk_require_waiting(c, 1);
    lk_require_owner(a, "shown", "first");
    assert_ok(locker_show(a, "shown", &info, &err), err);
    assert_true(info.held);
    assert_int_equal(info.mode, LOCKER_SHARED);
    assert_int_equal(info.permits, 0);
    assert_int_equal(info.holders_len, 2);
    assert_string_equal(info.owner, "first");
    assert_string_equal(locker_info_holder(&info, 0)->owner, "first");
    assert_string_equal(locker_info_holder(&info, 1)->owner, "second");
    assert_true(locker_info_holder(&info, 1)->token == locker_handle_token(second));
    assert_int_equal(locker_info_holder(&info, 0)->slot, -1);
    assert_true(locker_info_holder(&info, 0)->since_unix_ms > 0);
    if (info.queue_len > 0)
        assert_int_equal(locker_info_waiter(&info, 0)->mode, LOCKER_EXCLUSIVE);
    locker_info_clear(&info);
    lk_give(first);
    lk_give(second);
    lk_give(lk_locking_grant(&writer));
    assert_ok(locker_show(a, "shown", &info, &err), err);
    assert_false(info.held);
    assert_int_equal(info.holders_len, 0);
    locker_info_clear(&info);
    lk_close_locker(c);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* Where the service knows who waits. */
static void show_tells_that_one_waits_to_share(void **state)
{
    needs_shared((lk_fixture *)*state);
    locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *const held = lk_take(a, "awaited", NULL);
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_locking reader;
    share.wait_ms = LK_TEST_PATIENCE_MS;
    lk_locking_start(&reader, b, "awaited", &share);
    lk_require_waiting(b, 1);
    assert_ok(locker_show(a, "awaited", &info, &err), err);
    if (info.queue_len > 0) {
        assert_int_equal(locker_info_waiter(&info, 0)->mode, LOCKER_SHARED);
        assert_int_equal(locker_info_waiter(&info, 0)->permits, 0);
    }
    locker_info_clear(&info);
    lk_give(held);
    lk_give(lk_locking_grant(&reader));
    lk_close_locker(b);
    lk_close_locker(a);
}

static void break_ends_one_holder_of_several_or_all(void **state)
{
    lk_fixture *const fixture = *state;
    needs_shared(fixture);
    needs(fixture->promises.can_break);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(fixture, ""), *b = lk_open_locker(fixture, ""),
           *op = lk_open_locker(fixture, "");
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_info broken = LOCKER_INFO_INIT;
    locker_error err;
    locker_handle *first = lk_take(a, "broken", &share), *second = lk_take(b, "broken", &share);
    only.token = locker_handle_token(second) + 1000;
    assert_status(LOCKER_BUSY, locker_break(op, "broken", &only, &broken, &err), err);
    locker_info_clear(&broken);
    only.token = locker_handle_token(first);
    assert_ok(locker_break(op, "broken", &only, &broken, &err), err);
    assert_true(broken.token == only.token);
    locker_info_clear(&broken);
    lk_require_state(first, LOCKER_STATE_LOST);
    lk_give_lost(first);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    lk_expect_busy(op, "broken");
    first = lk_take(a, "broken", &share);
    assert_ok(locker_break(op, "broken", NULL, NULL, &err), err);
    lk_require_state(first, LOCKER_STATE_LOST);
    lk_require_state(second, LOCKER_STATE_LOST);
    lk_give_lost(first);
    lk_give_lost(second);
    lk_give(lk_take(op, "broken", NULL));
    lk_close_locker(op);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* redisson#1604: read locks were not renewed. */
static void shared_leases_are_renewed(void **state)
{
    lk_fixture *const fixture = *state;
    needs_shared(fixture);
    needs(fixture->promises.leases);
    locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(fixture, ""), *b = lk_open_locker(fixture, ""),
           *c = lk_open_locker(fixture, "");
    share.ttl_ms = 1500;
    locker_handle *first = lk_take(a, "renewed", &share), *second = lk_take(b, "renewed", &share);
    const int64_t until = lk_test_now_ms() + 2 * share.ttl_ms;
    bool are_held = true;
    while (are_held && lk_test_now_ms() < until) {
        locker_handle *none = NULL;
        const locker_status tried = locker_try_lock(c, "renewed", NULL, &none, NULL);
        are_held = assert_unless_late(locker_handle_state(first) != LOCKER_STATE_LOST &&
                                      locker_handle_state(second) != LOCKER_STATE_LOST);
        if (are_held) /* at the time of the try, too */
            assert_int_equal(tried, LOCKER_BUSY);
        locker_handle_free(none);
        (void)lk_readable(locker_handle_fd(first), 50);
    }
    lk_give_unless_late(first);
    lk_give_unless_late(second);
    lk_close_locker(c);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* redisson#7098: a dead reader shut writers out as long as others read. */
static void a_dead_reader_is_forgotten_while_another_reads(void **state)
{
    lk_fixture *const fixture = *state;
    needs_shared(fixture);
    needs_processes(fixture);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(fixture, "ttl=1s"), *b = lk_open_locker(fixture, "ttl=1s");
    locker_handle *reader = lk_take(a, "dead-reader", &share);
    lk_child *dies = lk_start_puppet(fixture, "ttl=1s");
    assert_int_equal(lk_puppet_take(dies, "dead-reader", &share), LOCKER_OK);
    lk_locking writer;
    lk_locking_start(&writer, b, "dead-reader", NULL);
    lk_require_waiting(b, 1);
    lk_child_kill(dies);
    lk_give_unless_late(reader);
    lk_give_unless_late(lk_locking_grant(&writer));
    lk_close_locker(b);
    lk_close_locker(a);
}

static void a_dead_writer_lets_readers_in(void **state)
{
    lk_fixture *const fixture = *state;
    needs_shared(fixture);
    needs_processes(fixture);
    const locker_lock_options share = lk_shared_options(), alone = LOCKER_LOCK_OPTIONS_INIT;
    locker *a = lk_open_locker(fixture, "ttl=1s"), *b = lk_open_locker(fixture, "ttl=1s");
    lk_child *dies = lk_start_puppet(fixture, "ttl=1s");
    assert_int_equal(lk_puppet_take(dies, "dead-writer", &alone), LOCKER_OK);
    lk_locking first, second;
    lk_locking_start(&first, a, "dead-writer", &share);
    lk_locking_start(&second, b, "dead-writer", &share);
    lk_require_waiting(a, 1);
    lk_require_waiting(b, 1);
    lk_child_kill(dies);
    locker_handle *readers[] = {lk_locking_grant(&first), lk_locking_grant(&second)};
    lk_give_unless_late(readers[0]);
    lk_give_unless_late(readers[1]);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* Threads that read without a pause, so that the key is never free of readers by itself. */
struct readers {
    locker *l;
    atomic_bool *ends;
    pthread_t thread;
};

static void *read_on(void *argument)
{
    struct readers *self = argument;
    const locker_lock_options share = lk_shared_options();
    while (!atomic_load(self->ends)) {
        locker_handle *held = NULL;
        if (locker_lock(self->l, "starved", &share, &held, NULL) == LOCKER_OK)
            (void)lk_readable(locker_handle_fd(held), 5);
        locker_handle_free(held);
    }
    return NULL;
}

static void readers_do_not_starve_a_writer(void **state)
{
    needs_shared((lk_fixture *)*state);
    static atomic_bool ends;
    struct readers readers[2 * READERS];
    locker *l[READERS], *writes = lk_open_locker(*state, "");
    atomic_store(&ends, false);
    for (int i = 0; i < READERS; i++)
        l[i] = lk_open_locker(*state, "");
    for (int i = 0; i < 2 * READERS; i++) {
        readers[i] = (struct readers){.l = l[i / 2], .ends = &ends};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    for (int i = 0; i < 10; i++) {
        locker_handle *held = NULL;
        locker_error err;
        const locker_lock_options patient = lk_wait_options(LK_TEST_PATIENCE_MS);
        const locker_status status = locker_lock(writes, "starved", &patient, &held, &err);
        if (status != LOCKER_OK)
            atomic_store(&ends, true);
        assert_status(LOCKER_OK, status, err);
        lk_give(held);
    }
    atomic_store(&ends, true);
    for (int i = 0; i < 2 * READERS; i++)
        lk_join(readers[i].thread, "a reader");
    for (int i = 0; i < READERS; i++)
        lk_close_locker(l[i]);
    lk_close_locker(writes);
}

static void closing_frees_what_was_shared(void **state)
{
    needs_shared((lk_fixture *)*state);
    const locker_lock_options share = lk_shared_options();
    locker *a = lk_open_locker(*state, ""), *b = lk_open_locker(*state, "");
    locker_handle *first = lk_take(a, "closed-shared", &share), *second = lk_take(a, "closed-shared", &share);
    lk_close_locker(a);
    lk_give(lk_take(b, "closed-shared", NULL));
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_UNLOCKED);
    locker_handle_free(first);
    locker_handle_free(second);
    lk_close_locker(b);
}

/* A reader that reads once more while a writer waits between the two waits for itself. */
static void a_reader_within_a_reader_times_out_behind_a_writer(void **state)
{
    needs_shared((lk_fixture *)*state);
    locker *l = lk_open_locker(*state, "");
    locker_lock_options share = lk_shared_options();
    locker_handle *outer, *none;
    lk_locking writer;
    locker_error err;
    assert_ok(locker_lock(l, "nested", &share, &outer, &err), err);
    lk_locking_start(&writer, l, "nested", NULL);
    lk_require_waiting(l, 1);
    share.wait_ms = 100;
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "nested", &share, &none, &err), err);
    assert_non_null(strstr(err.text, "this locker itself"));
    lk_give(outer);
    lk_give(lk_locking_grant(&writer));
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(readers_hold_together),
    cmocka_unit_test(a_reader_stands_between_two_writers),
    cmocka_unit_test(readers_enter_together_and_not_past_a_writer),
    cmocka_unit_test(a_reader_does_not_overtake_a_writer),
    cmocka_unit_test(a_reader_does_not_ride_past_a_writer_of_its_locker),
    cmocka_unit_test(a_writer_that_gives_up_lets_readers_pass),
    cmocka_unit_test(a_canceled_reader_leaves_nothing),
    cmocka_unit_test(readers_of_one_locker_ride_on_one_grant),
    cmocka_unit_test(a_reader_with_another_lease_does_not_ride),
    cmocka_unit_test(an_owner_does_not_upgrade_and_may_read_what_it_writes),
    cmocka_unit_test(show_tells_holders_and_modes),
    cmocka_unit_test(show_tells_that_one_waits_to_share),
    cmocka_unit_test(break_ends_one_holder_of_several_or_all),
    cmocka_unit_test(shared_leases_are_renewed),
    cmocka_unit_test(a_dead_reader_is_forgotten_while_another_reads),
    cmocka_unit_test(a_dead_writer_lets_readers_in),
    cmocka_unit_test(readers_do_not_starve_a_writer),
    cmocka_unit_test(closing_frees_what_was_shared),
    cmocka_unit_test(a_reader_within_a_reader_times_out_behind_a_writer),
};

const lk_group lk_shared = {"shared", tests, sizeof tests / sizeof tests[0]};
