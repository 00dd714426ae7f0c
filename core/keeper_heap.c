/* keeper_heap.c: the leases, ordered by the time when the keeper has to look at them (a binary heap). The
 * caller holds locker.mutex. Places are reserved before a lock is asked for, so that a grant never fails for
 * want of memory. */
#include <stdlib.h>

#include "internal.h"

bool lk_heap_reserve_locked(locker *l)
{
    if (l->heap_len + l->heap_reserved == l->heap_cap) {
        size_t cap = l->heap_cap == 0 ? 64 : l->heap_cap * 2;
        lk_claim **heap = cap < LK_NOT_IN_HEAP ? realloc(l->heap, cap * sizeof *heap) : NULL;

        if (heap == NULL)
            return false;
        l->heap = heap;
        l->heap_cap = cap;
    }
    l->heap_reserved++;
    return true;
}

void lk_heap_unreserve_locked(locker *l)
{
    l->heap_reserved--;
}

static void put(locker *l, size_t i, lk_claim *claim)
{
    l->heap[i] = claim;
    claim->heap_at = (uint32_t)i;
}

static size_t sift_up(locker *l, size_t i, lk_claim *claim)
{
    while (i > 0 && l->heap[(i - 1) / 2]->next_at > claim->next_at) {
        put(l, i, l->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put(l, i, claim);
    return i;
}

static void sift_down(locker *l, size_t i, lk_claim *claim)
{
    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < l->heap_len && l->heap[child + 1]->next_at < l->heap[child]->next_at)
            child++;
        if (child >= l->heap_len || l->heap[child]->next_at >= claim->next_at)
            break;
        put(l, i, l->heap[child]);
        i = child;
    }
    put(l, i, claim);
}

void lk_heap_set_locked(locker *l, lk_claim *claim, int64_t at)
{
    size_t i = claim->heap_at;

    claim->next_at = at;
    if (i == LK_NOT_IN_HEAP)
        i = l->heap_len++;
    i = sift_up(l, i, claim);
    sift_down(l, i, claim);
}

void lk_heap_remove_locked(locker *l, lk_claim *claim)
{
    size_t i = claim->heap_at;
    lk_claim *last;

    if (i == LK_NOT_IN_HEAP)
        return;
    claim->heap_at = LK_NOT_IN_HEAP;
    last = l->heap[--l->heap_len];
    if (last == claim)
        return;
    i = sift_up(l, i, last);
    sift_down(l, i, last);
}
