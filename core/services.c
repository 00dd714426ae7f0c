/* services.c: what drivers call, from any thread, also with their own locks held. */
#include "lease.h"
#include "wake.h"

static void wake(const locker_services *svc, locker_claim *pub)
{
    locker *l = lk_locker_of(svc);
    lk_claim *claim = lk_claim_of(pub);
    lk_mutex_lock(&l->mutex);
    claim->events |= LK_WOKEN;
    lk_wake_call_locked(l, claim->wait);
    lk_mutex_unlock(&l->mutex);
}

/* What comes while the driver grants is a part of the grant. */
static void lease_extended(const locker_services *svc, locker_claim *pub, int64_t until)
{
    locker *const l = lk_locker_of(svc);
    lk_claim *const claim = lk_claim_of(pub);
    lk_mutex_lock(&l->mutex);
    if (claim->busy_with == LK_IN_ACQUIRE || claim->busy_with == LK_IN_PASS)
        claim->extended = lk_time_later(claim->extended, until);
    else
        lk_lease_confirm_locked(l, claim, until);
    lk_mutex_unlock(&l->mutex);
}

/* What comes while the driver grants is a part of the grant. */
static void lease_shortened(const locker_services *svc, locker_claim *pub, int64_t until)
{
    locker *const l = lk_locker_of(svc);
    lk_claim *const claim = lk_claim_of(pub);
    lk_mutex_lock(&l->mutex);
    if (claim->busy_with == LK_IN_ACQUIRE || claim->busy_with == LK_IN_PASS)
        claim->shortened = lk_time_earlier(claim->shortened, until);
    else
        lk_lease_shorten_locked(l, claim, until);
    lk_mutex_unlock(&l->mutex);
}

static void lease_lost(const locker_services *svc, locker_claim *pub, const char *why)
{
    locker *l = lk_locker_of(svc);
    lk_mutex_lock(&l->mutex);
    if (pub != NULL) {
        lk_claim_of(pub)->lost_why = why;
        lk_lose_locked(l, lk_claim_of(pub));
    } else {
        lk_lose_all_locked(l, why);
    }
    lk_mutex_unlock(&l->mutex);
}

static void suspect(const locker_services *svc, bool out_of_reach)
{
    locker *l = lk_locker_of(svc);
    lk_mutex_lock(&l->mutex);
    LK_WRITE(l->out_of_reach, out_of_reach);
    if (!out_of_reach)
        lk_lease_hasten_locked(l);
    lk_mutex_unlock(&l->mutex);
}

static void attend(const locker_services *svc)
{
    locker *l = lk_locker_of(svc);
    lk_mutex_lock(&l->mutex);
    l->attend = true;
    lk_wake_keeper_locked(l);
    lk_mutex_unlock(&l->mutex);
}

static void awaited(const locker_services *svc, locker_claim *grant)
{
    locker *l = lk_locker_of(svc);
    lk_mutex_lock(&l->mutex);
    grant->alone = false;
    lk_claim_of(grant)->shut = true;
    lk_mutex_unlock(&l->mutex);
}

const locker_services lk_services = {
    .size = sizeof(locker_services),
    .wake = wake,
    .lease_extended = lease_extended,
    .lease_lost = lease_lost,
    .suspect = suspect,
    .attend = attend,
    .log_wanted = lk_log_wanted,
    .log = lk_log,
    .awaited = awaited,
    .lease_shortened = lease_shortened,
};
