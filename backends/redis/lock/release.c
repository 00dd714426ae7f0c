/* release.c: release a lock in one of three ways: at the server while a caller waits for the outcome
 * (release); at the server in the background (withdraw); or to a waiter of the same locker without a
 * request (pass).
 *
 * A background release (cleanup) removes a lock or a queue entry that no caller here wants any more. It is
 * sent again after each reconnection, until cleanup_timeout is over. After that the lock ends with its
 * lease. A queue entry, to which a release could still hand the lock, is removed for at least a minute. */
#include <stdlib.h>

#include "instance.h"
#include "net/command.h"
#include "sharing.h"

/* ------------------------------------------------------------------ the command ---- */

/* Return the kind of the claim's lock at the server. */
static lk_redis_given_back kind_of(const lk_redis_claim *data)
{
    if (!locker_claim_is_plain(data->core))
        return LK_REDIS_SHARING;
    return data->noted ? LK_REDIS_NOTED : LK_REDIS_UNNOTED;
}

/* Build the release command. With `recovery`, `token` and `marker` describe a lock that the server may
 * have lost. "0" and "": release only a lock that the server has. */
static lk_redis_script begin_command(lk_redis *r, lk_redis_command *a, lk_redis_given_back what,
                                     lk_redis_keys *keys, const char *value, const char *member,
                                     const char *direct_us, const char *token, const char *marker)
{
    const bool shares = what == LK_REDIS_SHARING;
    const lk_redis_script script = shares ? LK_REDIS_SCRIPT_SHARED_RELEASE : LK_REDIS_SCRIPT_RELEASE;
    lk_redis_script_begin(r, a, script, keys,
                          what == LK_REDIS_NOTED ? lk_redis_keys_companion(keys, LK_REDIS_INFO) : NULL);
    LK_REDIS_ARGUMENTS(a, value, member, direct_us);
    if (r->recovery.mark != NULL)
        lk_redis_command_text(a, token);
    if (r->recovery.mark != NULL && shares)
        lk_redis_command_text(a, marker);
    return script;
}

/* Append the arguments that lk_redis_ask_script() appends to a command. `whole`: send the script's text. */
static void end_command_locked(lk_redis_node *node, lk_redis_command *a, lk_redis_script script, bool whole,
                               char least[LK_REDIS_FENCE_DIGITS + 1]) LK_REDIS_LOCKED
{
    lk_redis *const r = node->r;
    if (whole)
        lk_redis_script_spell_out(r, a, script);
    lk_redis_command_text(a, lk_redis_fence_least_text(&node->fences, least));
    if (r->recovery.mark != NULL)
        lk_redis_command_text(a, r->recovery.life);
}

/* ------------------------------------------------------------------ cleanup ---- */

/* A background release: of a lock with this value, and of the value's queue entry. Guarded by the mutex. */
typedef struct {
    lk_redis *r;
    lk_list link;
    lk_redis_keys keys;
    uint16_t slot;
    char value[LK_REDIS_VALUE_LEN + 1];
    char member[LK_REDIS_MEMBER_MAX]; /* the queue entry to remove; "": none */
    int64_t deadline;                 /* when to give up */
    int64_t retry_at;                 /* when to send again; 0: at once */
    lk_redis_given_back what;
    bool sent, whole; /* sent: the answer has not come yet; whole: send the script's text */
    unsigned hops;    /* consecutive redirections to other servers */
    bool migrating;   /* True while the slot is being migrated. */
} lk_redis_cleanup;

static void remove_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED
{
    lk_list_remove(&c->link);
    lk_redis_keys_clear(&c->keys);
    free(c);
}

static bool submit_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED;

static lk_redis_node *node_of(const lk_redis_cleanup *c)
{
    return lk_redis_node_of(c->r, c->slot);
}

static void done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;

/* Handle the answer in a migrating slot. If there was no connection to the target, retry after a pause: no
 * callback reports when that connection comes up. */
static void migrating_done_locked(void *context, redisReply *reply, lk_redis_pipeline *on) LK_REDIS_LOCKED
{
    lk_redis_cleanup *const c = context;
    (void)on;
    if (reply == NULL && !c->r->shared.closing) {
        c->retry_at = lk_redis_now(&c->r->shared) + LK_REDIS_AGAIN_NS;
        lk_redis_attend(c->r);
    }
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1)
        lk_redis_migrating_call_first_locked(c->r, c->slot, &c->keys);
    done_locked(c, reply);
}

/* Remove the lock, its queue entry and its info by a separate command each. */
static void submit_migrating_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED
{
    const lk_redis_command forget = LK_REDIS_COMMAND("DEL", lk_redis_keys_companion(&c->keys, LK_REDIS_INFO));
    const lk_redis_command drop =
        LK_REDIS_COMMAND("EVAL", lk_redis_migrating_drop_text, "1", c->keys.lock, c->value);
    const lk_redis_command leave =
        LK_REDIS_COMMAND("ZREM", lk_redis_keys_companion(&c->keys, LK_REDIS_QUEUE), c->member);
    c->sent = true;
    if (c->member[0] != '\0')
        lk_redis_migrating_submit_locked(c->r, c->slot, &leave, NULL, NULL);
    if (c->what == LK_REDIS_NOTED)
        lk_redis_migrating_submit_locked(c->r, c->slot, &forget, NULL, NULL);
    lk_redis_migrating_submit_locked(c->r, c->slot, &drop, migrating_done_locked, c);
}

static void done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    lk_redis_cleanup *c = context;
    c->sent = false;
    if (reply == NULL)
        return; /* sent again on the next connection */
    switch (lk_redis_reply_fault(reply)) {
    case LK_REDIS_FAULT_NOSCRIPT:
        c->whole = true;
        if (!submit_locked(c))
            lk_redis_attend(c->r);
        break;
    case LK_REDIS_FAULT_MIGRATING:
        c->migrating = !c->migrating && c->r->map != NULL && c->what != LK_REDIS_SHARING;
        if (c->migrating) {
            submit_migrating_locked(c);
            break;
        }
        /* fall through */
    case LK_REDIS_FAULT_TRANSIENT:
    case LK_REDIS_FAULT_REFUSED:
        lk_redis_heed_locked(node_of(c), c->slot, reply);
        c->retry_at = lk_redis_now(&c->r->shared) + LK_REDIS_AGAIN_NS;
        lk_redis_attend(c->r);
        break;
    case LK_REDIS_FAULT_MOVED:
        lk_redis_heed_locked(node_of(c), c->slot, reply);
        if (c->r->map == NULL || c->hops++ == LK_REDIS_HOPS_MAX || !submit_locked(c)) {
            c->hops = 0; /* retry on the next connection, or after a pause */
            c->retry_at = lk_redis_now(&c->r->shared) + LK_REDIS_AGAIN_NS;
        }
        lk_redis_attend(c->r); /* the keeper must pump the other server's connection */
        break;
    case LK_REDIS_FAULT_DENIED:
        LK_WRITE(c->r->trusted, false);
        remove_locked(c);
        break;
    default:
        remove_locked(c);
    }
}

static bool submit_locked(lk_redis_cleanup *c) LK_REDIS_LOCKED
{
    lk_redis_command a;
    char least[LK_REDIS_FENCE_DIGITS + 1];
    const lk_redis_script script =
        begin_command(c->r, &a, c->what, &c->keys, c->value, c->member, "0", "0", "");
    end_command_locked(node_of(c), &a, script, c->whole, least);
    c->sent = lk_redis_submit_command_locked(node_of(c)->commands, &a, done_locked, c);
    return c->sent;
}

void lk_redis_cleanup_start_locked(lk_redis *r, lk_redis_keys *keys, uint16_t slot, uint64_t value,
                                   lk_redis_given_back what, const locker_claim *queued)
{
    lk_redis_cleanup *c = calloc(1, sizeof *c);
    if (c == NULL) {
        lk_redis_keys_clear(keys);
        return;
    }
    c->r = r;
    c->keys = *keys;
    c->slot = slot;
    c->what = what;
    keys->lock = NULL;
    lk_redis_value_text(&r->values, value, c->value);
    if (queued != NULL)
        lk_redis_member_text(r->values.name, queued, c->value, c->member);
    c->deadline = lk_time_after(lk_redis_now(&r->shared),
                                lk_time_later(r->set.cleanup_ns, queued != NULL ? 60 * LK_S : 0));
    lk_list_prepend(&r->cleanups, &c->link);
    if (!submit_locked(c))
        lk_redis_attend(c->r);
}

int64_t lk_redis_cleanups_run_locked(lk_redis *r, int64_t now)
{
    int64_t next_time = LOCKER_NEVER;
    LK_EACH_SAFE(lk_redis_cleanup, c, link, &r->cleanups) {
        if (c->sent)
            continue;
        if (now >= c->deadline) {
            remove_locked(c);
            continue;
        }
        if (node_of(c)->commands->state == LK_REDIS_UP && now >= c->retry_at && submit_locked(c))
            continue;
        next_time = lk_time_earlier(next_time, c->retry_at > now ? lk_time_earlier(c->retry_at, c->deadline)
                                                                 : c->deadline);
    }
    return next_time;
}

void lk_redis_cleanups_free(lk_redis *r)
{
    LK_EACH_SAFE(lk_redis_cleanup, c, link, &r->cleanups)
        remove_locked(c);
}

/* ------------------------------------------------------------------ release ---- */

typedef struct lk_redis_release {
    lk_redis *r;
    lk_redis_node *node;        /* the server that gets the request */
    const lk_redis_claim *data; /* its place is GONE: no other thread writes to it */
    lk_redis_keys keys;
    char value[LK_REDIS_VALUE_LEN + 1];
    char direct_us[LK_REDIS_NUMBER_MAX];
    char token[LK_REDIS_NUMBER_MAX];
    char marker[LK_REDIS_MARKER_MAX]; /* marker of the set that has the grant */
    int64_t until;
    bool in_table; /* True if the table has the claim. */
    lk_redis_given_back what;
    bool broken;    /* True if the mark of a break was found. */
    bool migrating; /* True if the slot is being migrated. */
    bool maybe;     /* True if a request without an answer may have released the lock. */
    bool whole;     /* True if the server did not know the script: send its text next time. */
    unsigned hops;
    lk_redis_op *op;    /* the request of lk_redis_begin_release(); NULL: none */
    lk_redis_call call; /* the state of `op`'s call */
} release;

/* Return true if the answer to a begun request is out of date: its connection was replaced since, or
 * another server has the slot now. A redirection in such an answer must not be followed. It would end the
 * new connection, or assign the slot to the old server again. */
static bool is_stale(const release *x, const lk_redis_call *call)
{
    return call == &x->call && (call->on != LK_READ(x->node->commands->connection) ||
                                x->node != lk_redis_node_of(x->r, x->data->slot));
}

/* Return the status if the lock does not have our value, and no break left a mark. The status is OK if
 * only our own lost request can have removed the lock: such a request was sent, the lease is not over, and
 * the server is the one that confirmed the lease. `era`: of the server that answered. */
static locker_status not_ours(const release *x, unsigned era, locker_error *err)
{
    if (!x->maybe)
        return lk_lost(err, "the lock was lost before unlock: its lease ended, or its key was deleted");
    if (era != x->data->era)
        return locker_error_set(
            err, LOCKER_UNKNOWN, 0,
            "the connection was lost during unlock, and the server may have been restarted or "
            "replaced since: the lock is not held any more, but it may have been lost before unlock");
    if (lk_redis_now(&x->r->shared) < x->data->valid_until)
        return LOCKER_OK;
    return locker_error_set(err, LOCKER_UNKNOWN, 0,
                            "the connection was lost during unlock, and the lease has ended since: the "
                            "lock is not held any more, but it may have been lost before unlock");
}

/* Return UNKNOWN, and keep the error's text. */
static locker_status unknown(locker_error *err)
{
    if (err != NULL)
        err->status = LOCKER_UNKNOWN;
    return LOCKER_UNKNOWN;
}

/* Return the status that an answer means. OK with *again set: send the request again. */
static locker_status read_answer(release *x, const lk_redis_call *call, bool *again, locker_error *err)
{
    const redisReply *reply = call->reply;
    const lk_redis_fault fault = lk_redis_reply_fault(reply);
    LK_WRITE(x->r->trusted, reply->type == REDIS_REPLY_INTEGER);
    if (x->broken || (reply->type == REDIS_REPLY_INTEGER && reply->integer < 0))
        return lk_lost(err, "the lock was lost before unlock: it was broken");
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 2 &&
        lk_redis_now(&x->r->shared) < x->data->valid_until)
        return LOCKER_OK; /* the server lost the lock, but grants nothing before our deadline */
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer == 1 ? LOCKER_OK : not_ours(x, call->era, err);
    if (lk_redis_recovery_refuses(x->r, reply, NULL, err) != LOCKER_OK)
        return unknown(err);
    if (!is_stale(x, call))
        lk_redis_heed(x->node, x->data->slot, reply);
    *again = fault == LK_REDIS_FAULT_TRANSIENT || fault == LK_REDIS_FAULT_MIGRATING ||
             (fault == LK_REDIS_FAULT_MOVED && x->hops++ < LK_REDIS_HOPS_MAX);
    if (*again) {
        if (fault == LK_REDIS_FAULT_TRANSIENT || x->migrating)
            lk_redis_pause(&x->r->shared,
                           lk_time_earlier(x->until, lk_redis_now(&x->r->shared) + LK_REDIS_AGAIN_NS));
        x->migrating = x->migrating || (fault == LK_REDIS_FAULT_MIGRATING && x->r->map != NULL);
        return LOCKER_OK;
    }
    (void)lk_redis_reply_error(reply, "releasing a lock", err);
    return unknown(err);
}

/* Delete the lock's info and notify the first waiter, without waiting for answers. If this fails, the info ends with the
 * lease, and waiters poll. */
static void follow_up(release *x)
{
    const lk_redis_command forget = LK_REDIS_COMMAND("DEL", lk_redis_keys_companion(&x->keys, LK_REDIS_INFO));
    lk_redis_lock(&x->r->shared);
    if (x->what == LK_REDIS_NOTED)
        lk_redis_migrating_submit_locked(x->r, x->data->slot, &forget, NULL, NULL);
    lk_redis_migrating_call_first_locked(x->r, x->data->slot, &x->keys);
    lk_redis_pump_unlocking(x->node->commands);
    lk_redis_unlock(&x->r->shared);
}

/* Release a lock in a migrating slot. The call gets the same answer as from the script, but no waiter gets
 * the lock. */
__attribute__((noinline)) static lk_redis_outcome ask_migrating(release *x, lk_redis_call *call,
                                                                locker_error *err)
{
    lk_redis *const r = x->r;
    const lk_redis_command drop =
        LK_REDIS_COMMAND("EVAL", lk_redis_migrating_drop_text, "1", x->keys.lock, x->value);
    char *const mark = lk_redis_keys_mark(&x->keys, x->value);
    if (mark == NULL) {
        lk_out_of_memory(err);
        return LK_REDIS_CALL_NOMEM;
    }
    const lk_redis_command get = LK_REDIS_COMMAND("GET", mark);
    lk_redis_call other = *call;
    lk_redis_outcome outcome = lk_redis_migrating_ask(r, x->data->slot, call, &drop, err);
    const bool is_number = outcome == LK_REDIS_CALL_ANSWERED && call->reply->type == REDIS_REPLY_INTEGER;
    if (is_number && call->reply->integer == 1)
        follow_up(x);
    if (is_number && call->reply->integer == 0) {
        outcome = lk_redis_migrating_ask(r, x->data->slot, &other, &get, err);
        if (outcome == LK_REDIS_CALL_ANSWERED && other.reply->type == REDIS_REPLY_NIL) {
            freeReplyObject(other.reply);
        } else {
            freeReplyObject(call->reply);
            call->reply = other.reply;
            x->broken = outcome == LK_REDIS_CALL_ANSWERED && call->reply->type == REDIS_REPLY_STRING;
        }
    }
    free(mark);
    return outcome;
}

/* Return the status that the outcome of a request means. OK with *again set: send the request again. */
static locker_status judge(release *x, lk_redis_call *call, lk_redis_outcome outcome, bool *again,
                           locker_error *err)
{
    locker_status status;
    *again = false;
    switch (outcome) {
    case LK_REDIS_CALL_ANSWERED:
        status = read_answer(x, call, again, err);
        freeReplyObject(call->reply);
        return status;
    case LK_REDIS_CALL_CUT:
        x->maybe = *again = true;
        return LOCKER_OK;
    case LK_REDIS_CALL_REMAPPED:
        *again = true;
        return LOCKER_OK;
    case LK_REDIS_CALL_LATE:
        return locker_error_set(err, LOCKER_UNKNOWN, 0,
                                "the server did not answer unlock in time; unlock continues in the "
                                "background, and the lock ends with its lease at the latest");
    default:
        return unknown(err);
    }
}

static lk_redis_script command(release *x, lk_redis_command *a)
{
    return begin_command(x->r, a, x->what, &x->keys, x->value, "", x->direct_us, x->token, x->marker);
}

static locker_status ask(release *x, bool *again, locker_error *err)
{
    lk_redis_call call = {.until = x->until, .patient = x->maybe};
    lk_redis_command a;
    x->node = lk_redis_node_for(x->r, x->data->slot, &call);
    const lk_redis_script script = command(x, &a);
    const lk_redis_outcome outcome = x->migrating && x->what != LK_REDIS_SHARING
                                         ? ask_migrating(x, &call, err)
                                         : lk_redis_ask_script(x->node, &call, script, &a, err);
    return judge(x, &call, outcome, again, err);
}

/* Send a request if there is a connection. */
static void send_locked(release *x) LK_REDIS_LOCKED
{
    char least[LK_REDIS_FENCE_DIGITS + 1];
    lk_redis_command a;
    x->node = lk_redis_node_of(x->r, x->data->slot);
    const lk_redis_script script = command(x, &a);
    end_command_locked(x->node, &a, script, x->whole, least);
    x->op = lk_redis_call_begin_locked(x->node->commands, &x->call, &a);
}

/* Return true if a request must be sent: none is in flight, its connection was lost, or its answer says
 * nothing about the lock. Needs no mutex: no other thread waits for the answer. */
static bool is_unsettled(const release *x)
{
    bool cut;
    if (x->op == NULL)
        return x->keys.lock != NULL;
    const redisReply *const reply = lk_redis_call_peek(x->op, &cut);
    if (reply == NULL)
        return cut;
    const lk_redis_fault fault = lk_redis_reply_fault(reply);
    return fault == LK_REDIS_FAULT_NOSCRIPT || fault == LK_REDIS_FAULT_TRANSIENT ||
           (fault == LK_REDIS_FAULT_MOVED && x->hops < LK_REDIS_HOPS_MAX);
}

/* Use the answer of a request that did not settle the release, and free the request. Return false if the
 * answer is final after all. */
static bool drop_locked(release *x) LK_REDIS_LOCKED
{
    bool cut;
    const redisReply *const reply = lk_redis_call_peek(x->op, &cut);
    if (reply != NULL && lk_redis_recovery_is_unwritten_locked(x->r, reply))
        return false;
    if (reply != NULL) {
        const lk_redis_fault fault = lk_redis_reply_fault(reply);
        x->whole = x->whole || fault == LK_REDIS_FAULT_NOSCRIPT;
        x->hops += fault == LK_REDIS_FAULT_MOVED;
        if (!is_stale(x, &x->call))
            lk_redis_heed_locked(x->node, x->data->slot, reply);
    }
    x->maybe = x->maybe || cut;
    lk_redis_op_free_locked(&x->node->commands->ops, x->op);
    x->op = NULL;
    return true;
}

/* Wait for the answer to the begun request, and return its status. OK with *again set: send the request
 * again. */
static locker_status await_begun(release *x, bool *again, locker_error *err)
{
    x->call.until = x->until;
    const lk_redis_outcome outcome = lk_redis_call_end(x->node->commands, &x->call, x->op);
    *again =
        outcome == LK_REDIS_CALL_ANSWERED && lk_redis_reply_fault(x->call.reply) == LK_REDIS_FAULT_NOSCRIPT;
    if (!*again)
        return judge(x, &x->call, outcome, again, err);
    freeReplyObject(x->call.reply);
    return LOCKER_OK;
}

/* Stop the claim's renewals and notes, and let no answer refer to the claim any more. */
static void silence_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED
{
    lk_redis_note_forget_locked(r, data);
    lk_redis_claim_renewals_to_locked(data, NULL);
    lk_redis_claim_gone_locked(data);
}

/* End a claim. With keys, release in the background what the server may still have of it. The claim stays
 * in the table until here. Otherwise a late hand-over message would find no claim and would trigger a
 * background release, and the release by the caller would report a lost lock. */
static void let_go_unlocking(lk_redis *r, lk_redis_claim *data, lk_redis_keys *keys,
                             const locker_claim *queued) LK_REDIS_LOCKED
{
    lk_redis_claims_remove_locked(&r->claims, data);
    if (keys->lock == NULL)
        return;
    lk_redis_cleanup_start_locked(r, keys, data->slot, data->number, kind_of(data), queued);
    lk_redis_pump_unlocking(lk_redis_node_of(r, data->slot)->commands);
}

/* Begin a release, and stop the claim's renewals. The keys are NULL if memory ran out. */
static void start(release *x, lk_redis *r, const locker_claim *grant)
{
    lk_redis_claim *const data = lk_redis_claim_of(grant);
    *x = (release){.r = r, .data = data};
    lk_redis_value_text(&r->values, data->number, x->value);
    lk_redis_lock(&r->shared);
    silence_locked(r, data);
    x->in_table = data->in_table; /* after this, no thread adds the claim to the table */
    x->what = kind_of(data);
    const int64_t direct_us = lk_redis_claim_direct_us(data, lk_redis_now(&r->shared));
    lk_redis_unlock(&r->shared);
    if (r->recovery.mark != NULL)
        (void)lk_redis_number_text(x->token, LK_READ(data->fence) + data->passes);
    if (x->what == LK_REDIS_SHARING)
        lk_redis_marker_text(grant, x->marker);
    (void)lk_redis_number_text(x->direct_us, (uint64_t)direct_us);
    (void)lk_redis_keys_of_claim(r, &x->keys, grant);
}

/* Return the begun release of a grant; begin it if needed. NULL: no memory. */
static release *begun(lk_redis *r, const locker_claim *grant)
{
    lk_redis_claim *const data = lk_redis_claim_of(grant);
    if (data->begun == NULL && (data->begun = malloc(sizeof *data->begun)) != NULL)
        start(data->begun, r, grant);
    return data->begun;
}

void lk_redis_begin_release(void *self, locker_claim *const *grants, size_t count)
{
    lk_redis *const r = self;
    release *unsettled[LOCKER_KEYS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        release *const x = begun(r, grants[i]);
        if (x != NULL && is_unsettled(x))
            unsettled[n++] = x;
    }
    if (n == 0)
        return;
    lk_redis_lock(&r->shared);
    for (size_t i = 0; i < n; i++)
        if (unsettled[i]->op == NULL || drop_locked(unsettled[i]))
            send_locked(unsettled[i]);
    for (const lk_redis_node *node = r->nodes; node != NULL; node = node->next)
        lk_redis_pump_unlocking(node->commands);
    lk_redis_unlock(&r->shared);
}

locker_status lk_redis_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    lk_redis *r = self;
    lk_redis_claim *data = lk_redis_claim_of(grant);
    release own, *const x = data->begun != NULL ? data->begun : &own;
    locker_status status = LOCKER_UNKNOWN;
    if (x == &own)
        start(x, r, grant);
    x->until = until;
    bool again = x->keys.lock != NULL;
    if (!again)
        locker_error_set(err, LOCKER_UNKNOWN, 0,
                         "out of memory during unlock; the lock ends with its lease at the latest");
    if (x->op != NULL)
        status = await_begun(x, &again, err);
    while (again)
        status = ask(x, &again, err);
    if (status != LOCKER_UNKNOWN) /* UNKNOWN: a background release follows */
        lk_redis_keys_clear(&x->keys);
    if (x->in_table || status == LOCKER_UNKNOWN) {
        lk_redis_lock(&r->shared);
        let_go_unlocking(r, data, &x->keys, NULL);
        lk_redis_unlock(&r->shared);
    }
    free(data->begun);
    data->begun = NULL;
    return status;
}

void lk_redis_withdraw(void *self, locker_claim *claim)
{
    lk_redis *r = self;
    lk_redis_claim *data = lk_redis_claim_of(claim);
    lk_redis_keys keys = {0};
    /* The server may have a lock or a queue entry. */
    if (LK_READ(data->place) != LK_REDIS_ABSENT || data->enqueued)
        (void)lk_redis_keys_of_claim(r, &keys, claim);
    lk_redis_lock(&r->shared);
    silence_locked(r, data);
    let_go_unlocking(r, data, &keys, data->enqueued ? claim : NULL);
    lk_redis_unlock(&r->shared);
}

/* ------------------------------------------------------------------ hand-over inside the process ---- */

/* Hand a lock to a waiter of the same locker, without a request to the server. The lock keeps its value,
 * which then belongs to the other claim. Each hand-over uses the next fencing number of the numbers that
 * the grant reserved at the server, so no other grant gets the same number. A grant reserves several
 * numbers only while hand-overs are requested, so the first request is refused. The lock is released to
 * the server instead
 *   - after LK_REDIS_PASS_RESERVE - 1 hand-overs, so that other processes do not starve;
 *   - if the server has the holder's info, because a break of this holder must not hit the next
 *     holder;
 *   - if another server confirmed the lease, because the present server may have lost the lock. */
locker_status lk_redis_pass(void *self, locker_claim *from, locker_claim *to)
{
    lk_redis *r = self;
    lk_redis_claim *giver = lk_redis_claim_of(from), *taker = lk_redis_claim_of(to);
    locker_status status = LOCKER_BUSY;
    lk_redis_lately_raise(&r->pass_lately, LK_REDIS_CONTENDED);
    const int64_t now = lk_redis_now(&r->shared);
    const lk_redis_pipeline *const commands = lk_redis_node_of(r, giver->slot)->commands;
    lk_redis_lock(&r->shared);
    if (commands->state != LK_REDIS_UP || giver->era != lk_redis_era(commands) || giver->noted ||
        from->ttl_ns != to->ttl_ns || !from->renewed || !to->renewed ||
        giver->passes + 1 >= (r->set.fencing ? giver->numbers : LK_REDIS_PASS_RESERVE) ||
        now >= giver->valid_until - from->ttl_ns / 3)
        goto out;
    taker->core = to;
    taker->number = giver->number;
    taker->slot = giver->slot;
    LK_WRITE(taker->fence, LK_READ(giver->fence));
    taker->passes = (uint8_t)(giver->passes + 1);
    taker->valid_until = giver->valid_until;
    taker->era = giver->era;
    taker->asks = giver->asks;
    taker->leaps = giver->leaps;
    taker->allowed = giver->allowed;
    taker->enqueued = giver->enqueued;
    taker->numbers = giver->numbers;
    taker->direct_us = lk_redis_claim_direct_us(giver, now);
    taker->since = to->granted_at = now;
    lk_redis_claim_held(taker);
    lk_redis_claim_gone_locked(giver);
    lk_redis_note_forget_locked(r, giver);
    lk_redis_note_grant(r, taker);
    lk_redis_claim_renewals_to_locked(giver, to);
    if (giver->in_table) {
        lk_redis_claims_remove_locked(&r->claims, giver);
        lk_redis_claims_add_locked(&r->claims, taker);
    }
    to->token = r->set.fencing ? LK_READ(taker->fence) + taker->passes : 0;
    to->valid_until = taker->valid_until;
    status = LOCKER_OK;
out:
    lk_redis_unlock(&r->shared);
    return status;
}
