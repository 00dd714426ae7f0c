/* endpoints.c: the hosts' addresses, which are those to be connected to. When all of them have failed in a row, the servers may have
 * moved: then the hosts are resolved again, in a thread, until there is a connection. A host that has no address now keeps those of
 * before, and one that never had any may get some. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "state.h"

/* As long as the longest pause between rounds of all endpoints: a resolver is asked no more often than the servers are then. */
static const int64_t look_up_again_ns = LK_S;
static const int64_t attempt_least_ns = 100 * LK_MS;

/* ---------------------------------------------------------------- lists of them ---- */
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

/* Of each host what was found, or else what it had before. NULL: no memory. */
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
/* The clients of a cluster begin at different members. */
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
    net->svc->log(net->svc, LOCKER_LOG_INFO, "etcd: hosts of %s have other addresses now",
                  lk_hosts_names(net->hosts));
    go_by_locked(net, net->fresh);
    net->fresh = NULL;
    for (size_t i = 0; i < net->endpoints->count; i++) { /* those from before have all failed */
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
    net->fresh = merge(found, net->endpoints, lk_hosts_count(net->hosts));
    free(found);
    if (net->fresh != NULL && has_all(net->endpoints, net->fresh) && has_all(net->fresh, net->endpoints))
        lk_etcd_found_forget_locked(net); /* in whichever order */
    if (net->fresh != NULL)
        lk_etcd_kick_locked(net);
}

bool lk_etcd_has_moved_locked(const lk_etcd_net *net)
{
    return net->fresh != NULL && !has(net->fresh, &net->endpoints->list[net->endpoint]);
}
