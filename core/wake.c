/*
 * wake.c: waking who sleeps. A call sleeps on its condition variable, or, if it leads, by the driver's descriptor
 * (leader.c); the keeper sleeps in its epoll.
 */
#include <locker/instrument.h>

#include "lk_wakeup.h"
#include "wake.h"

static void wake_leader_locked(locker *l) LK_REQUIRES(l->mutex)
{
    if (!l->leader_sleeps || l->leader_woken)
        return;
    l->leader_woken = true;
    lk_wakeup_ring(l->leader_wakeup_fd);
}

bool lk_wake_leader_done_locked(locker *l)
{
    const bool woken = l->leader_woken;
    if (woken)
        lk_wakeup_clear(l->leader_wakeup_fd);
    l->leader_woken = false;
    return woken;
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
    if (l->keeper_woken || l->keeper_wakes_at == 0)
        return; /* awake, it looks at everything before it sleeps */
    l->keeper_woken = true;
    lk_wakeup_ring(l->keeper_wakeup_fd);
}

void lk_wake_keeper_done_locked(locker *l)
{
    l->keeper_woken = false;
    lk_wakeup_clear(l->keeper_wakeup_fd);
}
