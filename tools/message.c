/* message.c: what the command says on stderr, and the exit code that goes with it. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "lk_printable.h"

static _Atomic bool hurried; /* relaxed: it orders nothing; the library logs from threads of its own */

void lk_cli_hurry(bool on)
{
    atomic_store_explicit(&hurried, on, memory_order_relaxed);
}

/* A full pipe and a stopped terminal take nothing. */
static bool has_room(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) != 0;
}

/* One write for a line, so that lines of several processes on one terminal stay whole. */
static void print_line(const char *format, va_list args, const char *after)
{
    char said[1024], text[1024];
    if (vsnprintf(said, sizeof said, format, args) < 0)
        said[0] = '\0';
    lk_printable(text, sizeof text, said);
    if (!atomic_load_explicit(&hurried, memory_order_relaxed) || has_room())
        fprintf(stderr, "locker: %s%s\n", text, after);
}

void lk_cli_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(format, args, "");
    va_end(args);
}

int lk_cli_usage(const char *subcommand, const char *format, ...)
{
    char after[64];
    snprintf(after, sizeof after, "; try 'locker %s%s'", subcommand ? subcommand : "help",
             subcommand ? " --help" : "");
    va_list args;
    va_start(args, format);
    print_line(format, args, after);
    va_end(args);
    return LK_EXIT_USAGE;
}

const char *lk_cli_quotable(const char *word)
{
    return strchr(word, '@') || strstr(word, "://") ? "(not shown: it may hold a password)" : word;
}

int lk_cli_finish_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    lk_cli_message("cannot write to standard output: %s", strerror(errno));
    return LK_EXIT_SYSTEM;
}

int lk_cli_exit_for(locker_status status)
{
    static const int codes[] = {
        [LOCKER_BUSY] = LK_EXIT_CONFLICT,       [LOCKER_TIMEOUT] = LK_EXIT_CONFLICT,
        [LOCKER_LOST] = LK_EXIT_LOST,           [LOCKER_INVALID] = LK_EXIT_USAGE,
        [LOCKER_UNKNOWN] = LK_EXIT_UNAVAILABLE, [LOCKER_UNAVAILABLE] = LK_EXIT_UNAVAILABLE,
        [LOCKER_DENIED] = LK_EXIT_DENIED,       [LOCKER_CONFIG] = LK_EXIT_CONFIG,
        [LOCKER_UNSUPPORTED] = LK_EXIT_CONFIG,  [LOCKER_NOMEM] = LK_EXIT_SYSTEM,
    };
    const bool listed = status < sizeof codes / sizeof codes[0] && codes[status] != 0;
    return status == LOCKER_OK ? LK_EXIT_OK : listed ? codes[status] : LK_EXIT_INTERNAL;
}

int lk_cli_fail(locker_status status, const locker_error *err)
{
    const char *text = err->text[0] ? err->text : locker_status_name(status);
    const int os_error = err->os_error;
    lk_cli_message("%s", text);
    /* Out of descriptors or memory, or no thread may be made (EINVAL): it is this host that refuses, not the service that is away. */
    if (status == LOCKER_UNAVAILABLE && (os_error == EMFILE || os_error == ENFILE || os_error == ENOMEM ||
                                         os_error == EAGAIN || os_error == EINVAL))
        return LK_EXIT_SYSTEM;
    return lk_cli_exit_for(status);
}
