/* waiters.c: looking after those that wait. A release hands its lock on and tells whom; but a holder that died tells nobody, nor
 * does a foreign client, and a message may be lost. So somebody has to look now and then, and the looks must not grow with the
 * number of those that wait for a key, nor with that of the keys that one process waits for.
 *
 * The first three of a queue look often, and when the holder's lease should be over, one behind the other; so does the last, since
 * those of one host, who came together, may die together. The script drops those of the first whose process listens no more, or does not
 * look when it is told to, and tells who moves up. Between them each looks the more seldom the more there are. All
 * looks of a process that are due together go in one flight; only whose lock is free, or who is not in the queue any more, is
 * woken and asks for the lock. */
#include "instance.h"
#include "net/command.h"

enum {
    FIRST = 3,     /* who look often */
    BATCH_MAX = 64 /* locks in one command */
};

static const int64_t between_ns = 200 * LK_MS; /* from one of the first to the next, when the lease is over */
static const int64_t leeway_ns = 5 * LK_MS;
static const int64_t together_ns = 50 * LK_MS; /* what is due within that goes along */
static const int64_t itself_ns = 300 * LK_S;

/* Those whose locks are looked at by one command, by their values. */
typedef struct {
    lk_redis_node *node;
    uint16_t slot; /* of a cluster: of all of them */
    bool whole;    /* the script's text was sent */
    size_t count;
    uint64_t values[]; /* so many */
} look;

static int64_t poll_ns(const lk_redis *r, const lk_redis_claim *data)
{
    return lk_time_earlier(r->set.poll_ns, data->core->ttl_ns / 3);
}

int64_t lk_redis_wait_locked(lk_redis *r, const lk_redis_claim *data, const lk_redis_standing *s)
{
    const int64_t poll = poll_ns(r, data);
    const int64_t rank = s->rank < 0 ? 0 : s->rank < FIRST ? s->rank : FIRST;
    const int64_t over = s->left_ms < 0 ? LOCKER_NEVER : s->left_ms * LK_MS + leeway_ns + rank * between_ns;
    const int64_t jitter = (int64_t)lk_redis_random_locked(&r->shared, (uint64_t)poll / 10 + 1);
    const bool often = rank < FIRST || s->rank + 1 >= s->count || data->hint != LK_REDIS_NO_HINT;
    return often ? lk_time_earlier(poll + jitter, over) : s->count * poll + jitter;
}

static void look_by_locked(lk_redis *r, lk_redis_claim *data, int64_t at) LK_REDIS_LOCKED
{
    data->look_at = at;
    if (at >= r->look_at)
        return;
    r->look_at = at;
    lk_redis_attend(r);
}

/* One that was doubted meanwhile looks at once: the answer may be to what was sent before. */
static int64_t look_in_locked(lk_redis *r, const lk_redis_claim *data,
                              const lk_redis_standing *s) LK_REDIS_LOCKED
{
    return data->hint == LK_REDIS_DOUBTED ? 0 : lk_redis_wait_locked(r, data, s);
}

int64_t lk_redis_look_after_locked(lk_redis *r, lk_redis_claim *data, const lk_redis_standing *standing)
{
    const int64_t now = lk_redis_now(&r->shared);
    look_by_locked(r, data, now + look_in_locked(r, data, standing));
    return now + itself_ns;
}

void lk_redis_look_soon_locked(lk_redis *r, lk_redis_claim *data, bool at_once)
{
    const int64_t poll = poll_ns(r, data), soon = lk_redis_now(&r->shared) + (at_once ? 0 : poll);
    if (data->hint != LK_REDIS_DOUBTED) /* also when an answer that doesn't know of it is in flight */
        data->hint = at_once ? LK_REDIS_DOUBTED : LK_REDIS_NEAR_HEAD;
    if (soon < data->look_at)
        look_by_locked(r, data, soon);
    else if (soon + poll / 10 < data->ask_at) /* else it asks as often already, with its jitter */
        r->shared.svc->wake(r->shared.svc, data->core);
}

/* What a look has shown: it may be ours now, is still another's, or was handed to us and the message of that lost. */
static void take_standing_locked(lk_redis *r, lk_redis_claim *data,
                                 const lk_redis_standing *s) LK_REDIS_LOCKED
{
    const bool is_free = s->left_ms == -2, is_missing = s->rank < 0;
    if (is_free || is_missing)
        r->shared.svc->wake(r->shared.svc, data->core);
    look_by_locked(r, data,
                   lk_redis_now(&r->shared) + (is_free ? poll_ns(r, data) : look_in_locked(r, data, s)));
}

static bool submit_locked(look *l) LK_REDIS_LOCKED;

/* Without an answer they are looked at again as if nothing were known. */
static void done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    look *const l = context;
    lk_redis *const r = l->node->r;
    if (reply != NULL && lk_redis_reply_fault(reply) == LK_REDIS_FAULT_NOSCRIPT && !l->whole) {
        l->whole = true;
        if (submit_locked(l))
            return;
    }
    if (reply != NULL)
        lk_redis_heed_locked(l->node, l->slot, reply);
    /* in a slot that moves an attempt looks by itself */
    const bool moves = reply != NULL && r->map != NULL && lk_redis_reply_fault(reply) != LK_REDIS_FAULT_NONE;
    const bool is = reply != NULL && lk_redis_is_numbers(reply, 3 * l->count);
    for (size_t i = 0; i < l->count; i++) {
        lk_redis_claim *const data = lk_redis_claims_find_locked(&r->claims, l->values[i]);
        if (data == NULL || !data->looking)
            continue;
        data->looking = false;
        if (moves)
            r->shared.svc->wake(r->shared.svc, data->core);
        lk_redis_standing s = {.left_ms = -1};
        if (is)
            s = (lk_redis_standing){reply->element[3 * i]->integer, reply->element[3 * i + 1]->integer,
                                    reply->element[3 * i + 2]->integer};
        if (data->look_at != 0) /* else it asks by itself just now */
            take_standing_locked(r, data, &s);
    }
    free(l);
}

static locker_claim *claim_locked(const look *l, size_t i) LK_REDIS_LOCKED
{
    const lk_redis_claim *const data = lk_redis_claims_find_locked(&l->node->r->claims, l->values[i]);
    return data != NULL ? data->core : NULL;
}

/* Those that have gone meanwhile are left out. */
static void compact_locked(look *l) LK_REDIS_LOCKED
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++)
        if (claim_locked(l, i) != NULL)
            l->values[kept++] = l->values[i];
    l->count = kept;
}

/* The command, with the arguments of lua/wait.lua; answers its end. */
static char *put_command_locked(const look *l, const char *script, bool whole, char *out) LK_REDIS_LOCKED
{
    lk_redis *const r = l->node->r;
    const bool tagged = r->map != NULL;
    out = lk_redis_batch_begin(out, script, whole, 2 * l->count, 1 + l->count + tagged);
    for (size_t i = 0; i < l->count; i++)
        out = lk_redis_batch_keys(r, claim_locked(l, i), LK_REDIS_QUEUE, out);
    out = lk_redis_put_number(out, (size_t)(lk_redis_queue_ns(r) / LK_MS));
    for (size_t i = 0; i < l->count; i++) {
        char value[LK_REDIS_VALUE_LEN + 1], member[LK_REDIS_MEMBER_MAX];
        lk_redis_value_text(&r->values, l->values[i], value);
        lk_redis_member_text(r->values.name, claim_locked(l, i), value, member);
        out = lk_redis_put_text(out, member);
    }
    if (tagged) {
        char tag[sizeof(uint64_t) + 1] = "";
        *lk_redis_tag_put(tag, lk_redis_slot_tag(&r->slots, l->slot)) = '\0';
        out = lk_redis_put_text(out, tag);
    }
    return out;
}

static bool submit_locked(look *l)
{
    lk_redis *const r = l->node->r;
    compact_locked(l);
    if (l->count == 0)
        return false;
    const bool whole = l->whole || r->sha[LK_REDIS_SCRIPT_WAIT][0] == '\0';
    const char *script = whole ? r->script[LK_REDIS_SCRIPT_WAIT] : r->sha[LK_REDIS_SCRIPT_WAIT];
    size_t room = LK_REDIS_BATCH_BYTES + strlen(script);
    for (size_t i = 0; i < l->count; i++)
        room += lk_redis_batch_room(r, claim_locked(l, i)) + LK_REDIS_MEMBER_MAX;
    char *const out = lk_redis_room_locked(l->node->commands, room);
    return out != NULL && lk_redis_submit_locked(l->node->commands, put_command_locked(l, script, whole, out),
                                                 done_locked, l);
}

/* Send one for those that stand there, if there are any. */
static void send_locked(look *l) LK_REDIS_LOCKED
{
    if (l != NULL && !submit_locked(l))
        done_locked(l, NULL);
}

/* In a cluster each goes by itself: a process asks but once for each lock, and few locks are of one slot. */
static look *add_locked(lk_redis *r, look *l, lk_redis_claim *data) LK_REDIS_LOCKED
{
    const size_t most = r->map != NULL ? 1 : BATCH_MAX;
    if (l == NULL && (l = malloc(sizeof *l + most * sizeof l->values[0])) != NULL)
        *l = (look){.node = lk_redis_node_of(r, data->slot), .slot = data->slot};
    if (l == NULL)
        return NULL;
    l->values[l->count++] = data->number;
    data->looking = true;
    data->hint = LK_REDIS_NO_HINT;
    if (l->count < most)
        return l;
    send_locked(l);
    return NULL;
}

int64_t lk_redis_looks_run_locked(lk_redis *r, int64_t now)
{
    look *l = NULL;
    if (now < r->look_at)
        return r->look_at;
    r->look_at = LOCKER_NEVER;
    for (lk_redis_claim *data = NULL; (data = lk_redis_claims_after_locked(&r->claims, data)) != NULL;) {
        if (data->look_at == 0 || data->looking)
            continue;
        const bool up = lk_redis_node_of(r, data->slot)->commands->state == LK_REDIS_UP;
        if (up && data->look_at <= now + together_ns)
            l = add_locked(r, l, data);
        if (!data->looking)
            r->look_at = lk_time_earlier(r->look_at, lk_time_later(data->look_at, now + together_ns));
    }
    send_locked(l);
    return r->look_at;
}
