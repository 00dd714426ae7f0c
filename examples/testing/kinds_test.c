/* kinds_test.c: tests with shared locks, permits and sessions on a mock; see docs/kinds.md and mock.h. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locker/mock.h>

static locker_mock *mock;
static locker *l;

/* Each test has a new mock, and a locker on it. */
static int begin(void **state)
{
    (void)state;
    if (locker_mock_new(NULL, &mock, NULL) != LOCKER_OK)
        return -1;
    return locker_mock_open(mock, "here", NULL, &l, NULL) == LOCKER_OK ? 0 : -1;
}

static int end(void **state)
{
    char left[1000];
    size_t lines = locker_mock_verify(mock, left, sizeof left);

    (void)state;
    if (lines > 0)
        print_error("%s\n", left);
    (void)locker_close(l);
    locker_mock_free(mock);
    return lines > 0 ? -1 : 0;
}

static void *write_alone(void *unused)
{
    locker *other;
    locker_handle *held = NULL;
    locker_status status = locker_mock_open(mock, "writer", NULL, &other, NULL);

    (void)unused;
    if (status == LOCKER_OK)
        status = locker_lock(other, "report", NULL, &held, NULL);
    locker_handle_free(held);
    (void)locker_close(other);
    return (void *)(intptr_t)status;
}

static void test_readers_and_a_writer(void **state)
{
    locker_lock_options read = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held, *late;
    pthread_t writer;
    void *result;

    (void)state;
    read.mode = LOCKER_SHARED;
    assert_int_equal(locker_mock_take_as(mock, "report", "another", LOCKER_SHARED, 0, 1000, NULL), LOCKER_OK);
    assert_int_equal(locker_lock(l, "report", &read, &held, NULL), LOCKER_OK); /* two read */
    assert_int_equal(pthread_create(&writer, NULL, write_alone, NULL), 0);
    assert_int_equal(locker_mock_await_waiters(mock, "report", 1), LOCKER_OK);
    assert_int_equal(locker_mock_advance(mock, 50),
                     LOCKER_OK); /* until then, readers of `l` can still join the grant */
    assert_int_equal(locker_try_lock(l, "report", &read, &late, NULL), LOCKER_BUSY); /* not past the writer */
    locker_handle_free(held);
    assert_int_equal(locker_mock_waiters(mock, "report"), 1); /* one still reads */
    assert_int_equal(locker_mock_advance(mock, 1000), LOCKER_OK);
    assert_int_equal(pthread_join(writer, &result), 0);
    assert_int_equal((intptr_t)result, LOCKER_OK);
}

static void test_the_permit_of_a_host_that_is_gone(void **state)
{
    locker_lock_options permit = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *gone, *stays, *next;
    int32_t slot;
    locker *other;

    (void)state;
    permit.permits = 2; /* at most two at once */
    permit.wait_ms = 60000;
    assert_int_equal(locker_mock_open(mock, "other host", NULL, &other, NULL), LOCKER_OK);
    assert_int_equal(locker_lock(other, "ports", &permit, &gone, NULL), LOCKER_OK);
    assert_int_equal(locker_lock(l, "ports", &permit, &stays, NULL), LOCKER_OK);
    assert_int_equal(locker_handle_slot(stays), 1);

    locker_mock_disconnect(mock, other);
    assert_int_equal(locker_try_lock(l, "ports", &permit, &next, NULL), LOCKER_BUSY);
    assert_int_equal(locker_lock(l, "ports", &permit, &next, NULL), LOCKER_OK); /* 30 s later by the clock */
    assert_int_equal(locker_handle_state(gone), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_slot(next), 0);
    assert_true(locker_mock_holder_at(mock, "ports", 0, NULL, NULL, &slot));
    assert_int_equal(slot, 1); /* holders are in the order of their tokens: `stays` comes first */

    locker_mock_reconnect(mock, other);
    locker_handle_free(gone);
    locker_handle_free(stays);
    locker_handle_free(next);
    (void)locker_close(other);
}

static void test_a_session_ends(void **state)
{
    locker_mock_options like_zookeeper = LOCKER_MOCK_OPTIONS_INIT;
    locker_handle *one, *two;
    locker_mock *other;
    locker *client;

    (void)state;
    like_zookeeper.leases = LOCKER_MOCK_LEASES_SESSION;
    like_zookeeper.queue = true;
    assert_int_equal(locker_mock_new(&like_zookeeper, &other, NULL), LOCKER_OK);
    assert_int_equal(locker_mock_open(other, "client", NULL, &client, NULL), LOCKER_OK);
    assert_int_equal(locker_lock(client, "one", NULL, &one, NULL), LOCKER_OK);
    assert_int_equal(locker_lock(client, "two", NULL, &two, NULL), LOCKER_OK);
    locker_mock_lose_all(other, client);
    assert_int_equal(locker_mock_advance(other, 0), LOCKER_OK);
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(two), LOCKER_STATE_LOST);
    locker_handle_free(one);
    locker_handle_free(two);
    assert_int_equal(locker_close(client), LOCKER_OK);
    locker_mock_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_readers_and_a_writer, begin, end),
        cmocka_unit_test_setup_teardown(test_the_permit_of_a_host_that_is_gone, begin, end),
        cmocka_unit_test_setup_teardown(test_a_session_ends, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
