/* restarts.c: servers that restart, forget, pause and cut connections, while locks are held and waited
 * for. */
#include "redis_tests.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void a_restart_with_data_keeps_the_lock(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=5s"), *rival;
    locker_handle *held = lk_take(l, "kept");
    char value[64];
    assert_true(lk_server_text(env->server, value, sizeof value, "GET kept"));
    lk_server_kill(env->server);
    lk_test_launch(env->server, true);
    lk_expect_value(env->server, "kept", value);
    lk_require_state(held, LOCKER_STATE_HELD); /* it may have been SUSPECT meanwhile */
    rival = lk_open_at(env->server, "");
    lk_expect_busy(rival, "kept");
    assert_int_equal(lk_stats(l).lost, 0);
    lk_give(held);
    lk_give(lk_take(rival, "kept"));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_restart_with_data_is_renewed_over(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=3s");
    locker_handle *held = lk_take(l, "renewed");
    locker_handle *second = NULL;
    locker_lock_options options = lk_wait_options(4500);
    locker *rival;
    locker_error err;
    lk_server_kill(env->server);
    lk_test_launch(env->server, true);
    rival = lk_open_at(env->server, "");
    /* as long as the server is there again before the lease is over */
    if (assert_unless_late(locker_lock(rival, "renewed", &options, &second, &err) == LOCKER_TIMEOUT)) {
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
        assert_true(lk_stats(l).renewals >= 1);
        lk_give(held);
    } else {
        locker_handle_free(second);
        locker_handle_free(held);
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_restart_without_data_is_a_loss(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=900ms");
    locker_handle *held = lk_take(l, "gone"), *next;
    int64_t killed = lk_test_now_ms();
    locker_error err;
    lk_server_kill(env->server);
    lk_test_launch(env->server, false);
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    assert_timely(lk_test_now_ms() - killed, 900 + LK_TEST_SLACK_MS);
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    next = lk_take(l, "gone");
    assert_true(locker_handle_token(next) > locker_handle_token(held)); /* by the server's clock */
    locker_handle_free(held);
    lk_give(next);
    lk_close_locker(l);
}

/* A waiter lives through the server's absence, and is served when the server is back. */
static void a_waiter_outlives_a_restart(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=1s"), *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "waited");
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "waited", NULL);
    lk_require_waiting(rival, 1);
    lk_require_subscriber(env->server);
    lk_server_kill(env->server);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_test_launch(env->server, true);
    lk_give(lk_locking_grant(&waiter));
    locker_handle_free(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void flushall_is_a_loss(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=900ms"), *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "flushed");
    lk_locking waiter;
    int64_t flushed;
    lk_locking_start(&waiter, rival, "flushed", NULL);
    lk_require_waiting(rival, 1);
    flushed = lk_test_now_ms();
    lk_server_do(env->server, "FLUSHALL");
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    assert_timely(lk_test_now_ms() - flushed, 900 + LK_TEST_SLACK_MS);
    assert_int_equal(locker_unlock(held, NULL), LOCKER_LOST);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(locker_handle_token(waiter.held) > locker_handle_token(held));
    locker_handle_free(held);
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void script_flush_is_not_noticed(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=600ms"), *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "scripts"), *second = NULL;
    locker_lock_options options = lk_wait_options(1300);
    locker_error err;
    lk_server_do(env->server, "SCRIPT FLUSH");
    /* it is renewed */
    if (!assert_unless_late(locker_lock(rival, "scripts", &options, &second, &err) == LOCKER_TIMEOUT))
        locker_handle_free(second);
    for (int i = 0; i < 3; i++) {
        locker_info info = LOCKER_INFO_INIT;

        lk_server_do(env->server, "SCRIPT FLUSH");
        lk_give_unless_late(held);
        lk_server_do(env->server, "SCRIPT FLUSH");
        held = lk_take(l, "scripts");
        lk_server_do(env->server, "SCRIPT FLUSH");
        assert_ok(locker_show(l, "scripts", &info, &err), err);
        assert_true(info.held);
        locker_info_clear(&info);
    }
    lk_server_do(env->server, "SCRIPT FLUSH");
    assert_ok(locker_break(rival, "scripts", NULL, NULL, &err), err);
    locker_handle_free(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void killed_connections_are_made_again(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=2s"), *rival = lk_open_at(env->server, "");
    for (int i = 0; i < 5; i++) {
        locker_handle *held = lk_take(l, "killed");
        lk_locking waiter;

        lk_locking_start(&waiter, rival, "killed", NULL);
        lk_require_waiting(rival, 1);
        lk_server_do(env->server, "CLIENT KILL TYPE normal");
        if (i % 2 == 0)
            lk_server_do(env->server, "CLIENT KILL TYPE pubsub");
        lk_give(held);
        lk_give(lk_locking_grant(&waiter));
    }
    assert_int_equal(lk_stats(l).lost, 0);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void listen_for_again(locker_log_level level, const char *text, void *user)
{
    (void)level;
    if (strstr(text, "connected to") != NULL && strstr(text, "again") != NULL)
        atomic_store((atomic_bool *)user, true);
}

static bool was_told(void *context)
{
    return atomic_load((atomic_bool *)context);
}

/* A server that does not tell who it is may be another one, so the subscription goes too, and that is told.
 * What is told last is that there is a connection again. */
static void a_connection_that_is_made_again_is_told(void **state)
{
    lk_env *env = *state;
    char uri[64];
    atomic_bool told = false;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker *l = lk_open_at(env->server, ""), *rival = NULL;
    locker_handle *held = lk_take(l, "told");
    lk_locking waiter;
    locker_error err;
    options.log = listen_for_again;
    options.log_user = &told;
    options.log_level = LOCKER_LOG_INFO;
    lk_server_do(env->server, "ACL SETUSER default -info");
    snprintf(uri, sizeof uri, "redis://127.0.0.1:%d", env->server->port);
    assert_ok(locker_open(uri, &options, &rival, &err), err);
    lk_locking_start(&waiter, rival, "told", NULL);
    lk_require_subscriber(env->server);
    lk_server_do(env->server, "CLIENT KILL TYPE normal USER default");
    lk_require(was_told, &told, "the log should tell of the new connection");
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void count_warning_of_eviction(locker_log_level level, const char *text, void *user)
{
    if (level == LOCKER_LOG_WARN && strstr(text, "maxmemory-policy") != NULL)
        atomic_fetch_add((atomic_int *)user, 1);
}

/* It would delete locks that are held. It does so only where its memory has a limit. */
static void a_server_that_evicts_is_told(void **state)
{
    static const struct {
        const char *most, *policy;
        int warnings;
    } cases[] = {{"0", "volatile-ttl", 0},
                 {"100mb", "noeviction", 0},
                 {"100mb", "volatile-ttl", 1},
                 {"100mb", "allkeys-lru", 1}};
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char uri[64];
        atomic_int warnings = 0;
        locker_options options = LOCKER_OPTIONS_INIT;
        locker *l = NULL;
        locker_error err;
        options.log = count_warning_of_eviction;
        options.log_user = &warnings;
        options.log_level = LOCKER_LOG_WARN;
        lk_server_do(env->server, "CONFIG SET maxmemory %s", cases[i].most);
        lk_server_do(env->server, "CONFIG SET maxmemory-policy %s", cases[i].policy);
        (void)snprintf(uri, sizeof uri, "redis://127.0.0.1:%d", env->server->port);
        assert_ok(locker_open(uri, &options, &l, &err), err);
        lk_server_do(env->server,
                     "CLIENT KILL TYPE normal"); /* it is told once, also when it connects again */
        lk_give(lk_take(l, "evicted"));
        assert_int_equal(atomic_load(&warnings), cases[i].warnings);
        lk_close_locker(l);
    }
}

/* The message of the grant is lost: the waiter finds it by its poll, or when it has subscribed again. */
static void a_killed_subscriber_is_woken_all_the_same(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *rival = lk_open_at(env->server, "");
    for (int i = 0; i < 4; i++) {
        locker_handle *held = lk_take(l, "subscriber");
        lk_locking waiter;
        int64_t released;

        lk_locking_start(&waiter, rival, "subscriber", NULL);
        lk_require_waiting(rival, 1);
        lk_require_subscriber(env->server);
        lk_server_do(env->server, "CLIENT KILL TYPE pubsub");
        released = lk_test_now_ms();
        lk_give(held);
        assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
        assert_timely(waiter.ended_ms - released, 1500 + LK_TEST_SLACK_MS);
        lk_give(waiter.held);
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_paused_server_never_makes_remaining_too_long(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    int64_t began, answered, remaining, left;
    options.ttl_ms = 3000;
    options.no_renew = true;
    lk_server_do(env->server, "CLIENT PAUSE 400 ALL");
    began = lk_test_now_ms();
    held = lk_take_with(l, "paused", &options);
    answered = lk_test_now_ms();
    remaining = locker_handle_remaining_ms(held);
    assert_unless_late(remaining <= 3000 - (answered - began) + 2); /* it counts from its sending */
    left = lk_server_integer(env->server, "PTTL paused");
    assert_true(locker_handle_remaining_ms(held) <= left);
    lk_server_do(env->server, "CLIENT PAUSE 300 ALL");
    lk_give(held);
    lk_close_locker(l);
}

static void a_held_lock_lives_through_a_pause(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=1500ms");
    locker_handle *held = lk_take(l, "pause");
    lk_server_do(env->server, "CLIENT PAUSE 700 ALL");
    assert_unless_late(!lk_readable(locker_handle_fd(held), 2000)); /* it is never lost */
    lk_give_unless_late(held);
    lk_close_locker(l);
}

static void a_frozen_server_gives_unavailable_and_then_serves(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "command_timeout=300ms");
    locker_handle *held = NULL;
    locker_error err;
    lk_server_kill(env->server);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "absent", NULL, &held, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_ping(l, NULL, &err), err);
    lk_test_launch(env->server, true);
    for (int64_t until = lk_test_now_ms() + LK_TEST_PATIENCE_MS; held == NULL;) {
        locker_status status = locker_try_lock(l, "absent", NULL, &held, &err);

        assert_true(status == LOCKER_OK || status == LOCKER_UNAVAILABLE);
        assert_true(lk_test_now_ms() < until);
    }
    lk_give_unless_late(held);
    lk_close_locker(l);
}

/* Tries until it is told that nobody is there; a server that still goes down may cut one off before. */
static void try_without_a_server(locker *l)
{
    locker_handle *held = NULL;
    locker_error err;
    int64_t began = lk_test_now_ms();
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "deserted", NULL, &held, &err), err);
    assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
    assert_non_null(strstr(err.text, "refused"));
}

/* A try is answered where connecting is refused, and asks by itself: it waits for no back-off of ours. */
static void a_try_does_not_wait_for_a_server_that_is_gone(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "command_timeout=60s");
    locker_handle *held = NULL;
    locker_error err;
    lk_give(lk_take(l, "deserted"));
    lk_server_kill(env->server);
    for (int i = 0; i < 100; i++)
        try_without_a_server(l);
    lk_test_launch(env->server, true);
    (void)usleep(100 * 1000); /* longer than a refusal is taken for the answer */
    assert_status(LOCKER_OK, locker_try_lock(l, "deserted", NULL, &held, &err), err);
    lk_give(held);
    lk_close_locker(l);
}

/* So is one where no way leads to: to 255.255.255.255 there is none by TCP. */
static void a_try_does_not_wait_for_an_unreachable_network(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_handle *held = NULL;
    locker_error err;
    int64_t began;
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.1:%d,255.255.255.255:6379?command_timeout=60s",
                         env->server->port),
              err);
    lk_give(lk_take(l, "wayless"));
    lk_server_kill(env->server);
    began = lk_test_now_ms();
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "wayless", NULL, &held, &err), err);
    assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
    lk_close_locker(l);
}

/* The same for one that was on its way; a call that waits goes on. */
static void a_try_in_flight_is_unavailable_when_the_server_has_gone(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "command_timeout=60s");
    lk_check_a_try_under_way(l, env->server);
    lk_close_locker(l);
}

static void closing_without_a_server_is_bounded(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "closing");
    int64_t began;
    lk_test_freeze(env->server);
    began = lk_test_now_ms();
    lk_close_locker(l);
    assert_timely(lk_test_now_ms() - began, 2000 + 2 * LK_TEST_SLACK_MS);
    locker_handle_free(held);
}

static bool has_renewed(void *l)
{
    return lk_stats(l).renewals > 0;
}

/* The documented limit of a server that forgets: until its holder hears of it, two have the lock; the later
 * one has the greater token. */
static void until_the_next_renewal_two_may_hold(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "forgotten"), *second = NULL;
    locker_error err;
    /* The holder would also hear of it when it notes its name, or when it renews the lock because it has just subscribed. */
    lk_require_noted(env, "forgotten");
    lk_require(has_renewed, l, "the holder should renew what it held before it subscribed");
    lk_server_do(env->server, "FLUSHALL");
    assert_status(LOCKER_OK, locker_try_lock(rival, "forgotten", NULL, &second, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_true(locker_handle_token(second) > locker_handle_token(held));
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    lk_give(second);
    locker_handle_free(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    durable_test(a_restart_with_data_keeps_the_lock),
    durable_test(a_restart_with_data_is_renewed_over),
    durable_test(a_restart_without_data_is_a_loss),
    durable_test(a_waiter_outlives_a_restart),
    server_test(flushall_is_a_loss),
    server_test(script_flush_is_not_noticed),
    server_test(killed_connections_are_made_again),
    server_test(a_connection_that_is_made_again_is_told),
    server_test(a_server_that_evicts_is_told),
    server_test(a_killed_subscriber_is_woken_all_the_same),
    server_test(a_paused_server_never_makes_remaining_too_long),
    server_test(a_held_lock_lives_through_a_pause),
    server_test(a_frozen_server_gives_unavailable_and_then_serves),
    server_test(a_try_does_not_wait_for_a_server_that_is_gone),
    server_test(a_try_does_not_wait_for_an_unreachable_network),
    durable_test(a_try_in_flight_is_unavailable_when_the_server_has_gone),
    server_test(closing_without_a_server_is_bounded),
    server_test(until_the_next_renewal_two_may_hold),
};

const lk_group lk_restarts = {"restarts", tests, sizeof tests / sizeof tests[0], NULL, NULL};
