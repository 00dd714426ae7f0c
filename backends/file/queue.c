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
    int fd = open_directory(self, name);
    if (fd >= 0 || errno != ENOENT || !create)
        return fd;
    const bool made = mkdirat(self->dir_fd, name, self->shared ? 0770 : 0700) == 0;
    if (made || errno == EEXIST)
        fd = open_directory(self, name);
    if (fd >= 0 && made && self->shared)
        (void)fchmod(fd, 02770);
    return fd;
}

/* The name of a ticket, behind a dot while it isn't in the queue; what follows its number is the owner, where that fits. */
static void ticket_name(char out[NAME_MAX + 2], const lk_file_claim *c)
{
    char owner[3 * LOCKER_OWNER_MAX + 1];
    *lk_escape(owner, c->claim->owner, strlen(c->claim->owner)) = '\0';
    snprintf(out, NAME_MAX + 2, ".%s", c->ticket);
    if (OWNER_AT + strlen(owner) <= NAME_MAX)
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
    c->ahead_fd = -1;
}

/* Enter the FIFO as the claim's, so that a child forked from here on closes its copy of it, and pokes are heard. */
static bool adopt(lk_file *self, lk_file_claim *c, int fd)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return false;
    lk_mutex_lock(&self->mutex);
    c->ticket_slot = lk_file_slot_take_locked(&self->slots, fd, s.st_ino);
    bool done = c->ticket_slot != NULL;
    if (done && !watch_locked(self, fd, EPOLLIN, c)) {
        lk_file_slot_give_locked(&self->slots, c->ticket_slot);
        done = false;
    }
    if (done)
        c->ticket_fd = fd;
    lk_mutex_unlock(&self->mutex);
    return done;
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

/* Make the FIFO in the queue. 0, or an errno; ENOENT: the queue was removed. */
static int make_ticket(lk_file *self, lk_file_claim *c, int queue)
{
    char name[NAME_MAX + 2];
    ticket_name(name, c);
    if (mknodat(queue, name, S_IFIFO | (self->shared ? 0660 : 0600), 0) != 0)
        return errno;
    const int fd = openat(queue, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    int code = fd < 0 || (self->shared && fchmod(fd, 0660) != 0) ? errno : 0;
    if (code == 0 && !adopt(self, c, fd))
        code = ENOMEM;
    else if (code == 0 && renameat(queue, name, queue, name + 1) != 0)
        code = errno;
    if (code == 0)
        return 0;
    (void)unlinkat(queue, name, 0);
    if (c->ticket_fd < 0 && fd >= 0)
        close(fd);
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
    if (code != 0 && !atomic_exchange_explicit(&self->unqueued, true, memory_order_relaxed))
        self->svc->log(self->svc, LOCKER_LOG_WARN,
                       "can't make a ticket in a queue in %.200s: %s; who waits is not served in order",
                       self->path, strerror(code));
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
        lk_file_slot_give_locked(&self->slots, c->ticket_slot);
        c->ticket_fd = -1;
    }
    lk_mutex_unlock(&self->mutex);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
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
    if (copy < 0)
        return;
    close(copy);
    lk_file_queue_poke(self, &c->id);
}

int lk_file_let_go(lk_file *self, lk_file_claim *c, bool had)
{
    const int code = lk_file_range_unlock(c->fd);
    const bool queued = close_ticket(self, c); /* at once: the next one needs nothing of what follows */
    const bool waited = lk_file_range_locked(c->fd, 1);
    /* The lock file's close is what tells the first in the queue, unless that follows a ticket; but not while a forked
     * child has a copy of the descriptor. And a try goes by this time (acquire.c). */
    if (had && waited)
        (void)futimens(c->fd, NULL);
    if (queued)
        remove_ticket(self, c);
    if (queued && !waited) {
        char name[QUEUE_NAME];
        queue_name(name, &c->id);
        (void)unlinkat(self->dir_fd, name, AT_REMOVEDIR); /* not while somebody has a ticket in it */
    }
    lk_file_close(self, c);
    return code;
}

void lk_file_queue_granted(lk_file *self, lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    unfollow_locked(self, c);
    const int fd = c->ticket_fd;
    if (fd >= 0)
        unwatch_locked(self, fd);
    lk_mutex_unlock(&self->mutex);
    if (fd >= 0)
        (void)!write(fd, "", 1);
}

/* ------------------------------------------------------------------ the others' ---- */

/* What a look at a queue tells. */
typedef struct {
    size_t before;            /* tickets before the claim's */
    bool entered;             /* the claim's own is there */
    char ahead[NAME_MAX + 1]; /* the last of those before it */
} survey;

/* A FIFO that was made, and its maker died before it was renamed; or is about to open it, and makes another then. */
static bool is_forgotten(int queue, const char *name)
{
    if (name[0] != '.' || !is_ticket(name + 1))
        return false;
    const int fd = open_other(queue, name);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno == ENXIO;
}

/* The tickets of a queue, to be read and closed. NULL: errno says why. */
static DIR *list_tickets(int fd)
{
    DIR *const d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL && fd >= 0)
        close(fd);
    return d;
}

static DIR *open_tickets(const lk_file *self, const lk_file_id *id)
{
    return list_tickets(open_queue(self, id, false));
}

/* The next one's name, in no order. What was left half made goes meanwhile. */
static const char *next_ticket(DIR *d)
{
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (is_ticket(e->d_name))
            return e->d_name;
        if (is_forgotten(dirfd(d), e->d_name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    return NULL;
}

static survey look_around(DIR *d, const lk_file_claim *c)
{
    survey seen = {.before = 0};
    for (const char *name; (name = next_ticket(d)) != NULL;) {
        const int order = compare_tickets(name, c->ticket);
        seen.entered = seen.entered || order == 0;
        seen.before += order < 0;
        if (order < 0 && (seen.ahead[0] == '\0' || compare_tickets(name, seen.ahead) > 0))
            memcpy(seen.ahead, name, strlen(name) + 1);
    }
    return seen;
}

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
    const int code = watch_locked(self, fd, 0, c) ? 0 : errno; /* EPOLLERR is always told */
    if (code == 0) {
        c->ahead_fd = fd;
        memcpy(c->ahead, name, LK_FILE_TICKET_LENGTH);
    }
    lk_mutex_unlock(&self->mutex);
    if (code != 0)
        close(fd);
    return code;
}

/* The predecessor, where the claim has a ticket. What passes is tried again: a ticket that goes, one that is dead. */
static size_t place_once(lk_file *self, lk_file_claim *c, bool *again)
{
    DIR *const d = open_tickets(self, &c->id);
    if (d == NULL && errno != ENOENT)
        return 1; /* no descriptor: ask again, as one who isn't told */
    const survey seen = d != NULL ? look_around(d, c) : (survey){.before = 0};
    if (!seen.entered) {
        /* It was overtaken, or cleaned away: it comes again, with the time at which it came first. */
        if (close_ticket(self, c))
            remove_ticket(self, c);
        lk_file_queue_enter(self, c);
        *again = c->ticket_fd >= 0;
    } else if (seen.before > 0) {
        const int code = follow(self, c, dirfd(d), seen.ahead);
        if (code == ENXIO)
            (void)unlinkat(dirfd(d), seen.ahead, 0);
        *again = code == ENXIO || code == ENOENT;
    }
    if (d != NULL)
        closedir(d);
    return seen.before;
}

size_t lk_file_queue_place(lk_file *self, lk_file_claim *c)
{
    size_t before = 0;
    for (bool again = c->ticket_fd >= 0; again;) {
        again = false;
        before = place_once(self, c, &again);
    }
    if (before == 0) {
        lk_mutex_lock(&self->mutex);
        unfollow_locked(self, c);
        lk_mutex_unlock(&self->mutex);
    }
    return before;
}

void lk_file_queue_overtake(lk_file *self, const lk_file_claim *c)
{
    DIR *const d = open_tickets(self, &c->id);
    if (d == NULL)
        return;
    for (const char *name; (name = next_ticket(d)) != NULL;)
        if (compare_tickets(name, c->ticket) < 0)
            (void)unlinkat(dirfd(d), name, 0);
    closedir(d);
}

void lk_file_queue_poke(const lk_file *self, const lk_file_id *id)
{
    DIR *const d = open_tickets(self, id);
    if (d == NULL)
        return;
    for (const char *name; (name = next_ticket(d)) != NULL;) {
        /* Read as well, for a writer alone would get SIGPIPE when the owner closes it right now. */
        const int fd = openat(dirfd(d), name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
            continue;
        (void)!write(fd, "", 1); /* never blocks; a FIFO that is full has been poked enough */
        close(fd);
    }
    closedir(d);
}

void lk_file_queue_sweep(const lk_file *self, const char *entry)
{
    DIR *const d = list_tickets(open_directory(self, entry));
    bool empty = d != NULL;
    for (const char *name; empty && (name = next_ticket(d)) != NULL;) {
        const int fd = open_other(dirfd(d), name);
        empty = fd < 0 && errno == ENXIO && unlinkat(dirfd(d), name, 0) == 0;
        if (fd >= 0)
            close(fd);
    }
    if (d != NULL)
        closedir(d);
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

static int is_ticket_entry(const struct dirent *e)
{
    return is_ticket(e->d_name);
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return compare_tickets((*a)->d_name, (*b)->d_name);
}

bool lk_file_queue_list(const lk_file *self, const lk_file_id *id, locker_info *info)
{
    struct dirent **tickets = NULL;
    const int queue = open_queue(self, id, false);
    int count = queue >= 0 ? scandirat(queue, ".", &tickets, is_ticket_entry, compare_entries) : -1;
    if (count >= 0 || errno == ENOENT)
        info->waiters = 0;
    info->queue = count > 0 ? calloc((size_t)count, sizeof *info->queue) : NULL;
    info->queue_stride = sizeof *info->queue;
    for (int i = 0; i < count; i++) {
        if (is_waiting(queue, tickets[i]->d_name)) {
            info->waiters++;
            if (info->queue != NULL)
                read_owner(info->queue[info->queue_len++].owner, tickets[i]->d_name);
        }
        free(tickets[i]);
    }
    const bool listed = count <= 0 || info->queue != NULL;
    free(tickets);
    if (queue >= 0)
        close(queue);
    return listed;
}

/* ------------------------------------------------------------------ events ---- */

/* The predecessor's FIFO has no reader any more. Did it hold? Then nobody is between it and this claim. */
static void ahead_ended_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    int written = 0;
    c->is_next = ioctl(c->ahead_fd, FIONREAD, &written) == 0 && written > 0;
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
            char poke[64];
            if (c == NULL) /* inotify's, which is read by itself (watch.c) */
                continue;
            if (events[i].events & EPOLLERR)
                ahead_ended_locked(self, c);
            else
                (void)!read(c->ticket_fd, poke, sizeof poke);
            c->notified = true;
            if (c->state == LK_FILE_WAITING)
                self->svc->wake(self->svc, c->claim);
        }
    } while (count == AT_ONCE);
}
