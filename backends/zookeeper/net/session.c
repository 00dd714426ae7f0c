/*
 * session.c: the session and its client handle. All places in queues belong to the session: they end with it.
 * A handle whose session is over is closed, and another one is made; whoever waits then queues anew, under
 * new names, and what was held is lost.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../internal.h"

static const int64_t begin_again_ns = 200 * LK_MS;
static const int64_t resume_after_ns = 100 * LK_MS;
static const int64_t patience_least_ns = 200 * LK_MS;

/* ------------------------------------------------------------------ what the library tells ---- */

static void went_up_locked(struct lk_zk *z)
{
    const clientid_t *id = zoo_client_id(z->zh);
    const int64_t timeout_ns = zoo_recv_timeout(z->zh) * LK_MS;
    if (z->session_id != id->client_id) {
        z->validity = (struct lk_zk_validity){0};
        if (timeout_ns != z->set.session_ns)
            lk_zk_note_locked(z, LOCKER_LOG_INFO,
                              "zookeeper: asked for a session time-out of %lld ms, the server gave %lld ms",
                              (long long)(z->set.session_ns / LK_MS), (long long)(timeout_ns / LK_MS));
    }
    z->session_id = id->client_id;
    z->timeout_ns = timeout_ns;
    lk_zk_validity_connected(&z->validity, z->begun_at, timeout_ns, z->set.tick_ns);
    z->up = z->came_up = true;
    z->denied = z->bad_files = false;
    z->no_socket = 0;
    z->tls_trouble[0] = '\0';
    z->away_since = 0;
    for (struct lk_zk_call *call = z->calls; call != NULL; call = call->next)
        if (call->wants_up)
            lk_zk_call_done_locked(call);
}

void lk_zk_went_down_locked(struct lk_zk *z)
{
    if (!z->up)
        return;
    z->up = z->came_up = false;
    z->away_since = lk_zk_now(z);
    z->beat_unanswered = 0;
    if (zoo_state(z->zh) != ZOO_CONNECTED_STATE)
        lk_zk_no_socket_locked(z);
    lk_zk_kick_locked(z);
    lk_zk_keeper_by_locked(z, 0);
    if (!z->suspect) {
        z->suspect = true;
        z->svc->suspect(z->svc, true);
        lk_zk_note_locked(z, LOCKER_LOG_INFO, "zookeeper: lost the connection to %s", z->set.names);
    }
}

/* Called by the library with lock held, by the thread that drives; or by that of blocking_connect.c. */
static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct lk_zk *z = context;
    (void)path;
    if (type != ZOO_SESSION_EVENT || zh != z->zh)
        return;
    if (z->shake.active) /* and without lock */
        z->shake.event_state = state;
    else
        lk_zk_session_event_locked(z, state);
}

void lk_zk_session_event_locked(struct lk_zk *z, int state)
{
    if (state == ZOO_CONNECTED_STATE) {
        lk_zk_went_down_locked(z); /* it doesn't tell when sending failed */
        went_up_locked(z);
        return;
    }
    lk_zk_went_down_locked(z);
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        z->over = true;
        z->denied = state == ZOO_AUTH_FAILED_STATE;
    }
}

/* ------------------------------------------------------------------ beginning and ending ---- */

/* The client library may close its socket, without telling. The next one that it opens may have the same
 * number, and must not be taken for it: its session is confirmed from when it was begun. */
void lk_zk_servers_set_locked(struct lk_zk *z, const char *addresses)
{
    (void)zoo_set_servers(z->zh, addresses);
    if (zoo_state(z->zh) != ZOO_NOTCONNECTED_STATE)
        return;
    lk_zk_went_down_locked(z);
    lk_zk_no_socket_locked(z);
}

void lk_zk_session_begin_locked(struct lk_zk *z)
{
    const int64_t now = lk_zk_now(z);
    char *fresh = lk_zk_lookup_take_locked(z);
    if (fresh != NULL) {
        if (z->zh != NULL && strcmp(fresh, z->addresses) != 0)
            lk_zk_servers_set_locked(z, fresh);
        free(z->addresses);
        z->addresses = fresh;
    }
    if (z->zh != NULL || now < z->begin_at)
        return;
    z->begin_at = now + begin_again_ns;
    z->over = z->up = z->came_up = false;
    lk_zk_no_socket_locked(z);
    z->session_id = 0;
    z->timeout_ns = z->set.session_ns;
    z->zh = lk_zk_client_new_locked(z, on_session);
    if (z->zh == NULL)
        return;
    (void)zoo_set_servers_resolution_delay(z->zh, -1);
    if (z->set.credentials != NULL)
        (void)zoo_add_auth(z->zh, "digest", z->set.credentials, (int)strlen(z->set.credentials), NULL, NULL);
}

/* What was there is gone with the session, or will be when the servers count it out. */
static void lose_all_locked(struct lk_zk *z, struct lk_zk_node *node, const char *why)
{
    for (struct lk_zk_node *next; node != NULL; node = next) {
        next = node->next;
        lk_zk_node_vanish_locked(z, node, why);
    }
}

static void lose_nodes_locked(struct lk_zk *z)
{
    static const char why[] = "its session with ZooKeeper has ended";
    z->may_stray = true;
    z->svc->lease_lost(z->svc, NULL, why);
    lose_all_locked(z, z->nodes, why);
    lose_all_locked(z, z->left, why);
    lose_all_locked(z, z->doubtful, why);
}

void lk_zk_session_drop_locked(struct lk_zk *z)
{
    zhandle_t *zh = z->zh;
    if (zh == NULL)
        return;
    /* A handle that is still connected would say good-bye, and wait up to 4.5 s for the answer. */
    if (z->fd >= 0 && zoo_state(zh) == ZOO_CONNECTED_STATE)
        (void)shutdown(z->fd, SHUT_RDWR);
    lk_zk_went_down_locked(z);
    lk_zk_client_close_locked(z); /* completions that it calls find their ops; it may leave some out */
    lk_zk_no_socket_locked(z);
    z->over = false;
    lk_zk_ops_fail_locked(z);
    lk_zk_watches_free_locked(z);
    lose_nodes_locked(z);
    z->session_id = 0;
    z->doubted = false;
    z->validity = (struct lk_zk_validity){0};
    z->begin_at = 0;
}

/* ------------------------------------------------------------------ servers ---- */

static unsigned server_count(const struct lk_zk *z)
{
    unsigned count = 1;
    for (const char *c = z->addresses; *c != '\0'; c++)
        count += *c == ',';
    return count;
}

static bool has_choice(const struct lk_zk *z)
{
    return strchr(z->addresses, ',') != NULL;
}

void lk_zk_leave_server_locked(struct lk_zk *z, const char *why)
{
    if (has_choice(z))
        lk_zk_reconnect_locked(z, why);
}

void lk_zk_reconnect_locked(struct lk_zk *z, const char *why)
{
    if (z->fd < 0)
        return;
    (void)shutdown(z->fd, SHUT_RDWR);
    lk_zk_went_down_locked(z); /* nothing is sent there any more; the driving thread finds the end */
    lk_zk_note_locked(z, LOCKER_LOG_INFO, "zookeeper: %s; connecting to %s again", why, z->set.names);
}

/* The client library gives a server two thirds of the time-out before it connects anew, by which time what is
 * held would be all but lost. When its socket is shut down it goes on at once.
 *
 * One server alone may be slow, so it has longer, and however near the deadline, two more attempts fit before
 * it: it may have been restarted, and have forgotten the one that it took. Where
 * nothing is held, each attempt has the library's time: to begin again would only delay a server that is
 * busy. */
int64_t lk_zk_patience_locked(const struct lk_zk *z, int64_t now)
{
    const int64_t left = z->session_id != 0 ? lk_zk_deadline_locked(z) - now : 0;
    int64_t patience;
    if (has_choice(z))
        patience = lk_zk_earlier(z->timeout_ns / 8, z->set.connect_timeout_ns / server_count(z));
    else if (left > 0)
        patience = lk_zk_earlier(z->timeout_ns / 4, left / 3);
    else /* with TLS the library has no end */
        return z->set.tls != NULL ? z->timeout_ns / 3 * 2 : LOCKER_NEVER;
    return patience > patience_least_ns ? patience : patience_least_ns;
}

/* A session that has been away for its time-out has ended, unless the servers were without a majority all the
 * while. A server that came back without its data would refuse it for ever, so it isn't kept for ever: places
 * in queues are given a second time-out. */
static bool away_too_long_locked(const struct lk_zk *z)
{
    if (z->up || z->zh == NULL || z->away_since == 0 || z->session_id == 0)
        return false;
    const int64_t away = lk_zk_now(z) - z->away_since;
    return away > 2 * z->timeout_ns || (away > z->timeout_ns && z->enrolled == 0);
}

/* ------------------------------------------------------------------ after each turn ---- */

void lk_zk_resume_locked(struct lk_zk *z)
{
    struct lk_zk_node *next;
    z->resume_at = LOCKER_NEVER;
    lk_zk_watches_resume_locked(z);
    for (struct lk_zk_node *node = z->nodes; node != NULL; node = next) {
        next = node->next;
        lk_zk_node_resume_locked(z, node);
    }
    for (struct lk_zk_node *node = z->left; node != NULL; node = next) {
        next = node->next;
        lk_zk_node_resume_locked(z, node);
    }
}

void lk_zk_stalled_locked(struct lk_zk *z)
{
    if (!z->up || z->resume_at != LOCKER_NEVER)
        return;
    z->resume_at = lk_zk_now(z) + resume_after_ns;
    lk_zk_keeper_by_locked(z, z->resume_at);
}

void lk_zk_refused_locked(struct lk_zk *z)
{
    for (struct lk_zk_call *call = z->calls; call != NULL; call = call->next)
        if (call->wants_up)
            lk_zk_call_done_locked(call);
}

/* The client library tries one server after the other, in a list of odd length two places on each time
 * (resolve.c): as many in a row as are listed were all of them. */
void lk_zk_attempt_failed_locked(struct lk_zk *z, bool refused)
{
    for (struct lk_zk_call *call = z->calls; call != NULL; call = call->next) {
        call->refusals = refused ? call->refusals + 1 : 0;
        call->hurried = call->hurried && refused;
        if (!call->wants_up || !call->prompt || call->refusals < server_count(z))
            continue;
        call->deserted = true;
        lk_zk_call_done_locked(call);
    }
}

bool lk_zk_hurried_locked(const struct lk_zk *z)
{
    for (const struct lk_zk_call *call = z->calls; call != NULL; call = call->next)
        if (call->wants_up && call->hurried)
            return true;
    return false;
}

void lk_zk_session_settle_locked(struct lk_zk *z)
{
    if (z->over) {
        const bool denied = z->denied;
        lk_zk_note_locked(z, LOCKER_LOG_WARN, "zookeeper: the session with %s %s", z->set.names,
                          denied ? "was refused" : "has ended; waiters queue anew");
        lk_zk_session_drop_locked(z);
        if (denied) {
            z->begin_at = lk_zk_now(z) + LK_S;
            lk_zk_refused_locked(z);
        }
    }
    if (z->zh != NULL && z->up && zoo_state(z->zh) != ZOO_CONNECTED_STATE)
        lk_zk_went_down_locked(z);
    if (away_too_long_locked(z))
        lk_zk_session_drop_locked(z);
    if (!z->literal && !z->up && z->zh != NULL && z->away_since != 0 &&
        lk_zk_now(z) - z->away_since > z->timeout_ns / 2 && lk_zk_now(z) - z->looked_up_at > z->timeout_ns)
        lk_zk_lookup_start_locked(z); /* the servers may have moved */
    if (!z->came_up)
        return;
    z->came_up = false;
    if (z->suspect) {
        z->suspect = false;
        z->svc->suspect(z->svc, false);
        lk_zk_note_locked(z, LOCKER_LOG_INFO, "zookeeper: connected to %s again", z->set.names);
    }
    z->beat_at = z->quarter_at = 0; /* at once: what is held has not been confirmed for a while */
    lk_zk_keeper_by_locked(z, 0);
    lk_zk_search_all_locked(z);
    lk_zk_resume_locked(z);
}

/* ------------------------------------------------------------------ validity ---- */

void lk_zk_confirm_locked(struct lk_zk *z, int64_t sent)
{
    lk_zk_validity_ordered(&z->validity, sent);
}

int64_t lk_zk_deadline_locked(const struct lk_zk *z)
{
    return lk_zk_validity_deadline(&z->validity);
}

locker_status lk_zk_away_locked(const struct lk_zk *z, locker_error *err)
{
    if (z->bad_files)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "can't set up TLS: %s; tls_ca, tls_cert and tls_key must be PEM, the key not "
                                "encrypted and the certificate's own",
                                z->tls_trouble);
    if (z->denied)
        return locker_error_set(err, LOCKER_DENIED, 0,
                                z->set.sasl == NULL
                                    ? "ZooKeeper at %s refused the login; check user and password"
                                    : "ZooKeeper at %s refused the login by SASL; check user and password, "
                                      "and that the servers take this mechanism",
                                z->set.names);
    if (z->up)
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "ZooKeeper at %s does not answer", z->set.names);
    if (z->no_socket != 0)
        return locker_error_set(
            err, LOCKER_UNAVAILABLE, z->no_socket, "can't make a socket for ZooKeeper at %s: %s; %s",
            z->set.names, strerror(z->no_socket),
            z->no_socket == EMFILE || z->no_socket == ENFILE ? "raise the limit on open files (ulimit -n)"
                                                             : "free memory");
    if (z->tls_trouble[0] != '\0')
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                                "no TLS with ZooKeeper at %s: %s; check that the port is one for TLS, and "
                                "that tls_ca certified the server",
                                z->set.names, z->tls_trouble);
    if (z->set.tls != NULL)
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                                "no ZooKeeper server of %s serves us by TLS: none is reachable and part of a "
                                "majority, or tls_cert is not what they trust",
                                z->set.names);
    return locker_error_set(
        err, LOCKER_UNAVAILABLE, 0,
        "no ZooKeeper server of %s serves us: none is running, reachable and part of a majority",
        z->set.names);
}
