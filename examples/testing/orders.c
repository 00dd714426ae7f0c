/* orders.c: works off orders under a lock for each; see orders.h. */
#include "orders.h"

#include <stdio.h>

bool books_write(order_books *books, uint64_t turn)
{
    if (turn < books->turn)
        return false;
    books->turn = turn;
    books->entries++;
    return true;
}

order_result order_process(locker *l, const char *order, order_books *books, order_work work, void *user,
                           locker_error *problem)
{
    locker_lock_options patience = LOCKER_LOCK_OPTIONS_INIT;
    LOCKER_AUTO locker_handle *held = NULL;
    char key[LOCKER_KEY_MAX + 1];

    (void)snprintf(key, sizeof key, "orders/%s", order);
    patience.wait_ms = 5000;
    const locker_status status = locker_lock(l, key, &patience, &held, problem);
    if (status == LOCKER_TIMEOUT)
        return ORDER_LATER;
    if (status != LOCKER_OK)
        return ORDER_FAILED;
    work(order, user);
    if (locker_handle_state(held) == LOCKER_STATE_LOST)
        return ORDER_STALE; /* another host may have begun */
    if (!books_write(books, locker_handle_token(held)))
        return ORDER_STALE; /* another host has even finished */
    return locker_unlock(held, problem) == LOCKER_OK ? ORDER_PAID : ORDER_UNSURE;
}
