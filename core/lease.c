/*
 * lease.c: leases and the services that drivers call.
 *
 * A lease is valid until the local deadline D, counted from before the request that took or renewed it was
 * sent, so the holder knows that it lost the lock before anyone else can have it. Renewal is asked for when a
 * third of the span is over; until it is confirmed it is asked for again, each time after a third of what is
 * left; the handle is SUSPECT from two thirds on, and LOST at D. (The rule of validity is Redlock's:
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/)
 */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

static const int64_t retry_at_least = 20 * LK_MS;

static void set_next_locked(locker *l, lk_claim *claim, int64_t at)
{
    lk_heap_set_locked(l, claim, at);
    if (at < l->keeper_wakes_at)
        lk_kick_locked(l);
}

/* A fresh confirmation: valid_until is set. */
static void schedule_locked(locker *l, lk_claim *claim, int64_t now)
{
    int64_t until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);
    int64_t span = until - now;

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
    atomic_store_explicit(&claim->valid_until, claim->pub.valid_until, memory_order_relaxed);
    if (claim->pub.valid_until != LOCKER_NEVER)
        schedule_locked(l, claim, now);
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
    lk_held_remove_locked(l, claim);
    l->stats.lost++;
    lk_histogram_add(&l->stats.hold, lk_now(l) - claim->pub.granted_at);
    *l->lost_end = claim;
    l->lost_end = &claim->next;
    if (key->holder == claim)
        key->holder = NULL;
    lk_promote_locked(l, key);
    lk_kick_locked(l);
}

/* The keeper came to a lease: it is over, or wants renewal. True: renew it. */
bool lk_lease_due_locked(locker *l, lk_claim *claim, int64_t now)
{
    int64_t until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);
    int64_t wait;

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
    wait = (until - now) / 3;
    lk_heap_set_locked(l, claim, lk_min(until, now + (wait > retry_at_least ? wait : retry_at_least)));
    claim->unconfirmed = true;
    return true;
}

/* ------------------------------------------------------------------ services ---- */

static locker *locker_of(const locker_services *svc)
{
    return (locker *)(uintptr_t)svc;
}

static void wake(const locker_services *svc, locker_claim *pub)
{
    locker *l = locker_of(svc);
    lk_claim *claim = lk_claim_of(pub);

    (void)pthread_mutex_lock(&l->mutex);
    claim->events |= LK_WOKEN;
    lk_rouse_locked(l, claim->wait);
    (void)pthread_mutex_unlock(&l->mutex);
}

static void lease_extended(const locker_services *svc, locker_claim *pub, int64_t until)
{
    locker *l = locker_of(svc);
    lk_claim *claim = lk_claim_of(pub);
    int64_t now;

    (void)pthread_mutex_lock(&l->mutex);
    now = lk_now(l);
    if (claim->busy_with == LK_IN_ACQUIRE || claim->busy_with == LK_IN_PASS) {
        claim->extended = until > claim->extended ? until : claim->extended;
    } else if (claim->phase == LK_GRANTED && !lk_lease_over_locked(l, claim, now)) {
        l->stats.renewals++;
        if (until > atomic_load_explicit(&claim->valid_until, memory_order_relaxed)) {
            claim->pub.valid_until = until;
            atomic_store_explicit(&claim->valid_until, until, memory_order_relaxed);
        }
        schedule_locked(l, claim, now);
    }
    (void)pthread_mutex_unlock(&l->mutex);
}

/* All grants: those that are held, and whatever acquire or pass may have got and not yet told. */
static void lose_all_locked(locker *l, const char *why)
{
    for (lk_claim *claim = l->held, *next; claim != NULL; claim = next) {
        next = claim->next;
        claim->lost_why = why;
        lk_lose_locked(l, claim);
    }
    for (lk_wait *w = l->waits; w != NULL; w = w->next)
        w->claim->events |= LK_LOST_ALL;
}

static void lease_lost(const locker_services *svc, locker_claim *pub, const char *why)
{
    locker *l = locker_of(svc);

    (void)pthread_mutex_lock(&l->mutex);
    if (pub != NULL) {
        lk_claim_of(pub)->lost_why = why;
        lk_lose_locked(l, lk_claim_of(pub));
    } else {
        lose_all_locked(l, why);
    }
    (void)pthread_mutex_unlock(&l->mutex);
}

static void suspect(const locker_services *svc, bool out_of_reach)
{
    locker *l = locker_of(svc);

    (void)pthread_mutex_lock(&l->mutex);
    atomic_store_explicit(&l->out_of_reach, out_of_reach, memory_order_relaxed);
    if (!out_of_reach) {
        int64_t now = lk_now(l);

        for (lk_claim *claim = l->held; claim != NULL; claim = claim->next)
            if (claim->unconfirmed && claim->heap_at != LK_NOT_IN_HEAP)
                set_next_locked(l, claim, now);
    }
    (void)pthread_mutex_unlock(&l->mutex);
}

static void attend(const locker_services *svc)
{
    locker *l = locker_of(svc);

    (void)pthread_mutex_lock(&l->mutex);
    l->attend = true;
    lk_kick_locked(l);
    (void)pthread_mutex_unlock(&l->mutex);
}

static bool log_wanted(const locker_services *svc, locker_log_level level)
{
    const locker *l = locker_of(svc);

    return l->log != NULL && level <= l->log_level;
}

static void log_line(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    const locker *l = locker_of(svc);
    char text[1024];
    va_list args;

    if (!log_wanted(svc, level))
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->log(level, text, l->log_user);
}

const locker_services lk_services = {
    .wake = wake,
    .lease_extended = lease_extended,
    .lease_lost = lease_lost,
    .suspect = suspect,
    .attend = attend,
    .log_wanted = log_wanted,
    .log = log_line,
};
