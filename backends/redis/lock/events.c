/* events.c: what is done when a command connection is up, when there is a subscription or never will be, and on a message of
 * this instance's own channel: a release in any process tells there that it handed a lock to one of our waiters ("value number
 * direct_us lock"), and a break that it took a lock away from us ("value broken lock"), or from one of whom nobody knew yet
 * ("value taken counter lock"). A message that gets lost costs no more than a poll, or is made up for by the next renewal. */
#include "cleanup.h"

static const char broken[] = " broken ", taken[] = " taken ";
static const int64_t hop_us = 200; /* what a hand-over takes, for the reckoning of how long they go on */

/* The order matters. What is known of the server comes first: commands that are made from here on use it. What nobody
 * wants any more is given back before anybody asks for something new. */
void lk_redis_on_up_locked(void *self, int64_t server_us, int64_t at)
{
    lk_redis *r = self;
    if (server_us != 0)
        lk_redis_server_time_set_locked(&r->time, server_us, at);
    lk_redis_fences_set_least(&r->fences, server_us);
    (void)lk_redis_cleanups_run_locked(r, lk_redis_now(&r->shared));
}

void lk_redis_on_subscribed_locked(void *self)
{
    lk_redis *r = self;
    /* Another attempt finds what was missed, and enrols too. */
    lk_redis_claims_wake_locked(&r->claims, r->shared.svc);
}

/* Whether the claim is of that lock. */
static bool is_lock_of(const lk_redis *r, const locker_claim *claim, const char *lock, size_t lock_len)
{
    const size_t space = strlen(r->set.name_space);
    const size_t prefix = space > 0 ? space + 1 : 0;
    return lock_len == prefix + claim->key_len && memcmp(lock, r->set.name_space, space) == 0 &&
           (prefix == 0 || lock[space] == ':') && memcmp(lock + prefix, claim->key, claim->key_len) == 0;
}

/* Why who has it has lost it: somebody broke it, but no grant with a number behind the counter of then, which he has got by an
 * attempt of his own since. Or he is handed it again with a number behind his own: the server has forgotten that he had it, and
 * found him in its queue when another gave it back: a replica that was behind when made master has the queue of then, too. */
static const char *why_lost(const lk_redis_claim *data, bool is_broken, uint64_t fence)
{
    const uint64_t first = LK_READ(data->fence);
    const bool is_forgotten = !is_broken && first != 0 && fence >= first + data->numbers;
    if (is_broken && first <= fence)
        return "its lock was broken by an operator";
    return is_forgotten ? "the server had forgotten it, and another had the lock meanwhile" : NULL;
}

/* Who waits may have been given the lock, and not know yet, when it is broken. Number 0 of a lock that is handed over: none,
 * because fencing is off, or because the lock is left free for a moment; a client that polls may have it then and tells nobody
 * when it gives it back, so the waiter looks again soon. */
static void tell_locked(const lk_redis *r, lk_redis_claim *data, bool is_broken, uint64_t fence,
                        int64_t direct_us) LK_REDIS_LOCKED
{
    const locker_services *const svc = r->shared.svc;
    if (atomic_load_explicit(&data->held, memory_order_acquire)) {
        const char *const why = why_lost(data, is_broken, fence);
        if (why != NULL)
            svc->lease_lost(svc, data->core, why);
        return;
    }
    data->broken = data->broken || is_broken;
    data->direct_us = direct_us + hop_us;
    data->polls = fence == 0 ? 1 : 0;
    LK_WRITE(data->given, is_broken ? 0 : fence);
    svc->wake(svc, data->core);
}

/* The claim that the lock was handed to may have ended; and whoever writes into queues may hand a value another lock than
 * the one that it waits for. Then nobody here wants that, and it is given back. A name with a NUL in it is no lock's. */
void lk_redis_on_message_locked(void *self, const redisReply *text)
{
    lk_redis *r = self;
    const char *lock = text->str + LK_REDIS_VALUE_LEN;
    uint64_t value;
    int64_t fence = INT64_MAX, direct_us = -hop_us; /* a break: 0 */
    if (text->len < LK_REDIS_VALUE_LEN + 4 || text->len != strlen(text->str) || *lock != ' ' ||
        !lk_redis_value_number(&r->values, text->str, &value))
        return;
    const bool is_known = strncmp(lock, broken, sizeof broken - 1) == 0;
    const bool is_broken = is_known || strncmp(lock, taken, sizeof taken - 1) == 0;
    lock += is_known ? sizeof broken - 1 : is_broken ? sizeof taken - 1 : 1;
    if ((!is_known && !lk_redis_read_number(&lock, &fence)) ||
        (!is_broken && !lk_redis_read_number(&lock, &direct_us)))
        return;
    const size_t lock_len = (size_t)(text->str + text->len - lock);
    lk_redis_claim *data = lk_redis_claims_find_locked(&r->claims, value);
    lk_redis_keys keys;
    if (data != NULL && is_lock_of(r, data->core, lock, lock_len))
        tell_locked(r, data, is_broken, (uint64_t)fence, direct_us);
    else if (!is_broken && lk_redis_keys_init(&keys, "", lock, lock_len))
        lk_redis_cleanup_start_locked(r, &keys, value, NULL);
}
