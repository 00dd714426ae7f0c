/* error.c: statuses, states and caller-owned errors. */
#include <stdarg.h>
#include <stdio.h>

#include "lk_error.h"
#include "lk_printable.h"

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
    char text[sizeof err->text]; /* the arguments may point into err->text */
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        text[0] = '\0';
    else if ((size_t)length >= sizeof text)
        lk_trim_cut_character(text, sizeof text - 1);
    err->status = status;
    err->os_error = os_error;
    (void)lk_printable(err->text, sizeof err->text, text);
    return status;
}
