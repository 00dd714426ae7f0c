/* error.h: answers. */
#pragma once

#include "lk_error.h"

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
