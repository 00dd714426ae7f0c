/* run_events.c: what --status-fd tells: one JSON object a line. */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run_parts.h"

enum { PIECE = 4096, PATIENCE_MS = 200 };

/* Write a line in pieces. A pipe that poll() calls writable takes a piece at once. The reader of a line of several pieces has
 * PATIENCE_MS in all to make room; then the rest of the line is dropped, and the next line begins with a newline. */
static void write_line(int fd, const char *line, size_t length)
{
    static bool broken;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    size_t done = 0;
    int64_t end = 0;
    while (done < length) {
        const int64_t left = end - lk_cli_now_ms(CLOCK_MONOTONIC);
        if (poll(&ready, 1, done > 0 && !broken && left > 0 ? (int)left : 0) != 1 ||
            !(ready.revents & POLLOUT))
            break;
        const size_t piece = length - done < PIECE ? length - done : PIECE;
        if (broken && write(fd, "\n", 1) != 1)
            return;
        broken = false;
        const ssize_t written = write(fd, line + done, piece);
        if (written <= 0)
            break;
        if (done == 0)
            end = lk_cli_now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
        done += (size_t)written;
    }
    broken = broken || (done > 0 && done < length);
}

void lk_run_event(const lk_run *r, const char *name, const char *format, ...)
{
    json_error_t ignored;
    va_list args;
    va_start(args, format);
    json_t *rest = json_vpack_ex(&ignored, 0, format, args);
    va_end(args);
    json_t *object = json_object();
    json_object_set_new(object, "event", json_string(name));
    json_object_set_new(object, "time_unix_ms", json_integer(lk_cli_now_ms(CLOCK_REALTIME)));
    json_object_set_new(object, "key", lk_cli_json_text(r->options.key));
    json_object_update(object, rest);
    json_decref(rest);
    char *const text = r->options.status_fd >= 0 ? json_dumps(object, JSON_COMPACT) : NULL;
    char *line = NULL;
    if (text && asprintf(&line, "%s\n", text) >= 0) {
        write_line(r->options.status_fd, line, strlen(line));
        free(line);
    }
    free(text);
    json_decref(object);
}
