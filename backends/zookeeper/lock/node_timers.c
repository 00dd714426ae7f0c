/*
 * node_timers.c: what a node wants once it has been there for a while: to be watched itself, and the time of its grant
 * to be written. The keeper sees to both. A place that is given back sooner costs the servers nothing of it.
 */
#include "node_timers.h"

static const int64_t watch_again_ns = 100 * LK_MS;

void lk_zk_node_timers_stop_locked(lk_zk_node *node)
{
    if (lk_list_linked(&node->timer))
        lk_list_remove(&node->timer);
}

static void want_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net)
{
    if (!lk_list_linked(&node->timer))
        lk_list_prepend(&z->timed, &node->timer);
    if (at < z->timed_at) {
        z->timed_at = at;
        lk_zk_keeper_by_locked(z->net, at);
    }
}

void lk_zk_node_watch_by_locked(lk_zk *z, lk_zk_node *node, int64_t at)
{
    if (node->watched)
        return;
    node->watch_at = lk_time_earlier(node->watch_at, at);
    want_by_locked(z, node, node->watch_at);
}

void lk_zk_node_write_by_locked(lk_zk *z, lk_zk_node *node, int64_t at)
{
    node->write_at = at;
    want_by_locked(z, node, at);
}

int64_t lk_zk_node_timers_run_locked(lk_zk *z, int64_t now, const lk_zk_timer_work *work)
{
    if (!lk_zk_is_up_locked(z->net))
        return LOCKER_NEVER;
    if (now < z->timed_at)
        return z->timed_at;
    z->timed_at = LOCKER_NEVER;
    LK_LIST_EACH_SAFE(link, &z->timed) {
        lk_zk_node *const node = LK_CONTAINER(link, lk_zk_node, timer);
        if (now >= node->watch_at)
            node->watch_at = work->watch(z, node) ? LOCKER_NEVER : now + watch_again_ns;
        if (now >= node->write_at)
            work->write(z, node);
        const int64_t at = lk_time_earlier(node->watch_at, node->write_at);
        if (at == LOCKER_NEVER)
            lk_zk_node_timers_stop_locked(node);
        z->timed_at = lk_time_earlier(z->timed_at, at);
    }
    return z->timed_at;
}
