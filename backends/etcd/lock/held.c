/* held.c: held places: a watch reports the end of their keys, and their records get the time of the grant. */
#include "place.h"

/* A lock that is released sooner gets neither a watch on its key nor a write of its record. */
static const int64_t watch_after_ns = 20 * LK_MS, tell_after_ns = 250 * LK_MS, again_ns = 100 * LK_MS;

void lk_etcd_place_granted_locked(lk_etcd *e, lk_etcd_place *p)
{
    p->granted_at = lk_etcd_now_of(e);
    p->enrolled = false;
    lk_etcd_unwatch_locked(e->net,
                           &p->ahead.watcher); /* the key ahead has gone, perhaps before the watch began */
    /* The record of a place that never waited is right: its lock is held since it was asked for. */
    p->note = p->behind_at != 0 ? LK_ETCD_NOTE_LATER : LK_ETCD_NOTED;
    lk_list_prepend(&e->granted, &p->more);
    lk_etcd_lease_used_locked(e, p->lease);
    const int64_t at = p->granted_at + watch_after_ns;
    if (at < e->watch_at) {
        e->watch_at = at;
        lk_etcd_keeper_by_locked(e->net, at);
    }
}

/* Have the deletion of the place's key reported. Return false if the watch cannot be requested now. */
static bool watch_own_locked(lk_etcd *e, lk_etcd_place *p, int64_t revision) LK_REQUIRES(*e->net)
{
    return lk_etcd_watch_locked(e->net, &p->own.watcher, p->key, (ProtobufCBinaryData){0, NULL}, revision);
}

static void seen_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_place *const p = context;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    lk_etcd_heard_locked(e, reply);
    p->guard = LK_ETCD_UNSEEN;
    if (reply->status == LK_ETCD_OK && p->granted_at != 0) {
        lk_etcd_place_shown_locked(e, p, lk_etcd_ranged(done, 0));
        if (p->granted_at != 0 && done->header != NULL && watch_own_locked(e, p, done->header->revision + 1))
            p->guard = LK_ETCD_WATCHED;
    }
    /* a user without the right to read there is refused at once, each time */
    e->watch_at =
        reply->status == LK_ETCD_OK ? 0 : lk_time_earlier(e->watch_at, lk_etcd_now_of(e) + again_ns);
    lk_etcd_keeper_by_locked(e->net, e->watch_at);
    lk_etcd_place_unref_locked(e, p);
}

/* Read the place's key, then watch it from the answer's revision on: the servers have forgotten the
 * revisions since the key's latest change. */
static bool look_again_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    lk_etcd_txn_of t;
    lk_etcd_txn_begin(&t);
    lk_etcd_get_op(&t.then, p->key);
    lk_etcd_order_op(&t.otherwise); /* a late read may show the key on an earlier lease, or gone */
    const bool asks = lk_etcd_txn_send_locked(e, &t, seen_locked, p) != NULL;
    p->requests += asks;
    return asks;
}

void lk_etcd_place_unwatched_locked(lk_etcd *e, lk_etcd_place *p)
{
    p->guard =
        lk_etcd_is_up_locked(e->net) ? LK_ETCD_UNSEEN : LK_ETCD_UNWATCHED; /* else the connection ended */
    e->watch_at = lk_time_earlier(e->watch_at, lk_etcd_now_of(e) + again_ns);
    lk_etcd_keeper_by_locked(e->net, e->watch_at);
}

/* Ask for the watch on the place's key, or for the read before it, unless one of the two is there. */
static void guard_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    if (p->guard == LK_ETCD_UNSEEN && look_again_locked(e, p))
        p->guard = LK_ETCD_READING_OWN;
    else if (p->guard == LK_ETCD_UNWATCHED && watch_own_locked(e, p, p->modified + 1))
        p->guard = LK_ETCD_WATCHED;
}

int64_t lk_etcd_places_look_after_locked(lk_etcd *e, int64_t now)
{
    if (now < e->watch_at || !lk_etcd_is_up_locked(e->net))
        return lk_etcd_is_up_locked(e->net) ? e->watch_at : LOCKER_NEVER;
    e->watch_at = LOCKER_NEVER;
    LK_EACH(lk_etcd_place, p, more, &e->granted) {
        int64_t at = LOCKER_NEVER;
        if (now >= p->granted_at + watch_after_ns)
            guard_locked(e, p);
        if (p->guard == LK_ETCD_UNWATCHED || p->guard == LK_ETCD_UNSEEN)
            at = lk_time_later(p->granted_at + watch_after_ns, now + LK_MS);
        if (p->note == LK_ETCD_NOTE_LATER && now >= p->granted_at + tell_after_ns) {
            lk_etcd_record_write(p->id, lk_etcd_unix_ms(e, p->granted_at), p->claim->owner, p->record);
            p->note = LK_ETCD_NOTE_NOW;
            e->remake = true;
        } else if (p->note == LK_ETCD_NOTE_LATER) {
            at = lk_time_earlier(at, p->granted_at + tell_after_ns);
        }
        e->watch_at = lk_time_earlier(e->watch_at, at);
    }
    return e->watch_at;
}
