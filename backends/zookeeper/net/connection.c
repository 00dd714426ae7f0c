/* connection.c: whether there is a connection, with which server, and why there is none; and who waits for one, which is
 * told. The client library tells of a change by its state; what it doesn't tell is found out where it shows. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "state.h"

enum { ROUNDS_MAX = 2 }; /* of all servers in vain, after which an attempt has no longer */
static const int64_t patience_least_ns = 200 * LK_MS;

bool lk_zk_is_up_locked(const lk_zk_net *net)
{
    return net->up;
}

int64_t lk_zk_session_locked(const lk_zk_net *net)
{
    return net->session_id;
}

int64_t lk_zk_timeout_locked(const lk_zk_net *net)
{
    return net->timeout_ns;
}

void lk_zk_event_awaited_locked(lk_zk_net *net, bool awaited)
{
    net->awaited = awaited ? net->awaited + 1 : net->awaited - 1;
}

void lk_zk_call_done_locked(lk_zk_call *call)
{
    call->done = true;
    if (call->asleep)
        pthread_cond_signal(&call->cond);
}

void lk_zk_call_answered_locked(lk_zk_call *call)
{
    if (--call->pending == 0)
        lk_zk_call_done_locked(call);
}

void lk_zk_calls_go_on_locked(lk_zk_net *net)
{
    LK_EACH(lk_zk_call, call, link, &net->calls)
        if (call->wants_up)
            lk_zk_call_done_locked(call);
}

/* The client library takes its first connection from a list of its own, and leaves its place in the other where it was: there
 * the next two attempts would be at another server, and at the one that was left again. */
static void settle_list_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    char here[128];
    (void)snprintf(here, sizeof(here), "%s", zoo_get_current_server(net->zh));
    for (unsigned i = lk_zk_address_count(net->addresses); i > 0; i--) {
        zoo_cycle_next_server(net->zh);
        if (strcmp(zoo_get_current_server(net->zh), here) == 0)
            break;
    }
}

static void went_up_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    const clientid_t *id = zoo_client_id(net->zh);
    const int64_t timeout_ns = zoo_recv_timeout(net->zh) * LK_MS;
    if (net->session_id != id->client_id) {
        net->validity = (lk_zk_validity){0};
        net->away_since = 0;
        if (timeout_ns != net->set.session_ns)
            net->svc->log(net->svc, LOCKER_LOG_INFO,
                          "zookeeper: asked for a session time-out of %lld ms, the server gave %lld ms",
                          (long long)(net->set.session_ns / LK_MS), (long long)(timeout_ns / LK_MS));
    }
    net->session_id = id->client_id;
    net->timeout_ns = timeout_ns;
    lk_zk_validity_connected(&net->validity, net->begun_at, timeout_ns, net->set.tick_ns);
    settle_list_locked(net);
    net->up = net->came_up = true;
    net->fastest_ns = 0; /* that was another way */
    net->up_since = lk_zk_net_now(net);
    net->silent = 0;
    net->waits_it_out = false;
    net->denied = net->bad_files = false;
    net->no_socket = 0;
    net->tls_trouble[0] = '\0';
    lk_zk_calls_go_on_locked(net);
}

void lk_zk_went_down_locked(lk_zk_net *net)
{
    if (!net->up)
        return;
    net->up = net->came_up = false;
    net->heard = 0;
    const int64_t now = lk_zk_net_now(net);
    if (net->away_since == 0 || now - net->up_since >= net->timeout_ns)
        net->away_since = now;
    if (zoo_state(net->zh) != ZOO_CONNECTED_STATE)
        lk_zk_no_socket_locked(net);
    lk_zk_kick_locked(net);
    lk_zk_keeper_by_locked(net, 0);
    LK_EACH(lk_zk_call, call, line, &net->line)
        lk_zk_call_done_locked(call); /* it waits for a connection first */
    net->owner->on_down(net->z);
}

void lk_zk_session_event_locked(lk_zk_net *net, int state)
{
    if (state == ZOO_CONNECTED_STATE) {
        lk_zk_went_down_locked(net); /* it doesn't tell when sending failed */
        went_up_locked(net);
        return;
    }
    lk_zk_went_down_locked(net);
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        net->over = true;
        net->denied = state == ZOO_AUTH_FAILED_STATE;
    }
}

void lk_zk_reconnect_locked(lk_zk_net *net, const char *why)
{
    if (net->fd < 0)
        return;
    (void)shutdown(net->fd, SHUT_RDWR);
    lk_zk_went_down_locked(net); /* nothing is sent there any more; the driving thread finds the end */
    net->svc->log(net->svc, LOCKER_LOG_INFO, "zookeeper: %s; connecting to %s again", why, net->set.names);
}

void lk_zk_reconnect_once_locked(lk_zk_net *net, const char *why)
{
    net->waits_it_out = true;
    lk_zk_reconnect_locked(net, why);
}

bool lk_zk_has_one_server_locked(const lk_zk_net *net)
{
    return lk_zk_address_count(net->addresses) == 1;
}

/* The client library gives a server two thirds of the time-out before it connects anew, by which time what is held would be
 * all but lost. When its socket is shut down it goes on at once. One server alone may be slow, so it has longer, and however
 * near the deadline, two more attempts fit before it: it may have been restarted, and have forgotten the one that it took.
 * Where nothing is held, each attempt at one alone has the library's time: to begin again would only delay a server that is
 * busy; and of several each has twice as long when all were tried in vain, because a new session has to be ordered by the
 * leader, which may take long. */
int64_t lk_zk_patience_locked(const lk_zk_net *net, int64_t now)
{
    const int64_t left = net->session_id != 0 ? lk_zk_deadline_locked(net) - now : 0;
    const unsigned servers = lk_zk_address_count(net->addresses), rounds = net->silent / servers;
    int64_t patience;
    if (servers > 1)
        patience = lk_time_earlier(net->timeout_ns / 8, net->set.connect_timeout_ns / servers)
                   << (left > 0              ? 0
                       : rounds < ROUNDS_MAX ? rounds
                                             : ROUNDS_MAX);
    else if (left > 0)
        patience =
            net->waits_it_out ? now + left - net->attempt_at : lk_time_earlier(net->timeout_ns / 4, left / 3);
    else /* with TLS the library has no end */
        return net->set.tls != NULL ? net->timeout_ns / 3 * 2 : LOCKER_NEVER;
    return lk_time_later(patience, patience_least_ns);
}

void lk_zk_confirm_locked(lk_zk_net *net, int64_t sent)
{
    const int64_t took_ns = lk_zk_net_now(net) - sent;
    if (net->fastest_ns == 0 || took_ns < net->fastest_ns)
        net->fastest_ns = took_ns;
    lk_zk_validity_ordered(&net->validity, sent);
}

int64_t lk_zk_deadline_locked(const lk_zk_net *net)
{
    return lk_zk_validity_deadline(&net->validity);
}

int64_t lk_zk_promise_locked(const lk_zk_net *net, int64_t sent)
{
    return lk_zk_validity_promise(&net->validity, sent);
}

bool lk_zk_is_unexplained_locked(const lk_zk_net *net)
{
    return !net->denied && !net->bad_files && !net->up && net->no_socket == 0 &&
           net->tls_trouble[0] == '\0' && !net->blocking.active;
}

locker_status lk_zk_away_locked(const lk_zk_net *net, locker_error *err)
{
    if (net->bad_files)
        return lk_misconfigured(err,
                                "cannot set up TLS: %s; check that tls_ca, tls_cert and tls_key "
                                "are PEM files, and that tls_key is the unencrypted key of tls_cert",
                                net->tls_trouble);
    if (net->denied)
        return lk_denied(err,
                         net->set.sasl == NULL ? "ZooKeeper at %s refused the login; check user and password"
                                               : "ZooKeeper at %s refused the SASL login; check user and "
                                                 "password, and that the servers support this mechanism",
                         net->set.names);
    if (net->up)
        return lk_unavailable(err, "ZooKeeper at %s does not answer", net->set.names);
    if (net->no_socket != 0)
        return locker_error_set(
            err, LOCKER_UNAVAILABLE, net->no_socket, "cannot create a socket for ZooKeeper at %s: %s; %s",
            net->set.names, strerror(net->no_socket),
            net->no_socket == EMFILE || net->no_socket == ENFILE ? "raise the limit on open files (ulimit -n)"
                                                                 : "free memory");
    if (net->tls_trouble[0] != '\0')
        return lk_unavailable(err,
                              "cannot connect to ZooKeeper at %s by TLS: %s; check that this "
                              "is a TLS port, and that tls_ca signed the server's certificate",
                              net->set.names, net->tls_trouble);
    if (net->set.tls != NULL)
        return lk_unavailable(err,
                              "no ZooKeeper server of %s can be used by TLS; check that a majority "
                              "is running and reachable, and that the servers trust tls_cert",
                              net->set.names);
    if (net->blocking.active)
        return lk_unavailable(err,
                              "the SASL login to ZooKeeper at %s has not started: the Cyrus SASL library "
                              "is still looking up this host's name; put the name into /etc/hosts",
                              net->set.names);
    return lk_unavailable(/* what a new locker is told: diagnose.c */
                          err,
                          "no ZooKeeper server of %s can be used; check "
                          "that a majority is running and reachable",
                          net->set.names);
}
