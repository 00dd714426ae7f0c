/*
 * cancel.c: ending waits from outside, also from a signal handler.
 *
 * A cancel is a flag and an eventfd. Calls in flight that carry one have the keeper watch its descriptor;
 * when it becomes readable the keeper wakes them up. So firing is one atomic store and one write().
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

locker_cancel *locker_cancel_new(void)
{
    locker_cancel *cancel = malloc(sizeof *cancel);

    if (cancel == NULL)
        return NULL;
    cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
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
    const uint64_t one = 1;
    int saved = errno;

    if (cancel == NULL)
        return;
    atomic_store_explicit(&cancel->fired, true, memory_order_release);
    if (write(cancel->fd, &one, sizeof one) < 0) {
        /* EAGAIN: the counter is full, so it is readable already. Nothing else can happen to an eventfd. */
    }
    errno = saved;
}

bool locker_cancel_fired(const locker_cancel *cancel)
{
    return cancel != NULL && atomic_load_explicit(&cancel->fired, memory_order_acquire);
}

void locker_cancel_reset(locker_cancel *cancel)
{
    LK_NO_CANCEL;
    uint64_t count;

    if (cancel == NULL)
        return;
    atomic_store_explicit(&cancel->fired, false, memory_order_release);
    if (read(cancel->fd, &count, sizeof count) < 0) {
        /* EAGAIN: it had not been fired. */
    }
}

void locker_cancel_free(locker_cancel *cancel)
{
    LK_NO_CANCEL;

    if (cancel == NULL)
        return;
    (void)close(cancel->fd);
    free(cancel);
}

static lk_cancel_use **find_locked(locker *l, const locker_cancel *cancel)
{
    lk_cancel_use **link = &l->cancels;

    while (*link != NULL && (*link)->cancel != cancel)
        link = &(*link)->next;
    return link;
}

/* Edge-triggered: a fired descriptor stays readable, and the keeper should hear of it once. One that is
 * readable when it is added is reported too. */
int lk_cancel_watch_locked(locker *l, locker_cancel *cancel)
{
    lk_cancel_use *use = *find_locked(l, cancel);
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
    use->next = l->cancels;
    l->cancels = use;
    return 0;
}

void lk_cancel_unwatch_locked(locker *l, locker_cancel *cancel)
{
    lk_cancel_use **link = find_locked(l, cancel), *use = *link;

    if (use == NULL || --use->users > 0)
        return;
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, cancel->fd, NULL);
    *link = use->next;
    free(use);
}
