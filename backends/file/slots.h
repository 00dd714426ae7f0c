/* slots.h: the driver's bytes of a claim, and the descriptors of all, readable without a lock in a fork's child. */
#pragma once

#include <locker/driver.h>

#include "lk_atomic.h"
#include "lk_list.h"
#include "lk_mutex.h"
#include "lk_table.h"

typedef enum {
    LK_FILE_NONE = 0, /* no descriptor */
    LK_FILE_WAITING,  /* enrolled after BUSY */
    LK_FILE_HELD
} lk_file_state;

/* Which file it is, to see whether it is still the one at the name. */
typedef struct {
    uint64_t inode;
    uint32_t device[2]; /* major, minor */
} lk_file_id;

static inline bool lk_file_id_is(const lk_file_id *a, const lk_file_id *b)
{
    return a->inode == b->inode && a->device[0] == b->device[0] && a->device[1] == b->device[1];
}

typedef struct lk_file_slot lk_file_slot;

/* Of the part of a ticket's name that orders it, and of the time in that. */
enum { LK_FILE_TICKET_LENGTH = 16 + 1 + 8 + 1 + 8, LK_FILE_TICKET_TIME = 16 };

/* The driver's bytes of a claim; zero at first. */
typedef struct {
    locker_claim *claim; /* core's */
    lk_file_slot *slot;  /* has the lock file's descriptor from its opening until it is closed */
    lk_list link LK_GUARDED_BY(mutex);        /* among the instance's claims meanwhile */
    lk_table_link by_wd LK_GUARDED_BY(mutex); /* among those that have a watch */
    lk_file_id id;                            /* of the lock file */
    uint64_t seen;       /* the record's token at the last attempt that an event caused */
    int64_t poll_ns;     /* how long after the next failure to try again; 0: not before an event */
    int64_t poll_factor; /* by which poll_ns grows */
    int64_t
        breaker_ns; /* the same, after it met one who breaks the lock, or is in the gate; 0: it met none */

    /* its place in the line (queue.c) */
    lk_file_slot *ticket_slot;                     /* of its own FIFO */
    lk_file_slot *ahead_slot LK_GUARDED_BY(mutex); /* of its predecessor's */
    size_t before;                                 /* so many stood before it when it looked for its place */
    int64_t looked_at;                             /* when it last saw the lock free, with a new record */
    int64_t stalled_ns;                            /* how long from then on until it is stalled */
    char ticket[LK_FILE_TICKET_LENGTH + 1]; /* its place in the order of arrival; empty: it didn't wait yet */
    char ahead[LK_FILE_TICKET_LENGTH];      /* its predecessor's, while ahead_fd is one */
    bool was_free;                     /* the lock was free at the last look, though others stand before */
    bool behind_plain;                 /* one of those wants it for itself, or it does */
    bool mixed;                        /* some of those want permits, and it does not */
    bool joined;                       /* it is known to want one of so many permits (beside.c) */
    bool is_next LK_GUARDED_BY(mutex); /* the predecessor held, and is done */
    bool poked LK_GUARDED_BY(mutex);   /* somebody may have come before it: it lists before it takes */
    int ticket_fd;                     /* its FIFO; -1: it has none */
    int64_t ticket_at;                 /* when to try again to make a ticket that could not be made */
    int ahead_fd LK_GUARDED_BY(mutex); /* the predecessor's FIFO; -1: none is followed */

    lk_file_state state; /* changed with the mutex held; read without by the thread that works on the claim */
    int fd;              /* the lock file; -1 or valid as state says */
    uint32_t hash;       /* of the file's name, to find grants that an event may be about */
    int wd LK_GUARDED_BY(mutex);        /* inotify's number of the watch on the lock file; 0: none */
    bool deep;                          /* the file lies in a directory below the lock directory */
    bool fresh;                         /* the grant is the first in its file */
    bool looked LK_GUARDED_BY(mutex);   /* a look of dispatch has met the grant */
    bool notified LK_GUARDED_BY(mutex); /* an event came since the last attempt */
    bool broken LK_GUARDED_BY(mutex);   /* lease_lost was called */
} lk_file_claim;

/* One open lock file, or ticket. Slots never move and are not freed before close. */
struct lk_file_slot {
    /* 0: none; else the inode's low 32 bits, then descriptor + 1. Atomic because a fork's child reads it
     * without the mutex; relaxed, it says nothing of other memory. */
    _Atomic uint64_t open;
    lk_file_slot *next; /* mutex: the next free one */
};

enum { LK_FILE_CHUNKS = 24, LK_FILE_CHUNK_SLOTS = 64 };

typedef struct {
    /* Chunk i has LK_FILE_CHUNK_SLOTS << i slots. Atomic for the child; release: it finds them zeroed. */
    _Atomic(lk_file_slot *) chunk[LK_FILE_CHUNKS];
    lk_file_slot *free; /* mutex */
} lk_file_slots;

/* A slot for the descriptor of a file; NULL when memory ran out. */
lk_file_slot *lk_file_slot_take_locked(lk_file_slots *slots, int fd, uint64_t inode);
void lk_file_slot_give_locked(lk_file_slots *slots, lk_file_slot *slot);
/* In a fork's child: close the descriptor if that certainly still is the slot's file. */
void lk_file_slot_abandon(lk_file_slot *slot);
/* The same of all. */
void lk_file_slots_abandon(lk_file_slots *slots);
void lk_file_slots_destroy(lk_file_slots *slots);
