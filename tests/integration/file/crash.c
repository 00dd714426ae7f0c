/* crash.c: several processes, killed holders, and forked children that keep copies of descriptors. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file_test.h"
#include "holding.h"
#include "locking.h"
#include "puppet.h"

static void processes_count_together(void **state)
{
    enum { PROCESSES = 4, SLICES = 10, TIMES = 100 };
    lk_place *place = *state;
    lk_child *puppet[PROCESSES];
    char file[100];
    snprintf(file, sizeof(file), "%s/number", place->base);
    for (int i = 0; i < PROCESSES; i++)
        puppet[i] = lk_puppet_start(place->uri);
    for (int slice = 0; slice < SLICES; slice++) { /* each child has LK_TEST_PATIENCE_MS for an answer */
        for (int i = 0; i < PROCESSES; i++)
            lk_child_say(puppet[i], "count k %s %d", file, TIMES);
        for (int i = 0; i < PROCESSES; i++)
            assert_int_equal(lk_puppet_granted(puppet[i], NULL), LOCKER_OK);
    }
    for (int i = 0; i < PROCESSES; i++)
        lk_child_end(puppet[i]);
    FILE *f = fopen(file, "re");
    int number = 0;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &number), 1);
    fclose(f);
    assert_int_equal(number, PROCESSES * SLICES * TIMES);
}

static void a_killed_holder_frees_at_once(void **state)
{
    lk_place *place = *state;
    int64_t worst = 0;
    for (int i = 0; i < 50; i++) {
        lk_child *puppet = lk_puppet_start(place->uri);
        lk_locking waiter = {0};
        uint64_t token;
        assert_int_equal(lk_puppet_lock(puppet, "k", -1, 0, true, &token), LOCKER_OK);
        lk_locking_start(&waiter, place->l, "k", NULL);
        lk_require_waiting(place->l, 1);
        lk_child_kill(puppet);
        int64_t from = lk_test_now_ms(); /* it is dead: how long the system takes to end it is not ours */
        assert_int_equal(lk_locking_join(&waiter), LOCKER_OK);
        int64_t took = lk_test_now_ms() - from;
        worst = took > worst ? took : worst;
        assert_true(locker_handle_token(waiter.held) > token);
        lk_give(waiter.held);
    }
    print_message("the slowest of 50 took %lld ms\n", (long long)worst);
    assert_timely(worst, LK_TEST_SLACK_MS);
}

/* The number of the open file whose target says what it is, or -1. */
static int descriptor_of(const char *what)
{
    int found = -1;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;) {
        char name[300], target[300] = "";
        (void)snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        if (readlink(name, target, sizeof target - 1) > 0 && strstr(target, what) != NULL)
            found = atoi(entry->d_name);
    }
    (void)closedir(all);
    return found;
}

/* The kernel ends a dead process's descriptors from the highest down, and waits for others in inotify's end. */
static void a_dead_holders_lock_goes_before_its_inotify(void **state)
{
    lk_place *place = *state;
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_in_range(descriptor_of("inotify"), 0, descriptor_of("/k.lock"));
    lk_give(held);
}

/* Tries of others must not keep a waiter busy. */
static void tries_do_not_wake_a_waiter(void **state)
{
    lk_place *place = *state;
    locker *holder = lk_place_open(place), *trier = lk_place_open(place);
    lk_locking waiter = {0};
    locker_error err;
    locker_handle *held, *none;
    assert_ok(locker_lock(holder, "k", NULL, &held, &err), err);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    for (int i = 0; i < 1000; i++)
        assert_status(LOCKER_BUSY, locker_try_lock(trier, "k", NULL, &none, &err), err);
    assert_true(lk_stats(place->l).attempts < 50);
    locker_handle_free(held);
    assert_int_equal(lk_locking_join(&waiter), LOCKER_OK);
    locker_handle_free(waiter.held);
    locker_close(holder);
    locker_close(trier);
}

static bool rests(void *l)
{
    enum { REPETITIONS = 4 }; /* after 1, 5, 25 and 125 ms */
    return lk_stats(l).attempts > REPETITIONS && lk_stats(l).waiting == 1;
}

/* A fork's child that lives on with copies of all descriptors: unlocking wakes a waiter all the same, also
 * one that waits for events alone by then. */
static void unlock_works_beside_a_forked_child(void **state)
{
    lk_place *place = *state;
    lk_locking waiter;
    locker_error err;
    locker_handle *held;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    const pid_t child = lk_fork_idle();
    locker *other = lk_place_open(place);
    lk_locking_start(&waiter, other, "k", NULL);
    lk_require(rests, other, "the waiter's repetitions are over");
    assert_ok(locker_unlock(held, &err), err);
    int64_t from = lk_test_now_ms();
    locker_status granted = lk_locking_join(&waiter);
    int64_t took = waiter.ended_ms - from;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    locker_handle_free(held);
    locker_handle_free(waiter.held);
    locker_close(other);
    assert_int_equal(granted, LOCKER_OK);
    assert_timely(took, LK_TEST_SLACK_MS);
}

/* forker URI: holds "k", and has a child that has closed the locker and lives until its input ends. */
int lk_forker_play(int argc, char **argv)
{
    locker *l;
    locker_error err;
    locker_handle *held;
    char line[LK_LINE_MAX];
    if (argc < 1 || locker_open(argv[0], NULL, &l, &err) != LOCKER_OK ||
        locker_lock(l, "k", NULL, &held, &err) != LOCKER_OK)
        return 1;
    if (fork() == 0) {
        locker_close(l);
        lk_side_say("closed");
        while (lk_side_hear(line))
            ;
        _exit(
            0); /* a fork of a process with threads: a sanitizer's work at exit could wait for one for ever */
    }
    for (;;)
        pause();
}

static void a_child_that_closed_keeps_nothing(void **state)
{
    lk_place *place = *state;
    lk_child *forker = lk_child_start("forker", (const char *[]){place->uri, NULL});
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    locker_handle *held = NULL;
    lk_child_expect(forker, "closed");
    assert_status(LOCKER_BUSY, locker_try_lock(place->l, "k", NULL, &held, &err), err);
    kill(forker->pid, SIGKILL);
    options.wait_ms = LK_TEST_PATIENCE_MS;
    assert_ok(locker_lock(place->l, "k", &options, &held, &err), err);
    locker_handle_free(held);
    lk_child_kill(forker); /* its input ends, and so does the child */
}

static locker *ghosts_locker;
static locker_lock_options ghosts_options = LOCKER_LOCK_OPTIONS_INIT;

static void *wait_as_ghost(void *unused)
{
    locker_handle *held;
    locker_error err;
    (void)unused;
    return locker_lock(ghosts_locker, "k", &ghosts_options, &held, &err) == LOCKER_OK ? ghosts_locker : NULL;
}

/* ghost URI PERMITS: waits for "k", and has a child that does nothing until its input ends. */
int lk_ghost_play(int argc, char **argv)
{
    locker_error err;
    char line[LK_LINE_MAX];
    pthread_t waiter;
    if (argc < 2 || locker_open(argv[0], NULL, &ghosts_locker, &err) != LOCKER_OK)
        return 1;
    ghosts_options.permits = atoi(argv[1]);
    if (pthread_create(&waiter, NULL, wait_as_ghost, NULL) != 0)
        return 2;
    lk_side_say("waits");
    (void)lk_side_hear(line);
    if (fork() == 0) {
        lk_side_say("lives");
        while (lk_side_hear(line))
            ;
        _exit(0);
    }
    for (;;)
        pause();
}

static bool somebody_waits(void *l)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const bool waits = locker_show(l, "k", &info, &err) == LOCKER_OK && info.waiters == 1;
    locker_info_clear(&info);
    return waits;
}

/* The child of a waiter that died lives on. Neither a try nor another waiter may see a waiter. */
static void the_child_of_a_dead_waiter_is_no_waiter(void **state)
{
    lk_place *place = *state;
    for (int permits = 0; permits < 2; permits++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        locker_info info = LOCKER_INFO_INIT;
        locker_handle *held;
        locker_error err;
        lk_locking next;
        options.permits = permits;
        assert_ok(locker_lock(place->l, "k", &options, &held, &err), err);
        lk_child *ghost =
            lk_child_start("ghost", (const char *[]){place->uri, permits == 0 ? "0" : "1", NULL});
        lk_child_expect(ghost, "waits");
        lk_require(somebody_waits, place->l, "the ghost waits");
        lk_child_say(ghost, "fork");
        lk_child_expect(ghost, "lives");
        kill(ghost->pid, SIGKILL);
        assert_int_equal(waitid(P_PID, (id_t)ghost->pid, NULL, WEXITED | WNOWAIT), 0); /* it is dead */
        lk_give(held);
        for (int i = 0; i < 5; i++) {
            assert_ok(locker_try_lock(place->l, "k", &options, &held, &err), err);
            lk_locking_start(&next, place->l, "k", &options);
            lk_give(held);
            lk_give(lk_locking_grant(&next));
        }
        /* Nobody is left who fixes the number of permits. */
        assert_ok(locker_try_lock(place->l, "k", NULL, &held, &err), err);
        lk_give(held);
        assert_ok(locker_show(place->l, "k", &info, &err), err);
        assert_int_equal(info.waiters, 0);
        locker_info_clear(&info);
        lk_child_kill(ghost); /* its input ends, and so does the child */
    }
}

static const struct CMUnitTest tests[] = {
    place_test(processes_count_together),
    place_test(a_killed_holder_frees_at_once),
    place_test(a_dead_holders_lock_goes_before_its_inotify),
    place_test(tries_do_not_wake_a_waiter),
    place_test(unlock_works_beside_a_forked_child),
    place_test(a_child_that_closed_keeps_nothing),
    place_test(the_child_of_a_dead_waiter_is_no_waiter),
};

const lk_group lk_crash = {"crash", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
