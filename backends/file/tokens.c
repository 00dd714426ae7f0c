/* tokens.c: what is remembered of lock files that were removed: one small file beside them, in whose slots
 * their tokens are. A name's slot follows from its hash; names that share one share the greatest of their
 * tokens. A sweep raises the slot before it removes the file, and the first grant in a fresh file counts on
 * from there, also when the clock is set back.
 *
 * A slot is the token and a check of it, because it is read without a lock: one that is being written may be
 * read torn, and is whole a moment later. Who raises one has its bytes locked (F_OFD_SETLK), so that it never
 * goes back; where another has them, and be it one that is stopped, the file of that name stays for this time. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "lockfile.h"
#include "put.h"
#include "tokens.h"

typedef struct {
    uint64_t token, check;
} slot;

enum { TRIES = 50, SLOT = sizeof(slot), SIZE = LK_FILE_TOKEN_SLOTS * SLOT };

static const lk_file_name file_name = {.text = ".tokens"};

/* The halves change places, so that both numbers torn alike don't agree; all zero is no check of 0. */
static uint64_t check_of(uint64_t token)
{
    return (token << 32 | token >> 32) ^ UINT64_C(0x6c69626c6f636b65);
}

static off_t place_of(uint32_t hash)
{
    return (off_t)(hash % LK_FILE_TOKEN_SLOTS) * SLOT;
}

/* An errno, or 0; a slot that was never written, or was damaged, is 0. */
static int read_slot(int fd, uint32_t hash, uint64_t *token)
{
    *token = 0;
    for (int i = 0; i < TRIES; i++) {
        slot s = {0};
        const ssize_t got = pread(fd, &s, sizeof s, place_of(hash));
        if (got < 0)
            return errno;
        if (got == SLOT && s.check == check_of(s.token) && s.token <= INT64_MAX) {
            *token = s.token;
            return 0;
        }
        if (got < SLOT || (s.token == 0 && s.check == 0))
            return 0;
        sched_yield();
    }
    return 0;
}

static void warn(lk_file *self, const char *why)
{
    if (!atomic_exchange_explicit(&self->warned_tokens, true, memory_order_relaxed))
        self->svc->log(
            self->svc, LOCKER_LOG_WARN,
            "cannot use %.200s/%s: %s; unused lock files stay, and tokens of removed lock files start again "
            "from the clock; remove the file",
            self->path, file_name.text, why);
}

/* Something else is at its place: no sweep of ours has written there. */
static bool is_other(int code)
{
    return code == ELOOP || code == ENXIO || code == EISDIR || code == ENOTDIR;
}

/* Whether the open file is ours; told, when not. *code: an errno when that can't be told now. */
static bool trusted(lk_file *self, int fd, int *code)
{
    struct statx s;
    locker_error err;
    const locker_status status = lk_file_check(self, &file_name, fd, &s, &err);
    *code = status == LOCKER_OK || status == LOCKER_DENIED ? 0 : EIO;
    if (status == LOCKER_OK)
        return true;
    warn(self, err.text);
    return false;
}

int lk_file_tokens_floor(lk_file *self, uint32_t hash, uint64_t *token)
{
    *token = 0;
    const int fd = lk_file_open_in(self, self->dir_fd, &file_name, O_RDONLY);
    if (fd < 0 && is_other(errno))
        warn(self, "it is not a regular file");
    if (fd < 0)
        return errno == ENOENT || is_other(errno) ? 0 : errno;
    int code;
    if (trusted(self, fd, &code))
        code = read_slot(fd, hash, token);
    close(fd);
    return code;
}

/* Who makes it may have another group. */
static bool share(const lk_file *self, int fd)
{
    struct stat directory, file;
    return !self->shared || fstat(self->dir_fd, &directory) != 0 || fstat(fd, &file) != 0 ||
           file.st_gid == directory.st_gid || fchown(fd, (uid_t)-1, directory.st_gid) == 0;
}

/* It must be there after a crash of the host, as what is written to it must. */
static int make(const lk_file *self)
{
    char fresh[LK_FILE_NEW_NAME];
    const int fd = lk_file_make(self, self->dir_fd, fresh);
    if (fd < 0)
        return -1;
    if (share(self, fd) &&
        renameat2(self->dir_fd, fresh, self->dir_fd, file_name.text, RENAME_NOREPLACE) == 0 &&
        (!self->sync || fsync(self->dir_fd) == 0))
        return fd;
    const int code = errno;
    (void)unlinkat(self->dir_fd, fresh, 0);
    close(fd);
    errno = code;
    return -1;
}

/* True if the file may be written as ours: it is not too long, and no more slots are damaged than are good. Slots that were never
 * written are zero. */
static bool is_ours(lk_file *self, int fd)
{
    slot all[LK_FILE_TOKEN_SLOTS + 1] = {0};
    int good = 0, bad = 0;
    const ssize_t got = pread(fd, all, sizeof all, 0);
    for (size_t i = 0; i < LK_FILE_TOKEN_SLOTS; i++) {
        const bool written = all[i].token != 0 || all[i].check != 0;
        good += written && all[i].check == check_of(all[i].token);
        bad += written && all[i].check != check_of(all[i].token);
    }
    if (got >= 0 && got <= SIZE && bad <= good)
        return true;
    warn(self, "it is another program's file, or damaged");
    return false;
}

int lk_file_tokens_open(lk_file *self)
{
    int code;
    int fd = lk_file_open_in(self, self->dir_fd, &file_name, O_RDWR);
    if (fd < 0 && errno == ENOENT)
        fd = make(self);
    if (fd < 0 && is_other(errno))
        warn(self, "it is not a regular file");
    if (fd < 0 || (trusted(self, fd, &code) && is_ours(self, fd)))
        return fd;
    close(fd);
    return -1;
}

static int lock_slot(int fd, uint32_t hash, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = place_of(hash), .l_len = SLOT};
    return fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

bool lk_file_tokens_raise(int fd, uint32_t hash, uint64_t token)
{
    /* No clock gives a greater token, and all names of the slot would count on from there. */
    if (token > INT64_MAX || lock_slot(fd, hash, F_WRLCK) != 0)
        return false;
    uint64_t last;
    bool done = read_slot(fd, hash, &last) == 0;
    if (done && last < token) {
        const slot s = {token, check_of(token)};
        done = lk_file_put(fd, &s, sizeof s, place_of(hash)) == SLOT;
    }
    (void)lock_slot(fd, hash, F_UNLCK);
    return done;
}
