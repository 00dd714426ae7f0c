/* acquire.c: one attempt for a claim. The caller's thread sends requests and reads answers until it is
 * known whether the place is FIRST. Later changes come by watches and wake the claim. */
#include "lk_error.h"
#include "place.h"

/* An answer that shows a place as FIRST counts for recent_ns. After LOOKS_MAX more questions, an answer of
 * any age counts. */
static const int64_t recent_ns = 100 * LK_MS, pause_ns = 50 * LK_MS;
enum { LOOKS_MAX = 2, ENOUGH_PART = 3 };

typedef struct {
    lk_etcd *e;
    locker_claim *claim;
    lk_etcd_claim *data;
    locker_error *err;
    lk_etcd_call call;
    const lk_etcd_key *base;
    lk_etcd_outcome outcome;
    locker_status status;
    int looks;
    bool over; /* `status` is the attempt's result */
} attempt;

static bool end(attempt *a, locker_status status)
{
    a->status = status;
    a->over = true;
    return false;
}

/* Wait for an answer about the place. Return false if the attempt ends first. */
static bool await_unlocking(attempt *a) LK_REQUIRES(*a->e->net)
{
    lk_etcd_place *const p = a->data->place;
    a->call.done = false;
    p->call = &a->call;
    a->outcome = lk_etcd_await_unlocking(a->e->net, &a->call, a->claim->attempt_until);
    p->call = NULL;
    return a->outcome == LK_ETCD_CALL_DONE;
}

static bool pause_unlocking(attempt *a) LK_REQUIRES(*a->e->net)
{
    const int64_t until = lk_etcd_now_of(a->e) + pause_ns;
    a->call.done = false;
    a->data->place->unanswered = false;
    a->outcome =
        lk_etcd_await_unlocking(a->e->net, &a->call, lk_time_earlier(until, a->claim->attempt_until));
    if (a->outcome == LK_ETCD_CALL_LATE && until < a->claim->attempt_until)
        a->outcome = LK_ETCD_CALL_DONE;
    return a->outcome == LK_ETCD_CALL_DONE;
}

static void drop_locked(attempt *a) LK_REQUIRES(*a->e->net)
{
    if (a->data->place != NULL)
        lk_etcd_place_leave_locked(a->e, a->data->place);
    a->data->place = NULL;
}

/* Find a lease for the claim, make the place if there is none, and ask about it. */
static bool place_unlocking(attempt *a) LK_REQUIRES(*a->e->net)
{
    lk_etcd_place *p = a->data->place;
    lk_etcd_lease *const l = lk_etcd_lease_for_locked(a->e, a->claim, p);
    if (p == NULL && l != NULL)
        p = a->data->place = lk_etcd_place_new_locked(a->e, a->claim, a->base, l);
    if (p == NULL || l == NULL) {
        (void)lk_out_of_memory(a->err);
        return end(a, LOCKER_NOMEM);
    }
    if (p->lease != l) {
        lk_list_remove(&p->link);
        p->lease = l;
        lk_list_append(&l->places, &p->link);
    }
    if (l->id != 0 && !lk_etcd_place_ask_locked(a->e, p))
        return true; /* the connection broke: wait for it again */
    return await_unlocking(a);
}

static bool ask_unlocking(attempt *a) LK_REQUIRES(*a->e->net)
{
    return !lk_etcd_place_ask_locked(a->e, a->data->place) || await_unlocking(a);
}

/* Grant the lock, if that is safe now. This is the only function that grants. A recent answer has shown
 * the place as FIRST, its lease is live and lasts long enough, no delete is in flight, and nothing
 * received since contradicts this. */
static bool grant_locked(attempt *a, lk_etcd_place *p) LK_REQUIRES(*a->e->net)
{
    const int64_t now = lk_etcd_now_of(a->e);
    locker_claim *const claim = a->claim;
    const int64_t cap = claim->renewed ? LOCKER_NEVER : lk_time_after(claim->asked_at, claim->ttl_ns);
    const int64_t until = lk_time_earlier(lk_etcd_lease_until(p->lease), cap);
    if (p->unsure || lk_etcd_in_flight(p->removal) || p->created == 0 || p->lease->state != LK_ETCD_LIVE ||
        until - now < claim->ttl_ns / ENOUGH_PART)
        return false;
    p->cap = cap;
    claim->token = (uint64_t)p->created;
    claim->slot = p->slot;
    claim->valid_until = until;
    lk_etcd_place_granted_locked(a->e, p);
    return true;
}

/* End the attempt: too little is left of a lease that counts from the beginning of this attempt. A waiting
 * call tries again at once. */
static bool too_late_locked(attempt *a) LK_REQUIRES(*a->e->net)
{
    a->claim->retry_at = lk_etcd_now_of(a->e);
    a->data->place->enrolled = a->claim->will_wait;
    if (a->claim->will_wait)
        return end(a, LOCKER_BUSY);
    return end(a, lk_unavailable(a->err, "etcd at %s took more than half of the lock's lease time to answer",
                                 lk_etcd_net_names(a->e->net)));
}

static bool first_unlocking(attempt *a, lk_etcd_place *p) LK_REQUIRES(*a->e->net)
{
    if (p->unproven)
        return ask_unlocking(a);
    if (lk_etcd_now_of(a->e) - p->seen > recent_ns && a->looks < LOOKS_MAX) {
        a->looks++;
        return ask_unlocking(a);
    }
    if (grant_locked(a, p))
        return end(a, LOCKER_OK);
    if (!a->claim->renewed && lk_etcd_now_of(a->e) > a->claim->asked_at + a->claim->ttl_ns / 2)
        return too_late_locked(a);
    lk_etcd_keeper_by_locked(a->e->net, 0); /* the keeper moves it to another lease */
    return await_unlocking(a);
}

static bool refused_locked(attempt *a, const lk_etcd_place *p) LK_REQUIRES(*a->e->net)
{
    if (a->err != NULL)
        *a->err = p->error;
    const locker_status status = p->error.status;
    drop_locked(a);
    return end(a, status);
}

static bool other_locked(attempt *a, const lk_etcd_place *p) LK_REQUIRES(*a->e->net)
{
    const locker_status status = locker_other_use(a->err, p->other, a->claim->permits);
    drop_locked(a);
    return end(a, status);
}

static bool step_unlocking(attempt *a) LK_REQUIRES(*a->e->net)
{
    lk_etcd_place *const p = a->data->place;
    if (!lk_etcd_is_up_locked(a->e->net)) {
        a->outcome =
            lk_etcd_await_up_unlocking(a->e->net, &a->call, !a->claim->will_wait, a->claim->attempt_until);
        return a->outcome == LK_ETCD_CALL_DONE;
    }
    if (p != NULL && p->unanswered)
        return pause_unlocking(a);
    if (p != NULL && lk_etcd_in_flight(p->ask)) /* for a question of an earlier attempt */
        return await_unlocking(a);
    switch (p != NULL ? p->step : LK_ETCD_NOTHING) {
    case LK_ETCD_NOTHING:
        return place_unlocking(a);
    case LK_ETCD_ENTERED:
        return ask_unlocking(a);
    case LK_ETCD_BEHIND:
        p->enrolled = true;
        lk_etcd_lease_used_locked(a->e, p->lease);
        return end(a, LOCKER_BUSY);
    case LK_ETCD_FIRST:
        return first_unlocking(a, p);
    case LK_ETCD_TAKEN:
        drop_locked(a);
        return end(a, LOCKER_BUSY);
    case LK_ETCD_OTHER:
        return other_locked(a, p);
    case LK_ETCD_FAILED:
        return refused_locked(a, p);
    case LK_ETCD_GONE: /* no request makes a key of this name any more: the claim takes another name */
        drop_locked(a);
        return true;
    case LK_ETCD_STEPS:
        break;
    }
    return end(a, LOCKER_PROTOCOL);
}

/* Return the attempt's result if no step has set it. */
static locker_status judge_locked(attempt *a) LK_REQUIRES(*a->e->net)
{
    if (a->over)
        return a->status;
    if (a->data->place != NULL)
        a->data->place->enrolled = a->claim->will_wait;
    if (a->outcome == LK_ETCD_CALL_INTERRUPTED)
        return LOCKER_CANCELED;
    if (!lk_etcd_is_up_locked(a->e->net))
        return lk_etcd_away_locked(a->e->net, a->err);
    /* The place waits in line, or while servers read long queues, so calls before it get answers. It is
     * woken when its turn has come. */
    if (a->claim->will_wait && a->data->place != NULL && lk_list_linked(&a->data->place->turn) &&
        a->e->refusals == 0)
        return LOCKER_BUSY;
    /* core knows whether the caller's time is over or ours */
    return locker_error_set(a->err, LOCKER_TIMEOUT, 0, "etcd at %s did not answer in time",
                            lk_etcd_net_names(a->e->net));
}

locker_status lk_etcd_acquire(void *self, locker_claim *claim, locker_error *err)
{
    lk_etcd_key base;
    attempt a = {.e = self, .claim = claim, .data = claim->data, .err = err, .base = &base};
    if (!lk_etcd_base(a.e, claim->key, claim->key_len, &base))
        return lk_etcd_check_key(self, claim->key, claim->key_len, err);
    lk_etcd_enter(a.e->net);
    lk_etcd_call_begin_locked(a.e->net, &a.call);
    a.data->call = &a.call;
    a.call.interrupted = a.data->interrupted;
    if (a.data->place != NULL)
        a.data->place->enrolled = false;
    while (step_unlocking(&a)) {
        if (a.call.interrupted)
            a.outcome = LK_ETCD_CALL_INTERRUPTED;
        else if (lk_etcd_now_of(a.e) >= claim->attempt_until)
            a.outcome = LK_ETCD_CALL_LATE;
        if (a.outcome != LK_ETCD_CALL_DONE)
            break;
    }
    const locker_status status = judge_locked(&a);
    if (status ==
        LOCKER_UNAVAILABLE) /* the connection may be up before core learns that it was down; a refusal may end too */
        claim->retry_at = lk_etcd_now_of(a.e) + (a.over ? pause_ns : 0);
    a.data->call = NULL;
    lk_etcd_call_end_locked(a.e->net, &a.call);
    lk_etcd_leave(a.e->net);
    return status;
}

void lk_etcd_interrupt(void *self, locker_claim *claim)
{
    lk_etcd *e = self;
    lk_etcd_claim *data = claim->data;
    lk_etcd_enter(e->net);
    data->interrupted = true; /* the interrupt may come before the attempt begins */
    if (data->call != NULL)
        lk_etcd_interrupt_locked(e->net, data->call);
    lk_etcd_leave(e->net);
}
