/* basics.c: trying, timed waits, keys, options, looking at locks, breaking them, the forms of unlocking. */
#include "kit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void lock_and_unlock(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "plain", NULL);
    assert_string_equal(locker_handle_key(held), "plain");
    lk_give(held);
    lk_give(lk_take(l, "plain", NULL));
    lk_close_locker(l);
}

static void try_answers_busy_and_then_ok(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "try", NULL), *second = NULL;
    locker_lock_options once = lk_wait_options(0);
    lk_expect_busy(rival, "try");
    lk_expect_busy(l, "try");
    locker_error err;
    assert_status(LOCKER_BUSY, locker_lock(rival, "try", &once, &second, &err), err);
    assert_null(second);
    lk_give(held);
    assert_ok(locker_try_lock(rival, "try", NULL, &second, &err), err);
    lk_expect_busy(l, "try");
    lk_give(second);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A machine that is busy may be late once; it is not late five times. */
static void a_timed_wait_is_as_long_as_it_says(void **state)
{
    enum { WAIT = 120, LATE = 100, TRIES = 5 };
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "timed", NULL), *second = NULL;
    locker_lock_options options = lk_wait_options(WAIT);
    int64_t shortest = INT64_MAX;
    locker_error err;
    for (int i = 0; i < TRIES && shortest > WAIT + LATE; i++) {
        int64_t began = lk_test_now_ms();

        assert_status(LOCKER_TIMEOUT, locker_lock(rival, "timed", &options, &second, &err), err);
        int64_t took = lk_test_now_ms() - began;
        assert_null(second);
        assert_true(took >= WAIT - 1); /* the test's clock is rounded down to ms */
        shortest = took < shortest ? took : shortest;
    }
    assert_timely(shortest, WAIT + LATE + 1);
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "timed", &options, &second, &err), err);
    lk_give(held);
    lk_give(lk_take(rival, "timed", NULL)); /* the time-outs left nothing behind */
    assert_int_equal(lk_stats(rival).waiting, 0);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void bad_keys_are_refused(void **state)
{
    static const char *const bad[] = {
        NULL,       "",     "a\nb",   "a\x01",        "tab\t",    "\x7f",
        "\xff\xfe", "\xc3", "x\xc3(", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"};
    locker *l = lk_open_locker(*state, "");
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held = NULL;
    locker_error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(LOCKER_INVALID, locker_lock(l, bad[i], NULL, &held, &err), err);
        assert_null(held);
        assert_status(LOCKER_INVALID, locker_try_lock(l, bad[i], NULL, &held, &err), err);
        assert_status(LOCKER_INVALID, locker_show(l, bad[i], &info, &err), err);
    }
    char too_long[LOCKER_KEY_MAX + 2];
    memset(too_long, 'k', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    assert_status(LOCKER_INVALID, locker_lock(l, too_long, NULL, &held, &err), err);
    assert_null(held);
    lk_close_locker(l);
}

/* Each odd key is a lock of its own: all of them are held at once. */
static void odd_keys_are_good_and_distinct(void **state)
{
    char longest[LOCKER_KEY_MAX + 1], longest_too[LOCKER_KEY_MAX + 1];
    const char *const good[] = {"/",
                                "a/b",
                                "a//b",
                                "a/b/",
                                ".",
                                "..",
                                "../x",
                                " ",
                                " a ",
                                "a b",
                                "%",
                                "%2F",
                                "a%2Fb",
                                "{}",
                                "{a}b",
                                "{a}c",
                                "schlo\xc3\x9f",
                                "\xf0\x9f\x94\x92",
                                "*",
                                "?",
                                "a:b",
                                "~",
                                "A",
                                "a",
                                "a.lock",
                                "-",
                                "$HOME",
                                "\"quoted\"",
                                "\\",
                                "'",
                                longest,
                                longest_too};
    enum { COUNT = sizeof good / sizeof good[0] };
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    memset(longest, '/', LOCKER_KEY_MAX);
    memset(longest_too, '/', LOCKER_KEY_MAX - 1);
    longest[LOCKER_KEY_MAX] = longest_too[LOCKER_KEY_MAX] = '\0';
    longest_too[LOCKER_KEY_MAX - 1] = '.';
    locker_handle *held[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        held[i] = NULL;
        locker_error err;
        assert_ok(locker_try_lock(l, good[i], NULL, &held[i], &err), err);
        assert_string_equal(locker_handle_key(held[i]), good[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        lk_expect_busy(rival, good[i]);
    for (size_t i = 0; i < COUNT; i++)
        lk_give(held[i]);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void namespaces_are_apart(void **state)
{
    lk_fixture *fixture = *state;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker *l = lk_open_locker(fixture, ""), *other = NULL;
    locker_handle *held = lk_take(l, "same", NULL);
    options.name_space = "elsewhere";
    locker_error err;
    assert_ok(lk_open_uri(fixture->driver, fixture->uri, "", &options, &other, &err), err);
    locker_handle *second = lk_take(other, "same", NULL);
    lk_give(second);
    lk_give(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

static void refuse(locker *l, locker_status wanted, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_status(wanted, locker_lock(l, "options", options, &held, &err), err);
    assert_null(held);
}

static void bad_options_are_refused(void **state)
{
    lk_fixture *fixture = *state;
    char long_label[LOCKER_OWNER_MAX + 2];
    const char *const labels[] = {"", "a\nb", long_label};
    locker *l = lk_open_locker(fixture, "");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    memset(long_label, 'o', sizeof long_label - 1);
    long_label[sizeof long_label - 1] = '\0';
    options.size = 3;
    refuse(l, LOCKER_INVALID, &options);
    options = lk_wait_options(-2);
    refuse(l, LOCKER_INVALID, &options);
    options = lk_wait_options(-1);
    if (fixture->promises.leases) {
        options.ttl_ms = 1;
        refuse(l, LOCKER_CONFIG, &options);
        options.ttl_ms = INT64_C(1000) * 3600 * 24 * 365;
        refuse(l, LOCKER_CONFIG, &options);
    }
    options.ttl_ms = 0;
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        options.owner = labels[i];
        refuse(l, LOCKER_INVALID, &options);
    }
    locker_error err;
    assert_status(LOCKER_INVALID, locker_lock(l, "options", NULL, NULL, &err), err);
    lk_give(lk_take(l, "options", NULL)); /* none of it took the lock */
    lk_close_locker(l);
}

static void an_unknown_parameter_is_refused(void **state)
{
    lk_fixture *fixture = *state;
    locker *l = NULL;
    locker_error err;
    assert_status(LOCKER_CONFIG,
                  lk_open_uri(fixture->driver, fixture->uri, "no_such_thing=1", NULL, &l, &err), err);
    assert_null(l);
    assert_non_null(strstr(err.text, "no_such_thing"));
    assert_status(LOCKER_CONFIG, lk_open_uri(fixture->driver, fixture->uri, "ttl=soon", NULL, &l, &err), err);
    assert_non_null(strstr(err.text, "soon"));
}

static void show_names_the_holder(void **state)
{
    lk_fixture *fixture = *state;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker *l = NULL, *other = lk_open_locker(fixture, "");
    locker_info info = LOCKER_INFO_INIT;
    options.owner = "the owner of it";
    locker_error err;
    assert_ok(lk_open_uri(fixture->driver, fixture->uri, "", &options, &l, &err), err);
    assert_ok(locker_show(other, "shown", &info, &err), err);
    assert_false(info.held);
    locker_info_clear(&info);
    locker_handle *held = lk_take(l, "shown", NULL);
    assert_string_equal(locker_handle_owner(held), "the owner of it");
    lk_require_owner(other, "shown", "the owner of it");
    assert_ok(locker_show(other, "shown", &info, &err), err);
    assert_true(info.held);
    assert_string_equal(info.owner, "the owner of it");
    assert_int_equal(info.token, locker_handle_token(held));
    assert_true(info.since_unix_ms > 0);
    if (fixture->promises.leases && !fixture->promises.quorum)
        assert_in_range(info.remaining_ms, 1, 30000);
    else
        assert_int_equal(info.remaining_ms, -1); /* the end of a session is known to its owner alone */
    locker_info_clear(&info);
    lk_give(held);
    assert_ok(locker_show(other, "shown", &info, &err), err);
    assert_false(info.held);
    locker_info_clear(&info);
    lk_close_locker(other);
    lk_close_locker(l);
}

static void break_frees_the_lock_and_notifies_the_holder(void **state)
{
    lk_fixture *fixture = *state;
    needs(fixture->promises.can_break);
    locker *l = lk_open_locker(fixture, "ttl=3s"), *boss = lk_open_locker(fixture, "");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;

    assert_status(LOCKER_INVALID, locker_break(boss, "broken", NULL, NULL, &err), err);
    locker_handle *held = lk_take(l, "broken", NULL);
    lk_require_owner(boss, "broken", locker_handle_owner(held));
    assert_ok(locker_break(boss, "broken", NULL, &info, &err), err);
    assert_true(info.held);
    assert_string_equal(info.owner, locker_handle_owner(held));
    locker_info_clear(&info);
    lk_require_state(held, LOCKER_STATE_LOST);
    locker_handle *next = lk_take(boss, "broken", NULL);
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    lk_expect_busy(l, "broken"); /* the next holder's lock is untouched */
    assert_true(locker_handle_token(next) > locker_handle_token(held));
    locker_handle_free(held);
    lk_give(next);
    lk_close_locker(boss);
    lk_close_locker(l);
}

static void expect_not_broken(locker *boss, const char *key, const locker_break_options *only,
                              const locker_handle *held)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_break(boss, key, only, &info, &err), err);
    assert_true(info.held);
    assert_string_equal(info.owner, locker_handle_owner(held));
    assert_true(err.text[0] != '\0');
    locker_info_clear(&info);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_expect_busy(boss, key);
}

/* Whoever was looked at, and nobody else. */
static void break_ends_only_the_holder_that_was_named(void **state)
{
    lk_fixture *fixture = *state;
    needs(fixture->promises.can_break);
    locker *l = lk_open_locker(fixture, "ttl=3s"), *boss = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "named", NULL);
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;

    only.token = locker_handle_token(held);
    lk_give(held);
    locker_error err;
    assert_status(LOCKER_INVALID, locker_break(boss, "named", &only, NULL, &err), err);
    held = lk_take(l, "named", NULL);
    lk_require_owner(boss, "named", locker_handle_owner(held));
    expect_not_broken(boss, "named", &only, held);
    only.token = 0;
    only.owner = "nobody of that name";
    expect_not_broken(boss, "named", &only, held);
    only.token = locker_handle_token(held);
    expect_not_broken(boss, "named", &only, held);
    only.owner = locker_handle_owner(held);
    assert_ok(locker_break(boss, "named", &only, NULL, &err), err);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give(lk_take(boss, "named", NULL));
    locker_handle_free(held);
    only.size = 0;
    assert_status(LOCKER_INVALID, locker_break(boss, "named", &only, NULL, &err), err);
    lk_close_locker(boss);
    lk_close_locker(l);
}

static void break_wakes_a_waiter(void **state)
{
    lk_fixture *fixture = *state;
    needs(fixture->promises.can_break);
    locker *l = lk_open_locker(fixture, ""), *rival = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "broken2", NULL);
    lk_locking waiter;

    lk_locking_start(&waiter, rival, "broken2", NULL);
    lk_require_waiting(rival, 1);
    locker_error err;
    assert_ok(locker_break(rival, "broken2", NULL, NULL, &err), err);
    lk_give(lk_locking_grant(&waiter));
    locker_unlock(held, NULL);
    locker_handle_free(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void ping_takes_a_while(void **state)
{
    locker *l = lk_open_locker(*state, "");
    int64_t us = -1;
    locker_error err;
    assert_ok(locker_ping(l, &us, &err), err);
    assert_true(us >= 0);
    assert_int_equal(locker_ping(l, NULL, NULL), LOCKER_OK);
    lk_close_locker(l);
}

static void a_scope_unlocks(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_error err;
    {
        LOCKER_AUTO locker_handle *held = NULL;

        assert_ok(locker_lock(l, "scope", NULL, &held, &err), err);
        lk_expect_busy(rival, "scope");
    }
    lk_give(lk_take(rival, "scope", NULL));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void *exit_while_holding(void *argument)
{
    locker_handle *held = NULL;
    if (locker_lock(argument, "cleanup", NULL, &held, NULL) != LOCKER_OK)
        return argument;
    pthread_cleanup_push(locker_cleanup, held);
    pthread_exit(NULL);
    pthread_cleanup_pop(1);
}

static void a_thread_that_exits_unlocks(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, exit_while_holding, l), 0);
    lk_join(thread, "exit while holding");
    assert_int_equal(lk_stats(l).released, 1);
    lk_give(lk_take(rival, "cleanup", NULL));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void statistics_count(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *second = NULL;
    locker_lock_options brief = lk_wait_options(20);
    locker_statistics stats = {.size = 5};
    assert_int_equal(locker_stats(l, &stats), LOCKER_INVALID);
    locker_handle *held = lk_take(l, "counted", NULL);
    stats = lk_stats(l);
    assert_int_equal(stats.acquired, 1);
    assert_int_equal(stats.held, 1);
    lk_expect_busy(l, "counted");
    assert_int_equal(locker_lock(l, "counted", &brief, &second, NULL), LOCKER_TIMEOUT);
    lk_give(held);
    stats = lk_stats(l);
    assert_int_equal(stats.busy, 1);
    assert_int_equal(stats.timed_out, 1);
    assert_int_equal(stats.released, 1);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.lost, 0);
    assert_int_equal(stats.hold.count, 1);
    assert_int_equal(stats.wait.count, 1);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lock_and_unlock),
    cmocka_unit_test(try_answers_busy_and_then_ok),
    cmocka_unit_test(a_timed_wait_is_as_long_as_it_says),
    cmocka_unit_test(bad_keys_are_refused),
    cmocka_unit_test(odd_keys_are_good_and_distinct),
    cmocka_unit_test(namespaces_are_apart),
    cmocka_unit_test(bad_options_are_refused),
    cmocka_unit_test(an_unknown_parameter_is_refused),
    cmocka_unit_test(show_names_the_holder),
    cmocka_unit_test(break_frees_the_lock_and_notifies_the_holder),
    cmocka_unit_test(break_ends_only_the_holder_that_was_named),
    cmocka_unit_test(break_wakes_a_waiter),
    cmocka_unit_test(ping_takes_a_while),
    cmocka_unit_test(a_scope_unlocks),
    cmocka_unit_test(a_thread_that_exits_unlocks),
    cmocka_unit_test(statistics_count),
};

const lk_group lk_basics = {"basics", tests, sizeof tests / sizeof tests[0]};
