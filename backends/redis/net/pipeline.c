/*
 * pipeline.c: who sends and who receives on the command connection. There is no I/O thread: a caller appends
 * its command; if nobody is sending it sends, for all; if nobody is receiving it receives, for all, until its
 * own answer is there, and then leaves the receiving to another caller that waits, or to the keeper when only
 * answers are outstanding that nobody waits for. One caller alone makes the system calls that a blocking
 * client would make, and many callers' commands travel together.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* GATHER_MAX, in bytes, is a dozen callers' commands. If all were waited for, the server would idle while the
 * callers work, and they while it works. */
enum { RECEIVE_MAX = 16384, GATHER_MAX = 2048, SPIN_SHIFT_MAX = 10, FLIGHT_LOCAL = 2048 };
static const int64_t spin_ns = 100 * LK_US;
static const int64_t spin_step_max_ns = 40 * LK_US; /* a step that took longer: others need the processor */
static const int64_t yield_max_ns = 5 * LK_US;      /* a yield that took longer: another has had it */

/* ------------------------------------------------------------------ sending ---- */

/* Send what was appended, unless another thread is sending (it takes this along) or there is no room. */
void lk_flush_locked(struct lk_redis *r)
{
    struct lk_conn *conn = &r->conn;
    while (conn->state == LK_CONN_UP && !conn->writing && !conn->blocked &&
           (conn->out.len > 0 || conn->gone < conn->going.len || conn->link->unsent)) {
        if (conn->gone == conn->going.len) {
            const struct lk_buffer empty = conn->going;
            conn->going = conn->out;
            conn->out = empty;
            conn->out.len = 0;
            conn->gone = 0;
        }
        struct lk_link *link = conn->link;
        conn->writing = true;
        pthread_mutex_unlock(&r->lock);
        const ssize_t n = lk_link_send(link, conn->going.data + conn->gone, conn->going.len - conn->gone);
        const int failure = n < 0 ? errno : 0;
        pthread_mutex_lock(&r->lock);
        conn->writing = false;
        if (n > 0)
            conn->gone += (size_t)n;
        if (conn->state == LK_CONN_UP && (failure == EAGAIN || link->unsent)) {
            conn->blocked = true;
            lk_kick_locked_reader(r);
        } else if (failure != 0 && failure != EAGAIN) {
            lk_conn_fail_locked(r, strerror(failure));
        }
        lk_conn_reap_locked(r);
    }
}

void lk_kick_locked_reader(struct lk_redis *r)
{
    const uint64_t one = 1;
    if (r->conn.polling && write(r->kick_fd, &one, sizeof(one)) < 0) {
        /* EAGAIN: it is kicked already. */
    }
}

/* ------------------------------------------------------------------ receiving ---- */

/* Looking did not pay: leave it out for a while, twice as long each time. */
static void spin_less(struct lk_conn *conn)
{
    if (conn->spin_failures < SPIN_SHIFT_MAX)
        conn->spin_failures++;
    conn->spin_skip = 1u << conn->spin_failures;
}

/* Look at the socket for a while instead of sleeping: waking up from sleep costs as much as Redis takes to
 * answer. Not where the answer comes by the first yield, because it is the server that had our processor: it
 * would go to sleep for want of work before we get it back, and asleep we are woken while it is still up. */
static ssize_t receive_spinning(struct lk_redis *r, struct lk_link *link, char *data, size_t cap)
{
    struct lk_conn *conn = &r->conn;
    if (conn->spin_skip > 0) {
        conn->spin_skip--;
        errno = EAGAIN;
        return -1;
    }
    const int64_t start = lk_redis_now(r);
    for (int64_t before = start;;) {
        sched_yield();
        const int64_t now = lk_redis_now(r);
        const ssize_t n = lk_link_receive(link, data, cap);
        const bool came = n >= 0 || errno != EAGAIN;
        const bool shared = came && before == start && now - start > yield_max_ns;
        if (shared || (!came && (now - start > spin_ns || now - before > spin_step_max_ns)))
            spin_less(conn);
        else if (came)
            conn->spin_failures = 0;
        else {
            before = now;
            continue;
        }
        return n;
    }
}

/* Receive, asleep if need be, until `until` or until kicked: -1 and EAGAIN then. */
static ssize_t receive_patiently(struct lk_redis *r, struct lk_link *link, char *data, size_t cap,
                                 int64_t until, bool *writable)
{
    struct pollfd waits[2] = {{.fd = link->fd, .events = (short)(*writable ? POLLIN | POLLOUT : POLLIN)},
                              {.fd = r->kick_fd, .events = POLLIN}};
    ssize_t n = -1;
    *writable = false;
    if (waits[0].events == POLLIN) {
        n = receive_spinning(r, link, data, cap);
        if (n >= 0 || errno != EAGAIN)
            return n;
    }
    if (link->tls != NULL) { /* it may hold bytes that poll doesn't see */
        n = lk_link_receive(link, data, cap);
        if (n >= 0 || errno != EAGAIN)
            return n;
    }
    int64_t now = lk_redis_now(r);
    if (waits[0].events == POLLIN && link->tls == NULL && now < until - LK_NAP_NS) {
        n = lk_link_nap(link, data, cap); /* one system call; a kick waits till it is over */
        if (n >= 0 || errno != EAGAIN)
            return n;
        now = lk_redis_now(r);
    }
    if (lk_poll_until(waits, 2, now, until) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    *writable = (waits[0].revents & POLLOUT) != 0;
    uint64_t kicks;
    if (waits[1].revents != 0 && read(r->kick_fd, &kicks, sizeof(kicks)) < 0) {
        /* Another reader took the kick; this one looks around all the same. */
    }
    if ((waits[0].revents & ~POLLOUT) != 0)
        return lk_link_receive(link, data, cap);
    errno = EAGAIN;
    return -1;
}

/* Match the replies that are complete with their ops. Called without lock, returns with it; `reading` is set.
 * False: the stream is broken. */
static bool deliver(struct lk_redis *r, struct lk_link *link, const struct lk_op *self)
{
    redisReply *replies[LK_REPLIES_MAX];
    struct lk_wakes wakes;
    int got = 1;
    for (;;) {
        size_t count = 0;
        while (count < LK_REPLIES_MAX && (got = lk_link_next_reply(link, &replies[count])) > 0)
            count++;
        pthread_mutex_lock(&r->lock);
        lk_conn_complete_locked(r, self, replies, count, &wakes);
        if (got <= 0 && wakes.ops == 0)
            return got == 0;
        /* Those that are woken will have more to say soon: it is sent in one go. */
        if (wakes.ops >= 2)
            r->conn.gathering = true;
        pthread_mutex_unlock(&r->lock);
        lk_wake_all(&wakes);
        if (got <= 0)
            break;
    }
    if (wakes.ops >= 2)
        sched_yield();
    pthread_mutex_lock(&r->lock);
    return got == 0;
}

void lk_read_turn_locked(struct lk_redis *r, const struct lk_op *self, int64_t until)
{
    struct lk_conn *conn = &r->conn;
    struct lk_link *link = conn->link;
    char data[RECEIVE_MAX];
    bool writable = conn->blocked;
    const char *failure = NULL;
    conn->reading = true;
    conn->polling = self != NULL;
    pthread_mutex_unlock(&r->lock);
    const ssize_t n = self != NULL ? receive_patiently(r, link, data, sizeof(data), until, &writable)
                                   : lk_link_receive(link, data, sizeof(data));
    if (n > 0) {
        const int refused = lk_link_feed(link, data, (size_t)n);
        if (refused != 0)
            failure = refused == ENOMEM ? "out of memory" : "what came is no reply of Redis, or far too long";
        if (!deliver(r, link, self) && failure == NULL)
            failure = "what came is not the Redis protocol";
    } else {
        if (n == 0)
            failure = "the server closed it";
        else if (errno != EAGAIN)
            failure = strerror(errno);
        pthread_mutex_lock(&r->lock);
    }
    conn->reading = conn->polling = conn->gathering = false;
    if (self != NULL && writable)
        conn->blocked = false;
    if (failure != NULL)
        lk_conn_fail_locked(r, failure);
    lk_conn_reap_locked(r);
}

/* ------------------------------------------------------------------ whose turn it is ---- */

void lk_pump_locked(struct lk_redis *r)
{
    struct lk_conn *conn = &r->conn;
    if (!conn->gathering)
        lk_flush_locked(r);
    if (conn->state != LK_CONN_UP || conn->reading)
        return;
    if (conn->waited > 0) {
        struct lk_op *op = conn->first;
        while (op != NULL && !op->waited)
            op = op->next;
        if (op != NULL)
            lk_nudge_locked(r, op);
    }
    lk_conn_arm_locked(r);
}

static bool interrupted_locked(const struct lk_call *call)
{
    return call->claim != NULL && call->claim->interrupted;
}

/* The caller goes; the answer will find nobody. A server that has been silent for too long is given up. */
static void abandon_locked(struct lk_redis *r, struct lk_op *op)
{
    op->waited = false;
    op->slot = NULL;
    r->conn.waited--;
    if (lk_redis_now(r) - r->conn.first->sent >= r->set.command_timeout_ns)
        lk_conn_fail_locked(r, "the server does not answer");
    lk_pump_locked(r);
}

/* Send, receive or sleep until the op has its answer. Called with lock, returns without. */
static enum lk_outcome await_unlock(struct lk_redis *r, struct lk_call *call, struct lk_op *op)
{
    enum lk_outcome outcome = LK_CALL_ANSWERED;
    int state;
    for (;;) {
        state = atomic_load_explicit(&op->state, memory_order_acquire);
        if (state == LK_OP_ANSWERED || state == LK_OP_CUT)
            break;
        if (interrupted_locked(call) || lk_redis_now(r) >= call->until) {
            outcome = interrupted_locked(call) ? LK_CALL_INTERRUPTED : LK_CALL_LATE;
            if (call->claim != NULL)
                call->claim->op = NULL;
            abandon_locked(r, op);
            pthread_mutex_unlock(&r->lock);
            return outcome;
        }
        if (!r->conn.gathering || r->conn.out.len >= GATHER_MAX)
            lk_flush_locked(r);
        state = atomic_load_explicit(&op->state, memory_order_acquire);
        if (state == LK_OP_ANSWERED || state == LK_OP_CUT)
            break;
        if (interrupted_locked(call))
            continue; /* while lock was released to send: there was nobody to nudge or to kick yet */
        if (!r->conn.reading) {
            lk_read_turn_locked(r, op, lk_earlier(call->until, r->conn.due));
            lk_ops_wake_due_locked(r, lk_redis_now(r));
            continue;
        }
        /* lock is held: whatever happens from here on makes the gate's count another */
        const unsigned seen = atomic_load_explicit(&op->gate->word, memory_order_relaxed);
        pthread_mutex_unlock(&r->lock);
        lk_op_sleep(op, seen);
        /* acquire: reply was written before ANSWERED was */
        state = atomic_load_explicit(&op->state, memory_order_acquire);
        if (state == LK_OP_ANSWERED || state == LK_OP_CUT)
            goto answered;
        pthread_mutex_lock(&r->lock);
    }
    if (r->conn.first != NULL || r->conn.out.len > 0)
        lk_pump_locked(r);
    pthread_mutex_unlock(&r->lock);
answered:
    call->reply = op->reply;
    for (unsigned i = 0; i < op->early_count; i++)
        call->early[i] = op->early[i];
    op->early_count = 0; /* they are the caller's */
    lk_op_return(r, op);
    return state == LK_OP_ANSWERED ? LK_CALL_ANSWERED : LK_CALL_CUT;
}

/* Wait for a connection. ANSWERED: there is one. */
static enum lk_outcome wait_up_locked(struct lk_redis *r, const struct lk_call *call, locker_error *err)
{
    int64_t since = LOCKER_NEVER;
    if (call->prompt && r->conn.state != LK_CONN_UP)
        since = lk_connector_hurry_locked(r);
    while (r->conn.state != LK_CONN_UP) {
        if (interrupted_locked(call))
            return LK_CALL_INTERRUPTED;
        const bool known = lk_has_failed_since_locked(r, since);
        const bool over = lk_redis_now(r) >= call->until || (known && r->deserted);
        const bool refused = r->last_error.permanent && r->failures > 0 && (known || !call->prompt);
        if (over || refused) {
            if (err != NULL)
                *err = r->last_error.error;
            return refused ? LK_CALL_REFUSED : LK_CALL_AWAY;
        }
        r->clock->wait(r->clock->context, &r->changed, &r->lock, call->until);
        if (call->prompt && r->conn.state != LK_CONN_UP) /* an attempt that began before may have failed */
            (void)lk_connector_hurry_locked(r);
    }
    return LK_CALL_ANSWERED;
}

static enum lk_outcome send_and_await(struct lk_redis *r, struct lk_call *call, const char *bytes, size_t len,
                                      size_t count, locker_error *err)
{
    pthread_mutex_lock(&r->lock);
    const enum lk_outcome up = wait_up_locked(r, call, err);
    if (up != LK_CALL_ANSWERED) {
        pthread_mutex_unlock(&r->lock);
        return up;
    }
    call->on = atomic_load_explicit(&r->connection, memory_order_relaxed); /* lock is held */
    if (call->only != 0 && call->only != call->on) {
        pthread_mutex_unlock(&r->lock);
        return LK_CALL_STALE;
    }
    call->era = atomic_load_explicit(&r->era, memory_order_relaxed);
    call->least = atomic_load_explicit(&r->fence_least, memory_order_relaxed);
    struct lk_op *op = lk_op_get_locked(r);
    if (op == NULL || !lk_buffer_add(&r->conn.out, bytes, len)) {
        pthread_mutex_unlock(&r->lock);
        if (op != NULL)
            lk_op_return(r, op);
        locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
        return LK_CALL_NOMEM;
    }
    op->waited = true;
    op->early_wanted = (unsigned)count - 1;
    op->sent = call->sent = lk_redis_now(r);
    op->until = call->until;
    if (call->claim != NULL) {
        op->slot = &call->claim->op;
        call->claim->op = op;
    }
    lk_op_append_locked(r, op);
    return await_unlock(r, call, op);
}

enum lk_outcome lk_call_flight(struct lk_redis *r, struct lk_call *call, const struct lk_argv *argv,
                               size_t count, locker_error *err)
{
    char local[FLIGHT_LOCAL], *bytes = local;
    local[0] = 0; /* gcc at -O3 does not see lk_argv_put() fill it */
    size_t room = 0;
    call->reply = NULL;
    for (size_t i = 0; i < LK_EARLY_MAX; i++)
        call->early[i] = NULL;
    call->sent = 0;
    for (size_t i = 0; i < count; i++)
        room += lk_argv_room(&argv[i]);
    if (room > sizeof(local))
        bytes = malloc(room);
    if (bytes == NULL) {
        locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
        return LK_CALL_NOMEM;
    }
    char *end = bytes;
    for (size_t i = 0; i < count; i++)
        end = lk_argv_put(&argv[i], end);
    const enum lk_outcome outcome = send_and_await(r, call, bytes, (size_t)(end - bytes), count, err);
    if (bytes != local)
        free(bytes);
    return outcome;
}

enum lk_outcome lk_call(struct lk_redis *r, struct lk_call *call, const struct lk_argv *argv,
                        locker_error *err)
{
    return lk_call_flight(r, call, argv, 1, err);
}

void lk_call_clear(struct lk_call *call)
{
    for (size_t i = 0; i < LK_EARLY_MAX; i++) {
        if (call->early[i] != NULL)
            freeReplyObject(call->early[i]);
        call->early[i] = NULL;
    }
    if (call->reply != NULL)
        freeReplyObject(call->reply);
    call->reply = NULL;
}

enum lk_outcome lk_call_script(struct lk_redis *r, struct lk_call *call, enum lk_script which,
                               const struct lk_keys *keys, const struct lk_argv *fill, locker_error *err)
{
    struct lk_argv a;
    uint64_t least[LK_LEAST_WORDS];
    for (bool whole = false;;) {
        call->only = atomic_load_explicit(&r->connection, memory_order_acquire); /* before its fence_least */
        for (size_t i = 0; i < LK_LEAST_WORDS; i++)
            least[i] = atomic_load_explicit(&r->least_text[i], memory_order_relaxed);
        lk_script_begin(r, &a, which, whole, keys);
        for (int i = 0; i < fill->argc; i++)
            lk_argv_add(&a, fill->argv[i], fill->len[i]);
        lk_argv_text(&a, (const char *)least);
        const enum lk_outcome outcome = lk_call(r, call, &a, err);
        if (outcome == LK_CALL_STALE)
            continue;
        if (outcome != LK_CALL_ANSWERED || lk_reply_fault(call->reply) != LK_FAULT_NOSCRIPT || whole)
            return outcome;
        freeReplyObject(call->reply);
        whole = true;
    }
}
