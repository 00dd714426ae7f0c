/* etcd_choose.c: see etcd_choose.h. */
#include "etcd_choose.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LEASES = 5, WATCHES = 5 };

uint64_t etcd_draw(etcd_chooser *c, uint64_t below)
{
    uint64_t z = c->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static bool one_in(etcd_chooser *c, uint64_t of)
{
    return etcd_draw(c, of) == 0;
}

static void *made(size_t size)
{
    void *const at = calloc(1, size);
    if (at == NULL)
        abort();
    return at;
}

#define MAKE(name, type, init)                                                                               \
    type *const name = made(sizeof *name);                                                                   \
    init(name)

static ProtobufCBinaryData bytes_of(const char *text, size_t len)
{
    ProtobufCBinaryData data = {.len = len};
    if (len == 0)
        return data;
    data.data = made(len);
    memcpy(data.data, text, len);
    return data;
}

static ProtobufCBinaryData choose_key(etcd_chooser *c)
{
    static const char *const keys[] = {"a", "a/", "a/1", "a/2", "a0", "b", "b/x", "c", "\xff\xff"};
    const char *const key = keys[etcd_draw(c, sizeof keys / sizeof *keys)];
    return one_in(c, 60) ? (ProtobufCBinaryData){0} : bytes_of(key, strlen(key));
}

static ProtobufCBinaryData choose_end(etcd_chooser *c)
{
    static const char *const ends[] = {"a0", "a/2", "b", "b0", "c", "d"};
    const uint64_t which = etcd_draw(c, 12);
    if (which < 5)
        return (ProtobufCBinaryData){0};
    if (which == 5)
        return bytes_of("", 1);
    const char *const end = ends[which - 6];
    return bytes_of(end, strlen(end));
}

static ProtobufCBinaryData choose_value(etcd_chooser *c)
{
    static const char *const values[] = {"", "one", "two", "three"};
    const char *const value = values[etcd_draw(c, 4)];
    return bytes_of(value, strlen(value));
}

static int64_t choose_revision(etcd_chooser *c)
{
    return c->revision + 2 - (int64_t)etcd_draw(c, 12);
}

static int64_t choose_lease(etcd_chooser *c)
{
    return 1 + (int64_t)etcd_draw(c, LEASES);
}

/* ------------------------------------------------------------------ keys ---- */

static LkEtcdPb__Range *choose_range(etcd_chooser *c)
{
    MAKE(r, LkEtcdPb__Range, lk_etcd_pb__range__init);
    r->key = choose_key(c);
    r->range_end = choose_end(c);
    r->limit = one_in(c, 3) ? (int64_t)etcd_draw(c, 4) : 0;
    r->revision = one_in(c, 8) ? choose_revision(c) : 0;
    r->sort_order = (LkEtcdPb__Range__Order)etcd_draw(c, 3);
    r->sort_target = (LkEtcdPb__Range__Target)etcd_draw(c, 5);
    r->serializable = one_in(c, 6);
    r->keys_only = one_in(c, 4);
    r->count_only = one_in(c, 8);
    r->min_create_revision = one_in(c, 5) ? choose_revision(c) : 0;
    r->max_create_revision = one_in(c, 5) ? choose_revision(c) : 0;
    return r;
}

static LkEtcdPb__Put *choose_put(etcd_chooser *c)
{
    MAKE(p, LkEtcdPb__Put, lk_etcd_pb__put__init);
    p->key = choose_key(c);
    p->ignore_value = one_in(c, 6);
    if (!p->ignore_value || one_in(c, 8))
        p->value = choose_value(c);
    p->lease = one_in(c, 3) ? choose_lease(c) : 0;
    return p;
}

static LkEtcdPb__Delete *choose_delete(etcd_chooser *c)
{
    MAKE(d, LkEtcdPb__Delete, lk_etcd_pb__delete__init);
    d->key = choose_key(c);
    if (one_in(c, 3))
        d->range_end = choose_end(c);
    return d;
}

static LkEtcdPb__Compare *choose_compare(etcd_chooser *c)
{
    MAKE(p, LkEtcdPb__Compare, lk_etcd_pb__compare__init);
    p->key = choose_key(c);
    p->range_end = one_in(c, 3) ? choose_end(c) : (ProtobufCBinaryData){0};
    p->result = (LkEtcdPb__Compare__Result)etcd_draw(c, 4);
    p->target = (LkEtcdPb__Compare__Target)etcd_draw(c, 5);
    static const LkEtcdPb__Compare__ToCase to[] = {
        LK_ETCD_PB__COMPARE__TO_VERSION, LK_ETCD_PB__COMPARE__TO_CREATE_REVISION,
        LK_ETCD_PB__COMPARE__TO_MOD_REVISION, LK_ETCD_PB__COMPARE__TO_VALUE, LK_ETCD_PB__COMPARE__TO_LEASE};
    p->to_case = to[one_in(c, 20) ? etcd_draw(c, 5) : (uint64_t)p->target];
    if (p->to_case == LK_ETCD_PB__COMPARE__TO_VALUE)
        p->value = choose_value(c);
    else if (p->to_case == LK_ETCD_PB__COMPARE__TO_LEASE)
        p->lease = one_in(c, 2) ? 0 : choose_lease(c);
    else if (p->to_case == LK_ETCD_PB__COMPARE__TO_VERSION)
        p->version = (int64_t)etcd_draw(c, 3);
    else
        p->create_revision = one_in(c, 2) ? 0 : choose_revision(c); /* all are one union */
    return p;
}

static LkEtcdPb__Txn *choose_txn(etcd_chooser *c, int depth);

static LkEtcdPb__Op *choose_op(etcd_chooser *c, int depth)
{
    MAKE(op, LkEtcdPb__Op, lk_etcd_pb__op__init);
    switch (etcd_draw(c, depth > 0 ? 9 : 7)) {
    case 0:
    case 1:
        op->op_case = LK_ETCD_PB__OP__OP_RANGE;
        op->range = choose_range(c);
        break;
    case 2:
    case 3:
    case 4:
        op->op_case = LK_ETCD_PB__OP__OP_PUT;
        op->put = choose_put(c);
        break;
    case 5:
    case 6:
        op->op_case = LK_ETCD_PB__OP__OP_DEL;
        op->del = choose_delete(c);
        break;
    default:
        op->op_case = LK_ETCD_PB__OP__OP_TXN;
        op->txn = choose_txn(c, depth - 1);
    }
    return op;
}

static size_t choose_ops(etcd_chooser *c, LkEtcdPb__Op ***ops, int depth)
{
    const size_t count = one_in(c, 400) ? 129 : etcd_draw(c, 4);
    *ops = made((count + 1) * sizeof **ops);
    for (size_t i = 0; i < count; i++)
        (*ops)[i] = choose_op(c, depth);
    return count;
}

static LkEtcdPb__Txn *choose_txn(etcd_chooser *c, int depth)
{
    MAKE(t, LkEtcdPb__Txn, lk_etcd_pb__txn__init);
    t->n_compare = etcd_draw(c, 3);
    t->compare = made((t->n_compare + 1) * sizeof *t->compare);
    for (size_t i = 0; i < t->n_compare; i++)
        t->compare[i] = choose_compare(c);
    t->n_success = choose_ops(c, &t->success, depth);
    t->n_failure = choose_ops(c, &t->failure, depth);
    return t;
}

/* ------------------------------------------------------------------ all ---- */

static ProtobufCMessage *choose_of_lease(etcd_chooser *c, const char **path,
                                         const ProtobufCMessageDescriptor **answer)
{
    switch (etcd_draw(c, 4)) {
    case 0:
    case 1: {
        MAKE(g, LkEtcdPb__LeaseGrant, lk_etcd_pb__lease_grant__init);
        g->id = choose_lease(c);
        g->ttl = one_in(c, 10) ? INT64_C(9000000001) : 1000 + (int64_t)etcd_draw(c, 3);
        *path = "/etcdserverpb.Lease/LeaseGrant";
        *answer = &lk_etcd_pb__lease_granted__descriptor;
        return &g->base;
    }
    case 2: {
        MAKE(r, LkEtcdPb__LeaseRevoke, lk_etcd_pb__lease_revoke__init);
        r->id = choose_lease(c);
        *path = "/etcdserverpb.Lease/LeaseRevoke";
        *answer = &lk_etcd_pb__lease_revoked__descriptor;
        return &r->base;
    }
    default: {
        MAKE(a, LkEtcdPb__LeaseAsk, lk_etcd_pb__lease_ask__init);
        a->id = choose_lease(c);
        *path = "/etcdserverpb.Lease/LeaseTimeToLive";
        *answer = &lk_etcd_pb__lease_told__descriptor;
        return &a->base;
    }
    }
}

ProtobufCMessage *etcd_choose(etcd_chooser *c, const char **path, const ProtobufCMessageDescriptor **answer,
                              int64_t *revision)
{
    switch (etcd_draw(c, 20)) {
    case 0:
    case 1:
    case 2:
        *path = "/etcdserverpb.KV/Range";
        *answer = &lk_etcd_pb__ranged__descriptor;
        return &choose_range(c)->base;
    case 3:
    case 4:
    case 5:
    case 6:
        *path = "/etcdserverpb.KV/Put";
        *answer = &lk_etcd_pb__put_done__descriptor;
        return &choose_put(c)->base;
    case 7:
        *path = "/etcdserverpb.KV/DeleteRange";
        *answer = &lk_etcd_pb__deleted__descriptor;
        return &choose_delete(c)->base;
    case 8:
        if (!one_in(c, 2))
            break;
        *path = "/etcdserverpb.KV/Compact";
        *answer = &lk_etcd_pb__put_done__descriptor;
        *revision = choose_revision(c) - 1;
        return NULL;
    case 9:
    case 10:
    case 11:
    case 12:
        return choose_of_lease(c, path, answer);
    default:
        break;
    }
    *path = "/etcdserverpb.KV/Txn";
    *answer = &lk_etcd_pb__txn_done__descriptor;
    return &choose_txn(c, 2)->base;
}

ProtobufCMessage *etcd_choose_watch(etcd_chooser *c)
{
    MAKE(w, LkEtcdPb__Watch, lk_etcd_pb__watch__init);
    if (one_in(c, 4)) {
        MAKE(cancel, LkEtcdPb__WatchCancel, lk_etcd_pb__watch_cancel__init);
        cancel->watch_id = (int64_t)etcd_draw(c, WATCHES);
        w->what_case = LK_ETCD_PB__WATCH__WHAT_CANCEL;
        w->cancel = cancel;
        return &w->base;
    }
    MAKE(create, LkEtcdPb__WatchCreate, lk_etcd_pb__watch_create__init);
    create->key = choose_key(c);
    create->range_end = choose_end(c);
    create->start_revision = one_in(c, 2) ? 0 : choose_revision(c);
    create->start_revision = create->start_revision > 0 ? create->start_revision : 0;
    create->watch_id = (int64_t)etcd_draw(c, WATCHES);
    create->filters = made(2 * sizeof *create->filters);
    if (one_in(c, 3))
        create->filters[create->n_filters++] = LK_ETCD_PB__WATCH_CREATE__FILTER__NOPUT;
    if (one_in(c, 8))
        create->filters[create->n_filters++] = LK_ETCD_PB__WATCH_CREATE__FILTER__NODELETE;
    w->what_case = LK_ETCD_PB__WATCH__WHAT_CREATE;
    w->create = create;
    return &w->base;
}
