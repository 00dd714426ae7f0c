/* txn.c: transactions, and useless answers. */
#include <string.h>

#include "txn.h"

void lk_etcd_txn_begin(lk_etcd_txn_of *t)
{
    lk_etcd_pb__txn__init(&t->txn);
    t->then.count = t->otherwise.count = 0;
}

static LkEtcdPb__Compare *compare(lk_etcd_txn_of *t, int64_t created)
{
    const size_t n = t->txn.n_compare++;
    LkEtcdPb__Compare *const c = t->compares[n] = &t->compare[n];
    lk_etcd_pb__compare__init(c);
    c->result = LK_ETCD_PB__COMPARE__RESULT__EQUAL;
    c->target = LK_ETCD_PB__COMPARE__TARGET__CREATE;
    c->to_case = LK_ETCD_PB__COMPARE__TO_CREATE_REVISION;
    c->create_revision = created;
    return c;
}

void lk_etcd_if(lk_etcd_txn_of *t, ProtobufCBinaryData key, int64_t created)
{
    compare(t, created)->key = key;
}

void lk_etcd_between(LkEtcdPb__Compare two[2], ProtobufCBinaryData key, const char *after, const char *before)
{
    for (int i = 0; i < 2; i++) {
        const char *const bound = i == 0 ? after : before;
        lk_etcd_pb__compare__init(&two[i]);
        two[i].key = key;
        two[i].result = i == 0 ? LK_ETCD_PB__COMPARE__RESULT__GREATER : LK_ETCD_PB__COMPARE__RESULT__LESS;
        two[i].target = LK_ETCD_PB__COMPARE__TARGET__VALUE;
        two[i].to_case = LK_ETCD_PB__COMPARE__TO_VALUE;
        two[i].value = (ProtobufCBinaryData){.len = strlen(bound), .data = (uint8_t *)(uintptr_t)bound};
    }
}

void lk_etcd_if_between(lk_etcd_txn_of *t, ProtobufCBinaryData key, const char *after, const char *before)
{
    LkEtcdPb__Compare *const two = &t->compare[t->txn.n_compare];
    lk_etcd_between(two, key, after, before);
    t->compares[t->txn.n_compare++] = &two[0];
    t->compares[t->txn.n_compare++] = &two[1];
}

void lk_etcd_if_none(lk_etcd_txn_of *t, const char *base, int32_t permits, lk_etcd_range_of what)
{
    const size_t n = t->txn.n_compare;
    LkEtcdPb__Compare *const c = compare(t, 0);
    lk_etcd_bounds(base, permits, what, &t->begin[n], &t->end[n]);
    c->key = lk_etcd_bytes(&t->begin[n]);
    c->range_end = lk_etcd_bytes(&t->end[n]);
}

static LkEtcdPb__Op *add(lk_etcd_ops *ops, LkEtcdPb__Op__OpCase what)
{
    const size_t n = ops->count++;
    LkEtcdPb__Op *const op = ops->at[n] = &ops->op[n];
    lk_etcd_pb__op__init(op);
    op->op_case = what;
    return op;
}

void lk_etcd_put_op(lk_etcd_ops *ops, ProtobufCBinaryData key, const char *value, int64_t lease)
{
    LkEtcdPb__Op *const op = add(ops, LK_ETCD_PB__OP__OP_PUT);
    op->put = &ops->body[ops->count - 1].put;
    lk_etcd_pb__put__init(op->put);
    op->put->key = key;
    op->put->value = (ProtobufCBinaryData){.len = strlen(value), .data = (uint8_t *)(uintptr_t)value};
    op->put->lease = lease;
}

void lk_etcd_delete_op(lk_etcd_ops *ops, ProtobufCBinaryData key)
{
    LkEtcdPb__Op *const op = add(ops, LK_ETCD_PB__OP__OP_DEL);
    op->del = &ops->body[ops->count - 1].del;
    lk_etcd_pb__delete__init(op->del);
    op->del->key = key;
}

/* etcd takes a transaction for a read if all operations of both branches are ranges. */
void lk_etcd_order_op(lk_etcd_ops *ops)
{
    LkEtcdPb__Op *const op = add(ops, LK_ETCD_PB__OP__OP_TXN);
    op->txn = &ops->body[ops->count - 1].txn;
    lk_etcd_pb__txn__init(op->txn);
}

static LkEtcdPb__Range *add_range(lk_etcd_ops *ops)
{
    LkEtcdPb__Op *const op = add(ops, LK_ETCD_PB__OP__OP_RANGE);
    op->range = &ops->body[ops->count - 1].range;
    lk_etcd_pb__range__init(op->range);
    op->range->keys_only = true;
    return op->range;
}

void lk_etcd_get_op(lk_etcd_ops *ops, ProtobufCBinaryData key)
{
    LkEtcdPb__Range *const range = add_range(ops);
    range->key = key;
    range->keys_only = false;
}

void lk_etcd_latest_op(lk_etcd_ops *ops, const char *base, int32_t permits, lk_etcd_range_of what,
                       int64_t before, int64_t limit)
{
    const size_t n = ops->count;
    LkEtcdPb__Range *const range = add_range(ops);
    lk_etcd_bounds(base, permits, what, &ops->begin[n], &ops->end[n]);
    range->key = lk_etcd_bytes(&ops->begin[n]);
    range->range_end = lk_etcd_bytes(&ops->end[n]);
    range->limit = limit;
    range->max_create_revision = before > 0 ? before - 1 : 0;
    range->sort_target = LK_ETCD_PB__RANGE__TARGET__CREATE;
    range->sort_order = LK_ETCD_PB__RANGE__ORDER__DESCEND;
}

lk_etcd_request *lk_etcd_txn_send_locked(lk_etcd *e, lk_etcd_txn_of *t, lk_etcd_done_fn done, void *context)
{
    t->txn.compare = t->compares;
    t->txn.success = t->then.at;
    t->txn.n_success = t->then.count;
    t->txn.failure = t->otherwise.at;
    t->txn.n_failure = t->otherwise.count;
    return lk_etcd_send_locked(e->net, &lk_etcd_txn, &t->txn.base, done, context);
}

const LkEtcdPb__Ranged *lk_etcd_ranged(const LkEtcdPb__TxnDone *done, size_t n)
{
    return n < done->n_responses && done->responses[n]->done_case == LK_ETCD_PB__DONE__DONE_RANGE
               ? done->responses[n]->range
               : NULL;
}

enum { REFUSALS_MAX = 3 };

void lk_etcd_heard_locked(lk_etcd *e, const lk_etcd_reply *reply)
{
    if (reply->status == LK_ETCD_LOST || reply->status == LK_ETCD_TOO_LARGE)
        return;
    e->refusals = lk_etcd_unknown(reply->status) ? e->refusals + 1 : 0;
    if (e->refusals < REFUSALS_MAX)
        return;
    e->refusals = 0;
    lk_etcd_leave_member_locked(e->net, reply->text);
}
