/* fork.c: a fork's child can release nothing of its parent's, and its copies are inert. */
#include "kit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Which check failed in the child, as its exit code. Asserts would run in a copy of the test. */
static int check_in_child(locker *l, locker_handle *held)
{
    locker_handle *other = NULL;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    if (locker_unlock(held, &err) != LOCKER_FORKED)
        return 1;
    if (err.status != LOCKER_FORKED || err.text[0] == '\0')
        return 2;
    if (locker_try_lock(l, "in-child", NULL, &other, &err) != LOCKER_FORKED || other != NULL)
        return 3;
    if (locker_show(l, "in-child", &info, &err) != LOCKER_FORKED)
        return 4;
    locker_handle_free(held);
    locker_close(l);
    return 0;
}

static int end_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_child_releases_nothing(void **state)
{
    locker *l = lk_open_locker(*state, "ttl=2s"), *rival = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "forked", NULL);
    for (int i = 0; i < 30; i++) {
        const pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            _exit(check_in_child(l, held));
        assert_int_equal(end_of(child), 0);
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
        lk_expect_busy(rival, "forked");
    }
    lk_give(held);
    lk_give(lk_take(rival, "forked", NULL));
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* The parent unlocks while a child, which has copies of every descriptor, is still there. */
static void the_parent_unlocks_while_the_child_lives(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "lives", NULL);
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(gate[1]);
        char byte;
        _exit(read(gate[0], &byte, 1) == 0 ? 0 : 1); /* until the parent closes its end */
    }
    close(gate[0]);
    lk_give(held);
    locker_lock_options options = lk_wait_options(5000);
    lk_give(lk_take(rival, "lives", &options));
    held = lk_take(l, "lives", NULL);
    lk_give(held);
    close(gate[1]);
    assert_int_equal(end_of(child), 0);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Other threads lock and unlock at the moment of the fork; the child must not hang on their locks. */
struct busy {
    locker *l;
    atomic_bool ended;
};

static void *keep_busy(void *argument)
{
    struct busy *busy = argument;
    while (!atomic_load(&busy->ended)) {
        locker_handle *held = NULL;

        if (locker_lock(busy->l, "busy", NULL, &held, NULL) != LOCKER_OK)
            break;
        locker_handle_free(held);
    }
    return NULL;
}

static void forking_amid_activity(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "amid", NULL);
    struct busy busy = {.l = l};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, &busy), 0);
    for (int i = 0; i < 30; i++) {
        const pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            alarm(LK_TEST_PATIENCE_MS / 1000); /* a hang ends by SIGALRM, and is seen */
            _exit(check_in_child(l, held));
        }
        assert_int_equal(end_of(child), 0);
    }
    atomic_store(&busy.ended, true);
    for (int i = 0; i < 3; i++)
        lk_join(threads[i], "a thread that locks while another thread forks");
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_child_releases_nothing),
    cmocka_unit_test(the_parent_unlocks_while_the_child_lives),
    cmocka_unit_test(forking_amid_activity),
};

const lk_group lk_fork = {"fork", tests, sizeof tests / sizeof tests[0]};
