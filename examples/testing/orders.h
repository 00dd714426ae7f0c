/*
 * orders.h: a small program that works off orders, one at a time each, however many hosts run it.
 * orders_test.c shows how its dealings with locks are tested.
 */
#pragma once

#include <locker/locker.h>

/* The books take the number of the turn with each entry, and refuse a turn that is over. */
typedef struct {
    uint64_t turn;
    int entries;
} order_books;

/* False: somebody whose turn came later has written. */
bool books_write(order_books *books, uint64_t turn);

typedef enum {
    ORDER_PAID,   /* done, and in the books */
    ORDER_LATER,  /* another host works on it */
    ORDER_STALE,  /* the lock was lost on the way, and nothing was written */
    ORDER_UNSURE, /* in the books, but the lock may live on for a while */
    ORDER_FAILED  /* the lock service can't be used; problem says why */
} order_result;

/* What has to be done for an order, however long it takes. */
typedef void (*order_work)(const char *order, void *user);

/* Work on one order: wait up to 5 s for its lock, do the work, and write into the books. */
order_result order_process(locker *l, const char *order, order_books *books, order_work work, void *user,
                           locker_error *problem);
