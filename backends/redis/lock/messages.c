/*
 * messages.c: what comes on this instance's own channel: a release in any process tells there that it handed a lock to
 * one of our waiters ("value number direct_us lock"), and a break that it took a lock away from us ("value broken
 * lock"). A message that gets lost costs no more than a poll, or is made up for by the next renewal.
 */
#include "messages.h"

#include <stdlib.h>
#include <string.h>

#include "claim_table.h"
#include "cleanup.h"
#include "keys.h"

static const char broken[] = " broken ";
static const int64_t hop_us = 200; /* what a hand-over takes, for the reckoning of how long they go on */

/* The lock was handed to a value that nobody here knows any more: give it back. */
static void give_back_locked(lk_redis *r, const char *value, const char *lock,
                             size_t lock_len) LK_REDIS_LOCKED
{
    lk_redis_keys keys;
    if (lk_redis_keys_init_raw(&keys, lock, lock_len))
        lk_redis_cleanup_start_locked(r, &keys, value, NULL);
}

/* Whether the claim is of that lock. */
static bool is_lock_of(const lk_redis *r, const locker_claim *claim, const char *lock, size_t lock_len)
{
    const size_t space = strlen(r->set.name_space);
    const size_t prefix = space > 0 ? space + 1 : 0;
    return lock_len == prefix + claim->key_len && memcmp(lock, r->set.name_space, space) == 0 &&
           (prefix == 0 || lock[space] == ':') && memcmp(lock + prefix, claim->key, claim->key_len) == 0;
}

/* Somebody broke the lock: no value is ever given twice, so it is about this claim and no other. One that
 * waits may have been given the lock and not know yet. */
static void take_broken_locked(lk_redis *r, locker_claim *claim) LK_REDIS_LOCKED
{
    lk_redis_claim *data = lk_redis_claim_of(claim);
    if (atomic_load_explicit(&data->held, memory_order_relaxed)) {
        r->shared.svc->lease_lost(r->shared.svc, claim, "its lock was broken by an operator");
        return;
    }
    atomic_store_explicit(&data->given, 0, memory_order_relaxed);
    r->shared.svc->wake(r->shared.svc, claim);
}

/* "value number direct_us lock", or "value broken lock". Number 0: none, because fencing is off, or because
 * the lock is left free for a moment; a client that polls may have it then and tells nobody when it gives it
 * back, so the waiter looks again soon. Whoever writes into queues may hand a value another lock than the one
 * that it waits for: then nobody here wants that. */
void lk_redis_on_message(void *self, const redisReply *text)
{
    lk_redis *r = self;
    char value[LK_REDIS_VALUE_LEN + 1];
    uint64_t number;
    if (text->len < LK_REDIS_VALUE_LEN + 4 || text->str[LK_REDIS_VALUE_LEN] != ' ')
        return;
    memcpy(value, text->str, LK_REDIS_VALUE_LEN);
    value[LK_REDIS_VALUE_LEN] = '\0';
    if (!lk_redis_value_number(&r->values, value, &number))
        return;
    locker_claim *claim = lk_redis_claims_find_locked(&r->claims, number);
    const char *const over = text->str + text->len;
    if (strncmp(text->str + LK_REDIS_VALUE_LEN, broken, sizeof broken - 1) == 0) {
        const char *lock = text->str + LK_REDIS_VALUE_LEN + sizeof broken - 1;
        if (claim != NULL && is_lock_of(r, claim, lock, (size_t)(over - lock)))
            take_broken_locked(r, claim);
        return;
    }
    char *end;
    const unsigned long long fence = strtoull(text->str + LK_REDIS_VALUE_LEN + 1, &end, 10);
    if (*end != ' ')
        return;
    const unsigned long long direct_us = strtoull(end + 1, &end, 10);
    if (*end != ' ')
        return;
    const char *const lock = end + 1;
    const size_t lock_len = (size_t)(over - lock);
    if (claim == NULL || !is_lock_of(r, claim, lock, lock_len)) {
        give_back_locked(r, value, lock, lock_len);
        return;
    }
    lk_redis_claim *data = lk_redis_claim_of(claim);
    if (atomic_load_explicit(&data->held, memory_order_relaxed))
        return;
    data->direct_us = (int64_t)(direct_us % LK_REDIS_FENCE_MOST) + hop_us;
    data->polls = fence == 0 ? 1 : 0;
    atomic_store_explicit(&data->given, fence, memory_order_relaxed);
    r->shared.svc->wake(r->shared.svc, claim);
}
