/* run_events.c: what --status-fd tells: one JSON object a line. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run_parts.h"

/* A pipe that poll() calls writable takes a line of this size at once. */
static void write_line(int fd, const json_t *object)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    char line[4096];
    size_t length = object ? json_dumpb(object, line, sizeof line - 1, JSON_COMPACT) : 0;
    if (length == 0 || length > sizeof line - 1)
        return;
    line[length++] = '\n';
    if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT))
        while (write(fd, line, length) < 0 && errno == EINTR)
            continue;
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
    if (r->options.status_fd >= 0)
        write_line(r->options.status_fd, object);
    json_decref(object);
}
