/*
 * claim_table.h: finds a claim by its value's number, for messages. Claims that asked the server to queue them are in
 * it, from before they ask until they end, and grants from when they are noted; so a message that hands a lock to a
 * value which is not in it is for a claim that has ended.
 */
#pragma once

#include "claim.h"
#include "net/mutex.h"

/* Nothing is done where there is no memory: the claim is not queued, and polls. */
void lk_redis_claims_add_locked(lk_table *claims, locker_claim *claim) LK_REDIS_LOCKED;
void lk_redis_claims_remove_locked(lk_table *claims, locker_claim *claim) LK_REDIS_LOCKED;
locker_claim *lk_redis_claims_find_locked(const lk_table *claims, uint64_t number) LK_REDIS_LOCKED;
/* Wake all that wait: each tries again. */
void lk_redis_claims_wake_locked(const lk_table *claims, const locker_services *svc) LK_REDIS_LOCKED;
