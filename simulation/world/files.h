/*
 * files.h: simulated descriptors. Their numbers begin where the system's don't reach, and are given again, the lowest first,
 * as the system's are. What a descriptor is for tells when it may be read or written; waiting for it is the same for all.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "fibers.h"

enum { LK_SIM_FIRST_FD = 4096 };

/** What is behind a descriptor. The operations may be NULL, but for `ready`. */
typedef struct {
    /** EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP, EPOLLERR. */
    uint32_t (*ready)(void *self);
    /** Without waiting; -1 and errno. */
    ssize_t (*read)(void *self, void *bytes, size_t count);
    ssize_t (*write)(void *self, const void *bytes, size_t count);
    void (*close)(void *self);
} lk_sim_file_ops;

typedef struct {
    const lk_sim_file_ops *ops;
    void *self;
    lk_sim_process *owner;
    uint64_t opened;  /**< the how manieth it is: an address, and a number, may come again */
    uint64_t changes; /**< how often it became ready for more */
    bool blocks;      /**< reading and writing wait; set by fcntl() */
} lk_sim_file;

int lk_sim_file_new(const lk_sim_file_ops *ops, void *self);
/** NULL: it is none of the simulated ones. */
lk_sim_file *lk_sim_file_of(int fd);
/** The one whose `self` this is. It may be ready for more: who waits for it looks. */
void lk_sim_file_changed(const void *self);
/** Wait until it is ready for one of these, or the true time. False: the time. */
bool lk_sim_file_await(const lk_sim_file *file, uint32_t events, int64_t until);
/** Close what a process that died had open. */
void lk_sim_files_close_of(const lk_sim_process *process);
/** Close all. */
void lk_sim_files_end(void);
