/* share.h: who may hold a key beside whom, and riding: a shared lock on another's grant of the same locker. */
#pragma once

#include "state.h"

static inline bool lk_is_shared(const lk_claim *claim)
{
    return claim->pub.mode == LOCKER_SHARED;
}

/** Whether both can hold their key at once. Permits can only where both claims name the same number of them. */
static inline bool lk_beside(const lk_claim *a, const lk_claim *b)
{
    return (lk_is_shared(a) && lk_is_shared(b)) ||
           (a->pub.permits > 0 && a->pub.permits == b->pub.permits && a->pub.slot != b->pub.slot);
}

/** A claim that holds, contends or waits for the key here, whichever; NULL: none does. One among others that is being released doesn't
 * count: the service may have carried that out, and somebody else use the key in another way by now. */
const lk_claim *lk_user_locked(const locker *l, const lk_key *key) LK_REQUIRES(l->mutex);

/** Whether one can take the other along: shared, for the same lease, and nobody's own. */
bool lk_rides_along(const lk_claim *grant, const lk_claim *claim);
/** A shared grant of the locker that the claim, a shared one, may ride on now, without asking the service; NULL: there is none. */
lk_claim *lk_grant_to_ride_locked(locker *l, lk_key *key, const lk_claim *claim, int64_t now)
    LK_REQUIRES(l->mutex);
/** Nobody comes to ride any more on what is held of the key, or granted just now: the service may have taken it away, and word of
 * that be under way. */
void lk_shut_locked(const locker *l, const lk_key *key) LK_REQUIRES(l->mutex);
/** A handle more of the grant, for its call to attach. NULL: no memory. */
locker_handle *lk_board_locked(const locker *l, lk_claim *grant) LK_REQUIRES(l->mutex);
/** Let the first claims of the FIFO ride on the grant, as far as they can. */
void lk_take_along_locked(locker *l, lk_claim *grant, int64_t now) LK_REQUIRES(l->mutex);
/** The grant was lost before the call had its handle. */
void lk_alight_locked(locker *l, locker_handle *ride) LK_REQUIRES(l->mutex);
