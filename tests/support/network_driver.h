/* network_driver.h: steps that the tests of every network driver take, whichever service it is for. */
#pragma once

#include <locker/locker.h>

#include "gate.h"
#include "test_servers.h"

/** Return options that print what the library logs, if LK_TEST_LOG is in the environment, and else the defaults. */
locker_options lk_test_options(void);

/** Opens a URI in printf's form and answers what came of it; *l is NULL on failure. */
locker_status lk_try_uri(locker **l, locker_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Kills the only server of `l` while a try and a lock that waits are under way: the try is told at once, the
 * lock goes on when the server is back. */
void lk_check_a_try_under_way(locker *l, lk_server *server);

/** Take a lock and check that it is ours. `options` may be NULL: then the wait is LK_TEST_PATIENCE_MS at most, as it is in
 * lk_take(). */
locker_handle *lk_take_with(locker *l, const char *key, const locker_lock_options *options);
locker_handle *lk_take(locker *l, const char *key);

/** Take a lock whose loss opens the gate once. */
locker_handle *lk_take_with_gate(locker *l, const char *key, lk_gate *gate);

/** Wait until the lock is lost. Fail the test if it is still held at `at_ms` of lk_test_now_ms(). The state follows the clock, so
 * the result is right on a machine that is late, too. */
void lk_require_lost_by(locker_handle *held, int64_t at_ms);

/** Wait until the service has confirmed the locks once more. */
void lk_require_renewal(locker *l);
