/* files.c: the table of descriptors, and reading, writing, closing and polling them. See files.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "files.h"
#include "seams.h"

enum { FILES_MAX = 1024 };

static lk_sim_file files[FILES_MAX];
static uint64_t opened; /* so many ever were */
static int files_end;   /* above the highest that was in use */

/* A fiber that waits for descriptors: it is woken when `is_ready` says so, not at each change. */
typedef struct waiting {
    struct waiting *next;
    lk_sim_fiber *fiber;
    bool (*is_ready)(const void *what);
    const void *what;
} waiting;

static waiting *first_waiting;

int lk_sim_file_new(const lk_sim_file_ops *ops, void *self)
{
    for (int i = 0; i < FILES_MAX; i++) {
        if (files[i].ops != NULL)
            continue;
        files_end = i < files_end ? files_end : i + 1;
        files[i] = (lk_sim_file){.ops = ops, .self = self, .owner = lk_sim_here(), .opened = ++opened};
        return LK_SIM_FIRST_FD + i;
    }
    lk_sim_fail("no simulated descriptor is left");
}

lk_sim_file *lk_sim_file_of(int fd)
{
    const int i = fd - LK_SIM_FIRST_FD;
    return i >= 0 && i < FILES_MAX && files[i].ops != NULL ? &files[i] : NULL;
}

static lk_sim_file *need(int fd)
{
    lk_sim_file *const file = lk_sim_file_of(fd);
    if (file == NULL && fd >= LK_SIM_FIRST_FD)
        lk_sim_fail("descriptor %d is used, which is closed", fd);
    return file;
}

/* ------------------------------------------------------------------ waiting ---- */

static bool wait_until(bool (*is_ready)(const void *), const void *what, int64_t until)
{
    waiting w = {first_waiting, lk_sim_self(), is_ready, what};
    if (is_ready(what))
        return true;
    first_waiting = &w;
    const bool woken = lk_sim_wait(&w, until);
    for (waiting **at = &first_waiting; *at != NULL; at = &(*at)->next) {
        if (*at == &w) {
            *at = w.next;
            break;
        }
    }
    return woken || is_ready(what);
}

void lk_sim_file_changed(const void *self)
{
    for (int i = 0; i < files_end; i++)
        if (files[i].ops != NULL && files[i].self == self)
            files[i].changes++;
    for (const waiting *w = first_waiting; w != NULL; w = w->next)
        if (w->is_ready(w->what))
            lk_sim_wake(w->fiber);
}

typedef struct {
    const lk_sim_file *file;
    uint32_t events;
} wanted;

static bool has_events(const void *what)
{
    const wanted *const w = what;
    return w->file->ops == NULL ||
           (w->file->ops->ready(w->file->self) & (w->events | EPOLLHUP | EPOLLERR)) != 0;
}

bool lk_sim_file_await(const lk_sim_file *file, uint32_t events, int64_t until)
{
    const wanted w = {file, events};
    return wait_until(has_events, &w, until);
}

/* ------------------------------------------------------------------ poll ---- */

typedef struct {
    struct pollfd *fds;
    nfds_t count;
} polled;

/* poll's bits and epoll's are the same numbers. A descriptor may be closed by another thread meanwhile. */
static short events_of(const struct pollfd *p)
{
    const lk_sim_file *const file = lk_sim_file_of(p->fd);
    if (file == NULL)
        return p->fd < 0 ? 0 : POLLNVAL;
    return (short)(file->ops->ready(file->self) &
                   ((uint32_t)(unsigned short)p->events | EPOLLHUP | EPOLLERR));
}

static bool any_event(const void *what)
{
    const polled *const p = what;
    for (nfds_t i = 0; i < p->count; i++)
        if (events_of(&p->fds[i]) != 0)
            return true;
    return false;
}

static int poll_until(struct pollfd *fds, nfds_t count, int64_t until)
{
    const polled p = {fds, count};
    int ready = 0;
    lk_sim_pause();
    if (until > lk_sim_now())
        (void)wait_until(any_event, &p, until);
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = events_of(&fds[i]);
        ready += fds[i].revents != 0;
    }
    return ready;
}

int lk_sim_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return poll_until(fds, count, lk_sim_true_after(timeout_ms < 0 ? -1 : (int64_t)timeout_ms * 1000000));
}

int lk_sim_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    (void)mask;
    return poll_until(
        fds, count,
        lk_sim_true_after(timeout == NULL ? -1 : (int64_t)timeout->tv_sec * 1000000000 + timeout->tv_nsec));
}

/* ------------------------------------------------------------------ the rest ---- */

ssize_t lk_sim_read(int fd, void *bytes, size_t count)
{
    const lk_sim_file *const file = need(fd);
    if (file == NULL)
        return read(fd, bytes, count);
    lk_sim_pause();
    return file->ops->read(file->self, bytes, count);
}

ssize_t lk_sim_write(int fd, const void *bytes, size_t count)
{
    const lk_sim_file *const file = need(fd);
    if (file == NULL)
        return write(fd, bytes, count);
    lk_sim_pause();
    return file->ops->write(file->self, bytes, count);
}

static void close_file(lk_sim_file *file)
{
    const lk_sim_file_ops *const ops = file->ops;
    void *const self = file->self;
    file->ops = NULL;
    file->self = NULL;
    if (ops->close != NULL)
        ops->close(self);
}

int lk_sim_close(int fd)
{
    lk_sim_file *const file = need(fd);
    if (file == NULL)
        return close(fd);
    lk_sim_pause();
    close_file(file);
    return 0;
}

void lk_sim_files_close_of(const lk_sim_process *process)
{
    for (waiting **at = &first_waiting; *at != NULL;) {
        if (lk_sim_process_of((*at)->fiber) == process)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    for (int i = 0; i < files_end; i++)
        if (files[i].ops != NULL && files[i].owner == process)
            close_file(&files[i]);
}

void lk_sim_files_end(void)
{
    for (int i = 0; i < files_end; i++)
        if (files[i].ops != NULL)
            close_file(&files[i]);
    first_waiting = NULL;
}

int lk_sim_fcntl(int fd, int command, ...)
{
    lk_sim_file *const file = need(fd);
    va_list arguments;
    va_start(arguments, command);
    const long argument = va_arg(arguments, long);
    va_end(arguments);
    if (file == NULL)
        return fcntl(fd, command, argument);
    if (command == F_GETFL)
        return file->blocks ? 0 : O_NONBLOCK;
    if (command == F_SETFL)
        file->blocks = (argument & O_NONBLOCK) == 0;
    return 0;
}

/* Its name where files may be large. */
int lk_sim_fcntl64(int fd, int command, ...) __attribute__((alias("lk_sim_fcntl")));
