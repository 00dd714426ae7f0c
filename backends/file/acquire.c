/* acquire.c: one attempt to lock a file (grant.c), and what follows it: a claim that will wait is enrolled in the lock's queue
 * (queue.c).
 *
 * How no wake-up is lost. A waiter keeps its descriptor open, marks byte 1, takes a ticket and only then looks who is
 * before it. It follows its predecessor, whose end can't be missed. The first has none: it watches the lock file and
 * only then tries a second time: a holder that lets go after that try makes an event which the watch sees. The
 * kernel reports a dying holder's close a moment before it drops the lock, so an attempt that fails right after an
 * event, or right after the enrolment, is repeated at growing distances; and each second for as long as it
 * waits, because nothing bounds that moment on a busy host. A waiter never closes its descriptor between
 * attempts: that would be an event for the first. Those behind look as well, more seldom, whether something moved
 * that no event tells: the file was replaced, a child has copies of the predecessor's descriptors.
 *
 * A queue whose first doesn't come, because it was stopped, must not keep a free lock from others: a waiter that sees
 * it free at two looks, with nothing written in between, overtakes who is before it; and who comes takes what has been
 * free for longer than waiters need for that, so that those who come don't take it from those who wait again and again. How
 * long it has been free the file's time tells, for whoever lets go touches it; only where its holder died that is longer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "beside.h"
#include "directory.h"
#include "grant.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"
#include "range.h"
#include "watch.h"

enum {
    ROUNDS = 16,               /* attempts on a file that keeps being replaced */
    BREAK_MAX = 100 * LK_MS,   /* for so long a try waits for the end of a break ... */
    BREAK_PAUSE = 100 * LK_US, /* ... at first with such a pause between its looks */
    BREAK_PAUSE_MAX = LK_MS,
    POLL_MAX = 1000 * LK_MS,          /* the repetitions' distance in the end */
    POLL_WITHOUT_EVENTS = 50 * LK_MS, /* between attempts when inotify is not to be had */
    LOOK_MAX = 3,    /* s; between looks of those behind; the kernel goes through all their marks then */
    LOOK_MANY = 100, /* ... so of one behind more than 300 a second later for so many each */
    STALLED = 1000,  /* ms, that a lock is free with waiters, none of which takes it */
    CONFIRM = 100,   /* ms, between two looks at one that seems to be stalled */
    DESERTED = 5000  /* ms: more than the first STALLED, the time between two looks and CONFIRM */
};

/* Open the file, see that it can be used before anything is written to it, and enter its descriptor, so that
 * a child forked from here on knows it. */
static locker_status open_claim(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    c->fd = lk_file_open(self, name, O_RDWR | O_CREAT);
    if (c->fd < 0 && errno == ENOENT)
        return LK_FILE_AGAIN; /* a sweep removed a directory that was empty, or the lock directory is gone */
    if (c->fd < 0)
        return lk_file_fail(self, "open", name, errno, err);
    struct statx s;
    lk_file_record record;
    lk_file_reading reading;
    locker_status status = lk_file_check(self, name, c->fd, &s, err);
    if (status == LOCKER_OK) {
        c->id = lk_file_id_of(&s);
        if (!lk_file_list(self, c))
            status = locker_error_set(err, LOCKER_NOMEM, 0, "out of memory for the lock's descriptor");
    }
    /* The group needs the right to write, which the umask may have taken. */
    if (status == LOCKER_OK && self->shared && s.stx_uid == self->uid && (s.stx_mode & 0777) != 0660 &&
        lk_file_record_read(c->fd, &record, &reading) == 0 && reading != LK_FILE_RECORD_FOREIGN &&
        fchmod(c->fd, 0660) != 0)
        status = lk_file_fail(self, "set the mode of", name, errno, err);
    if (status != LOCKER_OK)
        lk_file_close(self, c);
    return status;
}

/* A try that fails closes a descriptor that could write, which wakes all waiters for nothing. So one that
 * failed before on this name looks through a descriptor that can't write. */
static bool looks_busy(lk_file *self, const lk_file_name *name)
{
    _Atomic uint32_t *memo = &self->busy[name->hash % LK_FILE_BUSY_NAMES];
    if (LK_READ(*memo) != name->hash)
        return false;
    const int fd = lk_file_open(self, name, O_RDONLY);
    if (fd < 0)
        return false;
    const bool locked = lk_file_range_met(fd, F_WRLCK, 0) == F_WRLCK; /* and not beside others */
    close(fd);
    if (!locked)
        LK_WRITE(*memo, 0);
    return locked;
}

/* When to try again without an event. The token tells whether the event meant that another was faster, which
 * is the usual case and hardly needs a repetition, or that the holder is just dying. */
static void set_retry(lk_file *self, lk_file_claim *c, bool first, bool notified, bool watched)
{
    const int64_t now = lk_file_now(self);
    if (first || notified) {
        lk_file_record record;
        lk_file_reading reading;
        const bool changed = lk_file_record_read(c->fd, &record, &reading) != 0 || record.token != c->seen;
        c->seen = record.token;
        c->poll_ns = first || !changed ? 1 * LK_MS : 8 * LK_MS;
        c->poll_factor = first ? 5 : changed ? 8 : 2;
    }
    c->claim->retry_at = now + (watched ? c->poll_ns : POLL_WITHOUT_EVENTS);
    c->poll_ns = lk_time_earlier(c->poll_ns * c->poll_factor, POLL_MAX);
}

/* For how long nobody has written to the file, or let go of it. A time that is yet to come says nothing: the clock was set
 * back since. */
static int64_t untouched_for(const lk_file_claim *c)
{
    struct stat s;
    if (fstat(c->fd, &s) != 0)
        return 0;
    const int64_t age = lk_time_of(CLOCK_REALTIME) - ((int64_t)s.st_mtim.tv_sec * LK_S + s.st_mtim.tv_nsec);
    return age >= 0 ? age : INT64_MAX;
}

/* Whether the claim could have the lock but for those before it. */
static bool is_free(lk_file *self, const lk_file_claim *c)
{
    static const lk_file_broken none;
    if (c->behind_plain)
        return !lk_file_range_locked(c->fd, 0);
    return lk_file_range_met(c->fd, F_RDLCK, 0) == F_UNLCK &&
           (c->claim->permits == 0 || lk_file_permit_find(self, c, &none, INT32_MAX) >= 0);
}

/* Whether the lock is free, and was at the last look, and nobody had it meanwhile. */
static bool is_stalled(lk_file *self, lk_file_claim *c)
{
    const bool was_free = c->was_free;
    c->was_free = is_free(self, c);
    if (!c->was_free)
        return false;
    const int64_t now = lk_file_now(self);
    lk_file_record record;
    lk_file_reading reading;
    if (lk_file_record_read(c->fd, &record, &reading) == 0 && was_free && record.token == c->seen)
        return now - c->looked_at >= c->stalled_ns;
    c->seen = record.token;
    c->looked_at = now;
    c->stalled_ns = (untouched_for(c) < STALLED * LK_MS ? STALLED : CONFIRM) * LK_MS;
    return false;
}

/* Not the first: told of the predecessor's end, it looks by itself the more seldom the farther behind it is. */
static void wait_behind(lk_file *self, lk_file_claim *c, size_t before)
{
    lk_mutex_lock(&self->mutex);
    const bool told = c->ahead_fd >= 0;
    lk_mutex_unlock(&self->mutex);
    const size_t most = before / LOOK_MANY > LOOK_MAX ? before / LOOK_MANY : LOOK_MAX;
    const int64_t pause = c->was_free ? c->stalled_ns : (int64_t)(before < most ? before : most) * LK_S;
    c->claim->retry_at = lk_file_now(self) + (told ? pause : POLL_WITHOUT_EVENTS);
}

/* One that is enrolled, `fresh` right behind that: try the lock if it is the claim's turn. */
static locker_status wait_on(lk_file *self, const lk_file_name *name, lk_file_claim *c, bool fresh,
                             locker_error *err)
{
    lk_mutex_lock(&self->mutex);
    bool notified = c->notified;
    const bool next = c->is_next;
    c->notified = c->is_next = false;
    lk_mutex_unlock(&self->mutex);
    locker_status status = next ? lk_file_take(self, name, c, err) : LOCKER_BUSY;
    if (status != LOCKER_BUSY || c->fd < 0)
        return status;
    const bool looks =
        !fresh && !notified && locker_claim_is_plain(c->claim) && lk_file_queue_is_steady(self, c);
    const size_t before = looks ? c->before : lk_file_queue_place(self, c, fresh);
    if (fresh && c->mixed && lk_file_use_of_others(c->fd) > 0)
        return locker_other_use(err, lk_file_use_of_others(c->fd), 0);
    const bool turn = before == 0 || is_stalled(self, c);
    bool watched = false, newly = false;
    if (turn) {
        if (before > 0)
            lk_file_queue_overtake(self, c);
        lk_mutex_lock(&self->mutex);
        watched = c->wd != 0;
        if (!watched)
            newly = watched = lk_file_watch_add_locked(self, c);
        lk_mutex_unlock(&self->mutex);
        if (!watched)
            lk_file_watch_warn(self);
    }
    /* Replaced before the watch was there: the new file is the one to wait for. */
    status = lk_file_confirm(self, name, &c->id, err);
    if (status == LOCKER_OK)
        status = turn ? lk_file_take(self, name, c, err) : LOCKER_BUSY;
    if (status != LOCKER_BUSY || c->fd < 0)
        return status;
    if (turn)
        set_retry(self, c, fresh || newly, notified, watched);
    else
        wait_behind(self, c, before);
    if (newly && !fresh) /* its predecessor may be dying right now, on a busy machine */
        c->poll_factor = 2;
    return status;
}

/* Others wait, so this isn't the turn of one who comes; but when none of them takes the lock. *met: how it is held. */
static bool must_queue(const lk_file_claim *c, short *met)
{
    *met = F_UNLCK;
    return lk_file_range_locked(c->fd, 1) &&
           ((*met = lk_file_range_met(c->fd, F_WRLCK, 0)) != F_UNLCK || untouched_for(c) < DESERTED * LK_MS);
}

/* Locked by another, or waited for, and met for the first time. */
static locker_status enrol(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    if (!c->claim->will_wait) {
        /* Who has a file that a sweep has removed finds that out, and has no lock. */
        const bool removed = lk_file_confirm(self, name, &c->id, err) == LK_FILE_AGAIN;
        if (locker_claim_is_plain(c->claim))
            lk_file_close(self, c);
        else
            lk_file_reset(self, c, false);
        if (removed)
            return LK_FILE_AGAIN;
        LK_WRITE(self->busy[name->hash % LK_FILE_BUSY_NAMES], name->hash);
        return LOCKER_BUSY;
    }
    lk_mutex_lock(&self->mutex);
    c->state = LK_FILE_WAITING;
    lk_mutex_unlock(&self->mutex);
    short met;
    const int code = lk_file_range_take(c->fd, F_RDLCK, 1, &met);
    if (code == EAGAIN) { /* a sweep is removing the file, and takes long */
        lk_file_reset(self, c, false);
        c->claim->retry_at = lk_file_now(self) + POLL_WITHOUT_EVENTS;
        return LOCKER_BUSY;
    }
    if (code != 0)
        return lk_file_fail(self, "register a waiter in", name, code, err);
    lk_file_queue_enter(self, c);
    return wait_on(self, name, c, true, err);
}

/* The file is open: its first attempt, but when it is another's turn. */
static locker_status come_in(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    short met = F_UNLCK;
    const locker_status status = !c->claim->will_wait && lk_file_range_locked(c->fd, 2)
                                     ? LK_FILE_MET_BREAKER
                                     : lk_file_join(self, name, c, err);
    if (status != LOCKER_OK) {
        lk_file_reset(self, c, false);
        return status;
    }
    /* One that has waited for a file that was replaced stands in line with its like. */
    if (c->ticket[0] == '\0' && !must_queue(c, &met))
        return lk_file_take(self, name, c, err);
    return met == F_RDLCK && locker_claim_is_plain(c->claim)
               ? lk_file_kept_out(self, name, c, lk_file_use_of_others(c->fd), err)
               : LOCKER_BUSY;
}

static locker_status come(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    if (!c->claim->will_wait && c->claim->permits == 0 && looks_busy(self, name))
        return LOCKER_BUSY;
    locker_status status = open_claim(self, name, c, err);
    if (status != LOCKER_OK)
        return status;
    status = come_in(self, name, c, err);
    if (status == LOCKER_BUSY && c->fd >= 0)
        return enrol(self, name, c, err);
    if (status != LOCKER_OK && c->fd >= 0)
        lk_file_reset(self, c, false);
    return status;
}

static locker_status attempt(lk_file *self, const lk_file_name *name, lk_file_claim *c, locker_error *err)
{
    const locker_status status =
        c->state == LK_FILE_NONE ? come(self, name, c, err) : wait_on(self, name, c, false, err);
    if (status != LOCKER_OK && status != LOCKER_BUSY && c->state != LK_FILE_NONE)
        lk_file_reset(self, c, false);
    return status;
}

/* Attempt, and wait for a break that is under way. During a break neither BUSY nor OK would be true: the holder is about to lose the
 * lock. A try waits for BREAK_MAX at most. A waiting claim is attempted again soon. */
static locker_status attempt_beside_breaks(lk_file *self, const lk_file_name *name, lk_file_claim *c,
                                           locker_error *err)
{
    locker_status status = attempt(self, name, c, err);
    if (status == LK_FILE_MET_BREAKER && c->claim->will_wait) {
        lk_file_retry_later(self, c);
        return LOCKER_BUSY;
    }
    if (status != LK_FILE_MET_BREAKER)
        return status;
    const int64_t until = lk_time_of(CLOCK_MONOTONIC) + BREAK_MAX;
    for (int64_t pause = BREAK_PAUSE; status == LK_FILE_MET_BREAKER;
         pause = lk_time_earlier(2 * pause, BREAK_PAUSE_MAX)) {
        if (lk_time_of(CLOCK_MONOTONIC) > until)
            return lk_unavailable(err, "another call is breaking the lock of %.150s/%.150s; try again",
                                  self->path, name->text);
        const struct timespec nap = lk_time_spec(pause);
        ppoll(NULL, 0, &nap, NULL);
        status = attempt(self, name, c, err);
    }
    return status;
}

locker_status lk_file_acquire(void *self_, locker_claim *claim, locker_error *err)
{
    lk_file *self = self_;
    lk_file_claim *c = claim->data;
    locker_status status = LK_READ(self->moved) ? lk_file_stay(self, err) : LOCKER_OK;
    if (status != LOCKER_OK)
        return status;
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, claim->key, claim->key_len);
    if (c->state == LK_FILE_NONE) { /* once enrolled, dispatch reads them */
        c->claim = claim;
        c->hash = name.hash;
        c->deep = name.last != 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        status = attempt_beside_breaks(self, &name, c, err);
        /* Whose file is another's by now, or out of reach, may be in a directory that is. One that was moved stays away. */
        const bool suspect = status == LK_FILE_AGAIN || status == LOCKER_UNAVAILABLE ||
                             (status == LOCKER_BUSY && !claim->will_wait);
        if (suspect && lk_file_moved(self)) {
            status = lk_file_stay(self, err);
            if (status == LOCKER_OK)
                continue;
            return status;
        }
        /* No descriptor left, no room, a path that can't be walked: such things pass, and who has begun to wait goes
         * on over them; who only asks for the first time is told at once. */
        if (status == LOCKER_UNAVAILABLE && claim->has_waited)
            claim->retry_at = lk_file_now(self) + POLL_MAX;
        if (status != LK_FILE_AGAIN)
            return status;
    }
    claim->retry_at = lk_file_now(self) + POLL_WITHOUT_EVENTS;
    return lk_unavailable(err,
                          "the lock file %.150s/%.150s was replaced during each attempt to lock it; find "
                          "the program that replaces it",
                          self->path, name.text);
}
