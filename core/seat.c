/*
 * seat.c: who drives the driver while somebody waits.
 *
 * What ends a wait comes in on the driver's descriptor. If the keeper read it and then woke the caller, each
 * message would take two threads to wake up. So a caller that is about to sleep takes the seat, if it is
 * free: the keeper leaves the descriptor alone, and the caller sleeps on it and gives the driver its turns.
 * When it has what it waited for, the keeper watches the descriptor again; nobody has to be woken for that.
 * A caller that sleeps without the seat is woken by whoever gives the driver its turn.
 *
 * Everything else stays with the keeper: renewal, losses, callbacks, the times at which dispatch wants to be
 * called, attend.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

static int add(int epoll_fd, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

int lk_seat_open(locker *l)
{
    int rc;

    if (l->driver_fd < 0 || l->driver->dispatch == NULL)
        return 0;
    l->seat_fd = epoll_create1(EPOLL_CLOEXEC);
    l->rouse_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->seat_fd < 0 || l->rouse_fd < 0)
        return errno;
    rc = add(l->seat_fd, l->driver_fd, &l->driver_fd);
    return rc != 0 ? rc : add(l->seat_fd, l->rouse_fd, &l->rouse_fd);
}

void lk_seat_close(locker *l)
{
    if (l->seat_fd >= 0)
        (void)close(l->seat_fd);
    if (l->rouse_fd >= 0)
        (void)close(l->rouse_fd);
    l->seat_fd = l->rouse_fd = -1;
}

/* ------------------------------------------------------------------ turns ---- */

void lk_dispatch_locked(locker *l)
{
    int64_t at;

    l->dispatching = true;
    l->attend = false;
    (void)pthread_mutex_unlock(&l->mutex);
    at = l->driver->dispatch(l->self);
    (void)pthread_mutex_lock(&l->mutex);
    l->dispatch_at = at;
    l->dispatching = false;
    lk_changed_locked(l); /* who has the seat may be waiting for its turn */
}

/* ------------------------------------------------------------------ the seat ---- */

static void keeper_watches_locked(locker *l, bool watches)
{
    struct epoll_event event = {.events = watches ? EPOLLIN : 0u, .data.ptr = &l->driver_fd};

    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, l->driver_fd, &event); /* it is there: this can't fail */
}

bool lk_seat_take_locked(locker *l, lk_wait *wait)
{
    if (l->seat == NULL && l->seat_fd >= 0) {
        l->seat = wait;
        keeper_watches_locked(l, false);
    }
    return l->seat == wait;
}

void lk_seat_leave_locked(locker *l, const lk_wait *wait)
{
    if (l->seat != wait)
        return;
    l->seat = NULL;
    keeper_watches_locked(l, true);
}

bool lk_seat_rouse_locked(locker *l, const lk_wait *wait)
{
    const uint64_t one = 1;

    if (l->seat != wait)
        return false;
    if (l->seat_sleeps && !l->roused) {
        l->roused = true;
        if (write(l->rouse_fd, &one, sizeof one) < 0) {
            /* EAGAIN can't be: the counter was 0. */
        }
    }
    return true;
}

static void take_rouse_locked(locker *l)
{
    uint64_t count;

    if (l->roused && read(l->rouse_fd, &count, sizeof count) < 0) {
        /* EAGAIN can't be: it was written. */
    }
    l->roused = false;
}

void lk_seat_sleep_locked(locker *l, int64_t until)
{
    bool roused;

    l->seat_sleeps = true;
    (void)pthread_mutex_unlock(&l->mutex);
    l->clock->poll(l->clock->context, l->seat_fd, until);
    (void)pthread_mutex_lock(&l->mutex);
    l->seat_sleeps = false;
    roused = l->roused;
    take_rouse_locked(l);
    if (roused)
        return; /* the caller knows why; the descriptor will still be readable afterwards */
    while (l->dispatching)
        lk_await_locked(l);
    lk_dispatch_locked(l);
    if (l->attend || l->dispatch_at < l->keeper_wakes_at)
        lk_kick_locked(l); /* that is the keeper's to see to */
}
