/* directory.c: the lock directory. Whoever can write into it can take, fake and break locks, so it is used
 * only if nobody else can; and only where this host's kernel ends a lock with its process, as promised. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "directory.h"
#include "lk_fd.h"
#include "lk_time.h"

const char *lk_file_filesystem_refused(uint64_t type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } refused[] = {
        {0x00006969, "NFS"},
        {0x0000517B, "SMB"},
        {0xFF534D42, "CIFS"},
        {0xFE534D42, "SMB2"},
        {0x0000564C, "NCP"},
        {0x5346414F, "AFS"},
        {0x6B414653, "AFS"},
        {0x73757245, "Coda"},
        {0x00C36400, "Ceph"},
        {0x01021997, "9P"},
        {0x0BD00BD0, "Lustre"},
        {0x47504653, "GPFS"},
        {0x7461636F, "OCFS2"},
        {0x01161970, "GFS2"},
        {0x20030528, "PVFS2"},
        {0x19830326, "BeeGFS"},
        {0xAAD7AAEA, "PanFS"},
        {0x786F4256, "VirtualBox"},
        {0xBACBACBC, "VMware"},
        {0x7C7C6673, "Parallels"},
        {0x61636673, "ACFS"},
        {0x013111A8, "IBRIX"},
        {0xBEEFDEAD, "SNFS"},
        {0xA501FCF5, "VxFS"},
        {0x65735546, "FUSE (which may be sshfs or another network filesystem)"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].type == (uint32_t)type)
            return refused[i].name;
    return NULL;
}

static locker_status check_filesystem(int fd, const char *path, locker_error *err)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return locker_error_set(err, LOCKER_UNAVAILABLE, errno,
                                "cannot find out the filesystem of the lock directory %.200s: %s", path,
                                strerror(errno));
    const char *name = lk_file_filesystem_refused((uint64_t)fs.f_type);
    if (name != NULL)
        return lk_misconfigured(
            err,
            "the lock directory %.150s is on %s, where a lock can outlive its process; use a directory on a "
            "local disk or tmpfs, or the redis driver for locks between hosts",
            path, name);
    return LOCKER_OK;
}

/* True if this process is in the group. */
static bool is_in_group(gid_t group)
{
    enum { MOST = 65536 }; /* the kernel's limit */
    gid_t few[64], *all = few;
    int count = getgroups((int)(sizeof few / sizeof *few), few);
    if (count < 0 && (all = malloc(MOST * sizeof *all)) != NULL)
        count = getgroups(MOST, all);
    bool is_in = getegid() == group;
    for (int i = 0; i < count && !is_in; i++)
        is_in = all[i] == group;
    if (all != few)
        free(all);
    return is_in;
}

/* True if a member of this process's group has made the directory for that group. Only a member, or root, can give a directory to a
 * group and set its set-group-id bit; but in a directory with that bit whoever may write there makes such directories. So that must
 * not be everybody. */
static bool is_of_member(int fd, const struct stat *s)
{
    struct stat above;
    return (s->st_mode & S_IWGRP) != 0 && (s->st_mode & S_ISGID) != 0 && is_in_group(s->st_gid) &&
           fstatat(fd, "..", &above, 0) == 0 &&
           ((above.st_mode & S_IWOTH) == 0 || (above.st_mode & S_ISGID) == 0);
}

static locker_status check_trust(int fd, const char *path, bool shared, locker_error *err)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return locker_error_set(err, LOCKER_UNAVAILABLE, errno, "cannot check the lock directory %.200s: %s",
                                path, strerror(errno));
    const bool foreign = s.st_uid != geteuid() && s.st_uid != 0;
    if (foreign && shared && !is_of_member(fd, &s))
        return lk_misconfigured(
            err,
            "the lock directory %.200s belongs to user %lu, and no group shares it with user %lu by mode "
            "2770; chgrp it to a group of both users and chmod 2770 it, run as a member of its group, or "
            "chown it to root",
            path, (unsigned long)s.st_uid, (unsigned long)geteuid());
    if (foreign && !shared)
        return lk_misconfigured(err,
                                "the lock directory %.200s belongs to user %lu, not to user %lu or root; "
                                "use another directory, or run as its owner",
                                path, (unsigned long)s.st_uid, (unsigned long)geteuid());
    if (s.st_mode & S_IWOTH)
        return lk_misconfigured(err,
                                "the lock directory %.200s can be written by every user; chmod o-w it, or "
                                "use a new subdirectory, which the driver creates with mode 0700",
                                path);
    if ((s.st_mode & S_IWGRP) && !shared)
        return lk_misconfigured(err,
                                "the lock directory %.200s can be written by its group; chmod g-w it, or "
                                "set shared=yes to share the locks with that group",
                                path);
    return LOCKER_OK;
}

/* What an errno means, and what to do about it. The last of a list, 0, stands for all others. */
typedef struct {
    int code;
    locker_status status;
    const char *advice;
} cause;

static const cause *find_cause(const cause *list, int code)
{
    while (list->code != 0 && list->code != code)
        list++;
    return list;
}

static locker_status fail_open(const char *path, int code, locker_error *err)
{
    static const cause causes[] = {
        {ENOTDIR, LOCKER_CONFIG, "it or a part of its path is not a directory; use another path"},
        {EEXIST, LOCKER_UNAVAILABLE, "another process removed it meanwhile; try again"},
        {ENOENT, LOCKER_CONFIG, "its parent directory does not exist; create the parent first"},
        {EACCES, LOCKER_DENIED, "use a directory of your own"},
        {EPERM, LOCKER_DENIED, "use a directory of your own"},
        {EROFS, LOCKER_CONFIG, "use a writable directory"},
        {ENAMETOOLONG, LOCKER_CONFIG, "use another directory"},
        {EINVAL, LOCKER_CONFIG, "use another directory"},
        {EMFILE, LOCKER_UNAVAILABLE, "raise the limit on open files (ulimit -n)"},
        {ENFILE, LOCKER_UNAVAILABLE, "raise the limit on open files (ulimit -n)"},
        {0, LOCKER_UNAVAILABLE, "check the filesystem, and try again"},
    };
    const cause *c = find_cause(causes, code);
    struct stat s;
    if ((code == ELOOP || code == ENOTDIR) && lstat(path, &s) == 0 && S_ISLNK(s.st_mode))
        return locker_error_set(err, LOCKER_CONFIG, code,
                                "the lock directory %.200s is a symbolic link; use the path of the "
                                "directory itself",
                                path);
    return locker_error_set(err, c->status, code, "cannot create or open the lock directory %.200s: %s; %s",
                            path, strerror(code), c->advice);
}

void lk_file_new_name(char out[LK_FILE_NEW_NAME])
{
    static _Atomic uint32_t last; /* relaxed: a number that no other name of the process has */
    snprintf(out, LK_FILE_NEW_NAME, LK_FILE_NEW_PREFIX "%ld-%llx-%x", (long)getpid(),
             (unsigned long long)lk_time_of(CLOCK_BOOTTIME),
             (unsigned)atomic_fetch_add_explicit(&last, 1, memory_order_relaxed));
}

/* Set the access mode of a directory by its access control list. That keeps its set-group-id bit, and so is possible where a filter
 * of system calls (systemd's RestrictSUIDSGID) forbids every chmod() that mentions the bit. */
static bool set_mode_by_acl(int fd, mode_t mode)
{
    enum { VERSION = 2, USER = 0x01, GROUP = 0x04, OTHER = 0x20 };
    const struct {
        uint32_t version;
        struct {
            uint16_t tag, rights;
            uint32_t id;
        } entry[3];
    } acl = {htole32(VERSION),
             {{htole16(USER), htole16(mode >> 6 & 7), UINT32_MAX},
              {htole16(GROUP), htole16(mode >> 3 & 7), UINT32_MAX},
              {htole16(OTHER), htole16(mode & 7), UINT32_MAX}}};
    return fsetxattr(fd, "system.posix_acl_access", &acl, sizeof acl, 0) == 0;
}

static bool has_mode(int fd, mode_t mode)
{
    struct stat s;
    return fstat(fd, &s) == 0 && (s.st_mode & 07777) == mode;
}

bool lk_file_share(int fd, mode_t mode)
{
    if (has_mode(fd, mode) || fchmod(fd, mode) == 0)
        return true;
    const int code = errno;
    if (set_mode_by_acl(fd, mode & 0777) && has_mode(fd, mode))
        return true;
    errno = code;
    return false;
}

/* Make it under a name of its own, and give it its mode and its name as one step: nobody finds it half made. 0, or an errno; EEXIST: it
 * is there. */
static int make_shared(int parent, const char *name)
{
    char fresh[LK_FILE_NEW_NAME];
    lk_file_new_name(fresh);
    if (mkdirat(parent, fresh, 0770) != 0)
        return errno;
    const int fd = lk_fd_high(openat(parent, fresh, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    /* The set-group-id bit gives what is made in it the directory's group, whoever makes it. */
    const bool made =
        fd >= 0 && lk_file_share(fd, 02770) && renameat2(parent, fresh, parent, name, RENAME_NOREPLACE) == 0;
    const int code = made ? 0 : errno;
    if (fd >= 0)
        close(fd);
    if (!made)
        (void)unlinkat(parent, fresh, AT_REMOVEDIR);
    return code;
}

/* Make the lock directory for a group. 0, or an errno. */
static int make_root(const char *path)
{
    char above[PATH_MAX]; /* the caller has seen that it is long enough */
    const size_t len = (size_t)(strrchr(path, '/') - path) + 1;
    struct stat s;
    if (lstat(path, &s) == 0)
        return EEXIST;
    memcpy(above, path, len);
    above[len] = '\0';
    const int parent = lk_fd_high(open(above, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (parent < 0)
        return errno;
    const int code = make_shared(parent, path + len);
    close(parent);
    return code;
}

/* True if directories can be made in it that all of its group can use: without them nobody could share a lock or wait in order. */
static bool can_be_shared(int fd)
{
    char name[LK_FILE_NEW_NAME];
    lk_file_new_name(name);
    const int code = make_shared(fd, name);
    if (code == 0)
        (void)unlinkat(fd, name, AT_REMOVEDIR);
    errno = code;
    return code == 0;
}

static locker_status fail_sharing(const char *path, const char *what, int code, locker_error *err)
{
    return locker_error_set(
        err, LOCKER_CONFIG, code,
        "cannot %s %.150s with mode 2770: %s; create the directory by hand (mkdir, chgrp, chmod 2770), and "
        "set the umask to 007 (UMask=0007) if the service may not set the set-group-ID bit "
        "(RestrictSUIDSGID)",
        what, path, strerror(code));
}

locker_status lk_file_directory_open(const char *path, bool shared, int *out, locker_error *err)
{
    const int code = shared ? make_root(path) : mkdir(path, 0700) == 0 ? 0 : errno;
    if (shared && code == EPERM)
        return fail_sharing(path, "create the lock directory", code, err);
    /* A directory that is there is good enough, whatever mkdir would have said (EROFS, EACCES above it). */
    const int fd = lk_fd_high(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return fail_open(path, errno == ENOENT && code != 0 ? code : errno, err);
    locker_status status = LOCKER_OK;
    if (status == LOCKER_OK)
        status = check_trust(fd, path, shared, err);
    if (status == LOCKER_OK)
        status = check_filesystem(fd, path, err);
    if (status == LOCKER_OK && shared && !can_be_shared(fd) && errno == EPERM)
        status = fail_sharing(path, "create directories in", errno, err);
    if (status == LOCKER_OK)
        *out = fd;
    else
        close(fd);
    return status;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* lstat of the path. ESTALE: its last component is missing, so anybody may make it anew. ENOENT: what is
 * above it is, so nobody can, and it may come back as it was. */
static int look_at_path(const lk_file *self, struct stat *there)
{
    if (lstat(self->path, there) == 0)
        return 0;
    if (errno == ENOTDIR || errno == ELOOP)
        return ENOENT;
    if (errno != ENOENT)
        return errno;
    char above[PATH_MAX]; /* open saw that it is long enough */
    const size_t len = (size_t)(strrchr(self->path, '/') - self->path) + 1;
    memcpy(above, self->path, len);
    above[len] = '\0';
    const int fd = lk_fd_high(open(above, O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? ENOENT : errno;
    const int code = fstatat(fd, self->path + len, there, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    close(fd);
    return code == ENOENT ? ESTALE : code;
}

int lk_file_directory_compare(const lk_file *self)
{
    struct stat open_one;
    if (fstat(self->dir_fd, &open_one) != 0)
        return errno;
    if (open_one.st_nlink == 0)
        return ESTALE;
    struct stat there;
    const int code = look_at_path(self, &there);
    if (code == 0 && same(&there, &open_one))
        return 0;
    struct stat root;
    /* Who gave up the right to walk the path, or has another root since, can't see what others find there. */
    if (code == EACCES || (stat("/", &root) == 0 && !same(&root, &self->root)))
        return 0;
    return code == 0 ? ESTALE : code;
}

static int open_part(int parent, const char *name)
{
    return lk_fd_high(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool lk_file_directory_make(const lk_file *self, int parent, const char *name)
{
    if (!self->shared)
        return mkdirat(parent, name, 0700) == 0;
    const int code = make_shared(parent, name);
    errno = code;
    return code == 0;
}

int lk_file_parent(const lk_file *self, const lk_file_name *name, bool create)
{
    int fd = self->dir_fd;
    char part[NAME_MAX + 1];
    for (size_t at = 0; fd >= 0 && at < name->last;) {
        const size_t len = strcspn(name->text + at, "/");
        memcpy(part, name->text + at, len);
        part[len] = '\0';
        at += len + 1;
        /* One component at a time, so that no link on the way is followed. */
        int next = open_part(fd, part);
        if (next < 0 && errno == ENOENT && create &&
            (lk_file_directory_make(self, fd, part) || errno == EEXIST))
            next = open_part(fd, part);
        lk_file_parent_close(self, fd);
        fd = next;
    }
    return fd;
}

void lk_file_parent_close(const lk_file *self, int fd)
{
    const int code = errno;
    if (fd != self->dir_fd)
        close(fd);
    errno = code;
}

locker_status lk_file_fail(const lk_file *self, const char *what, const lk_file_name *name, int code,
                           locker_error *err)
{
    static const char not_ours[] = "run as the directory's owner, or share the directory with shared=yes";
    static const char no_lock_file[] = "a symbolic link or another file is in its path; remove it";
    static const char not_regular[] = "a directory, FIFO, socket or device is at its path; remove it";
    static const char no_room[] = "make room on that filesystem";
    static const char too_many[] = "each lock needs a descriptor; raise the limit on open files (ulimit -n)";
    static const cause causes[] = {
        {EACCES, LOCKER_DENIED, not_ours},
        {EPERM, LOCKER_DENIED, not_ours},
        {ELOOP, LOCKER_DENIED, no_lock_file},
        {ENOTDIR, LOCKER_DENIED, no_lock_file},
        {EISDIR, LOCKER_DENIED, not_regular},
        {ENXIO, LOCKER_DENIED, not_regular},
        {ESPIPE, LOCKER_DENIED, not_regular},
        {EBADMSG, LOCKER_DENIED,
         "it is another program's file; move it away, or use a directory only for locks"},
        {EROFS, LOCKER_CONFIG, "use a writable directory"},
        {EFBIG, LOCKER_UNAVAILABLE, "raise the limit on the size of files (ulimit -f)"},
        {ENOSPC, LOCKER_UNAVAILABLE, no_room},
        {EDQUOT, LOCKER_UNAVAILABLE, no_room},
        {EMFILE, LOCKER_UNAVAILABLE, too_many},
        {ENFILE, LOCKER_UNAVAILABLE, too_many},
        {ENOENT, LOCKER_UNAVAILABLE,
         "a directory of its path is missing; restore the directory, or open a new locker"},
        {ENOLCK, LOCKER_UNAVAILABLE, "the kernel has no room for more file locks"},
        {ENOMEM, LOCKER_NOMEM, "out of memory"},
        {0, LOCKER_UNAVAILABLE, "check the filesystem, and try again"},
    };
    const cause *c = find_cause(causes, code);
    /* The path last, where it may be cut: a key can fill the text by itself. */
    return locker_error_set(err, c->status, code, "cannot %s the lock file: %s; %s (%.120s/%.120s)", what,
                            strerror(code), c->advice, self->path, name->text);
}

locker_status lk_file_unknown_use(const lk_file *self, const lk_file_name *name, locker_error *err)
{
    return lk_unavailable(err, "the kernel cannot report the holders of %.150s/%.150s; try again", self->path,
                          name->text);
}
