/* sweep.c: removes lock files that are not in use, so that at most some hundred stay, however many keys were used.
 *
 * When: each first grant in a fresh file lets the directory grow. At each such grant, and at its end, the instance throws dice.
 * One of 64 throws asks for a sweep, which dispatch runs, or close at the latest. The driver does not count instead, because a
 * process may use one key in its life, and hundreds of processes may use some keys each. If other threads use keys faster than
 * dispatch can sweep, each release of a fresh file removes this file at once (lk_file_sweep_own). Otherwise the directory would
 * grow as long as the load lasts.
 *
 * What: a sweep does nothing if there are `most` lock files or fewer. Of more files it removes the least recently used ones until
 * `keep` are left. Between 512 and 1,024 files, dice are thrown a thousand times, and all of these throws fail but once in ten
 * million cases. A directory with more than `list` files is swept in parts, because dispatch must not block. There all idle files
 * go, and files in use at the directory's beginning do not hide the others.
 *
 * How: the sweep first looks through a read-only descriptor whether the file is in use, because closing a writable one is an event
 * for waiters. It raises the slot of the file's token (tokens.c). Then it locks the whole file. This lock fails if another claim
 * holds, waits or breaks, and keeps new claims out. If the file is still at its name and still has the same token, the sweep
 * removes the name. A claim that had opened the file before finds another file at the name, or none, as after a break. If a sweep
 * is killed after it has raised a slot, the slot does no harm. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "directory.h"
#include "lk_fd.h"
#include "lk_time.h"
#include "lockfile.h"
#include "queue.h"
#include "sweep.h"
#include "tokens.h"

enum {
    ODDS = 64,        /* one of so many throws asks for a sweep */
    FAR_BEHIND = 512, /* uses of fresh files since the last sweep began */
    MOST = 512,
    KEEP = 256,
    LIST = 2048,
    LEFT = 300,             /* s, after which what was being made is nobody's */
    AT_ONCE = 16,           /* files between two looks at what else there is to do */
    CLOSE_MAX = 500 * LK_MS /* what closing may take for it */
};

/* A lock file that was found. */
typedef struct {
    lk_list link;
    int64_t used;   /* when its record was written last */
    uint64_t token; /* the token in its record; the file's slot is at least as great */
    bool idle;      /* the file was not in use, and `token` is set */
    char path[];    /* relative to the lock directory */
} found;

typedef struct {
    lk_file *self;
    void (*between)(lk_file *self);
    lk_list files;
    size_t count;
    int tokens; /* the descriptor of `.tokens` */
} sweep;

/* ---- the list ---- */

/* Add a file to the list. Without memory, the file waits for a later sweep. */
static void add(sweep *s, const char *path, size_t len)
{
    found *const f = calloc(1, sizeof *f + len + 1);
    if (f == NULL)
        return;
    memcpy(f->path, path, len);
    lk_list_append(&s->files, &f->link);
    s->count++;
}

static DIR *list_directory(int parent, const char *name)
{
    const int fd = lk_fd_high(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && directory == NULL)
        close(fd);
    return directory;
}

/* True if the mode is one that this driver gives to what it makes; the umask, and a maker that died, can have left less of it. */
static bool is_mode_of_ours(const struct stat *s)
{
    return (s->st_mode & (S_ISUID | S_ISVTX | S_IRWXO)) == 0 &&
           (S_ISDIR(s->st_mode) || (s->st_mode & (S_ISGID | S_IXUSR | S_IXGRP)) == 0);
}

/* True if a file that was never renamed is empty or has a record, nobody uses it, and it is still the one at its name. */
static bool is_left_file(const sweep *s, int parent, const char *entry, const struct stat *seen)
{
    lk_file_name name;
    lk_file_record record;
    lk_file_reading reading;
    struct stat now;
    if (!S_ISREG(seen->st_mode) || seen->st_nlink != 1 || !lk_file_name_from(&name, entry))
        return false;
    const int fd = lk_file_open_in(s->self, parent, &name, O_RDONLY);
    if (fd < 0)
        return false;
    const bool left = fstat(fd, &now) == 0 && now.st_ino == seen->st_ino && !lk_file_whole_locked(fd) &&
                      lk_file_record_read(fd, &record, &reading) == 0 &&
                      (reading == LK_FILE_RECORD_EMPTY || reading == LK_FILE_RECORD_GOOD);
    close(fd);
    return left;
}

/* Remove what was being made when its maker died: an empty directory, or a file without another name. */
static void remove_left(const sweep *s, int parent, const char *name)
{
    struct stat seen;
    if (fstatat(parent, name, &seen, AT_SYMLINK_NOFOLLOW) != 0 || !is_mode_of_ours(&seen) ||
        lk_time_of(CLOCK_REALTIME) / LK_S - seen.st_mtim.tv_sec <= LEFT)
        return;
    if (S_ISDIR(seen.st_mode) || is_left_file(s, parent, name, &seen))
        (void)unlinkat(parent, name, S_ISDIR(seen.st_mode) ? AT_REMOVEDIR : 0);
}

static void list_part(sweep *s, int parent, char *path, size_t len);

/* What lies in a directory, whose path, with a '/' behind it, is the first `len` bytes. */
static void list_entry(sweep *s, DIR *directory, const struct dirent *entry, char *path, size_t len)
{
    const size_t name_len = strlen(entry->d_name);
    if (len + name_len + 1 >= LK_FILE_PATH_MAX)
        return;
    if (lk_file_name_fits(entry->d_name, LK_FILE_NEW_PREFIX "d-x-x")) {
        remove_left(s, dirfd(directory), entry->d_name);
        return;
    }
    memcpy(path + len, entry->d_name, name_len + 1);
    if ((entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) &&
        lk_file_name_is_lock(entry->d_name, len == 0))
        add(s, path, len + name_len);
    else if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
             lk_file_name_is_part(entry->d_name, len == 0))
        list_part(s, dirfd(directory), path, len + name_len);
}

static bool is_directory_of_ours(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 && is_mode_of_ours(&s);
}

/* A directory that a long name was cut into. One that is empty goes: who wants a file in it makes it anew. */
static void list_part(sweep *s, int parent, char *path, size_t len)
{
    const char *name = path + len - (LK_FILE_PART + 2);
    DIR *directory = list_directory(parent, name);
    if (directory == NULL)
        return;
    bool empty = is_directory_of_ours(dirfd(directory));
    path[len] = '/';
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        empty = false;
        list_entry(s, directory, entry, path, len + 1);
    }
    closedir(directory);
    path[len] = '\0';
    if (empty)
        (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* List the lock files from `at` on, and stop soon after `limit` files. Return where the rest begins; 0: there is no rest. */
static long list_all(sweep *s, size_t limit, long at)
{
    char path[LK_FILE_PATH_MAX];
    DIR *directory = list_directory(s->self->dir_fd, ".");
    if (directory == NULL)
        return 0;
    if (at != 0)
        seekdir(directory, at);
    const struct dirent *entry;
    while (s->count < limit && (entry = readdir(directory)) != NULL)
        if (lk_file_queue_is_name(entry->d_name))
            lk_file_queue_sweep(s->self, entry->d_name);
        else
            list_entry(s, directory, entry, path, 0);
    const long next = s->count < limit ? 0 : telldir(directory);
    closedir(directory);
    return next;
}

static int compare_use(const void *a_, const void *b_)
{
    const found *const *a = a_, *const *b = b_;
    return (*a)->used < (*b)->used ? -1 : (*a)->used > (*b)->used;
}

/* Fill the array with the files that were found, the least recently used ones first. */
static void sort(const sweep *s, found **files)
{
    size_t i = 0;
    LK_EACH(found, f, link, &s->files) {
        struct statx x;
        f->used = statx(s->self->dir_fd, f->path, AT_SYMLINK_NOFOLLOW, STATX_MTIME, &x) == 0
                      ? x.stx_mtime.tv_sec * LK_S + x.stx_mtime.tv_nsec
                      : INT64_MAX;
        files[i++] = f;
    }
    qsort(files, s->count, sizeof(found *), compare_use);
}

/* ---- one file ---- */

/* True if the file has a record of this driver. An empty file stays: another program may have made it, and may hold it by flock().
 * An empty file of this driver is rare: its maker was killed right after it made the file, or the disk was full. */
static bool is_ours(int fd, uint64_t *token)
{
    lk_file_record record;
    lk_file_reading reading;
    if (lk_file_record_read(fd, &record, &reading) != 0)
        return false;
    *token = record.token;
    return reading == LK_FILE_RECORD_GOOD;
}

/* If the file is not in use, raise its slot to its token. */
static void look(const sweep *s, found *f)
{
    lk_file_name name;
    if (!lk_file_name_from(&name, f->path))
        return;
    const int fd = lk_file_open(s->self, &name, O_RDONLY);
    if (fd < 0)
        return;
    f->idle = !lk_file_whole_locked(fd) && is_ours(fd, &f->token) &&
              lk_file_tokens_raise(s->tokens, name.hash, f->token);
    close(fd);
}

/* The directories that lead to a file, as far as they are empty now. */
static void remove_parts(const lk_file *self, lk_file_name *name)
{
    while (name->last > 0) {
        name->text[name->last - 1] = '\0';
        (void)lk_file_name_from(name, name->text);
        const int parent = lk_file_parent(self, name, false);
        if (parent < 0)
            return;
        const bool gone = unlinkat(parent, name->text + name->last, AT_REMOVEDIR) == 0;
        lk_file_parent_close(self, parent);
        if (!gone)
            return;
    }
}

/* Remove the file, if it is not in use, is at its name, and has the token to which its slot was raised. */
static void remove_open_file(const lk_file *self, lk_file_name *name, int parent, int fd,
                             const lk_file_id *id, uint64_t raised)
{
    uint64_t token;
    const char *last = name->text + name->last;
    if (lk_file_whole_lock(fd, F_WRLCK) != 0)
        return;
    const bool removed = is_ours(fd, &token) && token == raised &&
                         lk_file_compare_at(parent, last, id) == 0 && unlinkat(parent, last, 0) == 0;
    if (removed)
        lk_file_queue_end(self, id);
    /* In one step: if byte 0 alone stayed locked, other claims would take it for the byte of a holder. */
    (void)lk_file_whole_lock(fd, F_UNLCK);
    if (removed)
        remove_parts(self, name);
}

static void remove_file(lk_file *self, const found *f)
{
    lk_file_name name;
    struct statx x;
    (void)lk_file_name_from(&name, f->path);
    const int parent = lk_file_parent(self, &name, false);
    if (parent < 0)
        return;
    const int fd = lk_file_open_in(self, parent, &name, O_RDWR);
    if (fd >= 0 && lk_file_check(self, &name, fd, &x, NULL) == LOCKER_OK) {
        const lk_file_id id = lk_file_id_of(&x);
        /* A fork's child knows the descriptor by its slot. So its copy of the lock ends when the child closes the locker. */
        lk_mutex_lock(&self->mutex);
        lk_file_slot *slot = lk_file_slot_take_locked(&self->slots, fd, id.inode);
        lk_mutex_unlock(&self->mutex);
        if (slot != NULL) {
            remove_open_file(self, &name, parent, fd, &id, f->token);
            lk_mutex_lock(&self->mutex);
            lk_file_slot_give_locked(&self->slots, slot);
            lk_mutex_unlock(&self->mutex);
        }
    }
    if (fd >= 0)
        close(fd);
    lk_file_parent_close(self, parent);
}

/* ---- a sweep ---- */

static void pause_now_and_then(const sweep *s, size_t i)
{
    if (s->between != NULL && i % AT_ONCE == 0)
        s->between(s->self);
}

/* Remove those of the `count` least recently used files that are idle. */
static void remove_oldest(sweep *s, size_t count)
{
    lk_file *const self = s->self;
    found **const files = malloc(s->count * sizeof *files);
    s->tokens = files != NULL ? lk_file_tokens_open(self) : -1;
    if (s->tokens >= 0) {
        sort(s, files);
        for (size_t i = 0; i < count; i++) {
            pause_now_and_then(s, i);
            look(s, files[i]);
        }
        const bool remembered = !self->sync || fdatasync(s->tokens) == 0;
        for (size_t i = 0; i < count && remembered; i++) {
            pause_now_and_then(s, i);
            if (files[i]->idle)
                remove_file(self, files[i]);
        }
        close(s->tokens);
    }
    free(files);
}

long lk_file_sweep_part(lk_file *self, const lk_file_sweep_limits *limits, long at)
{
    sweep s = {.self = self, .between = limits->between};
    lk_list_init(&s.files);
    const long next = list_all(&s, limits->list, at);
    /* The parts of a longer directory are not compared, so all idle files go. */
    const bool whole = at == 0 && next == 0;
    if (s.count > (whole ? limits->most : 0))
        remove_oldest(&s, s.count - (whole ? limits->keep : 0));
    LK_EACH_SAFE(found, f, link, &s.files)
        free(f);
    return next;
}

/* ---- when ---- */

/* splitmix64: https://prng.di.unimi.it/splitmix64.c */
static uint64_t throw_locked(lk_file *self) LK_REQUIRES(self->mutex)
{
    uint64_t z = self->sweep_dice += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Nobody else sees the instance yet. */
LK_UNCHECKED void lk_file_sweep_init(lk_file *self)
{
    self->sweep_dice = (uint64_t)lk_time_of(CLOCK_REALTIME) ^ (uint64_t)getpid() << 40 ^ (uintptr_t)self;
}

void lk_file_sweep_count_locked(lk_file *self, bool fresh)
{
    if (!fresh)
        return;
    (void)atomic_fetch_add_explicit(&self->sweep_behind, 1, memory_order_relaxed);
    if (throw_locked(self) % ODDS == 0 && !LK_READ(self->sweep_due)) {
        LK_WRITE(self->sweep_due, true);
        self->svc->attend(self->svc);
    }
}

bool lk_file_sweep_go_on(lk_file *self, void (*between)(lk_file *self))
{
    const lk_file_sweep_limits limits = {.most = MOST, .keep = KEEP, .list = LIST, .between = between};
    if (!LK_READ(self->sweep_due))
        return false;
    /* A throw during the sweep asks for another one, which sees what was used meanwhile. */
    LK_WRITE(self->sweep_due, false);
    if (self->sweep_at == 0)
        LK_WRITE(self->sweep_behind, 0);
    self->sweep_at = lk_file_sweep_part(self, &limits, self->sweep_at);
    if (self->sweep_at != 0)
        LK_WRITE(self->sweep_due, true);
    return LK_READ(self->sweep_due);
}

void lk_file_sweep_own(lk_file *self, const lk_file_claim *c)
{
    if (!c->fresh || self->sync || LK_READ(self->sweep_behind) < FAR_BEHIND)
        return;
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, c->claim->key, c->claim->key_len);
    const int tokens = lk_file_tokens_open(self);
    const int parent = lk_file_parent(self, &name, false);
    if (tokens >= 0 && parent >= 0 && lk_file_tokens_raise(tokens, name.hash, c->claim->token))
        remove_open_file(self, &name, parent, c->fd, &c->id, c->claim->token);
    if (parent >= 0)
        lk_file_parent_close(self, parent);
    if (tokens >= 0)
        close(tokens);
}

void lk_file_sweep_close(lk_file *self)
{
    const int64_t until = lk_time_of(CLOCK_MONOTONIC) + CLOSE_MAX;
    while (lk_file_sweep_go_on(self, NULL) && lk_time_of(CLOCK_MONOTONIC) < until)
        ;
}
