/* heartbeat.h: proving to the servers, and to us, that all is still there. */
#pragma once

#include "place.h"

/* Send heartbeats if it is time; returns when the next is due. */
int64_t lk_zk_heartbeat_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* One is due at once. */
void lk_zk_heartbeat_now_locked(lk_zk *z) LK_REQUIRES(*z->net);
/* A node of ours was deleted by somebody else: perhaps with the whole session. Nothing is granted until a heartbeat has
 * been answered, or the session has ended; that the connection is lost answers nothing. */
void lk_zk_doubt_session_locked(lk_zk *z) LK_REQUIRES(*z->net);
/* Whether the deadline is far enough away for a grant. */
bool lk_zk_enough_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* Have the deadline moved, for a caller that can have this node's lock once there is enough. */
void lk_zk_prove_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);

/* Have it told at once when somebody else deletes the node: a holder has lost its lock then, and a waiter its place. False:
 * no memory or no connection. */
bool lk_zk_watch_own_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* What the connection tells of a node of that path. */
void lk_zk_own_event_locked(lk_zk *z, const char *path, bool deleted) LK_REQUIRES(*z->net);
