/*
 * renew.c: extending many leases by few commands: a script compares and extends LK_RENEW_BATCH locks at a
 * time, and all its calls travel together. An answer finds its claims through slots that a release, a
 * withdraw or a hand-over clears or turns to another claim, so it never touches a claim that is gone.
 *
 * A command has a key for each lease, so it is written straight into its bytes: with many leases this is most
 * of what keeping them costs.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The most that a lease takes of a command but for its key, and what the command takes by itself but for its
 * script. */
enum { LEASE_BYTES = LK_VALUE_LEN + 64, COMMAND_BYTES = 128 };

struct renewal {
    int64_t sent; /* before the command could have been sent */
    bool whole;   /* the script's text was sent */
    size_t count;
    locker_claim *claim[LK_RENEW_BATCH]; /* NULL: gone meanwhile */
};

static void free_locked(struct renewal *n)
{
    for (size_t i = 0; i < n->count; i++) {
        if (n->claim[i] != NULL)
            lk_claim_data(n->claim[i])->renewal = NULL;
    }
    free(n);
}

static char *put_key(const struct lk_redis *r, const locker_claim *claim, char *out)
{
    const size_t name_space = strlen(r->set.name_space);
    out = lk_put_line(out, '$', name_space + (name_space > 0) + claim->key_len);
    memcpy(out, r->set.name_space, name_space);
    out += name_space;
    if (name_space > 0)
        *out++ = ':';
    memcpy(out, claim->key, claim->key_len);
    return lk_put_end(out + claim->key_len);
}

static bool of_one_length(const struct renewal *n)
{
    size_t i = 1;
    while (i < n->count && n->claim[i]->ttl_ns == n->claim[0]->ttl_ns)
        i++;
    return i == n->count;
}

/* The command, as scripts.c describes its arguments; answers its end. Every slot holds a claim. */
static char *put_command(const struct lk_redis *r, const struct renewal *n, const char *script, char *out)
{
    const size_t lengths = of_one_length(n) ? 1 : n->count;
    out = lk_put_line(out, '*', 4 + n->count + lengths);
    out = lk_put_text(out, script == r->sha[LK_SCRIPT_RENEW] ? "EVALSHA" : "EVAL");
    out = lk_put_text(out, script);
    out = lk_put_number(out, n->count);
    for (size_t i = 0; i < n->count; i++)
        out = put_key(r, n->claim[i], out);
    out = lk_put_line(out, '$', n->count * LK_VALUE_LEN);
    for (size_t i = 0; i < n->count; i++, out += LK_VALUE_LEN)
        lk_value_text(r, lk_claim_data(n->claim[i])->number, out); /* its NUL is written over */
    out = lk_put_end(out);
    for (size_t i = 0; i < lengths; i++)
        out = lk_put_number(out, (size_t)(n->claim[i]->ttl_ns / LK_MS));
    return out;
}

static void done_locked(struct lk_redis *r, void *context, redisReply *reply);

static bool submit_locked(struct lk_redis *r, struct renewal *n)
{
    const bool whole = n->whole || r->sha[LK_SCRIPT_RENEW][0] == '\0';
    const char *script = whole ? lk_script_text(LK_SCRIPT_RENEW) : r->sha[LK_SCRIPT_RENEW];
    size_t room = COMMAND_BYTES + strlen(script) + n->count * (LEASE_BYTES + strlen(r->set.name_space));
    for (size_t i = 0; i < n->count; i++)
        room += n->claim[i]->key_len;
    char *bytes = malloc(room);
    if (bytes == NULL)
        return false;
    n->sent = lk_redis_now(r);
    const size_t len = (size_t)(put_command(r, n, script, bytes) - bytes);
    const bool submitted = lk_submit_locked(r, bytes, len, done_locked, n);
    free(bytes);
    return submitted;
}

/* Leave out the claims that are gone; the slots close up. */
static void compact(struct renewal *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        if (n->claim[i] == NULL)
            continue;
        n->claim[kept] = n->claim[i];
        lk_claim_data(n->claim[kept])->renewal = &n->claim[kept];
        kept++;
    }
    n->count = kept;
}

static void take_answers_locked(struct lk_redis *r, struct renewal *n, const char *answers)
{
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = n->claim[i];
        if (claim == NULL)
            continue;
        struct lk_claim_data *data = lk_claim_data(claim);
        data->renewal = NULL;
        n->claim[i] = NULL;
        if (answers[i] != '1') {
            r->svc->lease_lost(r->svc, claim, "its key at Redis was deleted, replaced or has expired");
            continue;
        }
        const int64_t until = lk_valid_until(n->sent, claim->ttl_ns);
        if (until > data->valid_until)
            data->valid_until = until;
        data->era = atomic_load_explicit(&r->era, memory_order_relaxed);
        r->svc->lease_extended(r->svc, claim, until);
    }
}

static void done_locked(struct lk_redis *r, void *context, redisReply *reply)
{
    struct renewal *n = context;
    if (reply != NULL) {
        const enum lk_fault fault = lk_reply_fault(reply);
        if (reply->type == REDIS_REPLY_STRING && reply->len == n->count) {
            take_answers_locked(r, n, reply->str);
        } else if (fault == LK_FAULT_NOSCRIPT && !n->whole) {
            n->whole = true;
            compact(n);
            if (n->count > 0 && submit_locked(r, n))
                return;
        } else if (fault == LK_FAULT_MOVED) {
            lk_moved_locked(r, reply);
        } else {
            locker_error error = {0};
            (void)lk_fault_error(fault, reply, "renewing leases", &error);
            lk_note_locked(r, LOCKER_LOG_WARN, "redis: %s", error.text);
        }
    }
    free_locked(n); /* no answer is no extension: core asks again */
}

void lk_redis_renew(void *self, locker_claim *const *grants, size_t count)
{
    struct lk_redis *r = self;
    pthread_mutex_lock(&r->lock);
    for (size_t from = 0; from < count && r->conn.state == LK_CONN_UP; from += LK_RENEW_BATCH) {
        struct renewal *n = malloc(sizeof(*n));
        if (n == NULL)
            break;
        n->whole = false;
        n->count = count - from < LK_RENEW_BATCH ? count - from : LK_RENEW_BATCH;
        for (size_t i = 0; i < n->count; i++) {
            struct lk_claim_data *data = lk_claim_data(grants[from + i]);
            if (data->renewal != NULL)
                *data->renewal = NULL; /* an older answer would say less */
            data->renewal = &n->claim[i];
            n->claim[i] = grants[from + i];
        }
        if (!submit_locked(r, n))
            free_locked(n);
    }
    lk_pump_locked(r);
    pthread_mutex_unlock(&r->lock);
}
