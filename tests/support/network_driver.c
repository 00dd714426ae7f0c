/* network_driver.c: options, taking, losing and renewing in tests of a network driver; see network_driver.h. */
#include "network_driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
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

/* ------------------------------------------------------------------ options ---- */

static void print_line(locker_log_level level, const char *text, void *user)
{
    (void)user;
    print_message("%lld ms, level %d: %s\n", (long long)lk_test_now_ms(), (int)level, text);
}

locker_options lk_test_options(void)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    if (getenv("LK_TEST_LOG") != NULL) {
        options.log = print_line;
        options.log_level = LOCKER_LOG_DEBUG;
    }
    return options;
}

/* ------------------------------------------------------------------ taking, losing, renewing ---- */

locker_handle *lk_take_with(locker *l, const char *key, const locker_lock_options *options)
{
    const locker_lock_options bounded = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock(l, key, options != NULL ? options : &bounded, &held, &err), err);
    /* The state is SUSPECT if the connection dropped after the reply. */
    assert_true(locker_handle_state(held) <= LOCKER_STATE_SUSPECT);
    return held;
}

locker_handle *lk_take(locker *l, const char *key)
{
    return lk_take_with(l, key, NULL);
}

static void open_gate(locker_handle *lost, void *user)
{
    if (locker_handle_state(lost) == LOCKER_STATE_LOST)
        lk_gate_open(user, 1);
}

locker_handle *lk_take_with_gate(locker *l, const char *key, lk_gate *gate)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = NULL;
    locker_error err;
    options.on_lost = open_gate;
    options.user = gate;
    assert_ok(locker_lock(l, key, &options, &held, &err), err);
    return held;
}

typedef struct {
    locker_handle *held;
    int64_t at_ms;
    locker_state state;
} loss;

static bool is_lost_or_late(void *context)
{
    loss *awaited = context;
    const bool late =
        lk_test_now_ms() > awaited->at_ms; /* read first: a state that is read later must be LOST */
    awaited->state = locker_handle_state(awaited->held);
    return late || awaited->state == LOCKER_STATE_LOST;
}

void lk_require_lost_by(locker_handle *held, int64_t at_ms)
{
    loss awaited = {held, at_ms, LOCKER_STATE_HELD};
    lk_require(is_lost_or_late, &awaited, "the lock should be lost at its deadline");
    assert_int_equal(awaited.state, LOCKER_STATE_LOST);
}

typedef struct {
    locker *l;
    uint64_t seen;
} renewal;

static bool has_renewed(void *context)
{
    const renewal *awaited = context;
    return lk_stats(awaited->l).renewals > awaited->seen;
}

void lk_require_renewal(locker *l)
{
    renewal awaited = {l, lk_stats(l).renewals};
    lk_require(has_renewed, &awaited, "the service should confirm the locks once more");
}
