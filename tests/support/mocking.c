/* mocking.c: a mock with a locker on it; see mocking.h. */
#include "mocking.h"

locker_mock *lk_mock_begin(const locker_mock_options *options, locker **l)
{
    locker_mock_options o = LOCKER_MOCK_OPTIONS_INIT;
    locker_mock *mock;
    locker_error err;
    if (options != NULL)
        o = *options;
    o.patience_ms = LK_TEST_PATIENCE_MS;
    assert_ok(locker_mock_new(&o, &mock, &err), err);
    assert_ok(locker_mock_open(mock, "test", NULL, l, &err), err);
    return mock;
}

locker *lk_mock_host(locker_mock *mock, const char *owner)
{
    locker_error err;
    locker *l;
    assert_ok(locker_mock_open(mock, owner, NULL, &l, &err), err);
    return l;
}

void lk_mock_end(locker_mock *mock, locker *l)
{
    char text[1024];
    assert_int_equal(locker_close(l), LOCKER_OK);
    if (locker_mock_verify(mock, text, sizeof text) != 0)
        test_fails("left behind: %s", text);
    locker_mock_free(mock);
}

void lk_mock_faults(locker_mock *mock, const char *text)
{
    locker_error err;
    assert_ok(locker_mock_script(mock, text, &err), err);
}

void lk_mock_advance_by(locker_mock *mock, int64_t ms)
{
    char text[1024];
    if (locker_mock_advance(mock, ms) == LOCKER_OK)
        return;
    (void)locker_mock_verify(mock, text, sizeof text);
    test_fails("the clock can't be moved: %s", text);
}

void lk_mock_await(locker_mock *mock, const char *key, size_t count)
{
    if (locker_mock_await_waiters(mock, key, count) != LOCKER_OK)
        test_fails("waited in vain for %zu calls that wait for %s", count, key != NULL ? key : "any key");
}

size_t lk_mock_calls(locker_mock *mock, locker_op op)
{
    return locker_mock_count(mock, op, NULL);
}

size_t lk_mock_answers(locker_mock *mock, locker_op op, locker_status status)
{
    locker_mock_call call;
    size_t n = 0;
    for (size_t i = 0; locker_mock_call_at(mock, i, &call); i++)
        n += call.op == op && call.status == status;
    return n;
}
