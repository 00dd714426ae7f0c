/* events.c: what stands for eventfd, timerfd and epoll. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "files.h"
#include "seams.h"

/* ------------------------------------------------------------------ eventfd ---- */

static uint32_t counter_ready(void *self)
{
    return EPOLLOUT | (*(const uint64_t *)self > 0 ? (uint32_t)EPOLLIN : 0);
}

static ssize_t counter_read(void *self, void *bytes, size_t count)
{
    uint64_t *const counter = self;
    (void)count;
    if (*counter == 0) {
        errno = EAGAIN;
        return -1;
    }
    *(uint64_t *)bytes = *counter;
    *counter = 0;
    return sizeof *counter;
}

static ssize_t counter_write(void *self, const void *bytes, size_t count)
{
    *(uint64_t *)self += *(const uint64_t *)bytes;
    lk_sim_file_changed(self);
    return (ssize_t)count;
}

int lk_sim_eventfd(unsigned initial, int flags)
{
    static const lk_sim_file_ops ops = {counter_ready, counter_read, counter_write, free};
    uint64_t *const counter = lk_sim_alloc(sizeof *counter);
    (void)flags;
    *counter = initial;
    return lk_sim_file_new(&ops, counter);
}

/* ------------------------------------------------------------------ timerfd ---- */

typedef struct {
    uint64_t set; /* how often it was: an earlier setting's event comes to nothing */
    bool expired, closed;
    unsigned coming; /* events that are to come, and have a pointer to it */
} timer;

typedef struct {
    timer *of;
    uint64_t set;
} expiry;

static uint32_t timer_ready(void *self)
{
    return ((const timer *)self)->expired ? EPOLLIN : 0;
}

static ssize_t timer_read(void *self, void *bytes, size_t count)
{
    timer *const t = self;
    (void)count;
    if (!t->expired) {
        errno = EAGAIN;
        return -1;
    }
    t->expired = false;
    *(uint64_t *)bytes = 1;
    return sizeof(uint64_t);
}

static void timer_close(void *self)
{
    timer *const t = self;
    t->closed = true;
    if (t->coming == 0)
        free(t);
}

static void timer_comes(void *context)
{
    expiry *const e = context;
    timer *const t = e->of;
    t->coming--;
    if (!t->closed && t->set == e->set) {
        t->expired = true;
        lk_sim_file_changed(t);
    } else if (t->closed && t->coming == 0) {
        free(t);
    }
    free(e);
}

static const lk_sim_file_ops timer_ops = {timer_ready, timer_read, NULL, timer_close};

int lk_sim_timerfd_create(clockid_t clock, int flags)
{
    (void)clock;
    (void)flags;
    return lk_sim_file_new(&timer_ops, lk_sim_alloc(sizeof(timer)));
}

int lk_sim_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *before)
{
    timer *const t = lk_sim_file_of(fd)->self;
    (void)before;
    if ((flags & TFD_TIMER_ABSTIME) == 0 || at->it_interval.tv_sec != 0 || at->it_interval.tv_nsec != 0)
        lk_sim_fail("this kind of timer is not simulated");
    lk_sim_pause();
    t->set++;
    t->expired = false;
    if (at->it_value.tv_sec == 0 && at->it_value.tv_nsec == 0)
        return 0;
    expiry *const e = lk_sim_alloc(sizeof *e);
    *e = (expiry){t, t->set};
    t->coming++;
    lk_sim_at(lk_sim_true_of_spec(&at->it_value), timer_comes, e);
    return 0;
}

/* ------------------------------------------------------------------ epoll ---- */

typedef struct watched {
    struct watched *next;
    int fd;
    uint64_t opened; /* of the file: a descriptor that was closed is watched no more */
    struct epoll_event event;
    uint64_t reported; /* changes of the file that were told, for EPOLLET */
    bool off;          /* EPOLLONESHOT, told */
} watched;

typedef struct {
    watched *first;
} epoll;

static lk_sim_file *file_of(const watched *w)
{
    lk_sim_file *const file = lk_sim_file_of(w->fd);
    return file != NULL && file->opened == w->opened ? file : NULL;
}

static uint32_t events_of(const watched *w)
{
    const lk_sim_file *const file = file_of(w);
    if (file == NULL || w->off || ((w->event.events & EPOLLET) != 0 && w->reported == file->changes))
        return 0;
    return file->ops->ready(file->self) & (w->event.events | EPOLLHUP | EPOLLERR);
}

static uint32_t epoll_ready(void *self)
{
    for (const watched *w = ((const epoll *)self)->first; w != NULL; w = w->next)
        if (events_of(w) != 0)
            return EPOLLIN;
    return 0;
}

static void epoll_close(void *self)
{
    epoll *const e = self;
    for (watched *w = e->first, *next; w != NULL; w = next) {
        next = w->next;
        free(w);
    }
    free(e);
}

static const lk_sim_file_ops epoll_ops = {epoll_ready, NULL, NULL, epoll_close};

int lk_sim_epoll_create1(int flags)
{
    (void)flags;
    return lk_sim_file_new(&epoll_ops, lk_sim_alloc(sizeof(epoll)));
}

int lk_sim_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    epoll *const e = lk_sim_file_of(epoll_fd)->self;
    const lk_sim_file *const file = lk_sim_file_of(fd);
    watched **at = &e->first;
    lk_sim_pause();
    if (file == NULL) {
        errno = EBADF;
        return -1;
    }
    while (*at != NULL && ((*at)->fd != fd || (*at)->opened != file->opened))
        at = &(*at)->next;
    watched *w = *at;
    if ((w == NULL) != (operation == EPOLL_CTL_ADD)) {
        errno = w == NULL ? ENOENT : EEXIST;
        return -1;
    }
    if (operation == EPOLL_CTL_DEL) {
        *at = w->next;
        free(w);
        return 0;
    }
    if (w == NULL) {
        w = *at = lk_sim_alloc(sizeof *w);
        w->fd = fd;
        w->opened = file->opened;
    }
    w->event = *event;
    w->off = false;
    w->reported = file->changes - 1; /* what is ready now is told */
    if (events_of(w) != 0)
        lk_sim_file_changed(e);
    return 0;
}

/* Which are told first, if there is no room for all, is drawn. */
int lk_sim_epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms)
{
    const lk_sim_file *const file = lk_sim_file_of(epoll_fd);
    const epoll *const e = file->self;
    int count = 0;
    lk_sim_pause();
    if (timeout_ms != 0)
        (void)lk_sim_file_await(file, EPOLLIN,
                                lk_sim_true_after(timeout_ms < 0 ? -1 : (int64_t)timeout_ms * 1000000));
    for (watched *w = e->first; w != NULL && count < room; w = w->next) {
        const uint32_t ready = events_of(w);
        if (ready == 0)
            continue;
        events[count++] = (struct epoll_event){.events = ready, .data = w->event.data};
        w->reported = file_of(w)->changes;
        w->off = (w->event.events & EPOLLONESHOT) != 0;
    }
    return count;
}
