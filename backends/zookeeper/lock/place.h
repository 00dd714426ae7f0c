/* place.h: the life of a place in a key's queue: what is known of it, and who is told. */
#pragma once

#include "node.h"

/* ---------------------------------------------------------------- its life ---- */

/* NULL: no memory. */
lk_zk_node *lk_zk_node_new_locked(lk_zk *z, locker_claim *claim, const char *parent) LK_REQUIRES(*z->net);
/* One of ours that a list shows, and of which nothing is known: to be deleted. NULL: no memory. */
lk_zk_node *lk_zk_node_adopt_locked(lk_zk *z, const char *parent, uint64_t id) LK_REQUIRES(*z->net);
/* From the list that it is in to another one. */
void lk_zk_node_move_locked(lk_zk *z, lk_zk_node *node, lk_list *list) LK_REQUIRES(*z->net);
/* It stands for its queue: it takes a name that is never asked for. */
void lk_zk_node_rename_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Free it if nobody refers to it and nothing is left at the server. False: not yet. */
bool lk_zk_node_reap_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* One request less refers to it. */
void lk_zk_node_unref_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
void lk_zk_node_free_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Its claim goes: nobody waits for it any more. */
void lk_zk_node_disown_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);

/* Our own place of that name, or path, or id; NULL: there is none. */
lk_zk_node *lk_zk_node_find_locked(const lk_zk *z, const char *name) LK_REQUIRES(*z->net);
lk_zk_node *lk_zk_node_by_id_locked(const lk_zk *z, uint64_t id) LK_REQUIRES(*z->net);
void lk_zk_node_path(const lk_zk *z, const lk_zk_node *node, char path[LK_ZK_PATH_MAX]);

/* ---------------------------------------------------------------- what it wants after a while: keeper.c ---- */

/* A watch on itself at that time, or sooner if that was said before. A place that is given back sooner costs the servers
 * nothing of it. */
void lk_zk_node_watch_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net);
/* The time of its grant to be written then. */
void lk_zk_node_write_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net);
/* Nothing of that any more. */
void lk_zk_node_timers_stop_locked(lk_zk_node *node);

/* ---------------------------------------------------------------- its step ---- */

/* Something has become known of it. */
void lk_zk_node_step_locked(lk_zk_node *node, lk_zk_event event);
/* The same, and whoever waits for it is told. */
void lk_zk_node_tell_locked(lk_zk *z, lk_zk_node *node, lk_zk_event event) LK_REQUIRES(*z->net);
/* REFUSED, with the server's reason; without a claim and a node it is ENDED. */
void lk_zk_node_fail_locked(lk_zk *z, lk_zk_node *node, int rc, const char *doing) LK_REQUIRES(*z->net);
/* The node is there, with that number. */
void lk_zk_node_found_locked(lk_zk *z, lk_zk_node *node, int32_t sequence) LK_REQUIRES(*z->net);

/* An answer said nothing although the connection is up: resume in a moment. */
void lk_zk_stalled_locked(lk_zk *z) LK_REQUIRES(*z->net);
