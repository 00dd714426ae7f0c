/* release.c: giving a place back (ending.c): with a caller that wants an answer (release), without (withdraw). */
#include <string.h>

#include "paths.h"
#include "record.h"

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
    bool answered, excluded, broken; /* a break has removed the node: that is excluded; that is known */
} question;

/* Breaks mark the key's node in the same transaction, with the greatest token that was ever broken: an older one than ours says
 * that ours wasn't. */
static void mark_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    question *q = context;
    const uint64_t token = (uint64_t)q->node->czxid;
    lk_zk_record record;
    (void)z;
    q->answered = !lk_zk_unknown(reply->rc);
    if (reply->rc == ZOK && lk_zk_record_read(reply->text, reply->text_len, &record)) {
        q->broken = record.broken == token;
        q->excluded = record.broken < token && reply->stat->czxid < q->node->czxid; /* it wasn't made anew */
    }
    lk_zk_call_answered_locked(&q->call);
}

static bool is_in_session_locked(const question *q) LK_REQUIRES(*q->z->net)
{
    return lk_zk_session_locked(q->z->net) == q->node->session;
}

static void ask_unlocking(question *q) LK_REQUIRES(*q->z->net)
{
    char key[LK_ZK_PATH_MAX];
    (void)strcpy(key, q->node->parent);
    if (q->node->is_permit)
        (void)lk_zk_key_path(q->node->parent, key);
    while (!q->answered && is_in_session_locked(q)) {
        if (lk_zk_await_up_unlocking(q->z->net, &q->call, q->until) != LK_ZK_DONE)
            return;
        lk_zk_request *get = lk_zk_get_locked(q->z->net, key, mark_done_locked, q);
        if (lk_zk_call_expect_locked(&q->call, get)) {
            if (lk_zk_await_unlocking(q->z->net, &q->call, q->until) != LK_ZK_DONE ||
                (!q->answered && lk_zk_pause_unlocking(q->z->net, &q->call, q->until) != LK_ZK_DONE))
                return;
        } else if (lk_zk_is_up_locked(q->z->net)) {
            return; /* no memory */
        }
    }
}

/* What the node's end says. */
static locker_status judge_unlocking(question *q, locker_error *err) LK_REQUIRES(*q->z->net)
{
    if (q->node->deleted)
        return LOCKER_OK;
    if (!q->node->maybe_deleted)
        return lk_lost(err, "the lock was not ours any more: its session had ended, or somebody deleted "
                            "its node");
    ask_unlocking(q);
    if (q->broken)
        return lk_lost(err, "the lock was not ours any more: somebody broke it");
    if (q->excluded && is_in_session_locked(q) && lk_zk_now(q->z) < q->valid_until)
        return LOCKER_OK;
    return locker_error_set(err, LOCKER_UNKNOWN, 0,
                            "the connection was lost while the lock was released: it is not ours any more, "
                            "but whether we gave it back, or it ended or was broken before, is not known");
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
    (void)lk_zk_away_locked(q->z->net, err);
    if (err != NULL)
        err->status = LOCKER_UNKNOWN; /* the text says why it can't be asked */
    return LOCKER_UNKNOWN;
}

void lk_zk_begin_release(void *self, locker_claim *const *grants, size_t count)
{
    lk_zk *const z = self;
    lk_zk_enter(z->net);
    for (size_t i = 0; i < count; i++) {
        lk_zk_node *const node = ((const lk_zk_claim *)grants[i]->data)->node;
        if (node != NULL) /* still a grant: until release is called nobody waits, and nobody is to be woken */
            lk_zk_node_delete_locked(z, node);
    }
    lk_zk_leave(z->net);
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
        (void)locker_error_set(err, status, 0, "the lock was not ours any more");
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
