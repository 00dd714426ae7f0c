/*
 * run_events.c: what --status-fd tells: one JSON object a line.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

/* A pipe that poll() calls writable takes a line of this size at once. */
static void write_line(int fd, json_t *object)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    char line[4096];
    size_t length = object ? json_dumpb(object, line, sizeof line - 1, JSON_COMPACT) : 0;
    json_decref(object);
    if (length == 0 || length > sizeof line - 1)
        return;
    line[length++] = '\n';
    if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT))
        while (write(fd, line, length) < 0 && errno == EINTR)
            continue;
}

static json_t *event(const lk_run_events *e, const char *name)
{
    json_t *object = json_object();
    json_object_set_new(object, "event", json_string(name));
    json_object_set_new(object, "time_unix_ms", json_integer(lk_cli_wall_ms()));
    json_object_set_new(object, "key", lk_cli_json_text(e->key));
    return object;
}

void lk_run_event_waiting(const lk_run_events *e)
{
    if (e->fd >= 0)
        write_line(e->fd, event(e, "waiting"));
}

void lk_run_event_acquired(const lk_run_events *e, const locker_handle *held, const char *backend,
                           int64_t ttl_ms)
{
    const uint64_t token = locker_handle_token(held);
    if (e->fd < 0)
        return;
    json_t *object = event(e, "acquired");
    json_object_set_new(object, "token", token ? json_integer((json_int_t)token) : json_null());
    json_object_set_new(object, "backend", lk_cli_json_text(backend));
    json_object_set_new(object, "owner", lk_cli_json_text(locker_handle_owner(held)));
    json_object_set_new(object, "ttl_ms", ttl_ms > 0 ? json_integer(ttl_ms) : json_null());
    write_line(e->fd, object);
}

void lk_run_event_lost(const lk_run_events *e, int64_t remaining_ms)
{
    if (e->fd < 0)
        return;
    json_t *object = event(e, "lost");
    json_object_set_new(object, "remaining_ms", json_integer(remaining_ms));
    write_line(e->fd, object);
}

void lk_run_event_exited(const lk_run_events *e, int code, int signal)
{
    if (e->fd < 0)
        return;
    json_t *object = event(e, "exited");
    json_object_set_new(object, "code", signal == 0 ? json_integer(code) : json_null());
    json_object_set_new(object, "signal", signal != 0 ? json_integer(signal) : json_null());
    write_line(e->fd, object);
}

void lk_run_event_released(const lk_run_events *e, const char *status)
{
    if (e->fd < 0)
        return;
    json_t *object = event(e, "released");
    json_object_set_new(object, "status", json_string(status));
    write_line(e->fd, object);
}
