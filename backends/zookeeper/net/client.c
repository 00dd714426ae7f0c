/* client.c: a handle of the client library: plain, with TLS or with SASL; and its calls, without SIGPIPE. */
#include "state.h"

/* ------------------------------------------------------------------ SIGPIPE ---- */

void lk_zk_sigpipe_block(const lk_zk_net *net, lk_sigpipe *guard)
{
    if (net->set.tls != NULL)
        lk_sigpipe_block(guard);
}

void lk_zk_sigpipe_restore(const lk_zk_net *net, const lk_sigpipe *guard)
{
    if (net->set.tls != NULL)
        lk_sigpipe_restore(guard);
}

/* ------------------------------------------------------------------ handles ---- */

/* Of zookeeper_log.h, which can't be included by the name that it is installed with. */
extern ZOOAPI ZooLogLevel logLevel;

/* The library's messages say nothing that its states don't. Without a callback they'd go to stderr. */
static void drop_message(const char *message)
{
    (void)message;
}

/* zookeeper_init_ssl uses strtok, takes no callback for messages, and tells of itself on stderr at the usual
 * level, which is the process's. */
static zhandle_t *new_tls(const lk_zk_net *net, watcher_fn watcher, int timeout_ms, void *context, int flags)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&turn);
    const ZooLogLevel level = logLevel;
    if (level > ZOO_LOG_LEVEL_WARN)
        logLevel = ZOO_LOG_LEVEL_WARN;
    zhandle_t *zh =
        net->set.library.init_ssl(net->addresses, net->set.tls, watcher, timeout_ms, NULL, context, flags);
    if (level > ZOO_LOG_LEVEL_WARN && logLevel == ZOO_LOG_LEVEL_WARN)
        logLevel = level;
    pthread_mutex_unlock(&turn);
    if (zh != NULL)
        zoo_set_log_callback(zh, drop_message);
    return zh;
}

zhandle_t *lk_zk_client_new_locked(lk_zk_net *net, watcher_fn watcher)
{
    const lk_zk_settings *set = &net->set;
    const int timeout_ms = (int)(set->session_ns / LK_MS), flags = ZOO_NO_LOG_CLIENTENV;
    if (set->tls != NULL)
        return new_tls(net, watcher, timeout_ms, net, flags);
    if (set->sasl != NULL)
        return set->library.init_sasl(net->addresses, watcher, timeout_ms, NULL, net, flags, drop_message,
                                      lk_zk_sasl_params_of(set->sasl));
    return zookeeper_init2(net->addresses, watcher, timeout_ms, NULL, net, flags, drop_message);
}

int lk_zk_client_process_locked(lk_zk_net *net, int events)
{
    lk_sigpipe guard;
    lk_zk_sigpipe_block(net, &guard);
    const int rc = zookeeper_process(net->zh, events);
    lk_zk_sigpipe_restore(net, &guard);
    return rc;
}

void lk_zk_client_close_locked(lk_zk_net *net)
{
    lk_sigpipe guard;
    lk_zk_sigpipe_block(net, &guard);
    (void)zookeeper_close(net->zh);
    lk_zk_sigpipe_restore(net, &guard);
    net->zh = NULL;
}
