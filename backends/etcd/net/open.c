/* open.c: the life of a connection, from its settings and the hosts' addresses to its end. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lk_error.h"
#include "lk_fd.h"
#include "lk_wakeup.h"
#include "state.h"

enum { DEFAULT_PORT = 2379 };

const locker_parameter lk_etcd_params[] = {
    LK_TLS_PARAMETER_ROWS("etcds"),
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

int lk_etcd_net_descriptor(const lk_etcd_net *net)
{
    return net->epoll_fd;
}

const char *lk_etcd_net_names(const lk_etcd_net *net)
{
    return net->hosts->names;
}

/* ---------------------------------------------------------------- settings ---- */
static locker_status copy_login(lk_etcd_net *net, const locker_driver_config *config, locker_error *err)
{
    if (config->user == NULL && config->password == NULL)
        return LOCKER_OK;
    if (config->user == NULL || config->password == NULL)
        return lk_misconfigured(err, "etcd's login needs a user and a password, but the %s is missing; %s",
                                config->user == NULL ? "user" : "password",
                                config->user == NULL ? "write etcd://user@host"
                                                     : "set password_file or LOCKER_PASSWORD");
    net->user = strdup(config->user);
    net->password = strdup(config->password);
    if (config->password_file != NULL && (net->secret = lk_etcd_secret_new(config->password_file)) == NULL)
        return lk_out_of_memory(err);
    return net->user != NULL && net->password != NULL ? LOCKER_OK : lk_out_of_memory(err);
}

/* Copy the TLS parameters. Without TLS, a TLS parameter is refused, as it would do nothing. */
static locker_status copy_tls(lk_etcd_net *net, const locker_driver_config *config, locker_error *err)
{
    net->tls.on = strcmp(config->scheme, "etcds") == 0;
    net->tls.alpn = "h2";
    net->tls.service = "etcd";
    net->tls.without_tls = "write etcd://";
    net->tls.needing = "etcds:// needs";
    for (size_t i = 0; i < LK_TLS_PARAMETERS && !net->tls.on; i++)
        if (config->values[i].given)
            return lk_misconfigured(err, "the parameter '%s' needs the scheme etcds", lk_etcd_params[i].name);
    if (!lk_tls_settings_copy(&net->tls, config->values))
        return lk_out_of_memory(err);
    return net->tls.on ? lk_tls_init(&net->tls, config->values, err) : LOCKER_OK;
}

/* ---------------------------------------------------------------- life ---- */
static locker_status connect_first(lk_etcd_net *net, int64_t until, locker_error *err)
{
    lk_etcd_call call;
    locker_status status = LOCKER_OK;
    lk_etcd_enter(net);
    lk_etcd_call_begin_locked(net, &call);
    if (lk_etcd_await_up_unlocking(net, &call, true, until) != LK_ETCD_CALL_DONE)
        status = lk_etcd_away_locked(net, err);
    lk_etcd_call_end_locked(net, &call);
    lk_etcd_leave(net);
    return status;
}

LK_UNCHECKED static lk_etcd_net *make(lk_etcd *e, const lk_etcd_owner *owner, const locker_services *svc)
{
    lk_etcd_net *const net = calloc(1, sizeof *net);
    if (net == NULL)
        return NULL;
    lk_mutex_init(&net->mutex);
    net->e = e;
    net->owner = owner;
    net->svc = svc;
    net->clock = svc->clock;
    net->fd = -1;
    net->keeper_at = LOCKER_NEVER;
    lk_list_init(&net->requests);
    lk_list_init(&net->spare);
    lk_list_init(&net->calls);
    net->epoll_fd = lk_fd_high(epoll_create1(EPOLL_CLOEXEC));
    net->kick_fd = lk_wakeup_new();
    return net;
}

LK_UNCHECKED static locker_status set_up(lk_etcd_net *net, const locker_driver_config *config,
                                         locker_error *err)
{
    if (net->epoll_fd < 0 || net->kick_fd < 0)
        return locker_error_set(
            err, LOCKER_UNAVAILABLE, errno,
            "cannot create the driver's descriptors: %s; raise the limit on open files (ulimit -n)",
            strerror(errno));
    net->busy_patience = net->patience = net->patience_ns = config->command_timeout_ns / 2;
    locker_status status = copy_login(net, config, err);
    if (status == LOCKER_OK)
        status = copy_tls(net, config, err);
    net->connect_timeout_ns = config->connect_timeout_ns;
    net->hosts = lk_hosts_new(config, DEFAULT_PORT);
    if (status == LOCKER_OK)
        status = net->hosts != NULL ? lk_etcd_endpoints_find(net, err) : lk_out_of_memory(err);
    const int64_t until = lk_time_after(lk_etcd_now(net), config->connect_timeout_ns);
    return status == LOCKER_OK ? connect_first(net, until, err) : status;
}

locker_status lk_etcd_net_open(lk_etcd_net **out, lk_etcd *e, const lk_etcd_owner *owner,
                               const locker_driver_config *config, const locker_services *svc,
                               locker_error *err)
{
    lk_etcd_net *const net = *out = make(e, owner, svc);
    const locker_status status = net != NULL ? set_up(net, config, err) : lk_out_of_memory(err);
    if (status == LOCKER_OK)
        return LOCKER_OK;
    lk_etcd_net_free(net);
    *out = NULL;
    return status;
}

void lk_etcd_net_abandon(const lk_etcd_net *net)
{
    if (net->fd >= 0)
        close(net->fd);
    close(net->epoll_fd);
    close(net->kick_fd);
}

static void forget_secret(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

void lk_etcd_net_free(lk_etcd_net *net)
{
    if (net == NULL)
        return;
    net->stage = LK_ETCD_AWAY;
    lk_etcd_http2_end_locked(net);
    lk_etcd_socket_close_locked(net, false); /* without a reset, so that the last bytes go out */
    lk_etcd_requests_lost_locked(net);
    lk_etcd_requests_free(net);
    lk_table_destroy(&net->watchers);
    lk_etcd_bytes_free(&net->watch.in);
    lk_etcd_bytes_free(&net->watch.out);
    lk_etcd_bytes_free(&net->out);
    free(net->endpoints);
    free(net->fresh);
    lk_hosts_drop(net->hosts);
    free(net->token);
    lk_tls_clear(&net->tls);
    forget_secret(net->user);
    forget_secret(net->password);
    lk_etcd_secret_drop(net->secret);
    if (net->epoll_fd >= 0)
        close(net->epoll_fd);
    if (net->kick_fd >= 0)
        close(net->kick_fd);
    lk_mutex_destroy(&net->mutex);
    free(net);
}
