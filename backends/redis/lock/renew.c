/* renew.c: extending many leases by few commands: a script compares and extends 256 locks at a
 * time, and all its calls travel together. An answer finds its claims through slots that a release, a
 * withdraw or a hand-over clears or turns to another claim, so it never touches a claim that is gone.
 * A claim may be in several that are under way: core asks again while a slow server has not answered, and
 * each answer counts from its own sending.
 */
#include <inttypes.h>

#include "batch.h"
#include "net/reply.h"
#include "recovery.h"

enum {
    BATCH_MAX = 256, /* leases in one command, for which a server takes a third of a millisecond */
    AT_ONCE = 2,  /* such commands are under way: with more, whatever else is asked for would wait for them */
    FAR_AWAY = 64 /* ... where the way is long, one in each millisecond */
};

static const int64_t apart_ns = LK_MS;

struct renewal {
    lk_redis *r;
    lk_redis_pipeline *on; /* it was sent */
    lk_list link;          /* in lk_redis_renewals.waiting, until it is sent */
    int64_t sent;          /* before the command could have been sent */
    bool whole;            /* the script's text was sent */
    bool answered; /* by the script: the claims that it still refers to have their leases at the server */
    bool again;    /* the server does not know the script */
    bool waits;    /* an answer to WAIT is to come behind the script's */
    bool proven;   /* enough replicas have what was written */
    size_t count;
    lk_redis_renewed slot[]; /* so many at first */
};

static void refer_locked(lk_redis_renewed *slot, locker_claim *claim) LK_REDIS_LOCKED
{
    lk_redis_claim *data = lk_redis_claim_of(claim);
    *slot = (lk_redis_renewed){claim, data->renewals};
    data->renewals = slot;
}

/* Its claim, which it does not refer to any more; NULL: none. */
static locker_claim *take_locked(lk_redis_renewed *slot) LK_REDIS_LOCKED
{
    locker_claim *claim = slot->claim;
    if (claim == NULL)
        return NULL;
    lk_redis_renewed **at = &lk_redis_claim_of(claim)->renewals;
    while (*at != slot)
        at = &(*at)->older;
    *at = slot->older;
    slot->claim = NULL;
    return claim;
}

static void free_locked(struct renewal *n) LK_REDIS_LOCKED
{
    for (size_t i = 0; i < n->count; i++)
        (void)take_locked(&n->slot[i]);
    free(n);
}

static bool of_one_length(const struct renewal *n)
{
    size_t i = 1;
    while (i < n->count && n->slot[i].claim->ttl_ns == n->slot[0].claim->ttl_ns)
        i++;
    return i == n->count;
}

/* The command, as scripts.c describes its arguments; answers its end. Every slot holds a claim. */
static char *put_command_locked(lk_redis *r, const struct renewal *n, const char *script, bool whole,
                                char *out) LK_REDIS_LOCKED
{
    const size_t lengths = of_one_length(n) ? 1 : n->count;
    if (r->recovery.mark != NULL)
        return lk_redis_recovery_put_locked(r, n->slot, n->count, script, whole, out);
    out = lk_redis_batch_begin(out, script, whole, 2 * n->count, 1 + lengths);
    for (size_t i = 0; i < n->count; i++)
        out = lk_redis_batch_keys(r, n->slot[i].claim, LK_REDIS_INFO, out);
    out = lk_redis_put_line(out, '$', n->count * LK_REDIS_VALUE_LEN);
    for (size_t i = 0; i < n->count; i++, out += LK_REDIS_VALUE_LEN) /* its NUL is written over */
        lk_redis_value_text(&r->values, lk_redis_claim_of(n->slot[i].claim)->number, out);
    out = lk_redis_put_end(out);
    for (size_t i = 0; i < lengths; i++)
        out = lk_redis_put_number(out, (size_t)(n->slot[i].claim->ttl_ns / LK_MS));
    return out;
}

/* What carries them; where it can't be had, what carries all else. */
static lk_redis_pipeline *carrier_locked(const lk_redis *r) LK_REDIS_LOCKED
{
    return r->renewing->state == LK_REDIS_UP ? r->renewing : r->commands;
}

static void script_done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;
static void wait_done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;

/* The replicas are to have it too: WAIT stands right behind the script, and tells of what that has written. */
static bool submit_wait_locked(struct renewal *n) LK_REDIS_LOCKED
{
    char count[LK_REDIS_NUMBER_MAX], bound[LK_REDIS_NUMBER_MAX];
    (void)lk_redis_number_text(count, (uint64_t)n->r->set.wait_replicas);
    (void)lk_redis_number_text(bound, (uint64_t)(n->r->set.wait_timeout_ns / LK_MS));
    const lk_redis_command a = LK_REDIS_COMMAND("WAIT", count, bound);
    return lk_redis_submit_command_locked(n->on, &a, wait_done_locked, n);
}

static bool submit_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis *r = n->r;
    const bool whole = n->whole || r->sha[LK_REDIS_SCRIPT_RENEW][0] == '\0';
    const char *script = whole ? r->script[LK_REDIS_SCRIPT_RENEW] : r->sha[LK_REDIS_SCRIPT_RENEW];
    size_t room = LK_REDIS_BATCH_BYTES + strlen(script);
    for (size_t i = 0; i < n->count; i++)
        room += r->recovery.mark != NULL ? lk_redis_recovery_room(r, n->slot[i].claim)
                                         : lk_redis_batch_room(r, n->slot[i].claim);
    if (r->recovery.mark != NULL)
        room += strlen(r->recovery.mark) + LK_REDIS_LIFE_MAX;
    n->on = carrier_locked(r);
    char *out = lk_redis_room_locked(n->on, room);
    n->sent = lk_redis_now(&r->shared);
    n->answered = n->again = n->waits = false;
    if (out == NULL ||
        !lk_redis_submit_locked(n->on, put_command_locked(r, n, script, whole, out), script_done_locked, n))
        return false;
    n->proven = r->set.wait_replicas == 0;
    n->waits = !n->proven && submit_wait_locked(n); /* without: nothing is extended */
    return true;
}

/* One that is over brings no lock back. */
static bool may_renew_locked(const lk_redis *r, const locker_claim *claim) LK_REDIS_LOCKED
{
    return r->recovery.mark == NULL || lk_redis_now(&r->shared) < lk_redis_claim_of(claim)->valid_until;
}

/* Leave out the claims that are gone; the slots close up. */
static void compact_locked(struct renewal *n) LK_REDIS_LOCKED
{
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = take_locked(&n->slot[i]);
        if (claim != NULL && may_renew_locked(n->r, claim))
            refer_locked(&n->slot[kept++], claim);
    }
    n->count = kept;
}

/* Those that the script did not find are lost, whatever replicas have. */
static void tell_lost_locked(struct renewal *n, const char *answers) LK_REDIS_LOCKED
{
    lk_redis *r = n->r;
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = answers[i] != '1' ? take_locked(&n->slot[i]) : NULL;
        if (claim == NULL || answers[i] == '-') /* nothing is known of that one */
            continue;
        lk_redis_claim_renewals_to_locked(lk_redis_claim_of(claim), NULL); /* it is lost but once */
        r->shared.svc->lease_lost(r->shared.svc, claim,
                                  "its key at Redis was deleted, replaced or has expired");
    }
}

static void extend_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis *r = n->r;
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = take_locked(&n->slot[i]);
        if (claim == NULL)
            continue;
        lk_redis_claim *data = lk_redis_claim_of(claim);
        const int64_t until = lk_redis_valid_until(n->sent, claim->ttl_ns);
        if (until > data->valid_until)
            data->valid_until = until;
        data->era = lk_redis_era(r->commands);
        r->shared.svc->lease_extended(r->shared.svc, claim, until);
    }
}

/* Whether another command may go: none of a server whose answers take longer than its work has to wait for that. */
static bool has_room_locked(const lk_redis *r, int64_t now) LK_REDIS_LOCKED
{
    const lk_redis_renewals *const all = &r->renewals;
    return all->under_way < AT_ONCE || (all->under_way < FAR_AWAY && now >= all->next_at);
}

/* Send what waits, as far as there is room. Without a connection it goes: no answer is no extension, and core asks again. */
static void send_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED
{
    const bool up = carrier_locked(r)->state == LK_REDIS_UP;
    while (!up || has_room_locked(r, now)) {
        lk_list *const link = lk_list_take(&r->renewals.waiting);
        if (link == NULL)
            return;
        struct renewal *const n = LK_CONTAINER(link, struct renewal, link);
        compact_locked(n);
        if (!up || n->count == 0 || !submit_locked(n)) {
            free_locked(n);
            continue;
        }
        r->renewals.under_way++;
        r->renewals.next_at = now + apart_ns;
    }
}

int64_t lk_redis_renewals_run_locked(lk_redis *r, int64_t now)
{
    send_locked(r, now);
    const bool full = r->renewals.under_way >= FAR_AWAY;
    return full || lk_list_empty(&r->renewals.waiting) ? LOCKER_NEVER : r->renewals.next_at;
}

/* All that is to come has come. */
static void end_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis *r = n->r;
    if (n->again && !n->whole) {
        n->whole = true;
        compact_locked(n);
        if (n->count > 0 && submit_locked(n))
            return;
    }
    if (n->answered && n->proven)
        extend_locked(n);
    free_locked(n);
    r->renewals.under_way--;
    send_locked(r, lk_redis_now(&r->shared));
}

static void tell_fault_locked(const lk_redis *r, const redisReply *reply, const char *doing) LK_REDIS_LOCKED
{
    locker_error error = {0};
    (void)lk_redis_reply_error(reply, doing, &error);
    r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN, "redis: %s", error.text);
}

static void script_done_locked(void *context, redisReply *reply)
{
    struct renewal *n = context;
    lk_redis *r = n->r;
    const lk_redis_fault fault = reply != NULL ? lk_redis_reply_fault(reply) : LK_REDIS_FAULT_NONE;
    if (reply == NULL) {
        /* no answer is no extension, and core asks again */
    } else if (reply->type == REDIS_REPLY_STRING && reply->len == n->count) {
        n->answered = true;
        tell_lost_locked(n, reply->str);
    } else if (fault == LK_REDIS_FAULT_NOSCRIPT && !n->whole) {
        n->again = true;
    } else if (fault == LK_REDIS_FAULT_MOVED) {
        lk_redis_net_moved_locked(r->net, reply);
    } else {
        tell_fault_locked(r, reply, "renewing leases");
    }
    if (!n->waits)
        end_locked(n);
}

static void wait_done_locked(void *context, redisReply *reply)
{
    struct renewal *n = context;
    lk_redis *r = n->r;
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) {
        n->proven = reply->integer >= r->set.wait_replicas;
        if (!n->proven && n->answered)
            r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN,
                               "redis: %lld of %" PRId64 " replicas have the renewal of leases after %" PRId64
                               " ms; it does not count",
                               reply->integer, r->set.wait_replicas, r->set.wait_timeout_ns / LK_MS);
    } else if (reply != NULL) {
        tell_fault_locked(r, reply, "waiting for replicas to have renewals");
    }
    end_locked(n);
}

void lk_redis_renew(void *self, locker_claim *const *grants, size_t count)
{
    lk_redis *r = self;
    lk_redis_lock(&r->shared);
    if (r->recovery.mark != NULL)
        lk_redis_net_hurry_locked(
            r->net); /* what the server has lost is brought back before the lease ends, or not at all */
    for (size_t from = 0; from < count && carrier_locked(r)->state == LK_REDIS_UP; from += BATCH_MAX) {
        const size_t batch = count - from < BATCH_MAX ? count - from : BATCH_MAX;
        struct renewal *n = malloc(sizeof *n + batch * sizeof n->slot[0]);
        if (n == NULL)
            break;
        *n = (struct renewal){.r = r, .count = batch};
        for (size_t i = 0; i < batch; i++)
            refer_locked(&n->slot[i], grants[from + i]);
        lk_list_append(&r->renewals.waiting, &n->link);
    }
    send_locked(r, lk_redis_now(&r->shared));
    const bool more = !lk_list_empty(&r->renewals.waiting);
    lk_redis_pump_unlocking(carrier_locked(r));
    lk_redis_unlock(&r->shared);
    if (more)
        r->shared.svc->attend(r->shared.svc);
}

void lk_redis_renewals_free(lk_redis *r)
{
    for (lk_list *link; (link = lk_list_take(&r->renewals.waiting)) != NULL;)
        free(LK_CONTAINER(link, struct renewal, link));
}
