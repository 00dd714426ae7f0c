/* lockfile.c: opens lock files, sees that they can be trusted, and are at their names; locks their bytes. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "directory.h"
#include "lk_fd.h"
#include "lockfile.h"

int lk_file_range_lock(int fd, short type, off_t byte)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &range) == 0)
        return 0;
    return errno == EACCES ? EAGAIN : errno;
}

int lk_file_range_unlock(int fd)
{
    struct flock both = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 2};
    return fcntl(fd, F_OFD_SETLK, &both) == 0 ? 0 : errno;
}

bool lk_file_range_locked(int fd, off_t byte)
{
    return lk_file_range_met(fd, F_WRLCK, byte) != F_UNLCK;
}

/* A lock of the whole file, without an end, is a sweep's, and nobody has another one beside it. */
short lk_file_range_met(int fd, short type, off_t byte)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, F_OFD_GETLK, &range) != 0)
        return LK_FILE_MET_UNKNOWN;
    return range.l_len != 0 ? range.l_type : F_UNLCK;
}

off_t lk_file_range_find(int fd, off_t start, off_t length)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    if (length <= 0)
        return LK_FILE_NOWHERE;
    if (fcntl(fd, F_OFD_GETLK, &range) != 0)
        return LK_FILE_SOMEWHERE;
    return range.l_type != F_UNLCK && range.l_len != 0 ? range.l_start : LK_FILE_NOWHERE;
}

int lk_file_whole_lock(int fd, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    if (fcntl(fd, F_OFD_SETLK, &range) == 0)
        return 0;
    return errno == EACCES ? EAGAIN : errno;
}

bool lk_file_whole_locked(int fd)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    return fcntl(fd, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

/* Not its times: asking for those makes the kernel keep them finer, and the next write dearer by as much. */
enum { LOOK = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_INO };

lk_file_id lk_file_id_of(const struct statx *s)
{
    return (lk_file_id){.inode = s->stx_ino, .device = {s->stx_dev_major, s->stx_dev_minor}};
}

int lk_file_compare_at(int dir_fd, const char *path, const lk_file_id *id)
{
    struct statx s;
    if (statx(dir_fd, path, AT_SYMLINK_NOFOLLOW, STATX_INO, &s) != 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? ESTALE : errno;
    lk_file_id there = lk_file_id_of(&s);
    return lk_file_id_is(&there, id) ? 0 : ESTALE;
}

int lk_file_compare(const lk_file *self, const lk_file_name *name, const lk_file_id *id)
{
    char path[PATH_MAX]; /* open saw that it is long enough */
    const size_t len = strlen(self->path);
    memcpy(path, self->path, len);
    path[len] = '/';
    memcpy(path + len + 1, name->text, strlen(name->text) + 1);
    if (lk_file_compare_at(AT_FDCWD, path, id) == 0)
        return 0;
    /* Is it the path to the directory, or what is in it? */
    const int code = lk_file_directory_compare(self);
    return code == 0 ? lk_file_compare_at(self->dir_fd, name->text, id) : code;
}

int lk_file_look(const lk_file *self, const lk_file_claim *c)
{
    lk_file_name name;
    lk_file_name_set(&name, self->prefix, c->claim->key, c->claim->key_len);
    return lk_file_compare(self, &name, &c->id);
}

locker_status lk_file_confirm(const lk_file *self, const lk_file_name *name, const lk_file_id *id,
                              locker_error *err)
{
    const int code = lk_file_compare(self, name, id);
    if (code == 0)
        return LOCKER_OK;
    return code == ESTALE ? LK_FILE_AGAIN : lk_file_fail(self, "find", name, code, err);
}

/* True if the file is a lock file by what is in it: then another name, such as cp -l gives it, is no harm. */
static bool has_record(int fd)
{
    lk_file_record record;
    lk_file_reading reading;
    return lk_file_record_read(fd, &record, &reading) == 0 && reading == LK_FILE_RECORD_GOOD;
}

locker_status lk_file_check(const lk_file *self, const lk_file_name *name, int fd, struct statx *s,
                            locker_error *err)
{
    if (statx(fd, "", AT_EMPTY_PATH, LOOK, s) != 0)
        return lk_file_fail(self, "check", name, errno, err);
    const char *wrong = NULL;
    if (!S_ISREG(s->stx_mode))
        wrong = "is not a regular file";
    else if (s->stx_nlink > 1 && !has_record(fd))
        wrong = "has more than one hard link and no lock record";
    else if (s->stx_mode & S_IWOTH)
        wrong = "can be written by every user";
    else if (!self->shared && s->stx_uid != self->uid && s->stx_uid != 0)
        wrong = "belongs to another user";
    if (wrong != NULL)
        return lk_denied(err, "%.150s/%.150s %s, so it cannot be trusted as a lock file; remove it",
                         self->path, name->text, wrong);
    return LOCKER_OK;
}

enum { OPEN = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK };

static int open_at(int parent, const char *name, int flags, mode_t mode)
{
    /* Reading the record is no use of the file worth a time stamp; only its owner may leave that out. */
    int fd = lk_fd_high(openat(parent, name, flags | OPEN | O_NOATIME, mode));
    if (fd < 0 && errno == EPERM)
        fd = lk_fd_high(openat(parent, name, flags | OPEN, mode));
    return fd;
}

int lk_file_open_in(const lk_file *self, int parent, const lk_file_name *name, int flags)
{
    return open_at(parent, name->text + name->last, flags, self->shared ? 0660 : 0600);
}

int lk_file_make(const lk_file *self, int parent, char name[LK_FILE_NEW_NAME])
{
    lk_file_new_name(name);
    const int fd = open_at(parent, name, O_RDWR | O_CREAT | O_EXCL, self->shared ? 0660 : 0600);
    if (fd < 0 || !self->shared || lk_file_share(fd, 0660))
        return fd;
    const int code = errno;
    (void)unlinkat(parent, name, 0);
    close(fd);
    errno = code;
    return -1;
}

/* What the group shares has its mode before anybody finds it. Nobody can lock it before all have been told that it came to this
 * name: they would be told right behind a grant that their file was replaced. */
static int open_or_make_shared(const lk_file *self, int parent, const lk_file_name *name, int flags)
{
    const char *last = name->text + name->last;
    char fresh[LK_FILE_NEW_NAME];
    for (;;) {
        int fd = open_at(parent, last, flags & ~O_CREAT, 0);
        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = lk_file_make(self, parent, fresh);
        if (fd < 0)
            return fd;
        if (lk_file_whole_lock(fd, F_WRLCK) == 0 &&
            renameat2(parent, fresh, parent, last, RENAME_NOREPLACE) == 0) {
            (void)lk_file_whole_lock(fd, F_UNLCK);
            return fd;
        }
        const int code = errno;
        (void)unlinkat(parent, fresh, 0);
        close(fd);
        errno = code;
        if (code != EEXIST &&
            code != ENOENT) /* a sweep took it for left behind: this process stood for long */
            return -1;
    }
}

int lk_file_open(const lk_file *self, const lk_file_name *name, int flags)
{
    const int parent = lk_file_parent(self, name, (flags & O_CREAT) != 0);
    if (parent < 0)
        return -1;
    const int fd = self->shared && (flags & O_CREAT) != 0 ? open_or_make_shared(self, parent, name, flags)
                                                          : lk_file_open_in(self, parent, name, flags);
    lk_file_parent_close(self, parent);
    return fd;
}

bool lk_file_list(lk_file *self, lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    c->ticket_fd = c->ahead_fd = -1;
    c->slot = lk_file_slot_take_locked(&self->slots, c->fd, c->id.inode);
    if (c->slot != NULL)
        lk_list_append(&self->claims, &c->link);
    lk_mutex_unlock(&self->mutex);
    return c->slot != NULL;
}

void lk_file_close(lk_file *self, lk_file_claim *c)
{
    close(c->fd);
    c->fd = -1;
    if (c->slot == NULL)
        return;
    lk_mutex_lock(&self->mutex);
    lk_list_remove(&c->link);
    lk_file_slot_give_locked(&self->slots, c->slot);
    c->slot = NULL;
    lk_mutex_unlock(&self->mutex);
}
