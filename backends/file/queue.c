/* queue.c: tickets. Who waits has a FIFO of its own in the lock's queue, a directory ".queue-…" that is named after the
 * lock file's device and inode; the FIFO's name begins with the time of its arrival, so that names sort as their owners
 * came. A waiter has its predecessor's FIFO open for writing: when nobody reads that any more, which is when its owner
 * closes it or dies, the kernel says so (EPOLLERR), to this one waiter alone. The owner keeps its ticket while it
 * holds, so an unlock, a wait that is given up and a kill -9 are one event to the next in line. This is ZooKeeper's
 * recipe for locks, in files: https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks
 *
 * A ticket says who is next, never who holds: that is the lock on the lock file (acquire.c). So whatever becomes of
 * tickets costs order or time, and not exclusion.
 *
 * A name in the queue always has a reader or is dead: the FIFO is made and opened under a name that begins with a dot,
 * and renamed. Who finds a dead one before it removes it. Two who arrive at once may both see nobody before them, since
 * the time is read before the name is there: both try for the lock then, and one gets it.
 *
 * What is written into a FIFO: one byte by its owner when it is granted the lock, so that the successor, which asks how
 * much is there when it has ended, knows that nobody is between them and lists nothing; and one byte by who wants a
 * waiter to look again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lk_escape.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"

enum {
    ROUNDS = 16,                         /* attempts in a queue whose directory comes and goes */
    QUEUE_NAME = 48,                     /* ".queue-" and three numbers */
    OWNER_AT = LK_FILE_TICKET_LENGTH + 1 /* behind the dot */
};

static void queue_name(char out[QUEUE_NAME], const lk_file_id *id)
{
    snprintf(out, QUEUE_NAME, LK_FILE_QUEUE_PREFIX "%x-%x-%llx", id->device[0], id->device[1],
             (unsigned long long)id->inode);
}

static int open_directory(const lk_file *self, const char *name)
{
    return openat(self->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory of a queue. -1: errno says why. */
static int open_queue(const lk_file *self, const lk_file_id *id, bool create)
{
    char name[QUEUE_NAME];
    queue_name(name, id);
    const int fd = open_directory(self, name);
    if (fd >= 0 || errno != ENOENT || !create)
        return fd;
    return lk_file_directory_make(self, self->dir_fd, name) || errno == EEXIST ? open_directory(self, name)
                                                                               : -1;
}

/* The name of a ticket, behind a dot while it isn't in the queue; what follows its number is the owner, where that fits. */
static void ticket_name(char out[NAME_MAX + 2], const lk_file_claim *c)
{
    char owner[3 * LOCKER_OWNER_MAX + 1];
    *lk_escape(owner, c->claim->owner, strlen(c->claim->owner)) = '\0';
    snprintf(out, NAME_MAX + 2, ".%s", c->ticket);
    if (OWNER_AT + strlen("-") + strlen(owner) <= NAME_MAX)
        snprintf(out + OWNER_AT, NAME_MAX + 2 - OWNER_AT, "-%s", owner);
}

/* Whether it is a ticket's name. */
static bool is_ticket(const char *name)
{
    return strnlen(name, LK_FILE_TICKET_LENGTH) == LK_FILE_TICKET_LENGTH && name[0] != '.';
}

static int compare_tickets(const char *a, const char *b)
{
    return memcmp(a, b, LK_FILE_TICKET_LENGTH);
}

/* A FIFO's other end. -1: ENXIO: its owner is dead, or was stopped while making it. */
static int open_other(int queue, const char *name)
{
    return openat(queue, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
}

/* ------------------------------------------------------------------ all tickets ---- */

static bool is_half_made(const char *name)
{
    return name[0] == '.' && is_ticket(name + 1);
}

static int is_ours(const struct dirent *e)
{
    return is_ticket(e->d_name) || is_half_made(e->d_name);
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return compare_tickets((*a)->d_name, (*b)->d_name);
}

/* The tickets of a queue, first to last. */
typedef struct {
    int queue; /* its directory; -1: `code` says why there is none */
    int code;
    int count;
    struct dirent **all;
} tickets;

/* What was left half made goes: its maker died before it was renamed, or is about to open it, and makes another then. */
static void clean_up(int queue, const char *name)
{
    const int fd = open_other(queue, name);
    if (fd >= 0)
        close(fd);
    else if (errno == ENXIO)
        (void)unlinkat(queue, name, 0);
}

static tickets list_tickets(int queue)
{
    tickets t = {.queue = queue, .code = errno};
    t.count = queue >= 0 ? scandirat(queue, ".", &t.all, is_ours, compare_entries) : 0;
    if (t.count < 0) { /* no descriptor, no memory: who stands there is not known, and not nobody */
        t = (tickets){.queue = -1, .code = errno};
        close(queue);
    }
    int kept = 0;
    for (int i = 0; i < t.count; i++) {
        const bool half = is_half_made(t.all[i]->d_name);
        if (half)
            clean_up(queue, t.all[i]->d_name);
        if (half)
            free(t.all[i]);
        else
            t.all[kept++] = t.all[i];
    }
    t.count = kept;
    return t;
}

static tickets open_tickets(const lk_file *self, const lk_file_id *id)
{
    return list_tickets(open_queue(self, id, false));
}

static void close_tickets(tickets *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->all[i]);
    free(t->all);
    if (t->queue >= 0)
        close(t->queue);
}

/* Where a ticket is, or would be. */
static int find(const tickets *t, const char *ticket)
{
    int i = 0;
    while (i < t->count && compare_tickets(t->all[i]->d_name, ticket) < 0)
        i++;
    return i;
}

/* Have its owner look again. False: that holds the lock, or has been told already; or it is nobody's. */
static bool poke(int queue, const char *name)
{
    const int reached = open_other(queue, name); /* ENXIO: its owner is dead */
    if (reached < 0)
        return false;
    /* Read as well, for a writer alone would get SIGPIPE when the owner closes it right now. */
    const int fd = openat(queue, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    struct stat s;
    int written = 1;
    const bool pokes = fd >= 0 && fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode) &&
                       ioctl(fd, FIONREAD, &written) == 0 && written == 0 && write(fd, "", 1) == 1;
    if (fd >= 0)
        close(fd);
    close(reached);
    return pokes;
}

/* Tell the first that waits behind the claim. */
static void poke_from(const tickets *t, const char *ticket)
{
    int i = find(t, ticket);
    while (i < t->count &&
           (compare_tickets(t->all[i]->d_name, ticket) == 0 || !poke(t->queue, t->all[i]->d_name)))
        i++;
}

static void poke_behind(const lk_file *self, const lk_file_claim *c)
{
    tickets t = open_tickets(self, &c->id);
    poke_from(&t, c->ticket);
    close_tickets(&t);
}

void lk_file_queue_poke(const lk_file *self, const lk_file_id *id)
{
    tickets t = open_tickets(self, id);
    for (int i = 0; i < t.count; i++)
        (void)poke(t.queue, t.all[i]->d_name);
    close_tickets(&t);
}

/* ------------------------------------------------------------------ one's own ticket ---- */

static bool watch_locked(lk_file *self, int fd, uint32_t events, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    return epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Whether a child may have a copy of the descriptor or not: what is closed must be out of the epoll set before. */
static void unwatch_locked(lk_file *self, int fd) LK_REQUIRES(self->mutex)
{
    (void)epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void unfollow_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    if (c->ahead_fd < 0)
        return;
    unwatch_locked(self, c->ahead_fd);
    close(c->ahead_fd);
    lk_file_slot_give_locked(&self->slots, c->ahead_slot);
    c->ahead_fd = -1;
}

/* Have events of a FIFO told, and it known to a child that is forked from here on, which closes its copy. NULL: errno
 * says why. */
static lk_file_slot *enlist_locked(lk_file *self, lk_file_claim *c, int fd, uint32_t events)
    LK_REQUIRES(self->mutex)
{
    struct stat s;
    lk_file_slot *slot = fstat(fd, &s) == 0 ? lk_file_slot_take_locked(&self->slots, fd, s.st_ino) : NULL;
    if (slot != NULL && !watch_locked(self, fd, events, c)) {
        const int code = errno;
        lk_file_slot_give_locked(&self->slots, slot);
        errno = code;
        slot = NULL;
    }
    return slot;
}

/* Not while somebody has a ticket in it. */
static void remove_queue(const lk_file *self, const lk_file_id *id)
{
    char name[QUEUE_NAME];
    queue_name(name, id);
    (void)unlinkat(self->dir_fd, name, AT_REMOVEDIR);
}

/* A claim that moves on to another file keeps the time of its arrival. */
static void number_ticket(lk_file_claim *c)
{
    static _Atomic uint32_t last; /* relaxed: a number that no other ticket of the process has */
    if (c->ticket[0] == '\0')
        snprintf(c->ticket, sizeof c->ticket, "%016llx-%08x-%08x",
                 (unsigned long long)lk_time_of(CLOCK_BOOTTIME), (unsigned)getpid(),
                 (unsigned)atomic_fetch_add_explicit(&last, 1, memory_order_relaxed));
}

/* The claim follows nobody, and has no ticket; that is closed, which wakes the next, unless a forked child has a copy of the
 * descriptor. False: it had none. */
static bool close_ticket(lk_file *self, lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    unfollow_locked(self, c);
    const int fd = c->ticket_fd;
    if (fd >= 0) {
        unwatch_locked(self, fd);
        close(fd);
        lk_file_slot_give_locked(&self->slots, c->ticket_slot);
        c->ticket_fd = -1;
    }
    lk_mutex_unlock(&self->mutex);
    return fd >= 0;
}

/* Make the FIFO in the queue. 0, or an errno; ENOENT: the queue was removed. */
static int make_ticket(lk_file *self, lk_file_claim *c, int queue)
{
    char name[NAME_MAX + 2];
    ticket_name(name, c);
    if (mknodat(queue, name, S_IFIFO | (self->shared ? 0660 : 0600), 0) != 0)
        return errno;
    const int fd = openat(queue, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        const int code = errno; /* ENOENT: one who found nobody at its other end has removed it */
        (void)unlinkat(queue, name, 0);
        return code;
    }
    lk_mutex_lock(&self->mutex);
    c->ticket_slot = enlist_locked(self, c, fd, EPOLLIN);
    int code = c->ticket_slot == NULL ? errno : 0;
    if (code == 0)
        c->ticket_fd = fd;
    lk_mutex_unlock(&self->mutex);
    if (code != 0)
        close(fd);
    else if ((self->shared && fchmod(fd, 0660) != 0) || renameat(queue, name, queue, name + 1) != 0)
        code = errno;
    if (code == 0)
        return 0;
    (void)close_ticket(self, c);
    (void)unlinkat(queue, name, 0);
    return code;
}

void lk_file_queue_enter(lk_file *self, lk_file_claim *c)
{
    number_ticket(c);
    int code = ENOENT;
    for (int i = 0; i < ROUNDS && code == ENOENT; i++) {
        const int queue = open_queue(self, &c->id, true);
        code = queue < 0 ? errno : make_ticket(self, c, queue);
        if (queue >= 0)
            close(queue);
    }
    if (code != 0)
        remove_queue(self, &c->id);
    if (code != 0 && !atomic_exchange_explicit(&self->unqueued, true, memory_order_relaxed))
        self->svc->log(self->svc, LOCKER_LOG_WARN,
                       "can't make a ticket in a queue in %.200s: %s; who waits is not served in order",
                       self->path, strerror(code));
}

/* Remove the name of a ticket that was closed. */
static void remove_ticket(const lk_file *self, const lk_file_claim *c)
{
    char path[QUEUE_NAME + NAME_MAX + 2];
    queue_name(path, &c->id);
    char *const name = path + strlen(path);
    ticket_name(name, c);
    *name = '/';
    const int copy = open_other(self->dir_fd, path);
    (void)unlinkat(self->dir_fd, path, 0);
    if (copy >= 0)
        poke_behind(self, c);
    if (copy >= 0)
        close(copy);
}

int lk_file_let_go(lk_file *self, lk_file_claim *c, bool had)
{
    const bool waited = had && lk_file_range_locked(c->fd, 1);
    if (waited) /* who comes now goes by this time (acquire.c) */
        (void)futimens(c->fd, NULL);
    const int code = lk_file_range_unlock(c->fd);
    const bool queued = close_ticket(self, c); /* at once: the next one needs nothing of what follows */
    /* The lock file's close is what tells the first in the queue, unless that follows a ticket; but not while a forked
     * child has a copy of the descriptor. */
    if (waited)
        (void)futimens(c->fd, NULL);
    if (queued) {
        remove_ticket(self, c);
        remove_queue(self, &c->id);
    }
    lk_file_close(self, c);
    return code;
}

void lk_file_queue_granted(lk_file *self, lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    unfollow_locked(self, c);
    const int fd = c->ticket_fd;
    const bool poked = c->poked;
    if (fd >= 0)
        unwatch_locked(self, fd);
    lk_mutex_unlock(&self->mutex);
    if (fd < 0)
        return;
    int written = 0;
    const bool told =
        poked || (ioctl(fd, FIONREAD, &written) == 0 && written > 0); /* that was for the next one, then */
    (void)!write(fd, "", 1);
    if (told)
        poke_behind(self, c);
}

/* ------------------------------------------------------------------ the place in the line ---- */

/* Follow the ticket. 0; or an errno: ENXIO: its owner is dead. */
static int follow(lk_file *self, lk_file_claim *c, int queue, const char *name)
{
    lk_mutex_lock(&self->mutex);
    const bool followed = c->ahead_fd >= 0 && compare_tickets(c->ahead, name) == 0;
    lk_mutex_unlock(&self->mutex);
    if (followed)
        return 0;
    const int fd = open_other(queue, name);
    if (fd < 0)
        return errno;
    lk_mutex_lock(&self->mutex);
    unfollow_locked(self, c);
    lk_file_slot *const slot = enlist_locked(self, c, fd, 0); /* EPOLLERR is always told */
    const int code = slot == NULL ? errno : 0;
    if (code == 0) {
        c->ahead_slot = slot;
        c->ahead_fd = fd;
        memcpy(c->ahead, name, LK_FILE_TICKET_LENGTH);
    }
    lk_mutex_unlock(&self->mutex);
    if (code != 0)
        close(fd);
    return code;
}

static void unfollow(lk_file *self, lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    unfollow_locked(self, c);
    lk_mutex_unlock(&self->mutex);
}

/* Whether it may be somebody's ticket all the same. */
static bool is_want(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOSPC || code == EACCES;
}

/* Follow the last before the claim who lives. How many stand before it. */
static size_t follow_last(lk_file *self, lk_file_claim *c, const tickets *t)
{
    for (int i = find(t, c->ticket) - 1; i >= 0; i--) {
        const int code = follow(self, c, t->queue, t->all[i]->d_name);
        if (code != 0)
            unfollow(self, c);
        if (code == 0 || is_want(code))
            return (size_t)i + 1;
        if (code == ENXIO)
            (void)unlinkat(t->queue, t->all[i]->d_name, 0);
    }
    unfollow(self, c);
    return 0;
}

static bool is_entered(const tickets *t, const lk_file_claim *c)
{
    const int i = find(t, c->ticket);
    return i < t->count && compare_tickets(t->all[i]->d_name, c->ticket) == 0;
}

size_t lk_file_queue_place(lk_file *self, lk_file_claim *c, bool fresh)
{
    if (c->ticket_fd < 0)
        return 0;
    tickets t = open_tickets(self, &c->id);
    if (!is_entered(&t, c) && (t.queue >= 0 || t.code == ENOENT)) {
        /* It was overtaken, or cleaned away: it comes again, with the time at which it came first. */
        close_tickets(&t);
        if (close_ticket(self, c))
            remove_ticket(self, c);
        lk_file_queue_enter(self, c);
        t = open_tickets(self, &c->id);
        fresh = true;
    }
    size_t before = 1; /* where it can't be known: ask again, as one who isn't told */
    if (t.queue >= 0)
        before = follow_last(self, c, &t);
    /* Who came later may have been faster: it follows another, or is to be next behind one that holds. */
    if (fresh)
        poke_from(&t, c->ticket);
    close_tickets(&t);
    c->before = before;
    return before;
}

bool lk_file_queue_is_steady(lk_file *self, const lk_file_claim *c)
{
    struct stat own, ahead;
    lk_mutex_lock(&self->mutex);
    const bool steady = c->ticket_fd >= 0 && c->ahead_fd >= 0 && fstat(c->ticket_fd, &own) == 0 &&
                        fstat(c->ahead_fd, &ahead) == 0 && own.st_nlink > 0 && ahead.st_nlink > 0;
    lk_mutex_unlock(&self->mutex);
    return steady;
}

void lk_file_queue_overtake(lk_file *self, const lk_file_claim *c)
{
    tickets t = open_tickets(self, &c->id);
    for (int i = find(&t, c->ticket) - 1; i >= 0; i--)
        (void)unlinkat(t.queue, t.all[i]->d_name, 0);
    close_tickets(&t);
}

void lk_file_queue_sweep(const lk_file *self, const char *entry)
{
    tickets t = list_tickets(open_directory(self, entry));
    bool empty = t.queue >= 0;
    for (int i = 0; i < t.count && empty; i++) {
        const int fd = open_other(t.queue, t.all[i]->d_name);
        empty = fd < 0 && errno == ENXIO && unlinkat(t.queue, t.all[i]->d_name, 0) == 0;
        if (fd >= 0)
            close(fd);
    }
    close_tickets(&t);
    if (empty)
        (void)unlinkat(self->dir_fd, entry, AT_REMOVEDIR);
}

/* Whether its owner lives, and waits. */
static bool is_waiting(int queue, const char *name)
{
    const int fd = open_other(queue, name);
    int written = 0;
    const bool waits = fd >= 0 && ioctl(fd, FIONREAD, &written) == 0 && written == 0;
    if (fd >= 0)
        close(fd);
    return waits;
}

/* The owner in a ticket's name; empty, where it didn't fit. */
static void read_owner(char out[LOCKER_OWNER_MAX + 1], const char *name)
{
    size_t n = 0;
    name += LK_FILE_TICKET_LENGTH;
    if (*name == '-')
        n = lk_unescape(out, LOCKER_OWNER_MAX, name + 1);
    out[n] = '\0';
}

bool lk_file_queue_list(const lk_file *self, const lk_file_id *id, locker_info *info)
{
    tickets t = open_tickets(self, id);
    if (t.queue >= 0 || t.code == ENOENT)
        info->waiters = 0;
    info->queue = t.count > 0 ? calloc((size_t)t.count, sizeof *info->queue) : NULL;
    info->queue_stride = sizeof *info->queue;
    const bool enough = t.count == 0 || info->queue != NULL;
    for (int i = 0; i < t.count && enough; i++) {
        if (!is_waiting(t.queue, t.all[i]->d_name))
            continue;
        info->waiters++;
        read_owner(info->queue[info->queue_len++].owner, t.all[i]->d_name);
    }
    close_tickets(&t);
    return enough;
}

/* ------------------------------------------------------------------ events ---- */

/* The predecessor's FIFO has no reader any more. Did it hold? Then nobody is between it and this claim. */
static void ahead_ended_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    int written = 0;
    c->is_next = !c->poked && ioctl(c->ahead_fd, FIONREAD, &written) == 0 && written > 0;
    c->poked = false;
    unfollow_locked(self, c);
}

void lk_file_queue_hear_locked(lk_file *self)
{
    enum { AT_ONCE = 32 };
    struct epoll_event events[AT_ONCE];
    int count;
    do {
        count = epoll_wait(self->epoll_fd, events, AT_ONCE, 0);
        for (int i = 0; i < count; i++) {
            lk_file_claim *const c = events[i].data.ptr;
            char told[64];
            if (c == NULL) /* inotify's, which is read by itself (watch.c) */
                continue;
            if (events[i].events & EPOLLERR)
                ahead_ended_locked(self, c);
            else
                c->poked = read(c->ticket_fd, told, sizeof told) > 0;
            c->notified = true;
            if (c->state == LK_FILE_WAITING)
                self->svc->wake(self->svc, c->claim);
        }
    } while (count == AT_ONCE);
}
