/* acquire.c: one attempt for a claim. The caller's own thread sends and reads, until the claim's place in
 * the queue is known; what happens to that place later comes by watches, and ends in a wake. */
#include "attempt.h"

static const int64_t empty_again_ns = 200 * LK_MS;
static const int64_t turn_ns = 200 * LK_MS; /* so long a try for a permit waits for each one ahead */
enum { CHECKS_MAX = 2 }; /* after so many it is believed, however long their answers take */

static void look_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_attempt *a = context;
    a->rc = reply->rc == ZNONODE ? ZOK : reply->rc;
    a->looked = !lk_zk_unknown(reply->rc);
    a->busy = a->used_up = false;
    if (reply->rc == ZOK)
        lk_zk_queue_sweep_locked(z, a->parent, reply->names);
    for (int32_t i = 0; reply->rc == ZOK && i < reply->names->count && !a->used_up; i++) {
        int32_t sequence;
        const lk_zk_node *ours = lk_zk_node_find_locked(z, reply->names->data[i]);
        const bool going = ours != NULL && ours->claim == NULL; /* its delete is ahead of our create */
        const lk_zk_kind kind = lk_zk_contender(reply->names->data[i], &sequence);
        if (going || kind == LK_ZK_NO_CONTENDER)
            continue;
        a->busy = a->busy || kind == LK_ZK_EXCLUDES || a->claim->mode == LOCKER_EXCLUSIVE;
        a->used_up = lk_zk_used_up(sequence);
    }
    lk_zk_call_answered_locked(&a->call);
}

static void not_emptied_locked(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    /* Not all at once: the places of some would keep the others from deleting. Next time it looks first. */
    a->data->aside = true;
    a->claim->retry_at = lk_zk_now(a->z) + empty_again_ns + (int64_t)(a->z->last_id % 256) * LK_MS;
    a->status = locker_error_set(a->err, a->claim->will_wait ? LOCKER_BUSY : LOCKER_UNAVAILABLE, 0,
                                 "the node %.200s has used up its sequence numbers, and can only be "
                                 "created again when it has no children; delete its unused children",
                                 a->parent);
}

/* A try on a busy lock makes no node. What the server knows by itself is enough to take a place, because that is
 * ordered by the leader anyway; BUSY has to know of all that anybody has been answered before. */
static bool look_unlocking(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    const bool fresh = a->looked, waits = a->claim->will_wait;
    lk_zk_request *list = fresh ? lk_zk_list_fresh_locked(a->z->net, a->parent, look_done_locked, a)
                                : lk_zk_list_locked(a->z->net, a->parent, look_done_locked, a);
    if (!lk_zk_call_expect_locked(&a->call, list))
        return true; /* the connection broke: wait for it again */
    a->fresh = fresh;
    if (!lk_zk_attempt_wait_unlocking(a, lk_zk_await_unlocking))
        return false;
    if (!a->looked)
        return lk_zk_attempt_wait_unlocking(a, lk_zk_pause_unlocking);
    if (a->rc != ZOK)
        a->status = lk_zk_error(a->rc, "listing a queue", a->parent, a->err);
    else if (!waits && a->busy && fresh)
        a->status = LOCKER_BUSY;
    else if (waits && a->used_up)
        not_emptied_locked(a); /* a place of ours would only be in their way */
    return a->status == LOCKER_OK;
}

/* Whether the claim may be told that it has the lock: a list has shown its node as the first, it is of the
 * present session and nobody has begun to delete it, and nothing speaks against the session. */
static bool is_sure_locked(const lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    return node->step == LK_ZK_FIRST && lk_zk_is_there(node) && node->removal == LK_ZK_WANTED &&
           node->session == lk_zk_session_locked(z->net) && !z->doubted;
}

/* The answer may have been on its way for long, and the lock been broken and granted to the next one meanwhile. */
static bool is_recent(const lk_zk_attempt *a, const lk_zk_node *node, int64_t now)
{
    return now - node->seen_at <= LK_ZK_RECENT_MS * LK_MS || a->checks >= CHECKS_MAX;
}

/* The one place where a lock is granted. OK when that and the deadline allow it; BUSY: proof is wanted. */
static locker_status grant_locked(lk_zk *z, lk_zk_attempt *a, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    const int64_t now = lk_zk_now(z);
    if (!is_sure_locked(z, node) || !is_recent(a, node, now) || !lk_zk_enough_locked(z, now))
        return LOCKER_BUSY;
    node->cap = a->claim->renewed ? LOCKER_NEVER : lk_time_after(a->claim->asked_at, a->claim->ttl_ns);
    node->granted = true;
    lk_zk_node_watch_by_locked(z, node, now + LK_ZK_OWN_WATCH_MS * LK_MS);
    lk_zk_grant_time_plan_locked(z, node);
    a->claim->token = (uint64_t)node->czxid;
    a->claim->slot = node->slot;
    a->claim->valid_until = lk_time_earlier(lk_zk_deadline_locked(z->net), node->cap);
    return LOCKER_OK;
}

/* Wait for the node's next step, or for proof that it is still there; before both, for a connection. */
static bool go_on_unlocking(lk_zk_attempt *a, lk_zk_node *node, bool prove) LK_REQUIRES(*a->z->net)
{
    if (!lk_zk_is_up_locked(a->z->net))
        return lk_zk_attempt_wait_unlocking(a, lk_zk_await_up_unlocking);
    a->call.done = false;
    node->call = &a->call;
    if (prove)
        lk_zk_prove_locked(a->z, node);
    const int64_t seen_at = node->seen_at;
    bool goes_on = lk_zk_attempt_wait_unlocking(a, lk_zk_await_unlocking);
    if (goes_on && prove && node->step == LK_ZK_FIRST && node->seen_at == seen_at)
        goes_on = lk_zk_attempt_wait_unlocking(a, lk_zk_pause_unlocking);
    node->call = NULL;
    a->checks += prove && node->seen_at != seen_at;
    return goes_on;
}

/* Send what the claim needs to have a node. */
static bool enter_unlocking(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    char tail[LK_ZK_TAIL_MAX];
    const bool waits = a->claim->will_wait;
    if (lk_zk_is_refused_locked(a->z, a->parent)) { /* it could not be given back either */
        a->status = lk_zk_error(ZNOAUTH, "deleting a node of this locker", a->parent, a->err);
        return false;
    }
    if (!a->has_room) {
        const bool goes_on = lk_zk_attempt_wait_unlocking(a, lk_zk_await_room_unlocking);
        a->has_room = lk_zk_is_up_locked(a->z->net); /* else it stands in line again */
        return goes_on;
    }
    if (a->claim->permits > 0 && !a->looked)
        return lk_zk_permits_look_unlocking(a);
    if (a->claim->permits > 0 && waits && a->used_up) {
        not_emptied_locked(a);
        return false;
    }
    if (a->claim->permits == 0 &&
        (waits ? a->data->aside && !a->looked : !a->looked || (a->busy && !a->fresh)))
        return look_unlocking(a);
    a->data->aside = false;
    a->data->use_known = false; /* that was of an older place */
    a->turn_until = 0;          /* likewise */
    lk_zk_tail_of(a->z, a->claim, tail);
    a->data->node = lk_zk_node_new_locked(a->z, a->claim, a->parent, ++a->z->last_id, tail);
    if (a->data->node != NULL)
        lk_zk_node_start_locked(a->z, a->data->node);
    else
        a->status = lk_out_of_memory(a->err);
    return a->status == LOCKER_OK;
}

static void failed_locked(lk_zk_attempt *a, const lk_zk_node *node) LK_REQUIRES(*a->z->net)
{
    a->status = node->error != NULL ? node->error->status : lk_out_of_memory(a->err);
    if (node->error != NULL && a->err != NULL)
        *a->err = *node->error;
    lk_zk_attempt_drop_locked(a);
}

static void emptied_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_attempt *a = context;
    (void)z;
    a->rc = reply->rc;
    lk_zk_call_answered_locked(&a->call);
}

/* A key's node that is made anew counts from 0: the place is given up, and the node goes once it is empty. */
static bool empty_unlocking(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    lk_zk_attempt_drop_locked(a); /* its delete goes first */
    if (!lk_zk_call_expect_locked(&a->call, lk_zk_delete_locked(a->z->net, a->parent, emptied_locked, a)))
        return true; /* the connection broke: wait for it again */
    if (!lk_zk_attempt_wait_unlocking(a, lk_zk_await_unlocking))
        return false;
    if (a->rc == ZOK || a->rc == ZNONODE || !lk_zk_is_up_locked(a->z->net))
        return true;
    if (a->rc == ZNOTEMPTY || lk_zk_unknown(a->rc))
        not_emptied_locked(a);
    else
        a->status = lk_zk_error(a->rc, "creating a queue again", a->parent, a->err);
    return false;
}

static bool busy_locked(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    a->status = LOCKER_BUSY;
    if (!a->claim->will_wait)
        lk_zk_attempt_drop_locked(a);
    return false;
}

static bool must_know_use_locked(const lk_zk_attempt *a, const lk_zk_node *node) LK_REQUIRES(*a->z->net)
{
    return node->mixed && node->permits == 0 && !a->data->use_known;
}

/* A try for a permit stands behind other contenders, and there are permits for all of them. Ours take their permits within two round
 * trips. A foreign client may take none: if a contender is still ahead after this wait, the answer is BUSY. */
static bool await_turn_unlocking(lk_zk_attempt *a, lk_zk_node *node) LK_REQUIRES(*a->z->net)
{
    const int64_t now = lk_zk_now(a->z);
    if (a->turn_until == 0)
        a->turn_until = lk_time_after(now, lk_time_later(a->usage.ahead * turn_ns, now - a->claim->asked_at));
    a->until = lk_time_earlier(a->turn_until, a->claim->attempt_until);
    const bool goes_on = go_on_unlocking(a, node, false);
    const bool is_over = a->outcome == LK_ZK_LATE && a->until < a->claim->attempt_until;
    a->until = a->claim->attempt_until;
    if (!is_over)
        return goes_on;
    a->outcome = LK_ZK_DONE;
    return node->step != LK_ZK_BEHIND || !lk_zk_is_up_locked(a->z->net) || busy_locked(a);
}

/* Somebody is ahead; whoever takes no notice of the claim's kind is told so at once. */
static bool behind_unlocking(lk_zk_attempt *a, lk_zk_node *node) LK_REQUIRES(*a->z->net)
{
    if (node->other != 0)
        return lk_zk_permits_judge_unlocking(a, node);
    if (must_know_use_locked(a, node) && lk_zk_is_up_locked(a->z->net))
        return lk_zk_check_lock_unlocking(a, node);
    if (a->claim->will_wait || a->claim->permits == 0)
        return busy_locked(a);
    if (!lk_zk_is_up_locked(a->z->net))
        return go_on_unlocking(a, node, false);
    if (!lk_zk_permits_try_unlocking(a))
        return false;
    return node->step != LK_ZK_BEHIND || !lk_zk_is_up_locked(a->z->net) || await_turn_unlocking(a, node);
}

static bool step_unlocking(lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    lk_zk_node *node = a->data->node;
    if (node != NULL && lk_zk_is_in_line(node))
        return go_on_unlocking(a, node, false);
    switch (node != NULL ? node->step : LK_ZK_NOTHING) {
    case LK_ZK_NOTHING:
    case LK_ZK_UNSEEN:
    case LK_ZK_GONE: /* nothing more comes of this name: it takes another one */
        lk_zk_attempt_drop_locked(a);
        return lk_zk_is_up_locked(a->z->net) ? enter_unlocking(a)
                                             : lk_zk_attempt_wait_unlocking(a, lk_zk_await_up_unlocking);
    case LK_ZK_FIRST:
        if (must_know_use_locked(a, node)) /* a check that was lost has not shown that no permit is taken */
            return lk_zk_is_up_locked(a->z->net) ? lk_zk_check_lock_unlocking(a, node)
                                                 : lk_zk_attempt_wait_unlocking(a, lk_zk_await_up_unlocking);
        return grant_locked(a->z, a, node) != LOCKER_OK && go_on_unlocking(a, node, true);
    case LK_ZK_BEHIND:
        return behind_unlocking(a, node);
    case LK_ZK_HEAD:
        return lk_zk_is_up_locked(a->z->net) ? lk_zk_permits_count_unlocking(a, node)
                                             : lk_zk_attempt_wait_unlocking(a, lk_zk_await_up_unlocking);
    case LK_ZK_FULL:
        return busy_locked(a);
    case LK_ZK_USED_UP:
        return empty_unlocking(a);
    case LK_ZK_FAILED:
        failed_locked(a, node);
        return false;
    default:
        return go_on_unlocking(a, node, false);
    }
}

/* What ended the attempt, where it is not known already. */
static locker_status judge_locked(const lk_zk_attempt *a) LK_REQUIRES(*a->z->net)
{
    if (a->outcome == LK_ZK_INTERRUPTED)
        return LOCKER_CANCELED;
    if (a->outcome != LK_ZK_LATE)
        return a->status;
    if (!a->claim->will_wait && a->data->node != NULL && a->data->node->step == LK_ZK_BEHIND)
        return LOCKER_BUSY; /* somebody ahead takes none, and leaves none to others */
    if (!lk_zk_is_up_locked(a->z->net))
        return lk_zk_away_locked(a->z->net, a->err);
    if (a->data->node != NULL && lk_zk_is_in_line(a->data->node)) { /* calls before it are answered */
        a->data->node->admission = LK_ZK_IN_LINE_ASLEEP;
        return LOCKER_BUSY;
    }
    /* core knows whether that was the caller's end or ours */
    return locker_error_set(a->err, LOCKER_TIMEOUT, 0, "ZooKeeper at %s did not answer in time",
                            lk_zk_net_names(a->z->net));
}

locker_status lk_zk_acquire(void *self, locker_claim *claim, locker_error *err)
{
    char key[LK_ZK_PARENT_MAX], queue[LK_ZK_PATH_MAX];
    lk_zk_attempt a = {.z = self,
                       .claim = claim,
                       .data = claim->data,
                       .err = err,
                       .until = claim->attempt_until,
                       .key = key,
                       .parent = key};
    if (!lk_zk_parent_path(a.z, claim->key, claim->key_len, key))
        return lk_zk_check_key(self, claim->key, claim->key_len, err);
    if (claim->permits > 0 && lk_zk_join(queue, key, LK_ZK_LOCKS))
        a.parent = queue;
    lk_zk_enter(a.z->net);
    lk_zk_call_begin_locked(a.z->net, &a.call);
    a.data->call = &a.call;
    a.call.interrupted = a.data->interrupted;
    a.call.prompt = !claim->will_wait;
    while (a.outcome == LK_ZK_DONE && step_unlocking(&a)) {
        if (a.call.interrupted)
            a.outcome = LK_ZK_INTERRUPTED;
        else if (lk_zk_now(a.z) >= claim->attempt_until)
            a.outcome = LK_ZK_LATE;
    }
    const locker_status status = judge_locked(&a);
    if (status == LOCKER_UNAVAILABLE)
        claim->retry_at = lk_zk_now(a.z); /* it may be up again before core has heard of it */
    a.data->call = NULL;
    lk_zk_call_end_locked(a.z->net, &a.call);
    lk_zk_leave(a.z->net);
    return status;
}

void lk_zk_interrupt(void *self, locker_claim *claim)
{
    lk_zk *z = self;
    lk_zk_claim *data = claim->data;
    lk_zk_enter(z->net);
    data->interrupted = true; /* it may come before the attempt has begun */
    if (data->call != NULL)
        lk_zk_interrupt_locked(z->net, data->call);
    lk_zk_leave(z->net);
}
