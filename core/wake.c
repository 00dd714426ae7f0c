/* wake.c: sleeping and waking. A call sleeps on its condition variable, or, if it leads, by the driver's descriptor; the
 * keeper sleeps in its epoll. The first call that sleeps leads, so that a message of the service wakes one thread, not two:
 * the keeper leaves the descriptor alone meanwhile, and watches it again afterwards, for which nobody is woken. */
#include <locker/instrument.h>
#include <sys/epoll.h>

#include "lk_wakeup.h"
#include "wake.h"

static void wake_leader_locked(locker *l) LK_REQUIRES(l->mutex)
{
    if (l->leading != LK_LEADER_SLEEPS)
        return;
    l->leading = LK_LEADER_WOKEN;
    lk_wakeup_ring(l->leader_wakeup_fd);
}

void lk_wake_call_locked(locker *l, lk_wait *wait)
{
    if (wait == NULL)
        return;
    if (l->leader == wait)
        wake_leader_locked(l);
    else if (!wait->sleeps)
        return;
    else if (l->clock.hooks != NULL && l->clock.hooks->signal != NULL)
        l->clock.hooks->signal(l->clock.context, &wait->cond);
    else
        pthread_cond_signal(&wait->cond);
}

void lk_wake_keeper_locked(locker *l)
{
    if (l->keeper_wakes_at == 0)
        return; /* awake, it looks at everything before it sleeps */
    l->keeper_wakes_at = 0;
    lk_wakeup_ring(l->keeper_wakeup_fd);
}

void lk_dispatch_unlocking(locker *l)
{
    l->dispatching = true;
    l->attend = false;
    lk_mutex_unlock(&l->mutex);
    const int64_t at = l->driver->dispatch(l->self);
    lk_mutex_lock(&l->mutex);
    l->dispatch_at = at;
    l->dispatching = false;
    lk_changed_locked(l); /* the leader may be waiting for its turn */
}

static void keeper_watches_locked(locker *l, bool watches) LK_REQUIRES(l->mutex)
{
    struct epoll_event event = {.events = watches ? EPOLLIN : 0u, .data.ptr = &l->driver_fd};
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, l->driver_fd, &event); /* it is there: this can't fail */
}

bool lk_leader_take_locked(locker *l, lk_wait *wait)
{
    if (l->leader == NULL && l->leader_fd >= 0) {
        l->leader = wait;
        keeper_watches_locked(l, false);
    }
    return l->leader == wait;
}

void lk_leader_leave_locked(locker *l, const lk_wait *wait)
{
    if (l->leader != wait)
        return;
    l->leader = NULL;
    keeper_watches_locked(l, true);
}

void lk_leader_sleep_unlocking(locker *l, int64_t until)
{
    l->leading = LK_LEADER_SLEEPS;
    lk_mutex_unlock(&l->mutex);
    l->clock.poll(l->clock.context, l->leader_fd, until);
    lk_mutex_lock(&l->mutex);
    const bool woken = l->leading == LK_LEADER_WOKEN;
    l->leading = LK_LEADER_AWAKE;
    if (woken) {
        lk_wakeup_clear(l->leader_wakeup_fd);
        return; /* the caller knows why; the descriptor will still be readable afterwards */
    }
    while (l->dispatching)
        lk_await_unlocking(l);
    lk_dispatch_unlocking(l);
    if (l->attend || l->dispatch_at < l->keeper_wakes_at)
        lk_wake_keeper_locked(l); /* that is the keeper's to see to */
}
