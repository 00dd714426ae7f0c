/* master.c: where the master is: at one of the hosts, over replicas, or where Sentinels say; and a connection to it.
 *
 * Sentinels are asked for each connection. The server that they name must say itself that it is the master. If it is still a replica,
 * a failover is under way and they are asked again. It is not followed to its master, which would be the old one.
 *
 * A connected locker stays with its server until the connection breaks: Sentinels break the connections of a master that they demote,
 * if they reach it. With `wait_replicas` too few replicas are an earlier sign. Then lk_redis_connect_other() goes to another server,
 * if most of the Sentinels that answer name it. A single Sentinel may be cut off together with the old master. A locker that is cut
 * off together with the old master and all Sentinels goes on there, as without Sentinels; `wait_replicas` bounds that. For the same
 * reason a locker that loses its connection while no Sentinel answers goes back to its last server (go_back): the same run can grant
 * nothing there that a connection without the loss could not have granted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connect.h"

enum { HOPS_MAX = 5 /* from replica to master */ };

/* Split "host:port" or "[v6]:port". */
static bool split_peer(const char *peer, char *host, int *port)
{
    const char *colon = strrchr(peer, ':');
    if (colon == NULL)
        return false;
    const bool v6 = peer[0] == '[' && colon > peer + 1;
    const char *from = v6 ? peer + 1 : peer;
    const size_t len = (size_t)(colon - from) - (v6 ? 1 : 0);
    memcpy(host, from, len);
    host[len] = '\0';
    char *end;
    const unsigned long number = strtoul(colon + 1, &end, 10);
    *port = number <= 65535 && *end == '\0' ? (int)number : 0;
    return *port > 0 && len > 0;
}

/* Return until when the first of `count` attempts may last, so that the others have their part of the
 * time. */
static int64_t share(int64_t until, size_t count)
{
    const int64_t now = lk_redis_system_now();
    return now + lk_time_left(now, until) / (int64_t)count;
}

/* Log in on the socket (NULL: there is none). `master`: the master's address, if the server is none; else
 * "". */
static lk_redis_socket *greet(const lk_redis_target *t, lk_redis_socket *socket,
                              const lk_redis_scripts *scripts, int64_t until, char *master,
                              lk_redis_failure *why)
{
    if (socket == NULL || lk_redis_handshake(t, socket, scripts, until, master, why))
        return socket;
    lk_redis_socket_free(socket, true);
    return NULL;
}

/* Try the addresses of a host in turn until a server answers. Keep the failure of an address that a server
 * may have. */
static lk_redis_socket *greet_addresses(const lk_redis_target *t, const char *host, const char *peer,
                                        lk_redis_addresses *left, const lk_redis_scripts *scripts,
                                        int64_t until, char *master, lk_redis_failure *why)
{
    lk_redis_socket *socket = NULL;
    bool kept = false, answered = false;
    while (left->count > 0 && socket == NULL && !answered) {
        lk_redis_failure here = {.deserted = true};
        int64_t its = until;
        size_t which;
        socket = lk_redis_dial(t, host, left, &which, peer, &its, &here);
        socket = greet(t, socket, scripts, its, master, &here);
        answered = here.permanent || here.transient;
        const bool deserted = why->deserted && here.deserted;
        const bool transient =
            here.transient || (why->transient && !here.permanent); /* `why` may be another host's failure */
        if (!kept || answered)
            *why = here;
        why->deserted = deserted;
        why->transient = transient;
        kept = kept || !here.deserted;
        if (which == left->count)
            break; /* no address was reached */
        left->count--;
        memmove(&left->list[which], &left->list[which + 1], (left->count - which) * sizeof *left->list);
    }
    return socket;
}

static bool is_same_address(const lk_redis_address *a, const lk_redis_address *b)
{
    return a->len == b->len && memcmp(&a->address, &b->address, a->len) == 0;
}

/* Move the address to the front, if the list has it. */
static void prefer(lk_redis_addresses *list, const lk_redis_address *address)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!is_same_address(&list->list[i], address))
            continue;
        memmove(&list->list[1], &list->list[0], i * sizeof *list->list);
        list->list[0] = *address;
        return;
    }
}

/* Connect to the latest server's address while its name cannot be resolved. If it is the same run of the
 * server, only the connection was lost. */
static lk_redis_socket *greet_again(const lk_redis_target *t, const char *host, const lk_redis_last *last,
                                    const lk_redis_scripts *scripts, int64_t until, char *master)
{
    lk_redis_addresses one = {.count = 1, .list = {last->address}};
    lk_redis_failure ignored = {.deserted = true};
    lk_redis_socket *const socket =
        greet_addresses(t, host, last->peer, &one, scripts, share(until, 2), master, &ignored);
    if (socket == NULL || (last->server.run[0] != '\0' && strcmp(socket->server.run, last->server.run) == 0))
        return socket;
    lk_redis_socket_free(socket, false);
    master[0] = '\0';
    return NULL;
}

/* Try each address of a host, the latest server's address first. */
static lk_redis_socket *greet_host(const lk_redis_target *t, const char *host, int port,
                                   const lk_redis_last *last, const lk_redis_scripts *scripts, int64_t until,
                                   char *master, lk_redis_failure *why)
{
    static const int64_t patience = 500 * LK_MS;
    char peer[LK_REDIS_PEER_MAX];
    lk_redis_addresses found;
    int rc = 0;
    lk_redis_peer_name(host, port, peer);
    const bool known = last != NULL && last->address.len > 0 && strcmp(last->peer, peer) == 0;
    const int64_t soon = known ? lk_time_earlier(share(until, 3), lk_redis_system_now() + patience) : until;
    lk_redis_resolved how = lk_redis_resolve(t->resolver, host, port, soon, &found, &rc);
    if (how != LK_REDIS_FOUND && known) {
        lk_redis_socket *const socket = greet_again(t, host, last, scripts, until, master);
        if (socket != NULL)
            return socket;
        if (how == LK_REDIS_LATE)
            how = lk_redis_resolve(t->resolver, host, port, until, &found, &rc);
    }
    if (how != LK_REDIS_FOUND) {
        lk_redis_dial_unresolved(t, peer, how, rc, why);
        return NULL;
    }
    if (known)
        prefer(&found, &last->address);
    return greet_addresses(t, host, peer, &found, scripts, until, master, why);
}

/* Follow replicas from a host to a master. */
static lk_redis_socket *follow(const lk_redis_target *t, const char *start, const lk_redis_last *last,
                               const lk_redis_scripts *scripts, int64_t until, lk_redis_failure *why)
{
    char host[LK_REDIS_PEER_MAX], target[LK_REDIS_PEER_MAX], master[LK_REDIS_PEER_MAX];
    int port = 0;
    (void)snprintf(target, sizeof target, "%s", start);
    for (int hop = 0; hop <= HOPS_MAX; hop++) {
        const bool local = target[0] == '/' && t->unix_path != NULL;
        if (!local && !split_peer(target, host, &port))
            break;
        lk_redis_socket *socket =
            local ? greet(t, lk_redis_dial_unix(t, until, why), scripts, until, master, why)
                  : greet_host(t, host, port, last, scripts, until, master, why);
        if (socket == NULL || master[0] == '\0')
            return socket;
        lk_redis_socket_free(socket, false);
        (void)snprintf(target, sizeof target, "%s", master);
    }
    why->permanent = false;
    lk_unavailable(&why->error,
                   "no master was found after %d replicas, beginning at %s; name the master in the URI",
                   HOPS_MAX, start);
    return NULL;
}

/* Return the index of the i-th Sentinel, counted from the one that is asked first. */
static size_t nth(const lk_redis_target *s, size_t i)
{
    return (LK_READ(s->first) + i) % s->host_count;
}

/* Ask one Sentinel. `is_brief`: for a short time, because most Sentinels are near, and others follow. */
static bool ask_sentinel(const lk_redis_target *s, size_t which, bool is_brief, int64_t until, char *master,
                         lk_redis_failure *why)
{
    static const int64_t patience = 500 * LK_MS;
    const locker_host *const host = &s->hosts[which];
    if (is_brief)
        until = lk_time_earlier(until, lk_redis_system_now() + patience);
    lk_redis_socket *const socket = greet_host(s, host->name, host->port, NULL, NULL, until, master, why);
    lk_redis_socket_free(socket, false);
    return socket != NULL;
}

/* Ask the Sentinels in turn until one knows the master. What a Sentinel said is kept as the failure,
 * rather than that another was unreachable. *silent: no Sentinel said anything. */
static bool ask_sentinels(lk_redis_target *s, int64_t until, char *master, bool *silent,
                          lk_redis_failure *why)
{
    const size_t first = LK_READ(s->first);
    bool slow = false;
    why->deserted = true;
    for (size_t i = 0; i < 2 * s->host_count; i++) {
        const bool is_brief = i < s->host_count;
        const size_t which = (first + i) % s->host_count;
        lk_redis_failure here = {.deserted = true};
        if (ask_sentinel(s, which, is_brief, share(until, is_brief ? 2 : 2 * s->host_count - i), master,
                         &here)) {
            LK_WRITE(s->first, (unsigned)which);
            return true;
        }
        const bool deserted = why->deserted && here.deserted;
        slow = slow || (!here.permanent && !here.deserted);
        if (!why->permanent)
            *why = here;
        why->deserted = deserted;
        if (i + 1 == s->host_count && !slow)
            break; /* another attempt would fail in the same way */
    }
    *silent = !why->permanent;
    if (*silent) {
        const locker_error last = why->error;
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, last.os_error,
                         "cannot ask any of the Sentinels (%zu) for the master; the last error: %s",
                         s->host_count, last.text);
    }
    why->permanent = false; /* a waiting call goes on: Sentinels come back, and learn names */
    return false;
}

/* Log in to the server at that address, if it says that it is a master. */
static lk_redis_socket *greet_master(const lk_redis_target *t, const char *peer, const lk_redis_last *last,
                                     const lk_redis_scripts *scripts, int64_t until, lk_redis_failure *why)
{
    char host[LK_REDIS_PEER_MAX], master[LK_REDIS_PEER_MAX] = "";
    int port = 0;
    if (!split_peer(peer, host, &port))
        return NULL;
    lk_redis_socket *const socket = greet_host(t, host, port, last, scripts, until, master, why);
    if (master[0] == '\0')
        return socket;
    lk_redis_socket_free(socket, false);
    return NULL;
}

/* Go back to the latest master when no Sentinel can be asked. It is as good as before the connection was
 * lost, if it has not restarted and is no replica. Another server may have been promoted meanwhile, but a
 * locker that never lost its connection would not know of this either. */
static lk_redis_socket *go_back(const lk_redis_target *t, const lk_redis_last *last,
                                const lk_redis_scripts *scripts, int64_t until, lk_redis_failure *why)
{
    lk_redis_failure here = {.deserted = true};
    if (last == NULL || last->peer[0] == '\0' || last->server.run[0] == '\0')
        return NULL;
    lk_redis_socket *const socket = greet_master(t, last->peer, last, scripts, until, &here);
    why->deserted = why->deserted && here.deserted;
    if (socket == NULL || strcmp(socket->server.run, last->server.run) == 0)
        return socket;
    lk_redis_socket_free(socket, false);
    return NULL;
}

/* Log in to the server that the Sentinels name, if it is a master. *hung: it used up its time, and more
 * time is left. */
static lk_redis_socket *greet_named(const lk_redis_target *t, const lk_redis_last *last,
                                    const lk_redis_scripts *scripts, int64_t patience, int64_t until,
                                    bool *hung, lk_redis_failure *why)
{
    char host[LK_REDIS_PEER_MAX], named[LK_REDIS_PEER_MAX], master[LK_REDIS_PEER_MAX];
    int port = 0;
    bool silent = false;
    *hung = false;
    if (!ask_sentinels(t->sentinels, share(until, 2), named, &silent, why))
        return silent ? go_back(t, last, scripts, until, why) : NULL;
    *why = (lk_redis_failure){.transient = true};
    /* The next Sentinel is asked if this one's answer is useless: a Sentinel that has not learned of a
     * failover must not hide the others. */
    const unsigned told = LK_READ(t->sentinels->first);
    LK_WRITE(t->sentinels->first, (unsigned)((told + 1) % t->sentinels->host_count));
    if (!split_peer(named, host, &port)) {
        locker_error_set(&why->error, LOCKER_PROTOCOL, 0,
                         "Sentinels name '%s' as the master, which is not an address", named);
        return NULL;
    }
    const int64_t bound = lk_time_earlier(until, lk_redis_system_now() + patience);
    lk_redis_socket *const socket = greet_host(t, host, port, last, scripts, bound, master, why);
    *hung = socket == NULL && bound < until && lk_redis_system_now() >= bound;
    if (socket != NULL && master[0] != '\0') {
        lk_redis_socket_free(socket, false);
        lk_unavailable(&why->error,
                       "Sentinels name %s as the master '%.100s', but it is a "
                       "replica; a failover may be in progress",
                       named, t->sentinels->master_name);
    } else if (socket != NULL) {
        LK_WRITE(t->sentinels->first, told);
        return socket;
    }
    why->transient = !why->permanent;
    return NULL;
}

/* Connect to the named master. During a failover, Sentinels may name a master that is gone, or is not a
 * master yet, so they are asked again soon. A silent server has a second at first, then twice as long each
 * time. */
static lk_redis_socket *connect_named(const lk_redis_target *t, const lk_redis_last *last,
                                      const lk_redis_scripts *scripts, int64_t until, lk_redis_failure *why)
{
    lk_redis_socket *socket;
    bool hung;
    int64_t patience = LK_S / 2;
    do {
        patience *= 2;
        socket = greet_named(t, last, scripts, patience, until, &hung, why);
    } while (hung);
    return socket;
}

/* Return true if more of the answering Sentinels name another master than name `peer`. A single Sentinel
 * may not know of a failover, or be cut off together with the old master. */
static bool is_other_named(const lk_redis_target *s, const char *peer, int64_t until, char *other)
{
    size_t count = 0, same = 0;
    other[0] = '\0';
    for (size_t i = 0; i < s->host_count && 2 * count <= s->host_count && 2 * same <= s->host_count; i++) {
        char named[LK_REDIS_PEER_MAX] = "";
        lk_redis_failure ignored = {0};
        if (!ask_sentinel(s, nth(s, i), true, share(until, s->host_count - i), named, &ignored))
            continue;
        if (count == 0)
            memcpy(other, named, sizeof named);
        if (strcmp(named, peer) == 0)
            same++;
        else if (strcmp(named, other) == 0)
            count++;
    }
    return count > same;
}

lk_redis_socket *lk_redis_connect_other(const lk_redis_target *t, const char *peer,
                                        const lk_redis_scripts *scripts, int64_t until)
{
    char other[LK_REDIS_PEER_MAX];
    lk_redis_failure ignored = {0};
    return is_other_named(t->sentinels, peer, share(until, 2), other)
               ? greet_master(t, other, NULL, scripts, until, &ignored)
               : NULL;
}

/* Follow the i-th host of the list. */
static lk_redis_socket *follow_nth(const lk_redis_target *t, size_t i, const lk_redis_last *last,
                                   const lk_redis_scripts *scripts, int64_t until, lk_redis_failure *why)
{
    char peer[LK_REDIS_PEER_MAX];
    lk_redis_peer_name(t->hosts[i].name, t->hosts[i].port, peer);
    lk_redis_socket *const socket = follow(t, peer, last, scripts, until, why);
    if (socket != NULL)
        socket->via = (unsigned)i + 1;
    return socket;
}

/* Connect by the first host of the list that leads to a master. On the way back to the host that did so
 * last, earlier hosts are still asked, as they may know of another master. But a silent one has only a
 * moment, or it would cost the leases. */
static lk_redis_socket *connect_hosts(const lk_redis_target *t, const lk_redis_last *last,
                                      const lk_redis_scripts *scripts, int64_t until, lk_redis_failure *why)
{
    static const int64_t moment = 500 * LK_MS;
    const size_t before = last != NULL && last->via > 0 ? last->via - 1 : 0;
    const int64_t soon = lk_time_earlier(share(until, 3), lk_redis_system_now() + moment);
    lk_redis_socket *socket = NULL;
    for (size_t i = 0; i < before && socket == NULL; i++)
        socket = follow_nth(t, i, last, scripts, share(soon, before - i), why);
    if (before > 0 && socket == NULL)
        socket = follow_nth(t, before, last, scripts, share(until, t->host_count), why);
    for (size_t i = 0; i < t->host_count && socket == NULL; i++)
        socket = follow_nth(t, i, last, scripts, share(until, t->host_count - i), why);
    return socket;
}

lk_redis_socket *lk_redis_connect_master(const lk_redis_target *t, const char *redirect,
                                         const lk_redis_last *last, const lk_redis_scripts *scripts,
                                         int64_t until, lk_redis_failure *why)
{
    const size_t others = t->unix_path != NULL || t->sentinels != NULL ? 1 : t->host_count;
    lk_redis_socket *socket = NULL;
    why->deserted = true;
    if (redirect[0] != '\0')
        socket = follow(t, redirect, last, scripts, share(until, 1 + others), why);
    if (socket == NULL && t->unix_path != NULL)
        return follow(t, t->unix_path, last, scripts, until, why);
    if (socket == NULL && t->sentinels != NULL)
        return connect_named(t, last, scripts, until, why);
    return socket != NULL ? socket : connect_hosts(t, last, scripts, until, why);
}

/* Log in to the server at `peer`, if it is a master. *map: its map of the cluster. */
static lk_redis_socket *greet_node(const lk_redis_target *t, const char *peer, const lk_redis_last *last,
                                   const lk_redis_scripts *scripts, int64_t until, lk_redis_map **map,
                                   lk_redis_failure *why)
{
    char host[LK_REDIS_PEER_MAX], master[LK_REDIS_PEER_MAX];
    int port = 0;
    *why = (lk_redis_failure){.deserted = true};
    if (!split_peer(peer, host, &port)) {
        locker_error_set(&why->error, LOCKER_PROTOCOL, 0,
                         "the cluster names '%s' as a node, which is not an address", peer);
        return NULL;
    }
    lk_redis_socket *const socket = greet_host(t, host, port, last, scripts, until, master, why);
    if (socket == NULL)
        return NULL;
    *map = socket->map; /* the caller owns it */
    socket->map = NULL;
    if (master[0] == '\0')
        return socket;
    lk_redis_socket_free(socket, false);
    lk_unavailable(&why->error, "the server at %s has become a replica; a failover may be in progress", peer);
    why->deserted = false;
    return NULL;
}

static bool has_slots(const lk_redis_map *map, const char *peer)
{
    for (size_t i = 0; i < map->masters; i++)
        if (strcmp(map->peer[i], peer) == 0)
            return true;
    return false;
}

/* Ask the others in turn until one sends a map. */
static lk_redis_map *ask_others(const lk_redis_target *t, const char *peer, char (*others)[LK_REDIS_PEER_MAX],
                                size_t count, int64_t until)
{
    lk_redis_map *map = NULL;
    for (size_t i = 0; i < count + t->host_count && map == NULL; i++) {
        char named[LK_REDIS_PEER_MAX];
        const char *other = named;
        lk_redis_failure here;
        if (i < count)
            other = others[i];
        else
            lk_redis_peer_name(t->hosts[i - count].name, t->hosts[i - count].port, named);
        if (strcmp(other, peer) != 0)
            lk_redis_socket_free(
                greet_node(t, other, NULL, NULL, share(until, count + t->host_count - i), &map, &here),
                false);
    }
    return map;
}

/* A silent server must not hide for long what the others know. It has half a second, and then what time is
 * left, if the others say that it has slots, or say nothing. */
lk_redis_socket *lk_redis_connect_node(const lk_redis_target *t, const char *peer, const lk_redis_last *last,
                                       char (*others)[LK_REDIS_PEER_MAX], size_t count,
                                       const lk_redis_scripts *scripts, int64_t until, lk_redis_map **map,
                                       lk_redis_failure *why)
{
    static const int64_t patience = 500 * LK_MS;
    const bool wanted = peer[0] != '\0';
    *map = NULL;
    *why = (lk_redis_failure){.deserted = true};
    if (wanted) {
        const int64_t its = lk_time_earlier(share(until, 3), lk_redis_system_now() + patience);
        lk_redis_socket *const socket = greet_node(t, peer, last, scripts, its, map, why);
        if (socket != NULL || *map != NULL)
            return socket;
    }
    *map = ask_others(t, peer, others, count, wanted ? share(until, 2) : until);
    if (!wanted || why->permanent || why->deserted || (*map != NULL && !has_slots(*map, peer)))
        return NULL;
    lk_redis_map *newer = NULL;
    lk_redis_socket *const socket = greet_node(t, peer, last, scripts, until, &newer, why);
    if (newer != NULL) {
        free(*map);
        *map = newer;
    }
    return socket;
}
