/* look.c: a query of who holds a key and who waits (show), break, and a round trip (ping). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "lk_error.h"
#include "txn.h"

enum { BREAK_TRIES = 4 };

static const int64_t pause_ns = 50 * LK_MS;

typedef struct {
    lk_etcd_key key;
    locker_holder told;
    bool is_lock; /* the key has a lease, and the form of a lock's key */
    bool broken;
} held;

/* A query in flight, on its caller's stack. */
typedef struct {
    lk_etcd *e;
    int64_t until;
    lk_etcd_call call;
    lk_etcd_key base;
    locker_info *info;
    size_t room; /* of info->queue and of `held` */
    held *held;  /* the holders */
    size_t held_len;
    const held *breaking; /* the holder that is being broken */
    bool no_memory, unknown, succeeded, shared;
    bool repeated;   /* an earlier request had no answer */
    uint64_t prover; /* the member whose read counts; 0: the query is ordered like a write */
    int32_t permits;
    locker_status status;
    locker_error error;
} look;

static void look_begin(look *k, lk_etcd *e, int64_t until) LK_ACQUIRE(*k->e->net)
{
    k->e = e;
    k->until = until;
    lk_etcd_enter(k->e->net);
    lk_etcd_call_begin_locked(k->e->net, &k->call);
}

static void look_end(look *k) LK_RELEASE(*k->e->net)
{
    lk_etcd_call_end_locked(k->e->net, &k->call);
    lk_etcd_leave(k->e->net);
    free(k->held);
}

/* Take an answer. Return true if it shows something. `doing` says what was refused otherwise. */
static bool is_answer_locked(lk_etcd *e, look *k, const lk_etcd_reply *reply, const char *doing)
    LK_REQUIRES(*e->net)
{
    lk_etcd_heard_locked(e, reply);
    k->unknown = lk_etcd_unknown(reply->status) &&
                 reply->status != LK_ETCD_TOO_LARGE; /* a repeated request would be too large again */
    k->status = LOCKER_OK;
    if (!k->unknown && reply->status != LK_ETCD_OK)
        k->status = lk_etcd_error(reply, doing, k->base.text, &k->error);
    lk_etcd_call_done_locked(e->net, &k->call);
    return !k->unknown && reply->status == LK_ETCD_OK;
}

typedef lk_etcd_request *(*send_fn)(look *k);

/* Send the request until it is answered, or the time is over. */
static locker_status ask_unlocking(look *k, send_fn send, locker_error *err) LK_REQUIRES(*k->e->net)
{
    lk_etcd_outcome outcome = LK_ETCD_CALL_DONE;
    k->unknown = true;
    k->repeated = false;
    while (k->unknown && outcome == LK_ETCD_CALL_DONE) {
        if (!lk_etcd_is_up_locked(k->e->net)) {
            outcome = lk_etcd_await_up_unlocking(k->e->net, &k->call, false, k->until);
            continue;
        }
        k->call.done = false;
        lk_etcd_request *const request = send(k);
        if (request == NULL)
            return lk_out_of_memory(err);
        outcome = lk_etcd_await_unlocking(k->e->net, &k->call, k->until);
        if (outcome != LK_ETCD_CALL_DONE)
            lk_etcd_forget_locked(request);
        k->repeated |= k->unknown;
        k->call.done = false;
        if (outcome == LK_ETCD_CALL_DONE && k->unknown && lk_etcd_is_up_locked(k->e->net))
            (void)lk_etcd_await_unlocking(k->e->net, &k->call,
                                          lk_time_earlier(k->until, lk_etcd_now_of(k->e) + pause_ns));
    }
    if (k->unknown)
        return lk_etcd_away_locked(k->e->net, err);
    if (k->no_memory)
        return lk_out_of_memory(err);
    if (k->status != LOCKER_OK && err != NULL)
        *err = k->error;
    return k->status;
}

/* ---------------------------------------------------------------- holders and waiters ---- */

static bool add_room(look *k, size_t more)
{
    locker_info *const info = k->info;
    const size_t room = k->room + more + 1;
    locker_waiter *const queue = realloc(info->queue, room * sizeof *queue);
    info->queue = queue != NULL ? queue : info->queue;
    held *const holders = realloc(k->held, room * sizeof *holders);
    k->held = holders != NULL ? holders : k->held;
    k->room = room;
    return queue != NULL && holders != NULL;
}

/* Return true if the key has the form of a lock's key. The value of our key begins with the id in its
 * name, or says whose permit it is. etcdctl and Go's concurrency package name their keys by the lease in
 * hexadecimal. */
static bool is_lock(const LkEtcdPb__KeyValue *kv, const lk_etcd_record *record, size_t base_len)
{
    char lease[24];
    const size_t len = kv->key.len - base_len, id_len = strlen(record->id);
    const char *const tail = (const char *)kv->key.data + base_len;
    const int lease_len = snprintf(lease, sizeof lease, "/%" PRIx64, (uint64_t)kv->lease);
    if (kv->lease == 0)
        return false;
    if (id_len > 0)
        return lk_etcd_key_told(&kv->key, base_len).has_permit ||
               (len > id_len && memcmp(tail + len - id_len, record->id, id_len) == 0);
    return len == (size_t)lease_len && memcmp(tail, lease, len) == 0;
}

static void add_holder(look *k, const LkEtcdPb__KeyValue *kv)
{
    lk_etcd_record record;
    held *const h = &k->held[k->held_len++];
    lk_etcd_record_read(&kv->value, &record);
    h->is_lock = is_lock(kv, &record, k->base.len);
    h->broken = false;
    h->key.len = kv->key.len < sizeof h->key.text ? kv->key.len
                                                  : 0; /* no client makes a longer key; it cannot be broken */
    memcpy(h->key.text, kv->key.data, h->key.len);
    h->told = (locker_holder){
        .token = (uint64_t)kv->create_revision, .since_unix_ms = record.unix_ms, .remaining_ms = -1};
    memcpy(h->told.owner, record.owner, sizeof record.owner);
    h->told.slot = lk_etcd_key_told(&kv->key, k->base.len).slot;
}

static void add_waiter(look *k, const LkEtcdPb__KeyValue *kv)
{
    lk_etcd_record record;
    const lk_etcd_told is = lk_etcd_key_told(&kv->key, k->base.len);
    lk_etcd_record_read(&kv->value, &record);
    locker_waiter *const told = &k->info->queue[k->info->queue_len++];
    *told = (locker_waiter){.mode = is.mode, .permits = is.permits};
    memcpy(told->owner, record.owner, sizeof record.owner);
}

/* Add a key of a lock's queue or of permits to the result. */
static void add(look *k, lk_etcd_range_of what, const LkEtcdPb__KeyValue *kv)
{
    const lk_etcd_told is = lk_etcd_key_told(&kv->key, k->base.len);
    const bool first = k->held_len == 0 && k->info->queue_len == 0;
    const bool holds =
        is.has_permit || (what == LK_ETCD_QUEUE &&
                          (first || (k->shared && k->info->queue_len == 0 && is.mode == LOCKER_SHARED)));
    if (first) {
        k->permits = is.permits;
        k->shared = is.mode == LOCKER_SHARED;
    }
    if (holds) {
        add_holder(k, kv);
    } else {
        add_waiter(k, kv);
        k->info->waiters++;
    }
}

/* Write the holders into the result; with `broken` only those that the break has ended. Return false
 * without memory. */
static bool describe(look *k, bool broken)
{
    locker_info *const info = k->info;
    free(info->holders);
    info->holders_len = 0;
    info->holders = calloc(k->held_len + 1, sizeof *info->holders);
    for (size_t n = 0; info->holders != NULL && n < k->held_len; n++)
        if (!broken || k->held[n].broken)
            info->holders[info->holders_len++] = k->held[n].told;
    if (info->holders == NULL)
        return false;
    locker_info_settle(info, k->shared ? LOCKER_SHARED : LOCKER_EXCLUSIVE, k->permits);
    return true;
}

static void shown_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    (void)e;
    static const lk_etcd_range_of what[] = {LK_ETCD_QUEUE, LK_ETCD_PERMITS};
    look *const k = context;
    locker_info *const info = k->info;
    if (!is_answer_locked(e, k, reply, "reading a lock"))
        return;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    const uint64_t member = done->header != NULL ? done->header->member_id : 0;
    if (k->prover != 0 && member != k->prover) {
        lk_etcd_answered_by_locked(e->net, member);
        k->unknown = true;
        return;
    }
    info->queue_len = k->held_len = k->room = 0;
    info->queue_stride = sizeof *info->queue;
    info->waiters = 0;
    k->shared = false;
    k->permits = 0;
    for (size_t n = 0; n < sizeof what / sizeof what[0] && !k->no_memory; n++) {
        const LkEtcdPb__Ranged *const of = lk_etcd_ranged(done, n);
        k->no_memory = of == NULL || !add_room(k, of->n_kvs);
        for (size_t i = 0; !k->no_memory && i < of->n_kvs; i++)
            add(k, what[n], of->kvs[i]);
    }
    k->no_memory = k->no_memory || !describe(k, false);
}

static lk_etcd_request *send_show(look *k) LK_REQUIRES(*k->e->net)
{
    static const lk_etcd_range_of what[] = {LK_ETCD_QUEUE, LK_ETCD_PERMITS};
    lk_etcd_txn_of t;
    lk_etcd_txn_begin(&t);
    for (size_t n = 0; n < sizeof what / sizeof what[0]; n++) {
        lk_etcd_latest_op(&t.then, k->base.text, 0, what[n], 0, 0);
        t.then.body[n].range.keys_only = false;
        t.then.body[n].range.sort_order = LK_ETCD_PB__RANGE__ORDER__ASCEND;
    }
    k->prover = lk_etcd_prover_locked(k->e->net);
    if (k->prover == 0)
        lk_etcd_order_op(&t.otherwise);
    return lk_etcd_txn_send_locked(k->e, &t, shown_locked, k);
}

locker_status lk_etcd_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err)
{
    look k = {.info = info};
    (void)lk_etcd_base(self, key, key_len, &k.base); /* core has checked the key */
    look_begin(&k, self, until);
    const locker_status status = ask_unlocking(&k, send_show, err);
    look_end(&k);
    return status;
}

/* ---------------------------------------------------------------- breaking ---- */

static void broken_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    look *const k = context;
    if (is_answer_locked(e, k, reply, "breaking a lock"))
        k->succeeded = ((const LkEtcdPb__TxnDone *)(const void *)reply->message)->succeeded;
}

static lk_etcd_request *send_break(look *k) LK_REQUIRES(*k->e->net)
{
    lk_etcd_txn_of t;
    lk_etcd_txn_begin(&t);
    lk_etcd_if(&t, lk_etcd_bytes(&k->breaking->key), (int64_t)k->breaking->told.token);
    lk_etcd_delete_op(&t.then, lk_etcd_bytes(&k->breaking->key));
    return lk_etcd_txn_send_locked(k->e, &t, broken_locked, k);
}

/* Refuse to delete a key that may be an application's data, unless force is set. */
static locker_status check_force(const look *k, const locker_break_options *only, locker_error *err)
{
    for (size_t n = 0; n < k->held_len && !only->force; n++) {
        const held *const h = &k->held[n];
        if (!h->is_lock && locker_break_names(only, h->told.owner, h->told.token))
            return lk_misconfigured(
                err,
                "'%.*s' is not a lock's key: it has no lease or another form, and may be an application's "
                "data; check it (etcdctl get), then use force (locker break --force) to delete it",
                (int)(h->key.len < 200 ? h->key.len : 200), h->key.text);
    }
    return LOCKER_OK;
}

/* Break the named holders among those that the query showed. *count: how many were broken. */
static locker_status break_named_unlocking(look *k, const locker_break_options *only, size_t *count,
                                           locker_error *err) LK_REQUIRES(*k->e->net)
{
    for (size_t n = 0; n < k->held_len; n++) {
        held *const h = &k->held[n];
        if (h->key.len == 0 || !locker_break_names(only, h->told.owner, h->told.token))
            continue;
        k->breaking = h;
        k->succeeded = false;
        const locker_status status = ask_unlocking(k, send_break, err);
        if (status != LOCKER_OK)
            return status;
        if (!k->succeeded && k->repeated) /* it is missing, perhaps because the first request deleted it */
            return lk_unavailable(err,
                                  "an answer was lost while breaking '%s', so the result "
                                  "is unknown; run show, then break again if needed",
                                  k->base.text);
        h->broken = k->succeeded;
        *count += k->succeeded;
    }
    return LOCKER_OK;
}

static locker_status look_and_break_unlocking(look *k, const locker_break_options *only, const char *key,
                                              locker_error *err) LK_REQUIRES(*k->e->net)
{
    size_t count = 0;
    for (int tries = 0; tries < BREAK_TRIES && count == 0; tries++) {
        locker_status status = ask_unlocking(k, send_show, err);
        if (status == LOCKER_OK && k->held_len == 0)
            status = lk_invalid(err, "nobody holds '%s'", key);
        if (status == LOCKER_OK)
            status = locker_break_check(only, k->info, err);
        if (status == LOCKER_OK)
            status = check_force(k, only, err);
        if (status == LOCKER_OK)
            status = break_named_unlocking(k, only, &count, err);
        if (status != LOCKER_OK)
            return status;
    }
    if (count == 0)
        return locker_error_set(
            err, LOCKER_BUSY, 0,
            "'%s' got a new holder during each attempt to break it; run show, then break again", key);
    return describe(k, true) ? LOCKER_OK : lk_out_of_memory(err);
}

locker_status lk_etcd_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err)
{
    look k = {.info = broken};
    (void)lk_etcd_base(self, key, key_len, &k.base);
    look_begin(&k, self, until);
    const locker_status status = look_and_break_unlocking(&k, only, key, err);
    look_end(&k);
    free(broken->queue);
    broken->queue = NULL;
    broken->queue_len = 0;
    broken->waiters = -1;
    return status;
}

/* ---------------------------------------------------------------- a round trip ---- */

static void pinged_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    look *const k = context;
    (void)is_answer_locked(e, k, reply, "waiting for an answer");
    if (reply->status == LK_ETCD_PERMISSION_DENIED)
        k->status = LOCKER_OK; /* the majority has answered before the right was checked */
}

/* Send a read that needs a majority: a member that is cut off does not answer. */
static lk_etcd_request *send_ping(look *k) LK_REQUIRES(*k->e->net)
{
    LkEtcdPb__Range range = LK_ETCD_PB__RANGE__INIT;
    lk_etcd_key key;
    lk_etcd_slot_key(k->base.text, 1, 0, &key);
    range.key = lk_etcd_bytes(&key);
    range.count_only = true;
    return lk_etcd_send_locked(k->e->net, &lk_etcd_range, &range.base, pinged_locked, k);
}

locker_status lk_etcd_ping(void *self, int64_t until, locker_error *err)
{
    look k = {.until = until};
    (void)lk_etcd_base(self, "", 0, &k.base);
    look_begin(&k, self, until);
    const locker_status status = ask_unlocking(&k, send_ping, err);
    look_end(&k);
    return status;
}
