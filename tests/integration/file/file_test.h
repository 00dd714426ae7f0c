/*
 * file_test.h: what the groups of the file driver's tests share.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include <locker/driver.h>

#include "expect.h"
#include "groups.h"

/* A private directory, and a locker on its subdirectory "locks". */
typedef struct {
    char base[64];
    char locks[80];
    char uri[128];
    locker *l;
} lk_place;

int lk_place_setup(void **state);
int lk_place_teardown(void **state);
#define place_test(f) cmocka_unit_test_setup_teardown(f, lk_place_setup, lk_place_teardown)

/* A second locker on the same directory; the caller closes it. */
locker *lk_place_open(const lk_place *place);

/* What this process's lockers of a place go by: the system's clock, as long as the test says nothing else. */
const locker_clock *lk_clock(void);
/* It stands still: nothing is ever due, or late, however busy the machine is. */
void lk_clock_stop(void);
/* It goes on to stand still, so many ns later: what is due until then is due at once. */
void lk_clock_skip(int64_t ns);
/* It goes on, so many ns ahead of the system's. */
void lk_clock_go(int64_t ahead);

/* Called once, before the next locker begins to watch. */
extern void (*_Atomic lk_before_inotify)(void);

/* locks/NAME. Overwritten by the next call. */
const char *lk_place_file(const lk_place *place, const char *name);

/* One lock and unlock of `key`; its fencing token. */
uint64_t lk_place_token(const lk_place *place, const char *key);

/* Of the two who hold "k", break the one whose token isn't `other`. */
void lk_break_the_other(const lk_place *place, uint64_t other);

/* Fork a child that has copies of all descriptors and does nothing. It dies with the test's thread, if the test does not end it. */
pid_t lk_fork_idle(void);

extern const lk_group lk_text, lk_trust, lk_breaking, lk_crash, lk_queue, lk_races, lk_removal, lk_sharing,
    lk_edges, lk_members, lk_many;

/* The role of a child that holds a lock, forks a child of its own and is then killed. */
int lk_forker_play(int argc, char **argv);
/* One that waits for a lock, forks a child, and is then killed. */
int lk_ghost_play(int argc, char **argv);
/* One that holds a lock and can't walk the path to its file any more. */
int lk_wanderer_play(int argc, char **argv);
/* One of those that lock, try or sweep without a pause. */
int lk_stormer_play(int argc, char **argv);
int lk_sweeper_play(int argc, char **argv);
/* One in surroundings of which a test tells the name; one that forks while it is about to lock, and dies. */
int lk_edge_play(int argc, char **argv);
int lk_about_play(int argc, char **argv);
/* A user of the group that shares a directory. */
int lk_member_play(int argc, char **argv);
