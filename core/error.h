/* error.h: answers. */
#pragma once

#include <locker/driver.h>

/** The answers that core gives most: a call, or a configuration, says what can't be. */
#define lk_invalid(err, ...)       locker_error_set(err, LOCKER_INVALID, 0, __VA_ARGS__)
#define lk_misconfigured(err, ...) locker_error_set(err, LOCKER_CONFIG, 0, __VA_ARGS__)

/* Here, and not in a file: it is a part of what a lock in memory takes. */
static inline locker_status lk_ok(locker_error *err)
{
    if (err != NULL) {
        err->status = LOCKER_OK;
        err->os_error = 0;
        err->text[0] = '\0';
    }
    return LOCKER_OK;
}
