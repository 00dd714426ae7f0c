/*
 * keeper.c: the keeper, one thread for each locker.
 *
 * It renews leases in batches, moves them to LOST by the local deadline, withdraws what was lost and tells
 * its handles, wakes calls whose cancel was fired, and gives the driver its turns (dispatch). It never blocks
 * but in its own poll: everything that it calls is bound by contract not to.
 */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "internal.h"

enum { BATCH = 1024, EVENTS = 16 };

/* A renewal whose time is this near goes along with one that is due: a quarter of the time between two. So
 * leases that were taken one after the other are soon renewed together. */
static const int64_t slack_part = 4;

void lk_kick_locked(locker *l)
{
    const uint64_t one = 1;

    if (l->kicked || l->keeper_wakes_at == 0)
        return; /* awake, it looks at everything before it sleeps */
    l->kicked = true;
    if (write(l->kick_fd, &one, sizeof one) < 0) {
        /* EAGAIN: it is readable already. */
    }
}

/* ------------------------------------------------------------------ renewal ---- */

/* Take what is due out of the heap's top, at most BATCH. */
static size_t collect_locked(locker *l, int64_t now, lk_claim *batch[BATCH], locker_claim *grants[BATCH])
{
    size_t n = 0;

    while (n < BATCH && l->heap_len > 0) {
        lk_claim *claim = l->heap[0].claim;
        int64_t slack = claim->pub.renewed && l->driver->renew != NULL
                            ? lk_min(claim->pub.ttl_ns / 3 / slack_part, LK_S)
                            : 0;
        int64_t until = atomic_load_explicit(&claim->valid_until, memory_order_relaxed);
        int64_t at = l->heap[0].at;

        if (at > now && (at >= until || claim->unconfirmed || at - slack > now))
            break;
        if (lk_lease_due_locked(l, claim, now)) {
            lk_busy_begin_locked(l, claim, LK_IN_RENEW);
            batch[n] = claim;
            grants[n++] = &claim->pub;
        }
    }
    return n;
}

static void renew_locked(locker *l)
{
    lk_claim *batch[BATCH];
    locker_claim *grants[BATCH];
    size_t n;

    while ((n = collect_locked(l, lk_now(l), batch, grants)) > 0) {
        (void)pthread_mutex_unlock(&l->mutex);
        l->driver->renew(l->self, grants, n);
        (void)pthread_mutex_lock(&l->mutex);
        for (size_t i = 0; i < n; i++)
            lk_busy_end_locked(l, batch[i]);
    }
}

/* ------------------------------------------------------------------ loss ---- */

static void tell_handle_locked(locker *l, locker_handle *handle)
{
    const uint64_t one = 1;
    int fd = atomic_load_explicit(&handle->lost_fd, memory_order_relaxed);

    handle->told = true;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) {
        /* EAGAIN: it is readable already. */
    }
    if (handle->on_lost == NULL || handle->unlocked)
        return;
    handle->in_callback = true;
    (void)pthread_mutex_unlock(&l->mutex);
    handle->on_lost(handle, handle->user);
    (void)pthread_mutex_lock(&l->mutex);
    handle->in_callback = false;
    lk_changed_locked(l);
}

/* The first of the claim's handles that has not been told. A callback may free handles, so the list is read
 * anew each time. */
static locker_handle *untold_locked(const lk_claim *claim)
{
    locker_handle *handle = claim->handles;

    while (handle != NULL && handle->told)
        handle = handle->sibling;
    return handle;
}

void lk_lost_locked(locker *l)
{
    lk_claim *claim;

    while ((claim = l->lost) != NULL) {
        locker_handle *handle;

        l->lost = claim->next;
        if (l->lost == NULL)
            l->lost_end = &l->lost;
        claim->next = NULL;
        while ((handle = untold_locked(claim)) != NULL) {
            claim->refs++;
            tell_handle_locked(l, handle);
            lk_handle_told_locked(l, handle);
            lk_claim_unref_locked(l, claim);
        }
        lk_withdraw_locked(l, claim);
        (void)pthread_mutex_unlock(&l->mutex);
        l->services.log(&l->services, LOCKER_LOG_ERROR, "lost the lock '%s': %s", claim->pub.key,
                        lk_lost_why(claim));
        (void)pthread_mutex_lock(&l->mutex);
        lk_claim_unref_locked(l, claim);
    }
}

/* ------------------------------------------------------------------ cancelling ---- */

/* A call that is inside driver.acquire is interrupted with the mutex released; `interrupting` keeps its claim
 * alive. The list may change meanwhile, so the walk starts again after each. */
void lk_interrupt(locker *l, const locker_cancel *cancel)
{
    lk_wait *w;

    (void)pthread_mutex_lock(&l->mutex);
again:
    for (w = l->waits; w != NULL; w = w->next) {
        lk_claim *claim = w->claim;

        /* An event may be about a cancel that is gone, whose place in memory another one has taken: the flag
         * of the one in use decides. */
        if ((claim->events & LK_CANCELED) != 0 ||
            (cancel != NULL && (w->cancel != cancel || !locker_cancel_fired(w->cancel))))
            continue;
        claim->events |= LK_CANCELED;
        lk_rouse_locked(l, w);
        if (claim->busy_with != LK_IN_ACQUIRE || l->driver->interrupt == NULL)
            continue;
        claim->interrupting = true;
        (void)pthread_mutex_unlock(&l->mutex);
        l->driver->interrupt(l->self, &claim->pub);
        (void)pthread_mutex_lock(&l->mutex);
        claim->interrupting = false;
        lk_changed_locked(l);
        goto again;
    }
    (void)pthread_mutex_unlock(&l->mutex);
}

/* ------------------------------------------------------------------ the thread ---- */

/* Sleep until something is to be read, or until `until`. */
static int sleep_until(locker *l, struct epoll_event events[EVENTS], int64_t until)
{
    if (l->timer_fd < 0) {
        l->clock->poll(l->clock->context, l->epoll_fd, until);
        return epoll_wait(l->epoll_fd, events, EVENTS, 0);
    }
    if (until != l->timer_at) {
        lk_timer_set(l->timer_fd, until);
        l->timer_at = until;
    }
    return epoll_wait(l->epoll_fd, events, EVENTS, -1);
}

static void rest(locker *l, int64_t until)
{
    struct epoll_event events[EVENTS];
    int n = sleep_until(l, events, until);

    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;

        if (what == &l->kick_fd) {
            uint64_t count;

            (void)pthread_mutex_lock(&l->mutex);
            l->kicked = false;
            if (read(l->kick_fd, &count, sizeof count) < 0) {
                /* EAGAIN: somebody else's wake-up was merged with ours. */
            }
            (void)pthread_mutex_unlock(&l->mutex);
        } else if (what == &l->timer_fd) {
            l->timer_at = -1;
        } else if (what == &l->driver_fd) {
            (void)pthread_mutex_lock(&l->mutex);
            l->attend = true;
            (void)pthread_mutex_unlock(&l->mutex);
        } else {
            lk_interrupt(l, what);
        }
    }
}

static void *keeper(void *argument)
{
    locker *l = argument;
    bool dispatches = l->driver->dispatch != NULL;
    int64_t until;

    atomic_store_explicit(&l->calls_back, pthread_self(), memory_order_relaxed);
    (void)pthread_mutex_lock(&l->mutex);
    for (;;) {
        l->keeper_wakes_at = 0; /* awake: no kick is needed for a lease that is due early */
        renew_locked(l);
        lk_lost_locked(l);
        if (l->stop)
            break;
        if (dispatches && !l->dispatching && (l->attend || lk_now(l) >= l->dispatch_at))
            lk_dispatch_locked(l);
        if (l->lost != NULL || (dispatches && l->attend && !l->dispatching) || l->stop)
            continue;
        /* A call that is inside dispatch kicks the keeper if there is more to do afterwards. */
        l->keeper_wakes_at = lk_min(dispatches && !l->dispatching ? l->dispatch_at : LOCKER_NEVER,
                                    l->heap_len > 0 ? l->heap[0].at : LOCKER_NEVER);
        until = l->keeper_wakes_at;
        (void)pthread_mutex_unlock(&l->mutex);
        rest(l, until);
        (void)pthread_mutex_lock(&l->mutex);
    }
    (void)pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* The keeper takes no signals: they are for the application's threads. */
int lk_keeper_start(locker *l)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&l->keeper, NULL, keeper, l);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    l->keeper_runs = rc == 0;
    return rc;
}

void lk_keeper_stop(locker *l)
{
    if (!l->keeper_runs)
        return;
    (void)pthread_mutex_lock(&l->mutex);
    l->stop = true;
    lk_kick_locked(l);
    (void)pthread_mutex_unlock(&l->mutex);
    (void)pthread_join(l->keeper, NULL);
    l->keeper_runs = false;
}
