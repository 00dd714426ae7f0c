/*
 * drive.c: who drives the connection. There is no I/O thread: a caller sends its request, and if nobody is
 * reading, it reads, for all, until its own answer is there, and then leaves the reading to another caller
 * that waits, or to the keeper.
 *
 * The keeper watches the socket by an epoll of its own. While callers come and go it should sleep: its watch
 * is a one-shot, is taken away when a caller begins to read, and is set again when the last one leaves - at
 * once if somebody waits for an event or an answer, else by the keeper itself, a moment later.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../internal.h"

static const int64_t lazy_ns = 20 * LK_MS; /* after a caller has left, the keeper takes over so much later */
static const int64_t turn_at_least_ns = LK_MS;

/* ------------------------------------------------------------------ the keeper's watch ---- */

static void watch_fd(struct lk_zk *z, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data = {.fd = fd}};
    if (epoll_ctl(z->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0 && errno == ENOENT)
        (void)epoll_ctl(z->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void disarm_locked(struct lk_zk *z)
{
    struct epoll_event nothing = {.events = EPOLLONESHOT, .data = {.fd = z->fd}};
    if (z->armed_fd >= 0 && z->armed_fd == z->fd)
        (void)epoll_ctl(z->epoll_fd, EPOLL_CTL_MOD, z->fd, &nothing);
    z->armed_fd = -1;
}

void lk_zk_no_socket_locked(struct lk_zk *z)
{
    z->fd = z->armed_fd = z->corked_fd = -1;
    z->login_begun = false;
    z->turn_at = 0;
}

void lk_zk_cork_locked(struct lk_zk *z)
{
    if (z->corked_fd == z->fd)
        return;
    z->corked_fd = z->fd;
    (void)setsockopt(z->fd, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int));
}

void lk_zk_push_locked(struct lk_zk *z)
{
    if (z->corked_fd < 0)
        return;
    (void)setsockopt(z->corked_fd, IPPROTO_TCP, TCP_CORK, &(int){0}, sizeof(int));
    z->corked_fd = -1;
}

/* The client library doesn't keep why it could not connect. If it was for want of a descriptor, no server is
 * to blame. */
static int why_no_socket(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* Whether an attempt to connect that ended so is worth no waiting. EADDRNOTAVAIL: IPv6 is off. */
static bool is_nobody_there(int error)
{
    return error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH || error == EADDRNOTAVAIL;
}

/* Ask the client library what it waits for: the socket, its directions, the time. It may connect, ping or
 * give a connection up on this occasion. */
static void ask_interest_locked(struct lk_zk *z, int64_t now)
{
    struct timeval span = {0, 0};
    int fd = -1, interest = 0;
    if (z->zh == NULL || (z->fd < 0 && now < z->turn_at))
        return; /* pausing between two attempts to connect */
    const bool hurried = z->fd < 0 && lk_zk_hurried_locked(z);
    struct lk_zk_pipe_guard guard;
    lk_zk_pipe_enter(z, &guard);
    errno = 0;
    const int rc = zookeeper_interest(z->zh, &fd, &interest, &span);
    const int error = rc == ZCONNECTIONLOSS ? errno : 0; /* connect's own */
    lk_zk_pipe_leave(z, &guard);
    if (rc != ZOK) {
        if (rc == ZINVALIDSTATE)
            z->over = true;
        fd = -1;
        z->no_socket = why_no_socket();
        lk_zk_attempt_failed_locked(z, is_nobody_there(error));
    }
    if (fd >= 0 && fd != z->fd) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        z->attempt_at = z->begun_at = now;
        z->no_socket = 0;
        z->login_begun = false;
    }
    if (fd != z->fd)
        z->corked_fd = -1;
    z->fd = fd;
    z->interest = interest;
    const int64_t ns = (int64_t)span.tv_sec * LK_S + (int64_t)span.tv_usec * 1000;
    z->turn_at = now + (ns > turn_at_least_ns ? ns : turn_at_least_ns);
    if (hurried && fd < 0 && rc == ZOK) /* it would pause after a round of all servers */
        z->turn_at = now;
    if (fd >= 0 && !z->up) {
        const int64_t until = lk_zk_after(z->attempt_at, lk_zk_patience_locked(z, now));
        z->turn_at = lk_zk_earlier(z->turn_at, until);
        if (now >= until)
            lk_zk_reconnect_locked(z, "a server does not answer");
    }
}

static void arm_locked(struct lk_zk *z)
{
    if (z->reading || z->over)
        return;
    ask_interest_locked(z, lk_zk_now(z));
    if (z->fd < 0)
        return;
    watch_fd(z, z->fd, EPOLLIN | ((z->interest & ZOOKEEPER_WRITE) != 0 ? EPOLLOUT : 0u));
    z->armed_fd = z->fd;
}

void lk_zk_keeper_by_locked(struct lk_zk *z, int64_t at)
{
    if (z->keeper_at <= at)
        return;
    z->keeper_at = at;
    z->svc->attend(z->svc);
}

/* ------------------------------------------------------------------ one turn ---- */

void lk_zk_kick_locked(struct lk_zk *z)
{
    const uint64_t one = 1;
    if (z->polling && write(z->kick_fd, &one, sizeof(one)) < 0) {
        /* EAGAIN: it is kicked already. */
    }
}

/* What is not short goes by poll: when the process was stopped and goes on, the kernel takes up poll with the
 * time at which it was to end, but ppoll with the time that was left. */
static int poll_for(struct pollfd *fds, nfds_t count, int64_t left)
{
    const struct timespec span = {.tv_sec = (time_t)(left / LK_S), .tv_nsec = (long)(left % LK_S)};
    if (left > 10 * LK_MS)
        return poll(fds, count, left / LK_MS < INT_MAX ? (int)(left / LK_MS) + 1 : INT_MAX);
    return ppoll(fds, count, &span, NULL);
}

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLHUP == EPOLLHUP && POLLERR == EPOLLERR,
               "poll and epoll tell alike");

/* What poll or epoll tells of the socket, as the client library wants it. */
static int directions(const struct lk_zk *z, uint32_t ready)
{
    int events = 0;
    if ((ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        events |= ZOOKEEPER_READ;
    if ((ready & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
        events |= ZOOKEEPER_WRITE & z->interest;
    return events;
}

/* poll, without lock when it may wait. Returns the events as the client library wants them. */
static int poll_locked(struct lk_zk *z, int64_t until)
{
    struct pollfd waits[2] = {{.fd = z->kick_fd, .events = POLLIN}, {.fd = z->fd}};
    const int64_t now = lk_zk_now(z), left = until > now ? until - now : 0;
    waits[1].events = (short)(((z->interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                              ((z->interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    z->polling = left > 0;
    if (left > 0) {
        lk_zk_push_locked(z);
        pthread_mutex_unlock(&z->lock);
    }
    const int ready = poll_for(waits, z->fd >= 0 ? 2 : 1, left);
    if (left > 0)
        pthread_mutex_lock(&z->lock);
    z->polling = false;
    if (ready > 0 && waits[0].revents != 0) {
        uint64_t kicks;
        if (read(z->kick_fd, &kicks, sizeof(kicks)) < 0) {
            /* EAGAIN: it was taken back. */
        }
    }
    return ready > 0 && z->fd >= 0 ? directions(z, (uint32_t)waits[1].revents) : 0;
}

void lk_zk_processed_locked(struct lk_zk *z, int rc)
{
    if (rc == ZINVALIDSTATE || is_unrecoverable(z->zh) != ZOK)
        z->over = true;
    if (zoo_state(z->zh) == ZOO_AUTH_FAILED_STATE) /* it doesn't tell when that was SASL */
        z->denied = true;
    if (rc == ZOK || rc == ZNOTHING)
        return;
    lk_zk_no_socket_locked(z);
    lk_zk_attempt_failed_locked(z, is_nobody_there(z->attempt_error));
    z->attempt_error = 0;
}

/* Have the client library read: one packet a call. Until nothing is left, or the caller has what it wants;
 * but poll doesn't show what TLS has decrypted already, so of that nothing may be left. */
static void process_locked(struct lk_zk *z, int events, const struct lk_zk_call *call)
{
    while (events != 0 && !z->over) {
        const int rc = lk_zk_client_process_locked(z, events);
        lk_zk_processed_locked(z, rc);
        const bool enough = call != NULL && call->done && z->set.tls == NULL;
        if (rc != ZOK || (events & ZOOKEEPER_READ) == 0 || enough)
            break;
        events = ZOOKEEPER_READ;
    }
}

/* Why the attempt to connect failed, if it did. Asking takes that from the socket, so the client library is
 * given the socket's end to read. */
static int take_error_locked(const struct lk_zk *z)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (z->up || z->fd < 0)
        return 0;
    return getsockopt(z->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : 0;
}

/* Drive once. call NULL: the keeper, which doesn't wait; told: what its watch has told of the socket. */
static void turn_locked(struct lk_zk *z, const struct lk_zk_call *call, int64_t until, int told)
{
    z->reading = true;
    lk_zk_session_begin_locked(z);
    const int64_t now = lk_zk_now(z);
    ask_interest_locked(z, now);
    if (!z->over && !(call != NULL && call->done)) {
        const int64_t soonest = z->zh != NULL ? z->turn_at : z->begin_at;
        int events = told != 0 && z->up && z->fd >= 0
                         ? told
                         : poll_locked(z, call != NULL ? lk_zk_earlier(until, soonest) : 0);
        z->attempt_error = events != 0 ? take_error_locked(z) : 0;
        if (z->attempt_error != 0)
            events = ZOOKEEPER_READ;
        if (lk_zk_shake_due_locked(z, events))
            lk_zk_shake_begin_locked(z);
        else
            process_locked(z, events, call);
    }
    if (z->shake.active)
        return; /* its thread drives now */
    lk_zk_session_settle_locked(z);
    z->reading = false;
}

int64_t lk_zk_drive_locked(struct lk_zk *z)
{
    struct epoll_event event;
    const int64_t now = lk_zk_now(z);
    int told = 0;
    if (epoll_wait(z->epoll_fd, &event, 1, 0) > 0) {
        told = z->up && z->armed_fd == z->fd && event.data.fd == z->fd ? directions(z, event.events) : 0;
        z->armed_fd = -1; /* a one-shot */
    }
    if (z->reading) /* somebody does; look whether he still does */
        return lk_zk_earlier(now + z->timeout_ns / 8, lk_zk_shake_check_locked(z, now));
    const bool lazily = z->enrolled == 0 && z->ops == NULL && z->up && !z->over;
    if (lazily && now < z->left_at + lazy_ns)
        return z->left_at + lazy_ns;
    turn_locked(z, NULL, 0, told);
    if (z->armed_fd < 0 || z->armed_fd != z->fd)
        arm_locked(z);
    return z->zh != NULL ? z->turn_at : z->begin_at;
}

/* ------------------------------------------------------------------ callers ---- */

void lk_zk_call_begin_locked(struct lk_zk *z, struct lk_zk_call *call)
{
    *call = (struct lk_zk_call){.next = z->calls};
    (void)locker_cond_init(&call->cond);
    if (call->next != NULL)
        call->next->prev = call;
    z->calls = call;
}

/* Somebody has to go on driving: a caller that sleeps, or the keeper. */
static void hand_on_locked(struct lk_zk *z)
{
    if (z->reading)
        return;
    for (struct lk_zk_call *call = z->calls; call != NULL; call = call->next) {
        if (call->asleep && !call->done) {
            pthread_cond_signal(&call->cond);
            return;
        }
    }
    z->left_at = lk_zk_now(z);
    if (z->enrolled > 0 || z->ops != NULL || !z->up || z->over) {
        if (z->armed_fd < 0)
            arm_locked(z);
        lk_zk_keeper_by_locked(z, z->up && !z->over ? z->turn_at : z->left_at);
    } else {
        lk_zk_keeper_by_locked(z, z->left_at + lazy_ns);
    }
}

void lk_zk_driven_locked(struct lk_zk *z)
{
    z->reading = false;
    hand_on_locked(z);
}

void lk_zk_call_end_locked(struct lk_zk *z, struct lk_zk_call *call)
{
    if (call->pending > 0)
        lk_zk_ops_forget_locked(z, call);
    if (call->prev != NULL)
        call->prev->next = call->next;
    else
        z->calls = call->next;
    if (call->next != NULL)
        call->next->prev = call->prev;
    hand_on_locked(z);
    pthread_cond_destroy(&call->cond);
}

void lk_zk_call_done_locked(struct lk_zk_call *call)
{
    call->done = true;
    if (call->asleep)
        pthread_cond_signal(&call->cond);
}

void lk_zk_call_count_locked(struct lk_zk_call *call)
{
    if (--call->pending == 0)
        lk_zk_call_done_locked(call);
}

void lk_zk_interrupt_locked(struct lk_zk *z, struct lk_zk_call *call)
{
    call->interrupted = true;
    if (call->asleep)
        pthread_cond_signal(&call->cond);
    else
        lk_zk_kick_locked(z);
}

enum lk_zk_outcome lk_zk_await_locked(struct lk_zk *z, struct lk_zk_call *call, int64_t until)
{
    while (!call->done) {
        if (call->interrupted)
            return LK_ZK_INTERRUPTED;
        const int64_t now = lk_zk_now(z);
        if (now >= until)
            return LK_ZK_LATE;
        if (!z->reading) {
            if (z->armed_fd >= 0)
                disarm_locked(z);
            turn_locked(z, call, until, 0);
        } else {
            call->asleep = true;
            lk_zk_push_locked(z);
            z->clock->wait(z->clock->context, &call->cond, &z->lock,
                           lk_zk_earlier(until, lk_zk_shake_check_locked(z, now)));
            call->asleep = false;
        }
    }
    return LK_ZK_DONE;
}

enum lk_zk_outcome lk_zk_await_up_locked(struct lk_zk *z, struct lk_zk_call *call, int64_t until)
{
    enum lk_zk_outcome outcome = LK_ZK_DONE;
    call->done = z->up;
    call->wants_up = true;
    call->deserted = false;
    call->hurried = call->prompt;
    call->refusals = 0;
    if (call->prompt && z->fd < 0) { /* for the others it may be pausing between two attempts */
        z->turn_at = 0;
        lk_zk_kick_locked(z);
    }
    while (!z->up && outcome == LK_ZK_DONE && !z->denied && !call->deserted) {
        call->done = false;
        outcome = lk_zk_await_locked(z, call, until);
    }
    call->wants_up = false;
    call->done = false;
    if (z->up) /* since it was told that nobody is there */
        return LK_ZK_DONE;
    return z->denied || call->deserted ? LK_ZK_LATE : outcome;
}
