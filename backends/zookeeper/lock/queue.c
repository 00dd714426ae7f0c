/* queue.c: who is ahead of a place. A list of the queue that shows the place itself with nobody before it proves that nobody
 * is. Two things prove the same without a list: our own delete of the first place, if this one stands right behind it; and the
 * server's word that the only place ahead was deleted. All else that becomes known of the predecessor is a hint to list again.
 * These stay true, because numbers only grow: no node can come in before a node that is there. (Up to numbers that are used up:
 * DESIGN.md, Nodes.) */
#include <string.h>

#include "place.h"

/* A name is given once, so what has one of ours and no claim is of no use to anybody: a create that was
 * executed late, or one of an earlier session that the servers have not ended yet. */
void lk_zk_queue_sweep_locked(lk_zk *z, const char *parent, const struct String_vector *names)
{
    if (!z->may_stray)
        return;
    for (int32_t i = 0; i < names->count; i++) {
        uint64_t id;
        int32_t sequence;
        if (!lk_zk_own_id(z, names->data[i], &id))
            continue;
        lk_zk_node *node = lk_zk_node_by_id_locked(z, id);
        if (node != NULL && node->claim != NULL && node->step == LK_ZK_GONE) {
            /* Core has yet to withdraw the claim, and perhaps no list comes after that. */
            lk_zk_node_unname_locked(z, node);
            node = NULL;
        }
        if ((node != NULL && node->claim != NULL) || !lk_zk_contender(names->data[i], &sequence))
            continue;
        char tail[LK_ZK_TAIL_MAX];
        if (node == NULL && lk_zk_tail(names->data[i], tail))
            node = lk_zk_node_new_locked(z, NULL, parent, id, tail);
        if (node != NULL && !lk_zk_is_there(node) && node->step != LK_ZK_ASKED)
            lk_zk_node_stray_locked(z, node, sequence);
    }
}

/* What a list shows of a place. */
typedef struct {
    bool there;              /* it is in the list itself */
    bool behind_ours;        /* it waits for another place of ours, which keeps standing */
    bool of_permits;         /* the key has nodes for permits, too */
    const char *predecessor; /* the nearest that it waits for; NULL: nobody */
    int32_t ahead;           /* how many it waits for */
    int32_t sequence;        /* of that */
    int32_t other;           /* the first before it that says a number of permits says this; 0: its own */
} view;

/* Whether the name is that of a place of ours whose delete is yet to be sent. */
static bool is_kept_locked(const lk_zk *z, const char *name) LK_REQUIRES(*z->net)
{
    const lk_zk_node *ours = lk_zk_node_find_locked(z, name);
    return ours != NULL && ours->held == LK_ZK_PLACE && ours->removal == LK_ZK_WANTED;
}

/* Readers wait for no reader. */
static bool waits_for(const lk_zk_node *node, bool ahead_shares)
{
    return node->mode != LOCKER_SHARED || !ahead_shares;
}

/* The first of those ahead that say how many permits there are. */
typedef struct {
    const char *name; /* NULL: none says it */
    int32_t sequence, permits;
} first_use;

static void note_use(first_use *first, const char *name, int32_t sequence)
{
    int32_t permits, slot;
    if ((first->name == NULL || lk_zk_before(sequence, name, first->sequence, first->name)) &&
        lk_zk_read_permit(name, &permits, &slot))
        *first = (first_use){name, sequence, permits};
}

static view look_locked(const lk_zk *z, const lk_zk_node *node, const struct String_vector *names)
    LK_REQUIRES(*z->net)
{
    view v = {.there = false};
    first_use first = {.name = NULL};
    char own[LK_ZK_NAME_MAX];
    lk_zk_name(z, node->id, node->tail, node->sequence, own);
    for (int32_t i = 0; i < names->count; i++) {
        const char *name = names->data[i];
        int32_t sequence;
        const lk_zk_kind kind = lk_zk_contender(name, &sequence);
        if (kind == LK_ZK_NO_CONTENDER) {
            v.of_permits = v.of_permits || lk_zk_is_of_permits(name);
            continue;
        }
        v.there = v.there || (sequence == node->sequence && strcmp(name, own) == 0);
        if (!lk_zk_before(sequence, name, node->sequence, own) || !waits_for(node, kind == LK_ZK_SHARES))
            continue;
        note_use(&first, name, sequence);
        v.ahead++;
        v.behind_ours = v.behind_ours || is_kept_locked(z, name);
        if (v.predecessor == NULL || lk_zk_before(v.sequence, v.predecessor, sequence, name)) {
            v.predecessor = name;
            v.sequence = sequence;
        }
    }
    v.other = node->permits > 0 && first.permits != node->permits ? first.permits : 0;
    return v;
}

const lk_zk_node *lk_zk_ours_ahead_locked(const lk_zk *z, const lk_zk_node *node)
{
    const lk_zk_node *nearest = NULL;
    LK_TABLE_EACH_OF(link, &z->queues, node->in_queue.hash) {
        const lk_zk_node *const ours = LK_CONTAINER(link, lk_zk_node, in_queue);
        if ((ours->step == LK_ZK_BEHIND || ours->step == LK_ZK_ENTERED) && ours->removal == LK_ZK_WANTED &&
            waits_for(node, ours->mode == LOCKER_SHARED) && ours->permits == node->permits &&
            strcmp(ours->parent, node->parent) == 0 &&
            (!lk_zk_is_there(node) || ours->sequence < node->sequence) &&
            (nearest == NULL || nearest->sequence < ours->sequence))
            nearest = ours;
        if (nearest != NULL && (!lk_zk_is_there(node) || nearest->sequence + 1 == node->sequence))
            break;
    }
    return nearest;
}

/* Have the predecessor's end told. One of our own needs no server for that. And before another's could be granted, what is
 * ours before it has to be deleted: a request of its own would only cost the server. False: out of memory. */
static bool wait_locked(lk_zk *z, lk_zk_node *node, const view *v) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX];
    const bool is_ours = is_kept_locked(z, v->predecessor);
    const lk_zk_teller teller = is_ours          ? LK_ZK_BY_US
                                : v->behind_ours ? LK_ZK_BY_SERVER_SOON
                                                 : LK_ZK_BY_SERVER;
    uint64_t id = 0;
    const bool own_name = lk_zk_own_id(z, v->predecessor, &id);
    node->right_behind = id;
    node->ahead = is_ours                                            ? LK_ZK_AHEAD_OURS
                  : v->ahead == 1 && !own_name && node->permits == 0 ? LK_ZK_AHEAD_ONE
                                                                     : LK_ZK_AHEAD_ANY;
    if (node->ahead == LK_ZK_AHEAD_ONE && node->guard != LK_ZK_WATCHED)
        (void)lk_zk_watch_own_locked(z, node);
    return lk_zk_join(path, node->parent, v->predecessor) &&
           lk_zk_watch_locked(z->net, &node->watcher, path, teller);
}

static void place_locked(lk_zk *z, lk_zk_node *node, const lk_zk_reply *list) LK_REQUIRES(*z->net)
{
    const view v = look_locked(z, node, list->names);
    node->seen_at = list->sent;
    node->mixed = v.of_permits;
    node->other = v.other;
    if (!v.there) {
        lk_zk_node_vanish_locked(z, node);
    } else if (lk_zk_used_up(node->sequence)) {
        lk_zk_node_tell_locked(z, node, LK_ZK_NO_ORDER);
    } else if (v.predecessor == NULL) {
        lk_zk_node_tell_locked(z, node, node->permits > 0 ? LK_ZK_NEXT : LK_ZK_NOBODY);
    } else {
        lk_zk_node_tell_locked(z, node,
                               LK_ZK_SOMEBODY); /* a try leaves then, unless there are permits for both */
        if ((node->claim->will_wait || node->permits > 0) && !wait_locked(z, node, &v))
            lk_zk_node_fail_locked(z, node, ZSYSTEMERROR, "watching the predecessor");
    }
}

/* The first of those that follow one of ours, and that nothing has shown yet: its list places the next one. */
static void place_follower_locked(lk_zk *z, const lk_zk_reply *list) LK_REQUIRES(*z->net)
{
    lk_zk_node *first = NULL;
    for (int32_t i = 0; i < list->names->count; i++) {
        lk_zk_node *const ours = lk_zk_node_find_locked(z, list->names->data[i]);
        if (ours != NULL && ours->claim != NULL && ours->step == LK_ZK_BEHIND && ours->seen_at == 0 &&
            (first == NULL || ours->sequence < first->sequence))
            first = ours;
    }
    if (first == NULL)
        return;
    lk_zk_unwatch_locked(z->net, &first->watcher);
    lk_zk_node_step_locked(first, LK_ZK_HINT);
    place_locked(z, first, list);
}

static void listed_locked(lk_zk *z, lk_zk_node *node, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    if (node->claim == NULL)
        lk_zk_node_delete_locked(z, node);
    else if (reply->rc == ZOK)
        place_locked(z, node, reply);
    else if (reply->rc == ZNONODE)
        lk_zk_node_vanish_locked(z, node);
    else if (lk_zk_unknown(reply->rc))
        lk_zk_stalled_locked(z);
    else
        lk_zk_node_fail_locked(z, node, reply->rc, "listing a queue");
}

void lk_zk_list_answered_locked(lk_zk *z, lk_zk_node *node, const lk_zk_reply *reply)
{
    if (node->step == LK_ZK_ENTERED)
        listed_locked(z, node, reply);
    if (reply->rc == ZOK) {
        place_follower_locked(z, reply);
        lk_zk_queue_sweep_locked(z, node->parent, reply->names);
    }
    lk_zk_node_unref_locked(z, node); /* the list's own reference has kept it until here */
}

static void list_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    node->flight = LK_ZK_IDLE;
    lk_zk_list_answered_locked(z, node, reply);
}

static void list_again_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->flight == LK_ZK_IDLE &&
        !lk_zk_node_asks(node, LK_ZK_LISTING,
                         lk_zk_list_locked(z->net, node->parent, list_done_locked, node)))
        lk_zk_stalled_locked(z);
}

void lk_zk_node_list_locked(lk_zk *z, lk_zk_node *node)
{
    lk_zk_node_step_locked(node, LK_ZK_SHOWN);
    list_again_locked(z, node);
}

/* The list that tells when ours is first places this one, too; it is in it, as a session's requests are executed in order. */
void lk_zk_node_follow_locked(lk_zk *z, lk_zk_node *node)
{
    const lk_zk_node *const ours = lk_zk_ours_ahead_locked(z, node);
    char path[LK_ZK_PATH_MAX];
    if (node->claim == NULL) {
        lk_zk_node_delete_locked(z, node);
    } else if (ours == NULL || lk_zk_used_up(node->sequence)) {
        list_again_locked(z, node);
    } else {
        node->ahead = ours->sequence + 1 == node->sequence ? LK_ZK_AHEAD_OURS : LK_ZK_AHEAD_ANY;
        node->right_behind = ours->id;
        lk_zk_node_path(z, ours, path);
        lk_zk_node_tell_locked(z, node, LK_ZK_SOMEBODY);
        if (!lk_zk_watch_locked(z->net, &node->watcher, path, LK_ZK_BY_US))
            lk_zk_node_fail_locked(z, node, ZSYSTEMERROR, "watching the predecessor");
    }
}

/* True if no number that comes while the place stands can be less than its own: those that are used up are far away. */
static bool numbers_grow(const lk_zk_node *node)
{
    return node->sequence >= 0 && node->sequence < INT32_MAX / 2;
}

/* The answers to the predecessor's delete and to this read come in order. The delete was carried out, so the predecessor had
 * been there, and first, since before this place was made: nobody else was ahead, and nobody could come in between. Nor
 * did the key get nodes for permits in between: making these uses up a sequence number, and this place's number is the
 * predecessor's plus one. */
static void read_behind_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *const node = context, *const ahead = node->succeeds;
    node->flight = LK_ZK_IDLE;
    node->succeeds = NULL;
    if (node->step != LK_ZK_ENTERED || node->claim == NULL) {
        /* it has ended meanwhile, or is being deleted */
    } else if (reply->rc == ZOK && ahead->removal == LK_ZK_DELETED && reply->stat->czxid == node->czxid) {
        node->seen_at = reply->sent;
        node->mixed = node->mixed || ahead->mixed;
        lk_zk_node_tell_locked(z, node, LK_ZK_NOBODY);
    } else if (reply->rc == ZNONODE) {
        lk_zk_node_vanish_locked(z, node);
    } else if (lk_zk_unknown(reply->rc)) {
        lk_zk_stalled_locked(z);
    } else {
        list_again_locked(z, node);
    }
    lk_zk_node_unref_locked(z, ahead);
    lk_zk_node_unref_locked(z, node);
}

/* Read the place instead of listing its queue, if it stands right behind one that has the lock, and whose delete was just sent.
 * False: that is not so, or it can't be sent. Readers may stand ahead of a reader that is first. */
static bool succeed_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char path[LK_ZK_PATH_MAX];
    lk_zk_node *const ahead =
        node->ahead == LK_ZK_AHEAD_OURS ? lk_zk_node_by_id_locked(z, node->right_behind) : NULL;
    if (ahead == NULL || ahead->step != LK_ZK_FIRST || !lk_zk_is_deleting(ahead) ||
        ahead->mode == LOCKER_SHARED || node->permits > 0 || node->flight != LK_ZK_IDLE ||
        !numbers_grow(node))
        return false;
    lk_zk_node_path(z, node, path);
    if (!lk_zk_node_asks(node, LK_ZK_LISTING, lk_zk_get_locked(z->net, path, read_behind_locked, node)))
        return false;
    node->succeeds = ahead;
    ahead->requests++;
    return true;
}

/* True if the predecessor's deletion, which the server has just told, proves that the place is first. Nobody else was ahead in
 * a list, and numbers only grow. The place is still there, because the server tells deletions in their order and would have told
 * its own before. And the word is recent: the server sent it after it had received the latest request that it has answered. */
static bool is_first_now_locked(const lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    return node->ahead == LK_ZK_AHEAD_ONE && node->guard == LK_ZK_WATCHED && node->flight == LK_ZK_IDLE &&
           numbers_grow(node) && lk_zk_now(z) - lk_zk_heard_locked(z->net) <= LK_ZK_RECENT_MS * LK_MS / 2;
}

/* A hint too many does no harm. */
void lk_zk_predecessor_gone_locked(lk_zk *z, lk_zk_watcher *watcher, int rc)
{
    lk_zk_node *const node = LK_CONTAINER(watcher, lk_zk_node, watcher);
    if (rc != ZNONODE) {
        lk_zk_node_fail_locked(z, node, rc, "watching the predecessor");
    } else if (node->claim != NULL && node->step == LK_ZK_BEHIND) {
        lk_zk_node_step_locked(node, LK_ZK_HINT);
        if (is_first_now_locked(z, node)) {
            node->seen_at = lk_zk_heard_locked(z->net);
            lk_zk_node_tell_locked(z, node, LK_ZK_NOBODY);
        } else if (!succeed_locked(z, node)) {
            list_again_locked(z, node);
        }
        /* Planned now, and put off with the grant: a keeper that has to be told wakes up while the server lists. */
        lk_zk_node_watch_by_locked(z, node, lk_zk_now(z) + LK_ZK_OWN_WATCH_MS * LK_MS);
    }
}
