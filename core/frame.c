/* frame.c: the frame around each call of an application. */
#include "frame.h"
#include "text.h"

locker_status lk_refuse(const locker *l, const char *what, locker_error *err)
{
    if (lk_forked(l))
        return locker_error_set(err, LOCKER_FORKED, 0,
                                "%s: this locker belongs to the parent process: open one in the child", what);
    return lk_invalid(err, "%s waits for the service, so it can't be called inside a callback of its locker",
                      what);
}

locker_status lk_check_key(const locker *l, const char *key, size_t *length, locker_error *err)
{
    const locker_status status = lk_text_check(key, LOCKER_KEY_MAX, "the key", length, err);
    return status == LOCKER_OK && l->driver->check_key != NULL
               ? l->driver->check_key(l->self, key, *length, err)
               : status;
}
