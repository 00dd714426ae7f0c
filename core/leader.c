/*
 * leader.c: who drives the driver while somebody waits.
 *
 * What ends a wait comes in on the driver's descriptor. If the keeper read it and then woke the caller, each message
 * would take two threads to wake up. So a caller that is about to sleep becomes the leader, if there is none: the
 * keeper leaves the descriptor alone, and the caller sleeps on it and gives the driver its turns. When it has what it
 * waited for, the keeper watches the descriptor again; nobody has to be woken for that. A caller that sleeps and
 * doesn't lead, a follower, is woken by whoever gives the driver its turn.
 *
 * Everything else stays with the keeper: renewal, losses, callbacks, the times at which dispatch wants to be called,
 * attend.
 */
#include <sys/epoll.h>

#include "leader.h"
#include "wake.h"

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
    l->leader_sleeps = true;
    lk_mutex_unlock(&l->mutex);
    l->clock.poll(l->clock.context, l->leader_fd, until);
    lk_mutex_lock(&l->mutex);
    l->leader_sleeps = false;
    if (lk_wake_leader_done_locked(l))
        return; /* the caller knows why; the descriptor will still be readable afterwards */
    while (l->dispatching)
        lk_await_unlocking(l);
    lk_dispatch_unlocking(l);
    if (l->attend || l->dispatch_at < l->keeper_wakes_at)
        lk_wake_keeper_locked(l); /* that is the keeper's to see to */
}
