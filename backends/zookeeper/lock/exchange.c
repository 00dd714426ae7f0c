/* exchange.c: from the head of a queue to a permit. One transaction deletes the place and makes the permit, so nobody ever has
 * both or neither, and only who is at the head takes one: what it counted as free stays so until then. Sent once more it does
 * no harm, because it can be executed only while the place is there; so that is what follows a lost answer. The permit is
 * read behind it, which tells what has become of all that was sent. */
#include <string.h>

#include "place.h"

/* A server removes a container only once it has had a child. So the parent of permits is made right before the first of them,
 * in the same flight, and never for a claim that only waits. If no permit comes after all, it is deleted (ending.c). */
static void make_parent_locked(lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX];
    (void)lk_zk_permits_path(node->parent, path);
    lk_zk_container_locked(z->net, path, false);
}

static void taken_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *const node = context;
    if (reply->rc == ZOK)
        lk_zk_confirm_locked(z->net, reply->sent);
    node->take_rc = reply->rc;
    node->take_place_rc = reply->of_two[0];
    node->parent_rc = node->makes_parent ? lk_zk_parent_refused_locked(z->net) : ZOK; /* in the same flight */
    lk_zk_node_unref_locked(z, node);
}

/* Permits have no parent any more. The head counts again, which shows that, and sends the exchange with a parent. */
static void count_again_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->parent_rc != ZOK)
        lk_zk_node_fail_locked(z, node, node->parent_rc, "creating the parent of permits");
    else if (node->tries++ >= LK_ZK_PARENTS_TRIES)
        lk_zk_node_fail_locked(z, node, ZNONODE,
                               "taking a permit, whose parent another client keeps deleting,");
    else
        lk_zk_node_tell_locked(z, node, LK_ZK_NOT_TAKEN);
}

/* There is no permit. */
static void not_taken_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (lk_zk_unknown(node->take_rc))
        lk_zk_stalled_locked(z);
    else if (node->take_rc == ZOK ||
             node->take_place_rc == ZNONODE) /* it is gone again, or its place was deleted */
        lk_zk_node_vanish_locked(z, node);
    else if (node->take_rc == ZNONODE)
        count_again_locked(z, node);
    else
        lk_zk_node_fail_locked(z, node, node->take_rc, "taking a permit");
}

static void took_locked(lk_zk *z, lk_zk_node *node, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    node->held = LK_ZK_PERMIT;
    node->guard = LK_ZK_UNWATCHED; /* the node in the queue was watched */
    node->czxid = reply->stat->czxid;
    node->seen_at = reply->sent;
    lk_zk_node_tell_locked(z, node, LK_ZK_TOOK);
}

static void read_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *const node = context;
    node->flight = LK_ZK_IDLE;
    if (node->step != LK_ZK_TAKING || node->claim == NULL || node->removal != LK_ZK_WANTED) {
        /* it has ended meanwhile, or is being deleted */
    } else if (lk_zk_unknown(reply->rc)) {
        lk_zk_stalled_locked(z);
    } else if (reply->rc == ZOK && reply->stat->ephemeralOwner == node->session) {
        took_locked(z, node, reply);
    } else if (reply->rc == ZNONODE) {
        not_taken_locked(z, node);
    } else {
        lk_zk_node_fail_locked(z, node, reply->rc != ZOK ? reply->rc : ZNODEEXISTS, "reading a permit");
    }
    lk_zk_node_unref_locked(z, node);
}

/* Without a connection, or memory, it is sent once there is. */
void lk_zk_node_take_locked(lk_zk *z, lk_zk_node *node)
{
    char place[LK_ZK_PATH_MAX], permit[LK_ZK_PATH_MAX];
    if (node->flight == LK_ZK_EXCHANGING)
        return;
    lk_zk_node_step_locked(node, LK_ZK_TAKES);
    lk_zk_node_path(z, node, place);
    lk_zk_node_permit_path(z, node, permit);
    node->take_rc = ZCONNECTIONLOSS;
    if (node->makes_parent)
        make_parent_locked(z, node);
    if (lk_zk_node_ref(
            node, lk_zk_exchange_locked(z->net, place, permit, node->claim->owner, taken_locked, node))) {
        if (node->held == LK_ZK_PLACE)
            node->held = LK_ZK_EITHER;
        lk_zk_watchers_tell_locked(z->net, place); /* their lists follow in the same flight */
        if (lk_zk_node_asks(node, LK_ZK_EXCHANGING, lk_zk_get_locked(z->net, permit, read_locked, node)))
            return;
    }
    lk_zk_stalled_locked(z);
}

void lk_zk_permits_changed_locked(lk_zk *z, const char *path)
{
    char queue[LK_ZK_PATH_MAX];
    const size_t length = strlen(path), end = sizeof(LK_ZK_LEASES) - 1;
    if (length >= LK_ZK_PARENT_MAX || length <= end || strcmp(path + length - end, LK_ZK_LEASES) != 0)
        return;
    (void)strcpy(lk_zk_key_path(path, queue), "/" LK_ZK_LOCKS);
    LK_TABLE_EACH_OF(link, &z->queues, lk_hash_text(queue)) {
        lk_zk_node *const node = LK_CONTAINER(link, lk_zk_node, in_queue);
        if (node->step == LK_ZK_FULL && strcmp(node->parent, queue) == 0) {
            lk_zk_node_tell_locked(z, node, LK_ZK_ROOM);
            return; /* one of a queue is at its head; and to tell may end what the loop stands on */
        }
    }
}
