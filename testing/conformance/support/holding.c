/* holding.c: giving locks back, and the like; see holding.h. */
#include "holding.h"

#include "timely.h"

locker_lock_options lk_wait_options(int64_t wait_ms)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    return options;
}

void lk_give(locker_handle *held)
{
    locker_error err;
    assert_ok(locker_unlock(held, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_UNLOCKED);
    locker_handle_free(held);
}

bool lk_give_unless_late(locker_handle *held)
{
    locker_error err;
    const locker_status status = locker_unlock(held, &err);
    if (status != LOCKER_LOST && status != LOCKER_UNKNOWN)
        assert_ok(status, err);
    locker_handle_free(held);
    return assert_unless_late(status == LOCKER_OK);
}

void lk_give_lost(locker_handle *held)
{
    locker_error err;
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    locker_handle_free(held);
}

void lk_expect_busy(locker *l, const char *key)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(l, key, NULL, &held, &err), err);
    assert_null(held);
}

void lk_close_locker(locker *l)
{
    assert_int_equal(locker_close(l), LOCKER_OK);
}
