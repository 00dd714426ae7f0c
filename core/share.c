/* share.c: shared claims, and riding. Readers of one locker that come together hold one grant of the service: a handle each,
 * as when an owner enters again. Riding is bounded, or readers that never end here starve a writer in another process, of
 * which only the service knows. */
#include <string.h>

#include "claim.h"
#include "lease.h"
#include "share.h"
#include "wake.h"

/* So long after a grant others ride on it while it isn't known whether somebody waits: so much later at most a writer is
 * served than behind the readers that were there before it. However many come in that time doesn't matter to it. */
static const int64_t riding_at_most = 50 * LK_MS;

const lk_claim *lk_user_locked(const locker *l, const lk_key *key)
{
    if (key->holder != NULL)
        return key->holder;
    LK_EACH(lk_claim, sharer, among, &key->sharers)
        if (sharer->phase != LK_RELEASING)
            return sharer;
    return key->contender != NULL ? key->contender : lk_fifo_first_locked(l, key);
}

bool lk_rides_along(const lk_claim *grant, const lk_claim *claim)
{
    return lk_is_shared(grant) && lk_is_shared(claim) && grant->owner == NULL && claim->owner == NULL &&
           grant->pub.renewed && claim->pub.renewed && grant->pub.ttl_ns == claim->pub.ttl_ns &&
           strcmp(grant->pub.owner, claim->pub.owner) == 0;
}

static bool is_open_locked(const locker *l, const lk_claim *grant, int64_t now) LK_REQUIRES(l->mutex)
{
    (void)l;
    return !grant->shut && (grant->pub.alone || now - grant->pub.granted_at < riding_at_most);
}

/* Return whether enough of the grant's lease is left for the claim. A try takes what it gets. A driver that renews each lease
 * confirms a short one anew before it answers a waiter, but it never sees a claim that rides, and the grant may be a try's or
 * be renewed late. So a waiter rides only on a grant with a third of its lease left, and asks the service otherwise. Where leases
 * hang on a session, the service would give it the same deadline, and a later place in line. */
static bool lasts_for_locked(const locker *l, const lk_claim *grant, const lk_claim *claim, int64_t now)
    LK_REQUIRES(l->mutex)
{
    return l->driver->renew == NULL || !claim->pub.will_wait ||
           LK_READ(grant->valid_until) - now >= grant->pub.ttl_ns / 3;
}

/* Nobody is overtaken who waits here, either. */
lk_claim *lk_grant_to_ride_locked(locker *l, lk_key *key, const lk_claim *claim, int64_t now)
{
    if (key->contender != NULL || key->writers > 0 || !lk_list_empty(&key->fifo))
        return NULL;
    LK_EACH_SAFE(lk_claim, grant, among, &key->sharers)
        if (grant->phase == LK_GRANTED && !lk_lease_over_locked(l, grant, now) &&
            lk_rides_along(grant, claim) && is_open_locked(l, grant, now) &&
            lasts_for_locked(l, grant, claim, now))
            return grant;
    return NULL;
}

void lk_shut_locked(const locker *l, const lk_key *key)
{
    LK_EACH(lk_claim, grant, among, &key->sharers)
        grant->shut = true;
    LK_EACH(lk_wait, wait, link, &l->waits)
        if (wait->claim->key == key && wait->claim->busy_with == LK_IN_ACQUIRE)
            wait->claim->events |= LK_BROKEN;
}

locker_handle *lk_board_locked(const locker *l, lk_claim *grant)
{
    locker_handle *const ride = malloc(sizeof *ride);
    (void)l;
    if (ride == NULL)
        return NULL;
    ride->claim = grant;
    grant->refs++;
    grant->open_handles++;
    return ride;
}

/* A claim that can't ride, or for which there is no memory, stays in the FIFO and asks the service itself. */
void lk_take_along_locked(locker *l, lk_claim *grant, int64_t now)
{
    lk_key *const key = grant->key;
    for (lk_claim *next; (next = lk_fifo_first_locked(l, key)) != NULL && lk_rides_along(grant, next) &&
                         lasts_for_locked(l, grant, next, now);) {
        next->ride = lk_board_locked(l, grant);
        if (next->ride == NULL)
            return;
        lk_list_remove(&next->link);
        LK_WRITE(next->phase, LK_GONE);
        lk_wake_call_locked(l, next->wait);
    }
}

void lk_alight_locked(locker *l, locker_handle *ride)
{
    ride->claim->open_handles--;
    lk_claim_unref_locked(l, ride->claim);
    free(ride);
}
