/* txn.h: a transaction that is being put together. It lives on its maker's stack until it was sent; all that it is told to
 * point to lasts as long. */
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
/* If the key was created at that revision; 0: if it isn't there. */
void lk_etcd_if(lk_etcd_txn_of *t, ProtobufCBinaryData key, int64_t created);
/* If what the key says is greater than the one, byte by byte, and less than the other. */
void lk_etcd_if_between(lk_etcd_txn_of *t, ProtobufCBinaryData key, const char *after, const char *before);
/* ... as two conditions of a transaction that is put together otherwise. */
void lk_etcd_between(LkEtcdPb__Compare two[2], ProtobufCBinaryData key, const char *after,
                     const char *before);
/* If nothing is there. */
void lk_etcd_if_none(lk_etcd_txn_of *t, const char *base, int32_t permits, lk_etcd_range_of what);
void lk_etcd_put_op(lk_etcd_ops *ops, ProtobufCBinaryData key, const char *value, int64_t lease);
void lk_etcd_delete_op(lk_etcd_ops *ops, ProtobufCBinaryData key);
/* Nothing, which is no read: so servers order the transaction as they do a write, and it shows what is so then. */
void lk_etcd_order_op(lk_etcd_ops *ops);
/* The key, with what it says. */
void lk_etcd_get_op(lk_etcd_ops *ops, ProtobufCBinaryData key);
/* The latest `limit` (0: all) that were created before that revision (0: at any time), without what they say. */
void lk_etcd_latest_op(lk_etcd_ops *ops, const char *base, int32_t permits, lk_etcd_range_of what,
                       int64_t before, int64_t limit);
lk_etcd_request *lk_etcd_txn_send_locked(lk_etcd *e, lk_etcd_txn_of *t, lk_etcd_done_fn done, void *context)
    LK_REQUIRES(*e->net);

/* What the n-th operation answered; NULL: the server did not answer it so. */
const LkEtcdPb__Ranged *lk_etcd_ranged(const LkEtcdPb__TxnDone *done, size_t n);
static inline ProtobufCBinaryData lk_etcd_bytes(const lk_etcd_key *key)
{
    return (ProtobufCBinaryData){.len = key->len, .data = (uint8_t *)(uintptr_t)key->text};
}
