/* acquire.c: one attempt to take a lock, in one round trip. On a lock that is likely to be free, and whose
 * counter is likely to be there, it is two plain commands in one flight, which cost the server the least: SET
 * key value NX PX ttl; INCR counter, which gives the fencing number. On another it is a script that takes the
 * lock and numbers the grant, or tells how long the holder's lease goes on and puts us in the queue
 * (scripts.h). A release elsewhere may have handed the lock to us meanwhile: then the message that said so is
 * enough, and nothing is sent.
 *
 * The numbers of plain commands grow from grant to grant: the SET of a later grant runs after the release or the end of this
 * grant's lease, and each INCR stands right behind its SET in the stream. Attempts that find the lock busy use up numbers. But the
 * stream may be cut between SET and INCR, and break and another's grant come in between, with a lower number
 * than ours. Then our grant is one that nobody has been told of; and break takes a lock only from the value
 * that it was shown, after it has waited for up to 70 ms for that grant to be noted, which it is after its
 * INCR was answered (inspect.c). So it takes a tear that lasts longer than that, and somebody who breaks the
 * lock of a holder that is not known. */
#include <inttypes.h>
#include <stdio.h>

#include "instance.h"
#include "net/command.h"

static const unsigned busy_step = 4; /* an attempt that was found busy outweighs so many that were not */
static const int64_t quick_poll_ns = 10 * LK_MS;

enum {
    CONFIRM_MAX = 2, /* so often is a lease that comes short started anew */
    QUICK_POLLS = 8, /* so many waits of 10, 20, 40 ms and so on */
    PLACES = 1 << 24 /* a queue has no more, as the script tells of it */
};
/* As the scripts have it: no counter of ours comes to it. */
static const long long number_end = INT64_C(1) << 53;
static const int64_t hash_state = INT64_C(1) << 52; /* the scripts' HASH_STATE */

struct attempt {
    lk_redis *r;
    lk_redis_node *node; /* that is asked */
    locker_claim *claim;
    lk_redis_claim *data;
    locker_error *err; /* never NULL */
    lk_redis_keys keys;
    char value[LK_REDIS_VALUE_LEN + 1];
    char member[LK_REDIS_MEMBER_MAX]; /* "": don't queue */
    char ttl[LK_REDIS_NUMBER_MAX], numbers[LK_REDIS_NUMBER_MAX];
    uint8_t numbers_most; /* `numbers` as a number; a grant may have fewer */
    unsigned hops;
    lk_redis_call call; /* the one under way, and what came of it */
    bool again;         /* OK is no grant: another call at once, by the script */
    bool shares;        /* it is to be one of several who hold it */
};

/* Whether a grant with that deadline has come so late that it is of little use. */
static bool is_short(const struct attempt *a, int64_t valid_until)
{
    return valid_until - lk_redis_now(&a->r->shared) < a->claim->ttl_ns / 2;
}

/* `last`: the last of its fencing numbers, of which there are `numbers`. No other thread uses these members until core knows
 * the grant. */
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
    /* a command may leave late on a busy machine; core counts from when it asked */
    data->valid_until =
        lk_redis_valid_until(a->node, sent < claim->asked_at ? sent : claim->asked_at, claim->ttl_ns);
    claim->token = LK_READ(data->fence);
    claim->valid_until = data->valid_until;
    lk_redis_claim_held(data);
    lk_redis_lately_lower(&a->r->pass_lately);
    return LOCKER_OK;
}

/* Was it handed to us by a message? That grant came after our last attempt was found busy, so the lease
 * counts from when that one was sent. That it did is told by the number: a message with one that had been
 * given out by then is of an earlier grant, which we did not notice and which has ended. Where that can't be
 * compared (no counter then, one that may have begun anew, or that of another server), an attempt finds out
 * whose the lock is. So it does when one that came after that attempt was not answered: it may have been
 * granted since, with a greater number. And in a cluster a slot may have moved since, and the lock have been broken at another
 * server. Its model is models/lease.pml. */
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
        return false; /* an attempt confirms it, and its lease starts anew */
    return granted(a, given, data->given_numbers, data->busy_sent, now) == LOCKER_OK;
}

/* Under the mutex, so that the word of a break finds it either waiting or holding. */
static bool take_given(struct attempt *a)
{
    if (!a->data->in_table)
        return false;
    lk_redis_lock(&a->r->shared);
    const bool taken = take_given_locked(a);
    lk_redis_unlock(&a->r->shared);
    return taken;
}

/* Whether the word of a break overtook the answer: it may be about this grant, and another attempt tells. */
static bool was_broken(const struct attempt *a)
{
    lk_redis_lock(&a->r->shared);
    const bool broken = a->data->broken;
    lk_redis_unlock(&a->r->shared);
    return broken;
}

/* Wait until the replicas have the lock too. They are asked on the connection that took it: on another one
 * another master's replicas might answer. */
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
    a->claim->retry_at = lk_redis_now(&r->shared) + LK_REDIS_AGAIN_NS; /* what is UNAVAILABLE here passes */
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

/* Nobody has to wait for a lock that too few replicas have, and no retry of ours takes it again before those
 * who stand in its queue. The claim is as new: its next attempt goes by another value. */
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

/* It was granted, and the answer came so late that not much is left of the lease. The server has it, so
 * another attempt, which core asks for at once, starts the lease anew. One that tries takes what it gets. */
static locker_status start_anew(struct attempt *a)
{
    lk_redis_claim_unknown(a->data);
    a->data->confirms++;
    a->claim->retry_at = lk_redis_now(&a->r->shared);
    return LOCKER_BUSY;
}

/* One that the server has no place for comes back when the holder's lease would end, and now and then, because others don't tell
 * when they release. Soon, and then at twice the time each, when the lock was left free for foreign clients. */
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

/* When to come back, if no message comes before. `left_free`: the lock stays free for so long, for foreign clients. */
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
    /* a foreign lease may last for ages */
    return now + again_locked(a, lk_time_earlier(s->left_ms, 2 * a->r->set.poll_ns / LK_MS));
}

/* Another has it, or may have it now. `counter`: of fencing numbers; 0: not known. `state`: as lua/acquire.lua answers it. */
static locker_status busy(struct attempt *a, int64_t left_ms, int64_t counter, int64_t state)
{
    lk_redis *r = a->r;
    lk_redis_claim *data = a->data;
    const bool lifted = (uint64_t)counter >= lk_redis_fence_least(a->call.server_us);
    const int64_t queue = state % hash_state;
    const lk_redis_standing standing = {left_ms, queue % PLACES / 2 - 1, queue / PLACES};
    if (state >= hash_state)
        (void)lk_redis_hash_is_busy(a->keys.lock, a->err);
    /* a message of another server's tells nothing */
    if (data->busy_era != a->call.era)
        LK_WRITE(data->given, 0);
    data->busy_era = a->call.era;
    data->busy_sent = a->call.sent;
    /* one from before the connection may have begun anew since that message was sent */
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
    lk_redis_net_subscribe_locked(a->node->net, data->slot, true); /* try again after a refusal */
    a->claim->retry_at = retry_locked(a, (queue & 1) != 0, &standing);
    lk_redis_unlock(&r->shared);
    return refused != LOCKER_OK ? refused : LOCKER_BUSY;
}

/* The grant could not be numbered, and not because of a passing state of the server. */
static bool is_no_counter(const redisReply *reply)
{
    return strstr(reply->str, "WRONGTYPE") != NULL || strstr(reply->str, "not an integer") != NULL ||
           strstr(reply->str, "overflow") != NULL;
}

/* Not all of those who wait come at once. */
static int64_t when_recovered(lk_redis *r, int64_t left_ms)
{
    lk_redis_lock(&r->shared);
    const uint64_t jitter = lk_redis_random_locked(&r->shared, 20 * LK_MS);
    lk_redis_unlock(&r->shared);
    return lk_redis_now(&r->shared) + (left_ms + 1) * LK_MS + (int64_t)jitter;
}

/* The server answered with an error. */
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
    lk_redis_claim_unknown(a->data); /* a script may have got half-way */
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

/* There was no answer. */
static locker_status unanswered(struct attempt *a, lk_redis_outcome outcome)
{
    if (a->call.sent != 0)
        lk_redis_claim_unknown(a->data);
    if (outcome == LK_REDIS_CALL_AWAY)
        a->claim->retry_at = lk_redis_now(&a->r->shared); /* it may be up again before core has heard of it */
    switch (outcome) {
    case LK_REDIS_CALL_CUT: /* it waits for the connection */
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

/* `SET key value NX PX ttl`, as every simple client does: OK is a grant, nil is busy. Fencing adds the number. */
static lk_redis_outcome call_plain(struct attempt *a)
{
    const lk_redis_command argv[] = {
        LK_REDIS_COMMAND("SET", a->keys.lock, a->value, "NX", "PX", a->ttl),
        LK_REDIS_COMMAND("INCR", a->keys.fence),
    };
    return lk_redis_ask(a->node->commands, &a->call, argv, a->data->numbers > 0 ? 2 : 1, a->err);
}

/* Where earlier releases counted, which knew no cluster: its name may be of another slot. */
static const char *old_counter(struct attempt *a)
{
    return a->r->map == NULL ? lk_redis_keys_companion(&a->keys, LK_REDIS_OLD_FENCE) : a->keys.fence;
}

/* One that waits may be queued. */
static void allow_enqueue(struct attempt *a)
{
    lk_redis_claim *const data = a->data;
    if (!a->claim->will_wait || !lk_redis_net_is_subscribed(a->node->net, data->slot))
        return;
    lk_redis_lock(&a->r->shared); /* before a message can come */
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
    /* One from before may stand in the queue still: it stays, and is taken out by a grant. */
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
    /* What was not sent, or refused, has put nothing into the queue; but PTTL may fail after it has. */
    if (a->call.sent == 0 || (fault != LK_REDIS_FAULT_DENIED && fault != LK_REDIS_FAULT_OTHER))
        data->enqueued = was_enqueued;
    return outcome;
}

/* What may have been put into the queue, and what into the set, is known to have been only where the server said so. */
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

/* Whether the number that the counter gave is of a time before the connection; a foreign client may have put the counter
 * below 0. */
static bool is_untrusted(const struct attempt *a)
{
    const long long number = a->call.reply->integer;
    return number < 0 || number >= number_end || (uint64_t)number <= lk_redis_fence_least(a->call.server_us);
}

/* A try by plain commands has found the key in use. Answer CONFIG if it holds an application's data, else BUSY. */
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

/* What the plain commands' answers mean. */
static locker_status read_plain(struct attempt *a)
{
    const bool fenced = a->data->numbers > 0;
    const redisReply *set = a->call.replies[0], *last = a->call.reply;
    const bool counted = fenced && last->type == REDIS_REPLY_INTEGER;
    if (set->type == REDIS_REPLY_NIL) {
        a->again = a->claim->will_wait; /* the script tells for how long, and enrols */
        if (a->again)
            return LOCKER_OK;
        const locker_status status = busy(a, -1, 0, 0);
        return status == LOCKER_BUSY ? check_type(a) : status;
    }
    if (set->type != REDIS_REPLY_STATUS)
        return refused(a, set);
    if (fenced && !counted)
        return refused(a, last); /* it is given back by a withdraw */
    if (fenced && is_untrusted(a)) {
        lk_redis_claim_unknown(a->data);
        a->again = true; /* the script lifts the counter */
        return LOCKER_OK;
    }
    lk_redis_lately_lower(&a->r->busy_lately);
    return granted(a, fenced ? (uint64_t)last->integer : 0, fenced, a->call.sent, a->call.sent);
}

/* A place in the queue is the earlier the better, and it takes somebody who listens: at its first attempt one that waits sees to that
 * before it says that it waits. False: it can't be had now, and comes later, or it polls. */
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

/* The claim may be let in after `left_ms`. */
static locker_status shared_busy(struct attempt *a, int64_t left_ms, int64_t counter, int64_t state)
{
    const bool first = a->data->busy_sent == 0 && a->claim->will_wait && !a->data->enqueued;
    const locker_status status = busy(a, left_ms, counter, state);
    a->again = first && status == LOCKER_BUSY && will_listen(a);
    return a->again ? LOCKER_OK : status;
}

/* {1, token, slot, epoch}: it is in. {2, ms, state, counter}: it waits. {3, permits, ..}: the lock is used in another way. */
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
        a->again = true; /* the lease may be from before the leap: it starts anew */
    }
    if (status == LOCKER_OK && !a->again && a->r->set.wait_replicas > 0) {
        status = wait_replicas(a);
        if (status == LOCKER_UNAVAILABLE)
            give_back(a);
    }
    if (status != LOCKER_OK && lk_redis_claim_is_held(a->data)) /* granted, and perhaps not at the replicas */
        lk_redis_claim_unknown(a->data);
    return status;
}

/* Plain commands serve a lock that is free; one that waits for a lock which is likely to be held would need the
 * script behind them. A counter is started by the server's own time, which they can't ask for: by the time that we
 * sent, it would be set back where that was under way for long and the data were lost meanwhile. And a user who may
 * not run scripts could take a lock by them and not give it back. */
static bool plain_first(const struct attempt *a)
{
    const lk_redis_claim *data = a->data;
    /* with `recovery`, they don't look whether the data are known */
    if (a->shares || LK_READ(data->place) == LK_REDIS_UNKNOWN || data->enqueued || data->numbers > 1 ||
        !LK_READ(a->r->trusted) || a->r->map != NULL || a->r->recovery.mark != NULL)
        return false;
    if (a->claim->will_wait && (data->busy_sent != 0 || LK_READ(a->r->busy_lately) > 0))
        return false;
    return data->numbers == 0 || lk_redis_fence_is_lifted(&a->node->fences, data->slot);
}

/* A claim's first attempt: its value, and how many numbers its grant is to have: more than one where grants
 * are handed over inside the process. */
static void start_claim(const struct attempt *a)
{
    lk_redis *r = a->r;
    lk_redis_claim *data = a->data;
    data->core = a->claim; /* others read it once it is in the table */
    data->number = lk_redis_value_next(&r->values);
    data->slot = lk_redis_slot_of(&r->slots, &r->set.prefix, a->claim->key, a->claim->key_len);
    data->busy_era = lk_redis_era(lk_redis_node_of(r, data->slot)->commands); /* messages come from here on */
    if (r->set.fencing)
        data->numbers = LK_READ(r->pass_lately) > 0 && !a->shares ? LK_REDIS_PASS_RESERVE : 1;
}

/* It shares the lock, so it is known already: messages of a break find it. */
static void watch(lk_redis *r, lk_redis_claim *data)
{
    lk_redis_lock(&r->shared);
    lk_redis_noted_locked(r, data, true);
    lk_redis_unlock(&r->shared);
}

locker_status lk_redis_acquire(void *self, locker_claim *claim, locker_error *err)
{
    lk_redis *r = self;
    struct attempt a; /* large: nothing in it is cleared that need not be */
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
    a.data->busy_fence = 0; /* until this attempt is found busy, too */
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
