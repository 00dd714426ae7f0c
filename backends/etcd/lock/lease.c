/* lease.c: leases: how they are requested, and how they end. */
#include <stdlib.h>

#include "lk_error.h"
#include "place.h"

static const int64_t again_ns = 100 * LK_MS, refused_ns = LK_S,
                     patience_least_ns = 250 * LK_MS; /* a busy member may take so long to answer */

enum { RENEW_PART = 3, NEW_PART = 2, PATIENCE_PART = 6, OWN_TIMES = 16, STEPS = 8 };

/* Return the newest lease of that time that can take keys. NULL: there is none. */
lk_etcd_lease *lk_etcd_lease_newest_locked(const lk_etcd *e, int64_t ttl_ns)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (l->ttl_ns == ttl_ns && lk_etcd_lease_lasts(l))
            return l;
    return NULL;
}

static bool has_time_locked(const lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (l->ttl_ns == ttl_ns)
            return true;
    return false;
}

void lk_etcd_lease_free_locked(lk_etcd *e, lk_etcd_lease *l)
{
    lk_list_remove(&l->link);
    e->times -= !has_time_locked(e, l->ttl_ns);
    free(l);
}

static void tell_places_locked(lk_etcd *e, const lk_etcd_lease *l) LK_REQUIRES(*e->net)
{
    LK_EACH(lk_etcd_place, p, link, &l->places)
        if (p->granted_at == 0)
            lk_etcd_place_tell_locked(e, p);
}

void lk_etcd_leases_settle_locked(lk_etcd *e)
{
    e->retry_at = 0;
    lk_etcd_keeper_by_locked(e->net, 0);
}

void lk_etcd_lease_dead_locked(lk_etcd *e, lk_etcd_lease *l)
{
    l->state = LK_ETCD_DEAD;
    lk_etcd_leases_settle_locked(e);
}

void lk_etcd_lease_taint_locked(lk_etcd *e, lk_etcd_lease *l)
{
    l->tainted = true;
    lk_etcd_leases_settle_locked(e);
}

int64_t lk_etcd_lease_next(const lk_etcd_lease *l)
{
    return l->sent + l->ttl_ns / RENEW_PART;
}

void lk_etcd_lease_used_locked(lk_etcd *e, const lk_etcd_lease *l)
{
    lk_etcd_keeper_by_locked(e->net, lk_etcd_lease_next(l));
}

/* ---------------------------------------------------------------- a new lease ---- */

/* Log a refused renewal once, until a renewal succeeds, and only if something is held. */
void lk_etcd_renewal_refused_locked(lk_etcd *e, const lk_etcd_reply *reply)
{
    locker_error err;
    if (e->renewal_refused || lk_list_empty(&e->granted))
        return;
    (void)lk_etcd_error(reply, "renewing leases", e->root, &err);
    e->svc->log(e->svc, LOCKER_LOG_WARN, "etcd: cannot renew leases: %s", err.text);
    e->renewal_refused = true;
}

static void granted_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *const l = context;
    const LkEtcdPb__LeaseGranted *const granted =
        (const LkEtcdPb__LeaseGranted *)(const void *)reply->message;
    lk_etcd_heard_locked(e, reply);
    l->requests--;
    if (lk_etcd_unknown(reply->status)) { /* a lease that this request has made ends by itself */
        l->state = LK_ETCD_WANTED;
        e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    } else if (reply->status != LK_ETCD_OK || granted->id == 0) {
        l->state = LK_ETCD_DEAD;
        e->grant_at = lk_etcd_now_of(e) + refused_ns;
        lk_etcd_renewal_refused_locked(e, reply);
        LK_EACH(lk_etcd_place, p, link, &l->places) {
            lk_etcd_place_step(p, LK_ETCD_FAILED);
            (void)lk_etcd_error(reply, "requesting a lease", p->base, &p->error);
        }
    } else {
        l->state = LK_ETCD_LIVE;
        l->id = granted->id;
        l->sent = reply->sent;
        l->given_ns = lk_time_later(l->ttl_ns, lk_time_earlier(granted->ttl, LK_ETCD_GIVEN_MAX_S) * LK_S);
    }
    tell_places_locked(e, l);
    e->retry_at = l->id != 0 ? 0 : e->retry_at; /* keys on older leases are moved to this one */
    lk_etcd_keeper_by_locked(e->net, e->retry_at);
}

void lk_etcd_lease_ask_locked(lk_etcd *e, lk_etcd_lease *l)
{
    LkEtcdPb__LeaseGrant message = LK_ETCD_PB__LEASE_GRANT__INIT;
    message.ttl = (l->ttl_ns + LK_S - 1) / LK_S;
    if (l->state != LK_ETCD_WANTED)
        return;
    lk_etcd_count_members_locked(e->net);
    if (lk_etcd_send_locked(e->net, &lk_etcd_lease_grant, &message.base, granted_locked, l) == NULL)
        return;
    l->state = LK_ETCD_ASKED_FOR;
    l->requests++;
}

/* Set how long a member may take to answer, by the shortest time of all leases. */
static void set_patience_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    int64_t shortest = LOCKER_NEVER;
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        shortest = lk_time_earlier(shortest, l->ttl_ns);
    lk_etcd_patience_locked(
        e->net, lk_time_later(shortest / PATIENCE_PART, patience_least_ns),
        2 * (shortest / PATIENCE_PART)); /* this leaves another member a third of the time */
}

lk_etcd_lease *lk_etcd_lease_new_locked(lk_etcd *e, int64_t ttl_ns)
{
    lk_etcd_lease *const l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->ttl_ns = ttl_ns;
    lk_list_init(&l->places);
    e->times += !has_time_locked(e, ttl_ns);
    lk_list_prepend(&e->leases, &l->link);
    set_patience_locked(e);
    lk_etcd_lease_ask_locked(e, l);
    return l;
}

/* Round down to a multiple of an eighth of a power of two. So locks with many different times share about
 * ninety leases. */
static int64_t rounded_down(int64_t ttl_ns)
{
    int64_t step = 1;
    while (step * 2 * STEPS <= ttl_ns)
        step *= 2;
    return ttl_ns / step * step;
}

/* Return the time of the lease for a lock of that time: the same time, or a rounded one if there are many
 * times already. A lease is never longer than its lock asks for, because a dead holder's lock lasts as
 * long as its lease. */
static int64_t shared_time_locked(const lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net)
{
    return e->times < OWN_TIMES || has_time_locked(e, ttl_ns) ? ttl_ns : rounded_down(ttl_ns);
}

/* Return the time of the lease for a place. While an unanswered request may make the place's key, the
 * place stays with leases of one time: may_be_on_locked() looks only at those before a lease is revoked. */
static int64_t time_for_locked(const lk_etcd *e, const locker_claim *claim, const lk_etcd_place *p)
    LK_REQUIRES(*e->net)
{
    return p != NULL && lk_etcd_may_come(p->ask) ? p->lease->ttl_ns : shared_time_locked(e, claim->ttl_ns);
}

lk_etcd_lease *lk_etcd_lease_for_locked(lk_etcd *e, const locker_claim *claim, const lk_etcd_place *place)
{
    const int64_t ttl_ns = time_for_locked(e, claim, place);
    lk_etcd_lease *const l = lk_etcd_lease_newest_locked(e, ttl_ns);
    if (l == NULL || l->tainted || (l->id != 0 && lk_etcd_now_of(e) >= l->sent + ttl_ns / NEW_PART))
        return lk_etcd_lease_new_locked(e, ttl_ns);
    lk_etcd_lease_ask_locked(e, l);
    return l;
}

/* ---------------------------------------------------------------- the end of a lease ---- */

static void revoked_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *const l = context;
    l->requests--;
    if (lk_etcd_unknown(reply->status)) {
        l->state = l->state == LK_ETCD_REVOKING ? LK_ETCD_REVOKE_LOST : l->state;
        e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    } else {
        l->state = LK_ETCD_DEAD;
        l->tainted = false;
        /* A denied revocation leaves the keys in place: the user lost the right to write one of them. */
        const bool ended = reply->status == LK_ETCD_OK || reply->status == LK_ETCD_NOT_FOUND;
        LK_EACH(lk_etcd_place, p, link, &l->places)
            if (ended && p->claim == NULL &&
                p->move == LK_ETCD_FLIGHT_IDLE) { /* the key has gone and cannot come */
                p->spent = true;
                p->created = 0;
                lk_etcd_flight_settled(&p->ask);
            }
        e->retry_at = 0;
    }
    lk_etcd_keeper_by_locked(e->net, e->retry_at);
    if (e->closer != NULL)
        lk_etcd_call_done_locked(e->net, e->closer);
}

void lk_etcd_lease_revoke_locked(lk_etcd *e, lk_etcd_lease *l)
{
    LkEtcdPb__LeaseRevoke message = LK_ETCD_PB__LEASE_REVOKE__INIT;
    message.id = l->id;
    if ((l->state != LK_ETCD_LIVE && l->state != LK_ETCD_REVOKE_LOST) ||
        lk_etcd_send_locked(e->net, &lk_etcd_lease_revoke, &message.base, revoked_locked, l) == NULL)
        return;
    l->state = LK_ETCD_REVOKING;
    l->requests++;
}

void lk_etcd_leases_revoke_locked(lk_etcd *e)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        lk_etcd_lease_revoke_locked(e, l);
}

bool lk_etcd_leases_left_locked(const lk_etcd *e)
{
    LK_EACH(lk_etcd_lease, l, link, &e->leases)
        if (l->id != 0 && l->state != LK_ETCD_DEAD)
            return true;
    return false;
}

LK_UNCHECKED void lk_etcd_leases_free(lk_etcd *e)
{
    LK_EACH_SAFE(lk_etcd_lease, l, link, &e->leases) {
        LK_EACH_SAFE(lk_etcd_place, p, link, &l->places)
            free(p);
        free(l); /* `times` is of no use any more */
    }
}
