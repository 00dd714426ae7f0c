/* open.c: the life of a connection, from its settings and the hosts' addresses to its end. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "lk_error.h"
#include "lk_wakeup.h"
#include "state.h"

enum { DEFAULT_PORT = 2379 };
static const int64_t attempt_least_ns = 100 * LK_MS;

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
    return net->names;
}

/* ---------------------------------------------------------------- settings ---- */
static locker_status copy_login(lk_etcd_net *net, const locker_driver_config *config, locker_error *err)
{
    if (config->user == NULL && config->password == NULL)
        return LOCKER_OK;
    if (config->user == NULL || config->password == NULL)
        return lk_misconfigured(err, "etcd's login takes a user and a password, and the %s is missing: %s",
                                config->user == NULL ? "user" : "password",
                                config->user == NULL ? "write etcd://user@host"
                                                     : "give password_file or LOCKER_PASSWORD");
    net->user = strdup(config->user);
    net->password = strdup(config->password);
    return net->user != NULL && net->password != NULL ? LOCKER_OK : lk_out_of_memory(err);
}

/* A parameter of TLS without TLS would do nothing. */
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

/* "host:port", an IPv6 address in brackets. NULL: no memory. */
static char *name_of(const locker_host *host)
{
    const bool is_ipv6 = strchr(host->name, ':') != NULL;
    char *name;
    return asprintf(&name, "%s%s%s:%d", is_ipv6 ? "[" : "", host->name, is_ipv6 ? "]" : "",
                    host->port != 0 ? host->port : DEFAULT_PORT) < 0
               ? NULL
               : name;
}

static bool add_name(lk_etcd_net *net, const char *name)
{
    char *const before = net->names;
    if (asprintf(&net->names, "%s%s%s", before != NULL ? before : "", before != NULL ? "," : "", name) < 0)
        net->names = NULL;
    free(before);
    return net->names != NULL;
}

/* ---------------------------------------------------------------- the hosts ---- */
/* A host with the loopback interface alone has no configured address. */
static struct addrinfo *look_up(const char *host, const char *port, int *rc)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    errno = 0;
    *rc = getaddrinfo(host, port, &hints, &found);
    if (*rc != 0) {
        hints.ai_flags = AI_NUMERICSERV;
        *rc = getaddrinfo(host, port, &hints, &found);
    }
    return *rc == 0 ? found : NULL;
}

/* getaddrinfo() calls it a name that isn't known when it gets no descriptor. */
static void tell_unresolved(const char *host, int rc, int error, locker_error *err)
{
    const bool full = error == EMFILE || error == ENFILE;
    (void)locker_error_set(err, LOCKER_UNAVAILABLE, full ? error : 0,
                           "the host '%s' can't be resolved: %s; %s", host,
                           full || rc == EAI_SYSTEM ? strerror(error) : gai_strerror(rc),
                           full ? "raise the limit on open files (ulimit -n)" : "check its name");
}

static bool add_endpoint(lk_etcd_net *net, const struct addrinfo *address, const char *name, const char *host)
{
    lk_etcd_endpoint *const list = realloc(net->endpoints, (net->endpoint_count + 1) * sizeof *list);
    if (list == NULL)
        return false;
    net->endpoints = list;
    lk_etcd_endpoint *const last = &list[net->endpoint_count];
    *last = (lk_etcd_endpoint){.len = address->ai_addrlen, .name = strdup(name), .host = strdup(host)};
    memcpy(&last->address, address->ai_addr, address->ai_addrlen);
    net->endpoint_count++;
    return last->name != NULL && last->host != NULL;
}

/* One that has no address now is left out: another may do. False: no memory. */
static bool add_host(lk_etcd_net *net, const locker_host *host, locker_error *err)
{
    char port[16];
    int rc;
    char *const name = name_of(host);
    bool added = name != NULL && add_name(net, name);
    (void)snprintf(port, sizeof port, "%d", host->port != 0 ? host->port : DEFAULT_PORT);
    struct addrinfo *const found = added ? look_up(host->name, port, &rc) : NULL;
    if (added && found == NULL)
        tell_unresolved(host->name, rc, errno, err);
    for (const struct addrinfo *a = found; a != NULL && added; a = a->ai_next)
        added = add_endpoint(net, a, name, host->name);
    if (found != NULL)
        freeaddrinfo(found);
    free(name);
    return added;
}

/* The clients of a cluster begin at different members. Nobody else sees it yet. */
LK_UNCHECKED static locker_status find_endpoints(lk_etcd_net *net, const locker_driver_config *config,
                                                 locker_error *err)
{
    static const locker_host local = {.name = "127.0.0.1"};
    const locker_host *const hosts = config->host_count > 0 ? config->hosts : &local;
    uint32_t random = 0;
    for (size_t i = 0; i == 0 || i < config->host_count; i++)
        if (!add_host(net, &hosts[i], err))
            return lk_out_of_memory(err);
    if (net->endpoint_count == 0)
        return LOCKER_UNAVAILABLE; /* err says it */
    (void)getrandom(&random, sizeof random, 0);
    net->endpoint = random % net->endpoint_count;
    net->attempt_ns = lk_time_later(config->connect_timeout_ns / (int64_t)net->endpoint_count,
                                    lk_time_earlier(attempt_least_ns, config->connect_timeout_ns));
    return LOCKER_OK;
}

/* ---------------------------------------------------------------- its life ---- */
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
    net->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    net->kick_fd = lk_wakeup_new();
    return net;
}

LK_UNCHECKED static locker_status set_up(lk_etcd_net *net, const locker_driver_config *config,
                                         locker_error *err)
{
    if (net->epoll_fd < 0 || net->kick_fd < 0)
        return locker_error_set(
            err, LOCKER_UNAVAILABLE, errno,
            "can't make the driver's descriptors: %s; raise the limit on open files (ulimit -n)",
            strerror(errno));
    net->patience = net->patience_ns = config->command_timeout_ns / 2;
    locker_status status = copy_login(net, config, err);
    if (status == LOCKER_OK)
        status = copy_tls(net, config, err);
    if (status == LOCKER_OK)
        status = find_endpoints(net, config, err);
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
    lk_etcd_socket_close_locked(net, false); /* what was sent last goes out */
    lk_etcd_requests_lost_locked(net);
    lk_etcd_requests_free(net);
    lk_table_destroy(&net->watchers);
    lk_etcd_bytes_free(&net->watch.in);
    lk_etcd_bytes_free(&net->watch.out);
    lk_etcd_bytes_free(&net->out);
    for (size_t i = 0; i < net->endpoint_count; i++) {
        free(net->endpoints[i].name);
        free(net->endpoints[i].host);
    }
    free(net->endpoints);
    free(net->names);
    free(net->token);
    lk_tls_clear(&net->tls);
    forget_secret(net->user);
    forget_secret(net->password);
    if (net->epoll_fd >= 0)
        close(net->epoll_fd);
    if (net->kick_fd >= 0)
        close(net->kick_fd);
    lk_mutex_destroy(&net->mutex);
    free(net);
}
