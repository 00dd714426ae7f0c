/* lk_error.h: the answers that are given most, each with a text that says why. */
#pragma once

#include <locker/driver.h>

#define lk_invalid(err, ...)       locker_error_set(err, LOCKER_INVALID, 0, __VA_ARGS__)
#define lk_misconfigured(err, ...) locker_error_set(err, LOCKER_CONFIG, 0, __VA_ARGS__)
#define lk_unavailable(err, ...)   locker_error_set(err, LOCKER_UNAVAILABLE, 0, __VA_ARGS__)
#define lk_unsupported(err, ...)   locker_error_set(err, LOCKER_UNSUPPORTED, 0, __VA_ARGS__)
#define lk_denied(err, ...)        locker_error_set(err, LOCKER_DENIED, 0, __VA_ARGS__)
#define lk_lost(err, ...)          locker_error_set(err, LOCKER_LOST, 0, __VA_ARGS__)
#define lk_out_of_memory(err)      locker_error_set(err, LOCKER_NOMEM, 0, "out of memory")

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
