/* acquire.c: make a single attempt to take a lock in Redis, in one round trip.
 *
 * A lock is a string key. Its value identifies the claim that holds the lock. An attempt can be granted in
 * three ways:
 *
 *   - Plain commands (call_plain): `SET key value NX PX ttl` takes the lock, and `INCR counter`
 *     gives the fencing number. Both are sent in the same flight, which costs the server the least.
 *     Used if the lock is probably free and its counter is probably above the floor (plain_first).
 *   - Script (call_script): the acquire script takes the lock and numbers the grant. If the lock is
 *     held, the script enqueues the claim and returns the rest of the holder's lease (scripts.h).
 *     Shared locks and permits have their own script (call_shared).
 *   - Hand-over by message (take_given): a release in any process may have handed the lock to this
 *     claim. The message is the grant, so the attempt sends nothing.
 *
 * The fencing numbers of plain commands grow from grant to grant. The SET of a later grant runs after the
 * end of this grant, and each INCR is sent right behind its SET. BUSY attempts use up numbers.
 *
 * There is an exception. If the connection drops between SET and INCR, a break and another client's grant
 * may come in between. The next holder then gets a lower number than our grant. At that time our grant has
 * no info. Break waits up to 70 ms for the info of such a holder, and then takes the lock only from the
 * value that the query showed (inspect.c). We write the info after INCR was answered. So the exception
 * needs a gap of more than 70 ms, and an operator who breaks the lock of an unknown holder. */
#include <inttypes.h>
#include <stdio.h>

#include "instance.h"
#include "net/command.h"

static const unsigned busy_step = 4; /* added to busy_lately by a BUSY attempt; a grant subtracts 1 */
static const int64_t quick_poll_ns = 10 * LK_MS;

enum {
    CONFIRM_MAX = 2, /* limit of extra attempts to restart a short lease */
    QUICK_POLLS = 8, /* value of `polls` that ends quick polling, which waits 10, 20, 40 ms, ... */
    PLACES = 1 << 24 /* radix of the script's `state`: see busy() */
};
/* Limit of fencing numbers, which no valid counter reaches; NUMBER_END in the scripts. */
static const long long number_end = INT64_C(1) << 53;
/* FREE_BASE in the scripts: added to the state of a lock that is a hash */
static const int64_t hash_state = INT64_C(1) << 52;

struct attempt {
    lk_redis *r;
    lk_redis_node *node; /* the server that gets the attempt */
    locker_claim *claim;
    lk_redis_claim *data;
    locker_error *err; /* never NULL */
    lk_redis_keys keys;
    char value[LK_REDIS_VALUE_LEN + 1];
    char member[LK_REDIS_MEMBER_MAX]; /* the claim's queue entry; "": do not enqueue */
    char ttl[LK_REDIS_NUMBER_MAX], numbers[LK_REDIS_NUMBER_MAX];
    uint8_t numbers_most; /* `numbers` as a number; a grant may have fewer */
    unsigned hops;
    lk_redis_call call; /* the latest call and its result */
    bool again;         /* True if OK does not mean a grant: call again at once, by the script. */
    bool shares;        /* True for a shared lock or a permit. */
};

/* Return true if less than half of the lease remains. */
static bool is_short(const struct attempt *a, int64_t valid_until)
{
    return valid_until - lk_redis_now(&a->r->shared) < a->claim->ttl_ns / 2;
}

/* Record a grant and return OK. `last` is the last of its `numbers` fencing numbers (0: no fencing).
 * `sent` is when the request was sent from which the lease counts, `since` when the lock was granted.
 * Needs no mutex: no other thread uses these members before core knows of the grant. */
static locker_status granted(struct attempt *a, uint64_t last, uint8_t numbers, int64_t sent, int64_t since)
{
    locker_claim *claim = a->claim;
    lk_redis_claim *data = a->data;
    LK_WRITE(data->fence, numbers > 0 ? last - numbers + 1 : 0);
    if (numbers > 0)
        lk_redis_fence_seen(&a->node->fences, data->slot);
    data->numbers = numbers;
    data->since = since;
    data->era = a->call.era;
    lk_redis_clock_note(a->node, data);
    /* `sent` may be late on a busy machine; core counts the lease from asked_at */
    data->valid_until =
        lk_redis_valid_until(a->node, sent < claim->asked_at ? sent : claim->asked_at, claim->ttl_ns);
    claim->token = LK_READ(data->fence);
    claim->valid_until = data->valid_until;
    lk_redis_claim_held(data);
    lk_redis_lately_lower(&a->r->pass_lately);
    return LOCKER_OK;
}

/* Accept the grant from a hand-over message. Return false if there is no usable message: then an attempt
 * must ask the server.
 *
 * The hand-over came after our last BUSY attempt, so the lease counts from when that attempt was sent
 * (models/lease.pml). The fencing number proves the order. If it is not above busy_fence, the message
 * belongs to an earlier grant, which we did not notice and which has ended. The message is not used
 *   - if busy_fence is unknown, may have been reset, or came from another server;
 *   - if a later attempt got no answer, because that attempt may have been granted a greater number;
 *   - with wait_replicas, because the replicas may not have the grant;
 *   - in a cluster, because the slot may have moved, and the lock may have been broken at the other
 *     server;
 *   - if a server's clock has leapt since;
 *   - if less than half of the lease would remain. */
static bool take_given_locked(struct attempt *a) LK_REDIS_LOCKED
{
    lk_redis_claim *data = a->data;
    const uint64_t given = atomic_exchange_explicit(&data->given, 0, memory_order_relaxed);
    a->call.era = lk_redis_era(a->node->commands);
    data->broken = false;
    data->look_at = data->ask_at = 0;
    if (given == 0 || data->busy_sent == 0 || data->busy_fence == 0 || given <= data->busy_fence ||
        data->busy_era != a->call.era || a->r->set.wait_replicas > 0 || a->r->map != NULL)
        return false;
    if (data->leaps != LK_READ(a->r->shared.leaps))
        return false;
    const int64_t now = lk_redis_now(&a->r->shared);
    if (is_short(a, lk_redis_valid_until(a->node, data->busy_sent, a->claim->ttl_ns)))
        return false; /* an attempt confirms the grant, and restarts the lease */
    return granted(a, given, data->given_numbers, data->busy_sent, now) == LOCKER_OK;
}

/* Accept a hand-over under the mutex, so that a break's message finds the claim either waiting or holding. */
static bool take_given(struct attempt *a)
{
    if (!a->data->in_table)
        return false;
    lk_redis_lock(&a->r->shared);
    const bool taken = take_given_locked(a);
    lk_redis_unlock(&a->r->shared);
    return taken;
}

/* Return true if a break's message arrived during the attempt. The break may concern the new grant, so the
 * caller makes another attempt to find out. */
static bool was_broken(const struct attempt *a)
{
    lk_redis_lock(&a->r->shared);
    const bool broken = a->data->broken;
    lk_redis_unlock(&a->r->shared);
    return broken;
}

/* Wait until enough replicas have the lock. WAIT goes out on the connection that took the lock: on another
 * connection, another master's replicas might confirm. Returns
 *   - OK: enough replicas have the lock
 *   - CANCELED: interrupted
 *   - UNAVAILABLE: too few replicas, or no answer; core tries again at retry_at
 *   - any other status: the server answered with an error */
static locker_status wait_replicas(struct attempt *a)
{
    lk_redis *r = a->r;
    char count[LK_REDIS_NUMBER_MAX], bound[LK_REDIS_NUMBER_MAX];
    lk_redis_call call = {.until = a->claim->attempt_until, .caller = &a->data->caller, .only = a->call.on};
    (void)lk_redis_number_text(count, (uint64_t)r->set.wait_replicas);
    (void)lk_redis_number_text(bound, (uint64_t)(r->set.wait_timeout_ns / LK_MS));
    const lk_redis_command argv = LK_REDIS_COMMAND("WAIT", count, bound);
    const lk_redis_outcome outcome = lk_redis_ask(a->node->commands, &call, &argv, 1, a->err);
    if (outcome == LK_REDIS_CALL_INTERRUPTED)
        return LOCKER_CANCELED;
    a->claim->retry_at = lk_redis_now(&r->shared) + LK_REDIS_AGAIN_NS; /* UNAVAILABLE is temporary here */
    if (outcome != LK_REDIS_CALL_ANSWERED)
        return lk_unavailable(a->err, "the server did not confirm that replicas have the "
                                      "lock, so the lock is given back; try again");
    locker_status status = LOCKER_OK;
    if (call.reply->type != REDIS_REPLY_INTEGER)
        status = lk_redis_reply_error(call.reply, "waiting for replicas", a->err);
    else if (call.reply->integer < r->set.wait_replicas) {
        lk_redis_net_doubt(a->node->net);
        status = lk_unavailable(a->err,
                                "%lld of %" PRId64 " replicas have the lock after %" PRId64
                                " ms, so the lock is given back; check the replicas, or lower wait_replicas",
                                call.reply->integer, r->set.wait_replicas, r->set.wait_timeout_ns / LK_MS);
    }
    freeReplyObject(call.reply);
    return status;
}

/* Release a lock that too few replicas have, so that queued waiters get it before our retry. Reset the
 * claim: its next attempt uses a new value. */
static void give_back(struct attempt *a)
{
    lk_redis *r = a->r;
    lk_redis_withdraw(r, a->claim);
    lk_redis_lock(&r->shared);
    const bool interrupted = a->data->caller.interrupted;
    memset(a->data, 0, sizeof *a->data);
    a->data->caller.interrupted = interrupted;
    lk_redis_unlock(&r->shared);
}

/* Return BUSY with retry_at now, for a grant with a late answer or a possible break. Core makes another
 * attempt at once. That attempt finds our value in the lock, and restarts the lease. Not used for a try,
 * which accepts a short lease. */
static locker_status start_anew(struct attempt *a)
{
    lk_redis_claim_unknown(a->data);
    a->data->confirms++;
    a->claim->retry_at = lk_redis_now(&a->r->shared);
    return LOCKER_BUSY;
}

/* Return the time in ns until a waiter without a queue entry polls again: when the holder's lease would
 * expire (pttl_ms; below 0: never), and every `poll` interval, because foreign clients do not notify on
 * release. If the lock was left free for foreign clients, poll after 10 ms, and double the interval each
 * time. */
static int64_t again_locked(struct attempt *a, int64_t pttl_ms) LK_REDIS_LOCKED
{
    lk_redis *r = a->r;
    int64_t wait = lk_time_earlier(r->set.poll_ns, a->claim->ttl_ns / 3);
    if (a->data->polls > 0 && a->data->polls < QUICK_POLLS)
        wait = lk_time_earlier(wait, quick_poll_ns << (a->data->polls++ - 1));
    wait += (int64_t)lk_redis_random_locked(&r->shared, (uint64_t)wait / 10 + 1);
    if (pttl_ms >= 0)
        wait = lk_time_earlier(wait, (pttl_ms + 5) * LK_MS +
                                         (int64_t)lk_redis_random_locked(&r->shared, 10 * LK_MS));
    return wait;
}

/* Return the time of the next attempt if no message arrives. left_free: the lock stays free for
 * s->left_ms, for foreign clients. */
static int64_t retry_locked(struct attempt *a, bool left_free, const lk_redis_standing *s) LK_REDIS_LOCKED
{
    const int64_t now = lk_redis_now(&a->r->shared);
    lk_redis_claim *data = a->data;
    if (left_free)
        return now + s->left_ms * LK_MS;
    if (a->shares)
        return data->ask_at = now + lk_redis_wait_locked(a->r, data, s);
    if (data->enqueued && data->in_table && s->rank >= 0 && (data->polls == 0 || data->polls == QUICK_POLLS))
        return lk_redis_look_after_locked(a->r, data, s);
    /* a foreign client's lease may be arbitrarily long, so cap left_ms */
    return now + again_locked(a, lk_time_earlier(s->left_ms, 2 * a->r->set.poll_ns / LK_MS));
}

/* Handle a BUSY answer: record the server's state for take_given_locked(), and set retry_at. A waiting
 * claim enters the table, where messages find it, and subscribes. `counter`: the fencing counter; 0:
 * unknown. `state`: as lua/acquire.lua returns it. Returns BUSY, or the error of a refused subscription. */
static locker_status busy(struct attempt *a, int64_t left_ms, int64_t counter, int64_t state)
{
    lk_redis *r = a->r;
    lk_redis_claim *data = a->data;
    const bool lifted = (uint64_t)counter >= lk_redis_fence_least(a->call.server_us);
    const int64_t queue = state % hash_state;
    const lk_redis_standing standing = {left_ms, queue % PLACES / 2 - 1, queue / PLACES};
    if (state >= hash_state)
        (void)lk_redis_hash_is_busy(a->keys.lock, a->err);
    /* a hand-over by another server grants nothing here */
    if (data->busy_era != a->call.era)
        LK_WRITE(data->given, 0);
    data->busy_era = a->call.era;
    data->busy_sent = a->call.sent;
    /* a counter below the floor may have been reset since that message was sent */
    data->busy_fence = lifted ? (uint64_t)counter : 0;
    if (lifted)
        lk_redis_fence_seen(&a->node->fences, data->slot);
    lk_redis_lately_raise(&r->busy_lately, busy_step);
    a->claim->retry_at = LOCKER_NEVER;
    if (!a->claim->will_wait)
        return LOCKER_BUSY;
    lk_redis_lock(&r->shared);
    lk_redis_claims_add_locked(&r->claims, data);
    const locker_status refused = lk_redis_net_take_refusal_locked(a->node->net, a->err);
    lk_redis_net_subscribe_locked(a->node->net, data->slot, true); /* even after a refusal, to try again */
    a->claim->retry_at = retry_locked(a, (queue & 1) != 0, &standing);
    lk_redis_unlock(&r->shared);
    return refused != LOCKER_OK ? refused : LOCKER_BUSY;
}

/* Return true if the counter's key holds no usable number, which is a permanent error. */
static bool is_no_counter(const redisReply *reply)
{
    return strstr(reply->str, "WRONGTYPE") != NULL || strstr(reply->str, "not an integer") != NULL ||
           strstr(reply->str, "overflow") != NULL;
}

/* Return the time of the next attempt: after the recovery period, of which left_ms remain, plus up to 20
 * ms of jitter, so that the waiters do not all come at once. */
static int64_t when_recovered(lk_redis *r, int64_t left_ms)
{
    lk_redis_lock(&r->shared);
    const uint64_t jitter = lk_redis_random_locked(&r->shared, 20 * LK_MS);
    lk_redis_unlock(&r->shared);
    return lk_redis_now(&r->shared) + (left_ms + 1) * LK_MS + (int64_t)jitter;
}

/* Handle an error reply. Return OK with a->again set to repeat the call at once, else the status of the
 * attempt. retry_at is set if the error is temporary. */
static locker_status refused(struct attempt *a, const redisReply *reply)
{
    const lk_redis_fault fault = lk_redis_reply_fault(reply);
    int64_t left_ms;
    if (fault == LK_REDIS_FAULT_DATA)
        return lk_redis_refuse_data(reply->str + sizeof "NOLOCK", a->keys.lock, a->err);
    const locker_status status = lk_redis_recovery_refuses(a->r, reply, &left_ms, a->err);
    if (status != LOCKER_OK) {
        if (left_ms > 0)
            a->claim->retry_at = when_recovered(a->r, left_ms);
        return status;
    }
    lk_redis_claim_unknown(a->data); /* the script may have failed after a write */
    lk_redis_heed(a->node, a->data->slot, reply);
    if (fault == LK_REDIS_FAULT_MOVED && a->hops++ < LK_REDIS_HOPS_MAX)
        a->again = true;
    if (a->again)
        return LOCKER_OK;
    if (fault == LK_REDIS_FAULT_OTHER && is_no_counter(reply))
        return locker_error_set(a->err, LOCKER_PROTOCOL, 0,
                                "the lock's fencing counter at the server, '%.120s', is not a valid "
                                "number; delete that key, or set fencing=off (%.80s)",
                                a->keys.fence, reply->str);
    if (fault == LK_REDIS_FAULT_TRANSIENT || fault == LK_REDIS_FAULT_REFUSED ||
        fault == LK_REDIS_FAULT_MOVED || fault == LK_REDIS_FAULT_MIGRATING)
        a->claim->retry_at = lk_redis_now(&a->r->shared) + LK_REDIS_AGAIN_NS;
    return lk_redis_reply_error(reply, "taking a lock", a->err);
}

/* Handle a missing answer. Return OK with a->again set to repeat the call at once, else the status of the
 * attempt. */
static locker_status unanswered(struct attempt *a, lk_redis_outcome outcome)
{
    if (a->call.sent != 0)
        lk_redis_claim_unknown(a->data);
    if (outcome == LK_REDIS_CALL_AWAY)
        a->claim->retry_at = lk_redis_now(&a->r->shared); /* the server may be back already */
    switch (outcome) {
    case LK_REDIS_CALL_CUT: /* the repeated call waits for the connection */
    case LK_REDIS_CALL_REMAPPED:
        a->again = true;
        return LOCKER_OK;
    case LK_REDIS_CALL_LATE:
        return locker_error_set(a->err, LOCKER_TIMEOUT, 0, "the server did not answer in time");
    case LK_REDIS_CALL_INTERRUPTED:
        return locker_error_set(a->err, LOCKER_CANCELED, 0, "canceled");
    default:
        return a->err->status;
    }
}

/* Send `SET key value NX PX ttl`, as every simple client does: the answer OK is a grant, nil is BUSY. With
 * fencing, INCR follows and gives the number. */
static lk_redis_outcome call_plain(struct attempt *a)
{
    const lk_redis_command argv[] = {
        LK_REDIS_COMMAND("SET", a->keys.lock, a->value, "NX", "PX", a->ttl),
        LK_REDIS_COMMAND("INCR", a->keys.fence),
    };
    return lk_redis_ask(a->node->commands, &a->call, argv, a->data->numbers > 0 ? 2 : 1, a->err);
}

/* Return the key of the counter that earlier releases used. They knew no Cluster, and in a Cluster this
 * key may be in another slot: then return the slot's counter instead. */
static const char *old_counter(struct attempt *a)
{
    return a->r->map == NULL ? lk_redis_keys_companion(&a->keys, LK_REDIS_OLD_FENCE) : a->keys.fence;
}

/* Allow the server to enqueue a waiting claim, if it is in the table and its channel has a subscription. */
static void allow_enqueue(struct attempt *a)
{
    lk_redis_claim *const data = a->data;
    if (!a->claim->will_wait || !lk_redis_net_is_subscribed(a->node->net, data->slot))
        return;
    lk_redis_lock(&a->r->shared); /* before a message can arrive */
    lk_redis_claims_add_locked(&a->r->claims, data);
    data->enqueued = data->enqueued || data->in_table;
    lk_redis_unlock(&a->r->shared);
}

static lk_redis_outcome call_script(struct attempt *a)
{
    char queue_ttl[LK_REDIS_NUMBER_MAX];
    lk_redis_claim *data = a->data;
    const bool was_enqueued = data->enqueued,
               known = was_enqueued || LK_READ(data->place) == LK_REDIS_UNKNOWN;
    (void)lk_redis_number_text(queue_ttl, (uint64_t)(lk_redis_queue_ns(a->r) / LK_MS));
    allow_enqueue(a);
    a->member[0] = '\0';
    /* An entry of an earlier attempt may still be in the queue. It stays, and a grant removes it. */
    if (data->enqueued)
        lk_redis_member_text(a->r->values.name, a->claim, a->value, a->member);
    lk_redis_command argv;
    lk_redis_script_begin(a->r, &argv, LK_REDIS_SCRIPT_ACQUIRE, &a->keys, old_counter(a));
    LK_REDIS_ARGUMENTS(&argv, a->value, a->ttl, a->member, queue_ttl, a->numbers,
                       LK_READ(a->r->trusted) ? "0" : "1", known ? "1" : "0");
    const lk_redis_outcome outcome =
        lk_redis_ask_script(a->node, &a->call, LK_REDIS_SCRIPT_ACQUIRE, &argv, a->err);
    const lk_redis_fault fault = outcome == LK_REDIS_CALL_ANSWERED && a->call.reply->type == REDIS_REPLY_ERROR
                                     ? lk_redis_reply_fault(a->call.reply)
                                     : LK_REDIS_FAULT_OTHER;
    /* A call that was not sent, or was refused as a whole (MOVED, say), has enqueued nothing. After other
     * errors, as of PTTL, the entry may exist. */
    if (a->call.sent == 0 || (fault != LK_REDIS_FAULT_DENIED && fault != LK_REDIS_FAULT_OTHER))
        data->enqueued = was_enqueued;
    return outcome;
}

/* Run the script of shared locks and permits. `known` says that the server may have a queue entry or a
 * place in the set for this value. */
__attribute__((noinline)) static lk_redis_outcome call_shared(struct attempt *a)
{
    char queue_ttl[LK_REDIS_NUMBER_MAX];
    lk_redis_claim *const data = a->data;
    const bool known = data->enqueued || LK_READ(data->place) == LK_REDIS_UNKNOWN;
    allow_enqueue(a);
    lk_redis_member_text(a->r->values.name, a->claim, a->value, a->member);
    (void)lk_redis_number_text(queue_ttl, (uint64_t)(lk_redis_queue_ns(a->r) / LK_MS));
    lk_redis_scripts_want(a->r);
    lk_redis_command argv;
    lk_redis_script_begin(a->r, &argv, LK_REDIS_SCRIPT_SHARED_ACQUIRE, &a->keys, old_counter(a));
    LK_REDIS_ARGUMENTS(&argv, a->member, data->enqueued ? "1" : "0", queue_ttl, known ? "1" : "0");
    return lk_redis_ask_script(a->node, &a->call, LK_REDIS_SCRIPT_SHARED_ACQUIRE, &argv, a->err);
}

/* Return true if the fencing number is not above the floor, so that the counter may have been reset. A
 * foreign client may also have set the counter below 0 or above the limit. */
static bool is_untrusted(const struct attempt *a)
{
    const long long number = a->call.reply->integer;
    return number < 0 || number >= number_end || (uint64_t)number <= lk_redis_fence_least(a->call.server_us);
}

/* Find the type of a key that a try by plain commands found in use. Return CONFIG if it holds an
 * application's data, else BUSY. */
static locker_status check_type(struct attempt *a)
{
    const lk_redis_command argv = LK_REDIS_COMMAND("TYPE", a->keys.lock);
    lk_redis_call call = {.until = a->claim->attempt_until, .caller = &a->data->caller, .prompt = true};
    locker_error ignored;
    locker_status status = LOCKER_BUSY;
    if (lk_redis_ask(a->node->commands, &call, &argv, 1, &ignored) != LK_REDIS_CALL_ANSWERED)
        return LOCKER_BUSY;
    if (call.reply->type == REDIS_REPLY_STATUS && lk_redis_is_data(call.reply->str))
        status = lk_redis_refuse_data(call.reply->str, a->keys.lock, a->err);
    else if (call.reply->type == REDIS_REPLY_STATUS && strcmp(call.reply->str, "hash") == 0)
        (void)lk_redis_hash_is_busy(a->keys.lock, a->err);
    freeReplyObject(call.reply);
    return status;
}

/* Read the answers to the plain commands. Return OK for a grant, or with a->again set; else the status of
 * the attempt. */
static locker_status read_plain(struct attempt *a)
{
    const bool fenced = a->data->numbers > 0;
    const redisReply *set = a->call.replies[0], *last = a->call.reply;
    const bool counted = fenced && last->type == REDIS_REPLY_INTEGER;
    if (set->type == REDIS_REPLY_NIL) {
        /* the script returns the rest of the lease, and enqueues the claim */
        a->again = a->claim->will_wait;
        if (a->again)
            return LOCKER_OK;
        const locker_status status = busy(a, -1, 0, 0);
        return status == LOCKER_BUSY ? check_type(a) : status;
    }
    if (set->type != REDIS_REPLY_STATUS)
        return refused(a, set);
    if (fenced && !counted)
        return refused(a, last); /* a withdraw releases the lock */
    if (fenced && is_untrusted(a)) {
        lk_redis_claim_unknown(a->data);
        a->again = true; /* the script raises the counter */
        return LOCKER_OK;
    }
    lk_redis_lately_lower(&a->r->busy_lately);
    return granted(a, fenced ? (uint64_t)last->integer : 0, fenced, a->call.sent, a->call.sent);
}

/* Wait up to 100 ms for the subscription, at a claim's first attempt. The server enqueues only claims with
 * a subscription, and an early place in the queue is worth the wait. Return false if there is no
 * subscription yet: it comes later, or the claim polls. */
static bool will_listen(const struct attempt *a)
{
    lk_redis *const r = a->r;
    const int64_t until =
        lk_time_earlier(lk_redis_now(&r->shared) + LK_REDIS_AGAIN_NS, a->claim->attempt_until);
    lk_redis_lock(&r->shared);
    while (!lk_redis_net_is_subscribed(a->node->net, a->data->slot) && !a->data->caller.interrupted &&
           lk_redis_now(&r->shared) < until)
        lk_redis_wait_unlocking(&r->shared, until);
    lk_redis_unlock(&r->shared);
    return lk_redis_net_is_subscribed(a->node->net, a->data->slot);
}

/* Handle the BUSY answer for a shared lock or a permit. The claim may get it after `left_ms`. */
static locker_status shared_busy(struct attempt *a, int64_t left_ms, int64_t counter, int64_t state)
{
    const bool first = a->data->busy_sent == 0 && a->claim->will_wait && !a->data->enqueued;
    const locker_status status = busy(a, left_ms, counter, state);
    a->again = first && status == LOCKER_BUSY && will_listen(a);
    return a->again ? LOCKER_OK : status;
}

/* Read the script's answer:
 *   - {1, token, slot, epoch}: a grant
 *   - {2, ms, state, counter}: BUSY
 *   - {3, permits, 0, 0}: one of our locks uses the key in another way */
static locker_status read_shared(struct attempt *a)
{
    locker_claim *const claim = a->claim;
    const redisReply *const reply = a->call.reply;
    if (!lk_redis_is_numbers(reply, 4))
        return refused(a, reply);
    const int64_t kind = reply->element[0]->integer, first = reply->element[1]->integer,
                  second = reply->element[2]->integer, third = reply->element[3]->integer;
    if (kind == 1 && first > 0 && second >= 0 && third > 0 &&
        (claim->permits == 0 || second < claim->permits)) {
        claim->slot = (int32_t)second;
        a->data->epoch = (uint64_t)third;
        return granted(a, (uint64_t)first, a->r->set.fencing, a->call.sent, a->call.sent);
    }
    if (kind == 2)
        return shared_busy(a, first, third, second);
    return kind == 3 ? locker_other_use(a->err, (int32_t)first, claim->permits) : refused(a, reply);
}

static locker_status read_script(struct attempt *a)
{
    const redisReply *reply = a->call.reply;
    int64_t last = 0, numbers = a->data->numbers > 0;
    if (lk_redis_is_numbers(reply, 3))
        return busy(a, reply->element[0]->integer, reply->element[1]->integer, reply->element[2]->integer);
    if (lk_redis_is_numbers(reply, 4))
        return locker_other_use(a->err, (int32_t)reply->element[1]->integer, a->claim->permits);
    if (lk_redis_is_numbers(reply, 2)) {
        last = reply->element[0]->integer;
        numbers = reply->element[1]->integer;
    } else if (reply->type == REDIS_REPLY_INTEGER) {
        last = reply->integer;
    }
    if (last <= 0 || numbers < 0 || numbers > a->numbers_most)
        return refused(a, reply);
    if (a->data->busy_sent == 0)
        lk_redis_lately_lower(&a->r->busy_lately);
    return granted(a, (uint64_t)last, (uint8_t)numbers, a->call.sent, a->call.sent);
}

static locker_status try_once(struct attempt *a, bool plain)
{
    locker_status status;
    a->again = false;
    a->call =
        (lk_redis_call){.until = a->claim->attempt_until,
                        .caller = &a->data->caller,
                        .prompt = !a->claim->will_wait,
                        .patient = a->claim->will_wait &&
                                   (a->claim->has_waited || LK_READ(a->data->place) == LK_REDIS_UNKNOWN)};
    a->node = lk_redis_node_for(a->r, a->data->slot, &a->call);
    a->data->leaps = LK_READ(a->r->shared.leaps);
    const lk_redis_outcome outcome = plain ? call_plain(a) : a->shares ? call_shared(a) : call_script(a);
    if (outcome != LK_REDIS_CALL_ANSWERED)
        status = unanswered(a, outcome);
    else
        status = plain ? read_plain(a) : a->shares ? read_shared(a) : read_script(a);
    lk_redis_call_clear(&a->call);
    if (status == LOCKER_OK && !a->again && a->data->leaps != LK_READ(a->r->shared.leaps)) {
        lk_redis_claim_unknown(a->data);
        a->again = true; /* the request may be from before the leap: restart the lease */
    }
    if (status == LOCKER_OK && !a->again && a->r->set.wait_replicas > 0) {
        status = wait_replicas(a);
        if (status == LOCKER_UNAVAILABLE)
            give_back(a);
    }
    if (status != LOCKER_OK && lk_redis_claim_is_held(a->data)) /* granted, but perhaps not at the replicas */
        lk_redis_claim_unknown(a->data);
    return status;
}

/* Return true if the attempt uses the plain commands. They are for a lock that is probably free: if it is
 * held, a waiting claim needs the script after them. They cannot raise a counter, which starts at the
 * server's time. A time that we send would be too low if the request were in flight for long and the data
 * were lost meanwhile. A user who may not run scripts could take a lock with plain commands, but not
 * release it. */
static bool plain_first(const struct attempt *a)
{
    const lk_redis_claim *data = a->data;
    /* with `recovery`, plain commands would not check the mark */
    if (a->shares || LK_READ(data->place) == LK_REDIS_UNKNOWN || data->enqueued || data->numbers > 1 ||
        !LK_READ(a->r->trusted) || a->r->map != NULL || a->r->recovery.mark != NULL)
        return false;
    if (a->claim->will_wait && (data->busy_sent != 0 || LK_READ(a->r->busy_lately) > 0))
        return false;
    return data->numbers == 0 || lk_redis_fence_is_lifted(&a->node->fences, data->slot);
}

/* Begin a claim's first attempt: choose its value, and how many fencing numbers the grant is to have. It
 * has more than one where grants are handed over inside the process. */
static void start_claim(const struct attempt *a)
{
    lk_redis *r = a->r;
    lk_redis_claim *data = a->data;
    data->core = a->claim; /* other threads read it once the claim is in the table */
    data->number = lk_redis_value_next(&r->values);
    data->slot = lk_redis_slot_of(&r->slots, &r->set.prefix, a->claim->key, a->claim->key_len);
    /* messages count from here on */
    data->busy_era = lk_redis_era(lk_redis_node_of(r, data->slot)->commands);
    if (r->set.fencing)
        data->numbers = LK_READ(r->pass_lately) > 0 && !a->shares ? LK_REDIS_PASS_RESERVE : 1;
}

/* Mark a grant of a shared lock or a permit as noted, so that a break's message finds it: the script has
 * written its info. */
static void watch(lk_redis *r, lk_redis_claim *data)
{
    lk_redis_lock(&r->shared);
    lk_redis_noted_locked(r, data, true);
    lk_redis_unlock(&r->shared);
}

locker_status lk_redis_acquire(void *self, locker_claim *claim, locker_error *err)
{
    lk_redis *r = self;
    struct attempt a; /* large: only members that are read are cleared */
    locker_error spare;
    a.r = r;
    a.claim = claim;
    a.data = lk_redis_claim_of(claim);
    a.err = err != NULL ? err : &spare;
    a.hops = 0;
    const locker_status checked =
        r->recovery.mark != NULL ? lk_redis_recovery_check_ttl(r, claim->ttl_ns, err) : LOCKER_OK;
    if (checked != LOCKER_OK)
        return checked;
    a.shares = !locker_claim_is_plain(claim);
    if (a.data->number == 0)
        start_claim(&a);
    a.node = lk_redis_node_of(r, a.data->slot);
    if (take_given(&a)) {
        lk_redis_note_grant(r, a.data);
        return LOCKER_OK;
    }
    a.data->busy_fence = 0; /* unknown until this attempt is BUSY too */
    if (!lk_redis_keys_of_claim(r, &a.keys, claim))
        return lk_out_of_memory(err);
    lk_redis_value_text(&r->values, a.data->number, a.value);
    (void)lk_redis_number_text(a.ttl, (uint64_t)(claim->ttl_ns / LK_MS));
    a.numbers_most = a.data->numbers;
    (void)lk_redis_number_text(a.numbers, a.numbers_most);
    locker_status status = try_once(&a, plain_first(&a));
    while (a.again)
        status = try_once(&a, false);
    if (status == LOCKER_OK && claim->will_wait &&
        ((a.data->confirms < CONFIRM_MAX && is_short(&a, claim->valid_until)) ||
         (a.data->in_table && was_broken(&a))))
        status = start_anew(&a);
    if (status == LOCKER_OK && a.shares)
        watch(r, a.data);
    else if (status == LOCKER_OK)
        lk_redis_note_grant(r, a.data);
    lk_redis_keys_clear(&a.keys);
    return status;
}

void lk_redis_interrupt(void *self, locker_claim *claim)
{
    lk_redis *r = self;
    lk_redis_lock(&r->shared);
    lk_redis_interrupt_locked(&r->shared, &lk_redis_claim_of(claim)->caller);
    lk_redis_unlock(&r->shared);
}
