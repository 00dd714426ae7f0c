/* expect.h: what every test of the library includes: cmocka, the library, and checks that print the library's
 * own error text when they fail. The checks belong on the test's own thread; workers record what they saw. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locker/locker.h>

#include "servers/wait.h"

/** How long anything that should happen may take before a test fails rather than hangs, in ms. */
enum { LK_TEST_PATIENCE_MS = 30000 };

/** How late a notice or an answer may be on a machine that is busy with other tests, in ms. The exact figures
 * are measured in lab/bench. */
enum { LK_TEST_SLACK_MS = 500 };

/** Fails the test unless `call`, which fills `err`, answers `wanted`. */
#define assert_status(wanted, call, err) lk_expect_status((wanted), (call), &(err), #call, __FILE__, __LINE__)

/** Fails the test unless `call`, which fills `err`, answers OK. */
#define assert_ok(call, err) assert_status(LOCKER_OK, call, err)

/** The body of assert_status(). `err` may be NULL. Also checks that the error's status is the answer and that
 * a failure has a text of one line. */
void lk_expect_status(locker_status wanted, locker_status got, const locker_error *err, const char *call,
                      const char *file, int line);

/** Prints the message and fails the test, as if at file:line. */
void lk_expect_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

/** Fails the test with a message in printf's form. */
#define test_fails(...) lk_expect_fail(__FILE__, __LINE__, __VA_ARGS__)

/** The time in ms of the clock that leases are counted by (CLOCK_BOOTTIME). */
int64_t lk_test_now_ms(void);

/** Polls as lk_until() for LK_TEST_PATIENCE_MS and fails the test when it never came true. */
void lk_require(bool (*condition)(void *context), void *context, const char *what);

/** Waits until `count` calls of the locker wait, and fails the test when they never do. */
void lk_require_waiting(locker *l, uint64_t count);

/** Waits until the handle has the state, and fails the test when it never has. */
void lk_require_state(locker_handle *held, locker_state state);

/** Waits at most timeout_ms for a descriptor to be readable; answers whether it is. */
bool lk_readable(int fd, int64_t timeout_ms);

/** Statistics of a locker, of which a test reads single members. */
locker_statistics lk_stats(locker *l);

/** The most memory that the process has had since the last reset (clear_refs), in KiB; -1 when the kernel does not tell. */
long lk_memory_peak_kib(void);

/** A directory of the test's own, below $TMPDIR or /tmp; `path` gets its name. Fails the test when it can't
 * be made. */
void lk_private_directory(char path[64]);

/** Removes a directory and all in it, unless LK_TEST_KEEP is in the environment. */
void lk_remove_directory(const char *path);
