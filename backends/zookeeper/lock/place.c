/* place.c: a place in a key's queue. What is known of it is its step, which changes in one function, by one table;
 * whoever waits for it is told of most changes. A table has all places, by the id in their names. */
#include <assert.h>
#include <string.h>

#include "place.h"

static const int64_t resume_after_ns = 100 * LK_MS;

/* A place that moves on quickly needs no watch on itself, which is a request; with the lock it is sooner. */
static const int64_t own_watch_after_ns = 250 * LK_MS;

#define STEP(name) (1u << LK_ZK_##name)

/* Each event leads to one step, and can happen in some. models/queue.pml has the same ones. */
static const struct {
    unsigned from;
    lk_zk_step to;
} transitions[LK_ZK_EVENTS] = {
    [LK_ZK_CREATING] = {STEP(NOTHING) | STEP(ASKED), LK_ZK_ASKED}, /* again, once the parents are there */
    [LK_ZK_NOT_SENT] = {STEP(ASKED), LK_ZK_NOTHING},
    [LK_ZK_NO_ANSWER] = {STEP(ASKED) | STEP(DOUBT) | STEP(UNSEEN), LK_ZK_DOUBT},
    [LK_ZK_NOT_SHOWN] = {STEP(DOUBT), LK_ZK_UNSEEN},
    [LK_ZK_STOOD_FOR] = {STEP(DOUBT), LK_ZK_NOTHING},
    [LK_ZK_FORGOTTEN] = {STEP(DOUBT), LK_ZK_NOTHING},
    /* NOTHING: a name of ours of which nothing was known. GONE: a server that differs from the others shows it still. */
    [LK_ZK_SHOWN] = {STEP(NOTHING) | STEP(ASKED) | STEP(DOUBT) | STEP(ENTERED) | STEP(GONE), LK_ZK_ENTERED},
    [LK_ZK_HINT] = {STEP(BEHIND), LK_ZK_ENTERED},
    [LK_ZK_SOMEBODY] = {STEP(ENTERED), LK_ZK_BEHIND},
    [LK_ZK_NOBODY] = {STEP(ENTERED), LK_ZK_FIRST},
    [LK_ZK_NEXT] = {STEP(ENTERED), LK_ZK_HEAD},
    [LK_ZK_NO_ROOM] = {STEP(HEAD), LK_ZK_FULL},
    [LK_ZK_ROOM] = {STEP(FULL), LK_ZK_HEAD},
    [LK_ZK_TAKES] = {STEP(HEAD) | STEP(TAKING), LK_ZK_TAKING},
    [LK_ZK_NOT_TAKEN] = {STEP(TAKING), LK_ZK_HEAD},
    [LK_ZK_TOOK] = {STEP(TAKING), LK_ZK_FIRST},
    [LK_ZK_NO_ORDER] = {STEP(ENTERED), LK_ZK_USED_UP},
    [LK_ZK_REFUSED] = {STEP(ASKED) | STEP(ENTERED) | STEP(BEHIND) | STEP(TAKING), LK_ZK_FAILED},
    [LK_ZK_ENDED] = {(1u << LK_ZK_STEPS) - 1, LK_ZK_GONE},
};

void lk_zk_node_step_locked(lk_zk_node *node, lk_zk_event event)
{
    const bool possible = (transitions[event].from >> node->step & 1) != 0;
    assert(possible);
    if (possible)
        node->step = transitions[event].to;
    node->waited = node->waited || node->step == LK_ZK_BEHIND;
}

/* What happens next is told by an event. */
static bool is_enrolled(const lk_zk_node *node)
{
    return node->step == LK_ZK_BEHIND || node->step == LK_ZK_FULL;
}

void lk_zk_node_timers_stop_locked(lk_zk_node *node)
{
    if (lk_list_linked(&node->timer))
        lk_list_remove(&node->timer);
}

void lk_zk_node_leave_line_locked(lk_zk *z, lk_zk_node *node)
{
    if (!lk_zk_is_in_line(node))
        return;
    lk_list_remove(&node->turn);
    lk_line_settle(&z->lines, node->line);
    node->line = NULL;
    node->admission = LK_ZK_NO_LINE;
}

/* A node that is to be deleted wants nothing any more. */
static void want_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net)
{
    if (node->removal != LK_ZK_WANTED)
        return;
    if (!lk_list_linked(&node->timer))
        lk_list_prepend(&z->timed, &node->timer);
    if (at >= z->timed_at)
        return;
    z->timed_at = at;
    lk_zk_keeper_by_locked(z->net, at);
}

void lk_zk_node_watch_by_locked(lk_zk *z, lk_zk_node *node, int64_t at)
{
    if (node->guard != LK_ZK_UNWATCHED)
        return;
    node->watch_at = at;
    want_by_locked(z, node, at);
}

void lk_zk_node_write_by_locked(lk_zk *z, lk_zk_node *node, int64_t at)
{
    node->write_at = at;
    want_by_locked(z, node, at);
}

static void await_event_locked(lk_zk *z, lk_zk_node *node, bool awaited) LK_REQUIRES(*z->net)
{
    if (node->event_awaited == awaited)
        return;
    node->event_awaited = awaited;
    lk_zk_event_awaited_locked(z->net, awaited);
}

void lk_zk_node_tell_locked(lk_zk *z, lk_zk_node *node, lk_zk_event event)
{
    lk_zk_node_step_locked(node, event);
    await_event_locked(z, node, node->claim != NULL && is_enrolled(node));
    if (node->call != NULL)
        lk_zk_call_done_locked(node->call);
    else if (node->claim != NULL && !node->granted && (!is_enrolled(node) || node->other != 0))
        z->svc->wake(z->svc, node->claim);
}

void lk_zk_node_fail_locked(lk_zk *z, lk_zk_node *node, int rc, const char *doing)
{
    node->error = calloc(1, sizeof *node->error);
    (void)lk_zk_error(rc, doing, node->parent, node->error);
    lk_zk_node_tell_locked(z, node,
                           lk_zk_is_there(node) || node->claim != NULL ? LK_ZK_REFUSED : LK_ZK_ENDED);
}

void lk_zk_node_found_locked(lk_zk *z, lk_zk_node *node, int32_t sequence)
{
    node->sequence = sequence;
    node->held = node->held == LK_ZK_WAS_EITHER ? LK_ZK_EITHER : LK_ZK_PLACE;
    node->guard = LK_ZK_UNWATCHED;
    z->seen[node->in_queue.hash % LK_ZK_SEEN] = node->in_queue.hash;
    if (node->claim != NULL)
        lk_zk_node_watch_by_locked(z, node, lk_zk_now(z) + own_watch_after_ns);
}

void lk_zk_heartbeat_now_locked(lk_zk *z)
{
    z->pulse_at = 0;
    lk_zk_keeper_by_locked(z->net, 0);
}

void lk_zk_stalled_locked(lk_zk *z)
{
    if (!lk_zk_is_up_locked(z->net) || z->resume_at != LOCKER_NEVER)
        return;
    z->resume_at = lk_zk_now(z) + resume_after_ns;
    lk_zk_keeper_by_locked(z->net, z->resume_at);
}

lk_zk_node *lk_zk_node_by_id_locked(const lk_zk *z, uint64_t id)
{
    LK_TABLE_EACH_OF(link, &z->places, (uint32_t)id) {
        lk_zk_node *const node = LK_CONTAINER(link, lk_zk_node, by_id);
        if (node->id == id)
            return node;
    }
    return NULL;
}

lk_zk_node *lk_zk_node_find_locked(const lk_zk *z, const char *name)
{
    uint64_t id;
    int32_t sequence;
    return lk_zk_is_own(z, name, &id, &sequence) ? lk_zk_node_by_id_locked(z, id) : NULL;
}

void lk_zk_node_unname_locked(lk_zk *z, lk_zk_node *node)
{
    lk_table_remove(&z->places, &node->by_id);
    node->id = ++z->last_id;
    lk_table_add(&z->places, &node->by_id, (uint32_t)node->id);
}

void lk_zk_node_path(const lk_zk *z, const lk_zk_node *node, char path[LK_ZK_PATH_MAX])
{
    if (lk_zk_node_is_permit(node)) {
        lk_zk_node_permit_path(z, node, path);
        return;
    }
    char *name = stpcpy(path, node->parent);
    *name++ = '/';
    lk_zk_name(z, node->id, node->tail, node->sequence, name);
}

void lk_zk_node_permit_path(const lk_zk *z, const lk_zk_node *node, char path[LK_ZK_PATH_MAX])
{
    char *name = lk_zk_permits_path(node->parent, path);
    *name++ = '/';
    lk_zk_permit_name(z, node->id, node->permits, node->slot, name);
}

lk_zk_node *lk_zk_node_new_locked(lk_zk *z, locker_claim *claim, const char *parent, uint64_t id,
                                  const char *tail)
{
    const bool ready = lk_table_reserve(&z->places) && lk_table_reserve(&z->queues);
    lk_zk_node *node = ready ? calloc(1, sizeof *node + strlen(parent) + 1) : NULL;
    if (node == NULL)
        return NULL;
    (void)strcpy(node->parent, parent);
    (void)strcpy(node->tail, tail);
    if (claim != NULL) {
        node->mode = claim->mode;
        node->permits = claim->permits;
    }
    node->claim = claim;
    node->id = id;
    node->session = lk_zk_session_locked(z->net);
    node->cap = node->watch_at = node->write_at = LOCKER_NEVER;
    lk_table_add(&z->places, &node->by_id, (uint32_t)id); /* ids are counted */
    lk_table_add(&z->queues, &node->in_queue, lk_hash_text(parent));
    lk_list_prepend(claim != NULL ? &z->nodes : &z->left, &node->link);
    return node;
}

bool lk_zk_left_settled_locked(const lk_zk *z)
{
    LK_EACH(const lk_zk_node, node, link, &z->left)
        if (node->trouble == LK_ZK_TROUBLE_NONE)
            return false;
    return true;
}

void lk_zk_left_changed_locked(const lk_zk *z)
{
    if (z->closer != NULL && lk_zk_left_settled_locked(z))
        lk_zk_call_done_locked(z->closer);
}

void lk_zk_node_move_locked(lk_zk *z, lk_zk_node *node, lk_list *list)
{
    lk_list_remove(&node->link);
    lk_list_prepend(list, &node->link);
    lk_zk_left_changed_locked(z);
}

void lk_zk_node_free_locked(lk_zk *z, lk_zk_node *node)
{
    lk_zk_node_timers_stop_locked(node);
    lk_zk_unwatch_locked(z->net, &node->watcher);
    lk_table_remove(&z->places, &node->by_id);
    lk_table_remove(&z->queues, &node->in_queue);
    lk_list_remove(&node->link);
    free(node->error);
    free(node);
    lk_zk_left_changed_locked(z);
}

bool lk_zk_node_reap_locked(lk_zk *z, lk_zk_node *node)
{
    if (node->claim != NULL || node->call != NULL || node->requests > 0 ||
        (node->step != LK_ZK_GONE && node->step != LK_ZK_NOTHING))
        return false;
    lk_zk_node_free_locked(z, node);
    return true;
}

void lk_zk_node_unref_locked(lk_zk *z, lk_zk_node *node)
{
    node->requests--;
    (void)lk_zk_node_reap_locked(z, node);
}

void lk_zk_node_disown_locked(lk_zk *z, lk_zk_node *node)
{
    await_event_locked(z, node, false);
    lk_zk_node_timers_stop_locked(node);
    lk_zk_unwatch_locked(z->net, &node->watcher);
    node->claim = NULL;
    node->call = NULL;
    node->granted = false;
    lk_zk_node_leave_line_locked(z, node);
}
