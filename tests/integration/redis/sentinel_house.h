/* sentinel_house.h: a master, its replica or two, and three Sentinels that watch them: what tests of failovers have. */
#pragma once

#include "redis_tests.h"

enum { LK_SENTINELS = 3, LK_DOWN_MS = 300 };

/** What the Sentinels call the master. */
extern const char lk_master_name[];

typedef struct {
    lk_server *master, *replica;
    lk_server *second; /* another replica; NULL unless a test starts it */
    lk_server sentinel[LK_SENTINELS];
    int port[LK_SENTINELS]; /* at which clients ask the Sentinels */
    char text[1024];        /* a test's own, for the Sentinels' options */
} lk_house;

/** Options of servers that Sentinels elsewhere may speak to. */
extern const char *const lk_open_to_all[];

/** Starts a master and a replica of it, and nobody that watches them. */
lk_house *lk_house_new(void);
/** Starts one of the Sentinels, which watches nothing yet. */
void lk_house_sentinel(lk_house *h, int number, const char *const *options);
/** Has one of them watch the master, which it reaches at that port. */
void lk_house_watch(lk_house *h, int number, int port);
/** Setup and teardown of cmocka: with three Sentinels; and the end of any house. */
int lk_house_begin(void **state);
int lk_house_end(void **state);

#define house_test(f) cmocka_unit_test_setup_teardown(f, lk_house_begin, lk_house_end)

/** Waits until all Sentinels know each other, and so many replicas of the master at that port. */
void lk_house_require_known(lk_house *h, int port, int replicas);
/** Waits until one of them names another master than the one at that port, and answers that one's. */
int lk_house_require_other(lk_house *h, int port);

/** Opens a locker that asks the Sentinels; `query` as in "ttl=1s". */
locker *lk_house_open(const lk_house *h, const char *query);
locker_status lk_house_try_open(const lk_house *h, const char *scheme, const char *name, const char *query,
                                locker **l, locker_error *err);
