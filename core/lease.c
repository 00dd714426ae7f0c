/*
 * lease.c: leases.
 *
 * A lease is valid until the local deadline D, counted from before the request that took or renewed it was
 * sent, so the holder knows that it lost the lock before anyone else can have it. Renewal is asked for when a
 * third of the span is over; until it is confirmed it is asked for again, each time after a third of what is
 * left; the handle is SUSPECT from two thirds on, and LOST at D. (The rule of validity is Redlock's:
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/)
 */
#include "lease.h"
#include "clock.h"
#include "heap.h"
#include "keys.h"
#include "stats.h"
#include "wake.h"

static const int64_t retry_at_least = 20 * LK_MS;

static void set_next_locked(locker *l, lk_claim *claim, int64_t at) LK_REQUIRES(l->mutex)
{
    lk_heap_set_locked(l, claim, at);
    if (at < l->keeper_wakes_at)
        lk_wake_keeper_locked(l);
}

/* A fresh confirmation: valid_until is set. */
static void schedule_locked(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex)
{
    const int64_t until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);
    const int64_t span = until - now;
    claim->unconfirmed = claim->late = false;
    if (!claim->pub.renewed) {
        set_next_locked(l, claim, until);
        return;
    }
    atomic_store_explicit(&claim->suspect_at, until - span / 3, memory_order_relaxed);
    set_next_locked(l, claim, l->driver->renew == NULL ? until - span / 3 : now + span / 3);
}

void lk_lease_start_locked(locker *l, lk_claim *claim, int64_t now)
{
    lk_list_prepend(&l->held, &claim->link);
    l->stats.held++;
    atomic_store_explicit(&claim->valid_until, claim->pub.valid_until, memory_order_relaxed);
    if (claim->pub.valid_until != LOCKER_NEVER)
        schedule_locked(l, claim, now);
}

void lk_lease_end_locked(locker *l, lk_claim *claim)
{
    lk_list_remove(&claim->link);
    l->stats.held--;
}

void lk_lose_locked(locker *l, lk_claim *claim)
{
    lk_key *key = claim->key;
    if (claim->phase != LK_GRANTED) {
        claim->events |= LK_LOST_IT;
        return;
    }
    lk_phase_set_locked(claim, LK_LOST);
    lk_heap_remove_locked(l, claim);
    lk_lease_end_locked(l, claim);
    l->stats.lost++;
    lk_histogram_add(&l->stats.hold, lk_now(l) - claim->pub.granted_at);
    lk_list_append(&l->lost, &claim->link);
    if (key->holder == claim)
        key->holder = NULL;
    lk_promote_locked(l, key);
    lk_wake_keeper_locked(l);
}

/* The keeper came to a lease: it is over, or wants renewal. True: renew it. */
bool lk_lease_due_locked(locker *l, lk_claim *claim, int64_t now)
{
    const int64_t until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);
    if (lk_lease_over_locked(l, claim, now))
        return false;
    if (!claim->late && claim->pub.renewed &&
        now >= atomic_load_explicit(&claim->suspect_at, memory_order_relaxed)) {
        claim->late = true;
        l->stats.renewals_late++;
    }
    if (!claim->pub.renewed || l->driver->renew == NULL) {
        lk_heap_set_locked(l, claim, until);
        return false;
    }
    const int64_t wait = (until - now) / 3;
    lk_heap_set_locked(l, claim, lk_time_earlier(until, now + lk_time_later(wait, retry_at_least)));
    claim->unconfirmed = true;
    return true;
}

void lk_lease_confirm_locked(locker *l, lk_claim *claim, int64_t until)
{
    const int64_t now = lk_now(l);
    if (claim->phase != LK_GRANTED || lk_lease_over_locked(l, claim, now))
        return;
    l->stats.renewals++;
    if (until > atomic_load_explicit(&claim->valid_until, memory_order_relaxed)) {
        claim->pub.valid_until = until;
        atomic_store_explicit(&claim->valid_until, until, memory_order_relaxed);
    }
    schedule_locked(l, claim, now);
}

void lk_lease_hasten_locked(locker *l)
{
    const int64_t now = lk_now(l);
    LK_LIST_EACH(link, &l->held) {
        lk_claim *const claim = LK_CONTAINER(link, lk_claim, link);

        if (claim->unconfirmed && claim->heap_at != LK_NOT_IN_HEAP)
            set_next_locked(l, claim, now);
    }
}

/* A claim that is released stays in the list of what is held, with the event that it was lost. */
void lk_lose_all_locked(locker *l, const char *why)
{
    LK_LIST_EACH_SAFE(link, &l->held) {
        lk_claim *const claim = LK_CONTAINER(link, lk_claim, link);

        claim->lost_why = why;
        lk_lose_locked(l, claim);
    }
    LK_LIST_EACH(link, &l->waits)
        LK_CONTAINER(link, lk_wait, link)->claim->events |= LK_LOST_ALL;
}
