/*
 * acquire.c: one attempt to take a lock. A single command does it: a script that takes the lock and numbers
 * the grant, or tells how long the holder's lease goes on and puts us in the queue (scripts.c). A release
 * elsewhere may have handed the lock to us meanwhile: then the message that said so is enough, and nothing is
 * sent.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const int64_t again_ns = 100 * LK_MS; /* a server that can't serve now is asked again then */
static const int64_t info_least_ns =
    7 * 24 * 3600 * LK_S; /* what is known of a key's grants is kept so long */
static const int64_t queue_least_ns = 60 * LK_S;

struct attempt {
    struct lk_redis *r;
    locker_claim *claim;
    struct lk_claim_data *data;
    struct lk_keys keys;
    char value[LK_VALUE_LEN + 1];
    char member[LK_VALUE_LEN * 2 + LOCKER_OWNER_MAX + 32]; /* "": don't queue */
    char ttl[24], queue_ttl[24], info_ttl[24];
    unsigned hops;
};

static void member_of(const struct lk_redis *r, const locker_claim *claim, const char *value, char *out,
                      size_t size)
{
    (void)snprintf(out, size, "%s %s %" PRId64 " %d %.*s", r->instance, value, claim->ttl_ns / LK_MS,
                   r->set.fencing ? 1 : 0, LOCKER_OWNER_MAX, claim->owner);
}

char *lk_member_text(const struct lk_redis *r, const locker_claim *claim, const char *value)
{
    struct attempt *a = NULL;
    char *text = malloc(sizeof(a->member));
    if (text != NULL)
        member_of(r, claim, value, text, sizeof(a->member));
    return text;
}

void lk_pause(struct lk_redis *r, const struct lk_claim_data *claim, int64_t until)
{
    pthread_mutex_lock(&r->lock);
    while (lk_redis_now(r) < until && !r->closing && (claim == NULL || !claim->interrupted))
        r->clock->wait(r->clock->context, &r->changed, &r->lock, until);
    pthread_mutex_unlock(&r->lock);
}

/* ------------------------------------------------------------------ a grant ---- */

static locker_status granted(struct attempt *a, uint64_t fence, int64_t sent)
{
    locker_claim *claim = a->claim;
    struct lk_claim_data *data = a->data;
    data->fence = a->r->set.fencing ? fence : 0;
    claim->token = data->fence;
    claim->valid_until = lk_valid_until(sent, claim->ttl_ns);
    if (!data->tabled) { /* nobody else can see it */
        data->held = true;
        data->valid_until = claim->valid_until;
        return LOCKER_OK;
    }
    pthread_mutex_lock(&a->r->lock);
    data->held = true;
    data->valid_until = claim->valid_until;
    pthread_mutex_unlock(&a->r->lock);
    return LOCKER_OK;
}

/* Was it handed to us by a message? That grant came after our last attempt was found busy, so the lease
 * counts from when that one was sent. A message with a number that had been given out by then is of an
 * earlier grant, which we did not notice and which has ended. */
static bool take_given(struct attempt *a)
{
    struct lk_claim_data *data = a->data;
    if (!data->tabled)
        return false;
    pthread_mutex_lock(&a->r->lock);
    const uint64_t given = data->given;
    data->given = 0;
    pthread_mutex_unlock(&a->r->lock);
    if (given == 0 || data->busy_sent == 0 || given <= data->busy_fence || a->r->set.wait_replicas > 0)
        return false;
    const int64_t left = lk_valid_until(data->busy_sent, a->claim->ttl_ns) - lk_redis_now(a->r);
    if (left < a->claim->ttl_ns / 2)
        return false; /* an attempt confirms it, and its lease starts anew */
    return granted(a, given, data->busy_sent) == LOCKER_OK;
}

/* Wait until the replicas have the lock too. What was taken in vain is released by the withdraw that follows.
 */
static locker_status wait_replicas(struct attempt *a, locker_error *err)
{
    struct lk_redis *r = a->r;
    char count[24], bound[24];
    struct lk_argv argv = {0};
    struct lk_call call = {.until = a->claim->attempt_until, .claim = a->data};
    (void)snprintf(count, sizeof(count), "%" PRId64, r->set.wait_replicas);
    (void)snprintf(bound, sizeof(bound), "%" PRId64, r->set.wait_timeout_ns / LK_MS);
    lk_argv_text(&argv, "WAIT");
    lk_argv_text(&argv, count);
    lk_argv_text(&argv, bound);
    a->data->unsure = true;
    const enum lk_outcome outcome = lk_call(r, &call, &argv, err);
    if (outcome == LK_CALL_INTERRUPTED)
        return LOCKER_CANCELED;
    if (outcome != LK_CALL_ANSWERED)
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                                "Redis did not say whether replicas have the lock; it is given back");
    locker_status status = LOCKER_OK;
    if (call.reply->type != REDIS_REPLY_INTEGER)
        status = lk_fault_error(lk_reply_fault(call.reply), call.reply, "waiting for replicas", err);
    else if (call.reply->integer < r->set.wait_replicas)
        status = locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                                  "%lld of %" PRId64 " replicas have the lock after %" PRId64
                                  " ms; it is given back: look after the replicas, or lower wait_replicas",
                                  call.reply->integer, r->set.wait_replicas, r->set.wait_timeout_ns / LK_MS);
    freeReplyObject(call.reply);
    return status;
}

/* ------------------------------------------------------------------ no grant ---- */

/* Another has it. Come back when its lease would end, and now and then, because foreign clients don't tell
 * when they release and a message can be lost. */
static locker_status busy(struct attempt *a, int64_t pttl_ms, uint64_t last, int64_t sent, locker_error *err)
{
    locker_status status = LOCKER_BUSY;
    struct lk_redis *r = a->r;
    locker_claim *claim = a->claim;
    int64_t wait = r->set.poll_ns;
    a->data->busy_sent = sent;
    a->data->busy_fence = last;
    claim->retry_at = 0;
    if (!claim->will_wait)
        return LOCKER_BUSY;
    if (claim->ttl_ns / 3 < wait)
        wait = claim->ttl_ns / 3;
    pthread_mutex_lock(&r->lock);
    lk_claims_add_locked(r, claim);
    r->sub.wanted = true;
    if (r->sub.refused) { /* told once; whoever comes next tries again */
        r->sub.refused = false;
        status = r->sub.why.status;
        *err = r->sub.why;
    }
    if (r->sub.link == NULL)
        lk_connector_want_locked(r);
    wait += (int64_t)lk_random(r, (uint64_t)wait / 10 + 1);
    if (pttl_ms >= 0)
        wait = lk_earlier(wait, (pttl_ms + 5) * LK_MS + (int64_t)lk_random(r, 10 * LK_MS));
    pthread_mutex_unlock(&r->lock);
    claim->retry_at = lk_redis_now(r) + wait;
    return status;
}

/* The server answered with an error. OK: try again at once. */
static locker_status refused(struct attempt *a, const redisReply *reply, locker_error *err)
{
    const enum lk_fault fault = lk_reply_fault(reply);
    a->data->unsure = true; /* a script may have got half-way */
    if (fault == LK_FAULT_MOVED && a->hops++ < LK_HOPS_MAX) {
        pthread_mutex_lock(&a->r->lock);
        lk_moved_locked(a->r, reply);
        pthread_mutex_unlock(&a->r->lock);
        return LOCKER_OK;
    }
    if (fault == LK_FAULT_NONE)
        return lk_reply_nonsense("taking a lock", err);
    if (fault == LK_FAULT_TRANSIENT)
        a->claim->retry_at = lk_redis_now(a->r) + again_ns;
    return lk_fault_error(fault, reply, "taking a lock", err);
}

/* There was no answer. OK: try again at once; it waits for the connection. */
static locker_status unanswered(struct attempt *a, enum lk_outcome outcome, int64_t sent, locker_error *err)
{
    if (sent != 0)
        a->data->unsure = true;
    switch (outcome) {
    case LK_CALL_CUT:
        return LOCKER_OK;
    case LK_CALL_LATE:
        return locker_error_set(err, LOCKER_TIMEOUT, 0, "Redis did not answer in time");
    case LK_CALL_INTERRUPTED:
        return locker_error_set(err, LOCKER_CANCELED, 0, "canceled");
    case LK_CALL_REFUSED:
    case LK_CALL_AWAY:
        return err != NULL ? err->status : LOCKER_UNAVAILABLE;
    default:
        return LOCKER_NOMEM;
    }
}

/* ------------------------------------------------------------------ the attempt ---- */

/* `SET key value NX PX ttl`, as every simple client does: OK is a grant, nil is busy (or ours already). */
static enum lk_outcome call_plain(struct attempt *a, struct lk_call *call, locker_error *err)
{
    struct lk_argv argv = {0};
    lk_argv_add(&argv, "SET", 3);
    lk_argv_add(&argv, a->keys.lock, a->keys.lock_len);
    lk_argv_add(&argv, a->value, LK_VALUE_LEN);
    lk_argv_add(&argv, "NX", 2);
    lk_argv_add(&argv, "PX", 2);
    lk_argv_text(&argv, a->ttl);
    return lk_call(a->r, call, &argv, err);
}

static enum lk_outcome call_script(struct attempt *a, struct lk_call *call, locker_error *err)
{
    struct lk_argv fill = {0};
    const bool queued = a->data->enrolled;
    a->member[0] = '\0';
    if (a->claim->will_wait && atomic_load_explicit(&a->r->sub.ready, memory_order_relaxed)) {
        pthread_mutex_lock(&a->r->lock); /* before a message can come */
        lk_claims_add_locked(a->r, a->claim);
        pthread_mutex_unlock(&a->r->lock);
        if (a->data->tabled) {
            member_of(a->r, a->claim, a->value, a->member, sizeof(a->member));
            a->data->enrolled = true;
        }
    } else if (a->data->enrolled) { /* it may stand in the queue still: stays, and is taken out by a grant */
        member_of(a->r, a->claim, a->value, a->member, sizeof(a->member));
    }
    lk_argv_add(&fill, a->value, LK_VALUE_LEN);
    lk_argv_text(&fill, a->ttl);
    lk_argv_text(&fill, a->claim->owner);
    lk_argv_text(&fill, a->member);
    lk_argv_text(&fill, a->queue_ttl);
    lk_argv_add(&fill, a->r->set.fencing ? "1" : "0", 1);
    lk_argv_text(&fill, a->info_ttl);
    lk_argv_add(&fill, queued && a->member[0] != '\0' ? "1" : "0", 1);
    return lk_call_script(a->r, call, LK_SCRIPT_ACQUIRE, &a->keys, &fill, err);
}

/* What an answer means. OK with *again: another attempt at once. */
static locker_status read_answer(struct attempt *a, const redisReply *reply, int64_t sent, bool plain,
                                 bool *again, locker_error *err)
{
    locker_status status;
    if (plain && reply->type == REDIS_REPLY_STATUS)
        return granted(a, 0, sent);
    if (plain && reply->type == REDIS_REPLY_NIL) {
        *again = a->claim->will_wait; /* the script tells for how long, and enrols */
        return *again ? LOCKER_OK : busy(a, -1, 0, sent, err);
    }
    if (!plain && reply->type == REDIS_REPLY_STRING && reply->str[0] >= '1' && reply->str[0] <= '9')
        return granted(a, strtoull(reply->str, NULL, 10), sent);
    if (!plain && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[1]->type == REDIS_REPLY_INTEGER)
        return busy(a, reply->element[0]->integer, (uint64_t)reply->element[1]->integer, sent, err);
    status = refused(a, reply, err);
    *again = status == LOCKER_OK;
    return status;
}

static locker_status try_once(struct attempt *a, bool plain, bool *again, locker_error *err)
{
    struct lk_call call = {.until = a->claim->attempt_until, .claim = a->data};
    const enum lk_outcome outcome = plain ? call_plain(a, &call, err) : call_script(a, &call, err);
    locker_status status;
    if (outcome == LK_CALL_ANSWERED) {
        status = read_answer(a, call.reply, call.sent, plain, again, err);
        freeReplyObject(call.reply);
    } else {
        status = unanswered(a, outcome, call.sent, err);
        *again = status == LOCKER_OK;
    }
    if (status == LOCKER_OK && !*again && a->r->set.wait_replicas > 0)
        status = wait_replicas(a, err);
    return status;
}

locker_status lk_redis_acquire(void *self, locker_claim *claim, locker_error *err)
{
    struct lk_redis *r = self;
    struct attempt a = {.r = r, .claim = claim, .data = lk_claim_data(claim)};
    locker_error spare;
    locker_status status;
    bool again = true;
    claim->retry_at = 0;
    if (err == NULL)
        err = &spare;
    if (a.data->number == 0) /* relaxed: numbers need only differ */
        a.data->number = atomic_fetch_add_explicit(&r->counter, 1, memory_order_relaxed) + 1;
    if (take_given(&a))
        return LOCKER_OK;
    if (!lk_keys_init(&a.keys, r->set.name_space, claim->key, claim->key_len))
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    lk_value_text(r, a.data->number, a.value);
    (void)snprintf(a.ttl, sizeof(a.ttl), "%" PRId64, claim->ttl_ns / LK_MS);
    const int64_t queue_ns = 3 * r->set.poll_ns > queue_least_ns ? 3 * r->set.poll_ns : queue_least_ns;
    (void)snprintf(a.queue_ttl, sizeof(a.queue_ttl), "%" PRId64, queue_ns / LK_MS);
    const int64_t info_ns = 100 * claim->ttl_ns > info_least_ns ? 100 * claim->ttl_ns : info_least_ns;
    (void)snprintf(a.info_ttl, sizeof(a.info_ttl), "%" PRId64, info_ns / LK_MS);
    bool plain = !r->set.fencing && !a.data->unsure && !a.data->enrolled;
    do {
        again = false;
        status = try_once(&a, plain, &again, err);
        plain = false;
    } while (again);
    lk_keys_clear(&a.keys);
    return status;
}

void lk_redis_interrupt(void *self, locker_claim *claim)
{
    struct lk_redis *r = self;
    struct lk_claim_data *data = lk_claim_data(claim);
    pthread_mutex_lock(&r->lock);
    data->interrupted = true;
    if (data->op != NULL) {
        lk_nudge_locked(r, data->op);
        lk_kick_locked_reader(r);
    }
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}
