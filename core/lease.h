/* lease.h: when a lease is looked at, by a heap of them; when it is in doubt and when it is over. */
#pragma once

#include "state.h"

/** Make room in the heap. False: no memory. */
bool lk_heap_grow_locked(locker *l) LK_REQUIRES(l->mutex);
/** Promise a place in the heap to a call in flight, so that its grant doesn't fail for want of memory. False: there is
 * none. A call whose lock was handed over counts twice until it wakes up. */
static inline bool lk_heap_reserve_locked(locker *l) LK_REQUIRES(l->mutex)
{
    if (l->heap_len + l->heap_reserved >= l->heap_cap && !lk_heap_grow_locked(l))
        return false;
    l->heap_reserved++;
    return true;
}
void lk_heap_remove_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);

/** The claim is granted, until pub.valid_until: among what is held, and with the keeper. */
void lk_lease_start_locked(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex);
/** It is held no more. */
void lk_lease_end_locked(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex);
/** The keeper came to a lease whose time it is; true: renew it. */
bool lk_lease_due_locked(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex);
/** It is confirmed until then, at least. */
void lk_lease_confirm_locked(locker *l, lk_claim *claim, int64_t until) LK_REQUIRES(l->mutex);
/** It is ours until then at most. One that is renewed is due at once. */
void lk_lease_shorten_locked(locker *l, lk_claim *claim, int64_t until) LK_REQUIRES(l->mutex);
/** The service is back: whatever is not confirmed is due. */
void lk_lease_hasten_locked(locker *l) LK_REQUIRES(l->mutex);
void lk_lose_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** All grants: those that are held, and whatever acquire or pass may have got and not yet told. */
void lk_lose_all_locked(locker *l, const char *why) LK_REQUIRES(l->mutex);

/** Whether the claim is lost, by its deadline too. */
static inline bool lk_lease_over_locked(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex)
{
    if (claim->phase == LK_GRANTED && now >= LK_READ(claim->valid_until))
        lk_lose_locked(l, claim);
    return claim->phase == LK_LOST;
}
