/*
 * blocking_connect.c: the parts of connecting in which the client library may block: the handshake of TLS, a
 * loop that has no end, and the beginning of a login by SASL, for which Cyrus' library looks up this host's
 * name, and may ask servers of its own. A thread that lives for one of them makes the library's call, without
 * lk_zk.lock. It has the handle to itself: whatever else is done with one needs a connection, or
 * lk_zk.reading, which stays set for the thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../internal.h"

/* However short the session is, a server has that long for its part. */
static const int64_t shake_least_ns = LK_S;

/* The library closes a socket that it reads the end of. By itself it would keep one whose handshake it could
 * not even begin. */
static int give_up_locked(struct lk_zk *z, int socket)
{
    (void)shutdown(socket, SHUT_RDWR);
    return lk_zk_client_process_locked(z, ZOOKEEPER_READ);
}

/* ------------------------------------------------------------------ the thread ---- */

static void tls_failed_locked(struct lk_zk *z, int rc, const char *reason)
{
    if (zoo_state(z->zh) == *z->set.library.ssl_connecting) { /* it didn't begin */
        (void)snprintf(z->tls_trouble, sizeof(z->tls_trouble), "%s",
                       reason[0] != '\0' ? reason : "no reason was given");
        z->denied = z->bad_files = true;
        lk_zk_refused_locked(z);
        (void)give_up_locked(z, z->shake.socket);
    } else if (rc == ZCONNECTIONLOSS) { /* it was never there */
        z->tls_trouble[0] = '\0';
    } else if (!z->shake.ended) {
        (void)snprintf(z->tls_trouble, sizeof(z->tls_trouble), "%s",
                       reason[0] != '\0' ? reason : "the server closed the connection");
    }
}

static void shaken_locked(struct lk_zk *z, int rc, const char *reason)
{
    const struct lk_zk_shake *shake = &z->shake;
    if (rc == ZOK || rc == ZNOTHING) {
        z->fd = shake->socket;
        z->attempt_at = lk_zk_now(z); /* the server has answered: its time begins again */
        z->login_begun = rc == ZOK && z->set.sasl != NULL;
        z->tls_trouble[0] = '\0';
    } else if (z->set.tls != NULL) {
        tls_failed_locked(z, rc, reason);
    }
    if (shake->event_state != 0)
        lk_zk_session_event_locked(z, shake->event_state);
    lk_zk_processed_locked(z, rc);
}

static void *shake_hands(void *context)
{
    struct lk_zk *z = context;
    char reason[sizeof(z->tls_trouble)] = "";
    const int rc = zookeeper_process(z->zh, z->shake.events);
    if (z->set.tls != NULL)
        lk_zk_tls_reason(reason, sizeof(reason));
    pthread_mutex_lock(&z->lock);
    close(z->shake.own);
    z->shake.own = -1;
    z->shake.active = false;
    shaken_locked(z, rc, reason);
    lk_zk_session_settle_locked(z);
    lk_zk_driven_locked(z);
    lk_zk_leave(z);
    return NULL;
}

/* Signals are for the application's threads. */
static bool start_thread(struct lk_zk *z)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&z->shake.thread, NULL, shake_hands, z) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* ------------------------------------------------------------------ beginning and ending ---- */

bool lk_zk_shake_due_locked(const struct lk_zk *z, int events)
{
    const struct lk_zk_settings *set = &z->set;
    if (z->zh == NULL || z->fd < 0 || z->up)
        return false;
    if (set->tls != NULL)
        return (events & ZOOKEEPER_WRITE) != 0 && zoo_state(z->zh) == *set->library.ssl_connecting;
    return set->sasl != NULL && !z->login_begun && (events & ZOOKEEPER_READ) != 0 &&
           zoo_state(z->zh) == ZOO_ASSOCIATING_STATE;
}

static void could_not_locked(struct lk_zk *z, bool fits)
{
    struct lk_zk_shake *shake = &z->shake;
    shake->active = false;
    if (shake->own >= 0)
        close(shake->own);
    shake->own = -1;
    if (fits)
        (void)snprintf(z->tls_trouble, sizeof(z->tls_trouble), "no thread or descriptor for the handshake");
    else
        (void)snprintf(z->tls_trouble, sizeof(z->tls_trouble),
                       "the process has %d descriptors open, and the client library's TLS takes no more "
                       "than %d",
                       shake->socket, FD_SETSIZE);
    lk_zk_processed_locked(z, give_up_locked(z, shake->socket));
}

void lk_zk_shake_begin_locked(struct lk_zk *z)
{
    struct lk_zk_shake *shake = &z->shake;
    const int64_t now = lk_zk_now(z), patience = lk_zk_patience_locked(z, now);
    const int socket = z->fd;
    if (shake->joinable)
        (void)pthread_join(shake->thread, NULL); /* it is past its last lock */
    lk_zk_no_socket_locked(z);
    *shake = (struct lk_zk_shake){.active = true, .socket = socket, .own = -1};
    shake->events = z->set.tls != NULL ? ZOOKEEPER_WRITE : ZOOKEEPER_READ;
    shake->until = lk_zk_after(now, patience > shake_least_ns ? patience : shake_least_ns);
    if (z->set.tls != NULL) /* until it does */
        (void)snprintf(z->tls_trouble, sizeof(z->tls_trouble), "the server did not answer");
    const bool fits = z->set.tls == NULL || socket < FD_SETSIZE; /* the library's handshake waits by select */
    if (fits)
        shake->own = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    shake->joinable = shake->own >= 0 && start_thread(z);
    if (shake->joinable)
        lk_zk_keeper_by_locked(z, shake->until);
    else
        could_not_locked(z, fits);
}

int64_t lk_zk_shake_check_locked(struct lk_zk *z, int64_t now)
{
    struct lk_zk_shake *shake = &z->shake;
    if (!shake->active)
        return LOCKER_NEVER;
    if (now >= shake->until) {
        shake->until = LOCKER_NEVER;
        shake->ended = true;
        (void)shutdown(shake->own, SHUT_RDWR);
    }
    return shake->until;
}

void lk_zk_shake_stop_locked(struct lk_zk *z)
{
    if (!z->shake.joinable)
        return;
    z->shake.joinable = false;
    (void)lk_zk_shake_check_locked(z, LOCKER_NEVER);
    pthread_mutex_unlock(&z->lock);
    (void)pthread_join(z->shake.thread, NULL);
    pthread_mutex_lock(&z->lock);
}
