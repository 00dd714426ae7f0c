/*
 * renew.c: extending many leases by few commands: a script compares and extends LK_RENEW_BATCH locks at a
 * time, and all its calls travel together. An answer finds its claims through slots that a release, a
 * withdraw or a hand-over clears or turns to another claim, so it never touches a claim that is gone.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct renewal {
    int64_t sent; /* before the command could have been sent */
    bool whole;   /* the script's text was sent */
    size_t count;
    locker_claim *claim[LK_RENEW_BATCH]; /* NULL: gone meanwhile */
};

/* The command's arguments, and the text that they point to. */
struct renewal_argv {
    const char *argv[3 + 3 * LK_RENEW_BATCH];
    size_t len[3 + 3 * LK_RENEW_BATCH];
    char value[LK_RENEW_BATCH][LK_VALUE_LEN + 1];
    char ttl[LK_RENEW_BATCH][24];
    char count[24];
    char key[]; /* `key_size` bytes for each */
};

static void free_locked(struct renewal *n)
{
    for (size_t i = 0; i < n->count; i++) {
        if (n->claim[i] != NULL)
            lk_claim_data(n->claim[i])->renewal = NULL;
    }
    free(n);
}

static void set_argument(struct renewal_argv *x, size_t at, const char *text, size_t len)
{
    x->argv[at] = text;
    x->len[at] = len;
}

/* The lock's key, written to `out`; answers its length. Without printf: with 100,000 leases this is what a
 * renewal costs. */
static size_t key_text(const struct lk_redis *r, const locker_claim *claim, char *out)
{
    size_t len = strlen(r->set.name_space);
    memcpy(out, r->set.name_space, len);
    if (len > 0)
        out[len++] = ':';
    memcpy(out + len, claim->key, claim->key_len);
    return len + claim->key_len;
}

/* The lease time in ms as text. Most leases are of one length, so the text before often serves again. */
static const char *ttl_text(struct renewal_argv *x, const struct renewal *n, size_t i)
{
    if (i > 0 && n->claim[i]->ttl_ns == n->claim[i - 1]->ttl_ns)
        return x->argv[4 + n->count + 2 * (i - 1)];
    (void)snprintf(x->ttl[i], sizeof(x->ttl[i]), "%" PRId64, n->claim[i]->ttl_ns / LK_MS);
    return x->ttl[i];
}

static void done_locked(struct lk_redis *r, void *context, redisReply *reply);

/* Every slot holds a claim. */
static bool submit_locked(struct lk_redis *r, struct renewal *n)
{
    const size_t key_size = strlen(r->set.name_space) + LOCKER_KEY_MAX + 2;
    struct renewal_argv *x = malloc(sizeof(*x) + n->count * key_size);
    char *bytes = NULL;
    bool submitted = false;
    if (x == NULL)
        return false;
    set_argument(x, 0, n->whole || r->sha[LK_SCRIPT_RENEW][0] == '\0' ? "EVAL" : "EVALSHA", 0);
    const char *script = strlen(x->argv[0]) == 4 ? lk_script_text(LK_SCRIPT_RENEW) : r->sha[LK_SCRIPT_RENEW];
    x->len[0] = strlen(x->argv[0]);
    set_argument(x, 1, script, strlen(script));
    (void)snprintf(x->count, sizeof(x->count), "%zu", n->count);
    set_argument(x, 2, x->count, strlen(x->count));
    for (size_t i = 0; i < n->count; i++) {
        const locker_claim *claim = n->claim[i];
        char *key = x->key + i * key_size;
        set_argument(x, 3 + i, key, key_text(r, claim, key));
        lk_value_text(r, lk_claim_data(claim)->number, x->value[i]);
        set_argument(x, 3 + n->count + 2 * i, x->value[i], LK_VALUE_LEN);
        const char *ttl = ttl_text(x, n, i);
        set_argument(x, 4 + n->count + 2 * i, ttl, strlen(ttl));
    }
    n->sent = lk_redis_now(r);
    const long long len = redisFormatCommandArgv(&bytes, (int)(3 + 3 * n->count), x->argv, x->len);
    if (len >= 0) {
        submitted = lk_submit_locked(r, bytes, (size_t)len, done_locked, n);
        redisFreeCommand(bytes);
    }
    free(x);
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
