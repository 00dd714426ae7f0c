/*
 * main.c: `conformance BACKEND GROUP [TEST]` runs a group of the suite on a backend, with TEST as a pattern
 * for the tests' names. Also what the groups share.
 */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_backend *const backends[] = {
    &lk_backend_file,
    &lk_backend_memory,
#ifdef LK_TEST_REDIS
    &lk_backend_redis,
#endif
#ifdef LK_TEST_ZOOKEEPER
    &lk_backend_zookeeper,
#endif
};

static const struct lk_group *const groups[] = {&lk_basics,    &lk_waiting, &lk_cancel,
                                                &lk_processes, &lk_leases,  &lk_loss,
                                                &lk_handles,   &lk_fork,    &lk_load};

/* ------------------------------------------------------------------ shared by the groups ---- */

locker *lk_open_locker(struct lk_fixture *fixture, const char *more)
{
    char uri[512];
    locker *l = NULL;
    locker_error err;

    snprintf(uri, sizeof uri, "%s%s", fixture->uri, more);
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    assert_non_null(l);
    return l;
}

void lk_close_locker(locker *l)
{
    assert_int_equal(locker_close(l), LOCKER_OK);
}

locker_handle *lk_take(locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;

    assert_ok(locker_lock(l, key, options, &held, &err), err);
    assert_non_null(held);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    return held;
}

void lk_give(locker_handle *held)
{
    locker_error err;

    assert_ok(locker_unlock(held, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_UNLOCKED);
    locker_handle_free(held);
}

void lk_expect_busy(locker *l, const char *key)
{
    locker_handle *held = NULL;
    locker_error err;

    assert_status(LOCKER_BUSY, locker_try_lock(l, key, NULL, &held, &err), err);
    assert_null(held);
}

locker_lock_options lk_wait_options(int64_t wait_ms)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;

    options.wait_ms = wait_ms;
    return options;
}

locker_lock_options lk_lease_options(int64_t ttl_ms)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;

    options.ttl_ms = ttl_ms;
    options.no_renew = true;
    return options;
}

/* ------------------------------------------------------------------ running ---- */

static struct lk_fixture fixture;
size_t lk_skipped;

static int set_up(void **state)
{
    const locker_semantics *promises;
    locker *l;

    fixture.service = fixture.backend->start();
    fixture.backend->uri(fixture.service, fixture.uri, sizeof fixture.uri);
    l = lk_open_locker(&fixture, "");
    promises = locker_get_semantics(l);
    fixture.promises = (locker_semantics){.scope = promises->scope,
                                          .fairness = promises->fairness,
                                          .leases = promises->leases,
                                          .tokens_persist = promises->tokens_persist,
                                          .survives_restart = promises->survives_restart,
                                          .can_break = promises->can_break,
                                          .quorum = promises->quorum};
    lk_close_locker(l);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture.backend->stop(fixture.service);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: conformance BACKEND GROUP [TEST]\nbackends:");
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        fprintf(stderr, " %s", backends[i]->name);
    fprintf(stderr, "\ngroups:");
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        fprintf(stderr, " %s", groups[i]->name);
    fputc('\n', stderr);
    return 64;
}

int main(int argc, char **argv)
{
    static const struct lk_role roles[] = {LK_PUPPET_ROLE, {NULL, NULL}};
    const struct lk_group *group = NULL;
    int failed;

    lk_child_main(argc, argv, roles);
    if (argc < 3)
        return usage();
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (strcmp(backends[i]->name, argv[1]) == 0)
            fixture.backend = backends[i];
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (strcmp(groups[i]->name, argv[2]) == 0)
            group = groups[i];
    if (fixture.backend == NULL || group == NULL)
        return usage();
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    failed = _cmocka_run_group_tests(group->name, group->tests, group->count, set_up, tear_down);
    return failed == 0 && lk_skipped == group->count ? 1 : failed;
}
