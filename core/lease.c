/* lease.c: leases, and which one is due next. ARCHITECTURE.md says when a lease is renewed, SUSPECT and LOST. (The rule
 * of validity is Redlock's: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/) */
#include "lease.h"
#include "claim.h"
#include "wake.h"

/* A heap with up to eight below each: each step that a lease moves writes to a claim, seldom in a cache. */
enum { BELOW = 8 };

bool lk_heap_grow_locked(locker *l)
{
    const size_t cap = l->heap_cap == 0 ? 64 : l->heap_cap * 2;
    lk_due *const heap = cap < LK_NOT_IN_HEAP ? realloc(l->heap, cap * sizeof *heap) : NULL;
    if (heap == NULL)
        return false;
    l->heap = heap;
    l->heap_cap = cap;
    return true;
}

static void put_locked(const locker *l, lk_due *heap, size_t i, lk_due due) LK_REQUIRES(l->mutex)
{
    (void)l; /* its mutex guards claims, too */
    heap[i] = due;
    due.claim->heap_at = (uint32_t)i;
}

/* Which of `n` is due first. */
static inline size_t least_of(const lk_due *heap, size_t n)
{
    size_t least = 0;
    for (size_t i = 1; i < n; i++)
        if (heap[i].at < heap[least].at)
            least = i;
    return least;
}

/* The one that is due first of those below; past the heap's end: there is none. Mostly there are as many as can be: with a
 * constant for their number the compiler needs no loop. */
static size_t least_below(const lk_due *heap, size_t len, size_t i)
{
    const size_t first = BELOW * i + 1;
    if (first + BELOW <= len)
        return first + least_of(heap + first, BELOW);
    return first < len ? first + least_of(heap + first, len - first) : first;
}

/* Place `i` is free for it, or near its own. Heap and length are read once: as far as the compiler knows, writing to a claim
 * may change the locker. */
static void place_locked(const locker *l, size_t i, lk_due due) LK_REQUIRES(l->mutex)
{
    lk_due *const heap = l->heap;
    const size_t len = l->heap_len;
    for (; i > 0 && heap[(i - 1) / BELOW].at > due.at; i = (i - 1) / BELOW)
        put_locked(l, heap, i, heap[(i - 1) / BELOW]);
    for (size_t n; (n = least_below(heap, len, i)) < len && heap[n].at < due.at; i = n)
        put_locked(l, heap, i, heap[n]);
    put_locked(l, heap, i, due);
}

/* Put the claim's lease at its place, wherever it was. */
static void set_due_locked(locker *l, lk_claim *claim, int64_t at) LK_REQUIRES(l->mutex)
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

static const int64_t retry_at_least = 20 * LK_MS;

static void set_next_locked(locker *l, lk_claim *claim, int64_t at) LK_REQUIRES(l->mutex)
{
    set_due_locked(l, claim, at);
    if (at < l->keeper_wakes_at)
        lk_wake_keeper_locked(l);
}

/* A fresh confirmation: valid_until is set. */
static void schedule_locked(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex)
{
    const int64_t until = LK_READ(claim->valid_until);
    const int64_t span = until - now;
    claim->unconfirmed = claim->late = false;
    if (!claim->pub.renewed) {
        set_next_locked(l, claim, until);
        return;
    }
    LK_WRITE(claim->suspect_at, until - span / 3);
    set_next_locked(l, claim, l->driver->renew == NULL ? until - span / 3 : now + span / 3);
}

void lk_lease_start_locked(locker *l, lk_claim *claim, int64_t now)
{
    lk_list_prepend(&l->held, &claim->link);
    l->stats.held++;
    LK_WRITE(claim->valid_until, claim->pub.valid_until);
    if (claim->pub.valid_until != LOCKER_NEVER)
        schedule_locked(l, claim, now);
}

void lk_lease_end_locked(locker *l, lk_claim *claim, int64_t now)
{
    lk_list_remove(&claim->link);
    l->stats.held--;
    lk_histogram_add(&l->stats.hold, now - claim->pub.granted_at);
}

void lk_lose_locked(locker *l, lk_claim *claim)
{
    if (claim->phase != LK_GRANTED) {
        claim->events |= LK_LOST_IT;
        return;
    }
    LK_WRITE(claim->phase, LK_LOST);
    lk_heap_remove_locked(l, claim);
    lk_lease_end_locked(l, claim, lk_now(l));
    l->stats.lost++;
    lk_list_append(&l->lost, &claim->link);
    lk_key_free_locked(l, claim);
    lk_wake_keeper_locked(l);
}

bool lk_lease_due_locked(locker *l, lk_claim *claim, int64_t now)
{
    const int64_t until = LK_READ(claim->valid_until);
    if (lk_lease_over_locked(l, claim, now))
        return false;
    if (!claim->late && claim->pub.renewed && now >= LK_READ(claim->suspect_at)) {
        claim->late = true;
        l->stats.renewals_late++;
    }
    if (!claim->pub.renewed || l->driver->renew == NULL) {
        set_due_locked(l, claim, until);
        return false;
    }
    const int64_t wait = (until - now) / 3;
    set_due_locked(l, claim, lk_time_earlier(until, now + lk_time_later(wait, retry_at_least)));
    claim->unconfirmed = true;
    return true;
}

void lk_lease_confirm_locked(locker *l, lk_claim *claim, int64_t until)
{
    const int64_t now = lk_now(l), last = LK_READ(claim->valid_until);
    if (claim->phase != LK_GRANTED || lk_lease_over_locked(l, claim, now))
        return;
    if (until > last) {
        claim->pub.valid_until = until;
        atomic_store(&claim->valid_until, until); /* before the clock is read */
        if (lk_now(l) >= last) { /* this thread stood meanwhile, and a handle may have said LOST: so it is */
            lk_lose_locked(l, claim);
            return;
        }
    }
    l->stats.renewals++;
    schedule_locked(l, claim, now);
}

/* A heap place is set even where the deadline stays: the driver doubts the lease, and a renewal tells. */
void lk_lease_shorten_locked(locker *l, lk_claim *claim, int64_t until)
{
    const int64_t now = lk_now(l);
    if (claim->phase != LK_GRANTED)
        return;
    until = lk_time_earlier(until, LK_READ(claim->valid_until));
    claim->pub.valid_until = until;
    atomic_store(&claim->valid_until, until);
    if (lk_lease_over_locked(l, claim, now))
        return;
    LK_WRITE(claim->suspect_at, lk_time_earlier(LK_READ(claim->suspect_at), until - (until - now) / 3));
    set_next_locked(l, claim, claim->pub.renewed && l->driver->renew != NULL ? now : until);
}

void lk_lease_hasten_locked(locker *l)
{
    const int64_t now = lk_now(l);
    LK_EACH(lk_claim, claim, link, &l->held)
        if (claim->unconfirmed && claim->heap_at != LK_NOT_IN_HEAP)
            set_next_locked(l, claim, now);
}

/* A claim that is released stays in the list of what is held, with the event that it was lost. */
void lk_lose_all_locked(locker *l, const char *why)
{
    LK_EACH_SAFE(lk_claim, claim, link, &l->held) {
        claim->lost_why = why;
        lk_lose_locked(l, claim);
    }
    LK_EACH(lk_wait, wait, link, &l->waits)
        wait->claim->events |= LK_LOST_ALL;
}
