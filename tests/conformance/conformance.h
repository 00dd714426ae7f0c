/*
 * conformance.h: one suite of tests that every driver must pass. backend_*.c tell how to start each service;
 * the group files (basics.c, waiting.c, ...) hold the tests, which see a service only through its URI, its
 * locker_semantics and the hooks below. A test of something that a service doesn't promise is skipped.
 */
#ifndef LK_CONFORMANCE_H
#define LK_CONFORMANCE_H

#include "expect.h"
#include "gate.h"
#include "locking.h"
#include "puppet.h"

struct CMUnitTest;

/** How a service is started and, where that is possible, harmed. */
struct lk_backend {
    const char *name;
    void *(*start)(void); /**< starts the service; the answer is passed to the other members */
    void (*stop)(void *service);
    void (*uri)(void *service, char *uri, size_t size); /**< a URI with a query, for `&more=...` */
    /* NULL where there is no such thing */
    void (*lose)(void *service, const char *key);    /**< deletes the lock behind the holder's back */
    void (*replace)(void *service, const char *key); /**< gives it to somebody else, likewise */
    void (*freeze)(void *service);                   /**< the service answers nothing any more */
    void (*thaw)(void *service);                     /**< and again */
    void (*restart)(void *service);                  /**< stops and starts it; its locks may be gone */
};

/** Hooks for a service that has no other client: an operator breaks the lock. `replace` holds it until
 * `lose`. */
void lk_operator_lose(const struct lk_backend *backend, void *service, const char *key);
void lk_operator_replace(const struct lk_backend *backend, void *service, const char *key);

extern const struct lk_backend lk_backend_file, lk_backend_memory, lk_backend_redis, lk_backend_zookeeper;

/** What all tests of a run share; *state of each test. */
struct lk_fixture {
    const struct lk_backend *backend;
    void *service;
    char uri[256];
    locker_semantics promises; /**< its texts are NULL */
};

/** A group of tests, run as one test of ctest. */
struct lk_group {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
};

extern const struct lk_group lk_basics, lk_waiting, lk_cancel, lk_processes, lk_leases, lk_loss, lk_handles,
    lk_fork, lk_load;

/** Opens a locker on the fixture's service. `more` is appended to the URI ("&ttl=1s"); "" for none. */
locker *lk_open_locker(struct lk_fixture *fixture, const char *more);

/** Closes it and checks the answer. */
void lk_close_locker(locker *l);

/** Takes a lock that must be free, and checks the answer. options NULL: with the defaults. */
locker_handle *lk_take(locker *l, const char *key, const locker_lock_options *options);

/** Unlocks, checks that the answer is OK, and frees. */
void lk_give(locker_handle *held);

/** Fails the test unless a try by another locker answers BUSY. */
void lk_expect_busy(locker *l, const char *key);

/** Options that wait at most wait_ms. */
locker_lock_options lk_wait_options(int64_t wait_ms);

/** Options for a lease of ttl_ms that isn't renewed. */
locker_lock_options lk_lease_options(int64_t ttl_ms);

/** Skips the test: the service doesn't promise what it tests. A group of which every test is skipped fails.
 */
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

#endif
