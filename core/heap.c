/*
 * heap.c: the leases, ordered by the time when the keeper has to look at them: a heap in which each
 * has up to eight below it, because each step that a lease moves writes to a claim, which is seldom in a
 * cache. The caller holds locker.mutex. Places are reserved before a lock is asked for, so that a grant never
 * fails for want of memory.
 */
#include <stdlib.h>

#include "heap.h"

enum { BELOW = 8 };

bool lk_heap_reserve_locked(locker *l)
{
    /* A call whose lock was handed over counts twice until it wakes up. */
    if (l->heap_len + l->heap_reserved >= l->heap_cap) {
        const size_t cap = l->heap_cap == 0 ? 64 : l->heap_cap * 2;
        lk_due *heap = cap < LK_NOT_IN_HEAP ? realloc(l->heap, cap * sizeof *heap) : NULL;

        if (heap == NULL)
            return false;
        l->heap = heap;
        l->heap_cap = cap;
    }
    l->heap_reserved++;
    return true;
}

static void put_locked(locker *l, size_t i, lk_due due) LK_REQUIRES(l->mutex)
{
    l->heap[i] = due;
    due.claim->heap_at = (uint32_t)i;
}

static size_t sift_up_locked(locker *l, size_t i, lk_due due) LK_REQUIRES(l->mutex)
{
    while (i > 0 && l->heap[(i - 1) / BELOW].at > due.at) {
        put_locked(l, i, l->heap[(i - 1) / BELOW]);
        i = (i - 1) / BELOW;
    }
    return i;
}

static size_t sift_down_locked(locker *l, size_t i, lk_due due) LK_REQUIRES(l->mutex)
{
    for (;;) {
        size_t first = BELOW * i + 1, least = first;

        for (size_t n = first + 1; n < first + BELOW && n < l->heap_len; n++)
            if (l->heap[n].at < l->heap[least].at)
                least = n;
        if (least >= l->heap_len || l->heap[least].at >= due.at)
            return i;
        put_locked(l, i, l->heap[least]);
        i = least;
    }
}

/* Place `i` is free for it, or near its own. */
static void place_locked(locker *l, size_t i, lk_due due) LK_REQUIRES(l->mutex)
{
    put_locked(l, sift_down_locked(l, sift_up_locked(l, i, due), due), due);
}

void lk_heap_set_locked(locker *l, lk_claim *claim, int64_t at)
{
    place_locked(l, claim->heap_at == LK_NOT_IN_HEAP ? l->heap_len++ : claim->heap_at, (lk_due){at, claim});
}

void lk_heap_remove_locked(locker *l, lk_claim *claim)
{
    const size_t i = claim->heap_at;
    if (i == LK_NOT_IN_HEAP)
        return;
    claim->heap_at = LK_NOT_IN_HEAP;
    lk_due last = l->heap[--l->heap_len];
    if (last.claim != claim)
        place_locked(l, i, last);
}
