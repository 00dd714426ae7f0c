/*
 * instance.h: what the parts of the file driver share.
 *
 *   file.c       the driver's table, its parameters, open, close, abandon, ping
 *   directory.c  the lock directory: made or checked, refused when it can't be trusted; error texts
 *   name.c       from a key to a file's name
 *   record.c     the text in a lock file: fencing token and last holder
 *   slots.c      the descriptors of all claims, readable without a lock in a fork's child
 *   watch.c      inotify: waking waiters, telling holders of a forced unlock
 *   lockfile.c   opening, checking and locking one file
 *   acquire.c    one attempt
 *   release.c    release, withdraw, pass
 *   inspect.c    show and break
 *
 * A lock is an open-file-description lock (F_OFD_SETLK) on the first byte of one file. The kernel ends it
 * with the last descriptor of its open file description. Bytes of the file as lock ranges:
 *
 *   0  write-locked by the holder: this is the lock
 *   1  read-locked by each waiter, so that a releasing holder knows whether anybody wants to be told
 *   2  write-locked by one who breaks the lock: two do not break it at once, and nobody is granted it
 *      between the breaker's look at the holder and the end of its work
 *
 * A forced unlock can't take the kernel's lock away from its holder. It puts a fresh file at the name, so a
 * grant counts only while the locked file is still the one at the name, through the whole path as one who
 * comes now would resolve it: the directory, one above it, or a mount may have changed as well.
 *
 * One mutex for each instance guards its slots and watches. Lock order: this mutex, then core's.
 */
#ifndef LK_FILE_INSTANCE_H
#define LK_FILE_INSTANCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <locker/driver.h>

#include "lk_time.h"

/* ------------------------------------------------------------------ names ---- */

enum {
    LK_FILE_PREFIX_MAX = 1024, /* the encoded namespace with its '@', in bytes */
    LK_FILE_PATH_MAX = LK_FILE_PREFIX_MAX + 3 * LOCKER_KEY_MAX + 64
};

/* A lock file's path, relative to the lock directory. */
typedef struct lk_file_name {
    char text[LK_FILE_PATH_MAX]; /* NUL-terminated */
    size_t last;   /* where the last component starts; 0: the file is in the lock directory itself */
    uint32_t hash; /* of text */
} lk_file_name;

/* Encode a namespace as the prefix of names; NULL when it is too long. The caller frees it. */
char *lk_file_prefix_new(const char *name_space, bool *too_long);
void lk_file_name_set(lk_file_name *name, const char *prefix, const char *key, size_t key_len);
uint32_t lk_file_name_hash(const char *text);

/* ------------------------------------------------------------------ records ---- */

enum { LK_FILE_RECORD_SIZE = 319, LK_FILE_HOST_MAX = 64 };

/* What a record says of the last grant. */
typedef struct lk_file_record {
    uint64_t token;
    int64_t since_ms;                 /* ms of the Unix epoch */
    char owner[LOCKER_OWNER_MAX + 1]; /* empty: none */
} lk_file_record;

typedef enum lk_file_reading {
    LK_FILE_RECORD_GOOD,
    LK_FILE_RECORD_EMPTY,   /* a fresh file */
    LK_FILE_RECORD_DAMAGED, /* cut or overwritten; the token counts on from the clock */
    LK_FILE_RECORD_FOREIGN  /* the file is too long to be a lock file: somebody else's data */
} lk_file_reading;

/* The parts of a record that stay the same for an instance, with room for the rest. */
void lk_file_record_template(char out[LK_FILE_RECORD_SIZE]);
void lk_file_record_format(char out[LK_FILE_RECORD_SIZE], const char template[LK_FILE_RECORD_SIZE],
                           const lk_file_record *record);
/* Read the record of an open lock file. 0, or an errno. */
int lk_file_record_read(int fd, lk_file_record *record, lk_file_reading *reading);
/* Write it. 0, or an errno. */
int lk_file_record_write(int fd, const char template[LK_FILE_RECORD_SIZE], const lk_file_record *record,
                         bool sync);
/* Set token and since_ms for a grant that follows one with the token `last`. */
void lk_file_record_next(lk_file_record *record, uint64_t last);

/* ------------------------------------------------------------------ claims ---- */

typedef enum lk_file_state {
    LK_FILE_NONE = 0, /* no descriptor */
    LK_FILE_WAITING,  /* enrolled after BUSY */
    LK_FILE_HELD
} lk_file_state;

/* Which file it is, to see whether it is still the one at the name. */
typedef struct lk_file_id {
    uint64_t inode;
    uint32_t device[2]; /* major, minor */
} lk_file_id;

typedef struct lk_file_watch lk_file_watch;
typedef struct lk_file_slot lk_file_slot;

/* The driver's bytes of a claim; zero at first. */
typedef struct lk_file_claim {
    locker_claim *claim; /* core's */
    lk_file_state state; /* changed with the mutex held; read without by the thread that works on the claim */
    int fd;              /* the lock file; -1 or valid as state says */
    lk_file_id id;       /* of the lock file */
    uint32_t hash;       /* of the file's name, to find grants that an event may be about */
    bool notified;       /* mutex: an event came since the last attempt */
    bool broken;         /* mutex: lease_lost was called */
    bool waited;         /* it was found busy: only the thread that works on the claim */
    uint64_t seen;       /* the record's token at the last attempt that an event caused */
    int64_t poll_ns;     /* how long after the next failure to try again; 0: not before an event */
    int64_t poll_factor; /* by which poll_ns grows */
    int64_t breaker_ns;  /* the same, after it met one who breaks the lock; 0: it met none */
    lk_file_slot *slot;  /* mutex: lists the descriptor from its opening until it is closed */
    lk_file_watch *watch;       /* mutex: on the lock file; NULL: none */
    struct lk_file_claim *next; /* mutex: of the same watch */
} lk_file_claim;

/* ------------------------------------------------------------------ slots ---- */

/* One open lock file. Slots never move and are not freed before close. */
struct lk_file_slot {
    /* 0: none; else the inode's low 32 bits, then descriptor + 1. Atomic because a fork's child reads it
     * without the mutex; relaxed, it says nothing of other memory. */
    _Atomic uint64_t open;
    lk_file_claim *claim; /* mutex: whose */
    lk_file_slot *next;   /* mutex: the next free one */
};

enum { LK_FILE_CHUNKS = 24, LK_FILE_CHUNK_SLOTS = 64 };

typedef struct lk_file_slots {
    /* Chunk i has LK_FILE_CHUNK_SLOTS << i slots. Atomic for the child; release, so that it finds the slots
     * zeroed. */
    _Atomic(lk_file_slot *) chunk[LK_FILE_CHUNKS];
    lk_file_slot *free; /* mutex */
} lk_file_slots;

/* A slot for the claim's descriptor; NULL when memory ran out. */
lk_file_slot *lk_file_slot_take_locked(lk_file_slots *slots, lk_file_claim *c);
void lk_file_slot_give_locked(lk_file_slots *slots, lk_file_slot *slot);
/* Call `visit` for the claim of each slot in use. */
void lk_file_slots_each_locked(lk_file_slots *slots, void (*visit)(void *context, lk_file_claim *c),
                               void *context);
/* In a fork's child: close every descriptor that is certainly a lock file of ours. */
void lk_file_slots_abandon(lk_file_slots *slots);
void lk_file_slots_destroy(lk_file_slots *slots);

/* ------------------------------------------------------------------ the instance ---- */

enum { LK_FILE_BUCKETS = 256, LK_FILE_BUSY_NAMES = 64 };

typedef struct lk_file {
    const locker_services *svc;
    char *path;   /* the lock directory, for texts */
    char *prefix; /* of file names: the encoded namespace */
    int dir_fd;
    struct stat root; /* of the process at open: the path was walked from there */
    int epoll_fd;     /* what core polls; holds inotify_fd once there is one */
    uid_t uid;        /* ours */
    bool shared;      /* a group uses the directory */
    bool sync;        /* records are flushed to the disk */
    char template[LK_FILE_RECORD_SIZE];
    _Atomic uint32_t busy[LK_FILE_BUSY_NAMES]; /* hashes of names that a try found held, to look before
                                                  touching them again; relaxed: a hint */
    atomic_bool moved;                         /* the directory isn't at its path any more; relaxed: a flag */
    atomic_bool warned;                        /* that inotify is not to be had; relaxed: a flag */

    pthread_mutex_t mutex;
    lk_file_slots slots; /* mutex */
    int inotify_fd;      /* mutex; -1: not made yet, or not to be had */
    int dir_wd;          /* mutex: the watch on the directory; -1: none */
    size_t held;         /* mutex: grants */
    int64_t touch_at;    /* mutex: when the files of grants get a new time */
    int64_t look_at;     /* mutex: when dispatch looks after what no event tells; LOCKER_NEVER: no grants */
    bool unwatched;      /* mutex: some grant may have no watch: dispatch looks after all of them */
    lk_file_watch *watches[LK_FILE_BUCKETS]; /* mutex: by watch descriptor */
} lk_file;

/* slots.c: close the claim's descriptor and, behind that, empty its slot. */
void lk_file_close(lk_file *self, lk_file_claim *c);

/* directory.c */
locker_status lk_file_directory_open(const char *path, bool shared, int *out, locker_error *err);
/* What kind of network or user-space filesystem the number of statfs stands for; NULL: a local one. */
const char *lk_file_filesystem_refused(uint64_t type);
/* Whether the directory at the path is the open one. 0: yes, as far as this process can walk the path;
 * ESTALE: it is another or none; else an errno: that can't be told now. */
int lk_file_directory_compare(const lk_file *self);
/* The directory that holds the file: dir_fd itself, or one below it. -1: errno says why. */
int lk_file_parent(const lk_file *self, const lk_file_name *name, bool create);
void lk_file_parent_close(const lk_file *self, int fd);
/* Turn an errno of work on a lock file into a status and a text. */
locker_status lk_file_fail(const lk_file *self, const char *what, const lk_file_name *name, int code,
                           locker_error *err);

/* watch.c */
int lk_file_descriptor(void *self);
int64_t lk_file_dispatch(void *self);
/* Have a forced unlock of any grant noticed. False: there is no inotify, dispatch looks by itself. */
bool lk_file_watch_directory_locked(lk_file *self);
/* Watch the claim's file. False: inotify is not to be had. */
bool lk_file_watch_add_locked(lk_file *self, lk_file_claim *c);
void lk_file_watch_drop_locked(lk_file *self, lk_file_claim *c);
/* Do what the events up to this moment ask for. */
void lk_file_hear_locked(lk_file *self);
/* Whether the grant was broken, as far as events tell up to this moment. */
bool lk_file_broken_locked(lk_file *self, lk_file_claim *c);
/* Have dispatch look after the grants. True: it has to be told so, by attend. */
bool lk_file_look_later_locked(lk_file *self, bool watched);
/* Whether the lock directory isn't at its path any more. Tells all grants and waiters, if that is news. */
bool lk_file_moved(lk_file *self);
locker_status lk_file_fail_moved(const lk_file *self, locker_error *err);
/* Set when the files of grants are touched next. */
void lk_file_touch_later(lk_file *self);
void lk_file_watch_destroy(lk_file *self);
void lk_file_watch_warn(lk_file *self);

/* lockfile.c. What returns int and takes an err answers a locker_status or LK_FILE_AGAIN. */
enum { LK_FILE_AGAIN = -1 }; /* the file was replaced: open it anew */
lk_file_id lk_file_id_of(const struct statx *s);
int lk_file_open(const lk_file *self, const lk_file_name *name, int flags, int *fd, locker_error *err);
/* Whether the open file may be used as a lock file; *s gets what was seen of it. */
int lk_file_check(const lk_file *self, const lk_file_name *name, int fd, struct statx *s, locker_error *err);
/* F_OFD_SETLK of one byte. 0, or an errno; EAGAIN when another has it. */
int lk_file_range_lock(int fd, short type, off_t byte);
/* Whether somebody else has the byte locked. */
bool lk_file_range_locked(int fd, off_t byte);
/* Whether the file at the name, as one who comes now would find it, is this one. 0: yes; ESTALE: it is
 * another or none; else an errno: that can't be told now. */
int lk_file_compare(const lk_file *self, const lk_file_name *name, const lk_file_id *id);
/* The same as a status: LK_FILE_AGAIN for ESTALE. */
int lk_file_confirm(const lk_file *self, const lk_file_name *name, const lk_file_id *id, locker_error *err);

/* acquire.c */
locker_status lk_file_acquire(void *self, locker_claim *claim, locker_error *err);

/* release.c */
locker_status lk_file_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_file_pass(void *self, locker_claim *from, locker_claim *to);
void lk_file_withdraw(void *self, locker_claim *claim);
/* The claim neither holds nor waits any more; its descriptor is still open. */
void lk_file_detach_locked(lk_file *self, lk_file_claim *c);

/* inspect.c */
locker_status lk_file_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err);
locker_status lk_file_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err);

#endif
