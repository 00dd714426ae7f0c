/* renew.c: renew many leases with few commands. A script compares and extends 256 locks at a time, or 64
 * shared locks or permits. All commands of a renewal travel together.
 *
 * An answer finds its claims through references. A release or a withdraw clears a reference, and a
 * hand-over redirects it to another claim, so an answer never touches an ended claim. A claim may be in
 * several renewals in flight, because core requests another renewal while a slow server has not answered.
 * Each answer counts from the time when its own request was sent. */
#include <inttypes.h>
#include <stdlib.h>

#include "instance.h"
#include "net/command.h"

enum {
    BATCH_MAX = 256,          /* leases in a command; a server works on them for a third of a ms */
    SHARED_MAX = 64,          /* shared locks or permits in a command, for up to 1 ms */
    AT_ONCE = 2 * BATCH_MAX,  /* usual limit of leases in flight: other requests would wait behind more */
    FAR_AWAY = 64 * BATCH_MAX /* limit at a distant server, with 1 ms between commands */
};

static const int64_t apart_ns = LK_MS;
static const int64_t patience_least_ns = 250 * LK_MS;

/* The result of the script's answer. Only answered_locked() sets it. */
typedef enum {
    RESULT_NONE,    /* no lease is extended, and core requests another renewal */
    RESULT_RENEWED, /* the server has extended the leases of the claims that are still referred to */
    RESULT_UNKNOWN, /* the server does not know the script */
    RESULT_MOVED    /* another server has the slot now */
} renewal_result;

/* Progress of the check that enough replicas have the script's writes (wait_locked, wait_done_locked). */
typedef enum { REPLICAS_UNPROVEN, REPLICAS_ASKED, REPLICAS_PROVEN } replicas_step;

struct renewal {
    lk_redis_node *node;
    lk_redis_pipeline *on; /* the connection on which it was sent */
    lk_list link;          /* link in lk_redis_renewals.waiting until it is sent */
    int64_t sent;          /* a time before the command was sent */
    unsigned leaps;        /* lk_redis_shared.leaps at that time */
    uint16_t slot;         /* in a cluster: the slot of all its locks */
    size_t load;           /* its part of under_way */
    unsigned hops;         /* number of redirections to other servers */
    bool is_read;          /* True once the answer or its loss is known; the renewal stays until then */
    renewal_result result;
    replicas_step replicas;
    lk_list flight; /* link in the list of renewals that one WAIT covers */
    bool migrating; /* True if the slot is being migrated; the renewal then has one claim. */
    bool shares;    /* True if all its claims have shared locks or permits. */
    bool whole;     /* True if the script's text was sent. */
    size_t count;
    lk_redis_renewed ref[]; /* `count` references at first */
};

static void refer_locked(lk_redis_renewed *slot, locker_claim *claim) LK_REDIS_LOCKED
{
    lk_redis_claim *data = lk_redis_claim_of(claim);
    *slot = (lk_redis_renewed){claim, data->renewals};
    data->renewals = slot;
}

/* Clear a reference. Return its claim; NULL: none. */
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
        (void)take_locked(&n->ref[i]);
    free(n);
}

static bool of_one_length(const struct renewal *n)
{
    size_t i = 1;
    while (i < n->count && n->ref[i].claim->ttl_ns == n->ref[0].claim->ttl_ns)
        i++;
    return i == n->count;
}

/* Write the command with the arguments of lua/renew.lua, and return its end. Every reference must have a
 * claim. */
static char *put_command_locked(lk_redis *r, const struct renewal *n, const char *script, bool whole,
                                char *out) LK_REDIS_LOCKED
{
    const size_t lengths = of_one_length(n) ? 1 : n->count;
    if (r->recovery.mark != NULL)
        return lk_redis_recovery_put_locked(r, n->ref, n->count, script, whole, out);
    out = lk_redis_batch_begin(out, script, whole, 2 * n->count, 1 + lengths);
    for (size_t i = 0; i < n->count; i++)
        out = lk_redis_batch_keys(r, n->ref[i].claim, n->shares ? LK_REDIS_QUEUE : LK_REDIS_INFO, out);
    out = lk_redis_put_line(out, '$', n->count * LK_REDIS_VALUE_LEN);
    for (size_t i = 0; i < n->count; i++, out += LK_REDIS_VALUE_LEN) /* the next text overwrites the NUL */
        lk_redis_value_text(&r->values, lk_redis_claim_of(n->ref[i].claim)->number, out);
    out = lk_redis_put_end(out);
    for (size_t i = 0; i < lengths; i++)
        out = lk_redis_put_number(out, (size_t)(n->ref[i].claim->ttl_ns / LK_MS));
    return out;
}

/* Return the connection for renewals. If it is down or silent, return the command connection. */
static lk_redis_pipeline *carrier_locked(const lk_redis_node *node) LK_REDIS_LOCKED
{
    const lk_redis_pipeline *const own = node->renewing;
    const bool serves = own->state == LK_REDIS_UP && !(own->avoided && node->commands->state == LK_REDIS_UP);
    return serves ? node->renewing : node->commands;
}

static void script_done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;
static void wait_done_locked(void *context, redisReply *reply) LK_REDIS_LOCKED;

/* Renewals that were sent one behind the other on a connection, and the WAIT behind them, which covers all
 * their writes. */
typedef struct {
    lk_redis_node *node;
    lk_list renewals;
} flight;

/* Send WAIT for the renewals in `sent`, and empty this list. Without an answer to WAIT no lease is
 * extended. WAIT delays every command behind it, so with `wait_replicas` renewals always have their own
 * connection. */
static void wait_locked(lk_redis_node *node, lk_redis_pipeline *on, lk_list *sent) LK_REDIS_LOCKED
{
    char count[LK_REDIS_NUMBER_MAX], bound[LK_REDIS_NUMBER_MAX];
    const lk_redis_settings *const set = &node->r->set;
    if (lk_list_empty(sent))
        return;
    flight *const f = malloc(sizeof *f);
    (void)lk_redis_number_text(count, (uint64_t)set->wait_replicas);
    (void)lk_redis_number_text(bound, (uint64_t)(set->wait_timeout_ns / LK_MS));
    const lk_redis_command a = LK_REDIS_COMMAND("WAIT", count, bound);
    const bool waits = f != NULL && lk_redis_submit_command_locked(on, &a, wait_done_locked, f);
    if (f != NULL) {
        f->node = node;
        lk_list_init(&f->renewals);
    }
    for (lk_list *link; (link = lk_list_take(sent)) != NULL;) {
        LK_CONTAINER(link, struct renewal, flight)->replicas = waits ? REPLICAS_ASKED : REPLICAS_UNPROVEN;
        if (waits)
            lk_list_append(&f->renewals, link);
    }
    if (!waits)
        free(f);
}

/* Send WAIT for a single renewal. */
static void wait_for_one_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_list sent;
    lk_list_init(&sent);
    if (n->replicas == REPLICAS_PROVEN)
        return;
    lk_list_append(&sent, &n->flight);
    wait_locked(n->node, n->on, &sent);
}

/* Return for how long the server may be silent, in ns. After that there must be time for another renewal
 * over another connection, and for its answer. A server that waits for replicas (WAIT) is silent too. */
static int64_t patience_locked(const struct renewal *n) LK_REDIS_LOCKED
{
    const lk_redis_settings *const set = &n->node->r->set;
    int64_t ttl_ns = LOCKER_NEVER;
    for (size_t i = 0; i < n->count; i++)
        ttl_ns = lk_time_earlier(ttl_ns, n->ref[i].claim->ttl_ns);
    const int64_t patience_ns = lk_time_later(ttl_ns / 6, patience_least_ns);
    return lk_time_earlier(patience_ns, set->target.command_timeout_ns / 2) +
           (set->wait_replicas > 0 ? set->wait_timeout_ns : 0);
}

static replicas_step replicas_at_first(const lk_redis *r)
{
    return r->set.wait_replicas == 0 ? REPLICAS_PROVEN : REPLICAS_UNPROVEN;
}

static bool submit_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis *r = n->node->r;
    const char *const sha = lk_redis_sha(r, LK_REDIS_SCRIPT_RENEW);
    const bool whole = n->whole || sha[0] == '\0';
    const char *script = whole ? r->script[LK_REDIS_SCRIPT_RENEW] : sha;
    size_t room = LK_REDIS_BATCH_BYTES + strlen(script);
    for (size_t i = 0; i < n->count; i++)
        room += r->recovery.mark != NULL ? lk_redis_recovery_room(r, n->ref[i].claim)
                                         : lk_redis_batch_room(r, n->ref[i].claim);
    if (r->recovery.mark != NULL)
        room += strlen(r->recovery.mark) + LK_REDIS_LIFE_MAX;
    n->on = carrier_locked(n->node);
    char *out = lk_redis_room_locked(n->on, room);
    lk_redis_pipeline_bear_locked(n->on, patience_locked(n));
    n->sent = lk_redis_now(&r->shared);
    n->leaps = LK_READ(n->node->r->shared.leaps);
    n->is_read = false;
    n->result = RESULT_NONE;
    if (out == NULL ||
        !lk_redis_submit_locked(n->on, put_command_locked(r, n, script, whole, out), script_done_locked, n))
        return false;
    n->replicas = replicas_at_first(r);
    return true;
}

/* Return false if a renewal must not extend this lease. With `recovery`, a renewal would restore the lock
 * of an expired lease. */
static bool may_renew_locked(const lk_redis *r, const locker_claim *claim) LK_REDIS_LOCKED
{
    return r->recovery.mark == NULL || lk_redis_now(&r->shared) < lk_redis_claim_of(claim)->valid_until;
}

/* Remove the references to ended claims and, with `recovery`, to claims with an expired lease. Close the
 * gaps. */
static void compact_locked(struct renewal *n) LK_REDIS_LOCKED
{
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++) {
        const locker_claim *const claim = n->ref[i].claim;
        if (claim == NULL)
            continue;
        if (!may_renew_locked(n->node->r, claim))
            (void)take_locked(&n->ref[i]);
        else if (kept++ < i)
            refer_locked(&n->ref[kept - 1], take_locked(&n->ref[i]));
    }
    n->count = kept;
}

/* Report the leases that the script did not find as lost, whatever the replicas have. */
static void tell_lost_locked(struct renewal *n, const char *answers) LK_REDIS_LOCKED
{
    lk_redis *r = n->node->r;
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = answers[i] != '1' ? take_locked(&n->ref[i]) : NULL;
        if (claim == NULL || answers[i] == '-') /* '-': the answer says nothing about this lock */
            continue;
        lk_redis_claim_renewals_to_locked(lk_redis_claim_of(claim), NULL); /* report the loss only once */
        r->shared.svc->lease_lost(r->shared.svc, claim,
                                  "its key at the server was deleted or replaced, or has expired");
    }
}

static void extend_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis *r = n->node->r;
    /* a clock's leap was seen since: the server may have extended the leases before it, so renew again */
    const bool is_of_before = n->leaps != LK_READ(r->shared.leaps);
    for (size_t i = 0; i < n->count; i++) {
        locker_claim *claim = take_locked(&n->ref[i]);
        if (claim == NULL || !may_renew_locked(r, claim))
            continue;
        lk_redis_claim *data = lk_redis_claim_of(claim);
        if (is_of_before) {
            r->shared.svc->lease_shortened(r->shared.svc, claim, data->valid_until);
            continue;
        }
        const int64_t until = lk_redis_valid_until(n->node, n->sent, claim->ttl_ns);
        lk_redis_clock_note(n->node, data);
        if (until > data->valid_until)
            data->valid_until = until;
        data->era = n->migrating ? 0 : lk_redis_era(n->node->commands);
        if (r->map != NULL && data->noted) /* a break's message comes from the server that has the slot now */
            lk_redis_net_subscribe_locked(lk_redis_node_of(r, data->slot)->net, data->slot, false);
        r->shared.svc->lease_extended(r->shared.svc, claim, until);
    }
}

/* Return true if another command may be sent. At a distant server, answers take longer than the work, so
 * renewals need not wait for earlier answers. */
static bool has_room_locked(const lk_redis_node *node, int64_t now) LK_REDIS_LOCKED
{
    const size_t under_way = node->renewals.under_way[carrier_locked(node) == node->renewing];
    return under_way < AT_ONCE || (under_way < FAR_AWAY && now >= node->renewals.next_at);
}

/* Return how many leases fit in a command. `shares`: leases of shared locks or permits. */
static size_t batch_max(bool shares)
{
    return shares ? SHARED_MAX : BATCH_MAX;
}

/* Return the load of a renewal: the number of exclusive locks that would take the server the same time. */
static size_t load_of(const struct renewal *n)
{
    return n->count * (BATCH_MAX / batch_max(n->shares));
}

static void count_locked(struct renewal *n, size_t load) LK_REDIS_LOCKED
{
    size_t *const under_way = &n->node->renewals.under_way[n->on == n->node->renewing];
    *under_way -= n->load;
    n->load = load;
    *under_way += load;
}

/* Send the waiting renewals, as far as the server has room. Without a connection, drop them: no lease is
 * extended, and core requests another renewal. */
static void send_locked(lk_redis_node *node, int64_t now) LK_REDIS_LOCKED
{
    if (lk_list_empty(&node->renewals.waiting))
        return;
    lk_redis_pipeline *const on = carrier_locked(node);
    const bool up = on->state == LK_REDIS_UP;
    lk_list sent;
    lk_list_init(&sent);
    while (!up || has_room_locked(node, now)) {
        lk_list *const link = lk_list_take(&node->renewals.waiting);
        if (link == NULL)
            break;
        struct renewal *const n = LK_CONTAINER(link, struct renewal, link);
        compact_locked(n);
        if (!up || n->count == 0 || !submit_locked(n)) {
            free_locked(n);
            continue;
        }
        count_locked(n, load_of(n));
        node->renewals.next_at = now + apart_ns;
        if (n->replicas != REPLICAS_PROVEN)
            lk_list_append(&sent, &n->flight);
    }
    if (up)
        lk_redis_clock_ask_locked(node, on, now);
    wait_locked(node, on, &sent);
}

int64_t lk_redis_renewals_run_locked(lk_redis_node *node, int64_t now)
{
    send_locked(node, now);
    const bool full = node->renewals.under_way[carrier_locked(node) == node->renewing] >= FAR_AWAY;
    return full || lk_list_empty(&node->renewals.waiting) ? LOCKER_NEVER : node->renewals.next_at;
}

/* Queue the renewal for the server that has the slot now. */
static void follow_locked(struct renewal *n) LK_REDIS_LOCKED
{
    n->node = lk_redis_node_of(n->node->r, n->slot);
    lk_list_append(&n->node->renewals.waiting, &n->link);
    lk_redis_attend(n->node->r); /* the keeper must pump the other server's connection */
}

/* Finish a renewal after its last answer: extend the leases, or send it again if the script or the slot
 * was not known. */
static void end_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis_node *const node = n->node;
    count_locked(n, 0);
    /* core's clock and services may be gone, because the thread that reconnects may outlive close */
    if (node->r->shared.closing) {
        free_locked(n);
        return;
    }
    if (n->result == RESULT_UNKNOWN || n->result == RESULT_MOVED)
        compact_locked(n);
    if (n->result == RESULT_UNKNOWN && n->count > 0) {
        n->whole = true;
        if (submit_locked(n)) {
            count_locked(n, load_of(n));
            wait_for_one_locked(n);
            return;
        }
    }
    if (n->result == RESULT_MOVED && n->count > 0) {
        follow_locked(n);
    } else {
        if (n->result == RESULT_RENEWED && n->replicas == REPLICAS_PROVEN)
            extend_locked(n);
        free_locked(n);
    }
    send_locked(node, lk_redis_now(&node->r->shared));
}

static void tell_fault_locked(const lk_redis *r, const redisReply *reply, const char *doing) LK_REDIS_LOCKED
{
    locker_error error = {0};
    (void)lk_redis_reply_error(reply, doing, &error);
    r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN, "redis: %s", error.text);
}

static void migrating_done_locked(void *context, redisReply *reply, lk_redis_pipeline *on) LK_REDIS_LOCKED
{
    struct renewal *const n = context;
    n->on = on;
    if (reply != NULL && reply->type == REDIS_REPLY_STRING && reply->len == 1) {
        n->is_read = true;
        n->result = RESULT_RENEWED;
        tell_lost_locked(n, reply->str);
        n->replicas = replicas_at_first(n->node->r);
        wait_for_one_locked(n);
    } else if (reply != NULL) {
        tell_fault_locked(n->node->r, reply, "renewing a lease in a migrating slot");
    }
    if (n->replicas != REPLICAS_ASKED)
        end_locked(n);
}

/* Renew the leases one by one: each lock may be at the source or at the target of the migration. */
static void renew_migrating_locked(struct renewal *n) LK_REDIS_LOCKED
{
    lk_redis *const r = n->node->r;
    for (size_t i = 0; i < n->count; i++) {
        char value[LK_REDIS_VALUE_LEN + 1], ttl[LK_REDIS_NUMBER_MAX];
        lk_redis_keys keys;
        locker_claim *const claim = take_locked(&n->ref[i]);
        struct renewal *const one = claim != NULL ? malloc(sizeof *one + sizeof one->ref[0]) : NULL;
        if (one == NULL || !lk_redis_keys_of_claim(r, &keys, claim)) {
            free(one);
            continue;
        }
        *one = (struct renewal){.node = n->node, .slot = n->slot, .count = 1, .migrating = true};
        refer_locked(&one->ref[0], claim);
        lk_redis_value_text(&r->values, lk_redis_claim_of(claim)->number, value);
        (void)lk_redis_number_text(ttl, (uint64_t)(claim->ttl_ns / LK_MS));
        const lk_redis_command a =
            LK_REDIS_COMMAND("EVAL", lk_redis_migrating_extend_text, "1", keys.lock, value, ttl);
        const lk_redis_command info =
            LK_REDIS_COMMAND("PEXPIRE", lk_redis_keys_companion(&keys, LK_REDIS_INFO), ttl);
        one->sent = lk_redis_now(&r->shared);
        one->leaps = LK_READ(n->node->r->shared.leaps);
        if (lk_redis_claim_of(claim)->noted)
            lk_redis_migrating_submit_locked(r, n->slot, &info, NULL, NULL);
        lk_redis_migrating_submit_locked(r, n->slot, &a, migrating_done_locked, one);
        lk_redis_keys_clear(&keys);
    }
}

/* Return the result of the script's answer, and act on it. `reply` NULL: no answer came. */
static renewal_result answered_locked(struct renewal *n, redisReply *reply) LK_REDIS_LOCKED
{
    lk_redis *const r = n->node->r;
    const lk_redis_fault fault = reply != NULL ? lk_redis_reply_fault(reply) : LK_REDIS_FAULT_NONE;
    if (reply == NULL)
        return RESULT_NONE;
    if (reply->type == REDIS_REPLY_STRING && reply->len == n->count) {
        tell_lost_locked(n, reply->str);
        return RESULT_RENEWED;
    }
    if (fault == LK_REDIS_FAULT_NOSCRIPT && !n->whole)
        return RESULT_UNKNOWN;
    if (fault == LK_REDIS_FAULT_MIGRATING && r->map != NULL && !n->shares) {
        renew_migrating_locked(n);
        return RESULT_NONE;
    }
    lk_redis_heed_locked(n->node, n->slot, reply);
    if (fault == LK_REDIS_FAULT_MOVED)
        return r->map != NULL && n->hops++ < LK_REDIS_HOPS_MAX ? RESULT_MOVED : RESULT_NONE;
    tell_fault_locked(r, reply, "renewing leases");
    return RESULT_NONE;
}

static void script_done_locked(void *context, redisReply *reply)
{
    struct renewal *n = context;
    n->result = answered_locked(n, reply);
    n->is_read = true;
    if (n->replicas != REPLICAS_ASKED)
        end_locked(n);
}

static void wait_done_locked(void *context, redisReply *reply)
{
    flight *const f = context;
    const lk_redis *const r = f->node->r;
    bool proven = false;
    if (reply != NULL && reply->type == REDIS_REPLY_INTEGER) {
        proven = reply->integer >= r->set.wait_replicas;
        if (!proven)
            lk_redis_net_doubt_locked(f->node->net);
        if (!proven)
            r->shared.svc->log(
                r->shared.svc, LOCKER_LOG_WARN,
                "redis: %lld of %" PRId64 " replicas have the renewal of leases after %" PRId64
                " ms, so the renewal does not count; check the replicas, or lower wait_replicas",
                reply->integer, r->set.wait_replicas, r->set.wait_timeout_ns / LK_MS);
    } else if (reply != NULL) {
        tell_fault_locked(r, reply, "waiting for replicas to confirm renewals");
    }
    for (lk_list *link; (link = lk_list_take(&f->renewals)) != NULL;) {
        struct renewal *const n = LK_CONTAINER(link, struct renewal, flight);
        n->replicas = proven ? REPLICAS_PROVEN : REPLICAS_UNPROVEN;
        if (n->is_read)
            end_locked(n);
    }
    free(f);
}

/* Create a renewal and queue it. Return false if memory ran out. */
static bool begin_locked(lk_redis_node *node, locker_claim *const *grants, size_t count) LK_REDIS_LOCKED
{
    struct renewal *n = malloc(sizeof *n + count * sizeof n->ref[0]);
    if (n == NULL)
        return false;
    *n = (struct renewal){.node = node,
                          .slot = lk_redis_claim_of(grants[0])->slot,
                          .shares = !locker_claim_is_plain(grants[0]),
                          .count = count};
    for (size_t i = 0; i < count; i++)
        refer_locked(&n->ref[i], grants[i]);
    lk_list_append(&node->renewals.waiting, &n->link);
    return true;
}

void lk_redis_renew_now_locked(lk_redis *r, locker_claim *grant)
{
    lk_redis_node *const node = lk_redis_node_of(r, lk_redis_claim_of(grant)->slot);
    if (begin_locked(node, &grant, 1))
        send_locked(node, lk_redis_now(&r->shared));
}

void lk_redis_renew_noted_locked(lk_redis_node *node)
{
    lk_redis *const r = node->r;
    locker_claim *batches[2][BATCH_MAX]; /* [0]: of shared locks and permits, [1]: of other locks */
    size_t counts[2] = {0};
    for (lk_redis_claim *data = NULL; (data = lk_redis_claims_after_locked(&r->claims, data)) != NULL;) {
        if (!data->noted || !data->core->renewed || !lk_redis_claim_is_held(data))
            continue;
        const int kind = locker_claim_is_plain(data->core);
        batches[kind][counts[kind]++] = data->core;
        if (counts[kind] < batch_max(kind == 0))
            continue;
        if (!begin_locked(node, batches[kind], counts[kind]))
            return;
        counts[kind] = 0;
    }
    for (int kind = 0; kind < 2; kind++)
        if (counts[kind] > 0 && !begin_locked(node, batches[kind], counts[kind]))
            return;
    send_locked(node, lk_redis_now(&r->shared));
}

/* Compare two claims so that sorting groups the claims of a command. */
static int by_command(const void *a, const void *b)
{
    const locker_claim *const one = *(locker_claim *const *)a, *const other = *(locker_claim *const *)b;
    const int kinds = locker_claim_is_plain(one) - locker_claim_is_plain(other);
    return kinds != 0 ? kinds : (int)lk_redis_claim_of(one)->slot - (int)lk_redis_claim_of(other)->slot;
}

/* Return true if the claims need sorting: in a cluster, or if some of them have shared locks or permits. A
 * known hash of the shared scripts means that shared locks were used here. */
static bool are_mixed(const lk_redis *r, locker_claim *const *grants, size_t count)
{
    size_t i = 0;
    if (r->map != NULL)
        return true;
    if (lk_redis_sha(r, LK_REDIS_SCRIPT_SHARED_ACQUIRE)[0] == '\0')
        return false;
    while (i < count && locker_claim_is_plain(grants[i]))
        i++;
    return i < count;
}

/* Return how many of the claims, from the first, go in one command. */
static size_t batch(const lk_redis *r, locker_claim *const *grants, size_t count)
{
    const size_t most = batch_max(!locker_claim_is_plain(grants[0]));
    size_t i = 1;
    while (i < count && i < most && locker_claim_is_plain(grants[i]) == locker_claim_is_plain(grants[0]) &&
           (r->map == NULL || lk_redis_claim_of(grants[i])->slot == lk_redis_claim_of(grants[0])->slot))
        i++;
    return i;
}

void lk_redis_renew(void *self, locker_claim *const *grants, size_t count)
{
    lk_redis *r = self;
    locker_claim **sorted = are_mixed(r, grants, count) ? malloc(count * sizeof *sorted) : NULL;
    bool more = false;
    if (sorted != NULL) {
        memcpy(sorted, grants, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, by_command);
        grants = sorted;
    }
    lk_redis_lock(&r->shared);
    if (r->recovery.mark != NULL) /* holders must restore lost locks before their deadlines */
        lk_redis_net_hurry_locked(r->nodes->net);
    for (size_t from = 0, size; from < count; from += size) {
        lk_redis_node *const node = lk_redis_node_of(r, lk_redis_claim_of(grants[from])->slot);
        size = batch(r, grants + from, count - from);
        if (carrier_locked(node)->state != LK_REDIS_UP)
            lk_redis_net_wanted_locked(node->net); /* perhaps its first request */
        else if (!begin_locked(node, grants + from, size))
            break;
    }
    for (lk_redis_node *node = r->nodes; node != NULL; node = node->next) {
        send_locked(node, lk_redis_now(&r->shared));
        more = more || !lk_list_empty(&node->renewals.waiting) || lk_redis_is_awaited_locked(node->commands);
        lk_redis_pump_unlocking(carrier_locked(node));
    }
    lk_redis_unlock(&r->shared);
    free(sorted);
    if (more)
        lk_redis_attend(r);
}

void lk_redis_renewals_free(lk_redis_node *node)
{
    for (lk_list *link; (link = lk_list_take(&node->renewals.waiting)) != NULL;)
        free(LK_CONTAINER(link, struct renewal, link));
}
