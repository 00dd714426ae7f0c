/*
 * release.c: giving a place in a queue back. With a caller that wants to know what became of it (release),
 * and without (withdraw). A node that nobody wants any more is deleted in the background until the server
 * has confirmed that it is gone, over reconnections too; at the latest it goes with its session.
 */
#include "ending.h"
#include "operations.h"
#include "record.h"

void lk_zk_withdraw(void *self, locker_claim *claim)
{
    lk_zk *z = self;
    lk_zk_claim *data = lk_zk_claim_of(claim);
    lk_zk_enter(z->net);
    if (data->node != NULL)
        lk_zk_node_leave_locked(z, data->node);
    data->node = NULL;
    lk_zk_leave(z->net);
}

/* ------------------------------------------------------------------ what a release can say ---- */

/* A release whose delete got no answer, and whose node is gone. */
typedef struct {
    const lk_zk_node *node;
    lk_zk_call *call;
    bool answered, excluded, broken; /* a break has removed it: that is excluded; that is known */
} question;

/* Breaks mark the key's node in the same transaction. Locks are granted in the order of their tokens, so a
 * mark that is older than ours says that none has been broken since. */
static void mark_done_locked(lk_zk *z, void *context, int rc, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    question *q = context;
    const uint64_t token = (uint64_t)q->node->czxid;
    lk_zk_record record;
    (void)z;
    q->answered = !lk_zk_unknown(rc);
    if (rc == ZOK && lk_zk_record_read(reply->text, reply->text_len, &record)) {
        q->broken = record.broken == token;
        q->excluded = record.broken < token && reply->stat->czxid < q->node->czxid; /* it wasn't made anew */
    }
    lk_zk_call_answered_locked(q->call);
}

static void ask_locked(lk_zk *z, question *q, int64_t until) LK_REQUIRES(*z->net)
{
    lk_zk_outcome outcome = LK_ZK_DONE;
    while (!q->answered && outcome == LK_ZK_DONE && lk_zk_session_locked(z->net) == q->node->session) {
        outcome = lk_zk_await_up_locked(z->net, q->call, until);
        if (outcome != LK_ZK_DONE)
            return;
        if (lk_zk_call_expect_locked(q->call, lk_zk_get_locked(z->net, q->node->parent, mark_done_locked, q)))
            outcome = lk_zk_await_locked(z->net, q->call, until);
        else if (lk_zk_is_up_locked(z->net))
            return; /* no memory */
    }
}

/* What the node's end says. */
static locker_status judge_locked(lk_zk *z, const lk_zk_node *node, lk_zk_call *call, int64_t valid_until,
                                  int64_t until, locker_error *err) LK_REQUIRES(*z->net)
{
    question q = {.node = node, .call = call};
    if (node->deleted)
        return LOCKER_OK;
    if (!node->maybe_deleted)
        return locker_error_set(err, LOCKER_LOST, 0,
                                "the lock was not ours any more: its session had ended, or somebody deleted "
                                "its node");
    ask_locked(z, &q, until);
    if (q.broken)
        return locker_error_set(err, LOCKER_LOST, 0, "the lock was not ours any more: somebody broke it");
    if (q.excluded && lk_zk_session_locked(z->net) == node->session && lk_zk_now(z) < valid_until)
        return LOCKER_OK;
    return locker_error_set(
        err, LOCKER_UNKNOWN, 0,
        "the connection was lost while the lock was released: it is not ours any more, but "
        "whether we gave it back, or it ended or was broken before, is not known");
}

static locker_status await_locked(lk_zk *z, lk_zk_node *node, int64_t valid_until, int64_t until,
                                  locker_error *err) LK_REQUIRES(*z->net)
{
    lk_zk_call call;
    locker_status status;
    lk_zk_call_begin_locked(z->net, &call);
    node->call = &call;
    lk_zk_node_delete_locked(z, node);
    lk_zk_outcome outcome = LK_ZK_DONE;
    while (node->step != LK_ZK_GONE && outcome == LK_ZK_DONE) {
        call.done = false;
        outcome = lk_zk_await_locked(z->net, &call, until);
    }
    if (node->step == LK_ZK_GONE) {
        status = judge_locked(z, node, &call, valid_until, until, err);
    } else {
        (void)lk_zk_away_locked(z->net, err);
        if (err != NULL)
            err->status = LOCKER_UNKNOWN; /* the text says why it can't be asked */
        status = LOCKER_UNKNOWN;
    }
    node->call = NULL;
    lk_zk_node_leave_locked(z, node);
    lk_zk_call_end_locked(z->net, &call);
    return status;
}

locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    lk_zk *z = self;
    lk_zk_claim *data = lk_zk_claim_of(grant);
    lk_zk_node *node;
    locker_status status;
    lk_zk_enter(z->net);
    node = data->node;
    data->node = NULL;
    if (node == NULL) {
        status = locker_error_set(err, LOCKER_LOST, 0, "the lock was not ours any more");
    } else {
        node->granted = false;
        status = await_locked(z, node, grant->valid_until, until, err);
    }
    lk_zk_leave(z->net);
    return status;
}
