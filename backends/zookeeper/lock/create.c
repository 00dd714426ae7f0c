/* create.c: how a place begins. create and list are sent in one flight; the answers come in order, so the list shows the
 * node. If nobody stands ahead the lock is ours; else it waits (queue.c). Behind a place of ours that waits it does so
 * without a list. */
#include <string.h>

#include "place.h"

enum { COME_MOST = 4 }; /* places of one key that come at once */

/* Queues in doubt: how many are kept in mind, for how many session time-outs, and how many are searched at once. */
enum { DOUBTS_MAX = 4096, DOUBTED_FOR = 16, SEARCHES_MAX = 16 };
static const int64_t searches_again_ns = 20 * LK_MS;

static bool send_locked(lk_zk *z, lk_zk_node *node);

/* True if the place's create waits for those of others. Requests of many at once would stand before everybody else's at the servers.
 * Only one of those that want a key alone gets it, and a hand-over takes longer than a create, so the others lose nothing. */
static bool lines_up(const lk_zk_node *node)
{
    return node->claim != NULL && node->claim->will_wait && node->mode == LOCKER_EXCLUSIVE &&
           node->permits == 0;
}

/* Whose turn it is comes. Without a connection all look after themselves. */
static void go_on_locked(lk_zk *z, lk_line *line) LK_REQUIRES(*z->net)
{
    while (lk_line_has_room(line, COME_MOST) && !lk_list_empty(&line->waiting)) {
        lk_zk_node *const node = LK_CONTAINER(lk_list_take(&line->waiting), lk_zk_node, turn);
        line->inside++;
        if (node->admission == LK_ZK_IN_LINE_ASLEEP && node->claim != NULL)
            z->svc->wake(z->svc, node->claim);
        node->admission = LK_ZK_LET_IN;
        if (lk_zk_is_up_locked(z->net) && send_locked(z, node))
            continue;
        line->inside--;
        node->line = NULL;
        node->admission = LK_ZK_NO_LINE;
        if (node->call != NULL)
            lk_zk_call_done_locked(node->call);
    }
    lk_line_settle(&z->lines, line);
}

/* It is out of its line, unless its create is sent once more; the line then, for go_on_locked(). */
static lk_line *step_out(lk_zk_node *node)
{
    lk_line *const line = node->step != LK_ZK_ASKED ? node->line : NULL;
    if (line == NULL)
        return NULL;
    line->inside--;
    node->line = NULL;
    node->admission = LK_ZK_NO_LINE;
    return line;
}

/* What create's answer means, once that of the list is there too, if one was sent with it. */
static void created_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (lk_zk_is_there(node)) {
        lk_zk_node_step_locked(node, LK_ZK_SHOWN);
    } else if (lk_zk_unknown(node->create_rc)) {
        lk_zk_node_doubt_locked(z, node);
    } else if (node->create_rc != ZNONODE || node->claim == NULL) {
        lk_zk_node_fail_locked(z, node, node->create_rc, "entering a queue");
    } else if (node->tries > 0 && node->parent_rc != ZOK) {
        lk_zk_node_fail_locked(z, node, node->parent_rc, "creating the parents of a queue");
    } else if (node->tries >= LK_ZK_PARENTS_TRIES) {
        lk_zk_node_fail_locked(z, node, ZNONODE,
                               "creating the parents of a queue, which another client keeps deleting,");
    } else {
        z->seen[node->in_queue.hash % LK_ZK_SEEN] = 0;
        node->tries++;
        (void)send_locked(z, node);
    }
}

static void create_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    node->create_rc = reply->rc;
    node->parent_rc = lk_zk_parent_refused_locked(z->net); /* in the same flight */
    if (reply->rc == ZOK) {
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
        const bool after_all =
            lk_zk_is_there(node) && node->step == LK_ZK_DOUBT; /* the list could not be sent */
        if (after_all && node->claim != NULL)
            lk_zk_node_list_locked(z, node);
        else if (after_all)
            lk_zk_node_stray_locked(z, node, node->sequence);
    }
    if (node->step == LK_ZK_ASKED && node->flight == LK_ZK_IDLE) { /* none was sent */
        created_locked(z, node);
        if (node->step == LK_ZK_ENTERED)
            lk_zk_node_follow_locked(z, node);
    }
    lk_line *const line = step_out(node);
    lk_zk_node_unref_locked(z, node);
    if (line != NULL)
        go_on_locked(z, line);
}

static void first_list_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    node->flight = LK_ZK_IDLE;
    if (node->step == LK_ZK_ASKED)
        created_locked(z, node);
    lk_line *const line = step_out(node);
    lk_zk_list_answered_locked(z, node, reply);
    if (line != NULL)
        go_on_locked(z, line);
}

/* Make the key's node, and after that has failed once, all above it. The parent of permits comes with the first of them
 * (exchange.c), because a server removes only containers that have had a child. */
static void make_parents_locked(lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX];
    if (node->tries == 0 && z->seen[node->in_queue.hash % LK_ZK_SEEN] == node->in_queue.hash)
        return;
    for (const char *end = z->root; node->tries > 0 && *end != '\0';) {
        end = strchrnul(end + 1, '/');
        *(char *)mempcpy(path, z->root, (size_t)(end - z->root)) = '\0';
        lk_zk_container_locked(z->net, path, true);
    }
    if (node->permits > 0) {
        (void)lk_zk_key_path(node->parent, path);
        lk_zk_container_locked(z->net, path, false);
    }
    lk_zk_container_locked(z->net, node->parent, false);
}

/* False: not sent. */
static bool send_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX], stem[LK_ZK_NAME_MAX];
    lk_zk_node_step_locked(node, LK_ZK_CREATING);
    node->create_rc = ZCONNECTIONLOSS;
    (void)lk_zk_stem(z, node->id, node->tail, stem);
    (void)lk_zk_join(path, node->parent, stem);
    make_parents_locked(z, node);
    lk_zk_request *create = lk_zk_create_locked(z->net, path, node->claim->owner, create_done_locked, node);
    if (!lk_zk_node_ref(node, create)) {
        lk_zk_node_tell_locked(z, node, LK_ZK_NOT_SENT); /* nothing was sent */
        return false;
    }
    const bool follows = node->claim->will_wait && lk_zk_ours_ahead_locked(z, node) != NULL;
    if (!follows && !lk_zk_node_asks(node, LK_ZK_LISTING,
                                     lk_zk_list_locked(z->net, node->parent, first_list_done_locked, node)))
        lk_zk_node_doubt_locked(z, node); /* the connection broke in between, or there is no memory */
    return true;
}

void lk_zk_node_start_locked(lk_zk *z, lk_zk_node *node)
{
    lk_line *const line = lines_up(node) ? lk_line_of(&z->lines, node->in_queue.hash) : NULL;
    node->line = line; /* none: without memory it does without */
    if (line != NULL) {
        node->admission = LK_ZK_IN_LINE;
        lk_list_append(&line->waiting, &node->turn);
        go_on_locked(z, line);
    } else {
        (void)send_locked(z, node);
    }
}

/* Whether it made a node is looked for by a fresh list, because the server that is asked may lag behind the one that did
 * it. Our name in the list is ours only if its owner is our present session; a node of an earlier one will vanish with
 * that, and can't hold a lock. (Were it not fresh, nothing would be wrong: what a search misses costs another name, behind
 * which the next list shows the first one.)
 *
 * A search proves that the node is there, never that it will not come: a stopped server may still have the create, and an attempt to
 * connect that was given up may move the session back to that server. The leader then accepts the create. So the claim takes another
 * name, and the queue is searched for DOUBTED_FOR session time-outs. After that the next list of the queue finds the node. */

static void owner_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    node->flight = LK_ZK_IDLE;
    if (node->step == LK_ZK_GONE || !lk_zk_is_there(node) || node->claim == NULL) {
        /* it has ended meanwhile, or is being deleted */
    } else if (lk_zk_unknown(reply->rc)) {
        lk_zk_node_doubt_locked(z, node);
    } else if (reply->rc == ZNONODE) {
        lk_zk_node_vanish_locked(z, node);
    } else if (reply->rc != ZOK || reply->stat->ephemeralOwner != node->session) {
        lk_zk_node_step_locked(node, LK_ZK_SHOWN);
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
    if (!lk_zk_node_asks(node, LK_ZK_LISTING, lk_zk_get_locked(z->net, path, owner_done_locked, node)))
        lk_zk_node_doubt_locked(z, node);
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

/* What a server that stood still executes later than that is found by the next list of its queue alone. */
static bool is_old_locked(const lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    return lk_zk_now(z) - node->doubt_since >= DOUBTED_FOR * lk_zk_timeout_locked(z->net);
}

static void search_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    int32_t sequence;
    node->flight = LK_ZK_IDLE;
    if (reply->rc == ZOK)
        lk_zk_queue_sweep_locked(z, node->parent, reply->names);
    if (node->step == LK_ZK_ENTERED && node->claim != NULL) {
        lk_zk_node_list_locked(z, node); /* the answer to its create came meanwhile */
    } else if (node->step == LK_ZK_DOUBT && node->claim == NULL) { /* it is nobody's */
        if (!lk_zk_unknown(reply->rc) && is_old_locked(z, node))
            lk_zk_node_step_locked(node, LK_ZK_FORGOTTEN);
    } else if (node->step != LK_ZK_DOUBT) {
        /* it has ended */
    } else if (lk_zk_unknown(reply->rc)) {
        lk_zk_stalled_locked(z);
    } else if (reply->rc == ZOK && shows_locked(z, node, reply->names, &sequence)) {
        found_locked(z, node, sequence);
    } else {
        lk_zk_node_tell_locked(z, node, LK_ZK_NOT_SHOWN); /* if that is refused, the next create tells why */
    }
    lk_zk_node_unref_locked(z, node);
}

void lk_zk_node_search_locked(lk_zk *z, lk_zk_node *node)
{
    if (node->flight == LK_ZK_IDLE &&
        !lk_zk_node_asks(node, LK_ZK_LISTING,
                         lk_zk_list_fresh_locked(z->net, node->parent, search_done_locked, node)))
        lk_zk_stalled_locked(z);
}

/* What nobody waits for is looked for with the heartbeats at first, then more and more seldom, each time a quarter of the time
 * for which it has been in doubt, until it is old. Nobody waits for that, so it takes what room the connection has, and no more
 * than a few at once. Beyond DOUBTS_MAX the oldest are forgotten: a process that loses that many creates has more to look after. */
int64_t lk_zk_search_due_locked(lk_zk *z, int64_t now)
{
    int doubts = 0, searches = 0;
    if (!lk_zk_is_up_locked(z->net))
        return LOCKER_NEVER;
    if (now < z->search_at)
        return z->search_at;
    z->search_at = LOCKER_NEVER;
    LK_EACH_SAFE(lk_zk_node, node, link, &z->doubtful) { /* the latest first */
        if (++doubts > DOUBTS_MAX && node->requests == 0) {
            lk_zk_node_step_locked(node, LK_ZK_FORGOTTEN);
            (void)lk_zk_node_reap_locked(z, node);
            continue;
        }
        const bool due = now >= node->look_at;
        if (due && searches < SEARCHES_MAX && lk_zk_has_room_locked(z->net, 0)) {
            searches++;
            node->look_at = now + lk_time_later(now - node->doubt_since, lk_zk_timeout_locked(z->net)) / 4;
            lk_zk_node_search_locked(z, node);
        }
        z->search_at = lk_time_earlier(z->search_at, lk_time_later(node->look_at, now + searches_again_ns));
    }
    return z->search_at;
}

/* The server may have executed what was lost with the connection. Older queues keep their times: they may be thousands. */
void lk_zk_search_again_locked(lk_zk *z)
{
    const int64_t young = lk_zk_now(z) - lk_zk_timeout_locked(z->net);
    LK_EACH(lk_zk_node, node, link, &z->doubtful)
        if (node->doubt_since >= young)
            node->look_at = 0;
    z->search_at = 0;
}
