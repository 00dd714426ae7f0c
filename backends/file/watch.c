/* watch.c: inotify. A claim that waits has a watch on its lock file; all grants together have one watch on
 * the lock directory, which shows when a file is put in the place of another, or moved, so that a lock costs
 * nothing for it. It doesn't show that a file was removed, because sweeps remove many: a grant that lasts gets
 * a watch of its own for that. Grants whose files lie deeper have a watch each. What no event tells, dispatch
 * looks for each second while there are grants.
 *
 * The inotify descriptor is made when first needed, because a user may have few of them (128 by default).
 * When it is not to be had, waiters poll (acquire.c) and dispatch looks after the grants every 50 ms. Its number
 * is taken when the locker is opened, so that it is lower than those of the lock files: the kernel ends the
 * descriptors of a process that dies from the highest down, ending inotify's waits for the marks of all processes
 * (a quarter of a second on a busy host), and a lock is to be free before that.
 *
 * A watch without claims stays until its next event, usually our release: removing it makes one as well. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "directory.h"
#include "lk_fd.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"
#include "sweep.h"
#include "watch.h"

#define FILE_EVENTS (IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define HELD_EVENTS                                                                                          \
    (IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF) /* an open file that is removed changes its count of links */
#define DIRECTORY_EVENTS (IN_MOVED_TO | IN_MOVED_FROM | IN_MOVE_SELF | IN_ONLYDIR)
enum { ABOVE_MAX = 64 }; /* directories above ours, as deep as paths come */
static const int64_t look_interval_ns = LK_S;
static const int64_t unwatched_interval_ns = 50 * LK_MS; /* without inotify */
static const int64_t touch_interval_ns = 24 * (3600 * LK_S);

int lk_file_descriptor(void *self)
{
    return ((lk_file *)self)->epoll_fd;
}

void lk_file_watch_warn(lk_file *self)
{
    if (atomic_exchange_explicit(&self->warned, true, memory_order_relaxed))
        return;
    const int code = LK_READ(self->watch_code);
    const char *const advice = code == ENOSPC   ? "raise fs.inotify.max_user_watches"
                               : code == EMFILE ? "raise fs.inotify.max_user_instances or ulimit -n"
                                                : "find the cause of this error";
    self->svc->log(self->svc, LOCKER_LOG_WARN,
                   "cannot watch %.200s with inotify: %s; waiters poll every 50 ms; %s", self->path,
                   strerror(code), advice);
}

static bool start_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    if (self->inotify_fd >= 0)
        return true;
    const int fd = lk_fd_high(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (fd < 0)
        return false;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (dup3(fd, self->watch_fd, O_CLOEXEC) >= 0 &&
        epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, self->watch_fd, &event) == 0)
        self->inotify_fd = self->watch_fd;
    close(fd);
    return self->inotify_fd >= 0;
}

/* The path of the claim's lock file, or of the lock directory (NULL), with `behind` after it. */
static void set_path(const lk_file *self, const lk_file_claim *c, const char *behind, char path[PATH_MAX])
{
    lk_file_name name = {.text = ""};
    if (c != NULL)
        lk_file_name_set(&name, self->prefix, c->claim->key, c->claim->key_len);
    (void)snprintf(path, PATH_MAX, "%s/%s%s", self->path, name.text, behind);
}

/* Watch what is behind the open file, which is the claim's, or the lock directory (NULL). -1: errno says why not. Through /proc the
 * open file itself is watched, whatever is at its name by then: the thread's own entry, for the process's has no descriptors once
 * main() has ended. Where there is no /proc, what is at the path is watched; the callers look behind that whether it is that file. */
static int add_behind_locked(lk_file *self, int fd, const lk_file_claim *c, const char *behind,
                             uint32_t events) LK_REQUIRES(self->mutex)
{
    char path[PATH_MAX];
    if (!start_locked(self))
        return -1;
    snprintf(path, sizeof path, "/proc/thread-self/fd/%d%s", fd, behind);
    const int wd = inotify_add_watch(self->inotify_fd, path, events);
    if (wd >= 0 || (errno != ENOENT && errno != ENOTDIR))
        return wd;
    set_path(self, c, behind, path);
    return inotify_add_watch(self->inotify_fd, path, events | IN_DONT_FOLLOW);
}

static int add_descriptor_locked(lk_file *self, int fd, const lk_file_claim *c, uint32_t events)
    LK_REQUIRES(self->mutex)
{
    const int wd = add_behind_locked(self, fd, c, "", events);
    if (wd < 0)
        LK_WRITE(self->watch_code, errno);
    return wd;
}

static void break_grant_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    if (c->state != LK_FILE_HELD || c->broken)
        return;
    c->broken = true;
    self->svc->lease_lost(self->svc, c->claim,
                          "the lock was broken: its file was replaced, moved or removed");
}

static void look_at_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    if (c->state == LK_FILE_HELD && !c->broken && lk_file_look(self, c) == ESTALE)
        break_grant_locked(self, c);
}

/* Have a move of a directory above ours noticed: no look sees it once that was put back, and others may have had a
 * lock directory of their own at the path meanwhile. One that we may not read can't be watched. */
static void watch_above_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    char above[3 * ABOVE_MAX + 1] = "";
    for (size_t i = 0; i < ABOVE_MAX; i++) {
        memcpy(above + 3 * i, "/..", sizeof "/..");
        const int wd = add_behind_locked(self, self->dir_fd, NULL, above, IN_MOVE_SELF);
        if (wd >= 0 && wd == self->above_wd)
            return; /* the root, which is above itself */
        if (wd >= 0)
            self->above_wd = wd;
    }
}

bool lk_file_watch_directory_locked(lk_file *self)
{
    self->dir_wd = add_descriptor_locked(self, self->dir_fd, NULL, DIRECTORY_EVENTS);
    self->above_wd = self->dir_wd;
    if (self->dir_wd >= 0)
        watch_above_locked(self);
    return self->dir_wd >= 0;
}

bool lk_file_watch_add_locked(lk_file *self, lk_file_claim *c)
{
    /* The mutex is held over it, because dispatch could otherwise remove a watch that this call returns. */
    const int wd = lk_table_reserve(&self->watches) ? add_descriptor_locked(self, c->fd, c, FILE_EVENTS) : -1;
    if (wd < 0)
        return false;
    c->wd = wd;
    lk_table_add(&self->watches, &c->by_wd, (uint32_t)wd);
    return true;
}

/* The outermost is a name in ours, whose move the watch on that tells. */
bool lk_file_watch_parts_locked(lk_file *self, const lk_file_name *name)
{
    enum { ONE = LK_FILE_PART + 3 }; /* with its suffix, and the '/' behind that */
    char behind[LK_FILE_PATH_MAX];
    for (size_t end = (size_t)2 * ONE; end <= name->last; end += ONE) {
        (void)snprintf(behind, sizeof behind, "/%.*s", (int)end - 1, name->text);
        if (add_behind_locked(self, self->dir_fd, NULL, behind, IN_MOVE_SELF | IN_ONLYDIR) < 0)
            return false;
    }
    return true;
}

static bool is_watched_locked(const lk_file *self, int wd) LK_REQUIRES(self->mutex)
{
    LK_TABLE_EACH_OF(link, &self->watches, (uint32_t)wd)
        if (LK_CONTAINER(link, lk_file_claim, by_wd)->wd == wd)
            return true;
    return false;
}

/* A watch for a grant, which tells nothing of those that try and fail. */
static void watch_held_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    const int wd = lk_table_reserve(&self->watches) ? add_descriptor_locked(self, c->fd, c, HELD_EVENTS) : -1;
    if (wd < 0)
        return;
    if (is_watched_locked(self, wd)) /* one who waits for the same file in this instance wants to hear more */
        (void)add_descriptor_locked(self, c->fd, c, FILE_EVENTS);
    c->wd = wd;
    lk_table_add(&self->watches, &c->by_wd, (uint32_t)wd);
}

/* None of our own events ends it, and it would tell of the file's removal by a sweep. */
static void leave_held_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex)
{
    const int wd = c->wd;
    lk_file_watch_drop_locked(self, c);
    if (!is_watched_locked(self, wd))
        (void)inotify_rm_watch(self->inotify_fd, wd);
}

void lk_file_watch_drop_locked(lk_file *self, lk_file_claim *c)
{
    if (c->wd == 0)
        return;
    lk_table_remove(&self->watches, &c->by_wd);
    c->wd = 0;
}

/* Look at a grant's file, unless a look of the same pass has just seen it at its name: many permits are in one file. */
static void look_once_locked(lk_file *self, lk_file_claim *c, const lk_file_claim **seen)
    LK_REQUIRES(self->mutex)
{
    const lk_file_claim *const last = *seen;
    if (last != NULL && last->hash == c->hash && last->id.inode == c->id.inode &&
        last->claim->key_len == c->claim->key_len &&
        memcmp(last->claim->key, c->claim->key, c->claim->key_len) == 0)
        return;
    look_at_locked(self, c);
    *seen = c->state == LK_FILE_HELD && !c->broken ? c : NULL;
}

static void notify_locked(lk_file *self, lk_file_claim *c, const lk_file_claim **seen)
    LK_REQUIRES(self->mutex)
{
    if (c->state == LK_FILE_WAITING) {
        c->notified = true;
        self->svc->wake(self->svc, c->claim);
    } else {
        look_once_locked(self, c, seen);
    }
}

static void notify_all_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    const lk_file_claim *seen = NULL;
    LK_EACH(lk_file_claim, c, link, &self->claims)
        notify_locked(self, c, &seen);
}

/* Others make a directory of their own at its path: locks here exclude nobody any more. */
static void gone_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    if (atomic_exchange_explicit(&self->moved, true, memory_order_relaxed))
        return;
    if (self->held > 0)
        self->svc->lease_lost(self->svc, NULL, "the lock directory was moved away");
    notify_all_locked(self); /* waiters are told by acquire */
}

/* What no claim watches was moved: one of the directories that long names are cut into, where nobody asks which grants are below it. */
static void on_part_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    LK_EACH(lk_file_claim, c, link, &self->claims)
        if (c->deep)
            break_grant_locked(self, c);
}

static void on_file_locked(lk_file *self, const struct inotify_event *event) LK_REQUIRES(self->mutex)
{
    /* the kernel dropped the watch: these poll, or watch again */
    const bool gone = (event->mask & IN_IGNORED) != 0;
    /* that one let go of the file, which is news for waiters alone */
    const bool closed = (event->mask & ~(uint32_t)IN_CLOSE_WRITE) == 0;
    const lk_file_claim *seen = NULL;
    bool used = gone;
    for (lk_table_link *link = lk_table_first(&self->watches, (uint32_t)event->wd), *next; link != NULL;
         link = next) {
        lk_file_claim *c = LK_CONTAINER(link, lk_file_claim, by_wd);
        next = link->next;
        if (c->wd != event->wd)
            continue;
        used = true;
        if (event->mask & IN_MOVE_SELF)
            break_grant_locked(self, c);
        if (!closed || c->state == LK_FILE_WAITING)
            notify_locked(self, c, &seen);
        if (gone)
            lk_file_watch_drop_locked(self, c);
    }
    if (used || event->wd == self->removed_wd)
        return;
    if (event->mask & IN_MOVE_SELF)
        on_part_locked(self);
    inotify_rm_watch(self->inotify_fd, event->wd);
    self->removed_wd = event->wd;
}

/* A name in the directory was moved here or away: the grant of that file, or those below that directory, are lost. The event is
 * enough: the file may be back by now, and another may have had the lock meanwhile. */
static void on_name_locked(lk_file *self, const char *text, bool is_directory) LK_REQUIRES(self->mutex)
{
    const uint32_t hash = lk_hash_text(text);
    const size_t len = strlen(text);
    LK_EACH(lk_file_claim, c, link, &self->claims) {
        if (c->state != LK_FILE_HELD || (!is_directory && c->hash != hash))
            continue;
        lk_file_name name;
        lk_file_name_set(&name, self->prefix, c->claim->key, c->claim->key_len);
        if (strncmp(name.text, text, len) == 0 && name.text[len] == (is_directory ? '/' : '\0'))
            break_grant_locked(self, c);
    }
}

/* Looked at again with the mutex held: another thread may have made the directory again since, and hold locks in it. */
bool lk_file_moved(lk_file *self)
{
    if (LK_READ(self->moved))
        return true;
    if (lk_file_directory_compare(self) != ESTALE)
        return false;
    lk_mutex_lock(&self->mutex);
    if (lk_file_directory_compare(self) == ESTALE)
        gone_locked(self);
    const bool moved = LK_READ(self->moved);
    lk_mutex_unlock(&self->mutex);
    return moved;
}

static bool is_removed(const lk_file *self)
{
    struct stat s;
    return fstat(self->dir_fd, &s) == 0 && s.st_nlink == 0;
}

/* True if what is at the path is what others find there: this process has the root that it had. */
static bool sees_path(const lk_file *self)
{
    struct stat root;
    return stat("/", &root) == 0 && root.st_ino == self->root.st_ino && root.st_dev == self->root.st_dev;
}

static bool holds(lk_file *self)
{
    lk_mutex_lock(&self->mutex);
    const bool any = self->held > 0;
    lk_mutex_unlock(&self->mutex);
    return any;
}

/* Whoever watches again would get the numbers that are left of the old watches, which are no row with the new ones. */
static void unwatch_directory_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    for (int wd = self->dir_wd; wd >= 0 && wd <= self->above_wd; wd++)
        (void)inotify_rm_watch(self->inotify_fd, wd);
    self->dir_wd = self->above_wd = -1;
}

/* Put the new directory's descriptor in the place of the old one's. What goes on in the old one meanwhile comes to nothing: a grant is
 * confirmed by the whole path. */
static void move_to_locked(lk_file *self, int fd) LK_REQUIRES(self->mutex)
{
    if (self->held > 0 || !is_removed(self))
        return; /* another thread was faster */
    unwatch_directory_locked(self);
    if (dup3(fd, self->dir_fd, O_CLOEXEC) >= 0)
        LK_WRITE(self->moved, false);
}

/* What cleans /tmp and its like removes a directory that was empty and unused for days: a locker that holds nothing makes it again, as
 * one that is opened now would. */
static locker_status make_again(lk_file *self, locker_error *err)
{
    locker_error why;
    int fd;
    if (lk_file_directory_open(self->path, self->shared, &fd, &why) != LOCKER_OK)
        return lk_unavailable(
            err, "the lock directory was removed, and the driver cannot create it again: %.400s", why.text);
    lk_mutex_lock(&self->mutex);
    move_to_locked(self, fd);
    lk_mutex_unlock(&self->mutex);
    close(fd);
    return LOCKER_OK;
}

/* True if another thread has made it again; it may have locks there by now. */
static bool is_back(lk_file *self)
{
    lk_mutex_lock(&self->mutex);
    const bool back = !LK_READ(self->moved);
    lk_mutex_unlock(&self->mutex);
    return back;
}

locker_status lk_file_stay(lk_file *self, locker_error *err)
{
    if (!lk_file_moved(self))
        return LOCKER_OK;
    if (is_removed(self) && sees_path(self) && !holds(self))
        return make_again(self, err);
    if (is_back(self))
        return LOCKER_OK;
    return lk_unavailable(err,
                          "the lock directory %.200s was moved away or removed; unlock the lost locks, or "
                          "open a new locker",
                          self->path);
}

/* A part comes to its name where nothing was: so nobody's file is in it yet. And none of a key begins with a dot. */
static bool is_fresh_part(const struct inotify_event *event)
{
    return (event->mask & IN_ISDIR) != 0 && (event->mask & IN_MOVED_TO) != 0;
}

static void on_directory_locked(lk_file *self, const struct inotify_event *event) LK_REQUIRES(self->mutex)
{
    if (event->mask & (IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) {
        unwatch_directory_locked(self);
        gone_locked(self);
    } else if (event->len > 0 && event->name[0] != '.' && !is_fresh_part(event)) {
        on_name_locked(self, event->name, (event->mask & IN_ISDIR) != 0);
    }
}

void lk_file_detach_locked(lk_file *self, lk_file_claim *c)
{
    if (c->state == LK_FILE_HELD) {
        self->held--;
        lk_file_sweep_count_locked(self, c->fresh);
        if (c->wd != 0 && !c->deep)
            leave_held_locked(self, c);
    }
    lk_file_watch_drop_locked(self, c);
    c->state = LK_FILE_NONE;
    c->notified = c->is_next = false;
    c->broken = false;
    c->looked = false;
}

void lk_file_hear_locked(lk_file *self)
{
    if (self->inotify_fd < 0)
        return;
    union {
        struct inotify_event event; /* for its alignment */
        char bytes[4096];
    } buffer;
    ssize_t got; /* the descriptor never blocks */
    while ((got = read(self->inotify_fd, buffer.bytes, sizeof buffer.bytes)) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(buffer.bytes + at);
            at += (ssize_t)(sizeof *event + event->len);
            if (event->mask & IN_Q_OVERFLOW)
                notify_all_locked(self);
            else if (event->wd == self->dir_wd)
                on_directory_locked(self, event);
            else if (event->wd > self->dir_wd && event->wd <= self->above_wd)
                gone_locked(self);
            else
                on_file_locked(self, event);
        }
    }
}

bool lk_file_broken_locked(lk_file *self, lk_file_claim *c)
{
    lk_file_hear_locked(self);
    if (self->unwatched)
        look_at_locked(self, c);
    return c->broken || LK_READ(self->moved);
}

/* What cleans /tmp and its like (systemd-tmpfiles, tmpreaper) removes what nobody used for days, and a lock
 * may be held for longer. A file without a grant may go: its next grant makes it anew. */
static void touch_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    if (lk_file_now(self) < self->touch_at)
        return;
    (void)futimens(self->dir_fd, NULL);
    LK_EACH(lk_file_claim, c, link, &self->claims)
        if (c->state == LK_FILE_HELD)
            (void)futimens(c->fd, NULL);
    lk_file_touch_later_locked(self);
}

void lk_file_touch_later_locked(lk_file *self)
{
    self->touch_at = lk_file_now(self) + touch_interval_ns;
}

bool lk_file_look_later_locked(lk_file *self, bool watched)
{
    const bool sooner = !watched && !self->unwatched;
    if (self->look_at != LOCKER_NEVER && !sooner)
        return false;
    self->unwatched = self->unwatched || sooner;
    self->look_at = lk_file_now(self) + (self->unwatched ? unwatched_interval_ns : look_interval_ns);
    return true;
}

/* Most grants are over before the first look, many before the second, and these cost no watch. */
static void look_after_locked(lk_file *self, lk_file_claim *c, const lk_file_claim **seen)
    LK_REQUIRES(self->mutex)
{
    /* a move of a directory in ours is no event of the files below it, which have a watch each */
    const bool unseen = self->unwatched || c->deep || c->wd == 0;
    if (c->looked && c->wd == 0 && !self->unwatched)
        watch_held_locked(self, c);
    c->looked = true;
    lk_file_queue_look_locked(self, c);
    if (unseen)
        look_once_locked(self, c, seen);
}

/* What no event tells: a move of a directory above ours, a mount over it, a link on the way to it. */
static void look_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    if (lk_file_now(self) < self->look_at)
        return;
    self->look_at = LOCKER_NEVER;
    if (self->held == 0) {
        self->unwatched = false;
        return;
    }
    if (lk_file_directory_compare(self) == ESTALE)
        gone_locked(self);
    const lk_file_claim *seen = NULL;
    LK_EACH(lk_file_claim, c, link, &self->claims)
        if (c->state == LK_FILE_HELD)
            look_after_locked(self, c, &seen);
    (void)lk_file_look_later_locked(self, true);
}

/* Nobody waits for the end of a sweep. */
static void hear(lk_file *self)
{
    lk_mutex_lock(&self->mutex);
    lk_file_hear_locked(self);
    lk_mutex_unlock(&self->mutex);
}

int64_t lk_file_dispatch(void *self_)
{
    lk_file *self = self_;
    lk_mutex_lock(&self->mutex);
    lk_file_queue_hear_locked(self);
    lk_file_hear_locked(self);
    touch_locked(self);
    look_locked(self);
    const int64_t next = lk_time_earlier(self->look_at, self->touch_at);
    lk_mutex_unlock(&self->mutex);
    if (lk_file_sweep_go_on(self, hear))
        self->svc->attend(self->svc); /* events come first */
    return next;
}
