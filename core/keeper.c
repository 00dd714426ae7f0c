/* keeper.c: the keeper, one thread for each locker.
 *
 * It renews leases in batches, moves them to LOST by the local deadline, withdraws what was lost and tells its handles,
 * wakes calls whose cancel was fired, and gives the driver its turns (dispatch). It never blocks but in its own poll:
 * everything that it calls is bound by contract not to. */
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "grant.h"
#include "lease.h"
#include "lifetime.h"
#include "lk_thread.h"
#include "lk_wakeup.h"

/* So many leases are renewed together: enough that a command costs little for each, and few enough that neither this
 * thread nor the service keeps others waiting for long. */
enum { BATCH = 256, EVENTS = 16 };

/* A renewal whose time is this near goes along with one that is due: a quarter of the time between two. So leases
 * that were taken one after the other are soon renewed together, and thousands in batches that are spread over
 * that time. */
static const int64_t slack_part = 4;

/* Take what is due out of the heap's top, and what goes along, at most BATCH. */
static size_t collect_unlocking(locker *l, int64_t now, locker_claim *batch[BATCH]) LK_REQUIRES(l->mutex)
{
    size_t n = 0;
    while (n < BATCH && l->heap_len > 0) {
        lk_claim *claim = l->heap[0].claim;
        const int64_t slack = claim->pub.renewed && l->driver->renew != NULL
                                  ? lk_time_earlier(claim->pub.ttl_ns / 3 / slack_part, LK_S)
                                  : 0;
        const int64_t until = LK_READ(claim->valid_until);
        const int64_t at = l->heap[0].at;
        if (at > now && (n == 0 || at >= until || claim->unconfirmed || at - slack > now))
            break;
        if (lk_lease_due_locked(l, claim, now)) {
            lk_busy_begin_unlocking(l, claim, LK_IN_RENEW);
            batch[n++] = &claim->pub;
        }
    }
    return n;
}

static void renew_unlocking(locker *l) LK_REQUIRES(l->mutex)
{
    locker_claim *batch[BATCH];
    size_t n;
    while ((n = collect_unlocking(l, lk_now(l), batch)) > 0) {
        lk_mutex_unlock(&l->mutex);
        l->driver->renew(l->self, batch, n);
        lk_mutex_lock(&l->mutex);
        for (size_t i = 0; i < n; i++)
            lk_busy_end_unlocking(l, lk_claim_of(batch[i]));
    }
}

/* Sleep until something is to be read, or `until`, by a timer that counts stops and suspends as time. */
static int sleep_until(locker *l, struct epoll_event events[EVENTS], int64_t until)
{
    if (l->timer_fd < 0) {
        l->clock.poll(l->clock.context, l->epoll_fd, until);
        return epoll_wait(l->epoll_fd, events, EVENTS, 0);
    }
    if (until != l->timer_at) {
        const int64_t at = until == LOCKER_NEVER ? 0 : lk_time_later(until, 1); /* 0: it doesn't expire */
        const struct itimerspec spec = {.it_value = lk_time_spec(at)};
        (void)timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL); /* can't fail: at is in range */
        l->timer_at = until;
    }
    return epoll_wait(l->epoll_fd, events, EVENTS, -1);
}

static void rest_unlocking(locker *l) LK_REQUIRES(l->mutex)
{
    struct epoll_event events[EVENTS];
    const int64_t until = l->keeper_wakes_at;
    lk_mutex_unlock(&l->mutex);
    const int n = sleep_until(l, events, until);
    lk_mutex_lock(&l->mutex);
    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;
        if (what == &l->keeper_wakeup_fd)
            lk_wakeup_clear(l->keeper_wakeup_fd);
        else if (what == &l->driver_fd)
            l->attend = true;
        else if (what == &l->timer_fd)
            l->timer_at = -1;
        else
            lk_interrupt_unlocking(l, what);
    }
}

static void *keeper(void *argument)
{
    locker *l = argument;
    const bool dispatches = l->driver->dispatch != NULL;
    LK_WRITE(l->calls_back, pthread_self());
    lk_mutex_lock(&l->mutex);
    for (;;) {
        l->keeper_wakes_at = 0; /* awake: no kick is needed for a lease that is due early */
        renew_unlocking(l);
        lk_losses_tell_unlocking(l);
        lk_log_tell_unlocking(l);
        if (l->stop)
            break;
        if (dispatches && !l->dispatching && (l->attend || lk_now(l) >= l->dispatch_at))
            lk_dispatch_unlocking(l);
        if (!lk_list_empty(&l->lost) || lk_log_waits_locked(l) ||
            (dispatches && l->attend && !l->dispatching) || l->stop)
            continue;
        /* A call that is inside dispatch kicks the keeper if there is more to do afterwards. */
        l->keeper_wakes_at = lk_time_earlier(dispatches && !l->dispatching ? l->dispatch_at : LOCKER_NEVER,
                                             l->heap_len > 0 ? l->heap[0].at : LOCKER_NEVER);
        rest_unlocking(l);
    }
    lk_mutex_unlock(&l->mutex);
    return NULL;
}

int lk_keeper_start(locker *l)
{
    return lk_thread_start(&l->keeper, keeper, l);
}

void lk_keeper_stop(locker *l)
{
    lk_mutex_lock(&l->mutex);
    l->stop = true;
    lk_wake_keeper_locked(l);
    lk_mutex_unlock(&l->mutex);
    pthread_join(l->keeper, NULL);
}
