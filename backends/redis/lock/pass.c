/* pass.c: a holder hands its lock on to a waiter of the same locker, without asking the server: the value stays,
 * the claim that it belongs to is another. Each hand-over takes the next fencing number of those that the grant took
 * at the server, so nobody else is ever given the same. A grant takes many numbers only while hand-overs are asked
 * for: after the first that was, which is refused. Other processes don't starve: after LK_REDIS_PASS_RESERVE - 1
 * hand-overs the lock is released. So is one whose holder the server knows: whoever breaks that holder's lock must not
 * break the next one's; and one that another server had confirmed: this one may have lost it. */
#include "grant_info.h"

locker_status lk_redis_pass(void *self, locker_claim *from, locker_claim *to)
{
    lk_redis *r = self;
    lk_redis_claim *giver = lk_redis_claim_of(from), *taker = lk_redis_claim_of(to);
    locker_status status = LOCKER_BUSY;
    lk_redis_lately_raise(&r->pass_lately, LK_REDIS_CONTENDED);
    const int64_t now = lk_redis_now(&r->shared);
    const lk_redis_pipeline *const commands = lk_redis_node_of(r, giver->slot)->commands;
    lk_redis_lock(&r->shared);
    if (commands->state != LK_REDIS_UP || giver->era != lk_redis_era(commands) || giver->noted ||
        from->ttl_ns != to->ttl_ns || !from->renewed || !to->renewed ||
        giver->passes + 1 >= (r->set.fencing ? giver->numbers : LK_REDIS_PASS_RESERVE) ||
        now >= giver->valid_until - from->ttl_ns / 3)
        goto out;
    taker->core = to;
    taker->number = giver->number;
    taker->slot = giver->slot;
    taker->braced = giver->braced;
    LK_WRITE(taker->fence, LK_READ(giver->fence));
    taker->passes = (uint8_t)(giver->passes + 1);
    taker->valid_until = giver->valid_until;
    taker->era = giver->era;
    taker->asks = giver->asks;
    taker->leaps = giver->leaps;
    taker->allowed = giver->allowed;
    taker->enrolled = giver->enrolled;
    taker->numbers = giver->numbers;
    taker->direct_us = lk_redis_claim_direct_us(giver, now);
    taker->since = to->granted_at = now;
    LK_WRITE(taker->held, true);
    LK_WRITE(giver->held, false);
    lk_redis_note_forget_locked(r, giver);
    lk_redis_note_grant(r, taker);
    lk_redis_claim_renewals_to_locked(giver, to);
    if (giver->tabled) {
        lk_redis_claims_remove_locked(&r->claims, giver);
        lk_redis_claims_add_locked(&r->claims, taker);
    }
    to->token = r->set.fencing ? LK_READ(taker->fence) + taker->passes : 0;
    to->valid_until = taker->valid_until;
    status = LOCKER_OK;
out:
    lk_redis_unlock(&r->shared);
    return status;
}
