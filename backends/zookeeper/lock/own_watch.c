/*
 * own_watch.c: being told that a node of ours was deleted by somebody else, at once and not by the next heartbeat. A
 * holder has lost its lock then, and a waiter its place.
 */
#include "own_watch.h"
#include "ending.h"
#include "heartbeat.h"

static void want_again_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    node->watched = false;
    lk_zk_node_watch_by_locked(z, node, lk_zk_now(z));
}

void lk_zk_own_event_locked(lk_zk *z, const char *path, bool deleted)
{
    lk_zk_node *node = lk_zk_node_find_locked(z, path);
    if (node == NULL || !node->there || node->deleting)
        return;
    if (deleted) {
        lk_zk_node_vanish_locked(z, node, lk_zk_somebody_deleted);
        lk_zk_doubt_session_locked(z);
    } else if (node->claim != NULL) {
        want_again_locked(z, node);
    }
}

static void watched_locked(lk_zk *z, void *context, int rc, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    (void)reply;
    if (rc == ZNONODE && node->there && !node->deleting)
        lk_zk_node_vanish_locked(z, node, lk_zk_somebody_deleted);
    else if (lk_zk_unknown(rc) && node->there && node->claim != NULL)
        want_again_locked(z, node);
    lk_zk_node_unref_locked(z, node);
}

bool lk_zk_watch_own_locked(lk_zk *z, lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX];
    lk_zk_node_path(z, node, path);
    if (lk_zk_get_told_locked(z->net, path, watched_locked, node) == NULL)
        return false;
    node->watched = true;
    node->requests++;
    return true;
}
