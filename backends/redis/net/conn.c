/*
 * conn.c: the command connection's state: commands appended, answers matched with them in order, and what
 * happens when it is lost. Who sends and receives is pipeline.c's matter.
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
static const int64_t look_after_ns = 2 * LK_MS;

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

enum { BLOCK_OPS = 32 }; /* as many as a gate has bits */

struct lk_op_block {
    struct lk_op_block *next;
    struct lk_gate gate;
    struct lk_op ops[BLOCK_OPS];
};

static void add_ops_locked(struct lk_redis *r)
{
    struct lk_op_block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return;
    block->next = r->op_blocks;
    r->op_blocks = block;
    for (unsigned i = BLOCK_OPS; i-- > 0;) {
        struct lk_op *op = &block->ops[i];
        op->gate = &block->gate;
        op->bit = UINT32_C(1) << i;
        op->next = r->free_ops;
        r->free_ops = op;
    }
}

struct lk_op *lk_op_get_locked(struct lk_redis *r)
{
    if (r->free_ops == NULL) /* acquire: what was written to a returned op is seen before it is used again */
        r->free_ops = atomic_exchange_explicit(&r->returned_ops, NULL, memory_order_acquire);
    if (r->free_ops == NULL)
        add_ops_locked(r);
    struct lk_op *op = r->free_ops;
    if (op == NULL)
        return NULL;
    r->free_ops = op->next;
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

void lk_ops_free(struct lk_redis *r)
{
    struct lk_op_block *next;
    for (struct lk_op_block *block = r->op_blocks; block != NULL; block = next) {
        next = block->next;
        for (unsigned i = 0; i < BLOCK_OPS; i++)
            drop_early(&block->ops[i]);
        free(block);
    }
    free(r->conn.out.data);
    free(r->conn.going.data);
}

void lk_op_append_locked(struct lk_redis *r, struct lk_op *op)
{
    op->next = NULL;
    *r->conn.last = op;
    r->conn.last = &op->next;
    if (!op->waited)
        return;
    r->conn.waited++;
    if (op->until < r->conn.due) {
        r->conn.due = op->until;
        lk_kick_locked_reader(r);
    }
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

/* The states were set before. */
static void wake_gate(struct lk_gate *gate, uint32_t bits)
{
    atomic_fetch_add_explicit(&gate->word, 1, memory_order_relaxed); /* states have an order of their own */
    (void)syscall(SYS_futex, &gate->word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

static void wakes_add(struct lk_wakes *wakes, const struct lk_op *op)
{
    size_t i = 0;
    while (i < wakes->gates && wakes->gate[i] != op->gate)
        i++;
    if (i == wakes->gates) {
        wakes->gate[i] = op->gate;
        wakes->bits[i] = 0;
        wakes->gates++;
    }
    wakes->bits[i] |= op->bit;
    wakes->ops++;
}

void lk_wake_all(const struct lk_wakes *wakes)
{
    for (size_t i = 0; i < wakes->gates; i++)
        wake_gate(wakes->gate[i], wakes->bits[i]);
}

void lk_op_sleep(const struct lk_op *op, unsigned seen)
{
    (void)syscall(SYS_futex, &op->gate->word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, op->bit);
}

void lk_ops_wake_due_locked(struct lk_redis *r, int64_t now)
{
    if (now < r->conn.due)
        return;
    r->conn.due = LOCKER_NEVER;
    for (const struct lk_op *op = r->conn.first; op != NULL; op = op->next) {
        if (!op->waited)
            continue;
        if (op->until <= now)
            wake_gate(op->gate, op->bit);
        else
            r->conn.due = lk_earlier(r->conn.due, op->until);
    }
}

void lk_nudge_locked(struct lk_redis *r, struct lk_op *op)
{
    (void)r;
    wake_gate(op->gate, op->bit);
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
    wakes->ops = wakes->gates = 0;
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
                wakes_add(wakes, op);
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
 * when a caller reads. Those answers tell of many leases and of nothing that is urgent, and come one by one:
 * so it looks once, a little later, and has itself woken by what comes only for what is missing then. */
void lk_conn_arm_locked(struct lk_redis *r)
{
    struct lk_conn *conn = &r->conn;
    if (conn->state != LK_CONN_UP)
        return;
    if (conn->reading || conn->first == NULL || conn->waited > 0) {
        conn->look_at = 0;
    } else if (conn->look_at == 0) {
        conn->look_at = lk_redis_now(r) + look_after_ns;
        if (!r->dispatching)
            r->svc->attend(r->svc);
    }
    const bool in = conn->look_at == LOCKER_NEVER;
    const bool out = !conn->reading && conn->blocked;
    if (in == conn->armed && out == conn->armed_out)
        return;
    watch_locked(r, EPOLL_CTL_MOD, EPOLLRDHUP | (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u));
    conn->armed = in;
    conn->armed_out = out;
}

/* Whether both are known and the same. */
static bool same_id(const char *a, const char *b)
{
    return a[0] != '\0' && strcmp(a, b) == 0;
}

static void set_least_locked(struct lk_redis *r, uint64_t least)
{
    uint64_t words[LK_LEAST_WORDS] = {0};
    (void)lk_number_text((char *)words, least);
    for (size_t i = 0; i < LK_LEAST_WORDS; i++)
        atomic_store_explicit(&r->least_text[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&r->fence_least, least, memory_order_relaxed);
}

/* What is known of the server that we were connected to before may not be true of this one. */
static void meet_server_locked(struct lk_redis *r, const struct lk_link *link)
{
    const bool same_run = same_id(link->server.run, r->server.run);
    if (!same_run)
        r->old.count = 0;
    if (!same_run || !same_id(link->server.replication, r->server.replication)) {
        atomic_fetch_add_explicit(&r->era, 1, memory_order_relaxed);
        lk_subscriber_lose_locked(r); /* messages come from the master alone */
    }
    r->server = link->server;
    set_least_locked(r, link->server_us > 0 ? (uint64_t)link->server_us : LK_FENCE_MOST);
    /* release: whoever sees the new count sees its fence_least, or a later one's */
    atomic_fetch_add_explicit(&r->connection, 1, memory_order_release);
}

static void old_is_gone_locked(struct lk_redis *r, void *context, redisReply *reply)
{
    struct lk_old_clients *old = &r->old;
    const int64_t id = (int64_t)(intptr_t)context;
    size_t i = 0;
    if (reply == NULL)
        return;
    while (i < old->count && old->id[i] != id)
        i++;
    if (i < old->count)
        old->id[i] = old->id[--old->count];
}

/* End the connections before this one, ahead of all commands on this one: what was sent on them may be on its
 * way still, and would be carried out for nobody. A user without the right to that is denied it. */
static void end_old_locked(struct lk_redis *r)
{
    char id[24];
    for (size_t i = 0; i < r->old.count; i++) {
        struct lk_argv a = {0};
        (void)lk_number_text(id, (uint64_t)r->old.id[i]);
        lk_argv_text(&a, "CLIENT");
        lk_argv_text(&a, "KILL");
        lk_argv_text(&a, "ID");
        lk_argv_text(&a, id);
        (void)lk_submit_argv_locked(r, &a, old_is_gone_locked, (void *)(intptr_t)r->old.id[i]);
    }
}

/* The connection is given up here; whether it has ended there is not known. */
static void keep_old_locked(struct lk_redis *r)
{
    struct lk_old_clients *old = &r->old;
    if (r->conn.link->client_id == 0)
        return;
    if (old->count == LK_OLD_CLIENTS)
        memmove(&old->id[0], &old->id[1], --old->count * sizeof(old->id[0]));
    old->id[old->count++] = r->conn.link->client_id;
}

void lk_conn_install_locked(struct lk_redis *r, struct lk_link *link)
{
    struct lk_conn *conn = &r->conn;
    conn->link = link;
    conn->state = LK_CONN_UP;
    conn->proven = conn->blocked = conn->armed = conn->armed_out = conn->polling = false;
    conn->out.len = conn->going.len = conn->gone = 0;
    conn->look_at = 0;
    conn->due = LOCKER_NEVER;
    watch_locked(r, EPOLL_CTL_ADD, EPOLLRDHUP);
    if (link->server_us != 0)
        lk_server_time_set(r, link->server_us,
                           lk_redis_now(r) - (lk_system_now() - link->server_at)); /* on our clock */
    r->redirect[0] = '\0';
    meet_server_locked(r, link);
    end_old_locked(r);
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
            atomic_store_explicit(&op->state, LK_OP_CUT, memory_order_release); /* as ANSWERED */
            wake_gate(op->gate, op->bit);
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
    keep_old_locked(r);
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
