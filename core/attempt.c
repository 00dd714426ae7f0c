/*
 * attempt.c: the inside of a lock call: standing in the FIFO, attempting, waiting. A contender makes an attempt on its
 * caller's own thread, and after BUSY sleeps until the driver wakes it or its time to try again has come.
 */
#include <locker/instrument.h>

#include "attempt.h"
#include "claim.h"
#include "error.h"
#include "grant.h"

static const int64_t retry_after_outage = LK_S;

/* ------------------------------------------------------------------ waiting ---- */

/* The answer, unless nobody knows who holds the lock: by what the driver answered last, whoever asked, or says all
 * along. Silence for less than command_timeout tells nothing. */
static locker_status unless_unknown_locked(const lk_request *r, locker_status status) LK_REQUIRES(r->l->mutex)
{
    const lk_key *key = r->claim->key;
    const bool unknown = key->holder == NULL && (key->away || LK_READ(r->l->out_of_reach));
    return unknown ? LOCKER_UNAVAILABLE : status;
}

/* Why the call has to end without a grant; OK: it need not. */
static locker_status why_stop_locked(const lk_request *r) LK_REQUIRES(r->l->mutex)
{
    if (r->l->closing)
        return LOCKER_CLOSED;
    if ((r->claim->events & LK_CANCELED) != 0 ||
        (r->options->cancel != NULL && locker_cancel_fired(r->options->cancel)))
        return LOCKER_CANCELED;
    if (!r->try && r->deadline != LOCKER_NEVER && lk_now(r->l) >= r->deadline)
        return unless_unknown_locked(r, LOCKER_TIMEOUT);
    return LOCKER_OK;
}

/* Most calls never sleep, so the condition variable is made here. */
static void sleep_unlocking(lk_request *r, int64_t until) LK_REQUIRES(r->l->mutex)
{
    const locker_clock *const clock = &r->l->clock;
    if (!r->wait.sleeps) {
        (void)locker_cond_init(&r->wait.cond); /* glibc's can't fail */
        r->wait.sleeps = true;
    }
    if (clock->hooks != NULL && clock->hooks->waits != NULL)
        clock->hooks->waits(clock->context, &r->claim->pub);
    clock->wait(clock->context, &r->wait.cond, &r->l->mutex.plain, until);
}

locker_status lk_fifo_wait_unlocking(lk_request *r)
{
    lk_claim *claim = r->claim;
    if (r->try)
        return unless_unknown_locked(r, LOCKER_BUSY);
    r->start_is_past = true;
    LK_WRITE(claim->phase, LK_QUEUED);
    lk_list_append(&claim->key->fifo, &claim->link);
    while (claim->phase == LK_QUEUED) {
        const bool receives = claim->busy_with != LK_IDLE; /* a grant is being handed over to it */
        const locker_status stop = receives ? LOCKER_OK : why_stop_locked(r);
        if (stop != LOCKER_OK) {
            lk_list_remove(&claim->link);
            return stop;
        }
        r->l->stats.waiting++;
        sleep_unlocking(r, receives ? LOCKER_NEVER : r->deadline);
        r->l->stats.waiting--;
    }
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ contending ---- */

/* One attempt, with the mutex released meanwhile. */
static locker_status attempt_unlocking(lk_request *r) LK_REQUIRES(r->l->mutex)
{
    lk_claim *claim = r->claim;
    const int64_t sent =
        r->start_is_past ? lk_now(r->l) : r->start; /* earlier is safe, and spares reading the clock */
    claim->pub.has_waited = r->start_is_past;
    r->start_is_past = true;
    lk_busy_begin_unlocking(r->l, claim, LK_IN_ACQUIRE);
    claim->pub.retry_at = LOCKER_NEVER;
    claim->pub.asked_at = sent;
    claim->pub.attempt_until = lk_time_after(sent, r->l->command_timeout_ns);
    if (!r->try)
        claim->pub.attempt_until = lk_time_earlier(claim->pub.attempt_until, r->deadline);
    r->l->stats.attempts++;
    lk_mutex_unlock(&r->l->mutex);
    (void)lk_ok(&r->last);
    const locker_status status = r->l->driver->acquire(r->l->self, &claim->pub, &r->last);
    lk_mutex_lock(&r->l->mutex);
    lk_busy_end_unlocking(r->l, claim);
    if (status == LOCKER_OK || status == LOCKER_BUSY || status == LOCKER_UNAVAILABLE)
        claim->key->away = status == LOCKER_UNAVAILABLE;
    return status;
}

/* The driver granted: is the grant still good? One whose lease ran out on its way is given back, and not told
 * as held. Without a lease the driver's own time of the grant will do: reading a clock is a seventh of a lock
 * in memory. */
static locker_status accept_unlocking(lk_request *r) LK_REQUIRES(r->l->mutex)
{
    lk_claim *claim = r->claim;
    const int64_t sent = claim->pub.asked_at;
    if (claim->pub.valid_until == LOCKER_NEVER && !claim->pub.renewed)
        claim->pub.valid_until = lk_time_after(sent, claim->pub.ttl_ns);
    const int64_t now = claim->pub.valid_until == LOCKER_NEVER && claim->pub.granted_at != 0
                            ? claim->pub.granted_at
                            : lk_now(r->l);
    claim->key->passed = 0;
    claim->key->passing_since = now;
    if (lk_grant_unlocking(r->l, claim, now))
        return LOCKER_OK;
    /* not at once: half of the time is for others; the driver's own time may be before the call's */
    claim->pub.retry_at = lk_time_after(now, now > sent ? now - sent : 0);
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
static bool ask_again_locked(const lk_request *r) LK_REQUIRES(r->l->mutex)
{
    return (r->claim->events & LK_LOST_ALL) != 0 &&
           (!r->try || lk_now(r->l) < lk_time_after(r->start, r->l->command_timeout_ns));
}

/* Sleep until another attempt may succeed. OK: try again. */
static locker_status wait_for_wake_unlocking(lk_request *r) LK_REQUIRES(r->l->mutex)
{
    const int64_t until = lk_time_earlier(r->claim->pub.retry_at, r->deadline);
    while ((r->claim->events & LK_WOKEN) == 0 && lk_now(r->l) < until && why_stop_locked(r) == LOCKER_OK) {
        r->l->stats.waiting++;
        if (lk_leader_take_locked(r->l, &r->wait))
            lk_leader_sleep_unlocking(r->l, until);
        else
            sleep_unlocking(r, until);
        r->l->stats.waiting--;
    }
    lk_leader_leave_locked(r->l, &r->wait);
    return why_stop_locked(r);
}

/* What a failed attempt means for the call. OK: wait until retry_at, or for a wake, and try again. A call
 * that waits does so over an outage, too, until its own end; one that the call's own end cut short tells
 * nothing. */
static locker_status judge_locked(lk_request *r, locker_status status) LK_REQUIRES(r->l->mutex)
{
    int64_t *const retry_at = &r->claim->pub.retry_at;
    const int64_t now = lk_now(r->l);
    const bool silent = status == LOCKER_TIMEOUT && (r->try || r->claim->pub.attempt_until < r->deadline);
    if (silent) {
        status = locker_error_set(&r->last, LOCKER_UNAVAILABLE, 0,
                                  "the service did not answer within %lld ms (command_timeout)",
                                  (long long)(r->l->command_timeout_ns / LK_MS));
        *retry_at = now;
        r->claim->key->away = true;
    }
    const locker_status stop = why_stop_locked(r);
    if (stop != LOCKER_OK)
        return stop;
    if (status == LOCKER_TIMEOUT)
        return unless_unknown_locked(r, LOCKER_TIMEOUT); /* a little before its time, as it was rounded */
    if (r->try || (status != LOCKER_BUSY && status != LOCKER_UNAVAILABLE))
        return status;
    if (status == LOCKER_UNAVAILABLE && *retry_at == LOCKER_NEVER) {
        if (!LK_READ(r->l->out_of_reach))
            return status; /* the driver says that it is final */
        *retry_at = lk_time_after(now, retry_after_outage);
    }
    return LOCKER_OK;
}

locker_status lk_attempt_unlocking(lk_request *r)
{
    bool seen = false;
    locker_status status = why_stop_locked(r);
    while (status == LOCKER_OK) {
        seen = true;
        status = attempt_unlocking(r);
        if (status == LOCKER_OK) {
            status = accept_unlocking(r);
            if (status == LOCKER_OK)
                return LOCKER_OK;
            seen = false; /* it was withdrawn; the next attempt is the driver's first sight of it */
            if (ask_again_locked(r)) {
                status = why_stop_locked(r);
                continue;
            }
        }
        status = judge_locked(r, status);
        if (status == LOCKER_OK)
            status = wait_for_wake_unlocking(r);
    }
    if (seen)
        lk_withdraw_unlocking(r->l, r->claim);
    return status;
}
