/* instance.h: an instance of the file driver.
 *
 * A lock is an open-file-description lock (F_OFD_SETLK) on the first byte of one file. The kernel ends it
 * with the last descriptor of its open file description. A classic POSIX lock would end when the process closes any
 * other descriptor of the file. Bytes of the file as lock ranges:
 *
 *   0  write-locked by the holder: this is the lock; read-locked by each who shares it, or has a permit
 *   1  read-locked by each waiter, so that who comes knows that there is a queue, and who releases that it is
 *      waited for
 *   2  write-locked by one who breaks the lock: two do not break it at once, and nobody is granted it
 *      between the breaker's look at the holder and the end of its work
 *   4 and far ones: of those who hold beside others (beside.c)
 *   all, by one lock without an end: a sweep (sweep.c) that removes the file, which nobody uses then. So the
 *      length of the lock that another meets tells whether somebody holds, waits or breaks, or whether the
 *      file is just being removed, which is waited for (range.c)
 *
 * A forced unlock can't take the kernel's lock away from its holder. It puts a fresh file at the name, so a
 * grant counts only while the locked file is still the one at the name, through the whole path as one who
 * comes now would resolve it: the directory, one above it, or a mount may have changed as well. */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "lk_error.h"
#include "record.h"
#include "slots.h"

enum { LK_FILE_BUSY_NAMES = 64 };

typedef struct {
    const locker_services *svc;
    lk_list among_all; /* the instances of the process (forks.c) */
    char *path;        /* the lock directory, for texts */
    char *prefix;      /* of file names: the encoded namespace */
    int dir_fd;
    struct stat root; /* of the process at open: the path was walked from there */
    int epoll_fd;     /* what core polls; holds inotify_fd once there is one */
    int watch_fd;     /* inotify's number, kept for it by a copy of dir_fd until it is made (watch.c) */
    uid_t uid;        /* ours */
    bool shared;      /* a group uses the directory */
    bool sync;        /* records are flushed to the disk */
    char template[LK_FILE_RECORD_SIZE];
    _Atomic uint32_t busy[LK_FILE_BUSY_NAMES]; /* hashes of names that a try found held, to look before
                                                  touching them again; relaxed: a hint */
    _Atomic uint64_t
        vacant[LK_FILE_BUSY_NAMES]; /* a name's hash, and a slot of it that was free lately (beside.c);
                                                    relaxed: a hint */
    atomic_bool moved;              /* the directory isn't at its path any more; relaxed: a flag */
    atomic_bool warned;             /* that inotify is not to be had; relaxed: a flag */
    _Atomic int watch_code;         /* errno of the last watch that was not to be had; relaxed: for a text */
    atomic_bool unqueued;           /* that tickets are not to be had */
    atomic_bool warned_tokens;      /* that the tokens' file can't be used; relaxed: a flag */
    _Atomic uint32_t sweep_behind;  /* uses of fresh files since the last sweep began; relaxed: a hint */
    atomic_bool sweep_due;          /* a sweep was asked for, or has parts left; relaxed: a flag */
    long
        sweep_at; /* dispatch: where in the directory the next part of the sweep begins; 0: at its beginning */

    lk_mutex mutex; /* taken before core's */
    lk_file_slots slots LK_GUARDED_BY(mutex);
    lk_list claims LK_GUARDED_BY(mutex);   /* those with a slot */
    int inotify_fd LK_GUARDED_BY(mutex);   /* watch_fd, or -1: not made yet, or not to be had */
    int dir_wd LK_GUARDED_BY(mutex);       /* the watch on the directory; -1: none */
    int above_wd LK_GUARDED_BY(mutex);     /* behind it, up to this one: directories above; as dir_wd: none */
    int removed_wd LK_GUARDED_BY(mutex);   /* the watch that was removed last */
    size_t held LK_GUARDED_BY(mutex);      /* grants */
    int64_t touch_at LK_GUARDED_BY(mutex); /* when the files of grants get a new time */
    int64_t look_at LK_GUARDED_BY(mutex);  /* when to look for what no event tells; LOCKER_NEVER: no grants */
    bool unwatched LK_GUARDED_BY(mutex); /* some grant may have no watch: dispatch looks after all of them */
    lk_table watches LK_GUARDED_BY(mutex);    /* the claims that have a watch, by its number */
    uint64_t sweep_dice LK_GUARDED_BY(mutex); /* random: which use of a fresh file asks for a sweep */
} lk_file;

static inline int64_t lk_file_now(const lk_file *self)
{
    return self->svc->clock->now(self->svc->clock->context);
}

/* What the driver's table has of acquire.c, release.c, keep.c and inspect.c. */
locker_status lk_file_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_file_withdraw(void *self, locker_claim *claim);
locker_status lk_file_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_file_keep_over_exec(void *self, locker_claim *grant, locker_error *err);
locker_status lk_file_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err);
locker_status lk_file_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err);

/* forks.c: a child of fork() closes the instance's descriptors that wait, from this call on. Return false if it cannot. */
bool lk_file_forks_join(lk_file *self);
/* End this for an instance that is being closed. The instance may be NULL, or may not have joined. */
void lk_file_forks_leave(lk_file *self);
