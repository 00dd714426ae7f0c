/*
 * connection_events.c: what the connection tells. What has to happen when it is up, and in which order, stands in one
 * function.
 */
#include "connection_events.h"
#include "ending.h"
#include "heartbeat.h"
#include "own_watch.h"
#include "queue.h"
#include "recover_create.h"

/* Go on with what a lost connection interrupted. */
static void resume_node_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->step == LK_ZK_DOUBT)
        lk_zk_node_search_locked(z, node);
    else if (node->there && (node->claim == NULL || node->unwanted || node->maybe_deleted))
        lk_zk_node_delete_locked(z, node);
    else if (node->step == LK_ZK_ENTERED)
        lk_zk_node_list_locked(z, node);
}

void lk_zk_resume_locked(lk_zk *z)
{
    z->resume_at = LOCKER_NEVER;
    lk_zk_watches_resume_locked(z->net);
    LK_LIST_EACH_SAFE(with_claim, &z->nodes)
        resume_node_locked(z, lk_zk_node_of(with_claim));
    LK_LIST_EACH_SAFE(without, &z->left)
        resume_node_locked(z, lk_zk_node_of(without));
}

static void tell_suspect_locked(lk_zk *z, bool suspect, const char *what) LK_REQUIRES(*z->net)
{
    if (z->suspect == suspect)
        return;
    z->suspect = suspect;
    z->svc->suspect(z->svc, suspect);
    z->svc->log(z->svc, LOCKER_LOG_INFO, what, lk_zk_net_names(z->net));
}

static void on_up_locked(lk_zk *z) LK_REQUIRES(*z->net)
{
    tell_suspect_locked(z, false, "zookeeper: connected to %s again");
    lk_zk_heartbeat_now_locked(z); /* what is held has not been confirmed for a while */
    lk_zk_search_all_locked(z);
    lk_zk_resume_locked(z);
}

static void on_down_locked(lk_zk *z) LK_REQUIRES(*z->net)
{
    lk_zk_heartbeat_cut_locked(z);
    tell_suspect_locked(z, true, "zookeeper: lost the connection to %s");
}

static void on_ended_locked(lk_zk *z) LK_REQUIRES(*z->net)
{
    lk_zk_all_vanish_locked(z);
    z->doubted = false;
}

const lk_zk_owner lk_zk_connection_events = {
    .on_up = on_up_locked,
    .on_down = on_down_locked,
    .on_ended = on_ended_locked,
    .on_stalled = lk_zk_stalled_locked,
    .on_event = lk_zk_own_event_locked,
    .on_gone = lk_zk_predecessor_gone_locked,
    .on_refused = lk_zk_predecessor_refused_locked,
};
