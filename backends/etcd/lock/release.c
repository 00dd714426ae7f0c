/* release.c: releasing a place: with a caller that wants an answer (release), or without (withdraw). */
#include "lk_error.h"
#include "place.h"

static const int64_t pause_ns = 20 * LK_MS;

void lk_etcd_withdraw(void *self, locker_claim *claim)
{
    lk_etcd *e = self;
    lk_etcd_claim *data = claim->data;
    lk_etcd_enter(e->net);
    if (data->place != NULL)
        lk_etcd_place_leave_locked(e, data->place);
    data->place = NULL;
    lk_etcd_leave(e->net);
}

/* Return what unlock answers, by how the place ended. */
static locker_status judge_locked(const lk_etcd *e, const lk_etcd_place *p, locker_error *err)
    LK_REQUIRES(*e->net)
{
    if (p->removal == LK_ETCD_FLIGHT_DONE)
        return LOCKER_OK;
    if (p->step == LK_ETCD_GONE && !lk_etcd_may_come(p->removal))
        return lk_lost(err, "the lock was lost before unlock: its key was deleted, or its lease ended");
    if (p->step == LK_ETCD_GONE)
        return locker_error_set(
            err, LOCKER_UNKNOWN, 0,
            "an answer was lost during unlock: the lock has ended, but it may have been lost before unlock");
    if (p->step == LK_ETCD_FAILED && err != NULL)
        *err = p->error;
    else
        (void)lk_etcd_away_locked(e->net, err);
    if (err != NULL)
        err->status = LOCKER_UNKNOWN; /* the text says why the result is unknown */
    return LOCKER_UNKNOWN;
}

static void await_unlocking(lk_etcd *e, lk_etcd_place *p, lk_etcd_call *call, int64_t until)
    LK_REQUIRES(*e->net)
{
    lk_etcd_outcome outcome = LK_ETCD_CALL_DONE;
    while (p->step != LK_ETCD_GONE && p->step != LK_ETCD_FAILED && outcome == LK_ETCD_CALL_DONE) {
        if (!lk_etcd_is_up_locked(e->net)) {
            outcome = lk_etcd_await_up_unlocking(e->net, call, false, until);
            continue;
        }
        const int64_t now = lk_etcd_now_of(e);
        const bool pauses = p->unanswered && now + pause_ns < until;
        if (!p->unanswered)
            lk_etcd_place_delete_locked(e, p);
        p->unanswered = false;
        call->done = false;
        outcome = lk_etcd_await_unlocking(e->net, call, pauses ? now + pause_ns : until);
        if (pauses && outcome == LK_ETCD_CALL_LATE)
            outcome = LK_ETCD_CALL_DONE;
    }
}

/* End the grant: from now on core learns nothing more of it. */
static void end_grant_locked(lk_etcd_place *p)
{
    if (p->granted_at != 0)
        lk_list_remove(&p->more);
    p->granted_at = 0;
}

void lk_etcd_begin_release(void *self, locker_claim *const *grants, size_t count)
{
    lk_etcd *const e = self;
    lk_etcd_enter(e->net);
    for (size_t i = 0; i < count; i++) {
        lk_etcd_place *const p = ((const lk_etcd_claim *)grants[i]->data)->place;
        if (p == NULL || p->step == LK_ETCD_FAILED)
            continue;
        end_grant_locked(p);
        if (!lk_etcd_is_up_locked(e->net))
            continue;
        p->unanswered = false; /* the pause has passed while other places were released */
        lk_etcd_place_delete_locked(e, p);
    }
    lk_etcd_leave(e->net);
}

locker_status lk_etcd_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    lk_etcd *e = self;
    lk_etcd_claim *data = grant->data;
    lk_etcd_call call;
    lk_etcd_enter(e->net);
    lk_etcd_place *const p = data->place;
    data->place = NULL;
    if (p == NULL) {
        lk_etcd_leave(e->net);
        return lk_lost(err, "the lock was lost before unlock");
    }
    lk_etcd_call_begin_locked(e->net, &call);
    end_grant_locked(p);
    p->call = &call;
    await_unlocking(e, p, &call, until);
    const locker_status status = judge_locked(e, p, err);
    lk_etcd_place_leave_locked(e, p);
    lk_etcd_call_end_locked(e->net, &call);
    lk_etcd_leave(e->net);
    return status;
}
