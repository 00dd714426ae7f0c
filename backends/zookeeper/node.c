/*
 * node.c: a place in a key's queue, from its creation to its deletion.
 *
 * create and list are sent in one flight; the answers come in order, so the list shows the node. If nobody
 * stands ahead the lock is ours. Else the nearest one ahead is watched, and no other. When it goes and the
 * list had shown only this one, the lock is ours without another request, because numbers only grow: nobody
 * can come in between. Otherwise the queue is listed again.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const int64_t delete_again_ns = 100 * LK_MS;

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

void lk_zk_node_fresh_locked(struct lk_zk *z, struct lk_zk_node *node, bool fresh)
{
    if (fresh == (node->fresh_link != NULL))
        return;
    if (!fresh) {
        *node->fresh_link = node->fresh_next;
        if (node->fresh_next != NULL)
            node->fresh_next->fresh_link = node->fresh_link;
        node->fresh_link = NULL;
        return;
    }
    node->fresh_next = z->fresh;
    node->fresh_link = &z->fresh;
    if (node->fresh_next != NULL)
        node->fresh_next->fresh_link = &node->fresh_next;
    z->fresh = node;
}

struct lk_zk_node *lk_zk_node_new_locked(struct lk_zk *z, locker_claim *claim, const char *parent)
{
    const size_t len = strlen(parent);
    struct lk_zk_node *node = calloc(1, sizeof(*node) + len + 1);
    if (node == NULL)
        return NULL;
    memcpy(node->parent, parent, len + 1);
    node->hash = lk_zk_hash(parent);
    node->claim = claim;
    node->step = LK_ZK_GONE;
    node->cap = LOCKER_NEVER;
    lk_zk_uuid(z, node->uuid);
    link_locked(&z->nodes, node);
    return node;
}

void lk_zk_node_free_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    lk_zk_node_fresh_locked(z, node, false);
    lk_zk_unwatch_ahead_locked(node);
    lk_zk_unwatch_own_locked(node);
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
    node->step = step;
    count_enrolled_locked(z, node, node->claim != NULL && step == LK_ZK_QUEUED);
    if (node->call != NULL)
        lk_zk_call_done_locked(node->call);
    else if (node->claim != NULL && !node->granted && step != LK_ZK_QUEUED)
        z->svc->wake(z->svc, node->claim);
}

void lk_zk_node_fail_locked(struct lk_zk *z, struct lk_zk_node *node, int rc, const char *doing)
{
    node->error = calloc(1, sizeof(*node->error));
    (void)lk_zk_error(rc, doing, node->parent, node->error);
    if (node->there) {
        lk_zk_node_settle_locked(z, node, LK_ZK_FAILED);
        return;
    }
    lk_zk_node_settle_locked(z, node, node->claim != NULL ? LK_ZK_FAILED : LK_ZK_GONE);
}

void lk_zk_node_vanish_locked(struct lk_zk *z, struct lk_zk_node *node, const char *why)
{
    node->there = false;
    lk_zk_node_fresh_locked(z, node, false);
    lk_zk_unwatch_ahead_locked(node);
    lk_zk_unwatch_own_locked(node);
    if (node->claim != NULL && node->granted)
        z->svc->lease_lost(z->svc, node->claim, why);
    lk_zk_node_settle_locked(z, node, LK_ZK_GONE);
    (void)reap_locked(z, node);
}

/* ------------------------------------------------------------------ its place ---- */

/* Find the node's place in the list, and who is right ahead of it. */
static void place_locked(struct lk_zk *z, struct lk_zk_node *node, const struct String_vector *names)
{
    const char *ahead = NULL;
    int32_t ahead_sequence = 0;
    bool there = false;
    node->smaller = 0;
    for (int32_t i = 0; i < names->count; i++) {
        const char *name = names->data[i];
        int32_t sequence;
        if (!lk_zk_contender(name, &sequence))
            continue;
        if (strcmp(name, node->name) == 0) {
            there = true;
        } else if (lk_zk_before(sequence, name, node->sequence, node->name)) {
            node->smaller++;
            if (ahead == NULL || lk_zk_before(ahead_sequence, ahead, sequence, name)) {
                ahead = name;
                ahead_sequence = sequence;
            }
        }
    }
    if (!there)
        lk_zk_node_vanish_locked(z, node, "its node was deleted by somebody else");
    else if (ahead == NULL)
        lk_zk_node_settle_locked(z, node, LK_ZK_FIRST);
    else if (!node->claim->will_wait)
        lk_zk_node_settle_locked(z, node, LK_ZK_QUEUED); /* a try that came second: its caller leaves */
    else if (!lk_zk_watch_ahead_locked(z, node, ahead))
        lk_zk_node_fail_locked(z, node, ZSYSTEMERROR, "watching the node ahead");
    else
        lk_zk_node_settle_locked(z, node, LK_ZK_QUEUED);
}

void lk_zk_node_advance_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->claim == NULL || node->step != LK_ZK_QUEUED)
        return;
    if (node->smaller == 1) {
        node->smaller = 0;
        lk_zk_node_settle_locked(z, node, LK_ZK_FIRST);
        return;
    }
    lk_zk_node_list_locked(z, node);
}

/* ------------------------------------------------------------------ creating ---- */

bool lk_zk_node_found_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name, int64_t czxid)
{
    if (strlen(name) >= LK_ZK_NAME_MAX || !lk_zk_contender(name, &node->sequence))
        return false;
    (void)strcpy(node->name, name);
    node->czxid = czxid;
    node->there = true;
    node->created_at = lk_zk_now(z);
    z->seen[node->hash % LK_ZK_SEEN] = node->hash;
    if (node->claim == NULL)
        return true;
    lk_zk_node_fresh_locked(z, node, true);
    if (z->beat_at == LOCKER_NEVER) {
        z->beat_at = lk_zk_now(z) + z->timeout_ns / 4;
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
        z->seen[node->hash % LK_ZK_SEEN] = 0;
        node->tries++;
        lk_zk_node_start_locked(z, node);
    }
    return false;
}

static void list_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    node->ops++; /* keeps it while the answer is looked at, together with the list's own reference */
    if ((node->step == LK_ZK_CREATING && !created_locked(z, node)) || node->step == LK_ZK_GONE) {
        /* what follows is under way */
    } else if (node->claim == NULL) {
        lk_zk_node_delete_locked(z, node);
    } else if (rc == ZOK) {
        place_locked(z, node, reply->names);
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
    if (lk_zk_list_locked(z, node->parent, list_done_locked, node) != NULL) {
        node->step = LK_ZK_LISTING;
        node->ops++;
    } else {
        lk_zk_stalled_locked(z);
    }
}

/* Make the key's node, and after that has failed once, all above it. */
static void make_parents_locked(struct lk_zk *z, const struct lk_zk_node *node)
{
    char path[LK_ZK_PARENT_MAX];
    if (node->tries == 0 && z->seen[node->hash % LK_ZK_SEEN] == node->hash)
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
    (void)lk_zk_container_locked(z, node->parent, false);
}

void lk_zk_node_start_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX], prefix[LK_ZK_NAME_MAX] = "_c_";
    node->step = LK_ZK_CREATING;
    node->created = false;
    node->create_rc = ZCONNECTIONLOSS;
    memcpy(prefix + 3, node->uuid, LK_ZK_UUID_LEN);
    (void)strcpy(prefix + 3 + LK_ZK_UUID_LEN, "-lock-");
    (void)lk_zk_join(path, node->parent, prefix);
    make_parents_locked(z, node);
    if (lk_zk_create_locked(z, path, node->claim->owner, strlen(node->claim->owner), create_done_locked,
                            node) == NULL) {
        node->created = true;
        lk_zk_node_settle_locked(z, node, LK_ZK_GONE); /* nothing was sent */
        return;
    }
    node->ops++;
    if (lk_zk_list_locked(z, node->parent, list_done_locked, node) != NULL) {
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
        node->there = false;
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
    (void)lk_zk_join(path, node->parent, node->name);
    node->retry_at = 0;
    if (lk_zk_delete_locked(z, path, delete_done_locked, node) != NULL) {
        node->deleting = true;
        node->ops++;
    }
}

void lk_zk_node_leave_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    count_enrolled_locked(z, node, false);
    lk_zk_node_fresh_locked(z, node, false);
    lk_zk_unwatch_ahead_locked(node);
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
    else if (node->claim == NULL || (node->maybe_deleted && node->there))
        lk_zk_node_delete_locked(z, node);
    else if (node->step == LK_ZK_UNLISTED)
        lk_zk_node_list_locked(z, node);
}
