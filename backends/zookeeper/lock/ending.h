/* ending.h: how a place ends, or is in doubt. */
#pragma once

#include "place.h"

/* Send the delete, unless one is under way. */
void lk_zk_node_delete_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* It is gone, with proof: somebody else deleted it, or its session is over. `why` is static text. */
void lk_zk_node_vanish_locked(lk_zk *z, lk_zk_node *node, const char *why) LK_REQUIRES(*z->net);
/* It is there, with that number, but nobody wants it. */
void lk_zk_node_stray_locked(lk_zk *z, lk_zk_node *node, int32_t sequence) LK_REQUIRES(*z->net);
/* Whether it is there, or will be, isn't known. Without a claim it has no name any more. */
void lk_zk_node_doubt_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Nobody wants it any more: it is deleted in the background, and freed. */
void lk_zk_node_leave_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Delete again what servers refused to delete, if it is time. Returns when it is. */
int64_t lk_zk_delete_left_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* The session is over, and all places with it. */
void lk_zk_all_vanish_locked(lk_zk *z) LK_REQUIRES(*z->net);

extern const char lk_zk_somebody_deleted[];
