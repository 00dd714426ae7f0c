/* processes.c: exclusion among threads and processes, hand-off between processes, after kill -9, tokens. */
#include "kit.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ------------------------------------------------------------------ exclusion ---- */

enum { THREADS = 6, TURNS = 60, PROCESSES = 4 };

/* What threads fight over. */
struct arena {
    const char *key;
    pthread_barrier_t
        start;           /* they begin together, or a fast service has served one before the next begins */
    atomic_int inside;   /* how many are inside; never more than one */
    atomic_int overlaps; /* how often it was more than one */
    atomic_int failures; /* lock or unlock calls that failed */
    atomic_int backward; /* tokens that did not grow */
    atomic_uint done;    /* turns */
    atomic_ullong last_token;
    atomic_int number; /* raised by a read and a write, so that overlapping turns lose one */
};

struct fighter {
    struct arena *arena;
    locker *l;
    pthread_t thread;
};

static void *fight(void *argument)
{
    struct fighter *self = argument;
    struct arena *arena = self->arena;
    pthread_barrier_wait(&arena->start);
    for (int i = 0; i < TURNS; i++, atomic_fetch_add(&arena->done, 1)) {
        locker_handle *held = NULL;

        if (locker_lock(self->l, arena->key, NULL, &held, NULL) != LOCKER_OK) {
            atomic_fetch_add(&arena->failures, 1);
            continue;
        }
        if (atomic_fetch_add(&arena->inside, 1) != 0)
            atomic_fetch_add(&arena->overlaps, 1);
        if (atomic_exchange(&arena->last_token, locker_handle_token(held)) >= locker_handle_token(held))
            atomic_fetch_add(&arena->backward, 1);
        int number = atomic_load_explicit(&arena->number, memory_order_relaxed);
        sched_yield(); /* whoever may come in wrongly has the time to */
        atomic_store_explicit(&arena->number, number + 1, memory_order_relaxed);
        atomic_fetch_sub(&arena->inside, 1);
        if (locker_unlock(held, NULL) != LOCKER_OK)
            atomic_fetch_add(&arena->failures, 1);
        locker_handle_free(held);
    }
    return NULL;
}

static void fight_in(struct arena *arena, locker *const *lockers, int count)
{
    pthread_barrier_init(&arena->start, NULL, THREADS);
    struct fighter fighters[THREADS];
    for (int i = 0; i < THREADS; i++) {
        fighters[i] = (struct fighter){arena, lockers[i % count], 0};
        assert_int_equal(pthread_create(&fighters[i].thread, NULL, fight, &fighters[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        lk_join_worker(fighters[i].thread, &arena->done, "threads that lock and unlock");
    pthread_barrier_destroy(&arena->start);
    assert_int_equal(atomic_load(&arena->failures), 0);
    assert_int_equal(atomic_load(&arena->overlaps), 0);
    assert_int_equal(atomic_load(&arena->backward), 0);
    assert_int_equal(atomic_load(&arena->number), THREADS * TURNS);
}

static void threads_of_one_locker_exclude_each_other(void **state)
{
    locker *l = lk_open_locker(*state, "");
    struct arena arena = {.key = "arena"};
    fight_in(&arena, &l, 1);
    assert_int_equal(lk_stats(l).acquired, THREADS * TURNS);
    assert_int_equal(lk_stats(l).lost, 0);
    lk_close_locker(l);
}

static void threads_of_many_lockers_exclude_each_other(void **state)
{
    locker *lockers[3];
    struct arena arena = {.key = "arenas"};
    for (int i = 0; i < 3; i++)
        lockers[i] = lk_open_locker(*state, "");
    fight_in(&arena, lockers, 3);
    for (int i = 0; i < 3; i++)
        lk_close_locker(lockers[i]);
}

static void processes_exclude_each_other(void **state)
{
    lk_fixture *fixture = *state;
    lk_child *puppets[PROCESSES];
    char text[32] = "";
    needs_processes(fixture);
    char directory[64];
    lk_private_directory(directory);
    char path[96];
    snprintf(path, sizeof path, "%s/number", directory);
    for (int i = 0; i < PROCESSES; i++)
        puppets[i] = lk_start_puppet(fixture, "");
    for (int i = 0; i < PROCESSES; i++)
        lk_child_say(puppets[i], "count number %s %d", path, TURNS);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(lk_puppet_granted(puppets[i], NULL), LOCKER_OK);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(lk_child_end(puppets[i]), 0);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    lk_remove_directory(directory);
    assert_int_equal(atoi(text), PROCESSES * TURNS);
}

/* ------------------------------------------------------------------ hand-off ---- */

static void unlock_hands_over_to_another_process(void **state)
{
    lk_fixture *fixture = *state;
    needs_processes(fixture);
    locker *l = lk_open_locker(fixture, "");
    lk_child *puppet = lk_start_puppet(fixture, "");
    uint64_t token = 0;

    for (int i = 0; i < 5; i++) {
        locker_handle *held = lk_take(l, "to-process", NULL);

        assert_true(locker_handle_token(held) > token);
        token = locker_handle_token(held);
        lk_puppet_wait(puppet, "to-process", -1, 0, true);
        int64_t released = lk_test_now_ms();
        lk_give(held);
        uint64_t next = 0;
        assert_int_equal(lk_puppet_granted(puppet, &next), LOCKER_OK);
        assert_timely(lk_test_now_ms() - released, LK_TEST_SLACK_MS);
        assert_true(next > token);
        token = next;
        lk_locking waiter;
        /* and back */
        lk_locking_start(&waiter, l, "to-process", NULL);
        lk_require_waiting(l, 1);
        assert_int_equal(lk_puppet_unlock(puppet), LOCKER_OK);
        assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
        assert_true(locker_handle_token(waiter.held) > token);
        token = locker_handle_token(waiter.held);
        lk_give(waiter.held);
    }
    assert_int_equal(lk_child_end(puppet), 0);
    lk_close_locker(l);
}

/* Without leases the lock ends with the process; with them, within the lease time. A machine that is busy may
 * be late once; it is not late each time. */
static void kill_9_frees_the_lock(void **state)
{
    lk_fixture *fixture = *state;
    enum { TTL = 2000 };
    int64_t shortest = INT64_MAX;
    needs_processes(fixture);
    locker *l = lk_open_locker(fixture, "");
    for (int i = 0; i < 3; i++) {
        lk_child *puppet = lk_start_puppet(fixture, "ttl=2s");
        uint64_t token = 0;

        assert_int_equal(lk_puppet_lock(puppet, "killed", -1, TTL, true, &token), LOCKER_OK);
        lk_locking waiter;
        lk_locking_start(&waiter, l, "killed", NULL);
        lk_require_waiting(l, 1);
        int64_t killed = lk_test_now_ms();
        lk_child_kill(puppet);
        assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
        int64_t took = waiter.ended_ms - killed;
        shortest = took < shortest ? took : shortest;
        assert_true(locker_handle_token(waiter.held) > token);
        lk_give(waiter.held);
    }
    const int64_t least = fixture->subject->freed_ttl_ms, lease = least > TTL ? least : TTL;
    assert_timely(shortest, (fixture->promises.leases ? lease : 0) + LK_TEST_SLACK_MS);
    lk_close_locker(l);
}

static void a_killed_waiter_leaves_nothing_behind(void **state)
{
    lk_fixture *fixture = *state;
    needs_processes(fixture);
    locker *l = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "killed-waiter", NULL);
    lk_child *puppet = lk_start_puppet(fixture, "ttl=500ms");
    lk_child *next = lk_start_puppet(fixture, "");

    /* A busy service may hear of the release first, and grant to the one that is dead: its lease ends
     * then. */
    lk_puppet_wait(puppet, "killed-waiter", -1, 2000, true);
    lk_puppet_wait(next, "killed-waiter", -1, 0, true);
    lk_child_kill(puppet);
    lk_give(held);
    assert_int_equal(lk_puppet_granted(next, NULL), LOCKER_OK);
    assert_int_equal(lk_puppet_unlock(next), LOCKER_OK);
    assert_int_equal(lk_child_end(next), 0);
    lk_give(lk_take(l, "killed-waiter", NULL));
    lk_close_locker(l);
}

/* The process that waits is stopped in between and takes the lock when it goes on. */
static void a_stopped_waiter_does_not_block_others_for_ever(void **state)
{
    lk_fixture *fixture = *state;
    needs_processes(fixture);
    locker *l = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "stopped", NULL);
    lk_child *puppet = lk_start_puppet(fixture, "ttl=500ms");

    lk_puppet_wait(puppet, "stopped", -1, 400, true);
    lk_child_stop(puppet);
    lk_give(held);
    lk_locking waiter;
    /* with a queue at the service the stopped one may be granted first; its lease ends then */
    lk_locking_start(&waiter, l, "stopped", NULL);
    lk_give(lk_locking_grant(&waiter));
    lk_child_signal(puppet, SIGCONT);
    lk_child_kill(puppet);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ tokens ---- */

static void tokens_grow_over_processes(void **state)
{
    lk_fixture *fixture = *state;
    uint64_t last = 0;
    needs_processes(fixture);
    needs(fixture->promises.tokens_persist);
    for (int i = 0; i < 4; i++) {
        lk_child *puppet = lk_start_puppet(fixture, "");

        for (int j = 0; j < 3; j++) {
            uint64_t token = 0;

            assert_int_equal(lk_puppet_lock(puppet, "tokens", -1, 0, true, &token), LOCKER_OK);
            assert_true(token > last);
            last = token;
        }
        assert_int_equal(lk_child_end(puppet), 0);
    }
}

static void tokens_grow_over_a_restart_of_the_service(void **state)
{
    lk_fixture *fixture = *state;
    uint64_t last = 0;
    needs(fixture->promises.tokens_persist && fixture->subject->restart != NULL);
    for (int i = 0; i < 3; i++) {
        locker *l = lk_open_locker(fixture, "");

        for (int j = 0; j < 20; j++) {
            locker_handle *held = lk_take(l, "restart-tokens", NULL);

            assert_true(locker_handle_token(held) > last);
            last = locker_handle_token(held);
            lk_give(held);
        }
        lk_close_locker(l);
        lk_restart(fixture);
    }
}

static void tokens_grow_without_pause(void **state)
{
    locker *l = lk_open_locker(*state, "");
    uint64_t last = 0;
    for (int i = 0; i < 300; i++) {
        locker_handle *held = lk_take(l, "fast-tokens", NULL);

        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ locks of one process ---- */

/* A lock of one process is no other's: each has its own of that name, which goes with it. */
static void another_process_has_locks_of_its_own(void **state)
{
    lk_fixture *fixture = *state;
    needs(fixture->promises.scope < LOCKER_SCOPE_HOST);
    locker *l = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "private", NULL);

    for (int i = 0; i < 3; i++) {
        lk_child *puppet = lk_start_puppet(fixture, "");

        assert_int_equal(lk_puppet_lock(puppet, "private", 0, 0, true, NULL), LOCKER_OK);
        lk_child_kill(puppet);
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
        lk_expect_busy(l, "private");
    }
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(threads_of_one_locker_exclude_each_other),
    cmocka_unit_test(threads_of_many_lockers_exclude_each_other),
    cmocka_unit_test(processes_exclude_each_other),
    cmocka_unit_test(unlock_hands_over_to_another_process),
    cmocka_unit_test(kill_9_frees_the_lock),
    cmocka_unit_test(a_killed_waiter_leaves_nothing_behind),
    cmocka_unit_test(a_stopped_waiter_does_not_block_others_for_ever),
    cmocka_unit_test(tokens_grow_over_processes),
    cmocka_unit_test(tokens_grow_over_a_restart_of_the_service),
    cmocka_unit_test(tokens_grow_without_pause),
    cmocka_unit_test(another_process_has_locks_of_its_own),
};

const lk_group lk_processes = {"processes", tests, sizeof tests / sizeof tests[0]};
