/* cancel.c: ending waits from outside, also from a signal handler.
 *
 * A cancel is a flag and an eventfd. Calls in flight that carry one have the keeper watch its descriptor; when it
 * becomes readable the keeper wakes them up. So firing is one atomic store and one write(). */
#include <errno.h>
#include <sys/epoll.h>

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

static bool is_watched_locked(const locker *l, const locker_cancel *cancel) LK_REQUIRES(l->mutex)
{
    LK_EACH(lk_wait, wait, cancel_link, &l->cancelable)
        if (wait->cancel == cancel)
            return true;
    return false;
}

/* Edge-triggered: a fired descriptor stays readable, and is told once, also one that is fired when it is added. */
bool lk_cancel_watch_locked(locker *l, lk_wait *wait)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = wait->cancel};
    if (!is_watched_locked(l, wait->cancel) &&
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, wait->cancel->fd, &event) != 0)
        return false;
    lk_list_prepend(&l->cancelable, &wait->cancel_link);
    return true;
}

void lk_cancel_unwatch_locked(locker *l, lk_wait *wait)
{
    lk_list_remove(&wait->cancel_link);
    if (!is_watched_locked(l, wait->cancel))
        (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, wait->cancel->fd, NULL);
}

/* A call that is inside driver.acquire is interrupted with the mutex released; `interrupting` keeps its claim
 * alive. The list may change meanwhile, so the walk starts again after each. */
void lk_interrupt_unlocking(locker *l, const locker_cancel *cancel)
{
again:
    LK_EACH(lk_wait, w, link, &l->waits) {
        lk_claim *const claim = w->claim;
        /* An event may be about a cancel that is gone, whose memory another one has: its flag decides. */
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
