/*
 * blocking_connect.c: the parts of connecting in which the client library may block: the handshake of TLS, a
 * loop that has no end, and the beginning of a login by SASL, for which Cyrus' library looks up this host's
 * name, and may ask servers of its own. A thread that lives for one of them makes the library's call, without
 * the mutex. It has the handle to itself: whatever else is done with one needs a connection, or
 * lk_zk_net.reading, which stays set for the thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lk_thread.h"
#include "state.h"

/* However short the session is, a server has that long for its part. */
static const int64_t least_ns = LK_S;

/* The library closes a socket that it reads the end of. By itself it would keep one whose handshake it could
 * not even begin. */
static int give_up_locked(lk_zk_net *net, int socket) LK_REQUIRES(*net)
{
    (void)shutdown(socket, SHUT_RDWR);
    return lk_zk_client_process_locked(net, ZOOKEEPER_READ);
}

/* Why there is no TLS; "": nothing is known against it. */
static void trouble_locked(lk_zk_net *net, const char *why) LK_REQUIRES(*net)
{
    (void)snprintf(net->tls_trouble, sizeof(net->tls_trouble), "%s", why);
}

/* ------------------------------------------------------------------ the thread ---- */

static void tls_failed_locked(lk_zk_net *net, int rc, const char *reason) LK_REQUIRES(*net)
{
    if (zoo_state(net->zh) == *net->set.library.ssl_connecting) { /* it didn't begin */
        trouble_locked(net, reason[0] != '\0' ? reason : "no reason was given");
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
    lk_zk_processed_locked(net, rc);
}

static void *connect_blocking(void *context)
{
    lk_zk_net *net = context;
    char reason[sizeof(net->tls_trouble)] = "";
    const int rc = zookeeper_process(net->zh, net->blocking.events);
    if (net->set.tls != NULL)
        lk_zk_tls_reason(reason, sizeof(reason));
    lk_zk_net_lock(net);
    close(net->blocking.own);
    net->blocking.active = false;
    connected_locked(net, rc, reason);
    lk_zk_session_settle_locked(net);
    net->reading = false;
    lk_zk_hand_on_locked(net);
    lk_zk_leave(net);
    return NULL;
}

/* ------------------------------------------------------------------ beginning and ending ---- */

bool lk_zk_blocking_due_locked(const lk_zk_net *net, int events)
{
    const lk_zk_settings *set = &net->set;
    if (net->zh == NULL || net->fd < 0 || net->up)
        return false;
    if (set->tls != NULL)
        return (events & ZOOKEEPER_WRITE) != 0 && zoo_state(net->zh) == *set->library.ssl_connecting;
    return set->sasl != NULL && !net->login_begun && (events & ZOOKEEPER_READ) != 0 &&
           zoo_state(net->zh) == ZOO_ASSOCIATING_STATE;
}

void lk_zk_blocking_begin_locked(lk_zk_net *net)
{
    lk_zk_blocking *blocking = &net->blocking;
    const int64_t now = lk_zk_net_now(net), patience = lk_zk_patience_locked(net, now);
    const int socket = net->fd;
    if (blocking->joinable)
        (void)pthread_join(blocking->thread, NULL); /* it is past its last lock */
    lk_zk_no_socket_locked(net);
    *blocking = (lk_zk_blocking){.active = true, .socket = socket};
    blocking->events = net->set.tls != NULL ? ZOOKEEPER_WRITE : ZOOKEEPER_READ;
    blocking->until = lk_time_after(now, patience > least_ns ? patience : least_ns);
    trouble_locked(net, net->set.tls != NULL ? "the server did not answer" : ""); /* until it does */
    const bool fits =
        net->set.tls == NULL || socket < FD_SETSIZE; /* the library's handshake waits by select */
    blocking->own = fits ? fcntl(socket, F_DUPFD_CLOEXEC, 0) : -1;
    blocking->joinable =
        blocking->own >= 0 && lk_thread_start(&blocking->thread, NULL, connect_blocking, net) == 0;
    if (blocking->joinable) {
        lk_zk_keeper_by_locked(net, blocking->until);
        return;
    }
    if (fits)
        trouble_locked(net, "no thread or descriptor for the handshake");
    else
        (void)snprintf(
            net->tls_trouble, sizeof(net->tls_trouble),
            "the process has %d descriptors open, and the client library's TLS takes no more than %d", socket,
            FD_SETSIZE);
    if (blocking->own >= 0)
        close(blocking->own);
    blocking->active = false;
    lk_zk_processed_locked(net, give_up_locked(net, socket));
}

int64_t lk_zk_blocking_check_locked(lk_zk_net *net, int64_t now)
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
    (void)lk_zk_blocking_check_locked(net, LOCKER_NEVER);
    lk_zk_net_unlock(net);
    (void)pthread_join(net->blocking.thread, NULL);
    lk_zk_net_lock(net);
}
