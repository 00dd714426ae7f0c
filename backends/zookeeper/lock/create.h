/* create.h: how a place begins. */
#ifndef LK_ZK_CREATE_H
#define LK_ZK_CREATE_H

#include "place.h"

/* Send create and list in one flight. */
void lk_zk_node_start_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);

#endif
