/* close.c: closing a locker while others wait or hold, and what a fork's child does instead. */
#include "frame.h"
#include "grant.h"
#include "lease.h"
#include "lifetime.h"

/* Have everything that is held released. The driver does it in the background, all of it in flight at once,
 * and its close gives that its time: a locker with 100,000 locks closes in a few round trips. */
static void release_all_unlocking(locker *l) LK_REQUIRES(l->mutex)
{
    while (!lk_list_empty(&l->held)) {
        lk_claim *const claim = LK_CONTAINER(lk_list_first(&l->held), lk_claim, link);
        if (lk_lease_over_locked(l, claim, lk_now(l)))
            continue;
        for (locker_handle *handle = claim->handles; handle != NULL; handle = handle->sibling)
            if (handle->ended == LK_OPEN)
                LK_WRITE(handle->ended, LK_CLOSED);
        claim->open_handles = 0;
        lk_let_go_unlocking(l, claim);
    }
}

/* A fork's child closes descriptors alone: the mutex may be another thread's, and memory half changed. */
locker_status locker_close(locker *l)
{
    LK_NO_CANCEL;
    if (l == NULL)
        return LOCKER_OK;
    if (lk_forked(l)) {
        if (l->epoll_fd >= 0 && l->driver->abandon != NULL) /* else closed before in this child */
            l->driver->abandon(l->self);
        lk_descriptors_close(l);
        return LOCKER_OK;
    }
    if (lk_in_callback(l))
        return LOCKER_INVALID;
    lk_mutex_lock(&l->mutex);
    l->closing = true;
    lk_interrupt_unlocking(l, NULL);
    while (l->calls > 0)
        lk_await_unlocking(l);
    lk_mutex_unlock(&l->mutex);
    lk_keeper_stop(l); /* it tells what was lost before it ends */
    LK_WRITE(l->calls_back, pthread_self());
    lk_mutex_lock(&l->mutex);
    release_all_unlocking(l);
    lk_losses_tell_unlocking(l);
    lk_mutex_unlock(&l->mutex);
    l->driver->close(l->self);
    l->self = NULL;
    lk_mutex_lock(&l->mutex);
    lk_log_tell_unlocking(l);
    const int64_t made = (int64_t)l->handles;
    lk_mutex_unlock(&l->mutex);
    lk_locker_owe(l, made);
    return LOCKER_OK;
}
