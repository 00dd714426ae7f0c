/* progress.c: how far locker compare is; see output.h. */
#include <stdarg.h>
#include <unistd.h>

#include "output.h"

lk_progress lk_progress_begin(bool quiet, size_t steps)
{
    return (lk_progress){.quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1, .all = steps};
}

void lk_progress_say(const lk_progress *progress, const char *format, ...)
{
    if (progress->quiet)
        return;
    va_list args;
    va_start(args, format);
    char text[160];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* A terminal's line is taken back and cleared to its end, and cut so that it never wraps. */
    if (progress->terminal)
        fprintf(stderr, "\r[%zu/%zu] %.64s\033[K", progress->done, progress->all, text);
    else
        fprintf(stderr, "[%zu/%zu] %s\n", progress->done, progress->all, text);
}

void lk_progress_end(const lk_progress *progress)
{
    if (!progress->quiet && progress->terminal)
        fprintf(stderr, "\r\033[K");
}
