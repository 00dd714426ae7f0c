/* create.h: how a place begins, and what follows when that got no answer. */
#pragma once

#include "place.h"

/* Send create and list in one flight. */
void lk_zk_node_start_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Look for it, when its create got no answer. */
void lk_zk_node_search_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Look for those that nobody waits for, if it is time. Returns when it is again. */
int64_t lk_zk_search_due_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* ... now, whenever it is due. */
void lk_zk_search_all_locked(lk_zk *z) LK_REQUIRES(*z->net);
