/* session.c: the session and its client handle: plain, with TLS or with SASL. A handle whose session is over is closed, and
 * another one is made; the owner is told, because all that it had at the servers ends with the session. */
#include <string.h>
#include <sys/socket.h>

#include "state.h"

static const int64_t begin_again_ns = 200 * LK_MS;

/* Of zookeeper_log.h, which can't be included by the name that it is installed with. */
extern ZOOAPI ZooLogLevel logLevel;

/* The library's messages say nothing that its states don't. Without a callback they'd go to stderr. */
static void drop_message(const char *message)
{
    (void)message;
}

/* Called by the library with the mutex held, by the thread that drives; or by that in which it may block. */
LK_UNCHECKED static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    lk_zk_net *net = context;
    (void)path;
    if (type != ZOO_SESSION_EVENT || zh != net->zh)
        return;
    if (net->blocking.active) /* and without the mutex */
        net->blocking.event_state = state;
    else
        lk_zk_session_event_locked(net, state);
}

/* zookeeper_init_ssl uses strtok, takes no callback for messages, and writes to stderr, by a global level. */
static zhandle_t *new_tls_locked(lk_zk_net *net, int timeout_ms, int flags) LK_REQUIRES(*net)
{
    static lk_mutex turn = {PTHREAD_MUTEX_INITIALIZER};
    lk_mutex_lock(&turn);
    const ZooLogLevel level = logLevel;
    if (level > ZOO_LOG_LEVEL_WARN)
        logLevel = ZOO_LOG_LEVEL_WARN;
    zhandle_t *zh =
        net->set.library.init_ssl(net->addresses, net->set.tls, on_session, timeout_ms, NULL, net, flags);
    if (level > ZOO_LOG_LEVEL_WARN && logLevel == ZOO_LOG_LEVEL_WARN)
        logLevel = level;
    lk_mutex_unlock(&turn);
    if (zh != NULL)
        zoo_set_log_callback(zh, drop_message);
    return zh;
}

static zhandle_t *client_new_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    const lk_zk_settings *set = &net->set;
    const int timeout_ms = (int)(set->session_ns / LK_MS), flags = ZOO_NO_LOG_CLIENTENV;
    if (set->tls != NULL)
        return new_tls_locked(net, timeout_ms, flags);
    if (set->sasl != NULL)
        return set->library.init_sasl(net->addresses, on_session, timeout_ms, NULL, net, flags, drop_message,
                                      set->sasl);
    return zookeeper_init2(net->addresses, on_session, timeout_ms, NULL, net, flags, drop_message);
}

void lk_zk_client_close_locked(lk_zk_net *net)
{
    lk_sigpipe guard;
    lk_zk_sigpipe_block(net, &guard);
    (void)zookeeper_close(net->zh);
    lk_zk_sigpipe_restore(net, &guard);
    net->zh = NULL;
}

/* The client library may close its socket, without telling. The next one that it opens may have the same
 * number, and must not be taken for it: its session is confirmed from when it was begun. What awaited an answer it would
 * keep for the next one, too, whose first answer would not fit that; so nothing may. */
void lk_zk_servers_set_locked(lk_zk_net *net, const char *addresses)
{
    (void)zoo_set_servers(net->zh, addresses);
    if (zoo_state(net->zh) != ZOO_NOTCONNECTED_STATE)
        return;
    lk_zk_went_down_locked(net);
    lk_zk_no_socket_locked(net);
}

static void take_addresses_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    char *fresh;
    if (!net->looking_up || !lk_list_empty(&net->requests) || !lk_zk_lookup_take(net->set.hosts, &fresh))
        return;
    net->looking_up = false;
    if (fresh == NULL)
        return;
    if (net->zh != NULL && strcmp(fresh, net->addresses) != 0)
        lk_zk_servers_set_locked(net, fresh);
    free(net->addresses);
    net->addresses = fresh;
}

void lk_zk_session_begin_locked(lk_zk_net *net)
{
    const int64_t now = lk_zk_net_now(net);
    take_addresses_locked(net);
    if (net->zh != NULL || now < net->begin_at)
        return;
    net->begin_at = now + begin_again_ns;
    net->over = net->up = net->came_up = false;
    lk_zk_no_socket_locked(net);
    net->session_id = 0;
    net->timeout_ns = net->set.session_ns;
    net->zh = client_new_locked(net);
    if (net->zh == NULL)
        return;
    (void)zoo_set_servers_resolution_delay(net->zh, -1);
    if (net->set.credentials != NULL)
        (void)zoo_add_auth(net->zh, "digest", net->set.credentials, (int)strlen(net->set.credentials), NULL,
                           NULL);
}

void lk_zk_session_drop_locked(lk_zk_net *net)
{
    zhandle_t *zh = net->zh;
    if (zh == NULL)
        return;
    /* A handle that is still connected would say good-bye, and wait up to 4.5 s for the answer. */
    if (net->fd >= 0 && zoo_state(zh) == ZOO_CONNECTED_STATE)
        (void)shutdown(net->fd, SHUT_RDWR);
    lk_zk_went_down_locked(net);
    lk_zk_client_close_locked(net); /* completions that it calls find their requests; it may leave some out */
    lk_zk_no_socket_locked(net);
    net->over = false;
    lk_zk_requests_fail_locked(net);
    lk_zk_watches_free_locked(net);
    net->owner->on_ended(net->z);
    net->session_id = 0;
    net->validity = (lk_zk_validity){0};
    net->begin_at = 0;
}

void lk_zk_give_up_locked(lk_zk_net *net)
{
    net->over = true;
    lk_zk_kick_locked(net); /* who drives ends it, when it comes back */
}

/* A session that has been away for its time-out has ended, unless the servers were without a majority all the
 * while. A server that came back without its data would refuse it for ever, so it isn't kept for ever: places
 * in queues are given a second time-out. */
static bool away_too_long_locked(const lk_zk_net *net) LK_REQUIRES(*net)
{
    if (net->up || net->zh == NULL || net->away_since == 0 || net->session_id == 0)
        return false;
    const int64_t away = lk_zk_net_now(net) - net->away_since;
    return away > 2 * net->timeout_ns || (away > net->timeout_ns && net->awaited == 0);
}

/* The servers may have moved. */
static void look_up_again_locked(lk_zk_net *net) LK_REQUIRES(*net)
{
    if (net->literal || net->up || net->zh == NULL || net->looking_up || net->away_since == 0)
        return;
    const int64_t now = lk_zk_net_now(net);
    if (now - net->away_since <= net->timeout_ns / 2 || now - net->looked_up_at <= net->timeout_ns)
        return;
    net->looked_up_at = now;
    net->looking_up = lk_hosts_lookup_start(net->set.hosts, net->svc);
}

void lk_zk_session_settle_locked(lk_zk_net *net)
{
    if (net->over) {
        const bool denied = net->denied;
        net->svc->log(net->svc, LOCKER_LOG_WARN, "zookeeper: the session with %s %s", net->set.names,
                      denied ? "was refused" : "has ended; waiters queue again");
        lk_zk_session_drop_locked(net);
        if (denied) {
            net->begin_at = lk_zk_net_now(net) + LK_S;
            lk_zk_calls_go_on_locked(net);
        }
    }
    if (net->zh != NULL && net->up && zoo_state(net->zh) != ZOO_CONNECTED_STATE)
        lk_zk_went_down_locked(net);
    if (away_too_long_locked(net))
        lk_zk_session_drop_locked(net);
    look_up_again_locked(net);
    if (!net->came_up)
        return;
    net->came_up = false;
    net->owner->on_up(net->z);
    lk_zk_let_in_locked(net);
}
