/*
 * node_timers.c: what a node wants once it has been there for a while: to be watched itself, and the time of
 * its grant to be written. The keeper sees to both. A place that is given back sooner costs the servers
 * nothing of it.
 */
#include "../internal.h"

static const int64_t watch_again_ns = 100 * LK_MS;

void lk_zk_node_rest_locked(struct lk_zk_node *node)
{
    if (node->fresh_link == NULL)
        return;
    *node->fresh_link = node->fresh_next;
    if (node->fresh_next != NULL)
        node->fresh_next->fresh_link = node->fresh_link;
    node->fresh_link = NULL;
}

static void tend_by_locked(struct lk_zk *z, struct lk_zk_node *node, int64_t at)
{
    if (node->fresh_link == NULL) {
        node->fresh_next = z->fresh;
        node->fresh_link = &z->fresh;
        if (node->fresh_next != NULL)
            node->fresh_next->fresh_link = &node->fresh_next;
        z->fresh = node;
    }
    if (at < z->fresh_at) {
        z->fresh_at = at;
        lk_zk_keeper_by_locked(z, at);
    }
}

void lk_zk_node_watch_by_locked(struct lk_zk *z, struct lk_zk_node *node, int64_t at)
{
    if (node->watched)
        return;
    node->watch_at = lk_zk_earlier(node->watch_at, at);
    tend_by_locked(z, node, node->watch_at);
}

void lk_zk_node_since_by_locked(struct lk_zk *z, struct lk_zk_node *node, int64_t at)
{
    node->since_by = at;
    tend_by_locked(z, node, at);
}

/* A deletion by somebody else is told at once to those that are watched, not by the next heartbeat. */
int64_t lk_zk_nodes_tend_locked(struct lk_zk *z, int64_t now)
{
    struct lk_zk_node *next;
    if (!z->up)
        return LOCKER_NEVER;
    if (now < z->fresh_at)
        return z->fresh_at;
    z->fresh_at = LOCKER_NEVER;
    for (struct lk_zk_node *node = z->fresh; node != NULL; node = next) {
        next = node->fresh_next;
        if (now >= node->watch_at)
            node->watch_at = lk_zk_watch_own_locked(z, node) ? LOCKER_NEVER : now + watch_again_ns;
        if (now >= node->since_by)
            lk_zk_since_write_locked(z, node);
        const int64_t at = lk_zk_earlier(node->watch_at, node->since_by);
        if (at == LOCKER_NEVER)
            lk_zk_node_rest_locked(node);
        z->fresh_at = lk_zk_earlier(z->fresh_at, at);
    }
    return z->fresh_at;
}
