/* network_driver.c: see network_driver.h. */
#include "network_driver.h"

#include <stdarg.h>
#include <stdio.h>

#include "gate.h"
#include "holding.h"
#include "locking.h"

locker_status lk_try_uri(locker **l, locker_error *err, const char *format, ...)
{
    char uri[512];
    va_list args;
    va_start(args, format);
    vsnprintf(uri, sizeof uri, format, args);
    va_end(args);
    *l = NULL;
    return locker_open(uri, NULL, l, err);
}

static bool have_both_asked(void *context)
{
    return lk_stats(context).attempts >= 2;
}

void lk_check_a_try_under_way(locker *l, lk_server *server)
{
    const locker_lock_options try_it = lk_wait_options(0);
    lk_locking trying, waiting;
    const int64_t began = lk_test_now_ms();
    lk_test_freeze(server);
    lk_locking_start(&trying, l, "deserted", &try_it);
    lk_locking_start(&waiting, l, "waited-for", NULL);
    lk_require(have_both_asked, l, "both should have asked");
    lk_server_kill(server);
    assert_status(LOCKER_UNAVAILABLE, lk_locking_join(&trying), trying.err);
    assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
    lk_test_launch(server, true);
    lk_give(lk_locking_grant(&waiting));
}
