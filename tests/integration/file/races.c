/*
 * races.c: what happens to a lock's file between two steps of the driver. The driver's own functions are
 * wrapped at link time, so that a test does it just there.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "file.h"
#include "file_test.h"
#include "locking.h"
#include "puppet.h"

int __real_lk_file_range_lock(int fd, short type, off_t byte);
int __wrap_lk_file_range_lock(int fd, short type, off_t byte);
int64_t __real_lk_file_dispatch(void *self);
int64_t __wrap_lk_file_dispatch(void *self);
locker_status __real_lk_file_pass(void *self, locker_claim *from, locker_claim *to);
locker_status __wrap_lk_file_pass(void *self, locker_claim *from, locker_claim *to);

/* Once, before the next lock of a whole file is tried. */
static void (*before_lock)(void);

int __wrap_lk_file_range_lock(int fd, short type, off_t byte)
{
    void (*once)(void) = before_lock;

    if (once != NULL && type == F_WRLCK) {
        before_lock = NULL;
        once();
    }
    return __real_lk_file_range_lock(fd, type, byte);
}

/* While a test has it, this process hears of nothing. */
static pthread_mutex_t hearing = PTHREAD_MUTEX_INITIALIZER;

int64_t __wrap_lk_file_dispatch(void *self)
{
    (void)pthread_mutex_lock(&hearing);
    (void)pthread_mutex_unlock(&hearing);
    return __real_lk_file_dispatch(self);
}

static void hear_nothing(void)
{
    (void)pthread_mutex_lock(&hearing);
}

static void hear_again(void)
{
    (void)pthread_mutex_unlock(&hearing);
}

struct passing {
    lk_file *self;
    const lk_file_claim *from;
};

static bool is_broken(void *context)
{
    const struct passing *passing = context;
    bool broken;

    (void)pthread_mutex_lock(&passing->self->mutex);
    broken = passing->from->broken;
    (void)pthread_mutex_unlock(&passing->self->mutex);
    return broken;
}

/* Once, before the next pass, which then waits until the driver knows that the lock is broken. */
static void (*before_pass)(void);

locker_status __wrap_lk_file_pass(void *self, locker_claim *from, locker_claim *to)
{
    struct passing passing = {self, locker_claim_private(from)};

    if (before_pass != NULL) {
        before_pass();
        before_pass = NULL;
        (void)lk_wait_until(is_broken, &passing, LK_TEST_PATIENCE_MS);
    }
    return __real_lk_file_pass(self, from, to);
}

/* ------------------------------------------------------------------ the tests ---- */

static struct lk_place *here;

static void remove_it(void)
{
    (void)unlink(lk_place_file(here, "k.lock"));
}

static void move_it(void)
{
    char away[200];

    (void)snprintf(away, sizeof away, "%s/away", here->locks);
    (void)rename(lk_place_file(here, "k.lock"), away);
}

static void break_it(void)
{
    locker_error err;

    assert_ok(locker_break(here->l, "k", NULL, NULL, &err), err);
}

static void nobody_else_gets_it(struct lk_place *place)
{
    locker *other = lk_place_open(place);
    locker_handle *none;
    locker_error err;

    assert_status(LOCKER_BUSY, locker_try_lock(other, "k", NULL, &none, &err), err);
    locker_close(other);
}

static void a_file_that_goes_between_open_and_lock_is_not_used(void **state)
{
    struct lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;

    (void)lk_place_token(place, "k");
    before_lock = remove_it;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_null(before_lock);
    nobody_else_gets_it(place);
    assert_ok(locker_unlock(held, &err), err);
    locker_handle_free(held);
}

/* The holder was broken and has not heard of it: its unlock finds that out, and hands nothing on. */
static void a_broken_lock_is_not_handed_on(void **state)
{
    struct lk_place *place = *state;
    locker *other = lk_place_open(place);
    struct lk_locking waiter;
    locker_handle *held;
    locker_error err;

    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    hear_nothing();
    assert_ok(locker_break(other, "k", NULL, NULL, &err), err);
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    hear_again();
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    nobody_else_gets_it(place);
    locker_handle_free(held);
    locker_handle_free(waiter.held);
    locker_close(other);
}

/* A file that was moved keeps its link: it is the watch that tells, here at the last moment. */
static void a_moved_lock_is_not_handed_on(void **state)
{
    struct lk_place *place = here = *state;
    struct lk_locking waiter;
    locker_handle *held;
    locker_error err;

    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    before_pass = move_it;
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_int_equal(lk_stats(place->l).handed_over, 0);
    nobody_else_gets_it(place);
    locker_handle_free(held);
    locker_handle_free(waiter.held);
}

static void move_all(void)
{
    static int moves;
    char away[100];

    (void)snprintf(away, sizeof away, "%s/away%d", here->base, moves++);
    assert_int_equal(rename(here->locks, away), 0);
}

/* Nobody has read the event by the time of the unlock: it reads it itself. */
static void an_unlock_hears_of_a_move(void **state)
{
    static const struct {
        void (*move)(void);
        locker_status waiter;
    } ways[] = {{move_it, LOCKER_OK}, {move_all, LOCKER_UNAVAILABLE}};
    struct lk_place *place = here = *state;

    for (size_t i = 0; i < 2 * sizeof ways / sizeof *ways; i++) {
        locker *l = lk_place_open(place);
        bool waited = i % 2 != 0;
        struct lk_locking waiter;
        locker_handle *held;
        locker_error err;

        assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
        if (waited) {
            lk_locking_start(&waiter, l, "k", NULL);
            lk_require_waiting(l, 1);
        }
        hear_nothing();
        ways[i / 2].move();
        assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
        hear_again();
        if (waited) {
            assert_status(ways[i / 2].waiter, lk_locking_join(&waiter), waiter.err);
            assert_int_equal(lk_stats(l).handed_over, 0);
            locker_handle_free(waiter.held);
        }
        locker_handle_free(held);
        locker_close(l);
    }
}

/* The holder is stopped and lets go of nothing. */
static void a_waiter_follows_the_name(void **state)
{
    static void (*const takings[])(void) = {move_it, break_it};
    struct lk_place *place = here = *state;

    for (size_t i = 0; i < sizeof takings / sizeof *takings; i++) {
        struct lk_child *holder = lk_puppet_start(place->uri);
        locker *other = lk_place_open(place);
        struct lk_locking waiter;

        assert_int_equal(lk_puppet_lock(holder, "k", -1, 0, true, NULL), LOCKER_OK);
        lk_child_stop(holder);
        lk_locking_start(&waiter, other, "k", NULL);
        lk_require_waiting(other, 1);
        takings[i]();
        assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
        nobody_else_gets_it(place);
        locker_handle_free(waiter.held);
        lk_child_kill(holder);
        locker_close(other);
    }
}

/* The old file is moved away and let go of, and the waiter hears of neither before it tries again. */
static void a_waiter_takes_no_file_that_was_moved(void **state)
{
    struct lk_place *place = here = *state;
    struct lk_child *holder = lk_puppet_start(place->uri);
    struct lk_locking waiter;

    assert_int_equal(lk_puppet_lock(holder, "k", -1, 0, true, NULL), LOCKER_OK);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    lk_child_stop(holder);
    hear_nothing();
    move_it();
    lk_child_kill(holder);
    hear_again();
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    nobody_else_gets_it(place);
    locker_handle_free(waiter.held);
}

int lk_run_races(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_goes_between_open_and_lock_is_not_used, lk_place_setup,
                                        lk_place_teardown),
        cmocka_unit_test_setup_teardown(a_broken_lock_is_not_handed_on, lk_place_setup, lk_place_teardown),
        cmocka_unit_test_setup_teardown(a_moved_lock_is_not_handed_on, lk_place_setup, lk_place_teardown),
        cmocka_unit_test_setup_teardown(an_unlock_hears_of_a_move, lk_place_setup, lk_place_teardown),
        cmocka_unit_test_setup_teardown(a_waiter_follows_the_name, lk_place_setup, lk_place_teardown),
        cmocka_unit_test_setup_teardown(a_waiter_takes_no_file_that_was_moved, lk_place_setup,
                                        lk_place_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
