/* sweep.c: removes lock files that nobody uses, so that at most some hundred stay, however many keys were used.
 *
 * What makes a directory grow is the first grant in a fresh file. So dice are thrown at each such grant and at its
 * end, one of 64 times with success, and that asks for a sweep: by whoever runs dispatch, or at the latest by close.
 * While that one is far behind, who lets go of a fresh file removes it at once. Dice, and no count, because a process may use one key in its life, and
 * hundreds of processes some keys each. A sweep counts the lock files first, and does nothing about `most`
 * of them; of more it removes those that were used least lately, until `keep` are left. Between 512 and 1,024 there are
 * a thousand throws, of which one has success but once in ten million times.
 *
 * How one is removed. A look through a descriptor that can't write tells whether anybody has a byte of it: closing one
 * that could would be an event for those that wait. Its token is remembered (tokens.c). Then the whole file is locked: by
 * one who holds, waits or breaks it is refused, and nobody can begin to. If then it has no greater token than what was
 * remembered, and is the file at the name, its name goes. One who had opened it before finds that it isn't the
 * file at the name, as after a forced unlock, and opens another. Nobody is killed at a wrong time: a token that was
 * remembered for nothing does no harm. */
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
    ODDS = 64,      /* one of so many throws asks for a sweep */
    ODDS_MAX = 128, /* where the sweep before looked at many files in vain */
    VAIN_FOR_A_THROW = 8,
    FAR_BEHIND = 512, /* uses of fresh files since it was asked for */
    MOST = 512,
    KEEP = 256,
    LIST = 2048,
    LEFT = 300,             /* s, after which what was being made is nobody's */
    AT_ONCE = 16,           /* files between two looks at what else there is to do */
    CLOSE_MAX = 500 * LK_MS /* what closing may take for it */
};

/* A lock file that was found. */
typedef struct {
    int64_t used; /* when its record was written last */
    size_t path;  /* where it begins in the texts: from the lock directory on */
    uint64_t token;
    bool idle;
} found;

typedef struct {
    lk_file *self;
    void (*between)(lk_file *self);
    found *files;
    size_t count, room;
    char *texts;
    size_t texts_len, texts_room;
    bool no_memory;
    lk_file_tokens tokens;
} sweep;

/* ---- the list ---- */

static bool make_room(void **array, size_t *room, size_t needed, size_t element)
{
    if (needed <= *room)
        return true;
    const size_t more = 2 * needed + 64;
    void *fresh = realloc(*array, more * element);
    if (fresh == NULL)
        return false;
    *array = fresh;
    *room = more;
    return true;
}

static void add(sweep *s, const char *path, size_t len)
{
    void *files = s->files, *texts = s->texts;
    s->no_memory = s->no_memory || !make_room(&files, &s->room, s->count + 1, sizeof *s->files);
    s->files = files;
    s->no_memory = s->no_memory || !make_room(&texts, &s->texts_room, s->texts_len + len + 1, 1);
    s->texts = texts;
    if (s->no_memory)
        return;
    memcpy(s->texts + s->texts_len, path, len + 1);
    s->files[s->count++] = (found){.path = s->texts_len};
    s->texts_len += len + 1;
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

/* The lock files from *at on, some more than `limit` at most; *at gets where the rest begins, 0: there is none. */
static void list_all(sweep *s, size_t limit, long *at)
{
    char path[LK_FILE_PATH_MAX];
    DIR *directory = list_directory(s->self->dir_fd, ".");
    if (directory != NULL && *at != 0)
        seekdir(directory, *at);
    *at = 0;
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        if (lk_file_queue_is_name(entry->d_name))
            lk_file_queue_sweep(s->self, entry->d_name);
        else
            list_entry(s, directory, entry, path, 0);
        if (s->count >= limit) {
            *at = telldir(directory);
            break;
        }
    }
    if (directory != NULL)
        closedir(directory);
}

static int compare_use(const void *a_, const void *b_)
{
    const found *a = a_, *b = b_;
    return a->used < b->used ? -1 : a->used > b->used;
}

/* The longest unused ones first. */
static void sort(sweep *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct statx x;
        found *f = &s->files[i];
        f->used = statx(s->self->dir_fd, s->texts + f->path, AT_SYMLINK_NOFOLLOW, STATX_MTIME, &x) == 0
                      ? x.stx_mtime.tv_sec * LK_S + x.stx_mtime.tv_nsec
                      : INT64_MAX;
    }
    qsort(s->files, s->count, sizeof *s->files, compare_use);
}

/* ---- one file ---- */

/* True if the file has a record of ours. Nothing tells whose an empty one is, so it stays: another program may have made it, and
 * hold it by flock(). Of ours only one is empty whose maker was killed right behind making it, or had no room to write. */
static bool is_ours(int fd, uint64_t *token)
{
    lk_file_record record;
    lk_file_reading reading;
    if (lk_file_record_read(fd, &record, &reading) != 0)
        return false;
    *token = record.token;
    return reading == LK_FILE_RECORD_GOOD;
}

/* Remember its token, if nobody uses it. */
static void look(sweep *s, found *f)
{
    lk_file_name name;
    if (!lk_file_name_from(&name, s->texts + f->path))
        return;
    const int fd = lk_file_open(s->self, &name, O_RDONLY);
    if (fd < 0)
        return;
    f->idle = !lk_file_whole_locked(fd) && is_ours(fd, &f->token) &&
              lk_file_tokens_raise(&s->tokens, name.hash, f->token);
    close(fd);
}

/* It is locked as a whole. */
static bool remove_locked_file(sweep *s, const lk_file_name *name, int parent, int fd, const lk_file_id *id)
{
    uint64_t token;
    const char *last = name->text + name->last;
    const bool removed = is_ours(fd, &token) && lk_file_tokens_cover(&s->tokens, name->hash, token) &&
                         lk_file_compare_at(parent, last, id) == 0 && unlinkat(parent, last, 0) == 0;
    if (removed)
        lk_file_queue_end(s->self, id);
    return removed;
}

/* A fork's child knows the descriptor, so that its copy of the lock ends when it closes the locker. */
static bool remove_open_file(sweep *s, const lk_file_name *name, int parent, int fd)
{
    lk_file *self = s->self;
    struct statx x;
    if (lk_file_check(self, name, fd, &x, NULL) != LOCKER_OK)
        return false;
    lk_mutex_lock(&self->mutex);
    lk_file_slot *slot = lk_file_slot_take_locked(&self->slots, fd, x.stx_ino);
    lk_mutex_unlock(&self->mutex);
    if (slot == NULL)
        return false;
    const bool locked = lk_file_whole_lock(fd, F_WRLCK) == 0;
    const lk_file_id id = lk_file_id_of(&x);
    const bool removed = locked && remove_locked_file(s, name, parent, fd, &id);
    if (locked)
        (void)lk_file_whole_lock(fd, F_UNLCK);
    lk_mutex_lock(&self->mutex);
    lk_file_slot_give_locked(&self->slots, slot);
    lk_mutex_unlock(&self->mutex);
    return removed;
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

static bool remove_file(sweep *s, const found *f)
{
    lk_file_name name;
    (void)lk_file_name_from(&name, s->texts + f->path);
    const int parent = lk_file_parent(s->self, &name, false);
    if (parent < 0)
        return false;
    const int fd = lk_file_open_in(s->self, parent, &name, O_RDWR);
    const bool removed = fd >= 0 && remove_open_file(s, &name, parent, fd);
    if (fd >= 0)
        close(fd);
    lk_file_parent_close(s->self, parent);
    if (removed)
        remove_parts(s->self, &name);
    return removed;
}

/* ---- a sweep ---- */

static void pause_now_and_then(const sweep *s, size_t i)
{
    if (s->between != NULL && i % AT_ONCE == 0)
        s->between(s->self);
}

/* The first `count`; answers how many had to stay. */
static size_t remove_first(sweep *s, size_t count)
{
    size_t removed = 0;
    if (!lk_file_tokens_open(s->self, &s->tokens))
        return count;
    for (size_t i = 0; i < count; i++) {
        pause_now_and_then(s, i);
        look(s, &s->files[i]);
    }
    const bool remembered = !s->self->sync || lk_file_tokens_flush(&s->tokens);
    for (size_t i = 0; i < count && remembered; i++) {
        pause_now_and_then(s, i);
        removed += s->files[i].idle && remove_file(s, &s->files[i]);
    }
    lk_file_tokens_close(&s->tokens);
    return count - removed;
}

size_t lk_file_sweep_part(lk_file *self, const lk_file_sweep_limits *limits, long *at)
{
    sweep *s = calloc(1, sizeof *s);
    size_t vain = 0;
    bool whole = *at == 0;
    if (s == NULL)
        return 0;
    s->self = self;
    s->between = limits->between;
    list_all(s, limits->list, at);
    whole = whole && *at == 0;
    if (!s->no_memory && s->count > (whole ? limits->most : 0)) {
        sort(s);
        /* Of a directory with more than one part all that is idle goes: the parts are not compared. */
        const size_t keep = whole ? limits->keep : 0;
        vain = s->count > keep ? remove_first(s, s->count - keep) : 0;
    }
    free(s->files);
    free(s->texts);
    free(s);
    return vain;
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
    self->sweep_odds = ODDS;
    self->sweep_dice = (uint64_t)lk_time_of(CLOCK_REALTIME) ^ (uint64_t)getpid() << 40 ^ (uintptr_t)self;
}

void lk_file_sweep_count_locked(lk_file *self, bool fresh)
{
    if (!fresh)
        return;
    if (self->sweep_due) {
        LK_WRITE(self->sweep_behind, LK_READ(self->sweep_behind) + 1);
    } else if (throw_locked(self) % self->sweep_odds == 0) {
        self->sweep_due = true;
        self->svc->attend(self->svc);
    }
}

static bool begin(lk_file *self, long *at)
{
    lk_mutex_lock(&self->mutex);
    const bool ours = self->sweep_due && !self->sweep_runs;
    self->sweep_runs = self->sweep_runs || ours;
    *at = self->sweep_at;
    if (ours && *at == 0)
        LK_WRITE(self->sweep_behind, 0);
    lk_mutex_unlock(&self->mutex);
    return ours;
}

bool lk_file_sweep_go_on(lk_file *self, void (*between)(lk_file *self))
{
    const lk_file_sweep_limits limits = {.most = MOST, .keep = KEEP, .list = LIST, .between = between};
    long at;
    if (!begin(self, &at))
        return false;
    const size_t vain = lk_file_sweep_part(self, &limits, &at);
    lk_mutex_lock(&self->mutex);
    self->sweep_runs = false;
    self->sweep_at = at;
    /* Who asked meanwhile has thrown no dice, and what came behind us was not seen. */
    const bool due = at != 0 || LK_READ(self->sweep_behind) >= ODDS;
    self->sweep_due = due;
    if (!due)
        LK_WRITE(self->sweep_behind, 0);
    /* Many held locks would be looked at again and again. */
    const size_t odds = ODDS + vain / VAIN_FOR_A_THROW;
    self->sweep_odds = odds < ODDS_MAX ? (uint32_t)odds : ODDS_MAX;
    lk_mutex_unlock(&self->mutex);
    return due;
}

static void remove_own(sweep *s, const lk_file_claim *c)
{
    lk_file_name name;
    lk_file_name_set(&name, s->self->prefix, c->claim->key, c->claim->key_len);
    const int parent = lk_file_parent(s->self, &name, false);
    if (parent < 0)
        return;
    const bool locked = lk_file_whole_lock(c->fd, F_WRLCK) == 0;
    const bool removed = locked && lk_file_tokens_raise(&s->tokens, name.hash, c->claim->token) &&
                         remove_locked_file(s, &name, parent, c->fd, &c->id);
    if (locked) /* all at once: whoever met the first byte alone would take it for that of a lock that is held */
        (void)lk_file_whole_lock(c->fd, F_UNLCK);
    lk_file_parent_close(s->self, parent);
    if (removed)
        remove_parts(s->self, &name);
}

void lk_file_sweep_own(lk_file *self, const lk_file_claim *c)
{
    if (!c->fresh || self->sync || LK_READ(self->sweep_behind) < FAR_BEHIND)
        return;
    sweep *s = calloc(1, sizeof *s);
    if (s == NULL)
        return;
    s->self = self;
    if (lk_file_tokens_open(self, &s->tokens)) {
        remove_own(s, c);
        lk_file_tokens_close(&s->tokens);
    }
    free(s);
}

void lk_file_sweep_close(lk_file *self)
{
    const int64_t until = lk_time_of(CLOCK_MONOTONIC) + CLOSE_MAX;
    while (lk_file_sweep_go_on(self, NULL) && lk_time_of(CLOCK_MONOTONIC) < until)
        ;
}
