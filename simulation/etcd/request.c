/* request.c: see request.h. The texts are the server's. */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

enum {
    INVALID = 3,
    NOT_FOUND = 5,
    PRECONDITION = 9,
    OUT_OF_RANGE = 11,
    UNIMPLEMENTED = 12,
    UNAVAILABLE = 14
};
enum { OPS_MOST = 128 };

const lk_simetcd_error lk_simetcd_lease_not_found = {NOT_FOUND, "etcdserver: requested lease not found"},
                       lk_simetcd_lease_exists = {PRECONDITION, "etcdserver: lease already exists"},
                       lk_simetcd_ttl_too_large = {OUT_OF_RANGE, "etcdserver: too large lease TTL"},
                       lk_simetcd_key_not_found = {INVALID, "etcdserver: key not found"},
                       lk_simetcd_compacted = {OUT_OF_RANGE,
                                               "etcdserver: mvcc: required revision has been compacted"},
                       lk_simetcd_future = {OUT_OF_RANGE,
                                            "etcdserver: mvcc: required revision is a future revision"},
                       lk_simetcd_no_leader = {UNAVAILABLE, "etcdserver: no leader"},
                       lk_simetcd_leader_changed = {UNAVAILABLE, "etcdserver: leader changed"},
                       lk_simetcd_timed_out = {UNAVAILABLE, "etcdserver: request timed out"},
                       lk_simetcd_leader_failed = {UNAVAILABLE,
                                                   "etcdserver: request timed out, possibly due to "
                                                   "previous leader failure"},
                       lk_simetcd_connection_lost = {UNAVAILABLE,
                                                     "etcdserver: request timed out, possibly due to "
                                                     "connection lost"},
                       lk_simetcd_unknown_method = {UNIMPLEMENTED, "unknown method"};

static const lk_simetcd_error no_key = {INVALID, "etcdserver: key is not provided"},
                              value_given = {INVALID, "etcdserver: value is provided"},
                              too_many = {INVALID, "etcdserver: too many operations in txn request"},
                              twice = {INVALID, "etcdserver: duplicate key given in txn request"};

/* ------------------------------------------------------------------ kinds ---- */

static const struct {
    const char *path;
    const ProtobufCMessageDescriptor *of;
} methods[LK_SIMETCD_KINDS] = {
    [LK_SIMETCD_RANGE] = {"/etcdserverpb.KV/Range", &lk_etcd_pb__range__descriptor},
    [LK_SIMETCD_PUT] = {"/etcdserverpb.KV/Put", &lk_etcd_pb__put__descriptor},
    [LK_SIMETCD_DELETE] = {"/etcdserverpb.KV/DeleteRange", &lk_etcd_pb__delete__descriptor},
    [LK_SIMETCD_TXN] = {"/etcdserverpb.KV/Txn", &lk_etcd_pb__txn__descriptor},
    [LK_SIMETCD_COMPACT] = {"/etcdserverpb.KV/Compact", NULL},
    [LK_SIMETCD_GRANT] = {"/etcdserverpb.Lease/LeaseGrant", &lk_etcd_pb__lease_grant__descriptor},
    [LK_SIMETCD_REVOKE] = {"/etcdserverpb.Lease/LeaseRevoke", &lk_etcd_pb__lease_revoke__descriptor},
    [LK_SIMETCD_ASK] = {"/etcdserverpb.Lease/LeaseTimeToLive", &lk_etcd_pb__lease_ask__descriptor},
    [LK_SIMETCD_STATUS] = {"/etcdserverpb.Maintenance/Status", &lk_etcd_pb__status__descriptor},
    [LK_SIMETCD_MEMBERS] = {"/etcdserverpb.Cluster/MemberList", &lk_etcd_pb__member_list__descriptor},
    [LK_SIMETCD_WATCH] = {"/etcdserverpb.Watch/Watch", &lk_etcd_pb__watch__descriptor},
};

lk_simetcd_kind lk_simetcd_kind_of(const char *path)
{
    unsigned kind = 0;
    while (kind < LK_SIMETCD_KINDS && strcmp(methods[kind].path, path) != 0)
        kind++;
    return (lk_simetcd_kind)kind;
}

/* Its revision is field 1, whose wire type is 0, and so is a lease's id. */
static ProtobufCMessage *unpack_compaction(const uint8_t *bytes, size_t count)
{
    LkEtcdPb__LeaseRevoke *const read = lk_etcd_pb__lease_revoke__unpack(NULL, count, bytes);
    if (read == NULL)
        return NULL;
    LkEtcdPb__Delete *const made = malloc(sizeof *made);
    char *const digits = malloc(24);
    if (made == NULL || digits == NULL)
        abort();
    lk_etcd_pb__delete__init(made);
    made->key.data = (uint8_t *)digits;
    made->key.len = (size_t)snprintf(digits, 24, "%lld", (long long)read->id);
    lk_etcd_pb__lease_revoke__free_unpacked(read, NULL);
    return &made->base;
}

ProtobufCMessage *lk_simetcd_unpack(lk_simetcd_kind kind, const uint8_t *bytes, size_t count)
{
    return kind == LK_SIMETCD_COMPACT ? unpack_compaction(bytes, count)
                                      : protobuf_c_message_unpack(methods[kind].of, NULL, count, bytes);
}

static bool reads_only(LkEtcdPb__Op *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ops[i]->op_case != LK_ETCD_PB__OP__OP_RANGE)
            return false;
    return true;
}

bool lk_simetcd_writes(lk_simetcd_kind kind, const ProtobufCMessage *message)
{
    const LkEtcdPb__Txn *const txn = (const LkEtcdPb__Txn *)(const void *)message;
    if (kind == LK_SIMETCD_TXN)
        return !reads_only(txn->success, txn->n_success) || !reads_only(txn->failure, txn->n_failure);
    return kind != LK_SIMETCD_RANGE && kind != LK_SIMETCD_ASK && kind != LK_SIMETCD_STATUS &&
           kind != LK_SIMETCD_MEMBERS;
}

/* ------------------------------------------------------------------ at the door ---- */

static const lk_simetcd_error *check_put(const LkEtcdPb__Put *put)
{
    return put->key.len == 0 ? &no_key : put->ignore_value && put->value.len > 0 ? &value_given : NULL;
}

static const lk_simetcd_error *check_txn(const LkEtcdPb__Txn *txn, size_t most);

static const lk_simetcd_error *check_op(const LkEtcdPb__Op *op, size_t most)
{
    switch (op->op_case) {
    case LK_ETCD_PB__OP__OP_RANGE:
        return op->range->key.len == 0 ? &no_key : NULL;
    case LK_ETCD_PB__OP__OP_PUT:
        return check_put(op->put);
    case LK_ETCD_PB__OP__OP_DEL:
        return op->del->key.len == 0 ? &no_key : NULL;
    case LK_ETCD_PB__OP__OP_TXN:
        return check_txn(op->txn, most);
    default:
        return &lk_simetcd_key_not_found;
    }
}

static size_t larger(size_t one, size_t other)
{
    return one > other ? one : other;
}

static const lk_simetcd_error *check_txn(const LkEtcdPb__Txn *txn, size_t most)
{
    const lk_simetcd_error *error = NULL;
    const size_t count = larger(txn->n_compare, larger(txn->n_success, txn->n_failure));
    if (count > most)
        return &too_many;
    for (size_t i = 0; i < txn->n_compare; i++)
        if (txn->compare[i]->key.len == 0)
            return &no_key;
    for (size_t i = 0; error == NULL && i < txn->n_success; i++)
        error = check_op(txn->success[i], most - count);
    for (size_t i = 0; error == NULL && i < txn->n_failure; i++)
        error = check_op(txn->failure[i], most - count);
    return error;
}

/* What a list of operations puts and deletes. */
typedef struct {
    lk_simetcd_data *puts;
    size_t put_count, put_room;
    lk_simetcd_span *dels;
    size_t del_count, del_room;
} touched;

static lk_simetcd_data data(ProtobufCBinaryData from)
{
    return (lk_simetcd_data){from.data, from.len};
}

static void add_del(touched *t, const lk_simetcd_span *span)
{
    t->dels = lk_simetcd_grow(t->dels, t->del_count, &t->del_room, sizeof *t->dels);
    t->dels[t->del_count++] = *span;
}

static bool has_put(const touched *t, size_t from, size_t until, lk_simetcd_data key)
{
    for (size_t i = from; i < until; i++)
        if (lk_simetcd_compare(t->puts[i], key) == 0)
            return true;
    return false;
}

static bool add_put(touched *t, lk_simetcd_data key, bool is_there)
{
    if (is_there)
        return false;
    for (size_t i = 0; i < t->del_count; i++)
        if (lk_simetcd_in_span(&t->dels[i], key))
            return false;
    t->puts = lk_simetcd_grow(t->puts, t->put_count, &t->put_room, sizeof *t->puts);
    t->puts[t->put_count++] = key;
    return true;
}

static void touched_free(touched *t)
{
    free(t->puts);
    free(t->dels);
}

static bool touch(LkEtcdPb__Op *const *ops, size_t count, touched *t);

/* The two ways of an inner transaction may put the same. */
static bool touch_inner(const LkEtcdPb__Txn *txn, touched *t)
{
    touched then = {0}, otherwise = {0};
    bool ok = touch(txn->success, txn->n_success, &then) && touch(txn->failure, txn->n_failure, &otherwise);
    const size_t before = t->put_count;
    for (size_t i = 0; ok && i < then.put_count; i++)
        ok = add_put(t, then.puts[i], has_put(t, 0, t->put_count, then.puts[i]));
    const size_t until = t->put_count;
    for (size_t i = 0; ok && i < otherwise.put_count; i++) {
        const lk_simetcd_data key = otherwise.puts[i];
        if (!has_put(t, before, until, key))
            ok = add_put(t, key, has_put(t, 0, t->put_count, key));
    }
    for (size_t i = 0; i < then.del_count; i++)
        add_del(t, &then.dels[i]);
    for (size_t i = 0; i < otherwise.del_count; i++)
        add_del(t, &otherwise.dels[i]);
    touched_free(&then);
    touched_free(&otherwise);
    return ok;
}

/* False: a key is put twice, or put where one is deleted. */
static bool touch(LkEtcdPb__Op *const *ops, size_t count, touched *t)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->op_case != LK_ETCD_PB__OP__OP_DEL)
            continue;
        const lk_simetcd_data end = data(ops[i]->del->range_end);
        /* an end that means none is taken for what it is here, as by the server: such a range is empty */
        add_del(t, &(lk_simetcd_span){.from = data(ops[i]->del->key), .end = end, .alone = end.len == 0});
    }
    for (size_t i = 0; i < count; i++)
        if (ops[i]->op_case == LK_ETCD_PB__OP__OP_TXN && !touch_inner(ops[i]->txn, t))
            return false;
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->op_case != LK_ETCD_PB__OP__OP_PUT)
            continue;
        const lk_simetcd_data key = data(ops[i]->put->key);
        if (!add_put(t, key, has_put(t, 0, t->put_count, key)))
            return false;
    }
    return true;
}

static bool is_twofold(LkEtcdPb__Op *const *ops, size_t count)
{
    touched t = {0};
    const bool ok = touch(ops, count, &t);
    touched_free(&t);
    return !ok;
}

static const lk_simetcd_error *check_whole_txn(const LkEtcdPb__Txn *txn)
{
    const lk_simetcd_error *const error = check_txn(txn, OPS_MOST);
    if (error != NULL)
        return error;
    return is_twofold(txn->success, txn->n_success) || is_twofold(txn->failure, txn->n_failure) ? &twice
                                                                                                : NULL;
}

const lk_simetcd_error *lk_simetcd_check(lk_simetcd_kind kind, const ProtobufCMessage *message)
{
    const void *const of = message;
    switch (kind) {
    case LK_SIMETCD_RANGE:
        return ((const LkEtcdPb__Range *)of)->key.len == 0 ? &no_key : NULL;
    case LK_SIMETCD_PUT:
        return check_put(of);
    case LK_SIMETCD_DELETE:
        return ((const LkEtcdPb__Delete *)of)->key.len == 0 ? &no_key : NULL;
    case LK_SIMETCD_TXN:
        return check_whole_txn(of);
    default:
        return NULL;
    }
}
