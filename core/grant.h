/* grant.h: which operation of the driver is inside with a claim; from its OK to a lock; giving that back. */
#pragma once

#include "wake.h"

/** Wait until none is inside. */
static inline void lk_busy_wait_unlocking(locker *l, const lk_claim *claim) LK_REQUIRES(l->mutex)
{
    while (claim->busy_with != LK_IDLE)
        lk_await_unlocking(l);
}

/** One begins, once none is inside. Events from here on are about what acquire and pass come to. */
static inline void lk_busy_begin_unlocking(locker *l, lk_claim *claim, lk_busy with) LK_REQUIRES(l->mutex)
{
    lk_busy_wait_unlocking(l, claim);
    claim->busy_with = (uint8_t)with;
    if (with == LK_IN_ACQUIRE || with == LK_IN_PASS) {
        claim->events &= LK_CANCELED;
        claim->extended = 0;
        claim->shortened = LOCKER_NEVER;
    }
}

/** It has returned, and interrupt, if it came, too. */
static inline void lk_busy_end_unlocking(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex)
{
    while (claim->interrupting)
        lk_await_unlocking(l);
    claim->busy_with = LK_IDLE;
    lk_changed_locked(l);
}

/** Have the driver withdraw. To the driver the claim is a new one then. */
void lk_withdraw_unlocking(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);

/** The driver has granted, and this is the only way to a lock that is held: enter it into the held list and the keeper,
 * unless what came meanwhile says it proves nothing: false, withdrawn, and the claim is as before. */
bool lk_grant_unlocking(locker *l, lk_claim *claim, int64_t now) LK_REQUIRES(l->mutex);

/** The last handle of a grant is being unlocked: hand it over, or have it released. */
locker_status lk_release_unlocking(locker *l, lk_claim *claim, int64_t now, locker_error *err)
    LK_REQUIRES(l->mutex);

/** The same in three steps, for several grants. Begin: true if the driver is to release the grant; else *status is the answer of
 * the unlock. */
bool lk_release_begin_unlocking(locker *l, lk_claim *claim, int64_t now, locker_status *status,
                                locker_error *err) LK_REQUIRES(l->mutex);
/** Have the driver send the releases of several grants at once, if it can. Call it again with the remaining grants after
 * each lk_release_end_unlocking(): the driver sends what was lost meanwhile, all at once, too. */
void lk_releases_send_unlocking(locker *l, locker_claim *const *grants, size_t count) LK_REQUIRES(l->mutex);
/** Do that for the first time, and open the keys: a waiter of one key does not wait for the answers about the other keys. */
void lk_releases_begin_unlocking(locker *l, locker_claim *const *grants, size_t count) LK_REQUIRES(l->mutex);
/** Wait for the answer to one of them, until `until` at most. */
locker_status lk_release_end_unlocking(locker *l, lk_claim *claim, int64_t until, locker_error *err)
    LK_REQUIRES(l->mutex);

/** Release a grant in the background, without an answer. */
void lk_let_go_unlocking(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex);
/** LOST, with the text for an unlock that came too late. */
locker_status lk_told_lost_locked(const locker *l, const lk_claim *claim, locker_error *err)
    LK_REQUIRES(l->mutex);
