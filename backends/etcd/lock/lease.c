/* lease.c: leases, and how keys go from one to the next; see lease.h. */
#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "lk_error.h"

static const int64_t again_ns = 100 * LK_MS, refused_ns = LK_S,
                     patience_least_ns = 250 * LK_MS; /* a member that is busy may take so long */

enum { RENEW_PART = 3, NEW_PART = 2, PATIENCE_PART = 6 };

int64_t lk_etcd_lease_until(const lk_etcd_lease *l)
{
    return lk_time_after(l->sent, l->ttl_ns);
}

/* The latest of that time; NULL: none. */
static lk_etcd_lease *newest_locked(const lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (l->ttl_ns == ttl_ns && !l->dead && !l->doomed)
            return l;
    return NULL;
}

static void lease_free_locked(lk_etcd *e, lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    (void)e;
    lk_list_remove(&l->link);
    free(l);
}

static void tell_places_locked(lk_etcd *e, const lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    LK_EACH(lk_etcd_place, p, link, &l->places)
        if (p->granted_at == 0)
            lk_etcd_place_tell_locked(e, p);
}

void lk_etcd_lease_dead_locked(lk_etcd *e, lk_etcd_lease *l)
{
    l->dead = true;
    e->retry_at = 0;
    lk_etcd_keeper_by_locked(e->net, 0);
}

void lk_etcd_lease_taint_locked(lk_etcd *e, lk_etcd_lease *l)
{
    l->tainted = true;
    e->retry_at = 0;
    lk_etcd_keeper_by_locked(e->net, 0);
}

void lk_etcd_leases_settle_locked(lk_etcd *e)
{
    e->retry_at = 0;
    lk_etcd_keeper_by_locked(e->net, 0);
}

static int64_t next_of(const lk_etcd_lease *l)
{
    return l->sent + l->ttl_ns / RENEW_PART;
}

void lk_etcd_lease_used_locked(lk_etcd *e, const lk_etcd_lease *l)
{
    lk_etcd_keeper_by_locked(e->net, next_of(l));
}

/* ---------------------------------------------------------------- a new one ---- */

static void granted_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *const l = context;
    const LkEtcdPb__LeaseGranted *const granted = (const LkEtcdPb__LeaseGranted *)(const void *)reply->message;
    lk_etcd_heard_locked(e, reply);
    l->asking = false;
    l->requests--;
    if (lk_etcd_unknown(reply->status)) { /* if there is one now, it ends by itself */
        e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    } else if (reply->status != LK_ETCD_OK || granted->id == 0) {
        l->dead = true;
        e->grant_at = lk_etcd_now_of(e) + refused_ns;
        LK_EACH(lk_etcd_place, p, link, &l->places) {
            p->step = LK_ETCD_FAILED;
            (void)lk_etcd_error(reply, "being granted a lease", p->base, &p->error);
        }
    } else {
        l->id = granted->id;
        l->sent = reply->sent;
    }
    tell_places_locked(e, l);
    e->retry_at = l->id != 0 ? 0 : e->retry_at; /* what is on the older one is put to it */
    lk_etcd_keeper_by_locked(e->net, e->retry_at);
}

static void ask_locked(lk_etcd *e, lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    LkEtcdPb__LeaseGrant message = LK_ETCD_PB__LEASE_GRANT__INIT;
    message.ttl = (l->ttl_ns + LK_S - 1) / LK_S;
    if (l->id != 0 || l->asking || l->dead)
        return;
    l->asking = lk_etcd_send_locked(e->net, &lk_etcd_lease_grant, &message.base, granted_locked, l) != NULL;
    l->requests += l->asking;
}

static lk_etcd_lease *lease_new_locked(lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *const l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->ttl_ns = ttl_ns;
    lk_list_init(&l->places);
    lk_list_prepend(&e->leases, &l->link);
    lk_etcd_patience_locked(e->net, lk_time_later(l->ttl_ns / PATIENCE_PART, patience_least_ns));
    ask_locked(e, l);
    return l;
}

lk_etcd_lease *lk_etcd_lease_for_locked(lk_etcd *e, int64_t ttl_ns)
{
    lk_etcd_lease *const l = newest_locked(e, ttl_ns);
    if (l == NULL || l->tainted || (l->id != 0 && lk_etcd_now_of(e) >= l->sent + ttl_ns / NEW_PART))
        return lease_new_locked(e, ttl_ns);
    ask_locked(e, l);
    return l;
}

/* ---------------------------------------------------------------- from one to the next ---- */

enum { BATCH = 125 }; /* places in one transaction: a server takes 128 operations, unless it is told otherwise */

/* Places that are put to another lease by one request. */
typedef struct {
    lk_etcd_lease *to;
    size_t count;
    lk_etcd_place *places[BATCH];
    int64_t created[BATCH], modified[BATCH]; /* ... as they were then */
    LkEtcdPb__Txn txn[BATCH];
    LkEtcdPb__Compare compare[BATCH][2], *compares[BATCH][2];
    LkEtcdPb__Put put[BATCH];
    LkEtcdPb__Op inner[BATCH], *inners[BATCH], outer[BATCH], *outers[BATCH];
} moves;

static void shown_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_place *const p = context;
    const bool becomes_permit = p->slot >= 0 && p->step != LK_ETCD_FIRST; /* which is another key */
    p->moving = false;
    if (reply->status == LK_ETCD_OK && !p->deleting && p->created != 0 && !becomes_permit)
        lk_etcd_place_shown_locked(e, p, (const LkEtcdPb__Ranged *)(const void *)reply->message);
    if (p->granted_at == 0)
        lk_etcd_place_tell_locked(e, p);
    e->retry_at = 0;
    lk_etcd_keeper_by_locked(e->net, 0);
    lk_etcd_place_unref_locked(e, p);
}

/* It was not put there: it is gone, or has been put somewhere by a request whose answer was lost. */
static void doubt_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    LkEtcdPb__Range range = LK_ETCD_PB__RANGE__INIT;
    range.key = lk_etcd_bytes(&p->key);
    range.keys_only = true;
    p->moving = lk_etcd_send_locked(e->net, &lk_etcd_range, &range.base, shown_locked, p) != NULL;
    p->requests += p->moving;
}

/* What is said of a key that the place had before it became a permit, says nothing of that. */
static void moved_locked(lk_etcd *e, const moves *m, const LkEtcdPb__TxnDone *done, size_t n) LK_REQUIRES(*e->net)
{
    lk_etcd_place *const p = m->places[n];
    const bool answered = n < done->n_responses && done->header != NULL &&
                          done->responses[n]->done_case == LK_ETCD_PB__DONE__DONE_TXN;
    if (!answered || p->created != m->created[n] || p->deleting)
        return;
    if (done->responses[n]->txn->succeeded) {
        p->retell = false;
        lk_etcd_place_on_lease_locked(e, p, m->to, done->header->revision);
    } else {
        doubt_locked(e, p);
    }
}

/* It may have been done, or be done yet. */
static void may_move_locked(lk_etcd *e, const moves *m, size_t n) LK_REQUIRES(*e->net)
{
    lk_etcd_place *const p = m->places[n];
    p->may_move = p->may_move || (p->created == m->created[n] && p->modified == m->modified[n]);
    e->remake = e->remake || p->unsure || p->retell;
}

static void all_moved_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    moves *const m = context;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    lk_etcd_heard_locked(e, reply);
    e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    if (reply->status == LK_ETCD_NOT_FOUND)
        lk_etcd_lease_dead_locked(e, m->to);
    else if (reply->status == LK_ETCD_INVALID_ARGUMENT && e->batch > 1)
        e->batch /= 2; /* "too many operations": this server was told to take fewer */
    else if (reply->status != LK_ETCD_OK && !lk_etcd_unknown(reply->status))
        e->svc->log(e->svc, LOCKER_LOG_WARN, "etcd: leases can't be renewed: %s", reply->text);
    for (size_t i = 0; i < m->count; i++) {
        lk_etcd_place *const p = m->places[i];
        p->moving = false;
        if (reply->status == LK_ETCD_OK)
            moved_locked(e, m, done, i);
        else if (lk_etcd_unknown(reply->status))
            may_move_locked(e, m, i);
        if (p->granted_at == 0)
            lk_etcd_place_tell_locked(e, p);
        lk_etcd_place_unref_locked(e, p);
    }
    m->to->requests--;
    if (reply->status == LK_ETCD_OK)
        e->retry_at = 0;
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
    for (int i = 0; i < 2; i++) {
        LkEtcdPb__Compare *const c = m->compares[n][i] = &m->compare[n][i];
        lk_etcd_pb__compare__init(c);
        c->key = lk_etcd_bytes(&p->key);
        c->target = i == 0 ? LK_ETCD_PB__COMPARE__TARGET__CREATE : LK_ETCD_PB__COMPARE__TARGET__MOD;
        c->to_case = i == 0 ? LK_ETCD_PB__COMPARE__TO_CREATE_REVISION : LK_ETCD_PB__COMPARE__TO_MOD_REVISION;
        c->create_revision = i == 0 ? p->created : p->modified;
    }
    lk_etcd_pb__put__init(&m->put[n]);
    m->put[n].key = lk_etcd_bytes(&p->key);
    m->put[n].value = (ProtobufCBinaryData){.len = strlen(p->record), .data = (uint8_t *)p->record};
    m->put[n].lease = m->to->id;
    m->inners[n] = &m->inner[n];
    lk_etcd_pb__op__init(&m->inner[n]);
    m->inner[n].op_case = LK_ETCD_PB__OP__OP_PUT;
    m->inner[n].put = &m->put[n];
    m->txn[n].compare = m->compares[n];
    m->txn[n].n_compare = 2;
    m->txn[n].success = &m->inners[n];
    m->txn[n].n_success = 1;
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
    for (size_t i = 0; i < m->count; i++) {
        m->places[i]->moving = true;
        m->places[i]->requests++;
    }
}

/* Not while its permit is being taken, which makes another key of it. */
static bool moves_now(const lk_etcd_place *p)
{
    return p->claim != NULL && p->created != 0 && !p->moving && !p->deleting &&
           (p->slot < 0 || p->step == LK_ETCD_FIRST);
}

static void move_all_locked(lk_etcd *e, lk_etcd_lease *from, lk_etcd_lease *to) LK_REQUIRES(*e->net)
{
    moves *m = NULL;
    LK_EACH(lk_etcd_place, p, link, &from->places) {
        if (!moves_now(p) || (from == to && !p->unsure && !p->retell))
            continue;
        if (m == NULL) {
            m = malloc(sizeof *m); /* large, and written as far as it is used */
            if (m == NULL)
                return;
            m->to = to;
            m->count = 0;
        }
        add_move(m, p);
        if (m->count == e->batch) {
            send_moves_locked(e, m);
            m = NULL;
        }
    }
    if (m != NULL)
        send_moves_locked(e, m);
}

/* ---------------------------------------------------------------- the end of one ---- */

static void revoked_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *const l = context;
    l->requests--;
    l->revoking = false;
    if (lk_etcd_unknown(reply->status)) {
        e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    } else {
        l->dead = true;
        l->tainted = false;
        LK_EACH(lk_etcd_place, p, link, &l->places)
            if (p->claim == NULL) { /* its key is no more, nor will it come */
                p->created = 0;
                p->doubt = false;
            }
        e->retry_at = 0;
    }
    lk_etcd_keeper_by_locked(e->net, e->retry_at);
    if (e->closer != NULL)
        lk_etcd_call_done_locked(e->net, e->closer);
}

static void revoke_locked(lk_etcd *e, lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    LkEtcdPb__LeaseRevoke message = LK_ETCD_PB__LEASE_REVOKE__INIT;
    message.id = l->id;
    if (l->revoking || l->dead || l->id == 0)
        return;
    l->revoking = lk_etcd_send_locked(e->net, &lk_etcd_lease_revoke, &message.base, revoked_locked, l) != NULL;
    l->doomed = l->doomed || l->revoking;
    l->requests += l->revoking;
}

void lk_etcd_leases_revoke_locked(lk_etcd *e)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        revoke_locked(e, l);
}

bool lk_etcd_leases_left_locked(const lk_etcd *e)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (l->id != 0 && !l->dead)
            return true;
    return false;
}

LK_UNCHECKED void lk_etcd_leases_free(lk_etcd *e)
{
    LK_EACH_SAFE(lk_etcd_lease, l, link, &e->leases) {
        LK_EACH_SAFE(lk_etcd_place, p, link, &l->places)
            free(p);
        lease_free_locked(e, l);
    }
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

/* ... or another one of its time, from which what is on it goes on to this one. */
static bool is_needed_locked(const lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (l->ttl_ns == ttl_ns && is_wanted_locked(e, l))
            return true;
    return false;
}

/* Whether something that is wanted may be there, or come to be, that isn't known to be: by a request without an answer, of which the
 * next one tells. */
static bool may_be_on_locked(const lk_etcd *e, const lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    if (l->requests > 0)
        return true;
    LK_EACH(lk_etcd_lease, any, link, &e->leases) {
        if (any->ttl_ns != l->ttl_ns)
            continue;
        LK_EACH(lk_etcd_place, p, link, &any->places)
            if (p->claim != NULL && (p->doubt || p->may_move))
                return true;
    }
    return false;
}

/* Of one that is over, or that nothing is on. True: it is gone. */
static bool end_locked(lk_etcd *e, lk_etcd_lease *l, bool newest, int64_t now) LK_REQUIRES(*e->net)
{
    const bool over = l->dead || (l->id != 0 ? now >= l->sent + 2 * l->ttl_ns : !is_needed_locked(e, l->ttl_ns));
    if (l->tainted && !over && !may_be_on_locked(e, l))
        revoke_locked(e, l);
    if (l->requests > 0 || !lk_list_empty(&l->places) || (l->tainted && !over) || (newest && !over))
        return false;
    lease_free_locked(e, l);
    return true;
}

/* When it is to be followed by another: LOCKER_NEVER if that is there. */
static int64_t follow_locked(lk_etcd *e, lk_etcd_lease *l, int64_t now) LK_REQUIRES(*e->net)
{
    const int64_t at = lk_time_later(l->tainted || l->dead ? now : next_of(l), e->grant_at);
    if (l->id == 0 && !l->dead) {
        ask_locked(e, l);
        return LOCKER_NEVER; /* its answer is */
    }
    if (now < at)
        return at;
    (void)lease_new_locked(e, l->ttl_ns);
    return LOCKER_NEVER;
}

/* When it is over, if nobody wants it; what is under way for it calls by itself. */
static int64_t over_at(const lk_etcd_lease *l, int64_t now)
{
    const int64_t at = l->sent + 2 * l->ttl_ns;
    return l->id != 0 && at > now ? at : LOCKER_NEVER;
}

int64_t lk_etcd_leases_look_after_locked(lk_etcd *e, int64_t now)
{
    int64_t next = LOCKER_NEVER;
    if (!lk_etcd_is_up_locked(e->net))
        return next;
    const bool remake = e->remake;
    e->remake = false;
    LK_EACH_SAFE(lk_etcd_lease, l, link, &e->leases) {
        const bool wanted = is_wanted_locked(e, l);
        lk_etcd_lease *const to = newest_locked(e, l->ttl_ns);
        if (!wanted && end_locked(e, l, l == to, now))
            continue;
        if ((l == to || to == NULL) && (wanted || is_needed_locked(e, l->ttl_ns)))
            next = lk_time_earlier(next, follow_locked(e, l, now));
        if (wanted && to != NULL && to->id != 0 && (l != to || remake))
            move_all_locked(e, l, to);
        if (!wanted)
            next = lk_time_earlier(next, over_at(l, now));
    }
    return next;
}
