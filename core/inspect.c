/* inspect.c: show, break, ping and what a service promises. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

typedef locker_status inspect_fn(void *self, const char *key, size_t key_len, int64_t until,
                                 locker_info *info, locker_error *err);

void locker_info_clear(locker_info *info)
{
    if (info == NULL)
        return;
    free(info->queue);
    *info = (locker_info)LOCKER_INFO_INIT;
}

static locker_status inspect(locker *l, const char *key, locker_info *info, inspect_fn *op, const char *what,
                             locker_error *err)
{
    locker_info found = LOCKER_INFO_INIT;
    locker_status status;
    size_t length;

    if (l == NULL || (info != NULL && info->size != sizeof *info))
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "%s needs a locker, and an info that starts from LOCKER_INFO_INIT", what);
    status = lk_enter(l, what, err);
    if (status != LOCKER_OK)
        return status;
    status = lk_check_key(l, key, &length, err);
    if (op == NULL)
        status =
            locker_error_set(err, LOCKER_UNSUPPORTED, 0, "the %s driver can't do %s", l->driver->name, what);
    else if (status == LOCKER_OK)
        status = op(l->self, key, length, lk_later(lk_now(l), l->command_timeout_ns), &found, err);
    lk_leave(l);
    if (status != LOCKER_OK || info == NULL)
        locker_info_clear(&found);
    if (info != NULL)
        *info = found;
    return status == LOCKER_OK ? lk_ok(err) : status;
}

locker_status locker_show(locker *l, const char *key, locker_info *info, locker_error *err)
{
    if (info == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_show needs a place for the answer");
    return inspect(l, key, info, l == NULL ? NULL : l->driver->show, "locker_show", err);
}

locker_status locker_break(locker *l, const char *key, locker_info *broken, locker_error *err)
{
    return inspect(l, key, broken, l == NULL ? NULL : l->driver->break_lock, "locker_break", err);
}

locker_status locker_ping(locker *l, int64_t *round_trip_us, locker_error *err)
{
    locker_status status;
    int64_t sent;

    if (l == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "locker_ping needs a locker");
    status = lk_enter(l, "locker_ping", err);
    if (status != LOCKER_OK)
        return status;
    sent = lk_now(l);
    status = l->driver->ping(l->self, lk_later(sent, l->command_timeout_ns), err);
    if (round_trip_us != NULL)
        *round_trip_us = (lk_now(l) - sent) / 1000;
    lk_leave(l);
    return status == LOCKER_OK ? lk_ok(err) : status;
}

const locker_semantics *locker_get_semantics(const locker *l)
{
    return l != NULL ? l->driver->semantics : NULL;
}
