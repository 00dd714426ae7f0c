/* net.c: the life of a net, how its connections are made, and the keeper's turn. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "connect.h"
#include "lk_table.h"
#include "net.h"
#include "subscription.h"

static const int64_t loading_again_ns = 50 * LK_MS;
static const int64_t round_least_ns = 100 * LK_MS; /* an attempt with less time could only fail */
static const int64_t apart_again_ns = LK_S;
static const int64_t apart_stays_ns = 60 * LK_S;
static const int64_t doubt_ns = 500 * LK_MS; /* the time between questions for the master */
static const int64_t map_again_ns = 500 * LK_MS;
static const int64_t thread_again_ns = LK_S;  /* until a thread that could not be started is tried again */
static const int64_t borrowed_ns = 60 * LK_S; /* as long as a command may take, too */
enum { OLD_CONNECTIONS = 8, PEERS_MAX = 8, APART_SHIFT_MAX = 3 };

/* Guarded by the mutex unless a member says otherwise. The members are ordered by purpose, as there are
 * few nets. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct lk_redis_net {
    lk_redis_shared *shared;
    const lk_redis_target *target; /* constant, like the next three */
    const lk_redis_owner *events;
    void *owner;
    lk_redis_scripts scripts; /* without hashes: for later connections */
    /* `reconnect` is for the command connection. What else is missing has a thread of its own, `beside`,
     * so that the command connection never waits for it. */
    lk_redis_reconnect reconnect, beside;
    atomic_uint users; /* stop(), and the threads that it has not seen end. acq_rel: the last one frees all */
    lk_redis_pipeline pipeline, apart;
    bool keeps_apart;                             /* constant */
    int64_t apart_at LK_GUARDED_BY(mutex);        /* when `apart` is tried again */
    unsigned apart_failures LK_GUARDED_BY(mutex); /* failures in a row */
    int64_t apart_until LK_GUARDED_BY(mutex);     /* until when `apart` is kept */
    int64_t silent_since LK_GUARDED_BY(
        mutex); /* since when the command connection is silent for longer than leases can wait; 0: it is not */
    int64_t served_at
        LK_GUARDED_BY(mutex); /* since when, as was found then, `apart` is served; 0: it is not */
    bool apart_was_told LK_GUARDED_BY(mutex); /* it was logged that `apart` cannot be had */
    lk_redis_subscription subscription;
    /* The server's ids of connections to this run of it that were given up, and may not have ended there.
     * 0: ended. */
    int64_t old[OLD_CONNECTIONS] LK_GUARDED_BY(mutex);
    size_t old_count LK_GUARDED_BY(mutex);
    lk_redis_server server LK_GUARDED_BY(mutex);       /* the present or latest server */
    char peer[LK_REDIS_PEER_MAX] LK_GUARDED_BY(mutex); /* its name; "": none yet */
    lk_redis_address address LK_GUARDED_BY(mutex);     /* its address */
    unsigned via LK_GUARDED_BY(mutex);                 /* the host that led to it, as in lk_redis_last */
    bool was_lost LK_GUARDED_BY(mutex);
    bool eviction_was_told LK_GUARDED_BY(mutex); /* it was logged that the server deletes keys */
    /* Of a cluster: the server's address, which changes only while the net is at rest; whether the net has
     * no slots; when to ask others for the map. */
    char home[LK_REDIS_PEER_MAX];
    bool idle LK_GUARDED_BY(mutex);
    int64_t borrowed_until
        LK_GUARDED_BY(mutex); /* an idle net is asked until then for keys that migrate to it */
    bool wants_map LK_GUARDED_BY(mutex);
    int64_t map_at LK_GUARDED_BY(mutex);
    char redirect[LK_REDIS_PEER_MAX] LK_GUARDED_BY(
        mutex);                                 /* the address that a reply names as the master's; "": none */
    bool is_doubted LK_GUARDED_BY(mutex);       /* the server may not be the master any more */
    int64_t ask_at LK_GUARDED_BY(mutex);        /* when the Sentinels may be asked again */
    lk_redis_socket *next LK_GUARDED_BY(mutex); /* the next command connection; NULL: it is to be made */
};

/* Remove the ended connections. Not while an answer is awaited: its context points into the list. */
static void drop_ended_locked(lk_redis_net *net) LK_REDIS_LOCKED
{
    size_t kept = 0;
    for (size_t i = 0; i < net->old_count; i++)
        if (net->old[i] != 0)
            net->old[kept++] = net->old[i];
    net->old_count = kept;
}

/* Note the id of a connection that is given up; 0: its id is not known. */
static void keep_old_locked(lk_redis_net *net, int64_t id) LK_REDIS_LOCKED
{
    drop_ended_locked(net);
    if (id == 0)
        return;
    if (net->old_count == OLD_CONNECTIONS)
        memmove(&net->old[0], &net->old[1], --net->old_count * sizeof net->old[0]);
    net->old[net->old_count++] = id;
}

static void ended_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    int64_t *id = context;
    if (reply != NULL)
        *id = 0;
}

/* End the noted connections, ahead of all commands on the new one: the server may still carry out what was
 * sent on them. A user without the right gets an error. */
static void end_old_locked(lk_redis_net *net) LK_REDIS_LOCKED
{
    char id[LK_REDIS_NUMBER_MAX];
    drop_ended_locked(net);
    for (size_t i = 0; i < net->old_count; i++) {
        (void)lk_redis_number_text(id, (uint64_t)net->old[i]);
        const lk_redis_command a = LK_REDIS_COMMAND("CLIENT", "KILL", "ID", id);
        (void)lk_redis_submit_command_locked(&net->pipeline, &a, ended_locked, &net->old[i]);
    }
}

/* Return true if both ids are known and equal. */
static bool same_id(const char *a, const char *b)
{
    return a[0] != '\0' && strcmp(a, b) == 0;
}

/* Compare the server with the last one. If it is another (after a restart or a promotion, or because it
 * does not say who it is), what is known of the last server is dropped. A subscription with the last
 * server is closed, because only the master sends messages. */
static void meet_server_locked(lk_redis_net *net, const lk_redis_socket *socket) LK_REDIS_LOCKED
{
    const bool same_run = same_id(socket->server.run, net->server.run);
    const bool other = !same_run || !same_id(socket->server.replication, net->server.replication);
    if (!same_run)
        net->old_count = 0;
    if (other) {
        LK_WRITE(net->pipeline.era, ++net->shared->eras);
        lk_redis_subscription_lose_locked(&net->subscription);
        lk_redis_pipeline_fail_locked(&net->apart, "the locker uses another server now");
    }
    net->server = socket->server;
    memcpy(net->peer, socket->peer, sizeof net->peer);
    net->address = socket->address;
    if (socket->via != 0)
        net->via = socket->via;
    net->pipeline.server_us = socket->server_us;
}

static void tell_of_eviction_locked(lk_redis_net *net, const lk_redis_socket *socket) LK_REDIS_LOCKED
{
    const char *const name = net->target->service->name;
    if (socket->evicts && !net->eviction_was_told)
        net->shared->svc->log(net->shared->svc, LOCKER_LOG_WARN,
                              "redis: %s at %s deletes keys when its memory is full (maxmemory-policy), "
                              "also held locks, so that a lock can have two holders; set "
                              "maxmemory-policy to noeviction, or keep locks on a separate server",
                              name, socket->peer);
    net->eviction_was_told = socket->evicts;
}

/* Use the new command connection. What on_up submits goes before the commands of waiting callers. The log
 * line follows what on_up logs. */
static void install_unlocking(lk_redis_net *net, lk_redis_socket *socket) LK_REDIS_LOCKED
{
    lk_redis_shared *shared = net->shared;
    const int64_t at = lk_redis_now(shared) - (lk_redis_system_now() - socket->server_at);
    lk_redis_pipeline_install_locked(&net->pipeline, socket);
    net->redirect[0] = '\0';
    net->is_doubted = false;
    meet_server_locked(net, socket);
    tell_of_eviction_locked(net, socket);
    end_old_locked(net);
    net->events->on_up(net->owner, socket->server_us, at);
    if (net->was_lost || net->target->cluster) /* a renewal may have been sent on it before */
        shared->svc->suspect(shared->svc, false);
    if (net->was_lost)
        shared->svc->log(shared->svc, LOCKER_LOG_INFO, "redis: connected to %s again", socket->peer);
    net->was_lost = false;
    atomic_fetch_add_explicit(&net->pipeline.connection, 1, memory_order_release);
    pthread_cond_broadcast(&shared->changed);
    lk_redis_reconnect_want_locked(&net->beside);
    lk_redis_pump_unlocking(&net->pipeline);
}

static void lost_locked(void *self, const char *why) LK_REDIS_LOCKED
{
    lk_redis_net *net = self;
    const lk_redis_socket *socket = net->pipeline.socket;
    keep_old_locked(net, socket->client_id);
    net->shared->svc->log(net->shared->svc, LOCKER_LOG_INFO, "redis: lost the connection to %s: %s",
                          socket->peer, why);
    lk_unavailable(&net->reconnect.last.error, "the connection to %s at %s was lost: %s",
                   net->target->service->name, socket->peer, why);
    net->reconnect.last.permanent = false;
    net->was_lost = true;
    const bool is_renewed = net->served_at != 0 && net->apart.state == LK_REDIS_UP;
    if (!is_renewed && !net->target->cluster) /* a cluster's other servers may renew their leases well */
        net->shared->svc->suspect(net->shared->svc, true);
}

/* `apart` is lost. It is the busier one, so the command connection is asked too: a silent server is given
 * up there. */
static void lost_apart_locked(void *self, const char *why) LK_REDIS_LOCKED
{
    lk_redis_net *net = self;
    const lk_redis_command a = LK_REDIS_COMMAND("PING");
    (void)lk_redis_submit_command_locked(&net->pipeline, &a, NULL, NULL);
    net->shared->svc->log(net->shared->svc, LOCKER_LOG_INFO,
                          "redis: the connection for renewals to %s has ended: %s", net->apart.socket->peer,
                          why);
    if (net->pipeline.state != LK_REDIS_UP && !net->target->cluster)
        net->shared->svc->suspect(net->shared->svc, true);
}

/* Look for the master after a reply. "MOVED 3999 127.0.0.1:6381" names it. READONLY does not, so ROLE is
 * asked. After FORGOTTEN, the next handshake learns the new life. */
void lk_redis_net_moved_locked(lk_redis_net *net, const redisReply *reply)
{
    const char *colon = strrchr(reply->str, ':');
    const char *host = strrchr(reply->str, ' ');
    if (strncmp(reply->str, "READONLY", 8) != 0 && colon != NULL && host != NULL && colon > host + 1)
        (void)snprintf(net->redirect, sizeof net->redirect, "%s", host + 1);
    lk_redis_pipeline_fail_locked(&net->pipeline,
                                  strncmp(reply->str, "FORGOTTEN", 9) == 0
                                      ? "the server was restarted or replaced, or its data are gone"
                                      : "it is not the master");
}

void lk_redis_net_moved(lk_redis_net *net, const redisReply *reply)
{
    lk_redis_lock(net->shared);
    lk_redis_net_moved_locked(net, reply);
    lk_redis_unlock(net->shared);
}

/* Return true if `apart` is wanted. It would be useless beside a silent server that does not say who it is
 * (may_be_apart_locked). */
static bool wants_apart_locked(const lk_redis_net *net) LK_REDIS_LOCKED
{
    const bool is_known = net->server.run[0] != '\0' && net->server.replication[0] != '\0';
    return net->keeps_apart || (is_known && net->silent_since != 0 &&
                                net->silent_since == lk_redis_pipeline_silent_since_locked(&net->pipeline));
}

static bool lacks_apart_locked(const lk_redis_net *net) LK_REDIS_LOCKED
{
    return wants_apart_locked(net) && net->apart.state == LK_REDIS_DOWN &&
           lk_redis_now(net->shared) >= net->apart_at;
}

static bool lacks_map_locked(const lk_redis_net *net) LK_REDIS_LOCKED
{
    return net->wants_map && lk_redis_now(net->shared) >= net->map_at;
}

static bool lacks_subscription_locked(const lk_redis_net *net) LK_REDIS_LOCKED
{
    const lk_redis_subscription *sub = &net->subscription;
    return sub->wanted && sub->socket == NULL && sub->refused.status == LOCKER_OK;
}

static bool is_missing_locked(const void *self) LK_REDIS_LOCKED
{
    const lk_redis_net *net = self;
    return !net->idle && net->pipeline.state == LK_REDIS_DOWN;
}

static bool is_missing_beside_locked(const void *self) LK_REDIS_LOCKED
{
    const lk_redis_net *net = self;
    return !net->idle && net->pipeline.state == LK_REDIS_UP &&
           (net->is_doubted || lacks_map_locked(net) || lacks_apart_locked(net) ||
            lacks_subscription_locked(net));
}

/* Hand a new map to the owner; NULL: there is none. */
static void take_map_locked(lk_redis_net *net, lk_redis_map *map) LK_REDIS_LOCKED
{
    if (map == NULL)
        return;
    net->wants_map = false;
    net->map_at = lk_redis_now(net->shared) + map_again_ns;
    net->events->on_map(net->owner, map);
    free(map);
    if (net->subscription.slots != NULL)
        lk_redis_subscription_again_locked(&net->subscription);
}

static lk_redis_last last_locked(const lk_redis_net *net) LK_REDIS_LOCKED
{
    lk_redis_last last = {.server = net->server, .address = net->address, .via = net->via};
    memcpy(last.peer, net->peer, sizeof last.peer);
    return last;
}

/* Connect. Without the mutex. */
static lk_redis_socket *connect_somewhere(lk_redis_net *net, const char *redirect, const lk_redis_last *last,
                                          lk_redis_map **map, lk_redis_failure *why)
{
    const lk_redis_target *const t = net->target;
    const int64_t until = lk_redis_system_now() + t->connect_timeout_ns;
    char peer[PEERS_MAX][LK_REDIS_PEER_MAX];
    *map = NULL;
    if (!t->cluster)
        return lk_redis_connect_master(t, redirect, last, &net->scripts, until, why);
    lk_redis_lock(net->shared);
    const size_t count = net->events->peers(net->owner, peer, PEERS_MAX);
    lk_redis_unlock(net->shared);
    return lk_redis_connect_node(t, net->home, last, peer, count, &net->scripts, until, map, why);
}

static void connect_map_unlocking(lk_redis_net *net) LK_REDIS_LOCKED
{
    lk_redis_shared *shared = net->shared;
    lk_redis_failure why = {0};
    lk_redis_map *map;
    char peer[PEERS_MAX][LK_REDIS_PEER_MAX];
    const size_t count = net->events->peers(net->owner, peer, PEERS_MAX);
    net->wants_map = false;
    net->map_at = lk_redis_now(shared) + map_again_ns;
    lk_redis_unlock(shared);
    const int64_t until = lk_redis_system_now() + net->target->connect_timeout_ns;
    (void)lk_redis_connect_node(net->target, "", NULL, peer, count, NULL, until, &map, &why);
    lk_redis_lock(shared);
    if (shared->closing)
        free(map);
    else
        take_map_locked(net, map);
}

static lk_redis_socket *make_command_unlocking(lk_redis_net *net, lk_redis_map **map,
                                               lk_redis_failure *why) LK_REDIS_LOCKED
{
    char redirect[LK_REDIS_PEER_MAX];
    const lk_redis_last last = last_locked(net);
    lk_redis_socket *socket = net->next;
    net->next = NULL;
    *map = NULL;
    if (socket != NULL)
        return socket;
    memcpy(redirect, net->redirect, sizeof redirect);
    lk_redis_unlock(net->shared);
    socket = connect_somewhere(net, redirect, &last, map, why);
    lk_redis_lock(net->shared);
    return socket;
}

static void connect_command_unlocking(void *self) LK_REDIS_LOCKED
{
    lk_redis_net *net = self;
    lk_redis_shared *shared = net->shared;
    lk_redis_failure why = {0};
    const int64_t began = lk_redis_now(shared); /* a connection that came up since may not have been seen */
    lk_redis_map *map;
    lk_redis_socket *const socket = make_command_unlocking(net, &map, &why);
    if (shared->closing) {
        lk_redis_socket_free(socket, true);
        free(map);
        return;
    }
    take_map_locked(net, map);
    if (socket == NULL) {
        if (why.permanent || net->reconnect.failures == 0)
            shared->svc->log(shared->svc, LOCKER_LOG_WARN, "redis: %s", why.error.text);
        net->redirect[0] = '\0';
        net->reconnect.failed_at = began;
        net->reconnect.last = why;
        lk_redis_reconnect_back_off_locked(&net->reconnect);
        pthread_cond_broadcast(&shared->changed);
        return;
    }
    net->reconnect.failed_at = 0;
    install_unlocking(net, socket);
}

/* Make another connection. It must be to the server that is asked for locks, as far as both say who they
 * are, because another server knows nothing of these locks. A name may stand for many servers. The master
 * of a silent connection is sought at other hosts too. NULL: it failed. False: that server is not asked
 * for locks any more, or the instance closes. */
static bool connect_beside_unlocking(lk_redis_net *net, bool subscribes, lk_redis_socket **socket,
                                     lk_redis_failure *why) LK_REDIS_LOCKED
{
    lk_redis_shared *shared = net->shared;
    char peer[LK_REDIS_PEER_MAX];
    const unsigned era = lk_redis_era(&net->pipeline);
    const lk_redis_last last = last_locked(net);
    memcpy(peer, net->pipeline.socket->peer, sizeof peer);
    lk_redis_unlock(shared);
    const int64_t until = lk_redis_system_now() + net->target->connect_timeout_ns;
    *socket = lk_redis_connect_master(net->target, peer, &last, NULL, until, why);
    if (*socket != NULL && subscribes && !lk_redis_subscribe(&net->subscription, *socket, until, why)) {
        lk_redis_socket_free(*socket, true);
        *socket = NULL;
    }
    lk_redis_lock(shared);
    if (shared->closing || era != lk_redis_era(&net->pipeline)) {
        lk_redis_socket_free(*socket, true);
        return false;
    }
    if (*socket != NULL && strcmp((*socket)->server.run, net->server.run) != 0) {
        lk_redis_socket_free(*socket, false);
        *socket = NULL;
    }
    return true;
}

/* Try `apart` again later, so that a slow server is not flooded. */
static void have_apart_later_locked(lk_redis_net *net) LK_REDIS_LOCKED
{
    const int64_t least = apart_again_ns << (net->keeps_apart ? 0 : net->apart_failures);
    if (net->apart_failures < APART_SHIFT_MAX)
        net->apart_failures++;
    net->apart_at =
        lk_redis_now(net->shared) + least + (int64_t)lk_redis_random_locked(net->shared, (uint64_t)least);
    net->shared->svc->attend(net->shared->svc);
}

/* Return true if the connection may be used as `apart`. Beside a silent command connection, it must be to
 * the same life of the same server. The run is the same already. */
static bool may_be_apart_locked(const lk_redis_net *net, const lk_redis_socket *socket) LK_REDIS_LOCKED
{
    return net->keeps_apart || same_id(socket->server.replication, net->server.replication);
}

static void connect_apart_unlocking(lk_redis_net *net) LK_REDIS_LOCKED
{
    lk_redis_failure why = {0};
    lk_redis_socket *socket;
    if (!connect_beside_unlocking(net, false, &socket, &why))
        return;
    if (socket != NULL && !may_be_apart_locked(net, socket)) {
        lk_redis_socket_free(socket, false);
        socket = NULL;
    }
    if (socket == NULL) {
        if (why.error.status != LOCKER_OK && !net->apart_was_told)
            net->shared->svc->log(net->shared->svc, LOCKER_LOG_WARN,
                                  "redis: cannot open the connection for renewals: %s", why.error.text);
        net->apart_was_told = true;
        have_apart_later_locked(net);
        return;
    }
    net->apart_was_told = false;
    lk_redis_pipeline_install_locked(&net->apart, socket);
    if (net->pipeline.state == LK_REDIS_UP)
        net->shared->svc->suspect(net->shared->svc, false); /* overdue renewals are sent at once */
}

static void connect_subscription_unlocking(lk_redis_net *net) LK_REDIS_LOCKED
{
    lk_redis_subscription *sub = &net->subscription;
    lk_redis_failure why = {0};
    lk_redis_socket *socket;
    if (!connect_beside_unlocking(net, true, &socket, &why))
        return;
    if (!sub->wanted || sub->socket != NULL) {
        lk_redis_socket_free(socket, true);
        return;
    }
    if (socket != NULL) {
        if (lk_redis_subscription_install_locked(sub, socket)) {
            net->beside.failures = 0;
            net->reconnect.failures = 0; /* the server answers, though it may get no command for long */
            net->events->on_subscribed(net->owner, NULL);
        }
        return;
    }
    if (why.permanent) {
        sub->refused = why.error;
        net->events->on_subscribed(net->owner, NULL);
    }
    lk_redis_reconnect_back_off_locked(&net->beside);
}

void lk_redis_net_doubt_locked(lk_redis_net *net)
{
    if (net->target->sentinels == NULL)
        return;
    net->is_doubted = true;
    lk_redis_reconnect_want_locked(&net->beside);
}

void lk_redis_net_doubt(lk_redis_net *net)
{
    lk_redis_lock(net->shared);
    lk_redis_net_doubt_locked(net);
    lk_redis_unlock(net->shared);
}

/* Ask the Sentinels for the master. If they name another server, which says itself that it is the master,
 * go there. Commands in flight are cut, and asked again there. */
static void ask_who_is_master_unlocking(lk_redis_net *net) LK_REDIS_LOCKED
{
    lk_redis_shared *shared = net->shared;
    char peer[LK_REDIS_PEER_MAX];
    const unsigned era = lk_redis_era(&net->pipeline);
    net->is_doubted = false;
    memcpy(peer, net->peer, sizeof peer);
    lk_redis_unlock(shared);
    const int64_t until = lk_redis_system_now() + net->target->connect_timeout_ns;
    lk_redis_socket *const socket = lk_redis_connect_other(net->target, peer, &net->scripts, until);
    lk_redis_lock(shared);
    if (!shared->closing) /* core's clock may be gone: a thread may outlive the close */
        net->ask_at = lk_redis_now(shared) + doubt_ns;
    if (socket == NULL || shared->closing || era != lk_redis_era(&net->pipeline) ||
        net->pipeline.state != LK_REDIS_UP || same_id(socket->server.run, net->server.run)) {
        lk_redis_socket_free(socket, false);
        return;
    }
    net->next = socket;
    lk_redis_pipeline_fail_locked(&net->pipeline, "Sentinels name another master");
    net->reconnect.retry_at = 0;
}

/* Make what is missing beside the command connection. A doubt about the master comes first. */
static void connect_beside_command_unlocking(void *self) LK_REDIS_LOCKED
{
    lk_redis_net *net = self;
    if (net->is_doubted && lk_redis_now(net->shared) >= net->ask_at)
        ask_who_is_master_unlocking(net);
    else if (lacks_map_locked(net))
        connect_map_unlocking(net);
    else if (lacks_apart_locked(net))
        connect_apart_unlocking(net);
    else if (lacks_subscription_locked(net))
        connect_subscription_unlocking(net);
    else
        lk_redis_wait_unlocking(net->shared, net->ask_at);
}

static void prepare(lk_redis_net *net, const lk_redis_scripts *scripts)
{
    net->scripts = (lk_redis_scripts){.text = scripts->text, .count = scripts->count};
    net->pipeline.silence_ns = net->apart.silence_ns = net->target->command_timeout_ns;
}

/* Return a number for the connection. The server counts its connections while it runs. Redis 5 does not
 * send the number, so its time is used. */
static uint64_t number_of(const lk_redis_socket *socket)
{
    const int64_t number = socket->client_id != 0 ? socket->client_id : socket->server_us;
    return (uint64_t)lk_hash_text(socket->server.run) << 32 ^ (uint64_t)number;
}

locker_status lk_redis_net_connect(lk_redis_net *net, const lk_redis_scripts *scripts, uint64_t *connection,
                                   locker_error *err)
{
    const int64_t until = lk_redis_system_now() + net->target->connect_timeout_ns;
    lk_redis_failure why;
    prepare(net, scripts);
    for (;;) {
        why = (lk_redis_failure){0};
        lk_redis_socket *socket = lk_redis_connect_master(net->target, "", NULL, scripts, until, &why);
        if (socket != NULL) {
            lk_redis_map *const map = socket->map;
            socket->map = NULL;
            lk_redis_lock(net->shared);
            memcpy(net->home, socket->peer, sizeof net->home);
            *connection = number_of(socket);
            take_map_locked(net, map);
            install_unlocking(net, socket);
            lk_redis_unlock(net->shared);
            return LOCKER_OK;
        }
        if (!why.transient || lk_redis_system_now() + loading_again_ns + round_least_ns >= until)
            break;
        lk_redis_pause(net->shared, lk_redis_now(net->shared) + loading_again_ns);
    }
    if (err != NULL)
        *err = why.error;
    return why.error.status;
}

static bool is_last(lk_redis_net *net)
{
    return atomic_fetch_sub_explicit(&net->users, 1, memory_order_acq_rel) == 1;
}

static void left(void *self)
{
    lk_redis_net *net = self;
    if (is_last(net))
        net->events->on_left(net->owner);
}

lk_redis_net *lk_redis_net_new(lk_redis_shared *shared, const lk_redis_target *target, const char *channel,
                               const lk_redis_owner *events, void *owner, lk_redis_pipeline **commands,
                               lk_redis_pipeline **apart, bool keeps_apart)
{
    static const lk_redis_connector connector = {is_missing_locked, connect_command_unlocking, left};
    static const lk_redis_connector beside = {is_missing_beside_locked, connect_beside_command_unlocking,
                                              left};
    const lk_redis_slot_events slot_events = {events->on_subscribed, events->channel_of, events->slot_of};
    lk_redis_slot_channels *const slots = target->cluster ? lk_redis_slot_channels_new(&slot_events) : NULL;
    lk_redis_net *net = calloc(1, sizeof *net);
    if (net == NULL || (target->cluster && slots == NULL)) {
        lk_redis_slot_channels_free(slots);
        free(net);
        return NULL;
    }
    net->shared = shared;
    net->target = target;
    net->events = events;
    net->owner = owner;
    net->reconnect = (lk_redis_reconnect){.shared = shared, .connector = &connector, .owner = net};
    net->beside = (lk_redis_reconnect){.shared = shared, .connector = &beside, .owner = net};
    atomic_init(&net->users, 3);
    if (!lk_redis_pipeline_init(&net->apart, shared, &net->beside, false) ||
        !lk_redis_pipeline_init(&net->pipeline, shared, &net->reconnect, true)) {
        lk_redis_slot_channels_free(slots);
        free(net);
        return NULL;
    }
    net->keeps_apart = keeps_apart;
    net->apart.lost = lost_apart_locked;
    net->apart.owner = net;
    *apart = &net->apart;
    net->pipeline.lost = lost_locked;
    net->pipeline.owner = net;
    net->subscription = (lk_redis_subscription){.shared = shared,
                                                .reconnect = &net->beside,
                                                .on_message = events->on_message,
                                                .owner = owner,
                                                .channel = channel,
                                                .slots = slots};
    *commands = &net->pipeline;
    return net;
}

void lk_redis_net_settle(lk_redis_net *net)
{
    lk_redis_pipeline_settle(&net->pipeline);
    lk_redis_pipeline_settle(&net->apart);
}

void lk_redis_net_free(lk_redis_net *net)
{
    if (net == NULL)
        return;
    lk_redis_pipeline_destroy(&net->pipeline);
    lk_redis_pipeline_destroy(&net->apart);
    lk_redis_socket_free(net->subscription.socket, false);
    lk_redis_socket_free(net->next, false);
    lk_redis_slot_channels_free(net->subscription.slots);
    free(net);
}

bool lk_redis_net_stop(lk_redis_net *net, int64_t until)
{
    lk_redis_reconnect *const threads[] = {&net->reconnect, &net->beside};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++)
        if (lk_redis_reconnect_stop(threads[i], until))
            (void)is_last(net); /* the result is false: we are there */
    return is_last(net);
}

void lk_redis_net_abandon(const lk_redis_net *net)
{
    if (net->pipeline.socket != NULL)
        close(net->pipeline.socket->fd);
    if (net->apart.socket != NULL)
        close(net->apart.socket->fd);
    if (net->subscription.socket != NULL)
        close(net->subscription.socket->fd);
    if (net->next != NULL)
        close(net->next->fd);
    close(net->pipeline.kick_fd);
}

void lk_redis_events_take(const lk_redis_shared *shared, lk_redis_events *events)
{
    events->count = epoll_wait(shared->epoll_fd, events->event, LK_REDIS_EVENTS_MAX, 0);
}

void lk_redis_net_begin_turn_unlocking(lk_redis_net *net, const lk_redis_events *events)
{
    lk_redis_subscription *sub = &net->subscription;
    for (int i = 0; i < events->count; i++)
        sub->look = sub->look || events->event[i].data.ptr == sub;
    if (sub->look) /* read first, because a call sleeps until the answer */
        lk_redis_subscription_read_locked(sub);
    for (int i = 0; i < events->count; i++) {
        const struct epoll_event *const event = &events->event[i];
        if (event->data.ptr == &net->pipeline || event->data.ptr == &net->apart)
            lk_redis_pipeline_events_unlocking(event->data.ptr, event->events);
    }
    const int64_t now = lk_redis_now(net->shared);
    lk_redis_pipeline_look_unlocking(&net->pipeline, now);
    lk_redis_pipeline_look_unlocking(&net->apart, now);
}

/* Watch `apart`, the connection for renewals. If it is silent, later renewals go over the command
 * connection, and what it carried is renewed there at once. Its answers still count, because it may only
 * be slow. It is closed for another one when a later command was answered on the command connection, or
 * when that connection is silent too. */
static void watch_apart_locked(lk_redis_net *net, int64_t now) LK_REDIS_LOCKED
{
    lk_redis_pipeline *const apart = &net->apart;
    const bool was_avoided = apart->avoided, is_beside = net->pipeline.state == LK_REDIS_UP;
    if (apart->state != LK_REDIS_UP)
        return;
    if (apart->proven)
        net->apart_failures = 0;
    apart->avoided = lk_redis_pipeline_is_silent_locked(apart, now);
    if (!apart->avoided) {
        if (!net->keeps_apart && apart->first == NULL && now >= net->apart_until)
            lk_redis_pipeline_fail_locked(apart, "it is no longer needed");
        return;
    }
    const bool both = net->silent_since != 0;
    const bool is_overtaken = net->pipeline.answered > lk_redis_pipeline_silent_since_locked(apart);
    const bool is_dead = !is_beside || both || is_overtaken;
    if (is_dead && !(both && apart->proven)) /* a connection that has served is replaced at once */
        have_apart_later_locked(net);
    if (is_dead)
        lk_redis_pipeline_fail_locked(apart, "the server does not answer");
    if (is_beside && (is_dead || !was_avoided))
        net->shared->svc->suspect(net->shared->svc, false);
}

/* Watch both connections. A connection that is dead without a sign would cost the leases whose renewals it
 * carried. So further renewals go over the other one. Other commands in flight stay, as the server may
 * only be slow, until the other connection was served and this one has been silent for as long again. */
static void watch_locked(lk_redis_net *net, int64_t now) LK_REDIS_LOCKED
{
    lk_redis_pipeline *const p = &net->pipeline;
    const int64_t since = lk_redis_pipeline_silent_since_locked(p);
    if (p->state != LK_REDIS_UP && !net->idle)
        net->apart_until = now + apart_stays_ns;
    if (!lk_redis_pipeline_is_silent_locked(p, now)) {
        net->silent_since = 0;
        net->served_at = 0;
        return;
    }
    net->apart_until = now + apart_stays_ns;
    if (since != net->silent_since) {
        net->silent_since = since;
        net->served_at = 0;
        const int64_t jitter = (int64_t)lk_redis_random_locked(net->shared, (uint64_t)p->patience_ns / 2 + 1);
        net->apart_at = lk_time_later(net->apart_at, now + jitter);
    }
    if (net->served_at == 0 && net->apart.state == LK_REDIS_UP && net->apart.answered > since)
        net->served_at = now;
    if (net->served_at != 0 && now - net->served_at >= p->patience_ns)
        lk_redis_pipeline_fail_locked(p,
                                      "the server does not answer on it, but answers on another connection");
}

/* Return when the connections are to be watched again, later than `now`. */
static int64_t watch_at_locked(const lk_redis_net *net, int64_t now) LK_REDIS_LOCKED
{
    const lk_redis_pipeline *const each[] = {&net->pipeline, &net->apart};
    int64_t next = LOCKER_NEVER;
    for (size_t i = 0; i < 2; i++) {
        const int64_t at =
            lk_time_after(lk_redis_pipeline_silent_since_locked(each[i]), each[i]->patience_ns);
        if (at > now)
            next = lk_time_earlier(next, at);
    }
    if (net->served_at != 0)
        next = lk_time_earlier(next, lk_time_after(net->served_at, net->pipeline.patience_ns));
    if (net->apart.state == LK_REDIS_UP && !net->keeps_apart && net->apart_until > now)
        next = lk_time_earlier(next, net->apart_until);
    if (net->apart.state == LK_REDIS_DOWN && wants_apart_locked(net) && net->apart_at > now)
        next = lk_time_earlier(next, net->apart_at);
    return next;
}

int64_t lk_redis_net_end_turn_unlocking(lk_redis_net *net, int64_t now)
{
    int64_t next = LOCKER_NEVER;
    watch_locked(net, now);
    watch_apart_locked(net, now);
    lk_redis_reconnect_want_locked(&net->reconnect);
    lk_redis_reconnect_want_locked(&net->beside);
    if (net->pipeline.state == LK_REDIS_DOWN && net->reconnect.state != LK_REDIS_RUNS)
        next = now + thread_again_ns;
    lk_redis_pump_unlocking(&net->pipeline);
    lk_redis_pump_unlocking(&net->apart);
    lk_redis_pipeline_arm_locked(&net->apart);
    next = lk_time_earlier(next, lk_redis_pipeline_due_locked(&net->apart));
    next = lk_time_earlier(next, watch_at_locked(net, now));
    lk_redis_pipeline_arm_locked(&net->pipeline);
    next = lk_time_earlier(next, lk_redis_pipeline_due_locked(&net->pipeline));
    if (net->wants_map && net->map_at > now)
        next = lk_time_earlier(next, net->map_at);
    return next;
}

void lk_redis_net_hurry_locked(lk_redis_net *net)
{
    if (net->pipeline.state != LK_REDIS_UP)
        (void)lk_redis_reconnect_hurry_locked(&net->reconnect);
}

LK_UNCHECKED static void settle_at(lk_redis_net *net, const char *peer)
{
    (void)snprintf(net->home, sizeof net->home, "%s", peer);
    /* for a caller that gives up before the first attempt has ended */
    lk_unavailable(&net->reconnect.last.error, "cannot connect to Redis at %s in time", peer);
}

void lk_redis_net_is_at(lk_redis_net *net, const char *peer, const lk_redis_scripts *scripts)
{
    prepare(net, scripts);
    settle_at(net, peer);
}

bool lk_redis_net_is_at_rest_locked(const lk_redis_net *net)
{
    return net->idle && net->pipeline.state == LK_REDIS_DOWN && net->apart.state == LK_REDIS_DOWN &&
           net->subscription.socket == NULL && net->reconnect.state != LK_REDIS_RUNS &&
           net->beside.state != LK_REDIS_RUNS;
}

void lk_redis_net_leave_locked(lk_redis_net *net)
{
    if (!net->idle || net->pipeline.first != NULL || net->apart.first != NULL)
        return;
    net->subscription.wanted = false;
    lk_redis_subscription_lose_locked(&net->subscription);
    lk_redis_pipeline_fail_locked(&net->apart, "the server has no slots any more");
    lk_redis_pipeline_fail_locked(&net->pipeline, "the server has no slots any more");
}

void lk_redis_net_move_locked(lk_redis_net *net, const char *peer)
{
    lk_redis_reconnect *const threads[] = {&net->reconnect, &net->beside};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        threads[i]->retry_at = threads[i]->failed_at = 0;
        threads[i]->failures = 0;
        threads[i]->last = (lk_redis_failure){0};
    }
    net->subscription.wanted = false;
    net->subscription.refused.status = LOCKER_OK;
    net->was_lost = net->wants_map = net->apart_was_told = false;
    net->apart_at = 0;
    net->apart_failures = 0;
    settle_at(net, peer);
}

const char *lk_redis_net_peer(const lk_redis_net *net)
{
    return net->home;
}

void lk_redis_net_wanted_locked(lk_redis_net *net)
{
    net->borrowed_until = lk_redis_now(net->shared) + borrowed_ns + net->target->command_timeout_ns;
    net->idle = false;
    lk_redis_reconnect_want_locked(&net->reconnect);
    lk_redis_reconnect_want_locked(&net->beside);
}

void lk_redis_net_set_idle_locked(lk_redis_net *net, bool idle)
{
    net->idle = idle && lk_redis_now(net->shared) >= net->borrowed_until;
}

void lk_redis_net_want_map_locked(lk_redis_net *net)
{
    net->wants_map = true;
    lk_redis_reconnect_want_locked(&net->beside);
}

void lk_redis_net_subscribe_locked(lk_redis_net *net, uint16_t slot, bool now)
{
    net->subscription.wanted = true;
    if (net->subscription.slots != NULL)
        lk_redis_subscription_want_locked(&net->subscription, slot);
    if (now && net->subscription.socket == NULL)
        lk_redis_reconnect_want_locked(&net->beside);
}

void lk_redis_net_unsubscribe_unlocking(lk_redis_net *net, int64_t until)
{
    net->subscription.wanted = false;
    lk_redis_subscription_read_locked(&net->subscription);
    if (net->pipeline.state == LK_REDIS_UP) /* else the server can hardly answer */
        lk_redis_unsubscribe_unlocking(&net->subscription, until);
    lk_redis_subscription_lose_locked(&net->subscription);
}

bool lk_redis_net_forget_slot_locked(lk_redis_net *net, uint16_t slot)
{
    return lk_redis_slot_channels_forget_locked(net->subscription.slots, slot);
}

bool lk_redis_net_has_missed_locked(const lk_redis_net *net, uint16_t slot)
{
    return lk_redis_slot_channels_missed_locked(net->subscription.slots, slot);
}

bool lk_redis_net_is_subscribed(const lk_redis_net *net, uint16_t slot)
{
    const lk_redis_subscription *const sub = &net->subscription;
    return LK_READ(sub->ready) && (sub->slots == NULL || lk_redis_slot_is_heard(sub->slots, slot));
}

locker_status lk_redis_net_take_refusal_locked(lk_redis_net *net, locker_error *err)
{
    lk_redis_subscription *sub = &net->subscription;
    if (sub->refused.status == LOCKER_OK)
        return LOCKER_OK;
    *err = sub->refused;
    sub->refused.status = LOCKER_OK;
    return err->status;
}
