/*
 * place.c: a place in a key's queue, from its creation to its deletion.
 *
 * create and list are sent in one flight; the answers come in order, so the list shows the node. If nobody
 * stands ahead the lock is ours; else it waits (queue.c). What is known of it is its step; GONE is entered
 * with proof only, and all else that ends unheard of is doubt (recover_create.c).
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"

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

static void move_locked(struct lk_zk *z, struct lk_zk_node *node, struct lk_zk_node **list)
{
    unlink_locked(node);
    link_locked(list, node);
    if (z->closer != NULL && z->left == NULL)
        lk_zk_call_done_locked(z->closer);
}

static struct lk_zk_node *make_locked(struct lk_zk *z, const char *parent, uint64_t id)
{
    struct lk_zk_node *node = calloc(1, sizeof(*node) + strlen(parent) + 1);
    if (node == NULL)
        return NULL;
    (void)strcpy(node->parent, parent);
    node->parent_hash = lk_zk_hash(parent);
    node->id = id;
    node->session = z->session_id;
    node->cap = node->watch_at = node->since_by = LOCKER_NEVER;
    if (lk_zk_queue_add_locked(z, node))
        return node;
    free(node);
    return NULL;
}

struct lk_zk_node *lk_zk_node_new_locked(struct lk_zk *z, locker_claim *claim, const char *parent)
{
    struct lk_zk_node *node = make_locked(z, parent, ++z->last_id);
    if (node == NULL)
        return NULL;
    node->claim = claim;
    link_locked(&z->nodes, node);
    return node;
}

struct lk_zk_node *lk_zk_node_adopt_locked(struct lk_zk *z, const char *parent, uint64_t id)
{
    struct lk_zk_node *node = make_locked(z, parent, id);
    if (node != NULL)
        link_locked(&z->left, node);
    return node;
}

void lk_zk_node_free_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    lk_zk_node_rest_locked(node);
    lk_zk_unwatch_locked(z, node);
    lk_zk_queue_remove_locked(z, node);
    unlink_locked(node);
    free(node->error);
    free(node);
    if (z->closer != NULL && z->left == NULL)
        lk_zk_call_done_locked(z->closer);
}

/* Free it if nobody refers to it and nothing is left at the server. */
static bool reap_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->claim != NULL || node->call != NULL || node->ops > 0 ||
        (node->step != LK_ZK_GONE && node->step != LK_ZK_NOTHING))
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
    node->waited = node->waited || step == LK_ZK_BEHIND;
    count_enrolled_locked(z, node, node->claim != NULL && step == LK_ZK_BEHIND);
    if (node->call != NULL)
        lk_zk_call_done_locked(node->call);
    else if (node->claim != NULL && !node->granted && step != LK_ZK_BEHIND)
        z->svc->wake(z->svc, node->claim);
}

void lk_zk_node_fail_locked(struct lk_zk *z, struct lk_zk_node *node, int rc, const char *doing)
{
    node->error = calloc(1, sizeof(*node->error));
    (void)lk_zk_error(rc, doing, node->parent, node->error);
    lk_zk_node_settle_locked(z, node, node->there || node->claim != NULL ? LK_ZK_FAILED : LK_ZK_GONE);
}

/* Those behind it are told when its step says so. */
static void gone_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->there = false;
    lk_zk_node_rest_locked(node);
    lk_zk_unwatch_locked(z, node);
    lk_zk_node_settle_locked(z, node, LK_ZK_GONE);
    lk_zk_watch_ours_locked(z, node);
}

void lk_zk_node_vanish_locked(struct lk_zk *z, struct lk_zk_node *node, const char *why)
{
    if (node->claim != NULL && node->granted)
        z->svc->lease_lost(z->svc, node->claim, why);
    z->may_stray = true; /* a server that has it not may be one that differs from the others */
    gone_locked(z, node);
    (void)reap_locked(z, node);
}

/* Nobody waits for it any more, so what is in doubt is its queue: one place without a node stands for all
 * names there that may come yet, which a list shows as nobody's. It takes a name that is never asked for. */
static void doubt_queue_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    struct lk_zk_node *stands = z->doubtful;
    lk_zk_queue_remove_locked(z, node);
    node->id = ++z->last_id;
    (void)lk_zk_queue_add_locked(z, node);
    while (stands != NULL &&
           (stands->parent_hash != node->parent_hash || strcmp(stands->parent, node->parent) != 0))
        stands = stands->next;
    if (stands == NULL)
        move_locked(z, stands = node, &z->doubtful);
    else
        node->step = LK_ZK_NOTHING;
    stands->doubt_since = lk_zk_now(z);
    stands->look_at = 0;
    lk_zk_keeper_by_locked(z, 0);
}

void lk_zk_node_doubt_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->there = false;
    node->step = LK_ZK_DOUBT;
    z->may_stray = true;
    lk_zk_watch_ours_locked(z, node);
    lk_zk_stalled_locked(z);
    if (node->claim == NULL)
        doubt_queue_locked(z, node);
}

/* ------------------------------------------------------------------ creating ---- */

void lk_zk_node_found_locked(struct lk_zk *z, struct lk_zk_node *node, int32_t sequence)
{
    const int64_t now = lk_zk_now(z);
    node->sequence = sequence;
    node->there = true;
    node->watched = false;
    z->seen[node->parent_hash % LK_ZK_SEEN] = node->parent_hash;
    if (node->claim == NULL)
        return;
    lk_zk_node_watch_by_locked(z, node, now + own_watch_after_ns);
}

void lk_zk_node_stray_locked(struct lk_zk *z, struct lk_zk_node *node, int32_t sequence)
{
    lk_zk_node_found_locked(z, node, sequence);
    node->step = LK_ZK_ENTERED;
    move_locked(z, node, &z->left);
    lk_zk_node_delete_locked(z, node);
}

/* It was in doubt, and is there. */
static void after_all_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->claim != NULL)
        lk_zk_node_list_locked(z, node);
    else
        lk_zk_node_stray_locked(z, node, node->sequence);
}

static void create_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    node->create_rc = rc;
    if (rc == ZOK) {
        uint64_t id;
        int32_t sequence;
        lk_zk_confirm_locked(z, op->sent);
        z->wall_ahead_ms = reply->stat->ctime - lk_zk_now(z) / LK_MS;
        if (lk_zk_is_own(z, reply->text, &id, &sequence) && id == node->id) {
            node->czxid = reply->stat->czxid;
            lk_zk_node_found_locked(z, node, sequence);
        } else {
            node->create_rc = ZRUNTIMEINCONSISTENCY;
        }
        if (node->there && node->step == LK_ZK_DOUBT) /* the list could not be sent */
            after_all_locked(z, node);
    }
    lk_zk_node_unref_locked(z, node);
}

/* What create's answer means, once the list that was sent with it is there too. True: the node is there. */
static bool created_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->there) {
        node->step = LK_ZK_ENTERED;
        return true;
    }
    if (lk_zk_unknown(node->create_rc)) {
        lk_zk_node_doubt_locked(z, node);
    } else if (node->create_rc != ZNONODE || node->claim == NULL) {
        lk_zk_node_fail_locked(z, node, node->create_rc, "entering a queue");
    } else if (node->tries >= LK_ZK_PARENTS_TRIES) {
        lk_zk_node_fail_locked(z, node, ZNONODE, "making a queue's parents, which somebody keeps deleting");
    } else {
        z->seen[node->parent_hash % LK_ZK_SEEN] = 0;
        node->tries++;
        lk_zk_node_start_locked(z, node);
    }
    return false;
}

static void listed_locked(struct lk_zk *z, struct lk_zk_node *node, int rc, const struct lk_zk_reply *reply)
{
    if (node->claim == NULL)
        lk_zk_node_delete_locked(z, node);
    else if (rc == ZOK)
        lk_zk_queue_place_locked(z, node, reply->names);
    else if (rc == ZNONODE)
        lk_zk_node_vanish_locked(z, node, "its node was deleted by somebody else");
    else if (lk_zk_unknown(rc))
        lk_zk_stalled_locked(z);
    else
        lk_zk_node_fail_locked(z, node, rc, "listing a queue");
}

static void list_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    node->listing = false;
    node->ops++; /* keeps it while the answer is looked at, together with the list's own reference */
    if (node->step == LK_ZK_ENTERED || (node->step == LK_ZK_ASKED && created_locked(z, node)))
        listed_locked(z, node, rc, reply);
    if (rc == ZOK)
        lk_zk_queue_sweep_locked(z, node->parent, reply->names);
    node->ops--; /* NOLINT(clang-analyzer-unix.Malloc): the two references are not seen */
    lk_zk_node_unref_locked(z, node);
}

static bool send_list_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (lk_zk_list_locked(z, node->parent, list_done_locked, node) == NULL)
        return false;
    node->listing = true;
    node->ops++;
    return true;
}

void lk_zk_node_list_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->step = LK_ZK_ENTERED;
    if (!node->listing && !send_list_locked(z, node))
        lk_zk_stalled_locked(z);
}

/* Make the key's node, and after that has failed once, all above it. */
static void make_parents_locked(struct lk_zk *z, const struct lk_zk_node *node)
{
    char path[LK_ZK_PARENT_MAX];
    if (node->tries == 0 && z->seen[node->parent_hash % LK_ZK_SEEN] == node->parent_hash)
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
    char path[LK_ZK_PATH_MAX], stem[LK_ZK_STEM_LEN + 1];
    node->step = LK_ZK_ASKED;
    node->create_rc = ZCONNECTIONLOSS;
    lk_zk_stem(z, node->id, stem);
    (void)lk_zk_join(path, node->parent, stem);
    make_parents_locked(z, node);
    if (lk_zk_create_locked(z, path, node->claim->owner, strlen(node->claim->owner), create_done_locked,
                            node) == NULL) {
        lk_zk_node_settle_locked(z, node, LK_ZK_NOTHING); /* nothing was sent */
        return;
    }
    node->ops++;
    if (!send_list_locked(z, node)) /* the connection broke in between, or there is no memory */
        lk_zk_node_doubt_locked(z, node);
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
        gone_locked(z, node);
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
        lk_zk_watch_ours_locked(z, node); /* their lists follow the delete in the same flight */
    }
}

void lk_zk_node_leave_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    count_enrolled_locked(z, node, false);
    lk_zk_node_rest_locked(node);
    lk_zk_unwatch_locked(z, node);
    node->claim = NULL;
    node->call = NULL;
    node->granted = false;
    if (node->step == LK_ZK_FAILED && !node->there)
        node->step = LK_ZK_GONE;
    if ((node->step == LK_ZK_DOUBT || node->step == LK_ZK_UNSEEN) && !node->there) {
        lk_zk_node_doubt_locked(z, node);
        if (node->step == LK_ZK_NOTHING && !reap_locked(z, node))
            move_locked(z, node, &z->left);
        return;
    }
    if (node->step == LK_ZK_DOUBT) /* a search has found it, whosesoever it is */
        node->step = LK_ZK_ENTERED;
    move_locked(z, node, &z->left);
    lk_zk_node_delete_locked(z, node);
    if (!reap_locked(z, node))
        z->svc->attend(z->svc);
}

/* ------------------------------------------------------------------ after a lost connection ---- */

void lk_zk_node_resume_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->step == LK_ZK_DOUBT)
        lk_zk_node_search_locked(z, node);
    else if (node->there && (node->claim == NULL || node->unwanted || node->maybe_deleted))
        lk_zk_node_delete_locked(z, node);
    else if (node->step == LK_ZK_ENTERED)
        lk_zk_node_list_locked(z, node);
}
