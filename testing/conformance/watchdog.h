/* watchdog.h: ends a run whose test hangs, and says which test that is and what to look at.
 *
 * A driver that never releases a lock or never wakes a waiter lets a test wait for ever. The watchdog's thread counts for how long
 * the test has made no progress. It counts only time in which the test could run: a second in which the process was stopped
 * counts at most half a second, and a second in which the processors were busy counts a quarter. So a slow machine does not end a
 * run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** What hangs. */
typedef struct {
    const char *group;
    const char *test; /**< NULL: the group's beginning or end */
    const char *hook; /**< the subject's hook that was called; NULL: none */
    int64_t limit_ms; /**< for how long there was no progress */
} lk_hang;

/** Start the watchdog's thread. After limit_ms without progress it calls on_hang, which must end the process. False: there is no
 * memory or thread. */
bool lk_watchdog_start(int64_t limit_ms, void (*on_hang)(const lk_hang *hang));

/** Stop the thread. */
void lk_watchdog_end(void);

/** Watch a test from now on. `test` may be NULL. The names must be static. */
void lk_watchdog_watch(const char *group, const char *test);

/** Note that the test has made progress. A test that takes long by intent calls it now and then. */
void lk_watchdog_progress(void);

/** Note that a hook of the subject begins, which is progress, or has ended (NULL). The name must be static. */
void lk_watchdog_hook(const char *hook);
