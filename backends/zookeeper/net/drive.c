/*
 * drive.c: driving the connection. A caller sends its request, and if nobody is reading, it reads, for all, until its
 * own answer is there, and then leaves the reading to another one (handover.c).
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lk_poll.h"
#include "lk_wakeup.h"
#include "state.h"

/* ------------------------------------------------------------------ one turn ---- */

_Static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLHUP == EPOLLHUP && POLLERR == EPOLLERR,
               "poll and epoll tell alike");

/* poll, without the mutex when it may wait. Returns the events as the client library wants them. */
static int poll_unlocking(lk_zk_net *net, int64_t until) LK_REQUIRES(*net)
{
    struct pollfd waits[2] = {{.fd = net->kick_fd, .events = POLLIN}, {.fd = net->fd}};
    const int64_t now = lk_zk_net_now(net);
    waits[1].events = (short)(((net->interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                              ((net->interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    const nfds_t count = net->fd >= 0 ? 2 : 1;
    int ready;
    if (until <= now) {
        ready = lk_poll_until(waits, count, now, until);
    } else {
        net->polling = true;
        lk_zk_push_locked(net);
        lk_zk_net_unlock(net);
        ready = lk_poll_until(waits, count, now, until);
        lk_zk_net_lock(net);
        net->polling = false;
    }
    if (ready > 0 && waits[0].revents != 0)
        lk_wakeup_clear(net->kick_fd);
    return ready > 0 && net->fd >= 0 ? lk_zk_directions_locked(net, (uint32_t)waits[1].revents) : 0;
}

/* Have the client library read: one packet a call. Until nothing is left, or the caller has what it wants;
 * but poll doesn't show what TLS has decrypted already, so of that nothing may be left. */
static void process_locked(lk_zk_net *net, int events, const lk_zk_call *call) LK_REQUIRES(*net)
{
    while (events != 0 && !net->over) {
        const int rc = lk_zk_client_process_locked(net, events);
        lk_zk_processed_locked(net, rc);
        const bool enough = call != NULL && call->done && net->set.tls == NULL;
        if (rc != ZOK || (events & ZOOKEEPER_READ) == 0 || enough)
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
static void turn_locked(lk_zk_net *net, const lk_zk_call *call, int64_t until, int told) LK_REQUIRES(*net)
{
    net->reading = true;
    lk_zk_session_begin_locked(net);
    const int64_t now = lk_zk_net_now(net);
    lk_zk_ask_interest_locked(net, now);
    if (!net->over && !(call != NULL && call->done)) {
        const int64_t soonest = net->zh != NULL ? net->turn_at : net->begin_at;
        int events = told != 0 && net->up && net->fd >= 0
                         ? told
                         : poll_unlocking(net, call != NULL ? lk_time_earlier(until, soonest) : 0);
        net->attempt_error = events != 0 ? take_error_locked(net) : 0;
        if (net->attempt_error != 0)
            events = ZOOKEEPER_READ;
        if (lk_zk_blocking_due_locked(net, events))
            lk_zk_blocking_begin_locked(net);
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
    const int told = lk_zk_told_of_socket_locked(net);
    if (net->reading) /* somebody does; look whether he still does */
        return lk_time_earlier(now + net->timeout_ns / 8, lk_zk_blocking_check_locked(net, now));
    if (now < net->left_at + LK_ZK_LAZY_NS && lk_zk_is_idle_locked(net))
        return net->left_at + LK_ZK_LAZY_NS;
    turn_locked(net, NULL, 0, told);
    if (net->armed_fd < 0 || net->armed_fd != net->fd)
        lk_zk_arm_locked(net);
    return net->zh != NULL ? net->turn_at : net->begin_at;
}

/* ------------------------------------------------------------------ callers ---- */

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
    lk_zk_hand_on_locked(net);
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

lk_zk_outcome lk_zk_await_locked(lk_zk_net *net, lk_zk_call *call, int64_t until)
{
    while (!call->done) {
        if (call->interrupted)
            return LK_ZK_INTERRUPTED;
        const int64_t now = lk_zk_net_now(net);
        if (now >= until)
            return LK_ZK_LATE;
        if (!net->reading) {
            if (net->armed_fd >= 0)
                lk_zk_disarm_socket_locked(net);
            turn_locked(net, call, until, 0);
        } else {
            call->asleep = true;
            lk_zk_push_locked(net);
            net->clock->wait(net->clock->context, &call->cond, &net->mutex.plain,
                             lk_time_earlier(until, lk_zk_blocking_check_locked(net, now)));
            call->asleep = false;
        }
    }
    return LK_ZK_DONE;
}

lk_zk_outcome lk_zk_await_up_locked(lk_zk_net *net, lk_zk_call *call, int64_t until)
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
        outcome = lk_zk_await_locked(net, call, until);
    }
    call->wants_up = false;
    call->done = false;
    if (net->up) /* since it was told that nobody is there */
        return LK_ZK_DONE;
    return net->denied || call->deserted ? LK_ZK_LATE : outcome;
}
