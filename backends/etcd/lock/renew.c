/* renew.c: renewal: keys of held and waiting places are moved from lease to lease in time. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

static const int64_t again_ns = 100 * LK_MS;

/* At most MOVES_MOST requests that move keys are in flight. A server carries out all clients' requests in
 * order, and such a request takes it milliseconds (45 us for one key, 6 ms for 125 keys), which all later
 * requests wait for. This can be too slow if answers take long or leases have many different times. So the
 * limit does not count for a lease that has used up 1/HURRY_PART of its time. */
enum { MOVES_MOST = 2, HURRY_PART = 2 };

/* The places that one request moves to another lease. */
typedef struct {
    lk_etcd_lease *to;
    size_t count;
    lk_etcd_place *places[LK_ETCD_BATCH];
    int64_t created[LK_ETCD_BATCH], modified[LK_ETCD_BATCH]; /* their revisions when the request was sent */
    LkEtcdPb__Txn txn[LK_ETCD_BATCH];
    LkEtcdPb__Compare compare[LK_ETCD_BATCH][3],
        *compares[LK_ETCD_BATCH][3]; /* servers merge adjacent operations into a batch */
    LkEtcdPb__Put put[LK_ETCD_BATCH];
    LkEtcdPb__Range predecessor[LK_ETCD_BATCH]; /* the predecessor's key of a waiting place */
    LkEtcdPb__Range own[LK_ETCD_BATCH];         /* the place's own key, read if the move does nothing */
    LkEtcdPb__Op inner[LK_ETCD_BATCH][3], *inners[LK_ETCD_BATCH][3], outer[LK_ETCD_BATCH],
        *outers[LK_ETCD_BATCH];
} moves;

/* The move has done nothing: the key has gone, or an unanswered move has put it on a lease. The answer
 * shows the key. This says nothing about a permit, which has another key, or about a place that has
 * changed since. */
static void not_moved_locked(lk_etcd *e, lk_etcd_place *p, int64_t modified, const LkEtcdPb__Nested *done)
    LK_REQUIRES(*e->net)
{
    const bool becomes_permit = p->slot >= 0 && p->step != LK_ETCD_FIRST;
    if (!becomes_permit && p->modified == modified)
        lk_etcd_place_shown_locked(e, p, done->n_responses > 0 ? done->responses[0]->range : NULL);
}

/* The move's answer shows the predecessor's key. If the key has gone, servers may have lost the watch
 * event (a compaction hid it), so the waiter queries again. */
static void still_behind_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__Nested *done, int64_t revision)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const ranged = done->n_responses > 1 ? done->responses[1]->range : NULL;
    const LkEtcdPb__KeyValue *const kv = ranged != NULL && ranged->n_kvs > 0 ? ranged->kvs[0] : NULL;
    const bool same = kv != NULL && kv->key.len == p->predecessor.len &&
                      memcmp(kv->key.data, p->predecessor.data, kv->key.len) == 0;
    if (same && kv->create_revision == p->behind) {
        p->behind_at = lk_time_later(p->behind_at, revision);
    } else {
        lk_etcd_place_step(p, LK_ETCD_ENTERED);
        lk_etcd_place_tell_locked(e, p);
    }
}

/* Take the answer for one place. If the place has become a permit meanwhile, an answer about its old key
 * says nothing. */
static void moved_locked(lk_etcd *e, const moves *m, const LkEtcdPb__TxnDone *done, size_t n)
    LK_REQUIRES(*e->net)
{
    lk_etcd_place *const p = m->places[n];
    const bool answered = n < done->n_responses && done->header != NULL &&
                          done->responses[n]->done_case == LK_ETCD_PB__DONE__DONE_TXN;
    if (!answered || p->created != m->created[n] || lk_etcd_in_flight(p->removal))
        return;
    if (done->responses[n]->txn->succeeded) {
        if (p->note == LK_ETCD_NOTE_NOW)
            p->note = LK_ETCD_NOTED;
        lk_etcd_place_on_lease_locked(e, p, m->to, done->header->revision);
        if (p->step == LK_ETCD_BEHIND)
            still_behind_locked(e, p, done->responses[n]->txn, done->header->revision);
    } else {
        not_moved_locked(e, p, m->modified[n], done->responses[n]->txn);
    }
}

/* Return true if the place's key is to be written, even to the lease that it is on. */
static bool is_to_be_put(const lk_etcd_place *p)
{
    return p->unsure || p->note == LK_ETCD_NOTE_NOW;
}

/* Return true if the server allows fewer operations in a request. The status alone is not enough: without
 * a login it is the same. */
static bool is_too_much(const lk_etcd_reply *reply)
{
    return reply->status == LK_ETCD_INVALID_ARGUMENT &&
           (strstr(reply->text, "too many operations") != NULL || strstr(reply->text, "too large") != NULL);
}

/* Halve the batch, unless the request was sent before an earlier answer halved it. */
static void take_fewer_locked(lk_etcd *e, const moves *m) LK_REQUIRES(*e->net)
{
    if (m->count <= e->batch)
        e->batch /= 2;
}

static void all_moved_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    moves *const m = context;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    lk_etcd_heard_locked(e, reply);
    e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    if (reply->status == LK_ETCD_NOT_FOUND)
        lk_etcd_lease_dead_locked(e, m->to);
    else if (is_too_much(reply) && e->batch > 1)
        take_fewer_locked(e, m);
    else if (reply->status != LK_ETCD_OK && !lk_etcd_unknown(reply->status))
        lk_etcd_renewal_refused_locked(e, reply);
    for (size_t i = 0; i < m->count; i++) {
        lk_etcd_place *const p = m->places[i];
        const bool lost = lk_etcd_unknown(reply->status);
        /* an unanswered move does nothing if the key has changed since */
        lk_etcd_flight_ended(&p->move, lost && p->created == m->created[i] && p->modified == m->modified[i]);
        if (reply->status == LK_ETCD_OK)
            moved_locked(e, m, done, i);
        else if (lost)
            e->remake = e->remake || is_to_be_put(p);
        if (p->granted_at == 0 && p->step != LK_ETCD_BEHIND) /* a held or waiting place has nothing to do */
            lk_etcd_place_tell_locked(e, p);
        lk_etcd_place_unref_locked(e, p);
    }
    m->to->requests--;
    e->moves--;
    if (reply->status == LK_ETCD_OK) {
        e->retry_at = 0;
        e->renewal_refused = false;
    }
    lk_etcd_keeper_by_locked(e->net, e->retry_at);
    free(m);
}

/* Add a move of the place's key. It does nothing if the key has another revision than we know, so a late
 * move does no harm. */
static void add_move(moves *m, lk_etcd_place *p)
{
    const size_t n = m->count++;
    m->places[n] = p;
    m->created[n] = p->created;
    m->modified[n] = p->modified;
    lk_etcd_pb__txn__init(&m->txn[n]);
    lk_etcd_pb__compare__init(&m->compare[n][0]);
    m->compare[n][0].key = p->key;
    m->compare[n][0].target = LK_ETCD_PB__COMPARE__TARGET__MOD;
    m->compare[n][0].to_case = LK_ETCD_PB__COMPARE__TO_MOD_REVISION;
    m->compare[n][0].mod_revision = p->modified;
    lk_etcd_between(&m->compare[n][1], p->key, p->id, p->id_end);
    for (int i = 0; i < 3; i++)
        m->compares[n][i] = &m->compare[n][i];
    lk_etcd_pb__put__init(&m->put[n]);
    m->put[n].key = p->key;
    m->put[n].value = (ProtobufCBinaryData){.len = strlen(p->record), .data = (uint8_t *)p->record};
    m->put[n].lease = m->to->id;
    for (int i = 0; i < 3; i++) {
        m->inners[n][i] = &m->inner[n][i];
        lk_etcd_pb__op__init(&m->inner[n][i]);
    }
    m->inner[n][0].op_case = LK_ETCD_PB__OP__OP_PUT;
    m->inner[n][0].put = &m->put[n];
    lk_etcd_pb__range__init(&m->predecessor[n]);
    m->predecessor[n].key = p->predecessor;
    m->predecessor[n].keys_only = true;
    m->inner[n][1].op_case = LK_ETCD_PB__OP__OP_RANGE;
    m->inner[n][1].range = &m->predecessor[n];
    lk_etcd_pb__range__init(&m->own[n]);
    m->own[n].key = p->key;
    m->inner[n][2].op_case = LK_ETCD_PB__OP__OP_RANGE;
    m->inner[n][2].range = &m->own[n];
    m->txn[n].failure = &m->inners[n][2];
    m->txn[n].n_failure = 1;
    m->txn[n].compare = m->compares[n];
    m->txn[n].n_compare = p->slot >= 0 ? 3 : 1;
    m->txn[n].success = m->inners[n];
    m->txn[n].n_success = p->step == LK_ETCD_BEHIND && p->predecessor.len > 0 ? 2 : 1;
    m->outers[n] = &m->outer[n];
    lk_etcd_pb__op__init(&m->outer[n]);
    m->outer[n].op_case = LK_ETCD_PB__OP__OP_TXN;
    m->outer[n].txn = &m->txn[n];
}

static void send_moves_locked(lk_etcd *e, moves *m) LK_REQUIRES(*e->net)
{
    LkEtcdPb__Txn txn = LK_ETCD_PB__TXN__INIT;
    txn.success = m->outers;
    txn.n_success = m->count;
    if (m->count == 0 || lk_etcd_send_locked(e->net, &lk_etcd_txn, &txn.base, all_moved_locked, m) == NULL) {
        free(m);
        return;
    }
    m->to->requests++;
    e->moves++;
    for (size_t i = 0; i < m->count; i++) {
        lk_etcd_flight_sent(&m->places[i]->move);
        m->places[i]->requests++;
    }
}

/* Return true if the place's key may be moved now. A key whose permit is being taken may not: TAKE
 * replaces the key. */
static bool moves_now(const lk_etcd_place *p)
{
    return p->claim != NULL && p->created != 0 && !lk_etcd_in_flight(p->move) &&
           !lk_etcd_in_flight(p->removal) && (p->slot < 0 || p->step == LK_ETCD_FIRST);
}

/* Return the time from which moves away from the lease do not wait for answers to other moves. */
static int64_t hurries_at(const lk_etcd_lease *from)
{
    return from->sent + from->ttl_ns / HURRY_PART;
}

static bool may_send_locked(const lk_etcd *e, const lk_etcd_lease *from, int64_t now) LK_REQUIRES(*e->net)
{
    return e->moves < MOVES_MOST || now >= hurries_at(from);
}

/* Add the lease's places that are held (or those that are not) to the batch, and send each full batch.
 * Return false if no more requests may be sent now. */
static bool add_places_locked(lk_etcd *e, lk_etcd_lease *from, lk_etcd_lease *to, bool held, int64_t now,
                              moves **batch) LK_REQUIRES(*e->net)
{
    LK_EACH(lk_etcd_place, p, link, &from->places) {
        if ((p->granted_at != 0) != held || !moves_now(p) || (from == to && !is_to_be_put(p)))
            continue;
        if (*batch == NULL) {
            *batch = malloc(sizeof **batch); /* it is large, and only its used part is written */
            if (*batch == NULL)
                return false;
            (*batch)->to = to;
            (*batch)->count = 0;
        }
        add_move(*batch, p);
        if ((*batch)->count < e->batch)
            continue;
        send_moves_locked(e, *batch);
        *batch = NULL;
        if (!may_send_locked(e, from, now))
            return false;
    }
    return true;
}

static void move_all_locked(lk_etcd *e, lk_etcd_lease *from, lk_etcd_lease *to, int64_t now)
    LK_REQUIRES(*e->net)
{
    moves *batch = NULL;
    if (add_places_locked(e, from, to, true, now, &batch))
        (void)add_places_locked(e, from, to, false, now, &batch);
    if (batch != NULL)
        send_moves_locked(e, batch);
}

/* ---------------------------------------------------------------- the keeper's part ---- */

static bool is_wanted_locked(const lk_etcd *e, const lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    (void)e;
    LK_EACH(lk_etcd_place, p, link, &l->places)
        if (p->claim != NULL)
            return true;
    return false;
}

/* Return true if the lease may have a wanted key that we do not know of: an unanswered move may have put
 * an older lease's key on it (models/etcd.pml, REVOKE_BETWEEN), or a request in flight may make a key on
 * it. */
static bool may_be_on_locked(const lk_etcd *e, const lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    bool older = false;
    LK_EACH(lk_etcd_lease, any, link, &e->leases) {
        if (any->ttl_ns == l->ttl_ns && older && is_wanted_locked(e, any))
            return true;
        LK_EACH(lk_etcd_place, p, link, &any->places)
            if (any->ttl_ns == l->ttl_ns && p->claim != NULL &&
                (lk_etcd_may_come(p->ask) || lk_etcd_may_come(p->move)))
                return true;
        older = older || any == l;
    }
    return l->requests > 0;
}

/* Revoke the lease if it is tainted and nothing wanted can be on it. Free the lease if it has ended or is
 * of no use, and return true. */
static bool end_locked(lk_etcd *e, lk_etcd_lease *l, bool newest, int64_t now) LK_REQUIRES(*e->net)
{
    const bool over = l->state == LK_ETCD_DEAD || (l->id != 0 && now >= lk_etcd_lease_over(l));
    if (l->tainted && !over && !lk_etcd_pauses(e, now) && !may_be_on_locked(e, l))
        lk_etcd_lease_revoke_locked(e, l);
    if (l->requests > 0 || !lk_list_empty(&l->places) || (l->tainted && !over) || (newest && !over))
        return false;
    lk_etcd_lease_free_locked(e, l);
    return true;
}

/* Request the lease, or its successor if that is due. Return when the successor is due; LOCKER_NEVER: an
 * answer comes first. */
static int64_t follow_locked(lk_etcd *e, lk_etcd_lease *l, int64_t now) LK_REQUIRES(*e->net)
{
    const int64_t at =
        lk_time_later(l->tainted || l->state == LK_ETCD_DEAD ? now : lk_etcd_lease_next(l), e->grant_at);
    if (l->state < LK_ETCD_LIVE) {
        if (!lk_etcd_pauses(e, now))
            lk_etcd_lease_ask_locked(e, l);
        return LOCKER_NEVER; /* the answer calls again, or the end of the pause does */
    }
    if (now < at)
        return at;
    (void)lk_etcd_lease_new_locked(e, l->ttl_ns);
    return LOCKER_NEVER;
}

/* Return true if the time of `one` ends before that of `other`. Addresses order equal times. */
static bool ends_before(const lk_etcd_lease *one, const lk_etcd_lease *other)
{
    const int64_t until = lk_etcd_lease_until(one), others = lk_etcd_lease_until(other);
    return until != others ? until < others : (uintptr_t)one < (uintptr_t)other;
}

/* Return the next lease with places, in the order in which their times end, after `before` (NULL: the
 * first of all). NULL: there is none. */
static lk_etcd_lease *next_to_end_locked(const lk_etcd *e, const lk_etcd_lease *before) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *next = NULL;
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (!lk_list_empty(&l->places) && (before == NULL || ends_before(before, l)) &&
            (next == NULL || ends_before(l, next)))
            next = l;
    return next;
}

/* Move keys to newer leases, from the lease that ends first on. Each answer goes on with the keys that are
 * left. */
static void move_by_deadline_locked(lk_etcd *e, bool remake, int64_t now) LK_REQUIRES(*e->net)
{
    for (lk_etcd_lease *l = NULL; (l = next_to_end_locked(e, l)) != NULL;) {
        lk_etcd_lease *const to = lk_etcd_lease_newest_locked(e, l->ttl_ns);
        if (to == NULL || to->id == 0 || (l == to && !remake))
            continue;
        if (may_send_locked(e, l, now))
            move_all_locked(e, l, to, now);
        e->remake = e->remake || (remake && !may_send_locked(e, l, now));
    }
}

int64_t lk_etcd_leases_look_after_locked(lk_etcd *e, int64_t now)
{
    int64_t next = LOCKER_NEVER;
    if (!lk_etcd_is_up_locked(e->net))
        return next;
    const bool pauses = lk_etcd_pauses(e, now), remake = e->remake;
    LK_EACH_SAFE(lk_etcd_lease, l, link, &e->leases) {
        const bool wanted = is_wanted_locked(e, l);
        lk_etcd_lease *const to = lk_etcd_lease_newest_locked(e, l->ttl_ns);
        if (!wanted && end_locked(e, l, l == to, now))
            continue;
        if (wanted) /* the newest lease decides, even if it is still being requested */
            next = lk_time_earlier(next, follow_locked(e, to != NULL ? to : l, now));
        else if (l->id != 0 && now < lk_etcd_lease_over(l))
            next = lk_time_earlier(next, lk_etcd_lease_over(l));
    }
    if (pauses)
        return next;
    e->remake = false;
    move_by_deadline_locked(e, remake, now);
    return next;
}
