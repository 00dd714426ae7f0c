/* pipeline.c: sending and receiving on the command connection. There is no I/O thread. A caller appends
 * its command. If no thread sends, the caller sends for all. If no thread receives, the caller receives
 * for all until its own answer comes (the leader). Then it leaves the receiving to another waiting caller
 * (a follower), or to the keeper if no thread waits for the answers in flight. So a single caller makes
 * the same system calls as a blocking client, and many callers' commands travel together. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lk_poll.h"
#include "lk_wakeup.h"
#include "pipeline.h"

enum { BLOCK_OPS = 32 }; /* as many as a gate has bits */

struct lk_redis_op_block {
    struct lk_redis_op_block *next;
    lk_redis_gate gate;
    lk_redis_op ops[BLOCK_OPS];
};

static void add_ops(lk_redis_ops *ops)
{
    struct lk_redis_op_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return;
    block->next = ops->blocks;
    ops->blocks = block;
    for (unsigned i = BLOCK_OPS; i-- > 0;) {
        lk_redis_op *op = &block->ops[i];
        op->gate = &block->gate;
        op->bit = UINT32_C(1) << i;
        op->next = ops->free;
        ops->free = op;
    }
}

lk_redis_op *lk_redis_op_get_locked(lk_redis_ops *ops)
{
    if (ops->free == NULL) /* acquire: writes to a returned op are seen before it is used again */
        ops->free = atomic_exchange_explicit(&ops->returned, NULL, memory_order_acquire);
    if (ops->free == NULL)
        add_ops(ops);
    lk_redis_op *op = ops->free;
    if (op == NULL)
        return NULL;
    ops->free = op->next;
    *op = (lk_redis_op){.gate = op->gate, .bit = op->bit}; /* the state becomes WAITING */
    return op;
}

void lk_redis_op_return(lk_redis_ops *ops, lk_redis_op *op)
{
    lk_redis_op *top = LK_READ(ops->returned);
    do {
        op->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&ops->returned, &top, op, memory_order_release,
                                                    memory_order_relaxed));
}

static void drop_replies(lk_redis_op *op)
{
    while (op->count > 0)
        freeReplyObject(op->reply[--op->count]);
}

void lk_redis_op_free_locked(lk_redis_ops *ops, lk_redis_op *op)
{
    drop_replies(op);
    op->next = ops->free;
    ops->free = op;
}

void lk_redis_ops_destroy(lk_redis_ops *ops)
{
    struct lk_redis_op_block *next;
    for (struct lk_redis_op_block *block = ops->blocks; block != NULL; block = next) {
        next = block->next;
        for (unsigned i = 0; i < BLOCK_OPS; i++)
            drop_replies(&block->ops[i]);
        free(block);
    }
}

static void wake_gate(lk_redis_gate *gate, uint32_t bits)
{
    atomic_fetch_add_explicit(&gate->word, 1, memory_order_relaxed); /* the ops' states carry the order */
    (void)syscall(SYS_futex, &gate->word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

void lk_redis_wakes_add(lk_redis_wakes *wakes, const lk_redis_op *op)
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

void lk_redis_wakes_all(const lk_redis_wakes *wakes)
{
    for (size_t i = 0; i < wakes->gates; i++)
        wake_gate(wakes->gate[i], wakes->bits[i]);
}

void lk_redis_op_sleep(const lk_redis_op *op, unsigned seen)
{
    (void)syscall(SYS_futex, &op->gate->word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, op->bit);
}

void lk_redis_op_wake(const lk_redis_op *op)
{
    wake_gate(op->gate, op->bit);
}

/* GATHER_MAX, in bytes, is about a dozen callers' commands. Waiting for all callers would idle the server
 * and the callers in turn. */
enum { RECEIVE_MAX = 16384, GATHER_MAX = 2048, SPIN_SHIFT_MAX = 10, TURNS_MAX = 16 };
static const int64_t spin_ns = 100 * LK_US;
static const int64_t spin_step_max_ns =
    40 * LK_US;                                /* after a longer step, other threads need the processor */
static const int64_t yield_max_ns = 5 * LK_US; /* after a longer yield, another thread had the processor */
static const int64_t look_after_ns = 2 * LK_MS;

bool lk_redis_pipeline_init(lk_redis_pipeline *p, lk_redis_shared *shared, lk_redis_reconnect *reconnect,
                            bool calls)
{
    p->shared = shared;
    p->reconnect = reconnect;
    p->last = &p->first;
    p->kick_fd = calls ? lk_wakeup_new() : -1;
    return !calls || p->kick_fd >= 0;
}

static void kick_reader_locked(const lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    if (p->polling)
        lk_wakeup_ring(p->kick_fd);
}

static void watch_locked(lk_redis_pipeline *p, int how, uint32_t events) LK_REDIS_LOCKED
{
    struct epoll_event event = {.events = events, .data = {.ptr = p}};
    (void)epoll_ctl(p->shared->epoll_fd, how, p->socket->fd, &event);
}

/* Let the keeper read answers that no thread waits for, and keep it from waking while a caller reads. Such
 * answers are about many leases, come one by one, and are not urgent. So the keeper looks once, a little
 * later, and has the epoll wake it only for answers that are still missing then. */
void lk_redis_pipeline_arm_locked(lk_redis_pipeline *p)
{
    if (p->state != LK_REDIS_UP)
        return;
    if (p->reading || p->first == NULL || p->waited > 0) {
        p->look_at = 0;
    } else if (p->look_at == 0) {
        p->look_at = lk_redis_now(p->shared) + look_after_ns;
        if (!p->shared->dispatching)
            p->shared->svc->attend(p->shared->svc);
    }
    const short in = p->look_at == LOCKER_NEVER ? POLLIN : 0;
    const short wanted = (short)(in | (p->reading ? 0 : p->blocked));
    if (wanted == p->armed)
        return;
    watch_locked(p, EPOLL_CTL_MOD, EPOLLRDHUP | (uint32_t)wanted);
    p->armed = wanted;
}

void lk_redis_pipeline_install_locked(lk_redis_pipeline *p, lk_redis_socket *socket)
{
    p->socket = socket;
    p->state = LK_REDIS_UP;
    p->proven = p->polling = p->avoided = false;
    p->blocked = p->armed = 0;
    p->out.len = p->going.len = p->gone = 0;
    p->look_at = p->answered = 0;
    LK_WRITE(p->heard_at, 0);
    p->due = p->patience_ns = LOCKER_NEVER;
    watch_locked(p, EPOLL_CTL_ADD, EPOLLRDHUP);
}

static lk_redis_op *pop_locked(lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    lk_redis_op *op = p->first;
    p->first = op->next;
    if (p->first == NULL) {
        p->last = &p->first;
        p->patience_ns = LOCKER_NEVER;
    }
    if (op->waited)
        p->waited--;
    if (op->caller != NULL)
        op->caller->op = NULL;
    return op;
}

/* End all ops without an answer. */
static void settle_locked(lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    while (p->first != NULL) {
        lk_redis_op *op = pop_locked(p);
        if (op->waited || op->kept) {
            atomic_store_explicit(&op->state, LK_REDIS_OP_CUT, memory_order_release); /* as for ANSWERED */
            lk_redis_op_wake(op);
        } else {
            if (op->done != NULL)
                op->done(op->context, NULL);
            lk_redis_op_free_locked(&p->ops, op);
        }
    }
}

void lk_redis_pipeline_settle(lk_redis_pipeline *p)
{
    lk_redis_lock(p->shared); /* `done` is called with it */
    p->state = LK_REDIS_DOWN;
    settle_locked(p);
    lk_redis_unlock(p->shared);
}

void lk_redis_pipeline_destroy(lk_redis_pipeline *p)
{
    lk_redis_socket_free(p->socket, false);
    lk_redis_ops_destroy(&p->ops);
    free(p->out.data);
    free(p->going.data);
    if (p->kick_fd >= 0)
        close(p->kick_fd);
}

/* Close a connection that was given up, once no thread is inside it. */
static void reap_locked(lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    if (p->state != LK_REDIS_BROKEN || p->reading || p->writing)
        return;
    (void)epoll_ctl(p->shared->epoll_fd, EPOLL_CTL_DEL, p->socket->fd, NULL);
    lk_redis_socket_free(p->socket, true);
    p->socket = NULL;
    p->state = LK_REDIS_DOWN;
    lk_buffer_empty(&p->out);
    lk_buffer_empty(&p->going);
    lk_redis_reconnect_want_locked(p->reconnect);
}

void lk_redis_pipeline_fail_locked(lk_redis_pipeline *p, const char *why)
{
    if (p->state != LK_REDIS_UP)
        return;
    p->state = LK_REDIS_BROKEN;
    p->lost(p->owner, why);
    if (!p->proven) /* the connection never served */
        lk_redis_reconnect_back_off_locked(p->reconnect);
    settle_locked(p);
    kick_reader_locked(p);
    reap_locked(p);
}

/* Add an op for the command that was put behind `out`, and append the command. NULL: no memory. */
static lk_redis_op *append_locked(lk_redis_pipeline *p, size_t len) LK_REDIS_LOCKED
{
    lk_redis_op *op = lk_redis_op_get_locked(&p->ops);
    if (op == NULL)
        return NULL;
    p->out.len += len;
    op->sent = lk_redis_now(p->shared);
    *p->last = op;
    p->last = &op->next;
    return op;
}

char *lk_redis_room_locked(lk_redis_pipeline *p, size_t len)
{
    return p->state == LK_REDIS_UP ? lk_buffer_room(&p->out, len) : NULL;
}

bool lk_redis_submit_locked(lk_redis_pipeline *p, const char *end, lk_redis_done done, void *context)
{
    lk_redis_op *op = append_locked(p, (size_t)(end - p->out.data) - p->out.len);
    if (op == NULL)
        return false;
    op->done = done;
    op->context = context;
    return true;
}

lk_redis_op *lk_redis_pipeline_keep_locked(lk_redis_pipeline *p, const lk_redis_command *a, size_t count)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++)
        room += lk_redis_command_room(&a[i]);
    char *const start = lk_buffer_room(&p->out, room), *end = start;
    if (start == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        end = lk_redis_command_put(&a[i], end);
    lk_redis_op *op = append_locked(p, (size_t)(end - start));
    if (op == NULL)
        return NULL;
    op->kept = true;
    op->wanted = (unsigned)count;
    return op;
}

void lk_redis_pipeline_want_locked(lk_redis_pipeline *p, lk_redis_op *op, int64_t until,
                                   lk_redis_caller *caller)
{
    op->kept = false;
    if (LK_READ(op->state) != LK_REDIS_OP_WAITING)
        return; /* it has its answers, and is in flight no more */
    op->waited = true;
    op->until = until;
    op->caller = caller;
    if (caller != NULL) {
        caller->op = op;
        caller->on = p;
    }
    p->waited++;
    if (until < p->due) {
        p->due = until;
        kick_reader_locked(p);
    }
}

lk_redis_op *lk_redis_pipeline_append_locked(lk_redis_pipeline *p, const lk_redis_command *a, size_t count,
                                             int64_t until, lk_redis_caller *caller)
{
    lk_redis_op *const op = lk_redis_pipeline_keep_locked(p, a, count);
    if (op != NULL)
        lk_redis_pipeline_want_locked(p, op, until, caller);
    return op;
}

static void wake_due_locked(lk_redis_pipeline *p, int64_t now) LK_REDIS_LOCKED
{
    if (now < p->due)
        return;
    p->due = LOCKER_NEVER;
    for (const lk_redis_op *op = p->first; op != NULL; op = op->next) {
        if (!op->waited)
            continue;
        if (op->until <= now)
            lk_redis_op_wake(op);
        else
            p->due = lk_time_earlier(p->due, op->until);
    }
}

/* Assign the replies to the ops in order. */
static void complete_locked(lk_redis_pipeline *p, const lk_redis_op *self, redisReply **replies, size_t count,
                            lk_redis_wakes *wakes) LK_REDIS_LOCKED
{
    wakes->ops = wakes->gates = 0;
    if (count > 0) {
        p->reconnect->failures = 0;
        p->proven = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (p->state != LK_REDIS_UP || p->first == NULL) {
            freeReplyObject(replies[i]);
            lk_redis_pipeline_fail_locked(p, "the server sent a reply without a request");
            continue;
        }
        lk_redis_op *op = p->first;
        op->reply[op->count++] = replies[i];
        if (op->count < op->wanted)
            continue;
        p->answered = op->sent;
        (void)pop_locked(p);
        if (op->waited || op->kept) {
            if (op->waited && op != self)
                lk_redis_wakes_add(wakes, op);
            /* release: the waiter reads op->reply without the mutex */
            atomic_store_explicit(&op->state, LK_REDIS_OP_ANSWERED, memory_order_release);
        } else {
            if (op->done != NULL)
                op->done(op->context, replies[i]);
            lk_redis_op_free_locked(&p->ops, op);
        }
    }
}

/* Send what was appended, unless another thread sends (it sends this too), or the socket has no room. */
static void flush_unlocking(lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    while (p->state == LK_REDIS_UP && !p->writing && !p->blocked &&
           (p->out.len > 0 || p->gone < p->going.len || p->socket->unsent)) {
        if (p->gone == p->going.len) {
            const lk_buffer empty = p->going;
            p->going = p->out;
            p->out = empty;
            p->out.len = 0;
            p->gone = 0;
        }
        lk_redis_socket *const socket = p->socket;
        p->writing = true;
        lk_redis_unlock(p->shared);
        const ssize_t n = lk_redis_socket_send(socket, p->going.data + p->gone, p->going.len - p->gone);
        const int failure = n < 0 ? errno : 0;
        const short waits = socket->send_waits;
        lk_redis_lock(p->shared);
        p->writing = false;
        if (n > 0)
            p->gone += (size_t)n;
        if (p->state == LK_REDIS_UP && (failure == EAGAIN || socket->unsent)) {
            p->blocked = waits;
            kick_reader_locked(p);
        } else if (failure != 0 && failure != EAGAIN) {
            lk_redis_pipeline_fail_locked(p, strerror(failure));
        }
        reap_locked(p);
    }
}

/* Return true if nothing has come: errno is EAGAIN. */
static bool is_nothing(ssize_t n)
{
    return n < 0 && errno == EAGAIN;
}

/* Spin less often, because it did not pay: skip it for a while, twice as long each time. */
static void spin_less(lk_redis_pipeline *p)
{
    if (p->spin_failures < SPIN_SHIFT_MAX)
        p->spin_failures++;
    p->spin_skip = 1u << p->spin_failures;
}

/* Poll the socket for a while instead of sleeping, because waking up costs as much time as Redis takes to
 * answer. Do not spin if the answer comes by the first yield: then the server had our processor, and would
 * go to sleep before we get it back. If we sleep instead, we are woken while the server is still awake. */
static ssize_t receive_spinning(lk_redis_pipeline *p, lk_redis_socket *socket, char *data, size_t cap)
{
    if (p->spin_skip > 0) {
        p->spin_skip--;
        errno = EAGAIN;
        return -1;
    }
    const int64_t start = lk_redis_now(p->shared);
    for (int64_t before = start;;) {
        sched_yield();
        const int64_t now = lk_redis_now(p->shared);
        const ssize_t n = lk_redis_socket_receive(socket, data, cap);
        const bool came = !is_nothing(n);
        const bool shared = came && before == start && now - start > yield_max_ns;
        if (shared || (!came && (now - start > spin_ns || now - before > spin_step_max_ns)))
            spin_less(p);
        else if (came)
            p->spin_failures = 0;
        else {
            before = now;
            continue;
        }
        return n;
    }
}

/* Receive, asleep if necessary, until `until` or until kicked (then -1 and EAGAIN). *blocked: the poll
 * events to wait for before the next send; 0 when they came. A thread that sends by TLS and must read
 * first goes on after each look, whatever was read. */
static ssize_t receive_patiently(lk_redis_pipeline *p, lk_redis_socket *socket, char *data, size_t cap,
                                 int64_t until, short *blocked)
{
    struct pollfd waits[2] = {{.fd = socket->fd, .events = (short)(POLLIN | *blocked)},
                              {.fd = p->kick_fd, .events = POLLIN}};
    const bool only_reads = *blocked == 0;
    ssize_t n = -1;
    errno = EAGAIN;
    if (*blocked == POLLIN)
        *blocked = 0;
    if (only_reads)
        n = receive_spinning(p, socket, data, cap);
    if (is_nothing(n) && socket->tls != NULL) /* TLS may hold bytes that poll does not see */
        n = lk_redis_socket_receive(socket, data, cap);
    if (!is_nothing(n))
        return n;
    int64_t now = lk_redis_now(p->shared);
    if (only_reads && socket->tls == NULL && now < until - LK_REDIS_NAP_NS) {
        n = lk_redis_socket_nap(socket, data, cap); /* a single system call; a kick waits until it ends */
        if (!is_nothing(n))
            return n;
        now = lk_redis_now(p->shared);
    }
    if (lk_poll_until(waits, 2, now, until) > 0) {
        if ((waits[0].revents & *blocked) != 0)
            *blocked = 0;
        if (waits[1].revents != 0)
            lk_wakeup_clear(p->kick_fd);
        if ((waits[0].revents & ~POLLOUT) != 0)
            return lk_redis_socket_receive(socket, data, cap);
    }
    errno = EAGAIN;
    return -1;
}

/* Assign complete replies to their ops. Returns with the mutex, while `reading` is set. False: the stream
 * is broken. */
static bool deliver(lk_redis_pipeline *p, lk_redis_socket *socket, const lk_redis_op *self)
    LK_ACQUIRE(lk_redis_mutex)
{
    redisReply *replies[LK_REDIS_REPLIES_MAX];
    lk_redis_wakes wakes;
    int got = 1;
    for (;;) {
        size_t count = 0;
        while (count < LK_REDIS_REPLIES_MAX &&
               (got = lk_redis_socket_next_reply(socket, &replies[count])) > 0)
            count++;
        lk_redis_lock(p->shared);
        complete_locked(p, self, replies, count, &wakes);
        if (got <= 0 && wakes.ops == 0)
            return got == 0;
        /* Woken waiters will send new commands soon, which go out together. */
        if (wakes.ops >= 2)
            p->gathering = true;
        lk_redis_unlock(p->shared);
        lk_redis_wakes_all(&wakes);
        if (got <= 0)
            break;
    }
    if (wakes.ops >= 2)
        sched_yield();
    lk_redis_lock(p->shared);
    return got == 0;
}

/* Read for one turn. `self`: the thread's op; NULL: the keeper, which does not wait. */
static void read_turn_unlocking(lk_redis_pipeline *p, const lk_redis_op *self, int64_t until) LK_REDIS_LOCKED
{
    lk_redis_socket *const socket = p->socket;
    char data[RECEIVE_MAX];
    const short was_blocked = p->blocked;
    short blocked = was_blocked;
    const char *failure = NULL;
    p->reading = true;
    p->polling = self != NULL;
    lk_redis_unlock(p->shared);
    const ssize_t n = self != NULL ? receive_patiently(p, socket, data, sizeof data, until, &blocked)
                                   : lk_redis_socket_receive(socket, data, sizeof data);
    if (n > 0) {
        LK_WRITE(p->heard_at, lk_redis_now(p->shared));
        const int refused = lk_redis_socket_feed(socket, data, (size_t)n);
        if (refused != 0)
            failure = refused == ENOMEM ? "out of memory"
                                        : "the reply does not follow the Redis protocol, or is too long";
        if (!deliver(p, socket, self) && failure == NULL)
            failure = "the reply does not follow the Redis protocol";
    } else {
        if (n == 0)
            failure = "the server closed it";
        else if (errno != EAGAIN)
            failure = strerror(errno);
        lk_redis_lock(p->shared);
    }
    p->reading = p->polling = p->gathering = false;
    if (self != NULL && was_blocked != 0 && blocked == 0) /* a send may have been blocked meanwhile */
        p->blocked = 0;
    if (failure != NULL)
        lk_redis_pipeline_fail_locked(p, failure);
    reap_locked(p);
}

void lk_redis_pump_unlocking(lk_redis_pipeline *p)
{
    if (!p->gathering)
        flush_unlocking(p);
    if (p->state != LK_REDIS_UP || p->reading)
        return;
    if (p->waited > 0) {
        lk_redis_op *op = p->first;
        while (op != NULL && !op->waited)
            op = op->next;
        if (op != NULL)
            lk_redis_op_wake(op);
    }
    lk_redis_pipeline_arm_locked(p);
}

/* Leave the op: its answer will be dropped. Give up a server that has been silent for too long. */
static void abandon_unlocking(lk_redis_pipeline *p, lk_redis_op *op) LK_REDIS_LOCKED
{
    op->waited = false;
    op->caller = NULL;
    p->waited--;
    if (lk_redis_now(p->shared) - p->first->sent >= p->silence_ns)
        lk_redis_pipeline_fail_locked(p, "the server does not answer");
    lk_redis_pump_unlocking(p);
}

static bool is_interrupted_locked(const lk_redis_caller *caller) LK_REDIS_LOCKED
{
    return caller != NULL && caller->interrupted;
}

static bool is_over(const lk_redis_op *op, int *state)
{
    *state = atomic_load_explicit(&op->state, memory_order_acquire); /* the replies were written before */
    return *state != LK_REDIS_OP_WAITING;
}

lk_redis_outcome lk_redis_pipeline_await_unlock(lk_redis_pipeline *p, lk_redis_op *op,
                                                lk_redis_caller *caller, int64_t until)
{
    int state;
    while (!is_over(op, &state)) {
        const bool interrupted = is_interrupted_locked(caller);
        if (interrupted || lk_redis_now(p->shared) >= until) {
            if (caller != NULL)
                caller->op = NULL;
            abandon_unlocking(p, op);
            lk_redis_unlock(p->shared);
            return interrupted ? LK_REDIS_CALL_INTERRUPTED : LK_REDIS_CALL_LATE;
        }
        if (!p->gathering || p->out.len >= GATHER_MAX)
            flush_unlocking(p);
        if (is_over(op, &state))
            break;
        if (is_interrupted_locked(caller))
            continue; /* the mutex was released to send, so there was no thread to wake or kick yet */
        if (!p->reading) {
            read_turn_unlocking(p, op, lk_time_earlier(until, p->due));
            wake_due_locked(p, lk_redis_now(p->shared));
            continue;
        }
        const unsigned seen = LK_READ(op->gate->word); /* every wake-up from here on changes the count */
        lk_redis_unlock(p->shared);
        lk_redis_op_sleep(op, seen);
        if (is_over(op, &state))
            goto over;
        lk_redis_lock(p->shared);
    }
    if (p->first != NULL || p->out.len > 0)
        lk_redis_pump_unlocking(p);
    lk_redis_unlock(p->shared);
over:
    return state == LK_REDIS_OP_ANSWERED ? LK_REDIS_CALL_ANSWERED : LK_REDIS_CALL_CUT;
}

void lk_redis_interrupt_locked(lk_redis_shared *shared, lk_redis_caller *caller)
{
    caller->interrupted = true;
    if (caller->op != NULL) {
        lk_redis_op_wake(caller->op);
        kick_reader_locked(caller->on);
    }
    pthread_cond_broadcast(&shared->changed);
}

void lk_redis_drive_unlocking(lk_redis_pipeline *p, int64_t until)
{
    const lk_redis_op nobody = {0};
    flush_unlocking(p);
    if (p->state == LK_REDIS_UP && p->first != NULL)
        read_turn_unlocking(p, &nobody, until);
    else
        lk_redis_wait_unlocking(p->shared, until);
}

/* Read what has come, as the keeper, also bytes inside TLS, which epoll does not report. Bounded, however
 * much comes. */
static void read_unlocking(lk_redis_pipeline *p) LK_REDIS_LOCKED
{
    int turns = TURNS_MAX;
    do
        read_turn_unlocking(p, NULL, 0);
    while (--turns > 0 && p->state == LK_REDIS_UP && !p->reading && p->socket->more);
    if (p->state == LK_REDIS_UP && !p->reading && p->socket->more && p->look_at == LOCKER_NEVER)
        p->look_at = lk_redis_now(p->shared);
}

void lk_redis_pipeline_events_unlocking(lk_redis_pipeline *p, uint32_t events)
{
    if (p->state != LK_REDIS_UP || p->reading)
        return;
    const uint32_t sends = (uint32_t)p->blocked;
    if ((events & sends) != 0)
        p->blocked = 0;
    if ((events & ~(uint32_t)EPOLLOUT) != 0)
        read_unlocking(p);
}

int64_t lk_redis_pipeline_due_locked(const lk_redis_pipeline *p)
{
    if (p->state != LK_REDIS_UP || p->first == NULL)
        return LOCKER_NEVER;
    const int64_t silent = lk_time_after(p->first->sent, p->silence_ns);
    return p->look_at == 0 ? silent : lk_time_earlier(silent, p->look_at);
}

int64_t lk_redis_pipeline_silent_since_locked(const lk_redis_pipeline *p)
{
    if (p->state != LK_REDIS_UP || p->first == NULL)
        return LOCKER_NEVER;
    return lk_time_later(p->first->sent, LK_READ(p->heard_at));
}

bool lk_redis_pipeline_is_silent_locked(const lk_redis_pipeline *p, int64_t now)
{
    if (now < lk_time_after(lk_redis_pipeline_silent_since_locked(p), p->patience_ns))
        return false;
    struct pollfd unread = {.fd = p->socket->fd, .events = POLLIN};
    return lk_poll_until(&unread, 1, now, now) == 0;
}

void lk_redis_pipeline_look_unlocking(lk_redis_pipeline *p, int64_t now)
{
    if (now < lk_redis_pipeline_due_locked(p))
        return;
    if (now >= lk_time_after(p->first->sent, p->silence_ns)) {
        lk_redis_pipeline_fail_locked(p, "the server does not answer");
    } else if (!p->reading) {
        p->look_at = LOCKER_NEVER;
        read_unlocking(p);
    }
}

/* Wait for a connection. ANSWERED: there is one. A call that has just begun hurries until an attempt has
 * failed that began after the call: an earlier attempt's failure may be out of date. */
static lk_redis_outcome wait_up_unlocking(const lk_redis_pipeline *p, const lk_redis_call *call,
                                          locker_error *err) LK_REDIS_LOCKED
{
    lk_redis_reconnect *rc = p->reconnect;
    int64_t since = LOCKER_NEVER;
    if (!call->patient && p->state != LK_REDIS_UP)
        since = lk_redis_reconnect_hurry_locked(rc);
    else if (p->state != LK_REDIS_UP && rc->state != LK_REDIS_RUNS)
        lk_redis_reconnect_want_locked(rc); /* the first call for a cluster's node connects it */
    while (p->state != LK_REDIS_UP) {
        if (call->caller != NULL && call->caller->interrupted)
            return LK_REDIS_CALL_INTERRUPTED;
        if (call->map != 0 && call->map != LK_READ(p->shared->maps))
            return LK_REDIS_CALL_REMAPPED;
        bool known = lk_redis_reconnect_failed_since_locked(rc, since);
        const bool over =
            lk_redis_now(p->shared) >= call->until || (call->prompt && known && rc->last.deserted);
        const bool refused = rc->last.permanent && rc->failures > 0 && (known || !call->prompt);
        if (over || refused) {
            if (err != NULL)
                *err = rc->last.error;
            if (!refused && rc->failed_at == 0 && LK_READ(p->connection) == 0)
                return LK_REDIS_CALL_LATE; /* no attempt has shown that the server is unreachable */
            return refused ? LK_REDIS_CALL_REFUSED : LK_REDIS_CALL_AWAY;
        }
        lk_redis_wait_unlocking(p->shared, call->until);
        known = lk_redis_reconnect_failed_since_locked(rc, since);
        if (!call->patient && (call->prompt || !known) && p->state != LK_REDIS_UP)
            (void)lk_redis_reconnect_hurry_locked(rc);
    }
    return LK_REDIS_CALL_ANSWERED;
}

/* Note the connection on which the call is sent. */
static void send_on_locked(const lk_redis_pipeline *p, lk_redis_call *call) LK_REDIS_LOCKED
{
    call->on = LK_READ(p->connection); /* relaxed is enough with the mutex */
    call->era = lk_redis_era(p);
    call->server_us = p->server_us;
}

/* Append the commands, on the connection for which they are meant. ANSWERED: *op is theirs. */
static lk_redis_outcome append_unlocking(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a,
                                         size_t count, lk_redis_op **op, locker_error *err) LK_REDIS_LOCKED
{
    const lk_redis_outcome up = wait_up_unlocking(p, call, err);
    if (up != LK_REDIS_CALL_ANSWERED)
        return up;
    send_on_locked(p, call);
    if (call->only != 0 && call->only != call->on)
        return LK_REDIS_CALL_STALE;
    *op = lk_redis_pipeline_append_locked(p, a, count, call->until, call->caller);
    if (*op == NULL) {
        lk_out_of_memory(err);
        return LK_REDIS_CALL_NOMEM;
    }
    call->sent = (*op)->sent;
    return LK_REDIS_CALL_ANSWERED;
}

/* Wait for the answers. Called with the mutex; returns without it. */
static lk_redis_outcome finish_unlock(lk_redis_pipeline *p, lk_redis_call *call, lk_redis_op *op)
    LK_RELEASE(lk_redis_mutex)
{
    const lk_redis_outcome outcome = lk_redis_pipeline_await_unlock(p, op, call->caller, call->until);
    if (outcome != LK_REDIS_CALL_ANSWERED && outcome != LK_REDIS_CALL_CUT)
        return outcome;
    for (unsigned i = 0; i < op->count; i++)
        call->replies[i] = op->reply[i];
    if (outcome == LK_REDIS_CALL_ANSWERED)
        call->reply = call->replies[op->wanted - 1];
    op->count = 0; /* the replies are the caller's now */
    lk_redis_op_return(&p->ops, op);
    return outcome;
}

static void start(lk_redis_call *call)
{
    call->reply = NULL;
    memset(call->replies, 0, sizeof call->replies);
    call->sent = 0;
}

lk_redis_outcome lk_redis_ask(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a,
                              size_t count, locker_error *err)
{
    lk_redis_op *op;
    start(call);
    lk_redis_lock(p->shared);
    const lk_redis_outcome outcome = append_unlocking(p, call, a, count, &op, err);
    if (outcome == LK_REDIS_CALL_ANSWERED)
        return finish_unlock(p, call, op);
    lk_redis_unlock(p->shared);
    return outcome;
}

lk_redis_op *lk_redis_call_begin_locked(lk_redis_pipeline *p, lk_redis_call *call, const lk_redis_command *a)
{
    lk_redis_op *const op = p->state == LK_REDIS_UP ? lk_redis_pipeline_keep_locked(p, a, 1) : NULL;
    start(call);
    send_on_locked(p, call);
    if (op != NULL)
        call->sent = op->sent;
    return op;
}

lk_redis_outcome lk_redis_call_end(lk_redis_pipeline *p, lk_redis_call *call, lk_redis_op *op)
{
    lk_redis_lock(p->shared);
    lk_redis_pipeline_want_locked(p, op, call->until, call->caller);
    return finish_unlock(p, call, op);
}

const redisReply *lk_redis_call_peek(const lk_redis_op *op, bool *cut)
{
    const int state =
        atomic_load_explicit(&op->state, memory_order_acquire); /* the replies were written before */
    *cut = state == LK_REDIS_OP_CUT;
    return state == LK_REDIS_OP_ANSWERED ? op->reply[0] : NULL;
}

void lk_redis_call_clear(lk_redis_call *call)
{
    for (size_t i = 0; i < LK_REDIS_FLIGHT_MAX; i++)
        if (call->replies[i] != NULL)
            freeReplyObject(call->replies[i]);
}

bool lk_redis_submit_command_locked(lk_redis_pipeline *p, const lk_redis_command *a, lk_redis_done done,
                                    void *context)
{
    char *room = lk_redis_room_locked(p, lk_redis_command_room(a));
    return room != NULL && lk_redis_submit_locked(p, lk_redis_command_put(a, room), done, context);
}
