/*
 * create.c: how a place begins. create and list are sent in one flight; the answers come in order, so the list shows the
 * node. If nobody stands ahead the lock is ours; else it waits (queue.c).
 */
#include <string.h>

#include "create.h"
#include "ending.h"
#include "paths.h"
#include "queue.h"

enum { PARENTS_TRIES = 8 }; /* how often vanishing parents are made again */

/* ------------------------------------------------------------------ answers ---- */

/* It was in doubt, and is there. */
static void after_all_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->claim != NULL)
        lk_zk_node_list_locked(z, node);
    else
        lk_zk_node_stray_locked(z, node, node->sequence);
}

static void create_done_locked(lk_zk *z, void *context, int rc, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    node->create_rc = rc;
    if (rc == ZOK) {
        uint64_t id;
        int32_t sequence;
        lk_zk_confirm_locked(z->net, reply->sent);
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

/* What create's answer means, once the list that was sent with it is there too. */
static void created_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->there) {
        lk_zk_node_step_locked(node, LK_ZK_SHOWN);
    } else if (lk_zk_unknown(node->create_rc)) {
        lk_zk_node_doubt_locked(z, node);
    } else if (node->create_rc != ZNONODE || node->claim == NULL) {
        lk_zk_node_fail_locked(z, node, node->create_rc, "entering a queue");
    } else if (node->tries >= PARENTS_TRIES) {
        lk_zk_node_fail_locked(z, node, ZNONODE, "making a queue's parents, which somebody keeps deleting");
    } else {
        z->seen[node->parent_hash % LK_ZK_SEEN] = 0;
        node->tries++;
        lk_zk_node_start_locked(z, node);
    }
}

static void first_list_done_locked(lk_zk *z, void *context, int rc, const lk_zk_reply *reply)
    LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    node->listing = false;
    if (node->step == LK_ZK_ASKED)
        created_locked(z, node);
    lk_zk_list_answered_locked(z, node, rc, reply);
}

/* ------------------------------------------------------------------ sending ---- */

/* Make the key's node, and after that has failed once, all above it. */
static void make_parents_locked(lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PARENT_MAX];
    if (node->tries == 0 && z->seen[node->parent_hash % LK_ZK_SEEN] == node->parent_hash)
        return;
    if (node->tries > 1 || (node->tries == 1 && z->root[0] != '\0')) {
        for (const char *slash = strchr(z->root + (z->root[0] != '\0'), '/');;
             slash = strchr(slash + 1, '/')) {
            const size_t len = slash != NULL ? (size_t)(slash - z->root) : strlen(z->root);
            memcpy(path, z->root, len);
            path[len] = '\0';
            if (len > 0)
                lk_zk_container_locked(z->net, path, true);
            if (slash == NULL)
                break;
        }
    }
    lk_zk_container_locked(z->net, node->parent, false);
}

void lk_zk_node_start_locked(lk_zk *z, lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX], stem[LK_ZK_STEM_LEN + 1];
    lk_zk_node_step_locked(node, LK_ZK_CREATING);
    node->create_rc = ZCONNECTIONLOSS;
    lk_zk_stem(z, node->id, stem);
    (void)lk_zk_join(path, node->parent, stem);
    make_parents_locked(z, node);
    if (lk_zk_create_locked(z->net, path, node->claim->owner, create_done_locked, node) == NULL) {
        lk_zk_node_tell_locked(z, node, LK_ZK_NOT_SENT); /* nothing was sent */
        return;
    }
    node->requests++;
    if (!lk_zk_list_for_locked(
            z, node, first_list_done_locked)) /* the connection broke in between, or there is no memory */
        lk_zk_node_doubt_locked(z, node);
}
