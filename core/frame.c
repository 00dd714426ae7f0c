/* frame.c: the frame around each call of an application. */
#include "frame.h"
#include "text.h"

locker_status lk_refuse(const locker *l, const char *what, locker_error *err)
{
    if (lk_forked(l))
        return locker_error_set(
            err, LOCKER_FORKED, 0,
            "%s: this locker belongs to the parent process; call exec, or open a new locker in the "
            "child (if the parent had threads: give addresses instead of host names, and use no TLS)",
            what);
    return lk_invalid(err,
                      "%s waits for the service, so it cannot be called inside a callback of its "
                      "locker; call it from another thread",
                      what);
}

locker_status lk_enter(locker *l, const char *what, locker_error *err)
{
    const locker_status status = lk_admit(l, what, err);
    if (status != LOCKER_OK)
        return status;
    lk_mutex_lock(&l->mutex);
    const bool closing = l->closing;
    if (!closing)
        l->calls++;
    lk_mutex_unlock(&l->mutex);
    return closing ? locker_error_set(err, LOCKER_CLOSED, 0, "%s: the locker is closed", what) : LOCKER_OK;
}

void lk_leave(locker *l)
{
    lk_mutex_lock(&l->mutex);
    lk_leave_locked(l);
    lk_mutex_unlock(&l->mutex);
}

locker_status lk_check_key(const locker *l, const char *key, size_t *length, locker_error *err)
{
    const locker_status status = lk_text_check(key, LOCKER_KEY_MAX, "the key", length, err);
    return status == LOCKER_OK && l->driver->check_key != NULL
               ? l->driver->check_key(l->self, key, *length, err)
               : status;
}
