/* dispatch.c: the driver's turn: wake-up messages, answers that nobody waits for, clean-ups, a silent
 * server. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "internal.h"

static const int64_t thread_again_ns = LK_S; /* a connector thread that could not be started */

void lk_note_locked(struct lk_redis *r, locker_log_level level, const char *format, ...)
{
    va_list arguments;
    if (!r->svc->log_wanted(r->svc, level))
        return;
    va_start(arguments, format);
    (void)vsnprintf(r->note, sizeof(r->note), format, arguments);
    va_end(arguments);
    r->note_level = level;
    r->log_due = true;
    r->svc->attend(r->svc); /* the keeper writes it, without lock */
}

void lk_note_write(struct lk_redis *r)
{
    char note[LOCKER_ERROR_TEXT_MAX];
    pthread_mutex_lock(&r->lock);
    const bool due = r->log_due;
    const locker_log_level level = r->note_level;
    if (due)
        (void)snprintf(note, sizeof(note), "%s", r->note);
    r->log_due = false;
    pthread_mutex_unlock(&r->lock);
    if (due)
        r->svc->log(r->svc, level, "%s", note);
}

static void on_connection_locked(struct lk_redis *r, uint32_t events)
{
    struct lk_conn *conn = &r->conn;
    if (conn->state != LK_CONN_UP)
        return;
    if ((events & EPOLLOUT) != 0 && !conn->reading)
        conn->blocked = false;
    if ((events & ~(uint32_t)EPOLLOUT) != 0 && !conn->reading)
        lk_read_turn_locked(r, NULL, 0);
}

/* What the answers that are awaited want: a look at them, and an end to a server that is silent. */
static int64_t answers_at(const struct lk_redis *r)
{
    if (r->conn.state != LK_CONN_UP || r->conn.first == NULL)
        return LOCKER_NEVER;
    const int64_t silent = lk_after(r->conn.first->sent, r->set.command_timeout_ns);
    return r->conn.look_at == 0 ? silent : lk_earlier(silent, r->conn.look_at);
}

static void see_to_answers_locked(struct lk_redis *r, int64_t now)
{
    struct lk_conn *conn = &r->conn;
    if (now < answers_at(r))
        return;
    if (now >= lk_after(conn->first->sent, r->set.command_timeout_ns)) {
        lk_conn_fail_locked(r, "the server does not answer");
    } else if (!conn->reading) {
        conn->look_at = LOCKER_NEVER;
        lk_read_turn_locked(r, NULL, 0);
    }
}

int64_t lk_redis_dispatch(void *self)
{
    struct lk_redis *r = self;
    struct epoll_event events[4];
    const int count = epoll_wait(r->epoll_fd, events, 4, 0);
    pthread_mutex_lock(&r->lock);
    r->dispatching = true;
    for (int i = 0; i < count; i++)
        r->sub.look = r->sub.look || events[i].data.ptr == &r->sub;
    if (r->sub.look) /* first, because somebody sleeps until it is read */
        lk_subscriber_read_locked(r);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == &r->conn)
            on_connection_locked(r, events[i].events);
    }
    const int64_t now = lk_redis_now(r);
    see_to_answers_locked(r, now);
    int64_t next = lk_cleanups_run_locked(r, now);
    next = lk_earlier(next, lk_notes_run_locked(r, now));
    lk_connector_want_locked(r);
    if (r->conn.state == LK_CONN_DOWN && !r->connector_running)
        next = lk_earlier(next, now + thread_again_ns);
    lk_pump_locked(r);
    lk_conn_arm_locked(r);
    next = lk_earlier(next, answers_at(r));
    r->dispatching = false;
    const bool log_due = r->log_due;
    pthread_mutex_unlock(&r->lock);
    if (log_due)
        lk_note_write(r);
    return next;
}
