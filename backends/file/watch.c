/*
 * watch.c: inotify. A claim that waits has a watch on its lock file; all grants together have one watch on
 * the lock directory, which shows when a file is put in the place of another, moved or removed, so that a
 * lock costs nothing for it. Grants whose files lie deeper have a watch each. What no event tells, dispatch
 * looks for each second while there are grants.
 *
 * The inotify descriptor is made when first needed, because a user may have few of them (128 by default).
 * When it is not to be had, waiters poll (acquire.c) and dispatch looks after the grants every 50 ms.
 *
 * A watch without claims stays until its next event: the usual next one is our own release, and removing it
 * would make an event as well.
 */
#include "watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "lk_hash.h"
#include "lk_time.h"
#include "lockfile.h"
#include "name.h"
#include "slots.h"

struct lk_file_watch {
    lk_table_link link;
    int wd;         /* inotify's number of it */
    bool above;     /* it is on a directory above the lock directory, and not on a file */
    lk_list claims; /* mutex: whose file it is on */
};

#define FILE_EVENTS      (IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define DIRECTORY_EVENTS (IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MOVE_SELF | IN_ONLYDIR)

enum { ABOVE_MAX = 64 }; /* directories above ours, as deep as paths come */

static const int64_t look_interval_ns = LK_S;
static const int64_t unwatched_interval_ns = 50 * LK_MS; /* without inotify */
static const int64_t touch_interval_ns = 24 * (3600 * LK_S);

static const char broken_text[] = "the lock was broken: its file was replaced, moved or removed";

int lk_file_descriptor(void *self)
{
    return ((lk_file *)self)->epoll_fd;
}

void lk_file_watch_warn(lk_file *self)
{
    if (!atomic_exchange_explicit(&self->warned, true, memory_order_relaxed))
        self->svc->log(
            self->svc, LOCKER_LOG_WARN,
            "no inotify for %.200s: waiting polls every 50 ms; raise fs.inotify.max_user_instances "
            "and fs.inotify.max_user_watches",
            self->path);
}

static bool start_locked(lk_file *self)
{
    if (self->inotify_fd >= 0)
        return true;
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (fd >= 0 && epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        fd = -1;
    }
    self->inotify_fd = fd;
    return fd >= 0;
}

/* Through /proc it is the open file itself that is watched, whatever is at its name by then. */
static int add_descriptor(int inotify_fd, int fd, uint32_t events)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return inotify_add_watch(inotify_fd, path, events);
}

static lk_file_watch *find_locked(lk_file *self, int wd)
{
    LK_TABLE_EACH_OF(link, &self->watches, (uint32_t)wd) {
        lk_file_watch *watch = LK_CONTAINER(link, lk_file_watch, link);
        if (watch->wd == wd)
            return watch;
    }
    return NULL;
}

/* The watch with that number; NULL: no memory. */
static lk_file_watch *have_locked(lk_file *self, int wd)
{
    lk_file_watch *watch = find_locked(self, wd);
    if (watch != NULL || !lk_table_reserve(&self->watches))
        return watch;
    watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return NULL;
    watch->wd = wd;
    lk_list_init(&watch->claims);
    lk_table_add(&self->watches, &watch->link, (uint32_t)wd);
    return watch;
}

static void forget_locked(lk_file *self, lk_file_watch *watch)
{
    lk_table_remove(&self->watches, &watch->link);
    free(watch);
}

static lk_file_claim *claim_of(lk_list *link)
{
    return LK_CONTAINER(link, lk_file_claim, of_watch);
}

static void break_grant_locked(lk_file *self, lk_file_claim *c)
{
    if (c->state != LK_FILE_HELD || c->broken)
        return;
    c->broken = true;
    self->svc->lease_lost(self->svc, c->claim, broken_text);
}

static void visit_grant_locked(void *context, lk_file_claim *c)
{
    lk_file *self = context;
    if (c->state != LK_FILE_HELD || c->broken)
        return;
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, c->claim->key, c->claim->key_len);
    if (lk_file_compare(self, &name, &c->id) == ESTALE)
        break_grant_locked(self, c);
}

/* Have a move of a directory above ours noticed: no look sees it once that was put back, and others may have had a
 * lock directory of their own at the path meanwhile. One that we may not read can't be watched. */
static void watch_above_locked(lk_file *self)
{
    char path[40 + 3 * ABOVE_MAX];
    int len = snprintf(path, sizeof path, "/proc/self/fd/%d", self->dir_fd);
    for (int i = 0, last = -1; i < ABOVE_MAX; i++) {
        len += snprintf(path + len, sizeof path - (size_t)len, "/..");
        const int wd = inotify_add_watch(self->inotify_fd, path, IN_MOVE_SELF);
        if (wd < 0)
            continue;
        if (wd == last)
            return; /* the root, which is above itself */
        lk_file_watch *watch = have_locked(self, wd);
        if (watch != NULL)
            watch->above = true;
        last = wd;
    }
}

bool lk_file_watch_directory_locked(lk_file *self)
{
    if (!start_locked(self))
        return false;
    self->dir_wd = add_descriptor(self->inotify_fd, self->dir_fd, DIRECTORY_EVENTS);
    if (self->dir_wd < 0)
        return false;
    watch_above_locked(self);
    return true;
}

bool lk_file_watch_add_locked(lk_file *self, lk_file_claim *c)
{
    if (!start_locked(self))
        return false;
    /* The mutex is held over it, because dispatch could otherwise remove a watch that this call returns. */
    const int wd = add_descriptor(self->inotify_fd, c->fd, FILE_EVENTS);
    if (wd < 0)
        return false;
    c->watch = have_locked(self, wd);
    if (c->watch == NULL) {
        inotify_rm_watch(self->inotify_fd, wd);
        return false;
    }
    lk_list_prepend(&c->watch->claims, &c->of_watch);
    return true;
}

void lk_file_watch_drop_locked(lk_file *self, lk_file_claim *c)
{
    (void)self;
    if (c->watch == NULL)
        return;
    lk_list_remove(&c->of_watch);
    c->watch = NULL;
}

static void notify_locked(lk_file *self, lk_file_claim *c)
{
    if (c->state == LK_FILE_WAITING) {
        c->notified = true;
        self->svc->wake(self->svc, c->claim);
    } else {
        visit_grant_locked(self, c);
    }
}

static void visit_any_locked(void *context, lk_file_claim *c)
{
    notify_locked(context, c);
}

/* Others make a directory of their own at its path: locks here exclude nobody any more. */
static void gone_locked(lk_file *self)
{
    if (atomic_exchange_explicit(&self->moved, true, memory_order_relaxed))
        return;
    self->svc->lease_lost(self->svc, NULL, "the lock directory was moved away");
    lk_file_slots_each_locked(&self->slots, visit_any_locked, self); /* waiters are told by acquire */
}

static void on_file_locked(lk_file *self, const struct inotify_event *event)
{
    lk_file_watch *watch = find_locked(self, event->wd);
    if (watch == NULL)
        return; /* removed meanwhile */
    if (watch->above) {
        gone_locked(self);
        return;
    }
    LK_LIST_EACH(link, &watch->claims) {
        lk_file_claim *c = claim_of(link);
        if (event->mask & IN_MOVE_SELF)
            break_grant_locked(self, c);
        notify_locked(self, c);
    }
    const bool gone = (event->mask & IN_IGNORED) != 0;
    if (!lk_list_empty(&watch->claims) && !gone)
        return;
    if (!gone)
        inotify_rm_watch(self->inotify_fd, watch->wd);
    LK_LIST_EACH_SAFE(link, &watch->claims) /* the kernel dropped the watch: these poll, or watch again */
    {
        lk_file_watch_drop_locked(self, claim_of(link));
    }
    forget_locked(self, watch);
}

/* What a directory's event is about: the grant of that file, or those below that directory. */
struct named {
    lk_file *self;
    const char *name;
    uint32_t hash; /* of a file's name */
    bool is_directory;
};

/* Such an event is enough: the file may be back by now, and another may have had the lock meanwhile. */
static void visit_named_locked(void *context, lk_file_claim *c)
{
    const struct named *named = context;
    if (c->state != LK_FILE_HELD || (!named->is_directory && c->hash != named->hash))
        return;
    lk_file_name name;
    const size_t len = strlen(named->name);
    lk_file_name_set(&name, named->self->prefix, c->claim->key, c->claim->key_len);
    if (strncmp(name.text, named->name, len) == 0 && name.text[len] == (named->is_directory ? '/' : '\0'))
        break_grant_locked(named->self, c);
}

bool lk_file_moved(lk_file *self)
{
    if (atomic_load_explicit(&self->moved, memory_order_relaxed))
        return true;
    if (lk_file_directory_compare(self) != ESTALE)
        return false;
    pthread_mutex_lock(&self->mutex);
    gone_locked(self);
    pthread_mutex_unlock(&self->mutex);
    return true;
}

locker_status lk_file_fail_moved(const lk_file *self, locker_error *err)
{
    return locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                            "the lock directory %.200s was moved away or removed; open the locker again",
                            self->path);
}

/* Grants below a directory in the lock directory: a move of that is no event of their files. */
static void visit_deep_locked(void *context, lk_file_claim *c)
{
    lk_file *self = context;
    if (self->unwatched || c->watch != NULL)
        visit_grant_locked(self, c);
}

static void on_directory_locked(lk_file *self, const struct inotify_event *event)
{
    if (event->mask & (IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) {
        self->dir_wd = -1;
        gone_locked(self);
    } else if (event->len > 0) {
        struct named named = {self, event->name, lk_hash_text(event->name), (event->mask & IN_ISDIR) != 0};
        lk_file_slots_each_locked(&self->slots, visit_named_locked, &named);
    }
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
                lk_file_slots_each_locked(&self->slots, visit_any_locked, self);
            else if (event->wd == self->dir_wd)
                on_directory_locked(self, event);
            else
                on_file_locked(self, event);
        }
    }
}

bool lk_file_broken_locked(lk_file *self, lk_file_claim *c)
{
    lk_file_hear_locked(self);
    if (self->unwatched)
        visit_grant_locked(self, c);
    return c->broken || atomic_load_explicit(&self->moved, memory_order_relaxed);
}

static void touch_grant_locked(void *context, lk_file_claim *c)
{
    (void)context;
    if (c->state == LK_FILE_HELD)
        (void)futimens(c->fd, NULL);
}

/* What cleans /tmp and its like (systemd-tmpfiles, tmpreaper) removes what nobody used for days, and a lock
 * may be held for longer. A file without a grant may go: its next grant makes it anew. */
static void touch_locked(lk_file *self)
{
    if (self->svc->clock->now(self->svc->clock->context) < self->touch_at)
        return;
    if (self->held > 0) {
        (void)futimens(self->dir_fd, NULL);
        lk_file_slots_each_locked(&self->slots, touch_grant_locked, self);
    }
    lk_file_touch_later(self);
}

void lk_file_touch_later(lk_file *self)
{
    self->touch_at = self->svc->clock->now(self->svc->clock->context) + touch_interval_ns;
}

bool lk_file_look_later_locked(lk_file *self, bool watched)
{
    const bool sooner = !watched && !self->unwatched;
    if (self->look_at != LOCKER_NEVER && !sooner)
        return false;
    self->unwatched = self->unwatched || sooner;
    self->look_at = self->svc->clock->now(self->svc->clock->context) +
                    (self->unwatched ? unwatched_interval_ns : look_interval_ns);
    return true;
}

/* What no event tells: a move of a directory above ours, a mount over it, a link on the way to it. */
static void look_locked(lk_file *self)
{
    if (self->svc->clock->now(self->svc->clock->context) < self->look_at)
        return;
    self->look_at = LOCKER_NEVER;
    if (self->held == 0) {
        self->unwatched = false;
        return;
    }
    if (lk_file_directory_compare(self) == ESTALE)
        gone_locked(self);
    else
        lk_file_slots_each_locked(&self->slots, visit_deep_locked, self);
    (void)lk_file_look_later_locked(self, true);
}

int64_t lk_file_dispatch(void *self_)
{
    lk_file *self = self_;
    pthread_mutex_lock(&self->mutex);
    lk_file_hear_locked(self);
    touch_locked(self);
    look_locked(self);
    const int64_t next = lk_time_earlier(self->look_at, self->touch_at);
    pthread_mutex_unlock(&self->mutex);
    return next;
}

void lk_file_watch_destroy(lk_file *self)
{
    for (lk_table_link *link = lk_table_after(&self->watches, NULL), *next; link != NULL; link = next) {
        next = lk_table_after(&self->watches, link);
        free(LK_CONTAINER(link, lk_file_watch, link));
    }
    lk_table_destroy(&self->watches);
    if (self->inotify_fd >= 0)
        close(self->inotify_fd);
}
