/* drive.c: driving the connection. There is no I/O thread: a caller sends its request, and if nobody is reading, it reads,
 * for all, until its own answer is there; then another one that waits goes on, or the keeper.
 *
 * The keeper watches the socket by an epoll of its own (socket.c). While callers come and go it should sleep: its watch is
 * taken away when a caller begins to read, and is set again when the last one leaves - at once if somebody waits for an
 * event or an answer, else by the keeper itself, a moment later. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "lk_fd.h"
#include "lk_poll.h"
#include "lk_thread.h"
#include "lk_wakeup.h"
#include "state.h"

static const int64_t turn_at_least_ns = LK_MS;
/* After a caller has left, the keeper takes over so much later, where nobody waits for anything. */
static const int64_t lazy_ns = 20 * LK_MS;
/* A server that was too busy for an answer is asked again after that. */
static const int64_t busy_again_ns = 100 * LK_MS;
/* However short the session is, a server has that long for its part of what may block. */
static const int64_t blocking_least_ns = LK_S;

/* Let go what the socket holds back: before the mutex is released, and before anything is waited for. */
static void push_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    if (net->corked_fd >= 0)
        lk_zk_watches_ask_locked(net); /* the connection may break of that */
    if (net->corked_fd < 0)
        return;
    (void)setsockopt(net->corked_fd, IPPROTO_TCP, TCP_CORK, &(int){0}, sizeof(int));
    net->corked_fd = -1;
}

LK_UNCHECKED void lk_zk_enter(lk_zk_net *net)
{
    lk_mutex_lock(&net->mutex);
}

void lk_zk_leave(lk_zk_net *net)
{
    push_locked(net);
    lk_zk_net_unlock(net);
}

/* The library doesn't keep why it could not connect. If it was for want of a descriptor, no server is to blame. */
static int why_no_socket(void)
{
    const int fd = lk_fd_high(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* The client library tries one server after the other, in a list of odd length two places on each time (resolve.c): as
 * many in a row as are listed were all of them. */
static void attempt_failed_locked(lk_zk_net *net, bool refused) LK_REQUIRES(*net)
{
    const unsigned servers = lk_zk_address_count(net->addresses);
    LK_EACH(lk_zk_call, call, link, &net->calls) {
        call->refusals = refused ? call->refusals + 1 : 0;
        call->hurried = call->hurried && refused;
        if (!call->wants_up || !call->prompt || call->refusals < servers)
            continue;
        call->deserted = true;
        lk_zk_call_done_locked(call);
    }
}

/* Whether a prompt caller waits for the next attempt: it isn't put off then. */
static bool is_hurried_locked(const lk_zk_net *net) LK_REQUIRES(*net)
{
    LK_EACH(lk_zk_call, call, link, &net->calls)
        if (call->wants_up && call->hurried)
            return true;
    return false;
}

/* Whether an attempt to connect that ended so is worth no waiting. EADDRNOTAVAIL: IPv6 is off. */
static bool is_nobody_there(int error)
{
    return error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH || error == EADDRNOTAVAIL;
}

/* ZINVALIDSTATE would not tell: a library without a socket answers that too. */
static void look_for_end_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    if (is_unrecoverable(net->zh) != ZOK)
        net->over = true;
}

/* Ask the client library what it waits for: the socket, its directions, the time. It may connect, ping or give a
 * connection up on this occasion. */
static void ask_interest_locked(lk_zk_net *net, int64_t now) LK_REQUIRES(*net)
{
    struct timeval span = {0, 0};
    int fd = -1, interest = 0;
    if (net->zh == NULL || (net->fd < 0 && now < net->turn_at))
        return; /* pausing between two attempts to connect */
    const bool hurried = net->fd < 0 && is_hurried_locked(net);
    lk_sigpipe guard;
    lk_zk_sigpipe_block(net, &guard);
    errno = 0;
    const int rc = zookeeper_interest(net->zh, &fd, &interest, &span);
    const int error = rc == ZCONNECTIONLOSS ? errno : 0; /* connect's own */
    lk_zk_sigpipe_restore(net, &guard);
    if (rc != ZOK) {
        look_for_end_locked(net);
        fd = -1;
        net->no_socket = why_no_socket();
        attempt_failed_locked(net, is_nobody_there(error));
    }
    if (fd >= 0 && fd != net->fd) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        net->attempt_at = net->begun_at = now;
        net->no_socket = 0;
        net->login_begun = false;
    }
    if (fd != net->fd) /* the library has closed that one, and the next may get its number */
        net->corked_fd = net->armed_fd = -1;
    net->fd = fd;
    net->interest = interest;
    net->turn_at = now + lk_time_later(span.tv_sec * LK_S + span.tv_usec * LK_US, turn_at_least_ns);
    if (hurried && fd < 0 && rc == ZOK) /* it would pause after a round of all servers */
        net->turn_at = now;
    if (fd >= 0 && !net->up) {
        const int64_t until = lk_time_after(net->attempt_at, lk_zk_patience_locked(net, now));
        net->turn_at = lk_time_earlier(net->turn_at, until);
        if (now >= until) {
            net->silent++;
            lk_zk_reconnect_locked(net, "a server does not answer");
        }
    }
}

/* What the library's answer to reading and writing means. */
static void processed_locked(lk_zk_net *net, int rc) LK_REQUIRES(*net)
{
    look_for_end_locked(net);
    if (zoo_state(net->zh) == ZOO_AUTH_FAILED_STATE) /* it doesn't tell when that was SASL */
        net->denied = true;
    if (rc == ZOK || rc == ZNOTHING)
        return;
    lk_zk_no_socket_locked(net);
    attempt_failed_locked(net, is_nobody_there(net->attempt_error));
    net->attempt_error = 0;
}

/* Have the keeper's epoll watch the socket, unless a thread drives. */
static void arm_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    if (net->reading || net->over)
        return;
    ask_interest_locked(net, lk_zk_net_now(net));
    if (net->fd >= 0)
        lk_zk_arm_socket_locked(net);
}

static bool is_idle_locked(const lk_zk_net *net) LK_REQUIRES(*net)
{
    return net->awaited == 0 && lk_list_empty(&net->requests) && net->up && !net->over;
}

/* Have a caller that sleeps drive. False: none does. */
static bool wake_driver_locked(const lk_zk_net *net) LK_REQUIRES(*net)
{
    LK_EACH(lk_zk_call, call, link, &net->calls) {
        if (call->asleep && !call->done) {
            pthread_cond_signal(&call->cond);
            return true;
        }
    }
    return false;
}

/* Somebody has to go on driving, unless a thread does: a caller that sleeps, or the keeper. */
static void hand_on_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    if (net->reading || wake_driver_locked(net))
        return;
    net->left_at = lk_zk_net_now(net);
    if (!is_idle_locked(net)) {
        if (net->armed_fd < 0)
            arm_locked(net);
        lk_zk_keeper_by_locked(net, net->up && !net->over ? net->turn_at : net->left_at);
    } else {
        lk_zk_keeper_by_locked(net, net->left_at + lazy_ns);
    }
}

static int library_process_locked(lk_zk_net *net, int events) LK_REQUIRES(*net)
{
    lk_sigpipe guard;
    lk_zk_sigpipe_block(net, &guard);
    const int rc = zookeeper_process(net->zh, events);
    lk_zk_sigpipe_restore(net, &guard);
    return rc;
}

/* Two steps of connecting can block for any time: the handshake of TLS, and the beginning of a login by SASL, where Cyrus' library looks
 * up this host's name and may ask other servers. So a thread makes that call of the library, without the mutex. Before a login it reads
 * the password's file again. No other thread uses the handle meanwhile: other calls need a connection, or lk_zk_net.reading, which stays
 * set for this thread. */

/* The library closes a socket that it reads the end of, but not one whose handshake it could not even begin. */
static int give_up_locked(lk_zk_net *net, int socket) LK_REQUIRES(*net)
{
    (void)shutdown(socket, SHUT_RDWR);
    return library_process_locked(net, ZOOKEEPER_READ);
}

/* Why there is no TLS; "": nothing is known against it. */
static void trouble_locked(lk_zk_net *net, const char *why) LK_REQUIRES(*net)
{
    (void)snprintf(net->tls_trouble, sizeof(net->tls_trouble), "%s", why);
}

static void tls_failed_locked(lk_zk_net *net, int rc, const char *reason) LK_REQUIRES(*net)
{
    if (zoo_state(net->zh) == *net->set.library.ssl_connecting) { /* it didn't begin */
        trouble_locked(net, reason[0] != '\0' ? reason : "OpenSSL gave no reason");
        net->denied = net->bad_files = true;
        lk_zk_calls_go_on_locked(net);
        (void)give_up_locked(net, net->blocking.socket);
    } else if (rc == ZCONNECTIONLOSS) { /* it was never there */
        trouble_locked(net, "");
    } else if (!net->blocking.ended) {
        trouble_locked(net, reason[0] != '\0' ? reason : "the server closed the connection");
    }
}

static void connected_locked(lk_zk_net *net, int rc, const char *reason) LK_REQUIRES(*net)
{
    const lk_zk_blocking *blocking = &net->blocking;
    if (rc == ZOK || rc == ZNOTHING) {
        net->fd = blocking->socket;
        net->attempt_at = lk_zk_net_now(net); /* the server has answered: its time begins again */
        net->login_begun = rc == ZOK && net->set.sasl != NULL;
        trouble_locked(net, "");
    } else if (net->set.tls != NULL) {
        tls_failed_locked(net, rc, reason);
    }
    if (blocking->event_state != 0)
        lk_zk_session_event_locked(net, blocking->event_state);
    processed_locked(net, rc);
}

static void *connect_blocking(void *context)
{
    lk_zk_net *net = context;
    char reason[sizeof(net->tls_trouble)] = "";
    if (net->set.sasl != NULL)
        lk_zk_sasl_read_again(net->set.sasl);
    const int rc = zookeeper_process(net->blocking.zh, net->blocking.events);
    if (net->set.tls != NULL)
        lk_zk_tls_reason(reason, sizeof(reason));
    lk_zk_enter(net);
    close(net->blocking.own);
    net->blocking.active = false;
    connected_locked(net, rc, reason);
    lk_zk_session_settle_locked(net);
    net->reading = false;
    hand_on_locked(net);
    lk_zk_leave(net);
    return NULL;
}

/* Whether the library would block now. */
static bool blocking_due_locked(const lk_zk_net *net, int events) LK_REQUIRES(*net)
{
    const lk_zk_settings *set = &net->set;
    if (net->zh == NULL || net->fd < 0 || net->up)
        return false;
    if (set->tls != NULL)
        return (events & ZOOKEEPER_WRITE) != 0 && zoo_state(net->zh) == *set->library.ssl_connecting;
    return set->sasl != NULL && !net->login_begun && (events & ZOOKEEPER_READ) != 0 &&
           zoo_state(net->zh) == ZOO_ASSOCIATING_STATE;
}

/* Have a thread do it, which takes over the driving from the caller until it is done. */
static void blocking_begin_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    lk_zk_blocking *blocking = &net->blocking;
    const int64_t now = lk_zk_net_now(net), patience = lk_zk_patience_locked(net, now);
    const int socket = net->fd;
    if (blocking->joinable)
        pthread_join(blocking->thread, NULL); /* it is past its last lock */
    lk_zk_no_socket_locked(net);
    *blocking = (lk_zk_blocking){.active = true, .zh = net->zh, .socket = socket};
    blocking->events = net->set.tls != NULL ? ZOOKEEPER_WRITE : ZOOKEEPER_READ;
    blocking->until = lk_time_after(now, lk_time_later(patience, blocking_least_ns));
    trouble_locked(net, net->set.tls != NULL ? "the server did not answer" : ""); /* until it does */
    const bool fits = net->set.tls == NULL || socket < FD_SETSIZE; /* its handshake waits by select */
    blocking->own = fits ? fcntl(socket, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    blocking->joinable = blocking->own >= 0 && lk_thread_start(&blocking->thread, connect_blocking, net) == 0;
    if (blocking->joinable) {
        lk_zk_keeper_by_locked(net, blocking->until);
        return;
    }
    if (fits)
        trouble_locked(net, "cannot create a thread or a descriptor for the handshake");
    else
        (void)snprintf(net->tls_trouble, sizeof(net->tls_trouble),
                       "the process has %d descriptors open, but "
                       "the client library's TLS supports at most %d",
                       socket, FD_SETSIZE);
    if (blocking->own >= 0)
        close(blocking->own);
    blocking->active = false;
    processed_locked(net, give_up_locked(net, socket));
}

/* End one that has taken too long; returns when to look again, or LOCKER_NEVER. */
static int64_t blocking_check_locked(lk_zk_net *net, int64_t now) LK_REQUIRES(*net)
{
    lk_zk_blocking *blocking = &net->blocking;
    if (!blocking->active)
        return LOCKER_NEVER;
    if (now >= blocking->until) {
        blocking->until = LOCKER_NEVER;
        blocking->ended = true;
        (void)shutdown(blocking->own, SHUT_RDWR);
    }
    return blocking->until;
}

void lk_zk_blocking_stop_unlocking(lk_zk_net *net)
{
    if (!net->blocking.joinable)
        return;
    net->blocking.joinable = false;
    (void)blocking_check_locked(net, LOCKER_NEVER);
    lk_zk_net_unlock(net);
    pthread_join(net->blocking.thread, NULL);
    lk_zk_enter(net);
}

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLHUP == EPOLLHUP && POLLERR == EPOLLERR,
               "poll and epoll use the same event bits");

/* poll, without the mutex when it may wait. Returns the events as the client library wants them. */
static int poll_unlocking(lk_zk_net *net, int64_t until) LK_REQUIRES(*net)
{
    struct pollfd waits[2] = {{.fd = net->kick_fd, .events = POLLIN}, {.fd = net->fd}}; /* -1: none */
    const int64_t now = lk_zk_net_now(net);
    waits[1].events = (short)(((net->interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                              ((net->interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    int ready;
    if (until <= now) {
        ready = lk_poll_until(waits, 2, now, until);
    } else {
        net->polling = true;
        push_locked(net);
        lk_zk_net_unlock(net);
        ready = lk_poll_until(waits, 2, now, until);
        lk_zk_enter(net);
        net->polling = false;
    }
    if (ready > 0 && waits[0].revents != 0)
        lk_wakeup_clear(net->kick_fd);
    return ready > 0 && net->fd >= 0 ? lk_zk_directions_locked(net, (uint32_t)waits[1].revents) : 0;
}

/* Have the client library read: one packet a call; what it leads to is sent before the next is looked for. Until nothing is
 * left, or the caller has what it wants; but poll doesn't show what TLS has decrypted already, so of that nothing may be left.
 * The answer to a packet may find the connection broken, when the library closes its socket and tells nobody. */
static void process_locked(lk_zk_net *net, int events, const lk_zk_call *call) LK_REQUIRES(*net)
{
    while (events != 0 && !net->over) {
        const int rc = library_process_locked(net, events);
        processed_locked(net, rc);
        push_locked(net);
        const bool enough = call != NULL && call->done && net->set.tls == NULL;
        if (rc != ZOK || net->fd < 0 || (events & ZOOKEEPER_READ) == 0 || enough)
            break;
        events = ZOOKEEPER_READ;
    }
}

/* Why the attempt to connect failed, if it did. Asking takes that from the socket, so the client library is
 * given the socket's end to read. */
static int take_error_locked(const lk_zk_net *net) LK_REQUIRES(*net)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (net->up || net->fd < 0)
        return 0;
    return getsockopt(net->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : 0;
}

/* Drive once. call NULL: the keeper, which doesn't wait; told: what its watch has told of the socket. */
static void turn_unlocking(lk_zk_net *net, const lk_zk_call *call, int64_t until, int told) LK_REQUIRES(*net)
{
    net->reading = true;
    lk_zk_session_begin_locked(net);
    const int64_t now = lk_zk_net_now(net);
    ask_interest_locked(net, now);
    if (!net->over && !(call != NULL && call->done)) {
        const int64_t soonest = net->zh != NULL ? net->turn_at : net->begin_at;
        int events = told != 0 && net->up && net->fd >= 0
                         ? told
                         : poll_unlocking(net, call != NULL ? lk_time_earlier(until, soonest) : 0);
        net->attempt_error = events != 0 ? take_error_locked(net) : 0;
        if (net->attempt_error != 0)
            events = ZOOKEEPER_READ;
        if (blocking_due_locked(net, events))
            blocking_begin_locked(net);
        else
            process_locked(net, events, call);
    }
    if (net->blocking.active)
        return; /* its thread drives now */
    lk_zk_session_settle_locked(net);
    net->reading = false;
}

int64_t lk_zk_drive_locked(lk_zk_net *net)
{
    const int64_t now = lk_zk_net_now(net);
    net->keeper_at = LOCKER_NEVER; /* it is here */
    net->in_turn = true;
    const int told = lk_zk_told_of_socket_locked(net);
    if (net->reading) /* somebody does; look whether he still does */
        return lk_time_earlier(now + net->timeout_ns / 8, blocking_check_locked(net, now));
    if (now < net->left_at + lazy_ns && is_idle_locked(net))
        return net->left_at + lazy_ns;
    turn_unlocking(net, NULL, 0, told); /* for no caller: it only looks, so the mutex stays held */
    push_locked(net);
    if (net->armed_fd < 0 || net->armed_fd != net->fd)
        arm_locked(net);
    return net->zh != NULL ? net->turn_at : net->begin_at;
}

int64_t lk_zk_drive_on_locked(lk_zk_net *net)
{
    if (net->corked_fd < 0 || net->reading)
        return LOCKER_NEVER;
    push_locked(net);
    arm_locked(net);
    return net->zh != NULL ? net->turn_at : net->begin_at;
}

void lk_zk_call_begin_locked(lk_zk_net *net, lk_zk_call *call)
{
    *call = (lk_zk_call){.done = false};
    (void)locker_cond_init(&call->cond);
    lk_list_prepend(&net->calls, &call->link);
}

void lk_zk_call_end_locked(lk_zk_net *net, lk_zk_call *call)
{
    if (call->pending > 0)
        lk_zk_requests_forget_locked(net, call);
    lk_list_remove(&call->link);
    lk_zk_let_in_locked(net); /* it may have had room, and sent nothing */
    push_locked(net);
    hand_on_locked(net);
    pthread_cond_destroy(&call->cond);
}

void lk_zk_interrupt_locked(lk_zk_net *net, lk_zk_call *call)
{
    call->interrupted = true;
    if (call->asleep)
        pthread_cond_signal(&call->cond);
    else
        lk_zk_kick_locked(net);
}

lk_zk_outcome lk_zk_await_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until)
{
    while (!call->done) {
        if (call->interrupted)
            return LK_ZK_INTERRUPTED;
        const int64_t now = lk_zk_net_now(net);
        if (now >= until)
            return LK_ZK_LATE;
        if (!net->reading) {
            push_locked(net); /* before anything that takes time */
            if (net->armed_fd >= 0)
                lk_zk_disarm_socket_locked(net);
            turn_unlocking(net, call, until, 0);
        } else {
            call->asleep = true;
            push_locked(net);
            net->clock->wait(net->clock->context, &call->cond, &net->mutex.plain,
                             lk_time_earlier(until, blocking_check_locked(net, now)));
            call->asleep = false;
        }
    }
    return LK_ZK_DONE;
}

lk_zk_outcome lk_zk_await_up_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until)
{
    lk_zk_outcome outcome = LK_ZK_DONE;
    call->done = net->up;
    call->wants_up = true;
    call->deserted = false;
    call->hurried = call->prompt;
    call->refusals = 0;
    if (call->prompt && net->fd < 0) { /* for the others it may be pausing between two attempts */
        net->turn_at = 0;
        lk_zk_kick_locked(net);
    }
    while (!net->up && outcome == LK_ZK_DONE && !net->denied && !call->deserted) {
        call->done = false;
        outcome = lk_zk_await_unlocking(net, call, until);
    }
    call->wants_up = false;
    call->done = false;
    if (net->up) /* since it was told that nobody is there */
        return LK_ZK_DONE;
    return net->denied || call->deserted ? LK_ZK_LATE : outcome;
}

lk_zk_outcome lk_zk_await_room_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until)
{
    lk_zk_outcome outcome = LK_ZK_DONE;
    if (lk_list_empty(&net->line) && lk_zk_has_room_locked(net, until))
        return LK_ZK_DONE;
    lk_list_append(&net->line, &call->line);
    call->until = until;
    while (!call->let_in && net->up && outcome == LK_ZK_DONE) {
        call->done = false;
        outcome = lk_zk_await_unlocking(net, call, until);
    }
    if (lk_list_linked(&call->line))
        lk_list_remove(&call->line);
    net->let_in -= call->let_in;
    call->let_in = call->done = false;
    return outcome;
}

lk_zk_outcome lk_zk_pause_unlocking(lk_zk_net *net, lk_zk_call *call, int64_t until)
{
    if (!net->up)
        return LK_ZK_DONE;
    const int64_t again_at = lk_zk_net_now(net) + busy_again_ns;
    call->done = false;
    const lk_zk_outcome outcome = lk_zk_await_unlocking(net, call, lk_time_earlier(again_at, until));
    call->done = false;
    return outcome == LK_ZK_LATE && again_at < until ? LK_ZK_DONE : outcome;
}
