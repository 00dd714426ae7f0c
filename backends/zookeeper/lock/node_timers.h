/* node_timers.h: what a node wants once it has been there for a while. */
#pragma once

#include "node.h"

/* It wants a watch on itself at that time, or sooner if that was said before. */
void lk_zk_node_watch_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net);
/* It wants the time of its grant to be written then. */
void lk_zk_node_write_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net);
/* It wants nothing of that any more. */
void lk_zk_node_timers_stop_locked(lk_zk_node *node);
/* Do what is due, by these. Returns when the next is. */
typedef struct {
    bool (*watch)(lk_zk *z, lk_zk_node *node); /* false: it could not be asked for */
    void (*write)(lk_zk *z, lk_zk_node *node);
} lk_zk_timer_work;
int64_t lk_zk_node_timers_run_locked(lk_zk *z, int64_t now, const lk_zk_timer_work *work)
    LK_REQUIRES(*z->net);
