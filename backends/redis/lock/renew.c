/* renew.c: extending many leases by few commands: a script compares and extends 256 locks at a
 * time, and all its calls travel together. An answer finds its claims through slots that a release, a
 * withdraw or a hand-over clears or turns to another claim, so it never touches a claim that is gone.
 * A claim may be in several that are under way: core asks again while a slow server has not answered, and
 * each answer counts from its own sending.
 *
 * A command has a key for each lease, so it is written straight into its bytes: with many leases this is most
 * of what keeping them costs. */
#include "instance.h"
#include "net/reply.h"

enum { BATCH_MAX = 256 }; /* leases in one command */

/* The most that a lease takes of a command, without its key, and the command by itself, without its script. */
enum { LEASE_BYTES = LK_REDIS_VALUE_LEN + 64, COMMAND_BYTES = 128 };

struct renewal {
    lk_redis *r;
    int64_t sent; /* before the command could have been sent */
    bool whole;   /* the script's text was sent */
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

static char *put_key(const lk_redis *r, const locker_claim *claim, char *out)
{
    const size_t name_space = strlen(r->set.name_space);
    out = lk_redis_put_line(out, '$', name_space + (name_space > 0) + claim->key_len);
    memcpy(out, r->set.name_space, name_space);
    out += name_space;
    if (name_space > 0)
        *out++ = ':';
    memcpy(out, claim->key, claim->key_len);
    return lk_redis_put_end(out + claim->key_len);
}

static bool of_one_length(const struct renewal *n)
{
    size_t i = 1;
    while (i < n->count && n->slot[i].claim->ttl_ns == n->slot[0].claim->ttl_ns)
        i++;
    return i == n->count;
}

/* The command, as scripts.c describes its arguments; answers its end. Every slot holds a claim. */
static char *put_command(const lk_redis *r, const struct renewal *n, const char *script, char *out)
{
    const size_t lengths = of_one_length(n) ? 1 : n->count;
    out = lk_redis_put_line(out, '*', 4 + n->count + lengths);
    out = lk_redis_put_text(out, script == r->sha[LK_REDIS_SCRIPT_RENEW] ? "EVALSHA" : "EVAL");
    out = lk_redis_put_text(out, script);
    out = lk_redis_put_number(out, n->count);
    for (size_t i = 0; i < n->count; i++)
        out = put_key(r, n->slot[i].claim, out);
    out = lk_redis_put_line(out, '$', n->count * LK_REDIS_VALUE_LEN);
    for (size_t i = 0; i < n->count; i++, out += LK_REDIS_VALUE_LEN) /* its NUL is written over */
        lk_redis_value_text(&r->values, lk_redis_claim_of(n->slot[i].claim)->number, out);
    out = lk_redis_put_end(out);
    for (size_t i = 0; i < lengths; i++)
        out = lk_redis_put_number(out, (size_t)(n->slot[i].claim->ttl_ns / LK_MS));
    return out;
}

static void done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;

static bool submit_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis *r = n->r;
    const bool whole = n->whole || r->sha[LK_REDIS_SCRIPT_RENEW][0] == '\0';
    const char *script = whole ? lk_redis_script_text[LK_REDIS_SCRIPT_RENEW] : r->sha[LK_REDIS_SCRIPT_RENEW];
    size_t room = COMMAND_BYTES + strlen(script) + n->count * (LEASE_BYTES + strlen(r->set.name_space));
    for (size_t i = 0; i < n->count; i++)
        room += n->slot[i].claim->key_len;
    char *out = lk_redis_room_locked(r->commands, room);
    n->sent = lk_redis_now(&r->shared);
    return out != NULL && lk_redis_submit_locked(r->commands, put_command(r, n, script, out), done_locked, n);
}

/* Leave out the claims that are gone; the slots close up. */
static void compact_locked(struct renewal *n) LK_REDIS_LOCKED
{
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = take_locked(&n->slot[i]);
        if (claim != NULL)
            refer_locked(&n->slot[kept++], claim);
    }
    n->count = kept;
}

static void take_answers_locked(struct renewal *n, const char *answers) LK_REDIS_LOCKED
{
    lk_redis *r = n->r;
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = take_locked(&n->slot[i]);
        if (claim == NULL)
            continue;
        lk_redis_claim *data = lk_redis_claim_of(claim);
        if (answers[i] != '1') {
            lk_redis_claim_renewals_to_locked(data, NULL); /* it is lost but once */
            r->shared.svc->lease_lost(r->shared.svc, claim,
                                      "its key at Redis was deleted, replaced or has expired");
            continue;
        }
        const int64_t until = lk_redis_valid_until(n->sent, claim->ttl_ns);
        if (until > data->valid_until)
            data->valid_until = until;
        data->era = lk_redis_era(r->commands);
        r->shared.svc->lease_extended(r->shared.svc, claim, until);
    }
}

static void done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    struct renewal *n = context;
    lk_redis *r = n->r;
    if (reply != NULL) {
        const lk_redis_fault fault = lk_redis_reply_fault(reply);
        if (reply->type == REDIS_REPLY_STRING && reply->len == n->count) {
            take_answers_locked(n, reply->str);
        } else if (fault == LK_REDIS_FAULT_NOSCRIPT && !n->whole) {
            n->whole = true;
            compact_locked(n);
            if (n->count > 0 && submit_locked(n))
                return;
        } else if (fault == LK_REDIS_FAULT_MOVED) {
            lk_redis_net_moved_locked(r->net, reply);
        } else {
            locker_error error = {0};
            (void)lk_redis_reply_error(reply, "renewing leases", &error);
            r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN, "redis: %s", error.text);
        }
    }
    free_locked(n); /* no answer is no extension: core asks again */
}

void lk_redis_renew(void *self, locker_claim *const *grants, size_t count)
{
    lk_redis *r = self;
    lk_redis_lock(&r->shared);
    for (size_t from = 0; from < count && r->commands->state == LK_REDIS_UP; from += BATCH_MAX) {
        const size_t batch = count - from < BATCH_MAX ? count - from : BATCH_MAX;
        struct renewal *n = malloc(sizeof *n + batch * sizeof n->slot[0]);
        if (n == NULL)
            break;
        n->r = r;
        n->whole = false;
        n->count = batch;
        for (size_t i = 0; i < batch; i++)
            refer_locked(&n->slot[i], grants[from + i]);
        if (!submit_locked(n))
            free_locked(n);
    }
    lk_redis_pump_unlocking(r->commands);
    lk_redis_unlock(&r->shared);
}
