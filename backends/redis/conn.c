/*
 * conn.c: the command connection's state: commands appended, answers matched with them in order, and what
 * happens when it is lost. Who sends and receives is flow.c's matter.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

enum { BUFFER_KEEP = 1 << 20 }; /* a buffer that grew beyond it is given back when it is empty */

bool lk_buffer_add(struct lk_buffer *b, const char *data, size_t len)
{
    if (b->cap - b->len < len) {
        size_t cap = b->cap > 0 ? b->cap : 4096;
        while (cap - b->len < len)
            cap *= 2;
        char *grown = realloc(b->data, cap);
        if (grown == NULL)
            return false;
        b->data = grown;
        b->cap = cap;
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

static void buffer_empty(struct lk_buffer *b)
{
    b->len = 0;
    if (b->cap > BUFFER_KEEP) {
        free(b->data);
        *b = (struct lk_buffer){0};
    }
}

/* ------------------------------------------------------------------ ops ---- */

struct lk_op *lk_op_get_locked(struct lk_redis *r)
{
    if (r->free_ops == NULL) /* acquire: what was written to a returned op is seen before it is used again */
        r->free_ops = atomic_exchange_explicit(&r->returned_ops, NULL, memory_order_acquire);
    struct lk_op *op = r->free_ops;
    if (op != NULL)
        r->free_ops = op->next;
    else
        op = malloc(sizeof(*op));
    if (op == NULL)
        return NULL;
    op->next = NULL;
    op->waited = false;
    op->done = NULL;
    op->context = NULL;
    op->slot = NULL;
    op->reply = NULL;
    op->early_wanted = op->early_count = 0;
    op->sent = 0;
    atomic_store_explicit(&op->state, LK_OP_WAITING, memory_order_relaxed);
    return op;
}

/* Without lock: a waiter that was answered does not take it again. */
void lk_op_return(struct lk_redis *r, struct lk_op *op)
{
    struct lk_op *top = atomic_load_explicit(&r->returned_ops, memory_order_relaxed);
    do {
        op->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&r->returned_ops, &top, op, memory_order_release,
                                                    memory_order_relaxed));
}

static void drop_early(struct lk_op *op)
{
    while (op->early_count > 0)
        freeReplyObject(op->early[--op->early_count]);
}

/* An op that nobody waits for. */
static void op_free_locked(struct lk_redis *r, struct lk_op *op)
{
    drop_early(op);
    op->next = r->free_ops;
    r->free_ops = op;
}

static void free_list(struct lk_op *op)
{
    while (op != NULL) {
        struct lk_op *next = op->next;
        drop_early(op);
        free(op);
        op = next;
    }
}

void lk_ops_free(struct lk_redis *r)
{
    free_list(r->conn.first);
    free_list(r->free_ops);
    free_list(atomic_load_explicit(&r->returned_ops, memory_order_acquire));
    free(r->conn.out.data);
    free(r->conn.going.data);
}

void lk_op_append_locked(struct lk_redis *r, struct lk_op *op)
{
    op->next = NULL;
    *r->conn.last = op;
    r->conn.last = &op->next;
    if (op->waited)
        r->conn.waited++;
}

bool lk_submit_locked(struct lk_redis *r, const char *bytes, size_t len, lk_op_fn done, void *context)
{
    if (r->conn.state != LK_CONN_UP)
        return false;
    struct lk_op *op = lk_op_get_locked(r);
    if (op == NULL)
        return false;
    if (!lk_buffer_add(&r->conn.out, bytes, len)) {
        op_free_locked(r, op);
        return false;
    }
    op->done = done;
    op->context = context;
    op->sent = lk_redis_now(r);
    lk_op_append_locked(r, op);
    return true;
}

bool lk_submit_argv_locked(struct lk_redis *r, const struct lk_argv *a, lk_op_fn done, void *context)
{
    char *bytes;
    size_t len;
    if (r->conn.state != LK_CONN_UP || !lk_argv_format(a, &bytes, &len))
        return false;
    const bool submitted = lk_submit_locked(r, bytes, len, done, context);
    free(bytes);
    return submitted;
}

/* ------------------------------------------------------------------ answers ---- */

static void futex_wake(atomic_int *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void lk_wake_all(const struct lk_wakes *wakes)
{
    for (size_t i = 0; i < wakes->count; i++)
        futex_wake(wakes->word[i]);
}

void lk_nudge_locked(struct lk_redis *r, struct lk_op *op)
{
    (void)r;
    atomic_store_explicit(&op->state, LK_OP_NUDGED, memory_order_relaxed); /* the waiter takes lock next */
    futex_wake(&op->state);
}

static struct lk_op *pop_locked(struct lk_conn *conn)
{
    struct lk_op *op = conn->first;
    conn->first = op->next;
    if (conn->first == NULL)
        conn->last = &conn->first;
    if (op->waited)
        conn->waited--;
    if (op->slot != NULL)
        *op->slot = NULL;
    return op;
}

void lk_conn_complete_locked(struct lk_redis *r, const struct lk_op *self, redisReply **replies, size_t count,
                             struct lk_wakes *wakes)
{
    wakes->count = 0;
    if (count > 0) {
        r->failures = 0;
        r->conn.proven = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (r->conn.state != LK_CONN_UP || r->conn.first == NULL) {
            freeReplyObject(replies[i]);
            lk_conn_fail_locked(r, "Redis sent a reply that nobody asked for");
            continue;
        }
        struct lk_op *op = r->conn.first;
        if (op->early_count < op->early_wanted) {
            op->early[op->early_count++] = replies[i];
            continue;
        }
        (void)pop_locked(&r->conn);
        if (op->waited) {
            op->reply = replies[i];
            if (op != self)
                wakes->word[wakes->count++] = &op->state;
            /* release: the waiter reads op->reply without lock */
            atomic_store_explicit(&op->state, LK_OP_ANSWERED, memory_order_release);
        } else {
            if (op->done != NULL)
                op->done(r, op->context, replies[i]);
            freeReplyObject(replies[i]);
            op_free_locked(r, op);
        }
    }
}

/* ------------------------------------------------------------------ coming up, going down ---- */

static void watch_locked(struct lk_redis *r, int how, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.ptr = &r->conn}};
    (void)epoll_ctl(r->epoll_fd, how, r->conn.link->fd, &event);
}

/* Let the keeper read, when there are answers to come that no thread waits for; and keep it from waking up
 * when a caller reads. Its watch costs system calls, so a lone caller never comes here with work to do. */
void lk_conn_arm_locked(struct lk_redis *r)
{
    struct lk_conn *conn = &r->conn;
    if (conn->state != LK_CONN_UP)
        return;
    const bool in = !conn->reading && conn->first != NULL && conn->waited == 0;
    const bool out = !conn->reading && conn->blocked;
    if (in == conn->armed && out == conn->armed_out)
        return;
    watch_locked(r, EPOLL_CTL_MOD, EPOLLRDHUP | (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u));
    conn->armed = in;
    conn->armed_out = out;
    if (in)
        r->svc->attend(r->svc); /* for the time at which a silent server is given up */
}

void lk_conn_install_locked(struct lk_redis *r, struct lk_link *link)
{
    struct lk_conn *conn = &r->conn;
    conn->link = link;
    conn->state = LK_CONN_UP;
    conn->proven = conn->blocked = conn->armed = conn->armed_out = conn->polling = false;
    conn->out.len = conn->going.len = conn->gone = 0;
    watch_locked(r, EPOLL_CTL_ADD, EPOLLRDHUP);
    if (link->server_us != 0)
        lk_server_time_set(r, link->server_us,
                           lk_redis_now(r) - (lk_system_now() - link->server_at)); /* on our clock */
    r->redirect[0] = '\0';
    if (r->sub.link != NULL && strcmp(r->sub.link->peer, link->peer) != 0)
        lk_subscriber_lose_locked(r); /* messages come from the master alone */
    if (r->suspect) {
        r->suspect = false;
        r->svc->suspect(r->svc, false);
        lk_note_locked(r, LOCKER_LOG_INFO, "redis: connected to %s again", link->peer);
    }
    pthread_cond_broadcast(&r->changed);
}

/* Everything that awaits an answer learns that none will come. */
static void settle_locked(struct lk_redis *r)
{
    struct lk_conn *conn = &r->conn;
    while (conn->first != NULL) {
        struct lk_op *op = pop_locked(conn);
        if (op->waited) {
            atomic_int *word = &op->state;
            atomic_store_explicit(word, LK_OP_CUT, memory_order_release); /* as ANSWERED */
            futex_wake(word);
        } else {
            if (op->done != NULL)
                op->done(r, op->context, NULL);
            op_free_locked(r, op);
        }
    }
}

void lk_conn_fail_locked(struct lk_redis *r, const char *why)
{
    struct lk_conn *conn = &r->conn;
    if (conn->state != LK_CONN_UP)
        return;
    conn->state = LK_CONN_BROKEN;
    lk_note_locked(r, LOCKER_LOG_INFO, "redis: lost the connection to %s: %s", conn->link->peer, why);
    locker_error_set(&r->last_error.error, LOCKER_UNAVAILABLE, 0,
                     "the connection to Redis at %s was lost: %s", conn->link->peer, why);
    r->last_error.permanent = false;
    if (!r->suspect) {
        r->suspect = true;
        r->svc->suspect(r->svc, true);
    }
    if (!conn->proven) /* it was of no use: don't come back at once */
        lk_back_off_locked(r);
    settle_locked(r);
    lk_kick_locked_reader(r);
    lk_conn_reap_locked(r);
}

/* Close a connection that was given up, once no thread is inside it. */
void lk_conn_reap_locked(struct lk_redis *r)
{
    struct lk_conn *conn = &r->conn;
    if (conn->state != LK_CONN_BROKEN || conn->reading || conn->writing)
        return;
    (void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, conn->link->fd, NULL);
    lk_link_free(conn->link, true);
    conn->link = NULL;
    conn->state = LK_CONN_DOWN;
    buffer_empty(&conn->out);
    buffer_empty(&conn->going);
    lk_connector_want_locked(r);
}
