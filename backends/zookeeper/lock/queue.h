/* queue.h: who is ahead of a place. */
#pragma once

#include "place.h"

/* Ask for the queue's list, and find the node's place in it. */
void lk_zk_node_list_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Send a list that ends so, and refers to the node. False: it could not be sent. */
bool lk_zk_list_for_locked(lk_zk *z, lk_zk_node *node, lk_zk_done_fn done) LK_REQUIRES(*z->net);
/* Its answer: the node's place is found in it if it was there when that was asked for. */
void lk_zk_list_answered_locked(lk_zk *z, lk_zk_node *node, int rc, const lk_zk_reply *reply)
    LK_REQUIRES(*z->net);
/* Delete what a list of a queue shows of ours that belongs to no claim. */
void lk_zk_queue_sweep_locked(lk_zk *z, const char *parent, const struct String_vector *names)
    LK_REQUIRES(*z->net);
/* What the connection tells of a predecessor: it may have gone (ZNONODE), or it can't be watched. */
void lk_zk_predecessor_gone_locked(lk_zk *z, lk_zk_watcher *watcher, int rc) LK_REQUIRES(*z->net);
