/* grant.c: what the driver granted becomes a lock that is held, or is withdrawn. */
#include <string.h>

#include "grant.h"
#include "lease.h"

void lk_withdraw_unlocking(locker *l, lk_claim *claim)
{
    lk_busy_begin_unlocking(l, claim, LK_IN_RELEASE);
    lk_mutex_unlock(&l->mutex);
    l->driver->withdraw(l->self, &claim->pub);
    lk_mutex_lock(&l->mutex);
    lk_busy_end_unlocking(l, claim);
    memset(claim->pub.data, 0, l->driver->claim_size);
    claim->pub.granted_at = 0;
}

bool lk_grant_unlocking(locker *l, lk_claim *claim, int64_t now)
{
    lk_key *const key = claim->key;
    const bool handed_over = claim->phase == LK_QUEUED;
    claim->pub.valid_until = lk_time_later(claim->pub.valid_until, claim->extended);
    if (now >= claim->pub.valid_until || (claim->events & LK_LOST_ALL) != 0 ||
        (handed_over ? (claim->events & LK_LOST_IT) != 0 : l->closing)) {
        lk_withdraw_unlocking(l, claim);
        return false;
    }
    if (handed_over)
        lk_list_remove(&claim->link);
    LK_WRITE(claim->phase, LK_GRANTED);
    claim->pub.granted_at = now;
    claim->wait = NULL;
    claim->open_handles =
        1; /* its call's, which may have to wake up first: its owner can enter again before */
    if (key->contender == claim)
        key->contender = NULL;
    key->holder = claim;
    lk_lease_start_locked(l, claim, now);
    l->stats.acquired++;
    if ((claim->events & LK_LOST_IT) != 0)
        lk_lose_locked(l, claim); /* the call has its handle before anybody else gets the mutex */
    return true;
}
