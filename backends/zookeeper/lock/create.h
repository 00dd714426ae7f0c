/* create.h: how a place begins. */
#pragma once

#include "place.h"

/* Send create and list in one flight. */
void lk_zk_node_start_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
