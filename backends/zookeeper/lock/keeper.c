/* keeper.c: what happens without a caller: the connection tells something, and the keeper does whatever is due. What has to
 * happen when the connection is up, and in which order, stands in one function. */
#include "place.h"

static const int64_t watch_again_ns = 100 * LK_MS;

/* Go on with what a lost connection interrupted. */
static void resume_node_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->step == LK_ZK_DOUBT)
        lk_zk_node_search_locked(z, node);
    else if (lk_zk_is_there(node) && (node->claim == NULL || node->removal != LK_ZK_WANTED))
        lk_zk_node_delete_locked(z, node);
    else if (node->step == LK_ZK_ENTERED)
        lk_zk_node_list_locked(z, node);
    else if (node->step == LK_ZK_TAKING)
        lk_zk_node_take_locked(z, node);
}

/* Take up again what stands still: after a reconnection, or after a server that was too busy. */
static void resume_locked(lk_zk *z) LK_REQUIRES(*z->net)
{
    z->resume_at = LOCKER_NEVER;
    lk_zk_watches_resume_locked(z->net);
    LK_EACH_SAFE(lk_zk_node, with_claim, link, &z->nodes)
        resume_node_locked(z, with_claim);
    LK_EACH_SAFE(lk_zk_node, without, link, &z->left)
        resume_node_locked(z, without);
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
    /* What is held has not been confirmed for a while. The heartbeat goes before all that is taken up again; where there is
     * nothing, a call hears first what the server says, which may be that it wants a login. */
    lk_zk_heartbeat_now_locked(z);
    if (!lk_list_empty(&z->nodes))
        (void)lk_zk_heartbeat_locked(z, lk_zk_now(z));
    lk_zk_search_again_locked(z);
    resume_locked(z);
}

static void on_down_locked(lk_zk *z) LK_REQUIRES(*z->net)
{
    z->pulse_unanswered = 0; /* the answers are lost with it */
    z->doubted_here = false;
    tell_suspect_locked(z, true, "zookeeper: lost the connection to %s");
}

static void on_ended_locked(lk_zk *z) LK_REQUIRES(*z->net)
{
    lk_zk_all_vanish_locked(z);
    z->doubted = false;
}

static void on_event_locked(lk_zk *z, const char *path, bool deleted) LK_REQUIRES(*z->net)
{
    lk_zk_permits_changed_locked(z, path);
    lk_zk_own_event_locked(z, path, deleted);
}

const lk_zk_owner lk_zk_connection_events = {
    .on_up = on_up_locked,
    .on_down = on_down_locked,
    .on_ended = on_ended_locked,
    .on_stalled = lk_zk_stalled_locked,
    .on_event = on_event_locked,
    .on_gone = lk_zk_predecessor_gone_locked,
};

static int64_t run_timers_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net)
{
    if (!lk_zk_is_up_locked(z->net))
        return LOCKER_NEVER;
    if (now < z->timed_at)
        return z->timed_at;
    z->timed_at = LOCKER_NEVER;
    LK_EACH_SAFE(lk_zk_node, node, timer, &z->timed) {
        if (now >= node->watch_at)
            node->watch_at = lk_zk_watch_own_locked(z, node) ? LOCKER_NEVER : now + watch_again_ns;
        if (now >= node->write_at)
            lk_zk_grant_time_write_locked(z, node);
        const int64_t at = lk_time_earlier(node->watch_at, node->write_at);
        if (at == LOCKER_NEVER)
            lk_zk_node_timers_stop_locked(node);
        z->timed_at = lk_time_earlier(z->timed_at, at);
    }
    return z->timed_at;
}

int64_t lk_zk_dispatch(void *self)
{
    lk_zk *z = self;
    lk_zk_enter(z->net);
    int64_t next = lk_zk_drive_locked(z->net);
    const int64_t now = lk_zk_now(z);
    if (lk_zk_is_up_locked(z->net) && now >= z->resume_at)
        resume_locked(z);
    next = lk_time_earlier(next, lk_zk_is_up_locked(z->net) ? z->resume_at : LOCKER_NEVER);
    next = lk_time_earlier(next, run_timers_locked(z, now));
    next = lk_time_earlier(next, lk_zk_delete_left_locked(z, now));
    next = lk_time_earlier(next, lk_zk_search_due_locked(z, now));
    next = lk_time_earlier(next, lk_zk_heartbeat_locked(z, now));
    next = lk_time_earlier(next, lk_zk_drive_on_locked(z->net));
    next = lk_zk_keeper_next_locked(z->net, next); /* somebody may have wanted it sooner in between */
    lk_zk_leave(z->net);
    return next;
}
