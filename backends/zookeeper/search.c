/*
 * search.c: a create whose answer was lost. Whether it made a node is found out by sync and list in one
 * flight, because the server that is asked may lag behind the one that did it. Our name in the list is ours
 * only if its owner is our present session; a node of an earlier one will vanish with that, and can't hold a
 * lock.
 */
#include <string.h>

#include "internal.h"

/* It never came into being, or is no good: the claim tries again under another name. */
static void not_there_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    lk_zk_queue_leave_locked(z, node);
    lk_zk_node_settle_locked(z, node, LK_ZK_GONE);
}

static void owner_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    if (lk_zk_unknown(rc)) {
        lk_zk_queue_leave_locked(z, node);
        node->step = LK_ZK_UNSURE;
        lk_zk_stalled_locked(z);
    } else if (rc == ZNONODE) {
        not_there_locked(z, node);
    } else if (rc != ZOK || reply->stat->ephemeralOwner != z->session_id || node->claim == NULL) {
        node->step = LK_ZK_UNLISTED;
        node->maybe_deleted = true; /* deleted, and never listed, if that takes another connection */
        lk_zk_node_delete_locked(z, node);
    } else {
        node->czxid = reply->stat->czxid;
        lk_zk_node_list_locked(z, node);
    }
    lk_zk_node_unref_locked(z, node);
}

static void found_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name)
{
    char path[LK_ZK_PATH_MAX];
    if (!lk_zk_node_found_locked(z, node, name, 0)) {
        not_there_locked(z, node);
        return;
    }
    node->step = LK_ZK_SEARCHING;
    lk_zk_node_path(z, node, path);
    if (lk_zk_get_locked(z, path, NULL, NULL, owner_done_locked, node) != NULL) {
        node->ops++;
        return;
    }
    lk_zk_queue_leave_locked(z, node);
    node->step = LK_ZK_UNSURE;
    lk_zk_stalled_locked(z);
}

static void search_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    const char *found = NULL;
    char stem[LK_ZK_STEM_LEN + 1];
    lk_zk_stem(z, node->id, stem);
    if (lk_zk_unknown(rc)) {
        node->step = LK_ZK_UNSURE;
        lk_zk_stalled_locked(z);
    } else if (rc == ZOK) {
        for (int32_t i = 0; i < reply->names->count && found == NULL; i++) {
            const char *name = reply->names->data[i];
            if (strncmp(name, stem, LK_ZK_STEM_LEN) == 0)
                found = name;
        }
        if (found != NULL)
            found_locked(z, node, found);
        else
            not_there_locked(z, node);
    } else if (rc == ZNONODE) {
        not_there_locked(z, node);
    } else {
        lk_zk_node_fail_locked(z, node, rc, "looking for a place in a queue");
    }
    lk_zk_node_unref_locked(z, node);
}

void lk_zk_node_search_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->step = LK_ZK_UNSURE;
    if (lk_zk_list_fresh_locked(z, node->queue->path, search_done_locked, node) == NULL) {
        lk_zk_stalled_locked(z);
        return;
    }
    node->step = LK_ZK_SEARCHING;
    node->ops++;
}
