/* locking.h: one locker_lock() or locker_unlock() call on a thread of its own, and what came of it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "expect.h"

typedef struct lk_locking_call lk_locking_call;
typedef struct lk_unlocking_call lk_unlocking_call;

/** What came of the call is here after lk_locking_join(). The thread itself works on memory of its own, so a
 * test that fails meanwhile leaves it nothing to write to on the test's stack. */
typedef struct {
    lk_locking_call *call;
    pthread_t thread; /* until it is joined */
    locker_status status;
    locker_handle *held; /* the test frees it */
    locker_error err;
    int64_t began_ms, ended_ms; /* of lk_test_now_ms() */
} lk_locking;

/** Starts the call. options NULL: waits for ever. What on_lost is told must outlive a failed test too:
 * static. */
void lk_locking_start(lk_locking *locking, locker *l, const char *key, const locker_lock_options *options);

/** Waits until the call's thread sleeps: it has asked for the lock, and waits for an answer or a turn. */
void lk_locking_await_rest(const lk_locking *locking);

/** Waits for the call's end and answers its status; fails the test when it doesn't end. */
locker_status lk_locking_join(lk_locking *locking);

/** Waits for the call's end; fails the test unless it got the lock. Answers the handle. */
locker_handle *lk_locking_grant(lk_locking *locking);

/** One locker_unlock() likewise; the handle stays the test's. */
typedef struct {
    lk_unlocking_call *call;
    pthread_t thread; /* until it is joined */
    locker_status status;
    locker_error err;
} lk_unlocking;
void lk_unlocking_start(lk_unlocking *unlocking, locker_handle *held);
locker_status lk_unlocking_join(lk_unlocking *unlocking);

/** Joins a thread; fails the test when it doesn't end within LK_TEST_PATIENCE_MS. */
void lk_join(pthread_t thread, const char *what);

/** Joins one of several threads that repeat a step, however long all steps take. Each thread adds 1 to `*done` after each step. Fails
 * the test if the thread has not ended and no step was done for LK_TEST_PATIENCE_MS. */
void lk_join_worker(pthread_t thread, const atomic_uint *done, const char *what);
