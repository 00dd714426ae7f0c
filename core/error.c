/* error.c: statuses, states and caller-owned errors. */
#include <stdarg.h>
#include <stdio.h>

#include "error.h"

const char *locker_status_name(locker_status status)
{
    static const char *const names[] = {
        [LOCKER_OK] = "ok",
        [LOCKER_BUSY] = "busy",
        [LOCKER_TIMEOUT] = "timeout",
        [LOCKER_CANCELED] = "canceled",
        [LOCKER_LOST] = "lost",
        [LOCKER_UNKNOWN] = "unknown",
        [LOCKER_UNAVAILABLE] = "unavailable",
        [LOCKER_DENIED] = "denied",
        [LOCKER_INVALID] = "invalid",
        [LOCKER_CONFIG] = "config",
        [LOCKER_UNSUPPORTED] = "unsupported",
        [LOCKER_PROTOCOL] = "protocol",
        [LOCKER_NOMEM] = "nomem",
        [LOCKER_CLOSED] = "closed",
        [LOCKER_FORKED] = "forked",
    };
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
