/* drive.c: driving the connection. There is no I/O thread: a caller sends its request. If no thread reads,
 * the caller reads for all calls until its own answer comes. Then another waiting call reads on, or the
 * keeper does. The keeper watches the socket by an epoll of its own (socket.c). It should sleep while
 * calls come and go. So its watch is removed when a call begins to read, and set again when the last call
 * leaves: at once if a claim waits for an event or a request is in flight, else by the keeper itself a
 * moment later. */
#include "lk_poll.h"
#include "lk_wakeup.h"
#include "state.h"

/* After a call has left, the keeper takes over after this time, if nothing is waited for. */
static const int64_t lazy_ns = 20 * LK_MS;
/* A keeper that finds a call driving looks again after this time. It looks soon while calls come and go,
 * because otherwise each call that leaves would have to wake it. */
static const int64_t look_again_ns = LK_S;

/* For clang's analysis the connection itself is the lock: the upper floor does not see its mutex. */
LK_UNCHECKED void lk_etcd_enter(lk_etcd_net *net)
{
    lk_mutex_lock(&net->mutex);
}

static void net_unlock(lk_etcd_net *net) LK_RELEASE(*net) LK_UNCHECKED
{
    lk_mutex_unlock(&net->mutex);
}

static bool is_idle_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    return lk_etcd_serves_locked(net) && lk_list_empty(&net->requests) && net->watchers.count == 0;
}

/* Have a sleeping call drive. Return false if there is none. */
static bool wake_driver_locked(const lk_etcd_net *net) LK_REQUIRES(*net)
{
    LK_EACH(lk_etcd_call, call, link, &net->calls) {
        if (call->asleep && !call->done) {
            pthread_cond_signal(&call->cond);
            return true;
        }
    }
    return false;
}

/* Send pending bytes, and make sure that some thread drives: the present one (which may have to look
 * at other events), a sleeping call, or the keeper. */
static void hand_on_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    lk_etcd_flush_locked(net);
    if (net->reading) {
        if (lk_etcd_due_locked(net) < net->poll_until ||
            lk_etcd_socket_events_locked(net) != net->poll_events)
            lk_etcd_kick_locked(net);
        return;
    }
    lk_etcd_settle_locked(net);
    lk_etcd_flush_locked(net); /* what the owner has answered to the events */
    if (wake_driver_locked(net))
        return;
    const bool is_lazy = net->armed == 0 && is_idle_locked(net) && lk_etcd_now(net) < net->left_at + lazy_ns;
    if (!is_lazy)
        lk_etcd_arm_locked(net);
    lk_etcd_keeper_by_locked(net, is_lazy ? net->left_at + lazy_ns : lk_etcd_due_locked(net));
}

void lk_etcd_leave(lk_etcd_net *net)
{
    hand_on_locked(net);
    net_unlock(net);
}

/* ---------------------------------------------------------------- the keeper ---- */
int64_t lk_etcd_turn_locked(lk_etcd_net *net)
{
    const int64_t now = lk_etcd_now(net);
    net->keeper_at = LOCKER_NEVER; /* the keeper has come */
    net->in_turn = true;
    if (!net->reading)
        lk_etcd_tend_locked(net, now);
    const short told = lk_etcd_told_locked(net);
    lk_etcd_found_locked(net);
    if (net->reading && net->stage == LK_ETCD_READING)
        lk_etcd_kick_locked(net); /* the password may have been read */
    if (net->reading)
        return now + (now < net->left_at + look_again_ns ? lazy_ns : look_again_ns);
    if (told == 0 && is_idle_locked(net) && net->armed == 0 && now < net->left_at + lazy_ns)
        return net->left_at + lazy_ns;
    lk_etcd_serve_locked(net, told);
    return lk_etcd_due_locked(net);
}

int64_t lk_etcd_turn_ends_locked(lk_etcd_net *net, int64_t next)
{
    hand_on_locked(net);
    net->in_turn = false;
    net->keeper_at = lk_time_earlier(net->keeper_at, next);
    return net->keeper_at;
}

/* ---------------------------------------------------------------- callers ---- */
static short poll_unlocking(lk_etcd_net *net, int64_t until) LK_REQUIRES(*net)
{
    struct pollfd waits[2] = {{.fd = net->kick_fd, .events = POLLIN},
                              {.fd = net->fd}}; /* fd -1: there is no socket */
    const int64_t now = lk_etcd_now(net);
    net->poll_until = until;
    net->poll_events = waits[1].events = lk_etcd_socket_events_locked(net);
    net->polling = true;
    net_unlock(net);
    const int ready = lk_poll_until(waits, 2, now, until);
    lk_etcd_enter(net);
    net->polling = false;
    if (ready > 0 && waits[0].revents != 0)
        lk_wakeup_clear(net->kick_fd);
    return ready > 0 ? waits[1].revents : 0;
}

/* Poll once and handle the events. No other thread closes the socket meanwhile. */
static void turn_unlocking(lk_etcd_net *net, const lk_etcd_call *call, int64_t until) LK_REQUIRES(*net)
{
    net->reading = true;
    lk_etcd_disarm_locked(net);
    lk_etcd_tend_locked(net, lk_etcd_now(net));
    lk_etcd_flush_locked(net);
    lk_etcd_settle_locked(net);
    if (!call->done && !net->broken)
        lk_etcd_serve_locked(net, poll_unlocking(net, lk_time_earlier(until, lk_etcd_due_locked(net))));
    net->reading = false;
    net->left_at = lk_etcd_now(net);
}

void lk_etcd_call_begin_locked(lk_etcd_net *net, lk_etcd_call *call)
{
    *call = (lk_etcd_call){.done = false};
    (void)locker_cond_init(&call->cond);
    lk_list_append(&net->calls, &call->link);
}

void lk_etcd_call_end_locked(lk_etcd_net *net, lk_etcd_call *call)
{
    lk_list_remove(&call->link);
    pthread_cond_destroy(&call->cond);
    hand_on_locked(net);
}

void lk_etcd_interrupt_locked(lk_etcd_net *net, lk_etcd_call *call)
{
    call->interrupted = true;
    if (call->asleep)
        pthread_cond_signal(&call->cond);
    else
        lk_etcd_kick_locked(net);
}

lk_etcd_outcome lk_etcd_await_unlocking(lk_etcd_net *net, lk_etcd_call *call, int64_t until)
{
    while (!call->done) {
        if (call->interrupted)
            return LK_ETCD_CALL_INTERRUPTED;
        if (lk_etcd_now(net) >= until)
            return LK_ETCD_CALL_LATE;
        if (!net->reading) {
            turn_unlocking(net, call, until);
            continue;
        }
        hand_on_locked(net);
        call->asleep = true;
        net->clock->wait(net->clock->context, &call->cond, &net->mutex.plain, until);
        call->asleep = false;
    }
    return LK_ETCD_CALL_DONE;
}

lk_etcd_outcome lk_etcd_await_up_unlocking(lk_etcd_net *net, lk_etcd_call *call, bool prompt, int64_t until)
{
    lk_etcd_outcome outcome = LK_ETCD_CALL_DONE;
    call->wants_up = true;
    call->prompt = prompt;
    call->deserted = false;
    call->failures = 0;
    if (prompt)
        lk_etcd_hurry_locked(net);
    while (!lk_etcd_serves_locked(net) && outcome == LK_ETCD_CALL_DONE) {
        call->done = false;
        if (net->denied || (prompt && call->deserted))
            outcome = LK_ETCD_CALL_LATE;
        else
            outcome = lk_etcd_await_unlocking(net, call, until);
    }
    call->wants_up = call->done = false;
    return lk_etcd_serves_locked(net) ? LK_ETCD_CALL_DONE : outcome;
}
