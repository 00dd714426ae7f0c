/* renew.c: what is held or waited for goes from one lease to the next, in time. */
#include <stdlib.h>
#include <string.h>

#include "heard.h"
#include "lease.h"
#include "renew.h"

static const int64_t again_ns = 100 * LK_MS;

/* Requests under way that put places to another lease. A server carries out what all its clients ask in the order in which it comes,
 * and such a request takes it milliseconds (45 us for a key, 6 ms for 125): so many may stand before anybody's call. Where answers
 * take long, or leases have many times, that is too few. So what is on a lease that has run for half of its time goes at once. */
enum { MOVES_MOST = 2, HURRY_PART = 2 };

/* Places that are put to another lease by one request. */
typedef struct {
    lk_etcd_lease *to;
    size_t count;
    lk_etcd_place *places[LK_ETCD_BATCH];
    int64_t created[LK_ETCD_BATCH], modified[LK_ETCD_BATCH]; /* ... as they were then */
    LkEtcdPb__Txn txn[LK_ETCD_BATCH];
    LkEtcdPb__Compare compare[LK_ETCD_BATCH][3],
        *compares[LK_ETCD_BATCH][3]; /* which servers take in a batch */
    LkEtcdPb__Put put[LK_ETCD_BATCH];
    LkEtcdPb__Range predecessor[LK_ETCD_BATCH]; /* of who waits: is it still there? */
    LkEtcdPb__Range own[LK_ETCD_BATCH];         /* of what isn't as it was: how is it? */
    LkEtcdPb__Op inner[LK_ETCD_BATCH][3], *inners[LK_ETCD_BATCH][3], outer[LK_ETCD_BATCH],
        *outers[LK_ETCD_BATCH];
} moves;

/* It was not put there: it is gone, or has been put somewhere by a request whose answer was lost. The answer shows its key. That says
 * nothing of a permit, which is another key, nor of a place of which more is known by now. */
static void not_moved_locked(lk_etcd *e, lk_etcd_place *p, int64_t modified, const LkEtcdPb__Nested *done)
    LK_REQUIRES(*e->net)
{
    const bool becomes_permit = p->slot >= 0 && p->step != LK_ETCD_FIRST;
    if (!becomes_permit && p->modified == modified)
        lk_etcd_place_shown_locked(e, p, done->n_responses > 0 ? done->responses[0]->range : NULL);
}

/* The predecessor is there, or its end may not have been told: servers may have lost that (a compaction hid it). Then who waits looks
 * again. */
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

/* What is said of a key that the place had before it became a permit, says nothing of that. */
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

/* Return true if the place's key is to be put anew, even on the lease that it is on. */
static bool is_to_be_put(const lk_etcd_place *p)
{
    return p->unsure || p->note == LK_ETCD_NOTE_NOW;
}

/* This server was told to take less; the status alone has other meanings: that nobody has logged in, say. */
static bool is_too_much(const lk_etcd_reply *reply)
{
    return reply->status == LK_ETCD_INVALID_ARGUMENT &&
           (strstr(reply->text, "too many operations") != NULL || strstr(reply->text, "too large") != NULL);
}

/* One that was sent before that was known says nothing new. */
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
        /* Nothing comes of a move that had no answer, if the key has changed since. */
        lk_etcd_flight_ended(&p->move, lost && p->created == m->created[i] && p->modified == m->modified[i]);
        if (reply->status == LK_ETCD_OK)
            moved_locked(e, m, done, i);
        else if (lost)
            e->remake = e->remake || is_to_be_put(p);
        if (p->granted_at == 0 && p->step != LK_ETCD_BEHIND) /* else there is nothing to be done */
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

/* If it is as it was known to be: what a request that comes late would do is done by none. */
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

/* Not while its permit is being taken, which makes another key of it. */
static bool moves_now(const lk_etcd_place *p)
{
    return p->claim != NULL && p->created != 0 && !lk_etcd_in_flight(p->move) &&
           !lk_etcd_in_flight(p->removal) && (p->slot < 0 || p->step == LK_ETCD_FIRST);
}

/* When the places on the lease no longer wait for the answers to other requests. */
static int64_t hurries_at(const lk_etcd_lease *from)
{
    return from->sent + from->ttl_ns / HURRY_PART;
}

static bool may_send_locked(const lk_etcd *e, const lk_etcd_lease *from, int64_t now) LK_REQUIRES(*e->net)
{
    return e->moves < MOVES_MOST || now >= hurries_at(from);
}

/* Add the places of the lease that are held, or those that are not; send each batch that is full. False: no more may be sent now. */
static bool add_places_locked(lk_etcd *e, lk_etcd_lease *from, lk_etcd_lease *to, bool held, int64_t now,
                              moves **batch) LK_REQUIRES(*e->net)
{
    LK_EACH(lk_etcd_place, p, link, &from->places) {
        if ((p->granted_at != 0) != held || !moves_now(p) || (from == to && !is_to_be_put(p)))
            continue;
        if (*batch == NULL) {
            *batch = malloc(sizeof **batch); /* large, and written as far as it is used */
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

/* ---------------------------------------------------------------- the keeper's ---- */

static bool is_wanted_locked(const lk_etcd *e, const lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    (void)e;
    LK_EACH(lk_etcd_place, p, link, &l->places)
        if (p->claim != NULL)
            return true;
    return false;
}

/* Whether something that is wanted may be there, or come to be, that isn't known to be: what is on an older one may have been put to
 * this one by a request that had no answer (models/etcd.pml, REVOKE_BETWEEN), or be made on it by one that is under way. */
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

/* Of one that is over, or that nothing is on. True: it is gone. */
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

/* When it is to be followed by another: LOCKER_NEVER if that is there. */
static int64_t follow_locked(lk_etcd *e, lk_etcd_lease *l, int64_t now) LK_REQUIRES(*e->net)
{
    const int64_t at =
        lk_time_later(l->tainted || l->state == LK_ETCD_DEAD ? now : lk_etcd_lease_next(l), e->grant_at);
    if (l->state < LK_ETCD_LIVE) {
        if (!lk_etcd_pauses(e, now))
            lk_etcd_lease_ask_locked(e, l);
        return LOCKER_NEVER; /* its answer is, or the pause's end */
    }
    if (now < at)
        return at;
    (void)lk_etcd_lease_new_locked(e, l->ttl_ns);
    return LOCKER_NEVER;
}

/* Order leases by when their time is over. */
static bool ends_before(const lk_etcd_lease *one, const lk_etcd_lease *other)
{
    const int64_t until = lk_etcd_lease_until(one), others = lk_etcd_lease_until(other);
    return until != others ? until < others : (uintptr_t)one < (uintptr_t)other;
}

/* Return the lease with places whose time is over next after that of `before` (NULL: first of all); NULL: there is none. */
static lk_etcd_lease *next_to_end_locked(const lk_etcd *e, const lk_etcd_lease *before) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *next = NULL;
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (!lk_list_empty(&l->places) && (before == NULL || ends_before(before, l)) &&
            (next == NULL || ends_before(l, next)))
            next = l;
    return next;
}

/* Put what is on leases to newer ones, first what is on the lease that ends first. An answer goes on with what is left. */
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
        if (wanted) /* by the newest, which may still be asked for, also where that had no answer */
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
