/* ending.c: how a place ends: GONE is entered with proof only, and what is only not known to be there is in doubt. A node
 * that nobody wants is deleted until a server has confirmed it, over reconnections too, or its session ends. */
#include <string.h>

#include "place.h"

static const int64_t delete_again_ns = 100 * LK_MS;
static const int64_t stuck_again_ns = 5 * LK_S; /* ... of a node whose session goes on all the same */
static const int64_t look_again_ns = LK_S;      /* whether that holds nothing any more */

/* Those who have it for a predecessor look again. */
static void hint_successor_locked(lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX];
    if (!lk_zk_watches_any_locked(z->net))
        return;
    lk_zk_node_path(z, node, path);
    lk_zk_watchers_tell_locked(z->net, path);
}

/* Delete the parent of permits that was made for a permit which never came. One that has children stays. */
static void delete_parent_locked(lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX];
    (void)lk_zk_permits_path(node->parent, path);
    (void)lk_zk_delete_locked(z->net, path, NULL, NULL);
}

/* Its successor is told once its step says so. */
static void gone_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->makes_parent && !lk_zk_node_is_permit(node))
        delete_parent_locked(z, node);
    node->held =
        lk_zk_node_is_permit(node) ? LK_ZK_WAS_PERMIT
        : node->held == LK_ZK_EITHER || node->held == LK_ZK_LEFT_QUEUE || node->held == LK_ZK_WAS_EITHER
            ? LK_ZK_WAS_EITHER
            : LK_ZK_NO_NODE;
    lk_zk_node_leave_line_locked(z, node);
    lk_zk_node_timers_stop_locked(node);
    lk_zk_unwatch_locked(z->net, &node->watcher);
    lk_zk_node_tell_locked(z, node, LK_ZK_ENDED);
    hint_successor_locked(z, node);
}

static void vanish_locked(lk_zk *z, lk_zk_node *node, const char *why) LK_REQUIRES(*z->net)
{
    if (node->claim != NULL && node->granted)
        z->svc->lease_lost(z->svc, node->claim, why);
    z->may_stray = true; /* a server that has it not may be one that differs from the others */
    gone_locked(z, node);
    lk_zk_watches_ask_locked(z->net); /* no delete of ours takes them along */
    (void)lk_zk_node_reap_locked(z, node);
}

void lk_zk_session_doubt_locked(lk_zk *z)
{
    z->doubted = true;
    z->doubted_here = lk_zk_is_up_locked(z->net); /* else it was told on the connection before the next */
}

void lk_zk_node_vanish_locked(lk_zk *z, lk_zk_node *node)
{
    vanish_locked(z, node, "its node was deleted by another client");
    lk_zk_session_doubt_locked(z);
    lk_zk_heartbeat_now_locked(z);
}

/* What was there is gone with the session, or will be when the servers count it out. */
void lk_zk_all_vanish_locked(lk_zk *z)
{
    static const char why[] = "its session with ZooKeeper has ended";
    lk_list *const lists[] = {&z->nodes, &z->left, &z->doubtful};
    z->may_stray = true;
    z->svc->lease_lost(z->svc, NULL, why);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        LK_EACH_SAFE(lk_zk_node, node, link, lists[i])
            vanish_locked(z, node, why);
}

static void delete_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    /* While its node may be in the queue, the answer leaves it open if that becomes a permit yet. */
    const bool may_come = node->held == LK_ZK_EITHER;
    node->removal = lk_zk_unknown(reply->rc) || may_come || lk_zk_maybe_deleted(node) ? LK_ZK_DELETE_LOST
                                                                                      : LK_ZK_UNWANTED;
    if ((reply->rc == ZOK || reply->rc == ZNONODE) && !may_come) {
        lk_zk_confirm_locked(z->net, reply->sent);
        if (reply->rc == ZOK) {
            z->doubted = false; /* as by a heartbeat's answer */
            node->removal = LK_ZK_DELETED;
        }
        gone_locked(z, node);
    } else if (lk_zk_unknown(reply->rc) || may_come) { /* sent again once there is a connection */
        node->retry_at = lk_zk_now(z) + delete_again_ns;
        lk_zk_stalled_locked(z);
    } else {
        node->retry_at = lk_zk_now(z) + delete_again_ns;
        if (node->trouble == LK_ZK_TROUBLE_NONE) {
            node->trouble = LK_ZK_TROUBLE_REFUSED;
            node->trouble_since = lk_zk_now(z);
        }
        node->trouble_rc = reply->rc;
        z->any_refused = true;
        lk_zk_left_changed_locked(z);
        lk_zk_keeper_by_locked(z->net, node->retry_at);
    }
    lk_zk_node_unref_locked(z, node);
}

static void place_deleted_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *const node = context;
    if (node->held == LK_ZK_EITHER && (reply->rc == ZOK || reply->rc == ZNONODE))
        node->held = LK_ZK_LEFT_QUEUE;
    lk_zk_node_unref_locked(z, node);
}

/* Of two of which one may be there, the place goes first: without that there is no permit that wasn't there before. Sets the
 * path of what is deleted last. False: nothing was sent. */
static bool delete_place_first_locked(lk_zk *z, lk_zk_node *node, char path[LK_ZK_PATH_MAX])
    LK_REQUIRES(*z->net)
{
    lk_zk_node_path(z, node, path);
    if (node->held != LK_ZK_EITHER && node->held != LK_ZK_LEFT_QUEUE)
        return true;
    const bool sent = lk_zk_node_ref(node, lk_zk_delete_locked(z->net, path, place_deleted_locked, node));
    if (sent)
        hint_successor_locked(z, node);
    lk_zk_node_permit_path(z, node, path);
    return sent;
}

void lk_zk_node_delete_locked(lk_zk *z, lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX];
    if (lk_zk_is_deleting(node) || !lk_zk_is_there(node))
        return;
    if (node->removal != LK_ZK_DELETE_LOST)
        node->removal = LK_ZK_UNWANTED;
    node->retry_at = 0;
    lk_zk_node_timers_stop_locked(node);
    if (!delete_place_first_locked(z, node, path))
        return;
    if (!lk_zk_node_ref(node, lk_zk_delete_locked(z->net, path, delete_done_locked, node)))
        return;
    node->removal = node->removal == LK_ZK_DELETE_LOST ? LK_ZK_DELETING_AGAIN : LK_ZK_DELETING;
    hint_successor_locked(z, node); /* its list follows the delete in the same flight */
}

/* Something is held, or its release has no answer yet, which would be lost with the session. */
static bool holds_any_locked(const lk_zk *z) LK_REQUIRES(*z->net)
{
    LK_EACH(const lk_zk_node, node, link, &z->nodes)
        if (node->granted || node->held == LK_ZK_PERMIT ||
            (lk_zk_is_there(node) && node->step == LK_ZK_FIRST))
            return true;
    return false;
}

/* The session goes on, with locks that are worth more than the key of this node. */
static void stay_stuck_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->trouble != LK_ZK_TROUBLE_STUCK)
        z->svc->log(z->svc, LOCKER_LOG_ERROR,
                    "zookeeper: cannot delete a node below %s, which blocks this key while this "
                    "locker holds any lock; give this locker's user the right to delete children there",
                    node->parent);
    node->trouble = LK_ZK_TROUBLE_STUCK;
    lk_zk_node_delete_locked(z, node);
}

bool lk_zk_is_refused_locked(lk_zk *z, const char *queue)
{
    const lk_list *const lists[] = {&z->left, &z->nodes}; /* in the latter while its release waits */
    bool any = false;
    for (size_t i = 0; z->any_refused && i < sizeof lists / sizeof *lists; i++)
        LK_EACH(const lk_zk_node, node, link, lists[i]) {
            any = any || node->trouble != LK_ZK_TROUBLE_NONE;
            if (node->trouble != LK_ZK_TROUBLE_NONE && strcmp(node->parent, queue) == 0)
                return true;
        }
    z->any_refused = any;
    return false;
}

/* A node that can't be deleted blocks its queue. Only the session's end takes it away, and with it all that the locker holds. So
 * after the clean-up time the session is given up once nothing is held; until then the delete is tried now and then. */
int64_t lk_zk_delete_left_locked(lk_zk *z, int64_t now)
{
    int64_t next_at = LOCKER_NEVER;
    LK_EACH_SAFE(lk_zk_node, node, link, &z->left) {
        if (!lk_zk_is_up_locked(z->net))
            break;
        if (lk_zk_is_deleting(node) || !lk_zk_is_there(node))
            continue;
        const bool stuck = node->trouble != LK_ZK_TROUBLE_NONE && now - node->trouble_since >= z->cleanup_ns;
        if (stuck && holds_any_locked(z)) {
            if (node->trouble != LK_ZK_TROUBLE_STUCK || now >= node->retry_at + stuck_again_ns)
                stay_stuck_locked(z, node);
            next_at = lk_time_earlier(next_at, now + look_again_ns);
            continue;
        }
        if (stuck) {
            z->svc->log(z->svc, LOCKER_LOG_ERROR,
                        "zookeeper: cannot delete a node below %s; ending its session, which deletes it",
                        node->parent);
            lk_zk_give_up_locked(z->net);
            return now;
        }
        if (now >= node->retry_at)
            lk_zk_node_delete_locked(z, node);
        else
            next_at = lk_time_earlier(next_at, node->retry_at);
    }
    return next_at;
}

void lk_zk_node_stray_locked(lk_zk *z, lk_zk_node *node, int32_t sequence)
{
    lk_zk_node_found_locked(z, node, sequence);
    lk_zk_node_step_locked(node, LK_ZK_SHOWN);
    lk_zk_node_move_locked(z, node, &z->left);
    lk_zk_node_delete_locked(z, node);
}

static lk_zk_node *stands_for_queue_of_locked(const lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    LK_EACH(lk_zk_node, stands, link, &z->doubtful)
        if (stands->in_queue.hash == node->in_queue.hash && strcmp(stands->parent, node->parent) == 0)
            return stands;
    return NULL;
}

/* Nobody waits for it any more, so what is in doubt is its queue: one place without a node stands for all
 * names there that may come yet, which a list shows as nobody's. */
static void doubt_queue_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    lk_zk_node *stands = stands_for_queue_of_locked(z, node);
    lk_zk_node_unname_locked(z, node);
    if (stands == NULL)
        lk_zk_node_move_locked(z, stands = node, &z->doubtful);
    else
        lk_zk_node_step_locked(node, LK_ZK_STOOD_FOR);
    stands->doubt_since = lk_zk_now(z);
    stands->look_at = 0;
    z->search_at = 0;
    lk_zk_keeper_by_locked(z->net, 0);
}

void lk_zk_node_doubt_locked(lk_zk *z, lk_zk_node *node)
{
    node->held = LK_ZK_NO_NODE;
    lk_zk_node_step_locked(node, LK_ZK_NO_ANSWER);
    z->may_stray = true;
    hint_successor_locked(z, node);
    lk_zk_stalled_locked(z);
    if (node->claim == NULL)
        doubt_queue_locked(z, node);
}

void lk_zk_node_leave_locked(lk_zk *z, lk_zk_node *node)
{
    lk_zk_node_disown_locked(z, node);
    if (node->step == LK_ZK_FAILED && !lk_zk_is_there(node))
        lk_zk_node_step_locked(node, LK_ZK_ENDED);
    if ((node->step == LK_ZK_DOUBT || node->step == LK_ZK_UNSEEN) && !lk_zk_is_there(node)) {
        lk_zk_node_doubt_locked(z, node);
        if (node->step == LK_ZK_NOTHING && !lk_zk_node_reap_locked(z, node))
            lk_zk_node_move_locked(z, node, &z->left);
        return;
    }
    if (node->step == LK_ZK_DOUBT) /* a search has found it, whosesoever it is */
        lk_zk_node_step_locked(node, LK_ZK_SHOWN);
    lk_zk_node_move_locked(z, node, &z->left);
    lk_zk_node_delete_locked(z, node);
    if (!lk_zk_node_reap_locked(z, node))
        z->svc->attend(z->svc);
}
