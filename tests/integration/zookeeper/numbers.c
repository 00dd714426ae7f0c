/* numbers.c: the number of each request to a server comes to its end: what 2.5e9 requests do to a process, in 150. */
#include <stdio.h>
#include <time.h>

#include "expect.h"
#include "holding.h"
#include "locking.h"
#include "request_number.h"
#include "test_servers.h"

enum { LEFT = 100, CYCLES = 40 };

/* Where the client library's own numbers begin, for a build in which they are not replaced: so many before they end. */
time_t time(time_t *out)
{
    if (out != NULL)
        *out = -LEFT;
    return -LEFT;
}

static void the_number_of_a_request_ends(void **state)
{
    lk_server *zk = lk_test_zookeeper(LK_LOGIN_NONE);
    const locker_lock_options bounded = lk_wait_options(LK_TEST_PATIENCE_MS);
    char uri[64];
    locker *l;
    locker_handle *kept, *held;
    locker_error err;
    (void)state;
    snprintf(uri, sizeof uri, "zookeeper://127.0.0.1:%d/", zk->port);
    lk_zk_last_request = INT32_MAX - LEFT;
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    assert_ok(locker_lock(l, "kept", &bounded, &kept, &err), err);
    for (int i = 0; i < CYCLES; i++) {
        assert_ok(locker_lock(l, "key", &bounded, &held, &err), err);
        assert_ok(locker_unlock(held, &err), err);
        locker_handle_free(held);
    }
    assert_int_equal(locker_handle_state(kept), LOCKER_STATE_HELD);
    assert_ok(locker_unlock(kept, &err), err);
    locker_handle_free(kept);
    (void)locker_close(l);
    lk_test_free(zk);
}

/* 0 is none, and those below are the library's own: -1, -2, -4 and -8. */
static void numbers_are_positive(void **state)
{
    (void)state;
    lk_zk_last_request = INT32_MAX - 2;
    assert_int_equal(__wrap_get_xid(), INT32_MAX - 1);
    assert_int_equal(__wrap_get_xid(), INT32_MAX);
    assert_int_equal(__wrap_get_xid(), 1);
    lk_zk_last_request = UINT32_MAX - 1;
    assert_int_equal(__wrap_get_xid(), INT32_MAX);
    assert_int_equal(__wrap_get_xid(), 1);
    assert_int_equal(__wrap_get_xid(), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_positive),
        cmocka_unit_test(the_number_of_a_request_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
