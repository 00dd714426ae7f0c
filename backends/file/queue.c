/* queue.c: tickets. Who waits has a FIFO of its own in the lock's queue, a directory ".queue-…" that is named after the
 * lock file's device and inode; the FIFO's name begins with the time of its arrival, so that names sort as their owners
 * came. A waiter has its predecessor's FIFO open for writing: when nobody reads that any more, which is when its owner
 * closes it or dies, the kernel says so (EPOLLERR), to this one waiter alone. The owner keeps its ticket while it
 * holds, so an unlock, a wait that is given up and a kill -9 are one event to the next in line. This is ZooKeeper's
 * recipe for locks, in files: https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks
 *
 * So a queue of n waiters costs n hand-overs, and a list of names for each arrival. Locks on the tickets (F_OFD_SETLKW) would need
 * a thread for each waiter, because no descriptor reports the end of a lock. inotify has 128 instances for a user, and wakes all that
 * watch a file.
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
 * waiter to look again.
 *
 * Who shares the lock, or wants a permit, waits for those before it which have no record (holders.c): for those who wait, and
 * for one that has the lock for itself. When it is granted it has a record, and pokes the next that may hold beside it; it
 * goes on to read its FIFO, for who breaks it says so there, and doesn't write into it, as others may hold when it ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "beside.h"
#include "holders.h"
#include "lk_fd.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"
#include "range.h"
#include "tickets.h"

enum { TICKET_AGAIN = 500 * LK_MS, CLEAN_ODDS = 16 };

static void poke_behind(const lk_file *self, const lk_file_claim *c)
{
    lk_file_tickets t = lk_file_tickets_of(self, &c->id);
    lk_file_tickets_poke_behind(&t, c->ticket, !locker_claim_is_plain(c->claim));
    lk_file_tickets_close(&t);
}

/* Not while somebody has a ticket in it. */
static void remove_queue(const lk_file *self, const lk_file_id *id)
{
    char name[LK_FILE_QUEUE_NAME];
    lk_file_queue_name(name, id);
    (void)unlinkat(self->dir_fd, name, AT_REMOVEDIR);
}

void lk_file_queue_leave(const lk_file *self, const lk_file_id *id)
{
    lk_file_tickets t = lk_file_tickets_of(self, id);
    for (int i = 0; i < t.count; i++)
        (void)lk_file_tickets_poke(&t, i);
    if (t.queue >= 0) /* else the last of them does it */
        remove_queue(self, id);
    lk_file_tickets_close(&t);
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

/* A claim that moves on to another file keeps the time of its arrival. Its number is new, because another process may be about to
 * remove the old ticket. */
static void number_ticket(lk_file_claim *c)
{
    static _Atomic uint32_t last; /* relaxed: a number that no other ticket of the process has */
    char *const number = c->ticket + LK_FILE_TICKET_TIME;
    if (c->ticket[0] == '\0')
        snprintf(c->ticket, sizeof c->ticket, "%016llx", (unsigned long long)lk_time_of(CLOCK_BOOTTIME));
    if (*number == '\0')
        snprintf(number, sizeof c->ticket - LK_FILE_TICKET_TIME, "-%08x-%08x", (unsigned)getpid(),
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

/* Make the FIFO in the queue, of one that `holds` with its record: it never looks like one that waits. 0, or an errno;
 * ENOENT: the queue was removed. */
static int make_ticket(lk_file *self, lk_file_claim *c, int queue, bool holds)
{
    char name[LK_FILE_NAME_SIZE];
    lk_file_ticket_name(name, c);
    if (mknodat(queue, name, S_IFIFO | (self->shared ? 0660 : 0600), 0) != 0)
        return errno;
    const int fd = lk_fd_high(openat(queue, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
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
    else if (holds)
        code = lk_file_holder_write(queue, c);
    if (code == 0 &&
        ((self->shared && !lk_file_share(fd, 0660)) || renameat(queue, name, queue, name + 1) != 0))
        code = errno;
    if (code == 0)
        return 0;
    (void)close_ticket(self, c);
    (void)unlinkat(queue, name, 0);
    if (holds)
        (void)lk_file_holder_end(self, c);
    return code;
}

static bool has_name(int fd)
{
    struct stat s;
    return fstat(fd, &s) != 0 || s.st_nlink > 0;
}

static int enter(lk_file *self, lk_file_claim *c, bool holds)
{
    number_ticket(c);
    int code, i = 0;
    do { /* a sweep, or who leaves, may remove the queue as soon as it is made */
        const int queue = lk_file_queue_open(self, &c->id, true);
        code = queue < 0 ? errno : make_ticket(self, c, queue, holds);
        if (queue >= 0)
            close(queue);
    } while (code == ENOENT && has_name(self->dir_fd) && lk_file_sweep_await(i++));
    if (code != 0)
        remove_queue(self, &c->id);
    return code;
}

void lk_file_queue_enter(lk_file *self, lk_file_claim *c)
{
    const int code = enter(self, c, false);
    c->ticket_at = lk_file_now(self) + TICKET_AGAIN;
    if (code != 0 && !atomic_exchange_explicit(&self->unqueued, true, memory_order_relaxed))
        self->svc->log(self->svc, LOCKER_LOG_WARN,
                       "cannot create a waiter's ticket in %.200s: %s; waiters may get the lock out of order",
                       self->path, strerror(code));
}

/* Remove the name of a ticket that was closed. */
static void remove_ticket(const lk_file *self, const lk_file_claim *c)
{
    char path[LK_FILE_QUEUE_NAME + LK_FILE_NAME_SIZE];
    lk_file_queue_name(path, &c->id);
    char *const name = path + strlen(path);
    lk_file_ticket_name(name, c);
    *name = '/';
    const int copy = lk_file_ticket_open(self->dir_fd, path);
    (void)unlinkat(self->dir_fd, path, 0);
    if (copy >= 0)
        poke_behind(self, c);
    if (copy >= 0)
        close(copy);
}

/* ------------------------------------------------------------------ beside others ---- */

int lk_file_queue_hold(lk_file *self, lk_file_claim *c)
{
    if (c->ticket_fd < 0)
        return enter(self, c, true);
    const int queue = lk_file_queue_open(self, &c->id, true);
    const int code = queue < 0 ? errno : lk_file_holder_write(queue, c);
    if (queue >= 0)
        close(queue);
    const bool removed = code == ENOENT;
    if ((code != 0 && !removed) || (code == 0 && has_name(c->ticket_fd)))
        return code;
    /* It was overtaken, and the queue may have been removed since. Without a ticket nobody tells it that it was broken, and its
     * record looks like one of the dead. */
    (void)close_ticket(self, c);
    return enter(self, c, removed);
}

void lk_file_queue_look_locked(lk_file *self, lk_file_claim *c)
{
    if (c->broken || c->state != LK_FILE_HELD || locker_claim_is_plain(c->claim))
        return;
    c->broken = lk_file_holder_is_broken(self, c);
    if (c->broken)
        self->svc->lease_lost(self->svc, c->claim, "it was broken");
}

/* Whether one of the tickets is that of the record. */
static bool has_ticket(const lk_file_tickets *t, const char *record)
{
    char ticket[LK_FILE_TICKET_LENGTH + 1];
    snprintf(ticket, sizeof ticket, "%.16s-%.8s-%.8s", record + 1, record + 17, record + 25);
    const int i = lk_file_tickets_find(t, ticket);
    return i < t->count && lk_file_ticket_compare(t->all[i]->d_name, ticket) == 0;
}

static void bury_dead(const lk_file_tickets *t)
{
    for (int i = 0; i < t->count; i++) {
        const int fd = lk_file_ticket_open(t->queue, t->all[i]->d_name);
        if (fd >= 0)
            close(fd);
        else if (errno == ENXIO)
            lk_file_tickets_bury(t, i);
    }
}

/* What the dead have left. The kernel has the last word: a name that is being changed can be missing in a long list, and others can
 * have deleted a ticket. */
static void clean(const lk_file_tickets *t, int file)
{
    for (int i = 0; i < t->record_count && !t->half_made; i++)
        if (!has_ticket(t, t->record[i]->d_name) &&
            !lk_file_holder_lives(t->queue, t->record[i]->d_name, file))
            (void)unlinkat(t->queue, t->record[i]->d_name, 0);
    bury_dead(t);
}

/* True if this claim cleans up, as seldom as it pays: removing and making the queue's directory each time was four fifths of a lone
 * reader's cycle (2.8 ms, without it 0.5 ms, on ext4).
 * By the time of its arrival, which says nothing else: one in sixteen, and of many that one locker holds fewer, as each looks at all. */
static bool is_chosen(lk_file *self, const lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    const size_t odds = CLEAN_ODDS + self->held;
    lk_mutex_unlock(&self->mutex);
    return strtoull(c->ticket, NULL, 16) % odds == 0;
}

/* What the dead left goes with the last who lives, and now and then with another. */
static void clean_up_behind(lk_file *self, const lk_file_claim *c, bool last)
{
    if (!last && !is_chosen(self, c))
        return;
    lk_file_tickets t = lk_file_tickets_of(self, &c->id);
    clean(&t, c->fd);
    lk_file_tickets_close(&t);
}

int lk_file_let_go(lk_file *self, lk_file_claim *c, bool had)
{
    const bool beside = !locker_claim_is_plain(c->claim);
    const bool waited = had && lk_file_range_locked(c->fd, 1);
    if (waited) /* who comes now goes by this time (acquire.c) */
        (void)futimens(c->fd, NULL);
    const bool last = beside && had && !waited && !lk_file_range_locked(c->fd, 0);
    const int code = beside ? lk_file_whole_lock(c->fd, F_UNLCK) : lk_file_range_unlock(c->fd);
    const bool queued = close_ticket(self, c); /* at once: the next one needs nothing of what follows */
    /* The lock file's close is what tells the first in the queue, unless that follows a ticket; but not while a forked
     * child has a copy of the descriptor. */
    if (waited)
        (void)futimens(c->fd, NULL);
    /* Not before the lock is let go of: while it isn't, the record of one that was broken lets others in. */
    if (beside && had)
        lk_file_holder_forget(self, c);
    if (had && c->claim->permits > 0)
        lk_file_permit_note(self, c, c->claim->slot);
    if (queued) {
        remove_ticket(self, c);
        if (beside && had)
            clean_up_behind(self, c, last);
        /* Who holds beside others needs it each time, and making it anew takes longer than all the rest. Nobody comes to that of
         * a file that was replaced or removed. */
        if (!beside || is_chosen(self, c) || !has_name(c->fd))
            remove_queue(self, &c->id);
    }
    c->ticket[LK_FILE_TICKET_TIME] = '\0';
    lk_file_close(self, c);
    return code;
}

void lk_file_queue_granted(lk_file *self, lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    unfollow_locked(self, c);
    const int fd = c->ticket_fd;
    const bool poked = c->poked, beside = !locker_claim_is_plain(c->claim);
    if (fd >= 0 && !beside)
        unwatch_locked(self, fd);
    lk_mutex_unlock(&self->mutex);
    if (beside && lk_file_range_locked(c->fd, 1))
        poke_behind(self, c);
    if (fd < 0 || beside)
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
    const bool followed = c->ahead_fd >= 0 && lk_file_ticket_compare(c->ahead, name) == 0;
    lk_mutex_unlock(&self->mutex);
    if (followed)
        return 0;
    const int fd = lk_file_ticket_open(queue, name);
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

/* Whether the claim may hold though the ticket's owner does, or it holds no more. */
static bool is_beside(const lk_file_tickets *t, const lk_file_claim *c, const char *ticket)
{
    return lk_file_tickets_has(t, LK_FILE_RECORD_BROKEN, ticket) ||
           (!locker_claim_is_plain(c->claim) && lk_file_tickets_has(t, LK_FILE_RECORD_HELD, ticket));
}

/* Follow the last before the claim who lives, and for whom it waits. How many stand before it. */
static size_t follow_last(lk_file *self, lk_file_claim *c, const lk_file_tickets *t)
{
    for (int i = lk_file_tickets_find(t, c->ticket) - 1; i >= 0; i--) {
        if (is_beside(t, c, t->all[i]->d_name))
            continue;
        const int code = follow(self, c, t->queue, t->all[i]->d_name);
        if (code != 0)
            unfollow(self, c);
        if (code == 0 || is_want(code))
            return (size_t)i + 1;
        if (code == ENXIO)
            lk_file_tickets_bury(t, i);
    }
    unfollow(self, c);
    return 0;
}

static bool is_entered(const lk_file_tickets *t, const lk_file_claim *c)
{
    const int i = lk_file_tickets_find(t, c->ticket);
    return i < t->count && lk_file_ticket_compare(t->all[i]->d_name, c->ticket) == 0;
}

/* One who wants permits ('p'), or the lock for itself (NUL), stands before the claim. */
static bool is_behind(const lk_file_tickets *t, const lk_file_claim *c, char what)
{
    for (int i = lk_file_tickets_find(t, c->ticket) - 1; i >= 0; i--) {
        const char *const is = t->all[i]->d_name + LK_FILE_TICKET_LENGTH;
        if (what == '\0' ? is[0] != '+' : is[0] == '+' && is[1] == what)
            return true;
    }
    return false;
}

size_t lk_file_queue_place(lk_file *self, lk_file_claim *c, bool fresh)
{
    if (c->ticket_fd < 0 && lk_file_now(self) >= c->ticket_at) { /* none could be made before */
        lk_file_queue_enter(self, c);
        fresh = true;
    }
    if (c->ticket_fd < 0)
        return 0;
    lk_file_tickets t = lk_file_tickets_of(self, &c->id);
    if (!is_entered(&t, c) && (t.queue >= 0 || t.code == ENOENT)) {
        /* It was overtaken, or cleaned away: it comes again, with the time at which it came first. */
        lk_file_tickets_close(&t);
        if (close_ticket(self, c))
            remove_ticket(self, c);
        lk_file_queue_enter(self, c);
        t = lk_file_tickets_of(self, &c->id);
        fresh = true;
    }
    size_t before = 1; /* where it can't be known: ask again, as one who isn't told */
    if (t.queue >= 0)
        before = follow_last(self, c, &t);
    c->behind_plain = locker_claim_is_plain(c->claim) || is_behind(&t, c, '\0');
    c->mixed = fresh && c->claim->permits == 0 && is_behind(&t, c, 'p');
    /* Who came later may have been faster: it follows another, or is to be next behind one that holds. */
    if (fresh)
        lk_file_tickets_poke_behind(&t, c->ticket, false);
    lk_file_tickets_close(&t);
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
    lk_file_tickets t = lk_file_tickets_of(self, &c->id);
    for (int i = lk_file_tickets_find(&t, c->ticket) - 1; i >= 0; i--)
        if (!lk_file_tickets_has(&t, LK_FILE_RECORD_HELD, t.all[i]->d_name))
            (void)unlinkat(t.queue, t.all[i]->d_name, 0);
    lk_file_tickets_close(&t);
}

void lk_file_queue_sweep(const lk_file *self, const char *entry)
{
    lk_file_tickets t = lk_file_tickets_list(lk_file_queue_open_name(self, entry));
    bury_dead(&t);
    if (t.queue >= 0)
        (void)unlinkat(self->dir_fd, entry, AT_REMOVEDIR); /* unless something stays */
    lk_file_tickets_close(&t);
}

void lk_file_queue_end(const lk_file *self, const lk_file_id *id)
{
    lk_file_tickets t = lk_file_tickets_of(self, id);
    for (int i = 0; i < t.record_count; i++)
        (void)unlinkat(t.queue, t.record[i]->d_name, 0);
    if (t.queue >= 0)
        remove_queue(self, id);
    lk_file_tickets_close(&t);
}

/* Whether its owner lives, and waits. */
static bool is_waiting(const lk_file_tickets *t, const char *name)
{
    if (lk_file_tickets_has(t, LK_FILE_RECORD_HELD, name) ||
        lk_file_tickets_has(t, LK_FILE_RECORD_BROKEN, name))
        return false;
    const int fd = lk_file_ticket_open(t->queue, name);
    int written = 0;
    const bool waits = fd >= 0 && ioctl(fd, FIONREAD, &written) == 0 && written == 0;
    if (fd >= 0)
        close(fd);
    return waits;
}

bool lk_file_queue_list(const lk_file_tickets *t, locker_info *info)
{
    if (t->queue >= 0 || t->code == ENOENT)
        info->waiters = 0;
    info->queue = t->count > 0 ? calloc((size_t)t->count, sizeof *info->queue) : NULL;
    info->queue_stride = sizeof *info->queue;
    const bool enough = t->count == 0 || info->queue != NULL;
    for (int i = 0; i < t->count && enough; i++) {
        if (!is_waiting(t, t->all[i]->d_name))
            continue;
        info->waiters++;
        lk_file_ticket_read(t->all[i]->d_name, &info->queue[info->queue_len++]);
    }
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
            lk_file_queue_look_locked(self, c);
            if (c->state == LK_FILE_WAITING)
                self->svc->wake(self->svc, c->claim);
        }
    } while (count == AT_ONCE);
}
