/* op.c: see op.h. */
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "op.h"

enum { BLOCK_OPS = 32 }; /* as many as a gate has bits */

struct lk_redis_op_block {
    struct lk_redis_op_block *next;
    lk_redis_gate gate;
    lk_redis_op ops[BLOCK_OPS];
};

static void add_ops(lk_redis_ops *ops)
{
    struct lk_redis_op_block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return;
    block->next = ops->blocks;
    ops->blocks = block;
    for (unsigned i = BLOCK_OPS; i-- > 0;) {
        lk_redis_op *op = &block->ops[i];
        op->gate = &block->gate;
        op->bit = UINT32_C(1) << i;
        op->next = ops->free;
        ops->free = op;
    }
}

lk_redis_op *lk_redis_op_get_locked(lk_redis_ops *ops)
{
    if (ops->free == NULL) /* acquire: what was written to a returned op is seen before it is used again */
        ops->free = atomic_exchange_explicit(&ops->returned, NULL, memory_order_acquire);
    if (ops->free == NULL)
        add_ops(ops);
    lk_redis_op *op = ops->free;
    if (op == NULL)
        return NULL;
    ops->free = op->next;
    *op = (lk_redis_op){.gate = op->gate, .bit = op->bit}; /* its state is WAITING */
    return op;
}

void lk_redis_op_return(lk_redis_ops *ops, lk_redis_op *op)
{
    lk_redis_op *top = LK_READ(ops->returned);
    do {
        op->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&ops->returned, &top, op, memory_order_release,
                                                    memory_order_relaxed));
}

static void drop_replies(lk_redis_op *op)
{
    while (op->count > 0)
        freeReplyObject(op->reply[--op->count]);
}

void lk_redis_op_free_locked(lk_redis_ops *ops, lk_redis_op *op)
{
    drop_replies(op);
    op->next = ops->free;
    ops->free = op;
}

void lk_redis_ops_destroy(lk_redis_ops *ops)
{
    struct lk_redis_op_block *next;
    for (struct lk_redis_op_block *block = ops->blocks; block != NULL; block = next) {
        next = block->next;
        for (unsigned i = 0; i < BLOCK_OPS; i++)
            drop_replies(&block->ops[i]);
        free(block);
    }
}

static void wake_gate(lk_redis_gate *gate, uint32_t bits)
{
    atomic_fetch_add_explicit(&gate->word, 1, memory_order_relaxed); /* states have an order of their own */
    (void)syscall(SYS_futex, &gate->word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, bits);
}

void lk_redis_wakes_add(lk_redis_wakes *wakes, const lk_redis_op *op)
{
    size_t i = 0;
    while (i < wakes->gates && wakes->gate[i] != op->gate)
        i++;
    if (i == wakes->gates) {
        wakes->gate[i] = op->gate;
        wakes->bits[i] = 0;
        wakes->gates++;
    }
    wakes->bits[i] |= op->bit;
    wakes->ops++;
}

void lk_redis_wakes_all(const lk_redis_wakes *wakes)
{
    for (size_t i = 0; i < wakes->gates; i++)
        wake_gate(wakes->gate[i], wakes->bits[i]);
}

void lk_redis_op_sleep(const lk_redis_op *op, unsigned seen)
{
    (void)syscall(SYS_futex, &op->gate->word, FUTEX_WAIT_BITSET_PRIVATE, seen, NULL, NULL, op->bit);
}

void lk_redis_op_wake(const lk_redis_op *op)
{
    wake_gate(op->gate, op->bit);
}
