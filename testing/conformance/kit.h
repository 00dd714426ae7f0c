/* kit.h: what the groups of tests share. The group files (basics.c, waiting.c, ...) hold the tests, which
 * see a service only through its URI, its locker_semantics and the subject's hooks. run.c runs them;
 * fixture.c has what they open and take; faults.c calls the hooks; the checker (contract_checker.h) stands
 * between core and the driver. A test of something that a service doesn't promise is skipped. */
#pragma once

#include <locker/conformance.h>

#include "expect.h"
#include "gate.h"
#include "holding.h"
#include "locking.h"
#include "puppet.h"
#include "timely.h"

struct CMUnitTest;

/** What all tests of a run share; *state of each test. */
typedef struct {
    const locker_conformance_subject *subject;
    const locker_driver *driver; /**< the subject's, with the checker before it */
    void *service;
    char uri[256];
    locker_semantics promises; /**< its texts are NULL */
} lk_fixture;

/** A group of tests, run as one test of ctest. */
typedef struct {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
} lk_group;

extern const lk_group lk_basics, lk_waiting, lk_cancel, lk_processes, lk_leases, lk_loss, lk_handles, lk_fork,
    lk_load, lk_contract, lk_storms, lk_shared, lk_permits, lk_several, lk_shared_storms, lk_scale;

/** The sizes of group scale, in percent of the full ones: 1 to 100. */
extern unsigned long lk_scale_percent;

/* ------------------------------------------------------------------ opening and taking ---- */

/** Opens a locker on the driver under test. `more` is parameters, appended to the URI: "ttl=1s"; "" for
 * none. options may be NULL. */
locker_status lk_open_uri(const locker_driver *driver, const char *uri, const char *more,
                          const locker_options *options, locker **out, locker_error *err);

/** Opens a locker on the fixture's service; fails the test when it can't. */
locker *lk_open_locker(lk_fixture *fixture, const char *more);

/** Takes a lock that must be free, and checks the answer. options NULL: with the defaults. */
locker_handle *lk_take(locker *l, const char *key, const locker_lock_options *options);

/** Waits until show tells that label: a holder may say who it is a moment after it has the lock. */
void lk_require_owner(locker *l, const char *key, const char *owner);

/** Options for a lease of ttl_ms that isn't renewed. */
locker_lock_options lk_lease_options(int64_t ttl_ms);

/** Options that share a key, wait for ever. */
locker_lock_options lk_shared_options(void);

/** Options of one of so many permits. */
locker_lock_options lk_permit_options(int32_t permits);

/** How many attempts a waiter that polls may have made since `began` (of lk_test_now_ms()). */
uint64_t lk_polls(const lk_fixture *fixture, int64_t began);

/** Starts another process with a locker on the fixture's service; `more` as above. If a test waits for the
 * end of its lease, the locker's `ttl` has to be short: at some services a lease lasts as long as that
 * says. */
lk_child *lk_start_puppet(const lk_fixture *fixture, const char *more);

/** A thread that takes and gives a lock of its own all the while. What it had to wait for its answers tells a
 * lease that was lost without need from one that no program could have kept on so busy a machine. */
typedef struct lk_probe lk_probe;
lk_probe *lk_probe_start(lk_fixture *fixture);

/** Ends it. Returns the longest time without an answer, in ms. */
int64_t lk_probe_stop(lk_probe *probe);

/* ------------------------------------------------------------------ harm ---- */

/** Whether the service can suffer it. */
bool lk_can_lose(const lk_fixture *fixture);
bool lk_can_freeze(const lk_fixture *fixture);

/** The subject's hooks; where there is no `lose`, an operator breaks the lock. They fail the test when they
 * can't. */
void lk_lose(const lk_fixture *fixture, const char *key);
void lk_replace(const lk_fixture *fixture, const char *key);
void lk_freeze(const lk_fixture *fixture);
void lk_thaw(const lk_fixture *fixture);
void lk_restart(const lk_fixture *fixture);

/* ------------------------------------------------------------------ skipping ---- */

/** Skips the test: the service doesn't promise what it tests. */
#define not_promised()                                                                                       \
    do {                                                                                                     \
        lk_skipped++;                                                                                        \
        skip();                                                                                              \
    } while (0)
extern size_t lk_skipped;

/** Skips the test unless the service is seen by other processes. */
#define needs_processes(fixture)                                                                             \
    do {                                                                                                     \
        if ((fixture)->promises.scope < LOCKER_SCOPE_HOST)                                                   \
            not_promised();                                                                                  \
    } while (0)

/** Skips the test unless the condition holds. */
#define needs(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            not_promised();                                                                                  \
    } while (0)
