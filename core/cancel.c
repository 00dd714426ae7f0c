/*
 * cancel.c: ending waits from outside, also from a signal handler.
 *
 * A cancel is a flag and an eventfd. Calls in flight that carry one have the keeper watch its descriptor; when it
 * becomes readable the keeper wakes them up. So firing is one atomic store and one write().
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cancel.h"
#include "frame.h"
#include "lk_wakeup.h"

struct locker_cancel {
    int fd; /**< eventfd, readable once fired */
    /** Release on firing, acquire on reading: a call that sees it has also seen what came before. */
    atomic_bool fired;
};

locker_cancel *locker_cancel_new(void)
{
    locker_cancel *cancel = malloc(sizeof *cancel);
    if (cancel == NULL)
        return NULL;
    cancel->fd = lk_wakeup_new();
    if (cancel->fd < 0) {
        free(cancel);
        return NULL;
    }
    atomic_init(&cancel->fired, false);
    return cancel;
}

void locker_cancel_fire(locker_cancel *cancel)
{
    LK_NO_CANCEL; /* which a signal handler may do, too */
    const int saved = errno;
    if (cancel == NULL)
        return;
    atomic_store_explicit(&cancel->fired, true, memory_order_release);
    lk_wakeup_ring(cancel->fd);
    errno = saved;
}

bool locker_cancel_fired(const locker_cancel *cancel)
{
    return cancel != NULL && atomic_load_explicit(&cancel->fired, memory_order_acquire);
}

void locker_cancel_reset(locker_cancel *cancel)
{
    LK_NO_CANCEL;
    if (cancel == NULL)
        return;
    atomic_store_explicit(&cancel->fired, false, memory_order_release);
    lk_wakeup_clear(cancel->fd);
}

void locker_cancel_free(locker_cancel *cancel)
{
    LK_NO_CANCEL;
    if (cancel == NULL)
        return;
    (void)close(cancel->fd);
    free(cancel);
}

/* ------------------------------------------------------------------ those in use ---- */

/* A cancel that calls in flight use, registered with the keeper. */
typedef struct cancel_use {
    lk_list link; /* in locker.cancels */
    locker_cancel *cancel;
    uint32_t users;
} cancel_use;

static cancel_use *find_locked(const locker *l, const locker_cancel *cancel) LK_REQUIRES(l->mutex)
{
    LK_LIST_EACH(link, &l->cancels) {
        cancel_use *const use = LK_CONTAINER(link, cancel_use, link);
        if (use->cancel == cancel)
            return use;
    }
    return NULL;
}

/* Edge-triggered: a fired descriptor stays readable, and the keeper should hear of it once. One that is readable when
 * it is added is reported too. */
int lk_cancel_watch_locked(locker *l, locker_cancel *cancel)
{
    cancel_use *use = find_locked(l, cancel);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = cancel};
    if (use != NULL) {
        use->users++;
        return 0;
    }
    use = malloc(sizeof *use);
    if (use == NULL)
        return ENOMEM;
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, cancel->fd, &event) != 0) {
        free(use);
        return errno;
    }
    use->cancel = cancel;
    use->users = 1;
    lk_list_prepend(&l->cancels, &use->link);
    return 0;
}

void lk_cancel_unwatch_locked(locker *l, locker_cancel *cancel)
{
    cancel_use *const use = find_locked(l, cancel);
    if (use == NULL || --use->users > 0)
        return;
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, cancel->fd, NULL);
    lk_list_remove(&use->link);
    free(use);
}

/* ------------------------------------------------------------------ ending waits ---- */

/* A call that is inside driver.acquire is interrupted with the mutex released; `interrupting` keeps its claim
 * alive. The list may change meanwhile, so the walk starts again after each. */
void lk_interrupt_unlocking(locker *l, const locker_cancel *cancel)
{
again:
    LK_LIST_EACH(link, &l->waits) {
        lk_wait *const w = LK_CONTAINER(link, lk_wait, link);
        lk_claim *const claim = w->claim;
        /* An event may be about a cancel that is gone, whose place in memory another one has taken: the flag
         * of the one in use decides. */
        if ((claim->events & LK_CANCELED) != 0 ||
            (cancel != NULL && (w->cancel != cancel || !locker_cancel_fired(w->cancel))))
            continue;
        claim->events |= LK_CANCELED;
        lk_wake_call_locked(l, w);
        if (claim->busy_with != LK_IN_ACQUIRE || l->driver->interrupt == NULL)
            continue;
        claim->interrupting = true;
        lk_mutex_unlock(&l->mutex);
        l->driver->interrupt(l->self, &claim->pub);
        lk_mutex_lock(&l->mutex);
        claim->interrupting = false;
        lk_changed_locked(l);
        goto again;
    }
}
