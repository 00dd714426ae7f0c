/*
 * descriptors.c: what sleeping threads of core look at.
 *
 * The keeper's epoll has a wake-up, a timer, the driver's descriptor (also when a leader watches it, silenced then) and
 * those of cancels in use. The leader's has the driver's descriptor and a wake-up of its own.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "lk_wakeup.h"

static int add(int epoll_fd, const int *fd, uint32_t how)
{
    struct epoll_event event = {.events = EPOLLIN | how, .data.ptr = (void *)(uintptr_t)fd};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, *fd, &event) == 0 ? 0 : errno;
}

int lk_descriptors_open(locker *l)
{
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->keeper_wakeup_fd = l->epoll_fd < 0 ? -1 : lk_wakeup_new();
    const bool timed = l->keeper_wakeup_fd >= 0 && lk_clock_is_system(&l->clock);
    l->timer_fd = timed ? lk_timer_new() : -1;
    l->timer_at = LOCKER_NEVER;
    if (l->keeper_wakeup_fd < 0 || (timed && l->timer_fd < 0))
        return errno;
    const int rc = add(l->epoll_fd, &l->keeper_wakeup_fd, 0);
    return rc != 0 || l->timer_fd < 0
               ? rc
               : add(l->epoll_fd, &l->timer_fd, EPOLLET); /* an edge need not be read */
}

static int add_leader(locker *l)
{
    l->leader_fd = epoll_create1(EPOLL_CLOEXEC);
    l->leader_wakeup_fd = l->leader_fd < 0 ? -1 : lk_wakeup_new();
    if (l->leader_wakeup_fd < 0)
        return errno;
    const int rc = add(l->leader_fd, &l->driver_fd, 0);
    return rc != 0 ? rc : add(l->leader_fd, &l->leader_wakeup_fd, 0);
}

int lk_descriptors_add_driver(locker *l)
{
    l->driver_fd = l->driver->descriptor != NULL ? l->driver->descriptor(l->self) : -1;
    if (l->driver_fd < 0)
        return 0;
    const int rc = add(l->epoll_fd, &l->driver_fd, 0);
    return rc != 0 || l->driver->dispatch == NULL ? rc : add_leader(l);
}

void lk_descriptors_close(locker *l)
{
    int *const ours[] = {&l->epoll_fd, &l->keeper_wakeup_fd, &l->timer_fd, &l->leader_fd,
                         &l->leader_wakeup_fd};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (*ours[i] >= 0)
            (void)close(*ours[i]);
        *ours[i] = -1;
    }
}
