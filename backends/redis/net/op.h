/* op.h: commands whose answers are awaited, and how those that wait are woken. Ops are recycled, never freed before the
 * pool is: waking a recycled one is a spurious wake-up, which waiters stand. */
#pragma once

#include "command.h"
#include "lk_atomic.h"
#include "shared.h"

enum { LK_REDIS_OP_WAITING, LK_REDIS_OP_ANSWERED, LK_REDIS_OP_CUT };

/* A futex word that a few ops share, so that one system call wakes all of them whose answers came together.
 * It counts wake-ups. Each op that sleeps on it has a bit of its own, by which it alone is woken. */
typedef struct {
    atomic_uint word; /* relaxed: it brings nothing else; states have an order of their own */
} lk_redis_gate;

/* A command whose reply is awaited, or a few in one flight. Guarded by the mutex but where it says otherwise. */
typedef struct lk_redis_op {
    struct lk_redis_op *next; /* in flight, or in a list of free ones */
    lk_redis_gate *gate;      /* what its waiter sleeps on; constant */
    uint32_t bit;             /* its own there; constant */
    atomic_int state;   /* read by the waiter without the mutex: release/acquire hands over the replies */
    bool waited;        /* a thread waits for it; else `done` is called, unless it is kept */
    bool kept;          /* a thread will come for the answer */
    lk_redis_done done; /* NULL: drop the reply */
    void *context;      /* for done */
    lk_redis_caller *caller; /* who can be interrupted; its op is cleared when it is answered */
    redisReply *reply[LK_REDIS_FLIGHT_MAX]; /* the waiter's once ANSWERED or CUT */
    unsigned wanted, count;                 /* how many there will be, and are */
    int64_t sent;                           /* before it could have been sent */
    int64_t until;                          /* how long its waiter waits */
} lk_redis_op;

/* All zero: it has none yet. */
typedef struct {
    struct lk_redis_op_block *blocks; /* all ops that were ever made */
    lk_redis_op *free;
    _Atomic(lk_redis_op *) returned; /* pushed without the mutex (release), taken whole with it (acquire) */
} lk_redis_ops;

void lk_redis_ops_destroy(lk_redis_ops *ops);

/* NULL: no memory. */
lk_redis_op *lk_redis_op_get_locked(lk_redis_ops *ops) LK_REDIS_LOCKED;
/* An op that nobody waits for. */
void lk_redis_op_free_locked(lk_redis_ops *ops, lk_redis_op *op) LK_REDIS_LOCKED;
/* The same, of a waiter that was answered, which does not take the mutex again for it. */
void lk_redis_op_return(lk_redis_ops *ops, lk_redis_op *op);

/* Sleep until the op is woken, or spuriously; not if the gate's count isn't `seen` any more. Without the mutex. */
void lk_redis_op_sleep(const lk_redis_op *op, unsigned seen);
/* Wake who sleeps. The state was set before. */
void lk_redis_op_wake(const lk_redis_op *op);

/* Ops that remain to be woken once the mutex is released. */
enum { LK_REDIS_REPLIES_MAX = 64 };
typedef struct {
    size_t ops, gates; /* how many */
    lk_redis_gate *gate[LK_REDIS_REPLIES_MAX];
    uint32_t bits[LK_REDIS_REPLIES_MAX];
} lk_redis_wakes;

void lk_redis_wakes_add(lk_redis_wakes *wakes, const lk_redis_op *op);
void lk_redis_wakes_all(const lk_redis_wakes *wakes);
