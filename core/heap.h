/* heap.h: the leases, ordered by the time when the keeper has to look at them. */
#pragma once

#include "state.h"

/** Promise a place to a call in flight, so that its grant doesn't fail for want of memory. False: there is none. */
bool lk_heap_reserve_locked(locker *l) LK_REQUIRES(l->mutex);
static inline void lk_heap_unreserve_locked(locker *l) LK_REQUIRES(l->mutex)
{
    l->heap_reserved--;
}

/** Put the claim's lease at its place, wherever it was. */
void lk_heap_set_locked(locker *l, lk_claim *claim, int64_t at) LK_REQUIRES(l->mutex);
void lk_heap_remove_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
