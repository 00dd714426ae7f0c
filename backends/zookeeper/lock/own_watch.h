/* own_watch.h: being told that a node of ours was deleted. */
#pragma once

#include "place.h"

/* Have the node's own deletion told. False: no memory or no connection. */
bool lk_zk_watch_own_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* What the connection tells of a node of that path. */
void lk_zk_own_event_locked(lk_zk *z, const char *path, bool deleted) LK_REQUIRES(*z->net);
