/* heartbeat.c: the heartbeat: a multi of checks of all our nodes, every eighth of the session time-out while one of them is
 * a lock. The leader has to order it like a write; only its answer extends what we hold (net/validity.h), because a server
 * answers pings and reads by itself, even when it is cut off. While nothing is held a read keeps the session touched, which
 * costs the servers no transaction: who only waits is given the lock with a proof, if it has waited for long. What costs
 * one is to ask the leader whether the nodes that we wait for are there, so that is rare: once in a session time-out. */
#include <string.h>

#include "place.h"

/* Eighths of the session time-out: with less than LEAST no grant is made, below LITTLE a heartbeat comes. */
enum { LEAST = 1, LITTLE = 3 };
/* How often in a row the time for an answer doubles, from an eighth of the session time-out on. */
enum { DOUBLINGS = 2 };
enum { SPREAD = 64 }; /* parts of the session time-out, over which the questions of many processes spread */

/* A watch that a server had no time for is asked for again after that. */
static const int64_t unwatched_again_ns = 100 * LK_MS;

static void unanswered_locked(lk_zk *z) LK_REQUIRES(*z->net)
{
    if (z->pulse_unanswered == 0)
        z->pulse_unanswered = lk_zk_now(z);
}

static void heartbeat_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_checks *c = context; /* each node is referred to */
    if (reply->rc == ZOK)
        lk_zk_confirm_locked(z->net, reply->sent);
    z->pulse_unanswered = 0; /* answers come in order, so this one is the oldest's */
    /* A leader that takes nearly as long as a server is given is not to be run away from at its next answer. */
    if (!lk_zk_unknown(reply->rc) && lk_zk_now(z) - reply->sent < lk_zk_timeout_locked(z->net) / 16)
        z->left_in_a_row = 0;
    for (size_t i = 0; i < c->count; i++) {
        lk_zk_node *node = c->items[i];
        if (reply->rc == ZOK) {
            node->seen_at = reply->sent;
            if (node->claim != NULL && node->granted && lk_zk_is_there(node))
                z->svc->lease_extended(z->svc, node->claim,
                                       lk_time_earlier(lk_zk_deadline_locked(z->net), node->cap));
        } else if (reply->rc == ZNONODE && c->results[i].err == ZNONODE && lk_zk_is_there(node) &&
                   !lk_zk_is_deleting(node)) {
            lk_zk_node_vanish_locked(z, node);
        }
        if (node->call != NULL)
            lk_zk_call_done_locked(node->call); /* it may have wanted proof, and looks again */
        lk_zk_node_unref_locked(z, node);
    }
    /* That there is no node a leader may answer to a session that it doesn't know, where sessions begin as local ones. */
    if (reply->rc == ZNONODE)
        lk_zk_heartbeat_now_locked(z); /* the others were not checked */
    else if (!lk_zk_unknown(reply->rc))
        z->doubted = false;
    free(c);
}

/* One request for as many nodes as it holds, from *next on, up to `end`. False: nothing was sent. */
static bool send_locked(lk_zk *z, lk_list **next, const lk_list *end) LK_REQUIRES(*z->net)
{
    lk_zk_checks *c = lk_zk_checks_new();
    if (c == NULL)
        return false;
    for (char *path; *next != end && (path = lk_zk_checks_path(c)) != NULL; *next = (*next)->next) {
        lk_zk_node *node = LK_CONTAINER(*next, lk_zk_node, link);
        if (!lk_zk_is_there(node) || lk_zk_is_deleting(node) || node->step == LK_ZK_TAKING)
            continue;
        lk_zk_node_path(z, node, path);
        lk_zk_checks_add(c, node);
    }
    if (!lk_zk_checks_send_locked(z->net, c, heartbeat_done_locked)) {
        free(c);
        return false;
    }
    for (size_t i = 0; i < c->count; i++)
        ((lk_zk_node *)c->items[i])->requests++;
    unanswered_locked(z);
    return true;
}

/* When a server that leaves the oldest heartbeat without an answer is left for another one. The leader has let us in at the
 * next one; if that doesn't answer in time either, then it is rather the leader that is slow, and to go from server to server
 * would only give it more to do and lose what is held. */
static int64_t leave_at_locked(const lk_zk *z) LK_REQUIRES(*z->net)
{
    const int64_t since = z->pulse_unanswered, eighth = lk_zk_timeout_locked(z->net) / 8,
                  deadline = lk_zk_deadline_locked(z->net);
    if (since == 0)
        return LOCKER_NEVER;
    /* A single server may only be slow, or its connection may be dead without a reset. So a new connection is made only if locks are
     * held, and as late as it can still save them. */
    if (lk_zk_has_one_server_locked(z->net) && !(z->doubted && z->doubted_here))
        return z->pulse_holds && deadline > since ? lk_time_later(since + eighth, deadline - 2 * eighth)
                                                  : LOCKER_NEVER;
    const int64_t patient = since + (eighth << z->left_in_a_row);
    /* One more server is to have time enough to save what is held. */
    const int64_t last = lk_time_later(since + eighth, deadline - eighth / 2);
    return deadline > since ? lk_time_earlier(patient, last) : patient;
}

static void leave_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net)
{
    z->pulse_unanswered = now; /* where there is no other one, that is looked at again later */
    /* A connection that came after the doubt was let in by the leader; ending that one, too, would help nobody. */
    if (z->doubted && z->doubted_here)
        lk_zk_reconnect_locked(z->net, "a heartbeat has no answer, and the session may have ended");
    else if (lk_zk_has_one_server_locked(z->net))
        lk_zk_reconnect_once_locked(z->net, "a heartbeat has no answer");
    else
        lk_zk_reconnect_locked(z->net, "a heartbeat has no answer");
    if (!lk_zk_is_up_locked(z->net) && z->left_in_a_row < DOUBLINGS)
        z->left_in_a_row++;
}

static void touch_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    (void)context;
    (void)reply; /* a server's own, which says nothing of the leader */
    z->pulse_unanswered = 0;
}

/* Granted, or about to be as soon as there is proof. */
static bool holds_locked(const lk_zk *z) LK_REQUIRES(*z->net)
{
    LK_EACH(const lk_zk_node, node, link, &z->nodes)
        if (node->step == LK_ZK_FIRST)
            return true;
    return false;
}

/* Ask the leader, if it is time, for what the nodes' deletion was never told. Processes that begin to wait together ask at
 * different times. */
static void ask_leader_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net)
{
    const int64_t timeout_ns = lk_zk_timeout_locked(z->net);
    const bool due = now >= z->ask_at;
    if (!lk_zk_watches_check_locked(z->net, due))
        z->ask_at = LOCKER_NEVER;
    else if (due)
        z->ask_at = now + timeout_ns;
    else if (z->ask_at == LOCKER_NEVER)
        z->ask_at = now + timeout_ns / SPREAD * (int64_t)(z->last_id % SPREAD);
}

/* A heartbeat if there is anything to hold, or to doubt; a touch otherwise. */
static void pulse_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net)
{
    lk_list *next = z->nodes.next;
    bool sent = false;
    z->pulse_at = now + lk_zk_timeout_locked(z->net) / 8;
    ask_leader_locked(z, now); /* first, so that the answer to what follows waits for this one's */
    z->pulse_holds = holds_locked(z);
    if (z->doubted || z->pulse_holds)
        while (next != &z->nodes && send_locked(z, &next, &z->nodes))
            sent = true;
    if (!sent && lk_zk_touch_locked(z->net, touch_done_locked, NULL) != NULL)
        unanswered_locked(z);
    /* As of this pulse: a server that leaves it without an answer is left before the next one, and not just behind it. */
    z->pulse_unanswered = lk_time_earlier(z->pulse_unanswered, now);
}

int64_t lk_zk_heartbeat_locked(lk_zk *z, int64_t now)
{
    if (lk_zk_is_up_locked(z->net) && now >= leave_at_locked(z))
        leave_locked(z, now);
    if (!lk_zk_is_up_locked(z->net))
        return LOCKER_NEVER; /* after a reconnection it is due at once */
    if (now >= z->pulse_at)
        pulse_locked(z, now);
    return lk_time_earlier(z->pulse_at, leave_at_locked(z));
}

bool lk_zk_enough_locked(lk_zk *z, int64_t now)
{
    const int64_t left = lk_zk_deadline_locked(z->net) - now;
    if (left < lk_zk_timeout_locked(z->net) / 8 * LEAST)
        return false;
    if (left < lk_zk_timeout_locked(z->net) / 8 * LITTLE)
        lk_zk_heartbeat_now_locked(z);
    return true;
}

/* A request for one node alone, so that the answer is about it. Where that would not be enough, because the
 * last touch that is known is old, a new connection touches at once. */
void lk_zk_prove_locked(lk_zk *z, lk_zk_node *node)
{
    const int64_t now = lk_zk_now(z);
    if (lk_zk_promise_locked(z->net, now) - now < lk_zk_timeout_locked(z->net) / 8 * LEAST) {
        lk_zk_reconnect_locked(z->net, "the last confirmed heartbeat is too old");
        return;
    }
    lk_list *next = &node->link;
    (void)send_locked(z, &next, node->link.next);
}

static void want_again_locked(lk_zk *z, lk_zk_node *node, int64_t after_ns) LK_REQUIRES(*z->net)
{
    node->guard = LK_ZK_UNWATCHED;
    lk_zk_node_watch_by_locked(z, node, lk_zk_now(z) + after_ns);
}

/* It is not there any more, perhaps by our own delete, whose answer comes next then. */
static void not_there_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (lk_zk_is_deleting(node))
        lk_zk_session_doubt_locked(z);
    else
        lk_zk_node_vanish_locked(z, node);
}

void lk_zk_own_event_locked(lk_zk *z, const char *path, bool deleted)
{
    char now[LK_ZK_PATH_MAX];
    lk_zk_node *node = lk_zk_node_find_locked(z, path);
    if (node == NULL || !lk_zk_is_there(node) || node->step == LK_ZK_TAKING)
        return;
    lk_zk_node_path(z, node, now);
    if (strcmp(path, now) != 0) /* its place, which it has exchanged for a permit */
        return;
    if (deleted)
        not_there_locked(z, node);
    else if (node->claim != NULL && !lk_zk_is_deleting(node))
        want_again_locked(z, node, 0);
}

static void watched_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    if (node->guard != LK_ZK_UNWATCHED)
        node->guard = reply->rc == ZOK ? LK_ZK_WATCHED : LK_ZK_WATCH_ASKED;
    if (reply->rc == ZNONODE && lk_zk_is_there(node))
        not_there_locked(z, node);
    else if (lk_zk_unknown(reply->rc) && lk_zk_is_there(node) && node->claim != NULL)
        want_again_locked(z, node, lk_zk_is_up_locked(z->net) ? unwatched_again_ns : 0);
    lk_zk_node_unref_locked(z, node);
}

bool lk_zk_watch_own_locked(lk_zk *z, lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX];
    if (node->step == LK_ZK_TAKING) /* which of two nodes it is isn't known */
        return false;
    lk_zk_node_path(z, node, path);
    node->guard = LK_ZK_UNWATCHED;
    if (!lk_zk_node_ref(node, lk_zk_get_told_locked(z->net, path, watched_locked, node)))
        return false;
    node->guard = LK_ZK_WATCH_ASKED;
    node->watch_at = LOCKER_NEVER; /* it may have been planned for later */
    return true;
}
