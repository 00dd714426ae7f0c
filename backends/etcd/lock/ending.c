/* ending.c: how a place ends: its key is deleted while a caller waits for that, or in the background. */
#include "place.h"

static const int64_t again_ns = 100 * LK_MS;

/* The number of deletes in flight for places without a claim. A server carries out each of them before
 * later requests, so more of them would delay other calls. The others wait. Closing the locker revokes
 * their lease instead. */
enum { LEFT_MOST = 32 };

static void again_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    lk_etcd_keeper_by_locked(e->net, e->retry_at);
}

/* Send deletes that have waited for the answers to other deletes. */
static void next_deletes_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    LK_EACH_SAFE(lk_etcd_place, p, more, &e->left) {
        if (e->deletes >= LEFT_MOST)
            return;
        p->requests++;
        if (!p->unanswered)
            lk_etcd_place_delete_locked(e, p);
        lk_etcd_place_unref_locked(e, p);
    }
}

static void deleted_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_place *p = context;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    lk_etcd_heard_locked(e, reply);
    e->deletes--;
    p->unanswered = lk_etcd_unknown(reply->status);
    lk_etcd_flight_ended(&p->removal, p->unanswered);
    p->spent = p->spent || reply->status != LK_ETCD_OK;
    if (!p->unanswered && reply->status != LK_ETCD_OK) {
        lk_etcd_place_step(p, LK_ETCD_FAILED);
        p->removal = lk_etcd_may_come(p->removal) ? LK_ETCD_FLIGHT_LOST_REFUSED : LK_ETCD_FLIGHT_REFUSED;
        (void)lk_etcd_error(reply, "releasing a lock", p->base, &p->error);
    } else if (!p->unanswered) {
        lk_etcd_place_step(p, LK_ETCD_GONE);
        if (done->succeeded && p->created != 0)
            p->removal = LK_ETCD_FLIGHT_DONE;
        else
            p->spent = true;
        p->created = 0;
        lk_etcd_flight_settled(&p->ask);
    }
    if (p->call != NULL)
        lk_etcd_call_done_locked(e->net, p->call);
    else if (p->claim == NULL && !p->unanswered)
        lk_etcd_place_delete_locked(e, p);
    else if (p->claim == NULL)
        again_locked(e);
    lk_etcd_place_unref_locked(e, p);
    if (!lk_etcd_unknown(reply->status))
        next_deletes_locked(e);
}

static bool is_left(const lk_etcd_place *p)
{
    return p->created != 0 || lk_etcd_may_come(p->ask);
}

/* A place with an unanswered ENTER has a name of its own, so the delete needs no condition. A permit that
 * an unanswered TAKE makes ends with its lease, which is tainted. */
void lk_etcd_place_delete_locked(lk_etcd *e, lk_etcd_place *p)
{
    lk_etcd_txn_of t;
    const bool over = p->removal >= LK_ETCD_FLIGHT_REFUSED || lk_etcd_now_of(e) >= p->left_until;
    if (lk_etcd_in_flight(p->ask) || lk_etcd_in_flight(p->removal))
        return;
    if (!is_left(p) || (p->claim == NULL && over)) {
        if (p->claim == NULL && lk_list_linked(&p->more))
            lk_list_remove(&p->more);
        return;
    }
    if (p->claim == NULL && e->deletes >= LEFT_MOST)
        return;
    lk_etcd_txn_begin(&t);
    if (p->step == LK_ETCD_FIRST)
        *lk_etcd_first_at(e, p->created) = (lk_etcd_first){p->created, p->number};
    if (p->created != 0)
        lk_etcd_if(&t, p->key, p->created);
    if (p->created != 0 && p->slot >= 0)
        lk_etcd_if_between(&t, p->key, p->id, p->id_end);
    lk_etcd_delete_op(&t.then, p->key);
    if (lk_etcd_txn_send_locked(e, &t, deleted_locked, p) == NULL) {
        again_locked(e);
        return;
    }
    lk_etcd_flight_sent(&p->removal);
    p->requests++;
    e->deletes++;
}

void lk_etcd_place_leave_locked(lk_etcd *e, lk_etcd_place *p)
{
    if (p->granted_at != 0)
        lk_list_remove(&p->more);
    if (lk_etcd_may_come(p->ask) || lk_etcd_may_come(p->move))
        lk_etcd_leases_settle_locked(e);
    p->granted_at = 0;
    p->claim = NULL;
    p->call = NULL;
    p->enrolled = false;
    /* its key may block the queue until its lease ends */
    p->left_until =
        lk_time_later(lk_time_after(lk_etcd_now_of(e), e->cleanup_ns), lk_etcd_lease_over(p->lease));
    lk_etcd_unwatch_locked(e->net, &p->ahead.watcher);
    lk_etcd_unwatch_locked(e->net, &p->own.watcher);
    lk_etcd_place_rest_locked(e, p);
    lk_list_append(&e->left, &p->more);
    p->requests++; /* keep it until the delete below is sent or not needed */
    lk_etcd_place_delete_locked(e, p);
    lk_etcd_place_unref_locked(e, p);
}

int64_t lk_etcd_places_left_locked(lk_etcd *e, int64_t now)
{
    int64_t next = LOCKER_NEVER;
    LK_EACH_SAFE(lk_etcd_place, p, more, &e->left) {
        p->requests++;
        if (!p->unanswered || !lk_etcd_pauses(e, now))
            lk_etcd_place_delete_locked(e, p);
        if (!lk_etcd_in_flight(p->ask) &&
            !lk_etcd_in_flight(p->removal)) /* else the answer goes on with it */
            next = lk_time_earlier(next, lk_time_later(p->left_until, now + LK_MS));
        lk_etcd_place_unref_locked(e, p);
    }
    return next;
}
