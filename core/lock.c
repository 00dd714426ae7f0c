/*
 * lock.c: the path of a lock call.
 *
 * A call makes a claim. Where the service has no queue of its own, only one claim of a key contends there;
 * the others stand in the key's FIFO until they are promoted, or until the holder's grant is handed
 * over to them (release.c). Whatever ends the call but a grant, the driver is told to withdraw.
 */
#include <stdlib.h>
#include <string.h>

#include <lk_sized.h>

#include "attempt.h"
#include "cancel.h"
#include "claim.h"
#include "config.h"
#include "error.h"
#include "frame.h"
#include "lease.h"
#include "stats.h"
#include "text.h"

/* ------------------------------------------------------------------ options ---- */

static locker_status check_lock_options(const locker *l, const locker_lock_options *o, locker_error *err)
{
    locker_status status = LOCKER_OK;
    if (o->wait_ms < -1)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "wait_ms is %lld: give -1 (for ever), 0 (try) or a time in ms",
                                (long long)o->wait_ms);
    if (o->owner != NULL)
        status = lk_text_check_label(o->owner, "the owner", err);
    if (status == LOCKER_OK && o->label != NULL)
        status = lk_text_check_label(o->label, "the label", err);
    if (status == LOCKER_OK)
        status = lk_ttl_check(o->ttl_ms, err);
    return status == LOCKER_OK && o->ttl_ms > 0 ? lk_ttl_in_range(l->driver, o->ttl_ms, LOCKER_CONFIG, err)
                                                : status;
}

/* ------------------------------------------------------------------ the call ---- */

/* Give the call its handle of a claim that is held. */
static void attach_locked(lk_request *r, lk_claim *claim, locker_handle *handle) LK_REQUIRES(r->l->mutex)
{
    handle->l = r->l;
    handle->on_lost = r->options->on_lost;
    handle->user = r->options->user;
    atomic_init(&handle->lost_fd, -1);
    handle->claim = claim;
    handle->sibling = claim->handles;
    claim->handles = handle;
    r->l->handles++;
    *r->out = handle;
}

/* Whether the same owner holds the key through this locker, so that the call enters again. */
static bool may_reenter_locked(const lk_request *r, const lk_key *key) LK_REQUIRES(r->l->mutex)
{
    lk_claim *holder = key->holder;
    return holder != NULL && !r->l->closing && r->claim->owner != NULL && holder->owner != NULL &&
           strcmp(holder->owner, r->claim->owner) == 0 && holder->phase == LK_GRANTED &&
           !lk_lease_over_locked(r->l, holder, lk_now(r->l));
}

/* Whether the call wants more of the lease than the first one asked for. The service has been told of that
 * one, and knows of no other. */
static bool asks_more(const lk_request *r, const lk_claim *holder)
{
    const bool leased = r->l->driver->semantics->leases || !holder->pub.renewed;
    return (!r->options->no_renew && !holder->pub.renewed) ||
           (leased && r->options->ttl_ms * LK_MS > holder->pub.ttl_ns);
}

static locker_status reenter_locked(lk_request *r, lk_claim *holder) LK_REQUIRES(r->l->mutex)
{
    if (asks_more(r, holder))
        return locker_error_set(
            &r->last, LOCKER_INVALID, 0,
            "its owner entered it for %lld ms%s, and a call that enters again can't make that "
            "more: ask for it at the first",
            (long long)(holder->pub.ttl_ns / LK_MS), holder->pub.renewed ? ", renewed" : " without renewal");
    locker_handle *handle = lk_zalloc(sizeof *handle);
    if (handle == NULL)
        return LOCKER_NOMEM;
    holder->refs++;
    holder->open_handles++;
    attach_locked(r, holder, handle);
    r->l->stats.reentered++;
    return LOCKER_OK;
}

static locker_status take_unlocking(lk_request *r, lk_key *key) LK_REQUIRES(r->l->mutex)
{
    lk_claim *claim = r->claim;
    locker_status status = LOCKER_OK;
    const bool service_queues = (r->l->driver->caps & LOCKER_CAP_QUEUE) != 0;
    if (key->holder != NULL)
        (void)lk_lease_over_locked(r->l, key->holder, r->start); /* spares reading the clock */
    LK_WRITE(claim->phase, LK_CONTENDING);
    if (key->holder != NULL && r->try) {
        status = LOCKER_BUSY; /* held in this process: nobody needs to be asked */
    } else if (!service_queues) {
        if (key->holder != NULL || key->contender != NULL || !lk_list_empty(&key->fifo))
            status = lk_fifo_wait_unlocking(r);
        else
            key->contender = claim;
    }
    if (status == LOCKER_OK && claim->phase == LK_CONTENDING)
        status = lk_attempt_unlocking(r);
    else if (status == LOCKER_OK && lk_lease_over_locked(r->l, claim, lk_now(r->l)))
        r->lost_early = true; /* the keeper ends the claim */
    if (status != LOCKER_OK) {
        LK_WRITE(claim->phase, LK_GONE);
        if (key->contender == claim) {
            key->contender = NULL;
            lk_promote_locked(r->l, key);
        }
        lk_claim_unref_locked(r->l, claim); /* the driver's side */
    }
    return status;
}

static void count_locked(const lk_request *r, locker_status status) LK_REQUIRES(r->l->mutex)
{
    switch (status) {
    case LOCKER_OK:
        lk_histogram_add(&r->l->stats.wait, r->claim->pub.granted_at - r->start);
        break;
    case LOCKER_BUSY:
        r->l->stats.busy++;
        break;
    case LOCKER_TIMEOUT:
        r->l->stats.timed_out++;
        break;
    case LOCKER_CANCELED:
        r->l->stats.canceled++;
        break;
    default:
        r->l->stats.failed++;
        break;
    }
}

static locker_status run_unlocking(lk_request *r) LK_REQUIRES(r->l->mutex)
{
    locker_cancel *const cancel = r->options->cancel;
    locker_status status = LOCKER_NOMEM;
    lk_key_use_locked(r->l, r->claim);
    lk_key *key = r->claim->key;
    if (!lk_heap_reserve_locked(r->l))
        goto gone;
    if (cancel != NULL && locker_cancel_fired(cancel)) {
        status = LOCKER_CANCELED;
        r->l->stats.canceled++;
        goto unreserve;
    }
    if (may_reenter_locked(r, key)) {
        status = reenter_locked(r, key->holder);
        goto unreserve;
    }
    r->wait.claim = r->claim;
    r->wait.cancel = cancel;
    if (cancel != NULL && !lk_cancel_watch_locked(r->l, &r->wait))
        goto unreserve;
    r->claim->wait = &r->wait;
    lk_list_prepend(&r->l->waits, &r->wait.link);
    status = take_unlocking(r, key);
    if (cancel != NULL)
        lk_cancel_unwatch_locked(r->l, &r->wait);
    while (r->claim->interrupting)
        lk_await_unlocking(r->l);
    lk_list_remove(&r->wait.link);
    r->claim->wait = NULL;
    r->l->heap_reserved--;
    if (!r->lost_early)
        count_locked(r, status);
    if (status == LOCKER_OK && !r->lost_early)
        attach_locked(r, r->claim, &r->claim->first_handle);
    else
        lk_claim_unref_locked(r->l, r->claim);
    return status;
unreserve:
    r->l->heap_reserved--;
gone:
    lk_claim_unref_locked(r->l, r->claim);
    lk_claim_unref_locked(r->l, r->claim);
    return status;
}

static locker_status tell(const lk_request *r, locker_status status, locker_error *err)
{
    const char *key = r->key;
    switch (status) {
    case LOCKER_OK:
        return lk_ok(err);
    case LOCKER_BUSY:
        return locker_error_set(err, status, 0, "'%s' is held by another", key);
    case LOCKER_CANCELED:
        return locker_error_set(err, status, 0, "waiting for '%s' was canceled", key);
    case LOCKER_CLOSED:
        return locker_error_set(err, status, 0, "the locker was closed while '%s' was waited for", key);
    case LOCKER_NOMEM:
        return locker_error_set(err, status, 0, "out of memory while locking '%s'", key);
    case LOCKER_TIMEOUT:
        return locker_error_set(err, status, 0, "'%s' did not become free within %lld ms%s%s", key,
                                (long long)r->options->wait_ms, r->last.text[0] != '\0' ? "; last: " : "",
                                r->last.text);
    default:
        return locker_error_set(err, status, r->last.os_error, "locking '%s': %s", key,
                                r->last.text[0] != '\0'        ? r->last.text
                                : status == LOCKER_UNAVAILABLE ? "the service is out of reach"
                                                               : locker_status_name(status));
    }
}

/* Allocate what the call needs, with no lock held. */
static bool prepare(lk_request *r)
{
    locker *l = r->l;
    const locker_lock_options *o = r->options;
    char *label = NULL;
    r->claim = lk_claim_new(l, r->key, r->key_len);
    if (r->claim == NULL)
        return false;
    if (o->owner != NULL)
        label = r->claim->owner = strdup(o->owner);
    if (o->label != NULL)
        label = strdup(o->label);
    r->claim->pub.owner = label != NULL ? label : l->owner;
    if ((o->owner != NULL && r->claim->owner == NULL) || (o->label != NULL && label == NULL)) {
        lk_claim_free(l, r->claim);
        return false;
    }
    r->claim->pub.ttl_ns = o->ttl_ms > 0 ? o->ttl_ms * LK_MS : l->ttl_ns;
    r->claim->pub.will_wait = !r->try;
    r->claim->pub.renewed = !o->no_renew;
    return true;
}

/* What was handed over was lost before its call had woken up: with a claim of its own it asks again. */
static bool prepare_again_unlocking(lk_request *r, locker_status *status) LK_REQUIRES(r->l->mutex)
{
    r->lost_early = false;
    lk_mutex_unlock(&r->l->mutex);
    const bool prepared = prepare(r);
    lk_mutex_lock(&r->l->mutex);
    if (!prepared)
        *status = LOCKER_NOMEM;
    return prepared;
}

static locker_status lock_call(lk_request *r, locker_error *err)
{
    r->start = lk_now(r->l);
    const bool endless = r->try || r->options->wait_ms < 0 || r->options->wait_ms > LOCKER_NEVER / 4 / LK_MS;
    r->deadline = endless ? LOCKER_NEVER : lk_time_after(r->start, r->options->wait_ms * LK_MS);
    if (!prepare(r))
        return tell(r, LOCKER_NOMEM, err);
    lk_mutex_lock(&r->l->mutex);
    locker_status status;
    if (r->l->closing) {
        lk_claim_free(r->l, r->claim);
        status = LOCKER_CLOSED;
    } else {
        r->l->calls++;
        do
            status = run_unlocking(r);
        while (r->lost_early && prepare_again_unlocking(r, &status));
        lk_leave_locked(r->l);
    }
    lk_mutex_unlock(&r->l->mutex);
    if (r->wait.sleeps)
        pthread_cond_destroy(&r->wait.cond);
    return tell(r, status, err);
}

static locker_status lock_checked(locker *l, const char *key, const locker_lock_options *options, bool try,
                                  locker_handle **out, locker_error *err)
{
    static const locker_lock_options defaults = LOCKER_LOCK_OPTIONS_INIT;
    LK_NO_CANCEL;
    lk_request r;
    r.l = l;
    r.options = options != NULL ? options : &defaults;
    r.key = key;
    r.last.text[0] = '\0'; /* the rest of a request is set as it goes: it is more than half a kilobyte */
    r.wait.sleeps = false;
    r.start_is_past = false;
    r.lost_early = false;
    r.out = out;
    if (out == NULL || l == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "locker_lock needs a locker and a place for the handle");
    *out = NULL;
    locker_status status = lk_admit(l, "locker_lock", err);
    locker_lock_options own;
    if (status == LOCKER_OK && options != NULL && options->size != sizeof own) {
        status = LK_SIZED_TAKE(locker_lock_options, &own, options, label, err);
        r.options = &own;
    }
    if (status == LOCKER_OK && options != NULL)
        status = check_lock_options(l, r.options, err);
    if (status == LOCKER_OK)
        status = lk_check_key(l, key, &r.key_len, err);
    r.try = try || r.options->wait_ms == 0;
    if (status == LOCKER_OK)
        status = lock_call(&r, err);
    return status;
}

locker_status locker_lock(locker *l, const char *key, const locker_lock_options *options, locker_handle **out,
                          locker_error *err)
{
    return lock_checked(l, key, options, false, out, err);
}

locker_status locker_try_lock(locker *l, const char *key, const locker_lock_options *options,
                              locker_handle **out, locker_error *err)
{
    return lock_checked(l, key, options, true, out, err);
}
