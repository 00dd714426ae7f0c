/* commit.c: the order in which a server of an ensemble answers: each session's requests one behind the other, writes when
 * their commit has come, reads at once (CommitProcessor). */
#include "network.h"

static bool waits(const lk_simzk_server *s, const lk_simzk_call *call)
{
    return lk_simzk_call_writes(call) ||
           (lk_simzk_call_asks(call) == LK_SIMZK_SYNC && s->role == LK_SIMZK_FOLLOWING); /* matchSyncs */
}

static bool has_waiting(const lk_simzk_server *s, int64_t session)
{
    LK_LIST_EACH(link, &s->waiting)
        if (LK_CONTAINER(link, lk_simzk_call, link)->session == session)
            return true;
    return false;
}

void lk_simzk_commit_submit(lk_simzk_server *s, lk_simzk_call *call)
{
    call->waits = waits(s, call);
    if (call->waits || has_waiting(s, call->session))
        lk_list_append(&s->waiting, &call->link);
    else
        lk_simzk_final(s, call);
}

void lk_simzk_commit_txn(lk_simzk_server *s, lk_simzk_txn *txn)
{
    lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_APPLY, s->id, s->id},
                  &(lk_simzk_message){.kind = LK_SIMZK_COMMITTED, .txn = lk_simzk_txn_ref(txn)});
}

void lk_simzk_commit_sync(lk_simzk_server *s, int64_t session, int32_t xid)
{
    lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_APPLY, s->id, s->id},
                  &(lk_simzk_message){.kind = LK_SIMZK_COMMITTED, .session = session, .xid = xid});
}

/* The first call that waits for a commit, if it is this one's; else it is another server's, or nobody's here. */
static lk_simzk_call *take_own(lk_simzk_server *s, int64_t session, int32_t xid)
{
    LK_LIST_EACH(link, &s->waiting) {
        lk_simzk_call *const call = LK_CONTAINER(link, lk_simzk_call, link);
        if (!call->waits)
            continue;
        if (call->session != session || lk_simzk_call_xid(call) != xid)
            return NULL;
        lk_list_remove(&call->link);
        return call;
    }
    return NULL;
}

/* What the session has asked since can be answered, up to its next write. */
static void go_on(lk_simzk_server *s, int64_t session)
{
    for (lk_list *link = s->waiting.next, *next; link != &s->waiting; link = next) {
        lk_simzk_call *const call = LK_CONTAINER(link, lk_simzk_call, link);
        next = link->next;
        if (call->session != session)
            continue;
        if (call->waits)
            return;
        lk_list_remove(&call->link);
        lk_simzk_final(s, call);
    }
}

void lk_simzk_commit_apply(lk_simzk_server *s, const lk_simzk_message *message)
{
    lk_simzk_txn *const txn = message->txn;
    const int64_t session = txn != NULL ? txn->session : message->session;
    lk_simzk_call *call = take_own(s, session, txn != NULL ? txn->xid : message->xid);
    if (call == NULL && txn == NULL)
        return; /* a sync that nobody here waits for */
    if (call == NULL)
        call = lk_simzk_call_new(LK_SIMZK_CALL_CLIENT, NULL, session, NULL);
    if (txn != NULL && call->txn == NULL)
        call->txn = lk_simzk_txn_ref(txn);
    lk_simzk_final(s, call);
    go_on(s, session);
}
