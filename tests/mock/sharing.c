/* sharing.c: what several hold of the mock, by a clock that is moved by hand: readers and permits whose host is cut off or whose
 * session ends, releases that don't arrive, foreign readers, losses, and riding. The kit tests the rest (conform.c). */
#include <stdio.h>
#include <string.h>

#include "holding.h"
#include "locking.h"
#include "mocking.h"

enum { KINDS = 3 };

static const locker_lock_options share = {.size = sizeof share, .wait_ms = -1, .mode = LOCKER_SHARED};
static const locker_lock_options one_of_two = {.size = sizeof one_of_two, .wait_ms = -1, .permits = 2};

static const locker_mock_options like_redis = LOCKER_MOCK_OPTIONS_INIT;
static const locker_mock_options like_zookeeper = {
    .size = sizeof like_zookeeper, .leases = LOCKER_MOCK_LEASES_SESSION, .queue = true};
static const locker_mock_options by_luck = {.size = sizeof by_luck, .seed = 3};

static locker_handle *take(locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock(l, key, options, &held, &err), err);
    return held;
}

static void expect_busy(locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(l, key, options, &held, &err), err);
}

static size_t holders(locker_mock *mock, const char *key)
{
    size_t n = 0;
    while (locker_mock_holder_at(mock, key, n, NULL, NULL, NULL))
        n++;
    return n;
}

static void test_what_it_promises(void **state)
{
    const locker_mock_options *const kinds[KINDS] = {&like_redis, &like_zookeeper, &by_luck};
    const locker_order orders[KINDS] = {LOCKER_ORDER_LOCAL, LOCKER_ORDER_ARRIVAL, LOCKER_ORDER_LOCAL};
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        locker *l;
        locker_mock *mock = lk_mock_begin(kinds[i], &l);
        assert_int_equal(locker_get_semantics(l)->shared, orders[i]);
        assert_int_equal(locker_get_semantics(l)->permits_most, LOCKER_PERMITS_MAX);
        lk_mock_end(mock, l);
    }
}

/* Of two readers one is cut off; the writer waits for the other, and for the end of the one's lease. */
static void test_a_dead_reader_is_waited_for_until_its_lease_ends(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&like_redis, &a);
    locker *b = lk_mock_host(mock, "b"), *c = lk_mock_host(mock, "c");
    locker_handle *dead = take(a, "k", &share), *lives = take(b, "k", &share);
    lk_locking writer;
    (void)state;
    locker_mock_disconnect(mock, a);
    lk_locking_start(&writer, c, "k", NULL);
    lk_mock_await(mock, "k", 1);
    locker_handle_free(lives);
    lk_mock_advance_by(mock, 29999);
    assert_int_equal(holders(mock, "k"), 1);
    lk_mock_await(mock, "k", 1);
    lk_mock_advance_by(mock, 1);
    assert_int_equal(locker_handle_state(dead), LOCKER_STATE_LOST);
    locker_handle_free(lk_locking_grant(&writer));
    locker_mock_reconnect(mock, NULL);
    locker_handle_free(dead);
    lk_close_locker(b);
    lk_close_locker(c);
    lk_mock_end(mock, a);
}

/* The end of the dead one's lease changes nothing for a reader that renews its own. */
static void test_a_reader_outlives_another(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&like_redis, &a);
    locker *b = lk_mock_host(mock, "b");
    locker_handle *dead = take(a, "k", &share), *lives = take(b, "k", &share);
    (void)state;
    locker_mock_disconnect(mock, a);
    lk_mock_advance_by(mock, 100000);
    assert_int_equal(locker_handle_state(dead), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(lives), LOCKER_STATE_HELD);
    assert_int_equal(holders(mock, "k"), 1);
    locker_mock_reconnect(mock, NULL);
    locker_handle_free(dead);
    locker_handle_free(lives);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

static void test_the_permit_of_a_dead_holder_comes_back(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&like_redis, &a);
    locker *b = lk_mock_host(mock, "b");
    locker_handle *dead = take(a, "k", &one_of_two), *lives = take(b, "k", &one_of_two);
    lk_locking waiter;
    int32_t slot = -1;
    (void)state;
    assert_int_equal(locker_handle_slot(lives), 1);
    locker_mock_disconnect(mock, a);
    lk_locking_start(&waiter, b, "k", &one_of_two);
    lk_mock_await(mock, "k", 1);
    lk_mock_advance_by(mock, 30000);
    locker_handle *next = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_slot(next), 0);
    assert_true(locker_mock_holder_at(mock, "k", 0, NULL, NULL, &slot));
    assert_int_equal(slot, 1); /* by token: who lives came before */
    expect_busy(b, "k", &one_of_two);
    locker_mock_reconnect(mock, NULL);
    locker_handle_free(dead);
    locker_handle_free(next);
    locker_handle_free(lives);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

static void test_a_release_that_does_not_arrive_is_repeated(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&like_redis, &a);
    locker *b = lk_mock_host(mock, "b");
    locker_handle *first = take(a, "k", &share), *second = take(b, "k", &share);
    lk_locking writer;
    locker_error err;
    (void)state;
    lk_mock_faults(mock, "release lose-request");
    lk_locking_start(&writer, b, "k", NULL);
    lk_mock_await(mock, "k", 1);
    assert_status(LOCKER_UNKNOWN, locker_unlock(first, &err), err);
    locker_handle_free(second);
    locker_handle_free(lk_locking_grant(&writer));
    locker_handle_free(first);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

static void test_a_session_ends_with_all_that_it_shared(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&like_zookeeper, &a);
    locker *b = lk_mock_host(mock, "b");
    locker_handle *read = take(a, "read", &share), *other = take(b, "read", &share),
                  *permit = take(a, "permits", &one_of_two);
    locker_mock_lose_all(mock, a);
    (void)state;
    lk_mock_advance_by(mock, 0);
    assert_int_equal(locker_handle_state(read), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(permit), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(other), LOCKER_STATE_HELD);
    assert_int_equal(holders(mock, "read"), 1);
    assert_int_equal(holders(mock, "permits"), 0);
    locker_handle_free(read);
    locker_handle_free(permit);
    locker_handle_free(other);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

/* A writer that is cut off stands in no queue but a session's, so who comes behind it is not kept waiting. */
static void test_a_writer_that_is_cut_off_blocks_no_reader(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&like_redis, &a);
    locker *b = lk_mock_host(mock, "b"), *c = lk_mock_host(mock, "c");
    locker_handle *held = take(a, "k", &share);
    lk_locking writer, reader;
    (void)state;
    lk_locking_start(&writer, b, "k", NULL);
    lk_mock_await(mock, "k", 1);
    lk_locking_start(&reader, c, "k", &share);
    lk_mock_await(mock, "k", 2);
    locker_mock_disconnect(mock, b);
    locker_handle_free(lk_locking_grant(&reader));
    locker_mock_reconnect(mock, b);
    locker_handle_free(held);
    locker_handle_free(lk_locking_grant(&writer));
    lk_close_locker(b);
    lk_close_locker(c);
    lk_mock_end(mock, a);
}

/* Readers come without a pause, and luck decides: none enters once a writer waits. */
static void test_luck_starves_no_writer(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&by_luck, &a);
    locker *b = lk_mock_host(mock, "b"), *c = lk_mock_host(mock, "c");
    locker_handle *held = take(a, "k", &share);
    lk_locking writer;
    (void)state;
    lk_locking_start(&writer, b, "k", NULL);
    lk_mock_await(mock, "k", 1);
    expect_busy(c, "k", &share);
    assert_int_equal(locker_mock_take_as(mock, "k", "stranger", LOCKER_SHARED, 0, 0, NULL), LOCKER_BUSY);
    locker_handle_free(held);
    locker_handle_free(lk_locking_grant(&writer));
    lk_close_locker(b);
    lk_close_locker(c);
    lk_mock_end(mock, a);
}

static void test_foreign_clients_share(void **state)
{
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    uint64_t first, second;
    char owner[LOCKER_OWNER_MAX + 1];
    (void)state;
    assert_int_equal(locker_mock_take_as(mock, "k", "one", LOCKER_SHARED, 0, 0, &first), LOCKER_OK);
    assert_int_equal(locker_mock_take_as(mock, "k", "two", LOCKER_SHARED, 0, 100, &second), LOCKER_OK);
    assert_int_equal(locker_mock_take(mock, "k", "three", 0, NULL), LOCKER_BUSY);
    assert_int_equal(locker_mock_take_as(mock, "k", "three", LOCKER_EXCLUSIVE, 2, 0, NULL), LOCKER_CONFIG);
    locker_handle *held = take(l, "k", &share);
    assert_true(locker_handle_token(held) > second && second > first);
    expect_busy(l, "k", NULL);
    assert_true(locker_mock_held(mock, "k", owner, NULL));
    assert_string_equal(owner, "one");
    lk_mock_advance_by(mock, 100);
    assert_int_equal(holders(mock, "k"), 2);
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_OK);
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_INVALID);
    assert_true(locker_mock_holder_at(mock, "k", 0, owner, &first, NULL));
    assert_string_equal(owner, "test");
    assert_true(first == locker_handle_token(held));
    locker_handle_free(held);
    assert_false(locker_mock_holder_at(mock, "k", 0, owner, &first, NULL));
    assert_string_equal(owner, "");
    assert_int_equal(first, 0);
    lk_mock_end(mock, l);
}

static void test_foreign_clients_have_permits(void **state)
{
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    locker_error err;
    locker_handle *held = NULL;
    (void)state;
    assert_int_equal(locker_mock_take_as(mock, "k", "one", LOCKER_EXCLUSIVE, 2, 0, NULL), LOCKER_OK);
    held = take(l, "k", &one_of_two);
    assert_int_equal(locker_handle_slot(held), 1);
    assert_int_equal(locker_mock_take_as(mock, "k", "two", LOCKER_EXCLUSIVE, 2, 0, NULL), LOCKER_BUSY);
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_OK);
    assert_int_equal(locker_mock_take(mock, "k", "two", 0, NULL), LOCKER_BUSY);
    locker_handle_free(held);
    assert_int_equal(locker_mock_take(mock, "k", "two", 0, NULL), LOCKER_OK);
    assert_status(LOCKER_CONFIG, locker_lock(l, "k", &one_of_two, &held, &err), err);
    assert_string_equal(
        err.text,
        "locking 'k': the key is in use as a lock, but this call asks for one of 2 permits; use another key");
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_OK);
    assert_int_equal(locker_mock_take_as(mock, "k", "x", LOCKER_SHARED, 2, 0, NULL), LOCKER_INVALID);
    assert_int_equal(locker_mock_take_as(mock, "k", "x", (locker_mode)2, 0, 0, NULL), LOCKER_INVALID);
    assert_int_equal(locker_mock_take_as(mock, "k", "x", LOCKER_EXCLUSIVE, -1, 0, NULL), LOCKER_INVALID);
    assert_int_equal(locker_mock_take_as(NULL, "k", "x", LOCKER_EXCLUSIVE, 0, 0, NULL), LOCKER_INVALID);
    lk_mock_end(mock, l);
}

static void test_losing_a_key_is_losing_it_for_all(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(NULL, &a);
    locker *b = lk_mock_host(mock, "b");
    locker_handle *first = take(a, "k", &share), *second = take(b, "k", &share);
    lk_locking writer;
    (void)state;
    assert_int_equal(locker_mock_take_as(mock, "k", "stranger", LOCKER_SHARED, 0, 0, NULL), LOCKER_OK);
    lk_locking_start(&writer, b, "k", NULL);
    lk_mock_await(mock, "k", 1);
    assert_int_equal(locker_mock_lose(mock, "k"), LOCKER_OK);
    lk_mock_advance_by(mock, 0);
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_LOST);
    locker_handle *next = lk_locking_grant(&writer); /* who waited for it is none of those who lost it */
    assert_int_equal(locker_handle_state(next), LOCKER_STATE_HELD);
    assert_int_equal(holders(mock, "k"), 1);
    locker_handle_free(next);
    locker_handle_free(first);
    locker_handle_free(second);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

/* A grant that its caller has not yet heard of is lost again: the call asks once more, and nobody is told of a loss. */
static void test_a_reader_that_does_not_know_of_its_grant_asks_again(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(NULL, &a);
    lk_locking reader;
    (void)state;
    lk_mock_faults(mock, "acquire delay=100ms");
    lk_locking_start(&reader, a, "k", &share);
    lk_mock_await(mock, "k", 1);
    assert_int_equal(holders(mock, "k"), 1);
    assert_int_equal(locker_mock_lose(mock, "k"), LOCKER_OK);
    assert_int_equal(holders(mock, "k"), 0);
    lk_mock_advance_by(mock, 100);
    locker_handle *held = lk_locking_grant(&reader);
    assert_int_equal(locker_handle_token(held), 2);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    locker_handle_free(held);
    lk_mock_end(mock, a);
}

/* Nobody waits at the service, so readers ride however long ago the grant was; once somebody does, or the service can't tell,
 * they ask. */
static void ride_until_awaited(const locker_mock_options *options)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(options, &a);
    locker *b = lk_mock_host(mock, "b");
    locker_handle *first = take(a, "k", &share), *held = NULL;
    lk_locking writer;
    locker_error err;
    lk_mock_advance_by(mock, 1000);
    locker_handle *rider = take(a, "k", &share);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 1);
    assert_int_equal(holders(mock, "k"), 1);
    lk_locking_start(&writer, b, "k", NULL);
    lk_mock_await(mock, "k", 1);
    expect_busy(a, "k", &share);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 3);
    locker_handle_free(first);
    locker_handle_free(rider);
    locker_handle_free(lk_locking_grant(&writer));
    first = take(a, "k", &share);
    lk_mock_advance_by(mock, 1000);
    locker_mock_disconnect(mock, a);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(a, "k", &share, &held, &err), err);
    locker_mock_reconnect(mock, a);
    locker_handle_free(first);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

static void test_readers_ride_until_a_call_waits(void **state)
{
    (void)state;
    ride_until_awaited(&like_redis);
    ride_until_awaited(&like_zookeeper);
}

/* A grant that comes while others wait behind it takes nobody along later. */
static void test_no_reader_rides_past_a_waiter(void **state)
{
    locker *a;
    locker_mock *mock = lk_mock_begin(&like_redis, &a);
    locker *b = lk_mock_host(mock, "b"), *c = lk_mock_host(mock, "c");
    locker_handle *held = take(c, "k", NULL);
    lk_locking reader, writer;
    (void)state;
    lk_locking_start(&reader, a, "k", &share);
    lk_mock_await(mock, "k", 1);
    lk_locking_start(&writer, b, "k", NULL);
    lk_mock_await(mock, "k", 2);
    locker_handle_free(held);
    held = lk_locking_grant(&reader);
    lk_mock_advance_by(mock, 1000);
    expect_busy(a, "k", &share);
    locker_handle_free(held);
    locker_handle_free(lk_locking_grant(&writer));
    lk_close_locker(b);
    lk_close_locker(c);
    lk_mock_end(mock, a);
}

static void test_verify_names_what_is_shared(void **state)
{
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    locker_handle *read = take(l, "read", &share), *zero = take(l, "permits", &one_of_two),
                  *one = take(l, "permits", &one_of_two);
    char text[1000];
    (void)state;
    assert_int_equal(locker_mock_take_as(mock, "read", "stranger", LOCKER_SHARED, 0, 0, NULL), LOCKER_OK);
    assert_int_equal(locker_mock_verify(mock, text, sizeof text), 3);
    assert_string_equal(text, "'read' is still shared by 'test', since 1000000 ms, with token 1\n"
                              "'permits' is still held by 'test' in slot 0, since 1000000 ms, with token 2\n"
                              "'permits' is still held by 'test' in slot 1, since 1000000 ms, with token 3");
    assert_int_equal(locker_mock_leave(mock, "read"), LOCKER_OK);
    locker_handle_free(read);
    locker_handle_free(zero);
    locker_handle_free(one);
    lk_mock_end(mock, l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_promises),
        cmocka_unit_test(test_a_dead_reader_is_waited_for_until_its_lease_ends),
        cmocka_unit_test(test_a_reader_outlives_another),
        cmocka_unit_test(test_the_permit_of_a_dead_holder_comes_back),
        cmocka_unit_test(test_a_release_that_does_not_arrive_is_repeated),
        cmocka_unit_test(test_a_session_ends_with_all_that_it_shared),
        cmocka_unit_test(test_a_writer_that_is_cut_off_blocks_no_reader),
        cmocka_unit_test(test_luck_starves_no_writer),
        cmocka_unit_test(test_foreign_clients_share),
        cmocka_unit_test(test_foreign_clients_have_permits),
        cmocka_unit_test(test_losing_a_key_is_losing_it_for_all),
        cmocka_unit_test(test_a_reader_that_does_not_know_of_its_grant_asks_again),
        cmocka_unit_test(test_readers_ride_until_a_call_waits),
        cmocka_unit_test(test_no_reader_rides_past_a_waiter),
        cmocka_unit_test(test_verify_names_what_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
