/* apply.c: see apply.h. */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

#define TTL_MOST INT64_C(9000000000)

/* A request that is carried out: what it has changed is of the next revision. */
typedef struct {
    lk_simetcd_store *store;
    lk_simetcd_arena *arena;
    bool changed;
    bool *path; /* of a transaction and those in it, in order: whether its comparisons are true */
    size_t path_count, path_room, path_at;
} work;

static lk_simetcd_data data(ProtobufCBinaryData from)
{
    return (lk_simetcd_data){from.data, from.len};
}

static ProtobufCBinaryData binary(lk_simetcd_data from)
{
    return (ProtobufCBinaryData){from.len, (uint8_t *)(uintptr_t)from.bytes};
}

static int64_t revision_of(const work *w)
{
    return w->store->revision + w->changed;
}

static LkEtcdPb__Header *header(work *w)
{
    LkEtcdPb__Header *const made = lk_simetcd_arena_alloc(w->arena, sizeof *made);
    lk_etcd_pb__header__init(made);
    made->revision = revision_of(w);
    return made;
}

/* ------------------------------------------------------------------ range ---- */

LkEtcdPb__KeyValue *lk_simetcd_told(const lk_simetcd_kv *kv, lk_simetcd_arena *arena)
{
    LkEtcdPb__KeyValue *const told = lk_simetcd_arena_alloc(arena, sizeof *told);
    lk_etcd_pb__key_value__init(told);
    told->key = binary(kv->key);
    told->value = binary(kv->value);
    told->create_revision = kv->create;
    told->mod_revision = kv->mod;
    told->version = kv->version;
    told->lease = kv->lease;
    return told;
}

static const lk_simetcd_error *check_revision(const lk_simetcd_store *store, int64_t revision)
{
    if (revision <= 0)
        return NULL;
    return revision > store->revision    ? &lk_simetcd_future
           : revision < store->compacted ? &lk_simetcd_compacted
                                         : NULL;
}

typedef struct {
    const lk_simetcd_kv **items;
    size_t count;
} found;

static found find(const work *w, const LkEtcdPb__Range *r)
{
    const lk_simetcd_span span = lk_simetcd_span_of(data(r->key), data(r->range_end));
    const int64_t at = r->revision > 0 ? r->revision : INT64_MAX;
    found f = {.items = lk_simetcd_arena_alloc(w->arena, (w->store->key_count + 1) * sizeof *f.items)};
    for (size_t i = lk_simetcd_first(w->store, &span); i < w->store->key_count; i++) {
        const lk_simetcd_kv *const kv = lk_simetcd_state(w->store->keys[i], at);
        if (!lk_simetcd_in_span(&span, w->store->keys[i]->name))
            break;
        if (kv != NULL)
            f.items[f.count++] = kv;
    }
    return f;
}

static void prune(found *f, const LkEtcdPb__Range *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        const int64_t create = f->items[i]->create;
        if ((r->max_create_revision == 0 || create <= r->max_create_revision) &&
            (r->min_create_revision == 0 || create >= r->min_create_revision))
            f->items[kept++] = f->items[i];
    }
    f->count = kept;
}

static int order(LkEtcdPb__Range__Target by, const lk_simetcd_kv *one, const lk_simetcd_kv *other)
{
    int64_t first = 0, second = 0;
    switch (by) {
    case LK_ETCD_PB__RANGE__TARGET__VERSION:
        first = one->version;
        second = other->version;
        break;
    case LK_ETCD_PB__RANGE__TARGET__CREATE:
        first = one->create;
        second = other->create;
        break;
    case LK_ETCD_PB__RANGE__TARGET__MOD:
        first = one->mod;
        second = other->mod;
        break;
    case LK_ETCD_PB__RANGE__TARGET__VALUE:
        return lk_simetcd_compare(one->value, other->value);
    default:
        return lk_simetcd_compare(one->key, other->key);
    }
    return first < second ? -1 : first > second;
}

/* As Go sorts few: those that are alike stay in their order, also backwards. */
static void sort(found *f, const LkEtcdPb__Range *r)
{
    LkEtcdPb__Range__Order way = r->sort_order;
    if (way == LK_ETCD_PB__RANGE__ORDER__NONE && r->sort_target != LK_ETCD_PB__RANGE__TARGET__KEY)
        way = LK_ETCD_PB__RANGE__ORDER__ASCEND;
    if (way == LK_ETCD_PB__RANGE__ORDER__NONE)
        return;
    const int sign = way == LK_ETCD_PB__RANGE__ORDER__DESCEND ? -1 : 1;
    for (size_t i = 1; i < f->count; i++) {
        const lk_simetcd_kv *const moved = f->items[i];
        size_t at = i;
        for (; at > 0 && sign * order(r->sort_target, moved, f->items[at - 1]) < 0; at--)
            f->items[at] = f->items[at - 1];
        f->items[at] = moved;
    }
}

static LkEtcdPb__Ranged *range(work *w, const LkEtcdPb__Range *r)
{
    LkEtcdPb__Ranged *const ranged = lk_simetcd_arena_alloc(w->arena, sizeof *ranged);
    lk_etcd_pb__ranged__init(ranged);
    found f = find(w, r);
    ranged->header = header(w);
    ranged->count = (int64_t)f.count;
    if (r->count_only)
        return ranged;
    prune(&f, r);
    sort(&f, r);
    if (r->limit > 0 && f.count > (size_t)r->limit) {
        f.count = (size_t)r->limit;
        ranged->more = true;
    }
    ranged->n_kvs = f.count;
    ranged->kvs = lk_simetcd_arena_alloc(w->arena, (f.count + 1) * sizeof *ranged->kvs);
    for (size_t i = 0; i < f.count; i++) {
        ranged->kvs[i] = lk_simetcd_told(f.items[i], w->arena);
        if (r->keys_only)
            ranged->kvs[i]->value = (ProtobufCBinaryData){0};
    }
    return ranged;
}

/* ------------------------------------------------------------------ put, delete ---- */

static const lk_simetcd_kv *now(const work *w, ProtobufCBinaryData key)
{
    const LkEtcdPb__Range r = {.key = key};
    const found f = find(w, &r);
    return f.count > 0 ? f.items[0] : NULL;
}

/* In a transaction it is asked first whether the key is there. */
static const lk_simetcd_error *check_put(const work *w, const LkEtcdPb__Put *p, bool in_txn)
{
    const bool no_lease = p->lease != 0 && lk_simetcd_lease_find(w->store, p->lease) == NULL,
               no_key = p->ignore_value && now(w, p->key) == NULL;
    if (no_lease && (!no_key || !in_txn))
        return &lk_simetcd_lease_not_found;
    return no_key ? &lk_simetcd_key_not_found : NULL;
}

static LkEtcdPb__PutDone *put(work *w, const LkEtcdPb__Put *p)
{
    LkEtcdPb__PutDone *const done = lk_simetcd_arena_alloc(w->arena, sizeof *done);
    const lk_simetcd_kv *const before = p->ignore_value ? now(w, p->key) : NULL;
    lk_etcd_pb__put_done__init(done);
    lk_simetcd_put(w->store, w->store->revision + 1, data(p->key),
                   before != NULL ? before->value : data(p->value), p->lease);
    w->changed = true;
    done->header = header(w);
    return done;
}

static LkEtcdPb__Deleted *delete (work *w, const LkEtcdPb__Delete *d)
{
    LkEtcdPb__Deleted *const done = lk_simetcd_arena_alloc(w->arena, sizeof *done);
    const lk_simetcd_span span = lk_simetcd_span_of(data(d->key), data(d->range_end));
    lk_etcd_pb__deleted__init(done);
    done->deleted = lk_simetcd_delete(w->store, w->store->revision + 1, &span);
    w->changed |= done->deleted > 0;
    done->header = header(w);
    return done;
}

/* ------------------------------------------------------------------ transactions ---- */

static bool compare_one(const LkEtcdPb__Compare *c, const lk_simetcd_kv *kv)
{
    int64_t wanted = 0, has = 0;
    int way;
    switch (c->target) {
    case LK_ETCD_PB__COMPARE__TARGET__CREATE:
        has = kv->create;
        wanted = c->to_case == LK_ETCD_PB__COMPARE__TO_CREATE_REVISION ? c->create_revision : 0;
        break;
    case LK_ETCD_PB__COMPARE__TARGET__MOD:
        has = kv->mod;
        wanted = c->to_case == LK_ETCD_PB__COMPARE__TO_MOD_REVISION ? c->mod_revision : 0;
        break;
    case LK_ETCD_PB__COMPARE__TARGET__LEASE:
        has = kv->lease;
        wanted = c->to_case == LK_ETCD_PB__COMPARE__TO_LEASE ? c->lease : 0;
        break;
    default:
        has = kv->version;
        wanted = c->to_case == LK_ETCD_PB__COMPARE__TO_VERSION ? c->version : 0;
    }
    way = has < wanted ? -1 : has > wanted;
    if (c->target == LK_ETCD_PB__COMPARE__TARGET__VALUE)
        way = lk_simetcd_compare(
            kv->value, c->to_case == LK_ETCD_PB__COMPARE__TO_VALUE ? data(c->value) : (lk_simetcd_data){0});
    switch (c->result) {
    case LK_ETCD_PB__COMPARE__RESULT__EQUAL:
        return way == 0;
    case LK_ETCD_PB__COMPARE__RESULT__NOT_EQUAL:
        return way != 0;
    case LK_ETCD_PB__COMPARE__RESULT__GREATER:
        return way > 0;
    default:
        return way < 0;
    }
}

/* Of all keys in its range; where there is none, of one that is nothing, whose value is like no other. */
static bool compare(const work *w, const LkEtcdPb__Compare *c)
{
    const LkEtcdPb__Range r = {.key = c->key, .range_end = c->range_end};
    const found f = find(w, &r);
    if (f.count == 0)
        return c->target != LK_ETCD_PB__COMPARE__TARGET__VALUE && compare_one(c, &(lk_simetcd_kv){0});
    for (size_t i = 0; i < f.count; i++)
        if (!compare_one(c, f.items[i]))
            return false;
    return true;
}

typedef struct {
    LkEtcdPb__Op *const *items;
    size_t count;
} ops;

static ops ops_of(const LkEtcdPb__Txn *txn, bool succeeded)
{
    return succeeded ? (ops){txn->success, txn->n_success} : (ops){txn->failure, txn->n_failure};
}

/* All are decided before anything changes, those of inner transactions, too. */
static void decide(work *w, const LkEtcdPb__Txn *txn)
{
    bool succeeded = true;
    for (size_t i = 0; succeeded && i < txn->n_compare; i++)
        succeeded = compare(w, txn->compare[i]);
    w->path = lk_simetcd_grow(w->path, w->path_count, &w->path_room, sizeof *w->path);
    w->path[w->path_count++] = succeeded;
    const ops chosen = ops_of(txn, succeeded);
    for (size_t i = 0; i < chosen.count; i++)
        if (chosen.items[i]->op_case == LK_ETCD_PB__OP__OP_TXN)
            decide(w, chosen.items[i]->txn);
}

static const lk_simetcd_error *check(work *w, const LkEtcdPb__Txn *txn, bool puts)
{
    const lk_simetcd_error *error = NULL;
    const ops chosen = ops_of(txn, w->path[w->path_at++]);
    for (size_t i = 0; error == NULL && i < chosen.count; i++) {
        const LkEtcdPb__Op *const op = chosen.items[i];
        if (op->op_case == LK_ETCD_PB__OP__OP_TXN)
            error = check(w, op->txn, puts);
        else if (op->op_case == LK_ETCD_PB__OP__OP_PUT && puts)
            error = check_put(w, op->put, true);
        else if (op->op_case == LK_ETCD_PB__OP__OP_RANGE && !puts)
            error = check_revision(w->store, op->range->revision);
    }
    return error;
}

static LkEtcdPb__TxnDone *carry_out(work *w, const LkEtcdPb__Txn *txn);

/* Of what an inner transaction is answered, ranges alone are told. */
static void tell_nested(work *w, LkEtcdPb__Nested *nested, const LkEtcdPb__TxnDone *done)
{
    nested->succeeded = done->succeeded;
    nested->n_responses = done->n_responses;
    nested->responses = lk_simetcd_arena_alloc(w->arena, (done->n_responses + 1) * sizeof *nested->responses);
    for (size_t i = 0; i < done->n_responses; i++) {
        nested->responses[i] = lk_simetcd_arena_alloc(w->arena, sizeof *nested->responses[i]);
        lk_etcd_pb__nested_done__init(nested->responses[i]);
        if (done->responses[i]->done_case == LK_ETCD_PB__DONE__DONE_RANGE)
            nested->responses[i]->range = done->responses[i]->range;
    }
}

static LkEtcdPb__Done *carry_out_one(work *w, const LkEtcdPb__Op *op)
{
    LkEtcdPb__Done *const done = lk_simetcd_arena_alloc(w->arena, sizeof *done);
    lk_etcd_pb__done__init(done);
    switch (op->op_case) {
    case LK_ETCD_PB__OP__OP_RANGE:
        done->done_case = LK_ETCD_PB__DONE__DONE_RANGE;
        done->range = range(w, op->range);
        break;
    case LK_ETCD_PB__OP__OP_PUT:
        done->done_case = LK_ETCD_PB__DONE__DONE_PUT;
        done->put = put(w, op->put);
        break;
    case LK_ETCD_PB__OP__OP_DEL:
        done->done_case = LK_ETCD_PB__DONE__DONE_DEL;
        done->del = delete (w, op->del);
        break;
    default:
        done->done_case = LK_ETCD_PB__DONE__DONE_TXN;
        done->txn = lk_simetcd_arena_alloc(w->arena, sizeof *done->txn);
        lk_etcd_pb__nested__init(done->txn);
        tell_nested(w, done->txn, carry_out(w, op->txn));
    }
    return done;
}

static LkEtcdPb__TxnDone *carry_out(work *w, const LkEtcdPb__Txn *txn)
{
    LkEtcdPb__TxnDone *const done = lk_simetcd_arena_alloc(w->arena, sizeof *done);
    lk_etcd_pb__txn_done__init(done);
    done->succeeded = w->path[w->path_at++];
    const ops chosen = ops_of(txn, done->succeeded);
    done->n_responses = chosen.count;
    done->responses = lk_simetcd_arena_alloc(w->arena, (chosen.count + 1) * sizeof *done->responses);
    for (size_t i = 0; i < chosen.count; i++)
        done->responses[i] = carry_out_one(w, chosen.items[i]);
    return done;
}

static LkEtcdPb__TxnDone *txn(work *w, const LkEtcdPb__Txn *t, const lk_simetcd_error **error)
{
    LkEtcdPb__TxnDone *done = NULL;
    decide(w, t);
    *error = check(w, t, true);
    w->path_at = 0;
    if (*error == NULL)
        *error = check(w, t, false);
    w->path_at = 0;
    if (*error == NULL) {
        done = carry_out(w, t);
        done->header = header(w);
    }
    free(w->path);
    return done;
}

/* ------------------------------------------------------------------ leases, compaction ---- */

static LkEtcdPb__LeaseGranted *grant(work *w, const LkEtcdPb__LeaseGrant *g, int64_t least_ttl,
                                     const lk_simetcd_error **error)
{
    LkEtcdPb__LeaseGranted *const granted = lk_simetcd_arena_alloc(w->arena, sizeof *granted);
    lk_etcd_pb__lease_granted__init(granted);
    *error = g->ttl > TTL_MOST                                ? &lk_simetcd_ttl_too_large
             : lk_simetcd_lease_find(w->store, g->id) != NULL ? &lk_simetcd_lease_exists
                                                              : NULL;
    if (*error != NULL)
        return NULL;
    granted->id = g->id;
    granted->ttl = g->ttl > least_ttl ? g->ttl : least_ttl;
    (void)lk_simetcd_lease_new(w->store, g->id, granted->ttl);
    granted->header = header(w);
    return granted;
}

static LkEtcdPb__LeaseRevoked *revoke(work *w, const LkEtcdPb__LeaseRevoke *r, const lk_simetcd_error **error)
{
    LkEtcdPb__LeaseRevoked *const revoked = lk_simetcd_arena_alloc(w->arena, sizeof *revoked);
    lk_etcd_pb__lease_revoked__init(revoked);
    if (lk_simetcd_lease_find(w->store, r->id) == NULL) {
        *error = &lk_simetcd_lease_not_found;
        return NULL;
    }
    lk_simetcd_lease_end(w->store, r->id);
    revoked->header = header(w);
    return revoked;
}

/* Its answer is a header alone, as a put's. */
static LkEtcdPb__PutDone *compact(work *w, const LkEtcdPb__Delete *d, const lk_simetcd_error **error)
{
    LkEtcdPb__PutDone *const done = lk_simetcd_arena_alloc(w->arena, sizeof *done);
    const int64_t revision = strtoll((const char *)d->key.data, NULL, 10);
    lk_etcd_pb__put_done__init(done);
    *error = revision <= w->store->compacted ? &lk_simetcd_compacted
             : revision > w->store->revision ? &lk_simetcd_future
                                             : NULL;
    if (*error != NULL)
        return NULL;
    lk_simetcd_compact(w->store, revision);
    done->header = header(w);
    return done;
}

/* ------------------------------------------------------------------ all ---- */

#define ANSWER(made)                                                                                         \
    do {                                                                                                     \
        answer->message = (made) != NULL ? &(made)->base : NULL;                                             \
        answer->header = (made) != NULL ? (made)->header : NULL;                                             \
    } while (0)

void lk_simetcd_apply(lk_simetcd_store *store, lk_simetcd_kind kind, const ProtobufCMessage *message,
                      int64_t least_ttl, lk_simetcd_arena *arena, lk_simetcd_answer *answer)
{
    const void *const of = message;
    work w = {.store = store, .arena = arena};
    *answer = (lk_simetcd_answer){0};
    if (kind == LK_SIMETCD_RANGE) {
        answer->error = check_revision(store, ((const LkEtcdPb__Range *)of)->revision);
        const LkEtcdPb__Ranged *const made = answer->error == NULL ? range(&w, of) : NULL;
        answer->message = made != NULL ? (ProtobufCMessage *)(uintptr_t)&made->base : NULL;
        answer->header = made != NULL ? made->header : NULL;
    } else if (kind == LK_SIMETCD_PUT) {
        answer->error = check_put(&w, of, false);
        LkEtcdPb__PutDone *const made = answer->error == NULL ? put(&w, of) : NULL;
        ANSWER(made);
    } else if (kind == LK_SIMETCD_DELETE) {
        LkEtcdPb__Deleted *const made = delete (&w, of);
        ANSWER(made);
    } else if (kind == LK_SIMETCD_TXN) {
        LkEtcdPb__TxnDone *const made = txn(&w, of, &answer->error);
        ANSWER(made);
    } else if (kind == LK_SIMETCD_GRANT) {
        LkEtcdPb__LeaseGranted *const made = grant(&w, of, least_ttl, &answer->error);
        ANSWER(made);
    } else if (kind == LK_SIMETCD_REVOKE) {
        LkEtcdPb__LeaseRevoked *const made = revoke(&w, of, &answer->error);
        ANSWER(made);
    } else if (kind == LK_SIMETCD_COMPACT) {
        LkEtcdPb__PutDone *const made = compact(&w, of, &answer->error);
        ANSWER(made);
    }
    store->revision += w.changed;
}
