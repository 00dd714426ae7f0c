/* grant.c: what the driver granted becomes a lock that is held, or is withdrawn; and giving it back. The lease is taken out
 * of the keeper first; then the grant is handed to the next of the local FIFO where the driver can do that, else the driver
 * releases it. Handing over is bounded in number and time, so that contenders of other processes get their turn. */
#include <string.h>

#include "claim.h"
#include "grant.h"
#include "lease.h"
#include "lk_error.h"
#include "share.h"

void lk_withdraw_unlocking(locker *l, lk_claim *claim)
{
    lk_busy_begin_unlocking(l, claim, LK_IN_RELEASE);
    lk_mutex_unlock(&l->mutex);
    l->driver->withdraw(l->self, &claim->pub);
    lk_mutex_lock(&l->mutex);
    lk_busy_end_unlocking(l, claim);
    memset(claim->pub.data, 0, l->driver->claim_size);
    claim->pub.granted_at = 0;
    claim->shut = false;
}

/* The service has granted the claim, and before another beside whom it can't hold the key: one of the two has ended there. */
static void end_one_locked(locker *l, lk_claim *last, lk_claim *claim) LK_REQUIRES(l->mutex)
{
    const uint64_t before = last->pub.token, token = claim->pub.token;
    const bool was_told = before == token && (claim->events & LK_LOST_IT) != 0; /* there are none */
    lk_claim *const over = before > token || was_told ? claim : last;
    if (over == claim && locker_claim_is_plain(&last->pub))
        last->key->holder = last;
    over->lost_why = "the service has granted it to another holder";
    lk_lose_locked(l, over);
}

/* Among those who hold the key. `last` held it alone. */
static void hold_locked(locker *l, lk_claim *claim, lk_claim *last) LK_REQUIRES(l->mutex)
{
    lk_key *const key = claim->key;
    if (locker_claim_is_plain(&claim->pub))
        key->holder = claim;
    else
        lk_list_append(&key->sharers, &claim->among);
    if (last == NULL && lk_list_empty(&key->sharers))
        return; /* as mostly */
    if (last != NULL && last->phase == LK_GRANTED)
        end_one_locked(l, last, claim);
    LK_EACH_SAFE(lk_claim, other, among, &key->sharers) {
        if (other != claim && claim->phase == LK_GRANTED && other->phase == LK_GRANTED &&
            !lk_beside(other, claim))
            end_one_locked(l, other, claim);
        if (claim->phase != LK_GRANTED)
            break;
    }
}

/* Calls of the same owner that wait for the key enter the grant. */
static void wake_owners_locked(locker *l, const lk_claim *grant) LK_REQUIRES(l->mutex)
{
    if (grant->owner == NULL || grant->key->users < 2)
        return;
    LK_EACH(lk_wait, wait, link, &l->waits) {
        const lk_claim *const claim = wait->claim;
        if (claim->key == grant->key && claim->owner != NULL && strcmp(claim->owner, grant->owner) == 0)
            lk_wake_call_locked(l, wait);
    }
}

bool lk_grant_unlocking(locker *l, lk_claim *claim, int64_t now)
{
    lk_key *const key = claim->key;
    lk_claim *const last = key->holder;
    const bool handed_over = claim->phase == LK_QUEUED;
    claim->pub.valid_until = lk_time_later(claim->pub.valid_until, claim->extended);
    claim->pub.valid_until = lk_time_earlier(claim->pub.valid_until, claim->shortened);
    if (now >= claim->pub.valid_until || (claim->events & LK_LOST_ALL) != 0 ||
        (handed_over ? (claim->events & LK_LOST_IT) != 0 : l->closing)) {
        lk_withdraw_unlocking(l, claim);
        return false;
    }
    if (handed_over)
        lk_list_remove(&claim->link);
    LK_WRITE(claim->phase, LK_GRANTED);
    claim->pub.granted_at = now;
    claim->wait = NULL;
    claim->open_handles = 1; /* its call's, which may have to wake up first: its owner can enter before */
    if (key->contender == claim)
        key->contender = NULL;
    lk_lease_start_locked(l, claim, now);
    l->stats.acquired++;
    hold_locked(l, claim, last);
    if (claim->shortened != LOCKER_NEVER)
        lk_lease_shorten_locked(l, claim, claim->shortened); /* and due at once */
    if ((claim->events & LK_LOST_IT) != 0)
        lk_lose_locked(l, claim); /* the call has its handle before anybody else gets the mutex */
    if (!locker_claim_is_plain(&claim->pub)) {
        if ((claim->events & LK_BROKEN) != 0)
            claim->shut = true;
        else if (claim->phase == LK_GRANTED)
            lk_take_along_locked(l, claim, now);
        lk_promote_locked(l, key);
    }
    wake_owners_locked(l, claim);
    return true;
}

enum { PASSES_AT_MOST = 64 };
static const int64_t passing_at_most = 10 * LK_MS;
static const uint8_t any_loss = LK_LOST_IT | LK_LOST_ALL;

static bool may_pass_locked(locker *l, const lk_claim *from, const lk_claim *to, int64_t now)
    LK_REQUIRES(l->mutex)
{
    const lk_key *const key = from->key;
    return l->driver->pass != NULL && to != NULL && to->busy_with == LK_IDLE &&
           (to->events & LK_CANCELED) == 0 && !l->closing && key->passed < PASSES_AT_MOST &&
           now - key->passing_since < passing_at_most && from->pub.ttl_ns == to->pub.ttl_ns &&
           from->pub.renewed && to->pub.renewed && locker_claim_is_plain(&from->pub) &&
           locker_claim_is_plain(&to->pub);
}

/* Hand the grant to the first of the FIFO. True: `from` is gone. */
static bool pass_unlocking(locker *l, lk_claim *from, int64_t now) LK_REQUIRES(l->mutex)
{
    lk_key *key = from->key;
    lk_claim *to = lk_fifo_first_locked(l, key);
    if (!may_pass_locked(l, from, to, now))
        return false;
    lk_wait *wait = to->wait;
    lk_busy_begin_unlocking(l, to, LK_IN_PASS);
    from->pub.valid_until = LK_READ(from->valid_until);
    lk_mutex_unlock(&l->mutex);
    const locker_status status = l->driver->pass(l->self, &from->pub, &to->pub);
    lk_mutex_lock(&l->mutex);
    lk_busy_end_unlocking(l, to);
    if (status == LOCKER_OK) {
        to->events |= from->events & any_loss; /* it is the same grant */
        if (lk_grant_unlocking(l, to, to->pub.granted_at != 0 ? to->pub.granted_at : lk_now(l))) {
            key->passed++;
            l->stats.handed_over++;
        } else {
            lk_key_free_locked(l, from); /* lost again: `to` contends like everybody else */
        }
    }
    lk_wake_call_locked(l, wait); /* it may have wanted to give up meanwhile */
    return status == LOCKER_OK;
}

/* Out of the keeper's hands; a renewal that is inside the driver ends first. False: it was lost meanwhile. */
static bool take_out_unlocking(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex)
{
    LK_WRITE(claim->phase, LK_RELEASING);
    lk_heap_remove_locked(l, claim);
    lk_busy_wait_unlocking(l, claim);
    lk_lease_end_locked(l, claim, now);
    return (claim->events & any_loss) == 0;
}

locker_status lk_told_lost_locked(const locker *l, const lk_claim *claim, locker_error *err)
{
    return lk_lost(err, "'%s' was lost before it was unlocked: %s", claim->pub.key,
                   lk_lost_why_locked(l, claim));
}

/* The unlock has its answer. */
static locker_status end_locked(locker *l, lk_claim *claim, locker_status status) LK_REQUIRES(l->mutex)
{
    LK_WRITE(claim->phase, status == LOCKER_LOST ? LK_LOST : LK_GONE);
    if (status == LOCKER_OK)
        l->stats.released++;
    else if (status == LOCKER_LOST)
        l->stats.lost++;
    else
        l->stats.unknown++;
    lk_claim_over_locked(l, claim);
    return status;
}

bool lk_release_begin_unlocking(locker *l, lk_claim *claim, int64_t now, locker_status *status,
                                locker_error *err)
{
    if (!take_out_unlocking(l, claim, now)) {
        (void)lk_told_lost_locked(l, claim, err);
        lk_withdraw_unlocking(l, claim);
        lk_key_free_locked(l, claim);
        *status = end_locked(l, claim, LOCKER_LOST);
        return false;
    }
    lk_busy_begin_unlocking(l, claim, LK_IN_RELEASE);
    if (!pass_unlocking(l, claim, now)) {
        claim->pub.valid_until = LK_READ(claim->valid_until);
        return true;
    }
    const bool lost = (claim->events & any_loss) != 0;
    *status = lost ? lk_told_lost_locked(l, claim, err) : LOCKER_OK;
    lk_busy_end_unlocking(l, claim);
    *status = end_locked(l, claim, *status);
    return false;
}

void lk_releases_send_unlocking(locker *l, locker_claim *const *grants, size_t count)
{
    if (count < 2 || l->driver->begin_release == NULL)
        return;
    lk_mutex_unlock(&l->mutex);
    l->driver->begin_release(l->self, grants, count);
    lk_mutex_lock(&l->mutex);
}

void lk_releases_begin_unlocking(locker *l, locker_claim *const *grants, size_t count)
{
    lk_releases_send_unlocking(l, grants, count);
    if (count < 2 || l->driver->begin_release == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        lk_key_free_locked(l, lk_claim_of(grants[i]));
}

locker_status lk_release_end_unlocking(locker *l, lk_claim *claim, int64_t until, locker_error *err)
{
    lk_mutex_unlock(&l->mutex);
    const locker_status status = l->driver->release(l->self, &claim->pub, until, err);
    lk_mutex_lock(&l->mutex);
    lk_key_free_locked(l, claim);
    lk_busy_end_unlocking(l, claim);
    return end_locked(l, claim, status);
}

locker_status lk_release_unlocking(locker *l, lk_claim *claim, int64_t now, locker_error *err)
{
    locker_status status;
    return lk_release_begin_unlocking(l, claim, now, &status, err)
               ? lk_release_end_unlocking(l, claim, lk_time_after(now, l->command_timeout_ns), err)
               : status;
}

void lk_let_go_unlocking(locker *l, lk_claim *claim)
{
    (void)take_out_unlocking(l, claim, lk_now(l));
    lk_withdraw_unlocking(l, claim);
    lk_key_free_locked(l, claim);
    LK_WRITE(claim->phase, LK_GONE);
    lk_claim_unref_locked(l, claim);
}
