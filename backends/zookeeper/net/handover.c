/*
 * handover.c: what the client library waits for, and who sees to that. There is no I/O thread: a caller drives the
 * connection for all, and when it leaves, another one that waits goes on, or the keeper.
 *
 * The keeper watches the socket by an epoll of its own (socket.c). While callers come and go it should sleep: its watch
 * is taken away when a caller begins to read, and is set again when the last one leaves - at once if somebody waits for
 * an event or an answer, else by the keeper itself, a moment later.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "state.h"

static const int64_t turn_at_least_ns = LK_MS;

/* ------------------------------------------------------------------ what the library waits for ---- */

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

/* The client library tries one server after the other, in a list of odd length two places on each time (resolve.c): as
 * many in a row as are listed were all of them. */
static void attempt_failed_locked(lk_zk_net *net, bool refused) LK_REQUIRES(*net)
{
    const unsigned servers = lk_zk_address_count(net->addresses);
    LK_LIST_EACH(link, &net->calls) {
        lk_zk_call *const call = lk_zk_call_of(link);
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
    LK_LIST_EACH(link, &net->calls)
        if (lk_zk_call_of(link)->wants_up && lk_zk_call_of(link)->hurried)
            return true;
    return false;
}

/* Whether an attempt to connect that ended so is worth no waiting. EADDRNOTAVAIL: IPv6 is off. */
static bool is_nobody_there(int error)
{
    return error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH || error == EADDRNOTAVAIL;
}

void lk_zk_ask_interest_locked(lk_zk_net *net, int64_t now)
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
        if (rc == ZINVALIDSTATE)
            net->over = true;
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
    if (fd != net->fd)
        net->corked_fd = -1;
    net->fd = fd;
    net->interest = interest;
    const int64_t ns = (int64_t)span.tv_sec * LK_S + (int64_t)span.tv_usec * 1000;
    net->turn_at = now + (ns > turn_at_least_ns ? ns : turn_at_least_ns);
    if (hurried && fd < 0 && rc == ZOK) /* it would pause after a round of all servers */
        net->turn_at = now;
    if (fd >= 0 && !net->up) {
        const int64_t until = lk_time_after(net->attempt_at, lk_zk_patience_locked(net, now));
        net->turn_at = lk_time_earlier(net->turn_at, until);
        if (now >= until)
            lk_zk_reconnect_locked(net, "a server does not answer");
    }
}

void lk_zk_processed_locked(lk_zk_net *net, int rc)
{
    if (rc == ZINVALIDSTATE || is_unrecoverable(net->zh) != ZOK)
        net->over = true;
    if (zoo_state(net->zh) == ZOO_AUTH_FAILED_STATE) /* it doesn't tell when that was SASL */
        net->denied = true;
    if (rc == ZOK || rc == ZNOTHING)
        return;
    lk_zk_no_socket_locked(net);
    attempt_failed_locked(net, is_nobody_there(net->attempt_error));
    net->attempt_error = 0;
}

/* ------------------------------------------------------------------ who sees to that ---- */

void lk_zk_arm_locked(lk_zk_net *net)
{
    if (net->reading || net->over)
        return;
    lk_zk_ask_interest_locked(net, lk_zk_net_now(net));
    if (net->fd >= 0)
        lk_zk_arm_socket_locked(net);
}

bool lk_zk_is_idle_locked(const lk_zk_net *net)
{
    return net->awaited == 0 && lk_list_empty(&net->requests) && net->up && !net->over;
}

/* Have a caller that sleeps drive. False: none does. */
static bool wake_driver_locked(const lk_zk_net *net) LK_REQUIRES(*net)
{
    LK_LIST_EACH(link, &net->calls) {
        lk_zk_call *const call = lk_zk_call_of(link);
        if (call->asleep && !call->done) {
            pthread_cond_signal(&call->cond);
            return true;
        }
    }
    return false;
}

void lk_zk_hand_on_locked(lk_zk_net *net)
{
    if (net->reading || wake_driver_locked(net))
        return;
    net->left_at = lk_zk_net_now(net);
    if (!lk_zk_is_idle_locked(net)) {
        if (net->armed_fd < 0)
            lk_zk_arm_locked(net);
        lk_zk_keeper_by_locked(net, net->up && !net->over ? net->turn_at : net->left_at);
    } else {
        lk_zk_keeper_by_locked(net, net->left_at + LK_ZK_LAZY_NS);
    }
}
