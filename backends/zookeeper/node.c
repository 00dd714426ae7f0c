/*
 * node.c: a place in a key's queue, from its creation to its deletion.
 *
 * create and list are sent in one flight; the answers come in order, so the list shows the node. If nobody
 * stands ahead the lock is ours; else it waits (queue.c).
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const int64_t delete_again_ns = 100 * LK_MS;

/* A place in a queue that moves on quickly needs no watch on itself, which spares the server a request. Once
 * it has the lock it gets one sooner. */
static const int64_t own_watch_after_ns = 250 * LK_MS;

/* ------------------------------------------------------------------ making and freeing ---- */

static void unlink_locked(struct lk_zk_node *node)
{
    *node->link = node->next;
    if (node->next != NULL)
        node->next->link = node->link;
}

static void link_locked(struct lk_zk_node **list, struct lk_zk_node *node)
{
    node->next = *list;
    node->link = list;
    if (node->next != NULL)
        node->next->link = &node->next;
    *list = node;
}

struct lk_zk_node *lk_zk_node_new_locked(struct lk_zk *z, locker_claim *claim, const char *parent)
{
    struct lk_zk_node *node = calloc(1, sizeof(*node));
    struct lk_zk_queue *queue = node != NULL ? lk_zk_queue_use_locked(z, parent) : NULL;
    if (queue == NULL) {
        free(node);
        return NULL;
    }
    node->queue = queue;
    node->ahead.node = node->second.node = node;
    node->claim = claim;
    node->step = LK_ZK_GONE;
    node->cap = node->watch_at = node->since_by = LOCKER_NEVER;
    node->id = ++z->last_id;
    link_locked(&z->nodes, node);
    return node;
}

void lk_zk_node_free_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    lk_zk_node_rest_locked(node);
    lk_zk_unwatch_all_locked(node);
    lk_zk_queue_leave_locked(z, node);
    lk_zk_queue_drop_locked(z, node->queue);
    unlink_locked(node);
    free(node->error);
    free(node);
    if (z->closer != NULL && z->left == NULL)
        lk_zk_call_done_locked(z->closer);
}

/* Free it if nobody refers to it and nothing is left at the server. */
static bool reap_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->claim != NULL || node->call != NULL || node->ops > 0 || node->step != LK_ZK_GONE)
        return false;
    lk_zk_node_free_locked(z, node);
    return true;
}

void lk_zk_node_unref_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->ops--;
    (void)reap_locked(z, node);
}

/* ------------------------------------------------------------------ telling ---- */

static void count_enrolled_locked(struct lk_zk *z, struct lk_zk_node *node, bool enrolled)
{
    if (node->wake_wanted == enrolled)
        return;
    node->wake_wanted = enrolled;
    z->enrolled = enrolled ? z->enrolled + 1 : z->enrolled - 1;
}

void lk_zk_node_settle_locked(struct lk_zk *z, struct lk_zk_node *node, enum lk_zk_step step)
{
    node->step = (uint8_t)step;
    node->waited = node->waited || step == LK_ZK_QUEUED;
    count_enrolled_locked(z, node, node->claim != NULL && step == LK_ZK_QUEUED);
    if (node->call != NULL)
        lk_zk_call_done_locked(node->call);
    else if (node->claim != NULL && !node->granted && step != LK_ZK_QUEUED)
        z->svc->wake(z->svc, node->claim);
}

void lk_zk_node_fail_locked(struct lk_zk *z, struct lk_zk_node *node, int rc, const char *doing)
{
    node->error = calloc(1, sizeof(*node->error));
    (void)lk_zk_error(rc, doing, node->queue->path, node->error);
    if (node->there) {
        lk_zk_node_settle_locked(z, node, LK_ZK_FAILED);
        return;
    }
    lk_zk_node_settle_locked(z, node, node->claim != NULL ? LK_ZK_FAILED : LK_ZK_GONE);
}

void lk_zk_node_vanish_locked(struct lk_zk *z, struct lk_zk_node *node, const char *why)
{
    lk_zk_node_rest_locked(node);
    lk_zk_unwatch_all_locked(node);
    lk_zk_queue_leave_locked(z, node);
    if (node->claim != NULL && node->granted)
        z->svc->lease_lost(z->svc, node->claim, why);
    lk_zk_node_settle_locked(z, node, LK_ZK_GONE);
    (void)reap_locked(z, node);
}

/* ------------------------------------------------------------------ creating ---- */

bool lk_zk_node_found_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name, int64_t czxid)
{
    char own[LK_ZK_NAME_MAX];
    if (!lk_zk_contender(name, &node->sequence))
        return false;
    lk_zk_name(z, node->id, node->sequence, own);
    if (strcmp(own, name) != 0)
        return false;
    node->czxid = czxid;
    node->watched = false;
    lk_zk_queue_enter_locked(node);
    z->seen[node->queue->hash % LK_ZK_SEEN] = node->queue->hash;
    if (node->claim == NULL)
        return true;
    const int64_t now = lk_zk_now(z);
    lk_zk_node_watch_by_locked(z, node, now + own_watch_after_ns);
    if (z->beat_at == LOCKER_NEVER) {
        z->beat_at = now + z->timeout_ns / 4;
        lk_zk_keeper_by_locked(z, z->beat_at);
    }
    return true;
}

static void create_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    node->created = true;
    node->create_rc = rc;
    if (rc == ZOK) {
        const char *name = strrchr(reply->text, '/');
        lk_zk_confirm_locked(z, op->sent);
        z->wall_ahead_ms = reply->stat->ctime - lk_zk_now(z) / LK_MS;
        if (name == NULL || !lk_zk_node_found_locked(z, node, name + 1, reply->stat->czxid))
            node->create_rc = ZRUNTIMEINCONSISTENCY;
    }
    lk_zk_node_unref_locked(z, node);
}

/* What create's answer means, once the list that was sent with it is there too. True: the node is there. */
static bool created_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->there)
        return true;
    if (lk_zk_unknown(node->create_rc)) {
        node->step = LK_ZK_UNSURE;
        lk_zk_node_search_locked(z, node);
    } else if (node->create_rc != ZNONODE || node->claim == NULL) {
        lk_zk_node_fail_locked(z, node, node->create_rc, "entering a queue");
    } else if (node->tries >= LK_ZK_PARENTS_TRIES) {
        lk_zk_node_fail_locked(z, node, ZNONODE, "making a queue's parents, which somebody keeps deleting");
    } else {
        z->seen[node->queue->hash % LK_ZK_SEEN] = 0;
        node->tries++;
        lk_zk_node_start_locked(z, node);
    }
    return false;
}

static void list_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    node->looking = false;
    node->ops++; /* keeps it while the answer is looked at, together with the list's own reference */
    if ((node->step == LK_ZK_CREATING && !created_locked(z, node)) || node->step == LK_ZK_GONE ||
        node->step == LK_ZK_FIRST) {
        /* what follows is under way, or it was a look that isn't wanted any more */
    } else if (node->claim == NULL) {
        lk_zk_node_delete_locked(z, node);
    } else if (rc == ZOK) {
        lk_zk_queue_place_locked(z, node, reply->names);
    } else if (rc == ZNONODE) {
        lk_zk_node_vanish_locked(z, node, "its node was deleted by somebody else");
    } else if (lk_zk_unknown(rc)) {
        node->step = LK_ZK_UNLISTED;
        lk_zk_stalled_locked(z);
    } else {
        lk_zk_node_fail_locked(z, node, rc, "listing a queue");
    }
    node->ops--; /* NOLINT(clang-analyzer-unix.Malloc): the two references are not seen */
    lk_zk_node_unref_locked(z, node);
}

void lk_zk_node_list_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->step = LK_ZK_UNLISTED;
    if (lk_zk_list_locked(z, node->queue->path, list_done_locked, node) != NULL) {
        node->step = LK_ZK_LISTING;
        node->ops++;
    } else {
        lk_zk_stalled_locked(z);
    }
}

void lk_zk_node_look_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->looking || lk_zk_list_locked(z, node->queue->path, list_done_locked, node) == NULL)
        return;
    node->looking = true;
    node->ops++;
}

/* Make the key's node, and after that has failed once, all above it. */
static void make_parents_locked(struct lk_zk *z, const struct lk_zk_node *node)
{
    char path[LK_ZK_PARENT_MAX];
    if (node->tries == 0 && z->seen[node->queue->hash % LK_ZK_SEEN] == node->queue->hash)
        return;
    if (node->tries > 1 || (node->tries == 1 && z->set.root[0] != '\0')) {
        for (const char *slash = strchr(z->set.root + (z->set.root[0] != '\0'), '/');;
             slash = strchr(slash + 1, '/')) {
            const size_t len = slash != NULL ? (size_t)(slash - z->set.root) : strlen(z->set.root);
            memcpy(path, z->set.root, len);
            path[len] = '\0';
            if (len > 0)
                (void)lk_zk_container_locked(z, path, true);
            if (slash == NULL)
                break;
        }
    }
    (void)lk_zk_container_locked(z, node->queue->path, false);
}

void lk_zk_node_start_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX], stem[LK_ZK_STEM_LEN + 1];
    node->step = LK_ZK_CREATING;
    node->created = false;
    node->create_rc = ZCONNECTIONLOSS;
    lk_zk_stem(z, node->id, stem);
    (void)lk_zk_join(path, node->queue->path, stem);
    make_parents_locked(z, node);
    if (lk_zk_create_locked(z, path, node->claim->owner, strlen(node->claim->owner), create_done_locked,
                            node) == NULL) {
        node->created = true;
        lk_zk_node_settle_locked(z, node, LK_ZK_GONE); /* nothing was sent */
        return;
    }
    node->ops++;
    if (lk_zk_list_locked(z, node->queue->path, list_done_locked, node) != NULL) {
        node->ops++;
    } else {
        node->step = LK_ZK_UNSURE; /* the connection broke in between, or there is no memory */
        lk_zk_stalled_locked(z);
    }
}

/* ------------------------------------------------------------------ deleting ---- */

static void delete_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    (void)reply;
    node->deleting = false;
    if (rc == ZOK || rc == ZNONODE) {
        lk_zk_confirm_locked(z, op->sent);
        node->deleted = rc == ZOK;
        lk_zk_queue_leave_locked(z, node);
        lk_zk_node_settle_locked(z, node, LK_ZK_GONE);
    } else if (lk_zk_unknown(rc)) {
        node->maybe_deleted = true; /* sent again once there is a connection */
        lk_zk_stalled_locked(z);
    } else {
        const int64_t now = lk_zk_now(z);
        if (node->trouble_since == 0)
            node->trouble_since = now;
        node->retry_at = now + delete_again_ns;
        lk_zk_keeper_by_locked(z, node->retry_at);
    }
    lk_zk_node_unref_locked(z, node);
}

void lk_zk_node_delete_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX];
    if (node->deleting || !node->there)
        return;
    lk_zk_node_path(z, node, path);
    node->unwanted = true;
    node->retry_at = 0;
    if (lk_zk_delete_locked(z, path, delete_done_locked, node) != NULL) {
        node->deleting = true;
        node->ops++;
    }
}

void lk_zk_node_leave_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    count_enrolled_locked(z, node, false);
    lk_zk_node_rest_locked(node);
    lk_zk_unwatch_all_locked(node);
    node->claim = NULL;
    node->call = NULL;
    node->granted = false;
    unlink_locked(node);
    link_locked(&z->left, node);
    if (node->step == LK_ZK_FAILED && !node->there)
        node->step = LK_ZK_GONE;
    lk_zk_node_delete_locked(z, node);
    if (!reap_locked(z, node))
        z->svc->attend(z->svc);
}

/* ------------------------------------------------------------------ after a lost connection ---- */

void lk_zk_node_resume_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->step == LK_ZK_UNSURE)
        lk_zk_node_search_locked(z, node);
    else if (node->claim == NULL || ((node->unwanted || node->maybe_deleted) && node->there))
        lk_zk_node_delete_locked(z, node);
    else if (node->step == LK_ZK_UNLISTED)
        lk_zk_node_list_locked(z, node);
}
