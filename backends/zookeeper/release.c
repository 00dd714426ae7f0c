/*
 * release.c: giving a place in a queue back. With a caller that wants to know what became of it (release),
 * and without (withdraw). A node that nobody wants any more is deleted in the background until the server
 * has confirmed that it is gone, over reconnections too; at the latest it goes with its session.
 */
#include "internal.h"

void lk_zk_withdraw(void *self, locker_claim *claim)
{
    struct lk_zk *z = self;
    struct lk_zk_claim *data = lk_zk_claim(claim);
    pthread_mutex_lock(&z->lock);
    if (data->node != NULL)
        lk_zk_node_leave_locked(z, data->node);
    data->node = NULL;
    lk_zk_leave(z);
}

/* What the node's end says about the release. `session` is the one that the grant belonged to. */
static locker_status judge_locked(struct lk_zk *z, const struct lk_zk_node *node, int64_t session,
                                  int64_t valid_until, locker_error *err)
{
    if (node->deleted)
        return LOCKER_OK;
    if (!node->maybe_deleted)
        return locker_error_set(err, LOCKER_LOST, 0,
                                "the lock was not ours any more: its session had ended, or somebody deleted "
                                "its node");
    /* A delete whose answer was lost; while the session lives, nothing but that can have removed it. */
    if (z->session_id == session && lk_zk_now(z) < valid_until)
        return LOCKER_OK;
    return locker_error_set(err, LOCKER_UNKNOWN, 0,
                            "the connection was lost while the lock was released, and its session has ended "
                            "since: it is free, but whether by us is not known");
}

static locker_status await_locked(struct lk_zk *z, struct lk_zk_node *node, int64_t valid_until,
                                  int64_t until, locker_error *err)
{
    const int64_t session = z->session_id;
    struct lk_zk_call call;
    locker_status status;
    lk_zk_call_begin_locked(z, &call);
    node->call = &call;
    lk_zk_node_delete_locked(z, node);
    enum lk_zk_outcome outcome = LK_ZK_DONE;
    while (node->step != LK_ZK_GONE && outcome == LK_ZK_DONE) {
        call.done = false;
        outcome = lk_zk_await_locked(z, &call, until);
    }
    node->call = NULL;
    if (node->step == LK_ZK_GONE) {
        status = judge_locked(z, node, session, valid_until, err);
    } else {
        (void)lk_zk_away_locked(z, err);
        if (err != NULL)
            err->status = LOCKER_UNKNOWN; /* the text says why it can't be asked */
        status = LOCKER_UNKNOWN;
    }
    lk_zk_node_leave_locked(z, node);
    lk_zk_call_end_locked(z, &call);
    return status;
}

locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    struct lk_zk *z = self;
    struct lk_zk_claim *data = lk_zk_claim(grant);
    struct lk_zk_node *node;
    locker_status status;
    pthread_mutex_lock(&z->lock);
    node = data->node;
    data->node = NULL;
    if (node == NULL) {
        status = locker_error_set(err, LOCKER_LOST, 0, "the lock was not ours any more");
    } else {
        node->granted = false;
        status = await_locked(z, node, grant->valid_until, until, err);
    }
    lk_zk_leave(z);
    return status;
}
