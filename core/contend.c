/*
 * contend.c: waiting and attempting, the inside of a lock call. A contender makes an attempt on its caller's
 * own thread, and after BUSY sleeps until the driver wakes it or its time to try again has come.
 */
#include <string.h>

#include "request.h"

static const int64_t retry_after_outage = LK_S;

/* ------------------------------------------------------------------ waiting ---- */

/* Whether nobody knows who holds the lock: what the driver answered last, whoever asked, or says all along.
 * Silence for less than command_timeout tells nothing. */
static bool unknown_locked(const lk_request *r)
{
    const lk_key *key = r->claim->key;

    return key->holder == NULL &&
           (key->away || atomic_load_explicit(&r->l->out_of_reach, memory_order_relaxed));
}

/* A wait has ended. */
static locker_status ended_locked(const lk_request *r)
{
    return unknown_locked(r) ? LOCKER_UNAVAILABLE : LOCKER_TIMEOUT;
}

/* Why the call has to end without a grant; OK: it need not. */
static locker_status why_stop_locked(const lk_request *r)
{
    if (r->l->closing)
        return LOCKER_CLOSED;
    if ((r->claim->events & LK_CANCELED) != 0 ||
        (r->options->cancel != NULL && locker_cancel_fired(r->options->cancel)))
        return LOCKER_CANCELED;
    if (!r->try && r->deadline != LOCKER_NEVER && lk_now(r->l) >= r->deadline)
        return ended_locked(r);
    return LOCKER_OK;
}

void lk_rouse_locked(locker *l, lk_wait *wait)
{
    if (wait == NULL || lk_seat_rouse_locked(l, wait) || !wait->sleeps)
        return;
    if (l->clock->signal != NULL)
        l->clock->signal(l->clock->context, &wait->cond);
    else
        (void)pthread_cond_signal(&wait->cond);
}

/* Most calls never sleep, so the condition variable is made here. */
static void sleep_locked(lk_request *r, int64_t until)
{
    if (!r->wait.sleeps) {
        (void)locker_cond_init(&r->wait.cond); /* glibc's can't fail */
        r->wait.sleeps = true;
    }
    r->l->stats.waiting++;
    if (r->l->clock->waits != NULL)
        r->l->clock->waits(r->l->clock->context, &r->claim->pub);
    r->l->clock->wait(r->l->clock->context, &r->wait.cond, &r->l->mutex, until);
    r->l->stats.waiting--;
}

/* The same, in the seat. */
static void sit_locked(locker *l, int64_t until)
{
    l->stats.waiting++;
    lk_seat_sleep_locked(l, until);
    l->stats.waiting--;
}

/* Stand in the FIFO. OK: promoted (it contends now), or granted by a hand-over. */
locker_status lk_queue_locked(lk_request *r)
{
    lk_claim *claim = r->claim;

    if (r->try)
        return unknown_locked(r) ? LOCKER_UNAVAILABLE : LOCKER_BUSY;
    r->start_is_past = true;
    lk_fifo_append_locked(claim);
    while (claim->phase == LK_QUEUED) {
        bool receives = claim->busy_with != LK_IDLE; /* a grant is being handed over to it */
        locker_status stop = receives ? LOCKER_OK : why_stop_locked(r);

        if (stop != LOCKER_OK) {
            lk_fifo_remove_locked(claim);
            return stop;
        }
        sleep_locked(r, receives ? LOCKER_NEVER : r->deadline);
    }
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ contending ---- */

bool lk_grant_locked(locker *l, lk_claim *claim, int64_t now)
{
    lk_key *key = claim->key;
    bool handed_over = claim->phase == LK_QUEUED;

    claim->pub.valid_until =
        claim->extended > claim->pub.valid_until ? claim->extended : claim->pub.valid_until;
    if (now >= claim->pub.valid_until || (claim->events & LK_LOST_ALL) != 0 ||
        (handed_over ? (claim->events & LK_LOST_IT) != 0 : l->closing)) {
        lk_withdraw_locked(l, claim);
        return false;
    }
    if (handed_over)
        lk_fifo_remove_locked(claim);
    lk_phase_set_locked(claim, LK_GRANTED);
    claim->pub.granted_at = now;
    claim->wait = NULL;
    claim->open_handles =
        1; /* its call's, which may have to wake up first: its owner can enter again before */
    if (key->contender == claim)
        key->contender = NULL;
    key->holder = claim;
    lk_held_add_locked(l, claim);
    lk_lease_start_locked(l, claim, now);
    l->stats.acquired++;
    if ((claim->events & LK_LOST_IT) != 0)
        lk_lose_locked(l, claim); /* the call has its handle before anybody else gets the mutex */
    return true;
}

/* One attempt, with the mutex released meanwhile. */
static locker_status attempt_locked(lk_request *r, int64_t *sent)
{
    locker *l = r->l;
    lk_claim *claim = r->claim;
    locker_status status;

    *sent = r->start_is_past ? lk_now(l) : r->start; /* earlier is safe, and spares reading the clock */
    r->start_is_past = true;
    lk_busy_begin_locked(l, claim, LK_IN_ACQUIRE);
    claim->pub.retry_at = LOCKER_NEVER;
    claim->pub.asked_at = *sent;
    claim->pub.attempt_until = lk_later(*sent, l->command_timeout_ns);
    if (!r->try)
        claim->pub.attempt_until = lk_min(claim->pub.attempt_until, r->deadline);
    l->stats.attempts++;
    (void)pthread_mutex_unlock(&l->mutex);
    (void)lk_ok(&r->last);
    status = l->driver->acquire(l->self, &claim->pub, &r->last);
    (void)pthread_mutex_lock(&l->mutex);
    lk_busy_end_locked(l, claim);
    if (status == LOCKER_OK || status == LOCKER_BUSY || status == LOCKER_UNAVAILABLE)
        claim->key->away = status == LOCKER_UNAVAILABLE;
    return status;
}

/* The driver granted: is the grant still good? One whose lease ran out on its way is given back, and not told
 * as held. Without a lease the driver's own time of the grant will do: reading a clock is a seventh of a lock
 * in memory. */
static locker_status accept_locked(lk_request *r, int64_t sent)
{
    locker *l = r->l;
    lk_claim *claim = r->claim;
    int64_t now;

    if (claim->pub.valid_until == LOCKER_NEVER && !claim->pub.renewed)
        claim->pub.valid_until = lk_later(sent, claim->pub.ttl_ns);
    now = claim->pub.valid_until == LOCKER_NEVER && claim->pub.granted_at != 0 ? claim->pub.granted_at
                                                                               : lk_now(l);
    claim->key->passed = 0;
    claim->key->passing_since = now;
    if (lk_grant_locked(l, claim, now))
        return LOCKER_OK;
    /* not at once: half of the time is for others; the driver's own time may be before the call's */
    claim->pub.retry_at = lk_later(now, now > sent ? now - sent : 0);
    if ((claim->events & LK_LOST_ALL) != 0)
        return locker_error_set(&r->last, LOCKER_UNAVAILABLE, 0,
                                "the session with the service ended while the lock was asked for");
    return locker_error_set(
        &r->last, LOCKER_UNAVAILABLE, 0,
        "the lease of %lld ms was over before the service's answer arrived: take a longer ttl",
        (long long)(claim->pub.ttl_ns / LK_MS));
}

/* A session ended while the driver was asked, so the grant may have been its: that says nothing about who
 * holds the lock now. */
static bool ask_again_locked(const lk_request *r)
{
    return (r->claim->events & LK_LOST_ALL) != 0 &&
           (!r->try || lk_now(r->l) < lk_later(r->start, r->l->command_timeout_ns));
}

/* Sleep until another attempt may succeed. OK: try again. */
static locker_status wait_for_wake_locked(lk_request *r, int64_t retry_at)
{
    int64_t until = lk_min(retry_at, r->deadline);

    while ((r->claim->events & LK_WOKEN) == 0 && lk_now(r->l) < until && why_stop_locked(r) == LOCKER_OK) {
        if (lk_seat_take_locked(r->l, &r->wait))
            sit_locked(r->l, until);
        else
            sleep_locked(r, until);
    }
    lk_seat_leave_locked(r->l, &r->wait);
    return why_stop_locked(r);
}

/* What a failed attempt means for the call. OK: wait until *retry_at, or for a wake, and try again. A call
 * that waits does so over an outage, too, until its own end; one that the call's own end cut short tells
 * nothing. */
static locker_status judge_locked(lk_request *r, locker_status status, int64_t *retry_at)
{
    int64_t now = lk_now(r->l);
    bool silent = status == LOCKER_TIMEOUT && (r->try || r->claim->pub.attempt_until < r->deadline);
    locker_status stop;

    *retry_at = r->claim->pub.retry_at;
    if (silent) {
        status = locker_error_set(&r->last, LOCKER_UNAVAILABLE, 0,
                                  "the service did not answer within %lld ms (command_timeout)",
                                  (long long)(r->l->command_timeout_ns / LK_MS));
        *retry_at = now;
        r->claim->key->away = true;
    }
    stop = why_stop_locked(r);
    if (stop != LOCKER_OK)
        return stop;
    if (status == LOCKER_TIMEOUT)
        return ended_locked(r); /* a little before its time, as it was rounded */
    if (r->try || (status != LOCKER_BUSY && status != LOCKER_UNAVAILABLE))
        return status;
    if (status == LOCKER_UNAVAILABLE && *retry_at == LOCKER_NEVER) {
        if (!atomic_load_explicit(&r->l->out_of_reach, memory_order_relaxed))
            return status; /* the driver says that it is final */
        *retry_at = lk_later(now, retry_after_outage);
    }
    return LOCKER_OK;
}

/* Make attempts until there is a grant or a reason to stop. */
locker_status lk_contend_locked(lk_request *r)
{
    locker *l = r->l;
    bool seen = false;
    locker_status status = why_stop_locked(r);

    while (status == LOCKER_OK) {
        int64_t sent, retry_at;

        seen = true;
        status = attempt_locked(r, &sent);
        if (status == LOCKER_OK) {
            status = accept_locked(r, sent);
            if (status == LOCKER_OK)
                return LOCKER_OK;
            seen = false; /* it was withdrawn; the next attempt is the driver's first sight of it */
            if (ask_again_locked(r)) {
                status = why_stop_locked(r);
                continue;
            }
        }
        status = judge_locked(r, status, &retry_at);
        if (status == LOCKER_OK)
            status = wait_for_wake_locked(r, retry_at);
    }
    if (seen)
        lk_withdraw_locked(l, r->claim);
    return status;
}
