/*
 * recover_create.c: a create whose answer was lost. Whether it made a node is looked for by a fresh list,
 * because the server that is asked may lag behind the one that did it. Our name in the list is
 * ours only if its owner is our present session; a node of an earlier one will vanish with that, and can't
 * hold a lock. (Were it not fresh, nothing would be wrong: what a search misses costs another name, behind
 * which the next list shows the first one.)
 *
 * That it isn't in the list proves nothing: the server that the create was sent to may have it yet, and
 * the session may be moved back there by an attempt to connect that was given up. So the claim goes on under
 * another name, and what nobody waits for is looked for until the session ends: with the heartbeats at first,
 * then more and more seldom, each time a quarter of the time for which it has been in doubt. The name itself
 * isn't kept: a list of the queue shows which ones are this locker's and belong to no claim.
 */
#include "recover_create.h"
#include "ending.h"
#include "paths.h"
#include "queue.h"

static void owner_done_locked(lk_zk *z, void *context, int rc, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    node->listing = false;
    if (node->step == LK_ZK_GONE || !node->there || node->claim == NULL) {
        /* it has ended meanwhile, or is being deleted */
    } else if (lk_zk_unknown(rc)) {
        lk_zk_node_doubt_locked(z, node);
    } else if (rc == ZNONODE) {
        lk_zk_node_vanish_locked(z, node, lk_zk_somebody_deleted);
    } else if (rc != ZOK || reply->stat->ephemeralOwner != node->session) {
        lk_zk_node_step_locked(node, LK_ZK_SHOWN);
        node->maybe_deleted = true; /* deleted, and never listed, if that takes another connection */
        lk_zk_node_delete_locked(z, node);
    } else {
        node->czxid = reply->stat->czxid;
        lk_zk_node_list_locked(z, node);
    }
    lk_zk_node_unref_locked(z, node);
}

static void found_locked(lk_zk *z, lk_zk_node *node, int32_t sequence) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX];
    lk_zk_node_found_locked(z, node, sequence);
    lk_zk_node_path(z, node, path);
    if (lk_zk_get_locked(z->net, path, owner_done_locked, node) == NULL) {
        lk_zk_node_doubt_locked(z, node);
        return;
    }
    node->listing = true;
    node->requests++;
}

/* Its name in the list, with the number; false: it isn't there. */
static bool shows_locked(const lk_zk *z, const lk_zk_node *node, const struct String_vector *names,
                         int32_t *sequence) LK_REQUIRES(*z->net)
{
    for (int32_t i = 0; i < names->count; i++) {
        uint64_t id;
        if (lk_zk_is_own(z, names->data[i], &id, sequence) && id == node->id)
            return true;
    }
    return false;
}

static void search_done_locked(lk_zk *z, void *context, int rc, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    int32_t sequence;
    node->listing = false;
    if (rc == ZOK)
        lk_zk_queue_sweep_locked(z, node->parent, reply->names);
    if (node->step == LK_ZK_ENTERED && node->claim != NULL) {
        lk_zk_node_list_locked(z, node); /* the answer to its create came meanwhile */
    } else if (node->step != LK_ZK_DOUBT || node->claim == NULL) {
        /* it is nobody's, and looked for again in a while; or it has ended */
    } else if (lk_zk_unknown(rc)) {
        lk_zk_stalled_locked(z);
    } else if (rc == ZOK && shows_locked(z, node, reply->names, &sequence)) {
        found_locked(z, node, sequence);
    } else {
        lk_zk_node_tell_locked(z, node, LK_ZK_NOT_SHOWN); /* if that is refused, the next create tells why */
    }
    lk_zk_node_unref_locked(z, node);
}

void lk_zk_node_search_locked(lk_zk *z, lk_zk_node *node)
{
    if (node->listing)
        return;
    if (lk_zk_list_fresh_locked(z->net, node->parent, search_done_locked, node) == NULL) {
        lk_zk_stalled_locked(z);
        return;
    }
    node->listing = true;
    node->requests++;
}

/* ------------------------------------------------------------------ names that nobody waits for ---- */

int64_t lk_zk_search_due_locked(lk_zk *z, int64_t now)
{
    int64_t next_at = LOCKER_NEVER;
    LK_LIST_EACH(link, &z->doubtful) {
        lk_zk_node *const node = lk_zk_node_of(link);
        if (!lk_zk_is_up_locked(z->net))
            break;
        if (now >= node->look_at) {
            node->look_at = now + lk_time_later(now - node->doubt_since, lk_zk_timeout_locked(z->net)) / 4;
            lk_zk_node_search_locked(z, node);
        }
        next_at = lk_time_earlier(next_at, node->look_at);
    }
    return next_at;
}

void lk_zk_search_all_locked(lk_zk *z)
{
    LK_LIST_EACH(link, &z->doubtful)
        lk_zk_node_of(link)->look_at = 0;
    if (!lk_list_empty(&z->doubtful))
        lk_zk_keeper_by_locked(z->net, 0);
}
