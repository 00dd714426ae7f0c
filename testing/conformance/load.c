/* load.c: many keys at once, many waiters on one key. */
#include "kit.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 1000, WAITERS = 200 };

static void thousand_keys_at_once(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle **held = calloc(KEYS, sizeof *held);
    locker_error err;
    assert_non_null(held);
    for (int i = 0; i < KEYS; i++) {
        char key[32];

        snprintf(key, sizeof key, "keys/%d", i);
        assert_ok(locker_try_lock(l, key, NULL, &held[i], &err), err);
    }
    assert_int_equal(lk_stats(l).held, KEYS);
    lk_expect_busy(rival, "keys/0");
    lk_expect_busy(rival, "keys/999");
    for (int i = 0; i < KEYS; i++)
        lk_give(held[i]);
    assert_int_equal(lk_stats(l).held, 0);
    lk_give(lk_take(rival, "keys/500", NULL));
    free(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Passes its turn on at once. */
struct turn {
    locker *l;
    atomic_int *inside, *overlaps, *served;
    pthread_t thread;
};

static void *take_a_turn(void *argument)
{
    struct turn *turn = argument;
    locker_handle *held = NULL;
    if (locker_lock(turn->l, "crowded", NULL, &held, NULL) != LOCKER_OK)
        return NULL;
    if (atomic_fetch_add(turn->inside, 1) != 0)
        atomic_fetch_add(turn->overlaps, 1);
    atomic_fetch_add(turn->served, 1);
    atomic_fetch_sub(turn->inside, 1);
    locker_handle_free(held);
    return NULL;
}

/* Of all that wait in one locker, one asks the service; the others wait behind it. */
static void two_hundred_wait_and_one_asks(void **state)
{
    lk_fixture *fixture = *state;
    locker *holder = lk_open_locker(fixture, ""), *l = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(holder, "crowded", NULL);
    struct turn *turns = calloc(WAITERS, sizeof *turns);
    const int64_t began = lk_test_now_ms();
    atomic_int inside = 0, overlaps = 0, served = 0;
    assert_non_null(turns);
    for (int i = 0; i < WAITERS; i++) {
        turns[i] = (struct turn){l, &inside, &overlaps, &served, 0};
        assert_int_equal(pthread_create(&turns[i].thread, NULL, take_a_turn, &turns[i]), 0);
    }
    lk_require_waiting(l, WAITERS);
    locker_statistics stats = lk_stats(l);
    /* one contender asks: at first, after enrolling, and as often as the driver says that it polls */
    if (fixture->promises.fairness == LOCKER_FAIR_LOCAL)
        assert_true(stats.attempts < 50 + lk_polls(fixture, began));
    lk_give(held);
    for (int i = 0; i < WAITERS; i++)
        lk_join(turns[i].thread, "one of 200 threads that wait");
    assert_int_equal(atomic_load(&overlaps), 0);
    assert_int_equal(atomic_load(&served), WAITERS);
    stats = lk_stats(l);
    assert_int_equal(stats.acquired, WAITERS);
    assert_int_equal(stats.released, WAITERS);
    /* no herd: an attempt or two for each grant, not one for each waiter and grant */
    assert_unless_late(stats.attempts < 3 * WAITERS + 50 + lk_polls(fixture, began));
    free(turns);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* Keys that nobody uses any more cost nothing that would grow; they are all free again. */
static void many_keys_come_and_go(void **state)
{
    locker *l = lk_open_locker(*state, "");
    for (int i = 0; i < 2000; i++) {
        char key[32];

        snprintf(key, sizeof key, "passing/%d", i % 500);
        locker_handle_free(lk_take(l, key, NULL));
    }
    assert_int_equal(lk_stats(l).released, 2000);
    lk_close_locker(l);
}

/* How many descriptors this process has open. */
static int descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static bool are_at_most(void *count)
{
    return descriptors() <= *(const int *)count;
}

/* Locks of a host are the kernel's, by a descriptor each; others share what their locker has, which may
 * connect once more to hear of what it holds for longer. A driver may have some more for a moment, to tidy up. */
static void a_held_lock_costs_at_most_a_descriptor(void **state)
{
    enum { COUNT = 50, SHARED = 2 };
    lk_fixture *fixture = *state;
    locker *l = lk_open_locker(fixture, "");
    lk_give(lk_take(l, "descriptors", NULL));
    const int before = descriptors();
    locker_handle *held[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char key[32];

        snprintf(key, sizeof key, "descriptors/%d", i);
        held[i] = lk_take(l, key, NULL);
    }
    int most = before + (fixture->promises.scope == LOCKER_SCOPE_HOST ? COUNT : SHARED);
    lk_require(are_at_most, &most, "a held lock should need at most one descriptor");
    for (int i = 0; i < COUNT; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(thousand_keys_at_once),
    cmocka_unit_test(two_hundred_wait_and_one_asks),
    cmocka_unit_test(many_keys_come_and_go),
    cmocka_unit_test(a_held_lock_costs_at_most_a_descriptor),
};

const lk_group lk_load = {"load", tests, sizeof tests / sizeof tests[0]};
