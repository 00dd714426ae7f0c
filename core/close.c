/* close.c: closing a locker while others wait or hold, and what a fork's child does instead. */
#include <errno.h>
#include <unistd.h>

#include "internal.h"

/* Have everything that is held released. The driver does it in the background, all of it in flight at once,
 * and its close gives that its time: a locker with 100,000 locks closes in a few round trips. */
static void release_all_locked(locker *l)
{
    while (l->held != NULL) {
        lk_claim *claim = l->held;

        if (lk_lease_over_locked(l, claim, lk_now(l)))
            continue;
        for (locker_handle *handle = claim->handles; handle != NULL; handle = handle->sibling)
            if (!handle->unlocked) {
                handle->closed = true;
                lk_unlocked_set_locked(handle);
            }
        claim->open_handles = 0;
        lk_let_go_locked(l, claim);
    }
}

/* In a fork's child: only descriptors are closed. The mutex may be locked by a thread that doesn't exist
 * here, and memory may be half changed, so neither is touched. */
static void close_in_child(locker *l)
{
    if (l->epoll_fd < 0)
        return; /* closed before in this child */
    if (l->driver->abandon != NULL)
        l->driver->abandon(l->self);
    (void)close(l->epoll_fd);
    (void)close(l->kick_fd);
    if (l->timer_fd >= 0)
        (void)close(l->timer_fd);
    lk_seat_close(l);
    l->epoll_fd = l->kick_fd = l->timer_fd = -1;
}

locker_status locker_close(locker *l)
{
    LK_NO_CANCEL;

    if (l == NULL)
        return LOCKER_OK;
    if (lk_forked(l)) {
        close_in_child(l);
        return LOCKER_OK;
    }
    if (lk_in_callback(l))
        return LOCKER_INVALID;
    (void)pthread_mutex_lock(&l->mutex);
    l->closing = true;
    (void)pthread_mutex_unlock(&l->mutex);
    lk_interrupt(l, NULL);
    (void)pthread_mutex_lock(&l->mutex);
    while (l->calls > 0)
        lk_await_locked(l);
    (void)pthread_mutex_unlock(&l->mutex);
    lk_keeper_stop(l); /* it tells what was lost before it ends */
    atomic_store_explicit(&l->calls_back, pthread_self(), memory_order_relaxed);
    (void)pthread_mutex_lock(&l->mutex);
    release_all_locked(l);
    lk_lost_locked(l);
    (void)pthread_mutex_unlock(&l->mutex);
    l->driver->close(l->self);
    l->self = NULL;
    lk_user_gone(l);
    return LOCKER_OK;
}
