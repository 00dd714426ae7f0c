/* recover_create.h: a place whose create got no answer. */
#pragma once

#include "place.h"

/* Look for it. */
void lk_zk_node_search_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Look for those that nobody waits for, if it is time. Returns when it is again. */
int64_t lk_zk_search_due_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* ... now, whenever it is due. */
void lk_zk_search_all_locked(lk_zk *z) LK_REQUIRES(*z->net);
