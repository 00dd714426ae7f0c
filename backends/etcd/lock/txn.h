/* txn.h: a transaction that is being built. It lives on the stack until it is sent, and so does all that
 * it points to. */
#pragma once

#include "keys.h"

enum { LK_ETCD_COMPARES = 5, LK_ETCD_OPS = 5 };

typedef struct {
    LkEtcdPb__Op op[LK_ETCD_OPS], *at[LK_ETCD_OPS];
    union {
        LkEtcdPb__Range range;
        LkEtcdPb__Put put;
        LkEtcdPb__Delete del;
        LkEtcdPb__Txn txn;
    } body[LK_ETCD_OPS];
    lk_etcd_key begin[LK_ETCD_OPS], end[LK_ETCD_OPS];
    size_t count;
} lk_etcd_ops;

typedef struct {
    LkEtcdPb__Txn txn;
    LkEtcdPb__Compare compare[LK_ETCD_COMPARES], *compares[LK_ETCD_COMPARES];
    lk_etcd_key begin[LK_ETCD_COMPARES], end[LK_ETCD_COMPARES];
    lk_etcd_ops then, otherwise;
} lk_etcd_txn_of;

void lk_etcd_txn_begin(lk_etcd_txn_of *t);
/* Add the condition that the key has this create revision; 0: that the key is missing. */
void lk_etcd_if(lk_etcd_txn_of *t, ProtobufCBinaryData key, int64_t created);
/* Add the condition that the key's value is greater than `after` and less than `before`, byte by byte. */
void lk_etcd_if_between(lk_etcd_txn_of *t, ProtobufCBinaryData key, const char *after, const char *before);
/* Write the same as two conditions of another kind of transaction. */
void lk_etcd_between(LkEtcdPb__Compare two[2], ProtobufCBinaryData key, const char *after,
                     const char *before);
/* Add the condition that the range has no key. */
void lk_etcd_if_none(lk_etcd_txn_of *t, const char *base, int32_t permits, lk_etcd_range_of what);
void lk_etcd_put_op(lk_etcd_ops *ops, ProtobufCBinaryData key, const char *value, int64_t lease);
void lk_etcd_delete_op(lk_etcd_ops *ops, ProtobufCBinaryData key);
/* Add an empty transaction, which is not a read. So servers order the whole transaction like a write, and
 * its answer is not stale. */
void lk_etcd_order_op(lk_etcd_ops *ops);
/* Read the key with its value. */
void lk_etcd_get_op(lk_etcd_ops *ops, ProtobufCBinaryData key);
/* Read the newest `limit` keys of the range (0: all) with create revisions below `before` (0: any),
 * without values. */
void lk_etcd_latest_op(lk_etcd_ops *ops, const char *base, int32_t permits, lk_etcd_range_of what,
                       int64_t before, int64_t limit);
lk_etcd_request *lk_etcd_txn_send_locked(lk_etcd *e, lk_etcd_txn_of *t, lk_etcd_done_fn done, void *context)
    LK_REQUIRES(*e->net);

/* Look at an answer as such: after several useless ones in a row, the driver leaves the member. */
void lk_etcd_heard_locked(lk_etcd *e, const lk_etcd_reply *reply) LK_REQUIRES(*e->net);

/* Return the answer to the n-th operation. NULL: it has another kind. */
const LkEtcdPb__Ranged *lk_etcd_ranged(const LkEtcdPb__TxnDone *done, size_t n);
static inline ProtobufCBinaryData lk_etcd_bytes(const lk_etcd_key *key)
{
    return (ProtobufCBinaryData){.len = key->len, .data = (uint8_t *)(uintptr_t)key->text};
}
