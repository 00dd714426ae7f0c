/* open.c: the life of a connection, from its descriptors to the end of its session. */
#include <string.h>
#include <sys/epoll.h>

#include "lk_fd.h"
#include "lk_wakeup.h"
#include "state.h"

/* Say why no server serves us. A name that could not be resolved is told too: it may be the one that matters. Nobody else sees
 * the connection yet, so no lock is held. */
LK_UNCHECKED static locker_status explain(const lk_zk_net *net, const locker_error *unresolved,
                                          locker_error *err)
{
    locker_error found = {.status = LOCKER_OK};
    const locker_status status = lk_zk_diagnose(net->clock, net->addresses, net->set.tls != NULL, &found);
    const bool all = unresolved->text[0] == '\0';
    if (status == LOCKER_OK) /* nothing was found */
        return LOCKER_UNAVAILABLE;
    return locker_error_set(err, status, found.os_error, "%s%s%s", found.text, all ? "" : "; and ",
                            all ? "" : unresolved->text);
}

static locker_status connect_first(lk_zk_net *net, locker_error *err)
{
    lk_zk_call call;
    bool unexplained = false;
    locker_error unresolved = {.status = LOCKER_OK};
    locker_status status = lk_zk_resolve(net->set.hosts, &net->addresses, &unresolved);
    if (status != LOCKER_OK)
        return locker_error_set(err, status, unresolved.os_error, "%s", unresolved.text);
    net->literal = lk_hosts_literal(net->set.hosts);
    lk_zk_enter(net);
    net->looked_up_at = lk_zk_net_now(net);
    lk_zk_call_begin_locked(net, &call);
    call.prompt = true;
    const int64_t until = lk_time_after(lk_zk_net_now(net), net->set.connect_timeout_ns);
    if (lk_zk_await_up_unlocking(net, &call, until) != LK_ZK_DONE)
        status = lk_zk_away_locked(net, err);
    if (status == LOCKER_UNAVAILABLE)
        unexplained = lk_zk_is_unexplained_locked(net);
    lk_zk_call_end_locked(net, &call);
    if (status != LOCKER_OK)
        lk_zk_net_close_unlocking(net, false);
    lk_zk_leave(net);
    return unexplained ? explain(net, &unresolved, err) : status;
}

locker_status lk_zk_net_open(lk_zk_net **out, lk_zk *z, const lk_zk_owner *owner,
                             const locker_driver_config *config, const locker_services *svc,
                             locker_error *err)
{
    lk_zk_net *net = *out = calloc(1, sizeof *net);
    if (net == NULL)
        return lk_out_of_memory(err);
    lk_mutex_init(&net->mutex);
    net->z = z;
    net->owner = owner;
    net->svc = svc;
    net->clock = svc->clock;
    net->fd = net->armed_fd = net->corked_fd = -1;
    lk_list_init(&net->calls);
    lk_list_init(&net->requests);
    lk_list_init(&net->line);
    lk_list_init(&net->spare);
    lk_list_init(&net->unasked);
    net->epoll_fd = lk_fd_high(epoll_create1(EPOLL_CLOEXEC));
    net->kick_fd = lk_wakeup_new();
    if (net->epoll_fd < 0 || net->kick_fd < 0)
        return locker_error_set(
            err, LOCKER_UNAVAILABLE, errno,
            "cannot create the driver's descriptors: %s; raise the limit on open files (ulimit -n)",
            strerror(errno));
    const locker_status status = lk_zk_settings_init(&net->set, config, err);
    return status == LOCKER_OK ? connect_first(net, err) : status;
}

void lk_zk_net_close_unlocking(lk_zk_net *net, bool politely)
{
    lk_zk_blocking_stop_unlocking(net);
    if (net->zh == NULL)
        return;
    if (!politely || !net->up)
        lk_zk_session_drop_locked(net);
    if (net->zh != NULL)
        lk_zk_client_close_locked(net); /* says good-bye, so the server ends all that is ours at once */
    net->up = false;
    lk_zk_requests_fail_locked(net);
    lk_zk_watches_free_locked(net);
}

void lk_zk_net_abandon(const lk_zk_net *net)
{
    if (net->fd >= 0)
        close(net->fd);
    if (net->blocking.active) {
        close(net->blocking.socket);
        close(net->blocking.own);
    }
    close(net->epoll_fd);
    close(net->kick_fd);
}

void lk_zk_net_free(lk_zk_net *net)
{
    if (net == NULL)
        return;
    lk_zk_requests_free(net);
    lk_table_destroy(&net->watches);
    free(net->addresses);
    if (net->epoll_fd >= 0)
        close(net->epoll_fd);
    if (net->kick_fd >= 0)
        close(net->kick_fd);
    lk_mutex_destroy(&net->mutex);
    lk_zk_settings_clear(&net->set);
    free(net);
}

int lk_zk_net_descriptor(const lk_zk_net *net)
{
    return net->epoll_fd;
}

const char *lk_zk_net_names(const lk_zk_net *net)
{
    return net->set.names;
}
