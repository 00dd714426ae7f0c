/* release.c: giving a place back (ending.c): with a caller that wants an answer (release), without (withdraw). */
#include <string.h>

#include "place.h"

void lk_zk_withdraw(void *self, locker_claim *claim)
{
    lk_zk *z = self;
    lk_zk_claim *data = claim->data;
    lk_zk_enter(z->net);
    if (data->node != NULL)
        lk_zk_node_leave_locked(z, data->node);
    data->node = NULL;
    lk_zk_leave(z->net);
}

/* A release under way. */
typedef struct {
    lk_zk *z;
    lk_zk_node *node;
    int64_t valid_until, until;
    lk_zk_call call;
} question;

/* Breaks mark the key's node in the same transaction, with the greatest token that was ever broken: an older one than ours says
 * that ours wasn't, unless the key's node was made anew since. */
static lk_zk_mark read_mark(const lk_zk_node *node, const lk_zk_reply *reply)
{
    const uint64_t token = (uint64_t)node->czxid;
    lk_zk_record record;
    if (lk_zk_unknown(reply->rc))
        return LK_ZK_MARK_UNKNOWN;
    if (reply->rc != ZOK || !lk_zk_record_read(reply->text, reply->text_len, &record))
        return LK_ZK_MARK_UNCLEAR;
    if (record.broken == token)
        return LK_ZK_MARK_BROKEN;
    return record.broken < token && reply->stat->czxid < node->czxid ? LK_ZK_MARK_NONE : LK_ZK_MARK_UNCLEAR;
}

static void mark_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *const node = context;
    node->mark = read_mark(node, reply);
    if (node->call != NULL)
        lk_zk_call_done_locked(node->call);
    lk_zk_node_unref_locked(z, node);
}

static bool is_in_session_locked(const lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    return lk_zk_session_locked(z->net) == node->session;
}

/* Return true if its end leaves it open whether it was us who deleted it, so that the mark is to be asked for. */
static bool needs_mark_locked(const lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net)
{
    return node->step == LK_ZK_GONE && lk_zk_maybe_deleted(node) && node->mark == LK_ZK_MARK_UNKNOWN &&
           is_in_session_locked(z, node);
}

/* Ask for it. False: that can't be sent. */
static bool ask_mark_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    char key[LK_ZK_PATH_MAX];
    (void)strcpy(key, node->parent);
    if (lk_zk_node_is_permit(node))
        (void)lk_zk_key_path(node->parent, key);
    if (!lk_zk_node_ref(node, lk_zk_get_locked(z->net, key, mark_done_locked, node)))
        return false;
    node->mark = LK_ZK_MARK_ASKED;
    return true;
}

static void await_mark_unlocking(question *q) LK_REQUIRES(*q->z->net)
{
    lk_zk_node *const node = q->node;
    while (needs_mark_locked(q->z, node) || node->mark == LK_ZK_MARK_ASKED) {
        if (node->mark == LK_ZK_MARK_UNKNOWN) {
            if (lk_zk_await_up_unlocking(q->z->net, &q->call, q->until) != LK_ZK_DONE)
                return;
            if (!ask_mark_locked(q->z, node) && lk_zk_is_up_locked(q->z->net))
                return; /* no memory */
            continue;
        }
        q->call.done = false;
        if (lk_zk_await_unlocking(q->z->net, &q->call, q->until) != LK_ZK_DONE ||
            (node->mark == LK_ZK_MARK_UNKNOWN &&
             lk_zk_pause_unlocking(q->z->net, &q->call, q->until) != LK_ZK_DONE))
            return;
    }
}

/* What the node's end says. */
static locker_status judge_unlocking(question *q, locker_error *err) LK_REQUIRES(*q->z->net)
{
    if (q->node->removal == LK_ZK_DELETED)
        return LOCKER_OK;
    if (!lk_zk_maybe_deleted(q->node))
        return lk_lost(err, "the lock was lost before unlock: its session ended, or its node was deleted");
    await_mark_unlocking(q);
    if (q->node->mark == LK_ZK_MARK_BROKEN)
        return lk_lost(err, "the lock was lost before unlock: it was broken");
    if (q->node->mark == LK_ZK_MARK_NONE && is_in_session_locked(q->z, q->node) &&
        lk_zk_now(q->z) < q->valid_until)
        return LOCKER_OK;
    return locker_error_set(
        err, LOCKER_UNKNOWN, 0,
        "the connection was lost during unlock: the lock has ended, but it may have been lost before unlock");
}

static locker_status await_unlocking(question *q, locker_error *err) LK_REQUIRES(*q->z->net)
{
    lk_zk_outcome outcome = LK_ZK_DONE;
    while (q->node->step != LK_ZK_GONE && outcome == LK_ZK_DONE) {
        q->call.done = false;
        outcome = lk_zk_await_unlocking(q->z->net, &q->call, q->until);
    }
    if (q->node->step == LK_ZK_GONE)
        return judge_unlocking(q, err);
    if (q->node->trouble != LK_ZK_TROUBLE_NONE)
        (void)lk_zk_error(q->node->trouble_rc, "deleting the lock's node", q->node->parent, err);
    else
        (void)lk_zk_away_locked(q->z->net, err);
    if (err != NULL)
        err->status = LOCKER_UNKNOWN; /* the text says why it can't be asked */
    return LOCKER_UNKNOWN;
}

/* Send what is to be known of its end next. False: nothing. */
static bool send_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (node->step == LK_ZK_GONE)
        return needs_mark_locked(z, node) && ask_mark_locked(z, node);
    if (lk_zk_is_deleting(node))
        return false;
    lk_zk_node_delete_locked(z, node);
    return lk_zk_is_deleting(node);
}

void lk_zk_begin_release(void *self, locker_claim *const *grants, size_t count)
{
    lk_zk *const z = self;
    bool sent = false;
    lk_zk_enter(z->net);
    for (size_t i = 0; i < count; i++) {
        lk_zk_node *const node = ((const lk_zk_claim *)grants[i]->data)->node;
        if (node != NULL) /* still a grant: until release is called nobody waits, and nobody is to be woken */
            sent = send_locked(z, node) || sent;
    }
    lk_zk_leave(z->net);
    if (sent)
        z->svc->attend(z->svc); /* the keeper reads what is answered before somebody waits for it */
}

locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    lk_zk_claim *data = grant->data;
    question q = {.z = self, .until = until};
    locker_status status = LOCKER_LOST;
    lk_zk_enter(q.z->net);
    q.node = data->node;
    data->node = NULL;
    if (q.node == NULL) {
        (void)locker_error_set(err, status, 0, "the lock was lost before unlock");
    } else {
        q.valid_until = grant->valid_until;
        lk_zk_call_begin_locked(q.z->net, &q.call);
        q.node->granted = false;
        q.node->call = &q.call;
        lk_zk_node_delete_locked(q.z, q.node);
        status = await_unlocking(&q, err);
        q.node->call = NULL;
        lk_zk_node_leave_locked(q.z, q.node);
        lk_zk_call_end_locked(q.z->net, &q.call);
    }
    lk_zk_leave(q.z->net);
    return status;
}
