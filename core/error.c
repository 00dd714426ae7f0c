/* error.c: statuses, states and caller-owned errors. */
#include <stdarg.h>
#include <stdio.h>

#include "lk_error.h"

const char *locker_status_name(locker_status status)
{
    static const char *const names[] = {"ok",          "busy",        "timeout", "canceled", "lost",
                                        "unknown",     "unavailable", "denied",  "invalid",  "config",
                                        "unsupported", "protocol",    "nomem",   "closed",   "forked"};
    _Static_assert(sizeof names / sizeof *names == LOCKER_FORKED + 1,
                   "a name for each status, in their order");
    const size_t i = (size_t)status;
    return i < sizeof names / sizeof *names ? names[i] : "invalid status";
}

const char *locker_state_name(locker_state state)
{
    static const char *const names[] = {"held", "suspect", "lost", "unlocked"};
    const size_t i = (size_t)state;
    return i < sizeof names / sizeof *names ? names[i] : "invalid state";
}

locker_status locker_error_set(locker_error *err, locker_status status, int os_error, const char *format, ...)
{
    if (err == NULL)
        return status;
    err->status = status;
    err->os_error = os_error;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return status;
}
