/*
 * release.c: giving a lock back. With a caller that wants to know what became of it (release), and without
 * (withdraw, which leaves it to cleanup.c).
 */
#include <string.h>

#include "claim_table.h"
#include "cleanup.h"
#include "grant_info.h"
#include "keys.h"
#include "member.h"
#include "net/reply.h"
#include "operations.h"
#include "script_call.h"

static const int64_t again_ns = 100 * LK_MS;

struct release {
    lk_redis *r;
    lk_redis_keys keys;
    char value[LK_REDIS_VALUE_LEN + 1];
    char direct_us[24];
    size_t direct_len;
    int64_t valid_until; /* the local deadline */
    int64_t until;
    unsigned era; /* the server that last confirmed it */
    bool maybe;   /* a request whose answer was lost may have released it */
    unsigned hops;
};

static locker_status broken(locker_error *err)
{
    return locker_error_set(err, LOCKER_LOST, 0, "the lock was not ours any more: somebody broke it");
}

/* The server says that it isn't ours, and that nobody broke it. If a lost request may have released it, our
 * lease is not over, and the server is the one that confirmed the lease, then nobody but that request can
 * have taken it away. `era`: of that server. */
static locker_status not_ours(const struct release *x, unsigned era, locker_error *err)
{
    if (!x->maybe)
        return locker_error_set(err, LOCKER_LOST, 0,
                                "the lock was not ours any more: its lease had ended, or somebody "
                                "deleted it");
    if (era != x->era)
        return locker_error_set(
            err, LOCKER_UNKNOWN, 0,
            "the connection was lost while the lock was released, and the server may have been restarted or "
            "replaced since: the lock is not ours any more, but whether by us is not known");
    if (lk_redis_now(&x->r->shared) < x->valid_until)
        return LOCKER_OK;
    return locker_error_set(
        err, LOCKER_UNKNOWN, 0,
        "the connection was lost while the lock was released, and its lease has ended since: it is "
        "free, but whether by us is not known");
}

/* OK with *again: ask once more. */
static locker_status read_answer(struct release *x, const lk_redis_call *call, bool *again, locker_error *err)
{
    const redisReply *reply = call->reply;
    const lk_redis_fault fault = lk_redis_reply_fault(reply);
    atomic_store_explicit(&x->r->trusted, reply->type == REDIS_REPLY_INTEGER, memory_order_relaxed);
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer == 1  ? LOCKER_OK
               : reply->integer < 0 ? broken(err)
                                    : not_ours(x, call->era, err);
    if (fault == LK_REDIS_FAULT_TRANSIENT ||
        (fault == LK_REDIS_FAULT_MOVED && x->hops++ < LK_REDIS_HOPS_MAX)) {
        *again = true;
        if (fault == LK_REDIS_FAULT_TRANSIENT) {
            lk_redis_pause(&x->r->shared, NULL,
                           lk_time_earlier(x->until, lk_redis_now(&x->r->shared) + again_ns));
            return LOCKER_OK;
        }
        lk_redis_lock(&x->r->shared);
        lk_redis_net_moved_locked(x->r->net, reply);
        lk_redis_unlock(&x->r->shared);
        return LOCKER_OK;
    }
    if (fault == LK_REDIS_FAULT_NONE)
        (void)lk_redis_reply_nonsense("releasing a lock", err);
    else
        (void)lk_redis_fault_error(fault, reply, "releasing a lock", err);
    if (err != NULL)
        err->status = LOCKER_UNKNOWN;
    return LOCKER_UNKNOWN;
}

static locker_status ask(struct release *x, bool *again, locker_error *err)
{
    lk_redis_call call = {.until = x->until};
    lk_redis_command fill;
    locker_status status;
    fill.argc = 0; /* large, and no more of it is read */
    *again = false;
    lk_redis_command_add(&fill, x->value, LK_REDIS_VALUE_LEN);
    lk_redis_command_add(&fill, "", 0);
    lk_redis_command_add(&fill, x->direct_us, x->direct_len);
    switch (lk_redis_ask_script(x->r, &call, LK_REDIS_SCRIPT_RELEASE, &x->keys, &fill, err)) {
    case LK_REDIS_CALL_ANSWERED:
        status = read_answer(x, &call, again, err);
        freeReplyObject(call.reply);
        return status;
    case LK_REDIS_CALL_CUT:
        x->maybe = *again = true;
        return LOCKER_OK;
    case LK_REDIS_CALL_LATE:
        return locker_error_set(
            err, LOCKER_UNKNOWN, 0,
            "Redis did not answer the release in time; it goes on in the background, and the lease's "
            "end settles it");
    default:
        if (err != NULL)
            err->status = LOCKER_UNKNOWN; /* the text says why it can't be asked */
        return LOCKER_UNKNOWN;
    }
}

/* No renewal and no note is sent for the claim any more, and no answer finds it. */
static void silence_locked(lk_redis *r, locker_claim *claim) LK_REDIS_LOCKED
{
    lk_redis_claim *data = lk_redis_claim_of(claim);
    lk_redis_note_forget_locked(r, data);
    if (data->renewal != NULL)
        *data->renewal = NULL;
    data->renewal = NULL;
}

/* The claim ends. It stays in the table till now: a late message of its grant, if it found no claim, would
 * give the lock back behind the release's back, which would then be told that the lock was not ours. */
static void let_go(struct release *x, locker_claim *grant, bool go_on)
{
    lk_redis *r = x->r;
    lk_redis_lock(&r->shared);
    lk_redis_claims_remove_locked(&r->claims, grant);
    if (go_on && x->keys.memory != NULL) {
        lk_redis_cleanup_start_locked(r, &x->keys, x->value, NULL);
        lk_redis_pump_unlocking(r->net);
    }
    lk_redis_unlock(&r->shared);
}

locker_status lk_redis_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    lk_redis *r = self;
    lk_redis_claim *data = lk_redis_claim_of(grant);
    struct release x = {.r = r, .until = until};
    bool again = true;
    locker_status status = LOCKER_UNKNOWN;
    lk_redis_value_text(&r->values, data->number, x.value);
    lk_redis_lock(&r->shared); /* no renewal may come after the release */
    silence_locked(r, grant);
    const bool tabled = data->tabled; /* from here on nobody puts it there */
    x.direct_len =
        lk_redis_number_text(x.direct_us, (uint64_t)lk_redis_claim_direct_us(data, lk_redis_now(&r->shared)));
    x.valid_until = data->valid_until;
    x.era = data->era;
    lk_redis_unlock(&r->shared);
    if (!lk_redis_keys_init(&x.keys, r->set.name_space, grant->key, grant->key_len)) {
        again = false;
        locker_error_set(err, LOCKER_UNKNOWN, 0, "out of memory while releasing; the lease's end settles it");
    }
    while (again)
        status = ask(&x, &again, err);
    if (tabled || status == LOCKER_UNKNOWN)
        let_go(&x, grant, status == LOCKER_UNKNOWN);
    lk_redis_keys_clear(&x.keys);
    return status;
}

void lk_redis_withdraw(void *self, locker_claim *claim)
{
    lk_redis *r = self;
    lk_redis_claim *data = lk_redis_claim_of(claim);
    /* Something may be at the server. */
    const bool left =
        atomic_load_explicit(&data->held, memory_order_relaxed) || data->unsure || data->enrolled;
    lk_redis_keys keys = {0};
    char value[LK_REDIS_VALUE_LEN + 1];
    char member[LK_REDIS_MEMBER_MAX];
    lk_redis_value_text(&r->values, data->number, value);
    if (left && data->enrolled)
        lk_redis_member_text(r->name, claim, value, member);
    const bool named = left && lk_redis_keys_init(&keys, r->set.name_space, claim->key, claim->key_len);
    lk_redis_lock(&r->shared);
    silence_locked(r, claim);
    lk_redis_claims_remove_locked(&r->claims, claim);
    if (named) {
        lk_redis_cleanup_start_locked(r, &keys, value, data->enrolled ? member : NULL);
        lk_redis_pump_unlocking(r->net);
    }
    lk_redis_unlock(&r->shared);
}
