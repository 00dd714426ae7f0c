/* claim.h: the driver's bytes of a claim. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <locker/driver.h>

#include "lk_list.h"

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

typedef struct lk_file_watch lk_file_watch;
typedef struct lk_file_slot lk_file_slot;

/* The driver's bytes of a claim; zero at first. */
typedef struct {
    locker_claim *claim; /* core's */
    lk_file_state state; /* changed with the mutex held; read without by the thread that works on the claim */
    int fd;              /* the lock file; -1 or valid as state says */
    lk_file_id id;       /* of the lock file */
    uint32_t hash;       /* of the file's name, to find grants that an event may be about */
    bool notified;       /* mutex: an event came since the last attempt */
    bool broken;         /* mutex: lease_lost was called */
    uint64_t seen;       /* the record's token at the last attempt that an event caused */
    int64_t poll_ns;     /* how long after the next failure to try again; 0: not before an event */
    int64_t poll_factor; /* by which poll_ns grows */
    int64_t breaker_ns;  /* the same, after it met one who breaks the lock; 0: it met none */
    lk_file_slot *slot;  /* mutex: lists the descriptor from its opening until it is closed */
    lk_file_watch *watch; /* mutex: on the lock file; NULL: none */
    lk_list of_watch;     /* mutex: among its claims */
} lk_file_claim;
