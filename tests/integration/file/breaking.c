/* breaking.c: forced unlocks, and what happens to a lock whose file is taken away. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_test.h"
#include "holding.h"
#include "locking.h"

static const char *long_key(void)
{
    static char key[LOCKER_KEY_MAX + 1];
    memset(key, '/', LOCKER_KEY_MAX);
    return key;
}

static void broken_and_taken_over(lk_place *place, const char *key)
{
    locker *other = lk_place_open(place);
    locker_error err;
    locker_handle *held, *next;
    locker_info info = LOCKER_INFO_INIT;
    lk_locking waiter = {0};
    assert_ok(locker_lock(place->l, key, NULL, &held, &err), err);
    uint64_t token = locker_handle_token(held);
    lk_locking_start(&waiter, other, key, NULL);
    lk_require_waiting(other, 1);
    int lost = locker_handle_fd(held);
    int64_t from = lk_test_now_ms();
    assert_ok(locker_break(other, key, NULL, &info, &err), err);
    assert_true(lk_readable(lost, LK_TEST_PATIENCE_MS));
    int64_t took = lk_test_now_ms() - from;
    assert_timely(took, LK_TEST_SLACK_MS);
    assert_true(info.held && info.token == token);
    assert_string_equal(info.owner, locker_handle_owner(held));
    locker_info_clear(&info);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);

    assert_int_equal(lk_locking_join(&waiter), LOCKER_OK);
    assert_true(locker_handle_token(waiter.held) > token);
    lk_give_lost(held);
    assert_status(LOCKER_BUSY, locker_try_lock(place->l, key, NULL, &next, &err), err);
    lk_give(waiter.held);
    assert_status(LOCKER_INVALID, locker_break(other, key, NULL, NULL, &err), err);
    locker_close(other);
}

static void break_notifies_the_holder(void **state)
{
    broken_and_taken_over(*state, "k");
    broken_and_taken_over(*state, long_key());
}

static void break_of_a_free_lock(void **state)
{
    lk_place *place = *state;
    locker_error err;
    assert_status(LOCKER_INVALID, locker_break(place->l, "never", NULL, NULL, &err), err);
    assert_status(LOCKER_INVALID, locker_break(place->l, long_key(), NULL, NULL, &err), err);
    lk_place_token(place, "once");
    assert_status(LOCKER_INVALID, locker_break(place->l, "once", NULL, NULL, &err), err);
}

enum taking { REMOVE, MOVE };

static void taken_away(lk_place *place, const char *key, const char *file, enum taking how)
{
    locker *other = lk_place_open(place);
    locker_error err;
    locker_handle *held;
    lk_locking waiter = {0};
    char away[200];
    assert_ok(locker_lock(place->l, key, NULL, &held, &err), err);
    lk_locking_start(&waiter, other, key, NULL);
    lk_require_waiting(other, 1);
    snprintf(away, sizeof(away), "%s/away", place->locks);
    if (how == REMOVE)
        assert_int_equal(unlink(lk_place_file(place, file)), 0);
    else
        assert_int_equal(rename(lk_place_file(place, file), away), 0);
    lk_require_state(held, LOCKER_STATE_LOST);
    assert_int_equal(lk_locking_join(&waiter), LOCKER_OK);
    assert_true(locker_handle_token(waiter.held) > locker_handle_token(held));
    lk_give_lost(held);
    locker_handle_free(waiter.held);
    locker_close(other);
}

static void a_removed_file_is_a_lost_lock(void **state)
{
    taken_away(*state, "k", "k.lock", REMOVE);
}

static void a_moved_file_is_a_lost_lock(void **state)
{
    taken_away(*state, "k", "k.lock", MOVE);
}

static void all_locks_of_a_moved_directory_are_lost(void **state)
{
    lk_place *place = *state;
    locker_error err;
    locker_handle *a, *b;
    char away[100];
    assert_ok(locker_lock(place->l, "a", NULL, &a, &err), err);
    assert_ok(locker_lock(place->l, "b", NULL, &b, &err), err);
    snprintf(away, sizeof(away), "%s/away", place->base);
    assert_int_equal(rename(place->locks, away), 0);
    lk_require_state(a, LOCKER_STATE_LOST);
    lk_require_state(b, LOCKER_STATE_LOST);
    locker_handle_free(a);
    locker_handle_free(b);
    assert_status(LOCKER_UNAVAILABLE, locker_lock(place->l, "a", NULL, &a, &err), err);
    assert_non_null(strstr(err.text, "moved"));
    /* It stays so when it is put back: others may have had locks in another meanwhile. */
    assert_int_equal(rename(away, place->locks), 0);
    assert_status(LOCKER_UNAVAILABLE, locker_lock(place->l, "a", NULL, &a, &err), err);
    assert_non_null(strstr(err.text, "moved"));
}

/* What cleans /tmp removes files by their age. */
static void files_of_held_locks_stay_young(void **state)
{
    static const struct timespec old[2] = {{1000000, 0}, {1000000, 0}};
    lk_place *place = *state;
    locker_error err;
    locker_handle *held;
    struct stat s;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_int_equal(utimensat(AT_FDCWD, lk_place_file(place, "k.lock"), old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, place->locks, old, 0), 0);
    lk_clock_go(INT64_C(25) * 3600 * 1000000000);
    for (int64_t end = lk_test_now_ms() + LK_TEST_PATIENCE_MS;;) {
        /* A file that is moved wakes the driver, which slept for a day. */
        int fd = open(lk_place_file(place, "passing"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
        char away[200];
        snprintf(away, sizeof(away), "%s/away", place->locks);
        assert_int_equal(rename(lk_place_file(place, "passing"), away), 0);
        assert_int_equal(unlink(away), 0);
        assert_int_equal(stat(lk_place_file(place, "k.lock"), &s), 0);
        if (s.st_mtim.tv_sec != old[0].tv_sec)
            break;
        assert_true(lk_test_now_ms() < end);
        (void)lk_readable(locker_handle_fd(held), 10);
    }
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
}

static void show_names_the_owner(void **state)
{
    lk_place *place = *state;
    locker *other = lk_place_open(place);
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    locker_handle *held;
    locker_info info = LOCKER_INFO_INIT;
    assert_ok(locker_show(other, "k", &info, &err), err);
    assert_false(info.held);
    options.owner = "  a label with spaces  ";
    assert_ok(locker_lock(place->l, "k", &options, &held, &err), err);
    assert_ok(locker_show(other, "k", &info, &err), err);
    assert_true(info.held && info.token == locker_handle_token(held) && info.since_unix_ms > 0);
    assert_string_equal(info.owner, options.owner);
    assert_int_equal(info.remaining_ms, -1);
    assert_int_equal(info.waiters, 0);
    uint64_t token = locker_handle_token(held);
    locker_handle_free(held);
    assert_ok(locker_show(other, "k", &info, &err), err);
    assert_true(!info.held && info.token == token && info.owner[0] == '\0');
    locker_close(other);
}

/* Whatever the keeper has heard of it so far. */
static void a_broken_lock_is_not_kept_over_exec(void **state)
{
    lk_place *place = *state;
    locker_error err;
    for (int kind = 0; kind < 3; kind++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        options.mode = kind == 1 ? LOCKER_SHARED : LOCKER_EXCLUSIVE;
        options.permits = kind == 2 ? 2 : 0;
        locker *const other = lk_place_open(place);
        locker_handle *held;
        assert_ok(locker_lock(place->l, "k", &options, &held, &err), err);
        assert_ok(locker_handle_keep_over_exec(held, &err), err);
        assert_ok(locker_break(other, "k", NULL, NULL, &err), err);
        assert_status(LOCKER_LOST, locker_handle_keep_over_exec(held, &err), err);
        assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
        locker_handle_free(held);
        locker_close(other);
    }
}

static const struct CMUnitTest tests[] = {
    place_test(break_notifies_the_holder),
    place_test(break_of_a_free_lock),
    place_test(a_removed_file_is_a_lost_lock),
    place_test(a_moved_file_is_a_lost_lock),
    place_test(all_locks_of_a_moved_directory_are_lost),
    place_test(files_of_held_locks_stay_young),
    place_test(show_names_the_owner),
    place_test(a_broken_lock_is_not_kept_over_exec),
};

const lk_group lk_breaking = {"breaking", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
