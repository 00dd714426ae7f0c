/* lifetime.h: what a locker has from open to close: its keeper, one thread for each locker (keeper.c); its descriptors; and its
 * memory, which lasts until it is closed and its last handle is freed. */
#pragma once

#include "config.h"
#include "state.h"

/** NULL: no memory. */
locker *lk_locker_new(const lk_config *config, const locker_options *options, const locker_clock *clock);
/** Of one that was never given out. */
void lk_locker_free(locker *l);
/** Free it if no handle is owed: each that is freed counts -1, and closing those made; no call begins behind it. */
void lk_locker_owe(locker *l, int64_t handles) LK_EXCLUDES(l->mutex);

/** The keeper's epoll with its wake-up and timer. 0, or an errno. */
int lk_descriptors_open(locker *l);
/** The driver's descriptor, and what a leader sleeps on if it can have one. 0, or an errno. */
int lk_descriptors_add_driver(locker *l);
/** Also in a fork's child. */
void lk_descriptors_close(locker *l);

/** Start the keeper. 0, or an errno. */
int lk_keeper_start(locker *l) LK_EXCLUDES(l->mutex);
/** Stop the keeper, which first tells what was lost. */
void lk_keeper_stop(locker *l) LK_EXCLUDES(l->mutex);
