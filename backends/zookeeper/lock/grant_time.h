/* grant_time.h: since when a lock that was waited for is held. */
#pragma once

#include "place.h"

/* The node has the lock from now on: have that written, if it has waited and if it lasts. */
void lk_zk_grant_time_plan_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* The node has had the lock for long enough. */
void lk_zk_grant_time_write_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
