/* endpoints.c: the addresses of the hosts, which are the endpoints. If all of them have failed in a row,
 * the servers may have moved. Then a thread resolves the hosts again until there is a connection. A host
 * without addresses now keeps its earlier ones. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "state.h"

/* The time between lookups: as long as the longest pause between rounds, so that a resolver gets no more
 * requests than the servers. */
static const int64_t look_up_again_ns = LK_S;
static const int64_t attempt_least_ns = 100 * LK_MS;

/* ---------------------------------------------------------------- lists of addresses ---- */
static bool has(const lk_addresses *list, const lk_address *wanted)
{
    for (size_t i = 0; i < list->count; i++) {
        const lk_address *const a = &list->list[i];
        if (a->host == wanted->host && a->len == wanted->len &&
            memcmp(&a->address, &wanted->address, a->len) == 0)
            return true;
    }
    return false;
}

static bool has_all(const lk_addresses *list, const lk_addresses *wanted)
{
    for (size_t i = 0; i < wanted->count; i++)
        if (!has(list, &wanted->list[i]))
            return false;
    return true;
}

static bool has_host(const lk_addresses *list, size_t host)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].host == host)
            return true;
    return false;
}

/* Return for each host the addresses found, or its earlier ones if none were found. NULL: no memory. */
static lk_addresses *merge(const lk_addresses *found, const lk_addresses *before, size_t hosts)
{
    lk_addresses *const both = malloc(sizeof *both + (found->count + before->count) * sizeof *both->list);
    if (both == NULL)
        return NULL;
    both->count = 0;
    for (size_t host = 0; host < hosts; host++) {
        const lk_addresses *const from = has_host(found, host) ? found : before;
        for (size_t i = 0; i < from->count; i++)
            if (from->list[i].host == host)
                both->list[both->count++] = from->list[i];
    }
    return both;
}

/* ---------------------------------------------------------------- the endpoints ---- */
/* Use these endpoints, from a random one on, so that the clients of a cluster begin at different members. */
static void go_by_locked(lk_etcd_net *net, lk_addresses *endpoints) LK_REQUIRES(*net)
{
    uint32_t random = 0;
    (void)getrandom(&random, sizeof random, 0);
    net->endpoints = endpoints;
    net->endpoint = random % endpoints->count;
    net->attempt_ns = lk_time_later(net->connect_timeout_ns / (int64_t)endpoints->count,
                                    lk_time_earlier(attempt_least_ns, net->connect_timeout_ns));
}

locker_status lk_etcd_endpoints_find(lk_etcd_net *net, locker_error *err)
{
    lk_addresses *found;
    net->literal = lk_hosts_literal(net->hosts);
    net->looked_up_at = lk_etcd_now(net);
    const locker_status status = lk_hosts_resolve(net->hosts, &found, err);
    if (status == LOCKER_OK)
        go_by_locked(net, found);
    return status;
}

void lk_etcd_endpoints_replace_locked(lk_etcd_net *net)
{
    lk_addresses *const before = net->endpoints;
    net->svc->log(net->svc, LOCKER_LOG_INFO, "etcd: hosts of %s have other addresses now", net->hosts->names);
    go_by_locked(net, net->fresh);
    net->fresh = NULL;
    for (size_t i = 0; i < net->endpoints->count; i++) { /* the earlier ones have all failed */
        if (!has(before, &net->endpoints->list[net->endpoint]))
            break;
        net->endpoint = (net->endpoint + 1) % net->endpoints->count;
    }
    free(before);
}

/* ---------------------------------------------------------------- resolving the hosts again ---- */
int64_t lk_etcd_look_up_at_locked(const lk_etcd_net *net)
{
    if (net->literal || net->looking_up || net->stage == LK_ETCD_UP || net->failures < net->endpoints->count)
        return LOCKER_NEVER;
    return lk_time_after(net->looked_up_at, look_up_again_ns);
}

void lk_etcd_look_up_locked(lk_etcd_net *net, int64_t now)
{
    if (now < lk_etcd_look_up_at_locked(net))
        return;
    net->looked_up_at = now;
    net->looking_up = lk_hosts_lookup_start(net->hosts, net->svc);
}

void lk_etcd_found_forget_locked(lk_etcd_net *net)
{
    free(net->fresh);
    net->fresh = NULL;
}

void lk_etcd_found_locked(lk_etcd_net *net)
{
    lk_addresses *found = NULL;
    if (!net->looking_up || !lk_hosts_lookup_take(net->hosts, &found))
        return;
    net->looking_up = false;
    if (found == NULL)
        return;
    free(net->fresh);
    net->fresh = merge(found, net->endpoints, net->hosts->count);
    free(found);
    if (net->fresh != NULL && has_all(net->endpoints, net->fresh) && has_all(net->fresh, net->endpoints))
        lk_etcd_found_forget_locked(net); /* the order of the two does not matter */
    if (net->fresh != NULL)
        lk_etcd_kick_locked(net);
}

bool lk_etcd_has_moved_locked(const lk_etcd_net *net)
{
    return net->fresh != NULL && !has(net->fresh, &net->endpoints->list[net->endpoint]);
}
