/*
 * file_test.h: what the groups of the file driver's tests share. Each group is one function, run by main.c.
 */
#ifndef LK_FILE_TEST_H
#define LK_FILE_TEST_H

#include "expect.h"

/* A private directory, and a locker on its subdirectory "locks". */
struct lk_place {
    char base[64];
    char locks[80];
    char uri[128];
    locker *l;
};

int lk_place_setup(void **state);
int lk_place_teardown(void **state);

/* A second locker on the same directory; the caller closes it. */
locker *lk_place_open(const struct lk_place *place);

/* locks/NAME. Overwritten by the next call. */
const char *lk_place_file(const struct lk_place *place, const char *name);

/* One lock and unlock of `key`; its fencing token. */
uint64_t lk_place_token(const struct lk_place *place, const char *key);

int lk_run_text(void);
int lk_run_trust(void);
int lk_run_breaking(void);
int lk_run_crash(void);
int lk_run_races(void);

/* The role of a child that holds a lock, forks a child of its own and is then killed. */
int lk_forker_play(int argc, char **argv);
/* One that holds a lock and can't walk the path to its file any more. */
int lk_wanderer_play(int argc, char **argv);

#endif
