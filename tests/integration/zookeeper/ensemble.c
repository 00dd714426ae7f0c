/* ensemble.c: three servers on this machine; one of them, or two, go away, and come back. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "zk_tests.h"

static locker *open_ensemble(struct env *env, const char *rest)
{
    char hosts[96];

    lk_zks_hosts(env->members, hosts, sizeof hosts);
    return lk_open_uri("zookeeper://%s%s", hosts, rest);
}

static void note_loss(locker_handle *lost, void *user)
{
    (void)lost;
    atomic_fetch_add((atomic_int *)user, 1);
}

static locker_handle *take_noting_loss(locker *l, const char *key, atomic_int *losses)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = NULL;
    locker_error err;

    options.on_lost = note_loss;
    options.user = losses;
    assert_ok(locker_lock(l, key, &options, &held, &err), err);
    return held;
}

struct renewal {
    locker *l;
    uint64_t seen;
};

static bool has_renewed(void *context)
{
    struct renewal *renewal = context;

    return lk_stats(renewal->l).renewals > renewal->seen;
}

/* Waits until the service has confirmed the locks once more. */
static void require_renewal(locker *l)
{
    struct renewal renewal = {l, lk_stats(l).renewals};

    lk_require(has_renewed, &renewal, "a heartbeat should be confirmed");
}

/* Whatever server the holder is connected to, it keeps its lock when the leader dies. */
static void the_leader_is_killed(void **state)
{
    struct env *env = *state;
    struct lk_zks *leader = lk_zks_leader(env->members);
    struct lk_zks *other = lk_zks_follower(env->members, 0);
    atomic_int losses = 0;
    locker *at_leader, *l = open_ensemble(env, "/shop?ttl=20s");
    locker_handle *held[2];
    struct lk_locking waiter;

    /* the first address that answers is taken, so this one is connected to the leader first */
    at_leader = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=20s", leader->port, other->port);
    held[0] = take_noting_loss(at_leader, "one", &losses);
    held[1] = take_noting_loss(l, "two", &losses);
    lk_locking_start(&waiter, l, "one", NULL);
    lk_require_waiting(l, 1);
    lk_zks_kill(leader);
    lk_zks_leader(env->members);
    require_renewal(at_leader);
    require_renewal(l);
    for (size_t i = 0; i < 2; i++)
        lk_require_state(held[i], LOCKER_STATE_HELD);
    assert_int_equal(losses, 0);
    lk_require_waiting(l, 1);
    lk_give(held[0]);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_give(waiter.held);
    lk_give(held[1]);
    lk_close_locker(l);
    lk_close_locker(at_leader);
}

/* Without a quorum nothing is confirmed: LOST at the deadline, not before and not much later. */
static void the_quorum_is_lost(void **state)
{
    struct env *env = *state;
    locker *l = open_ensemble(env, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "held");
    int64_t lost, remaining, killed;
    locker_error err;
    locker_handle *none = NULL;
    locker_lock_options options = lk_wait_options(300);

    require_renewal(l);
    killed = lk_test_now_ms();
    remaining = locker_handle_remaining_ms(held);
    lk_zks_kill(&env->members[0]);
    lk_zks_kill(&env->members[1]);
    assert_true(locker_handle_state(held) <= LOCKER_STATE_SUSPECT);
    lk_require_state(held, LOCKER_STATE_LOST);
    lost = lk_test_now_ms();
    assert_true(lost >= killed + remaining);
    assert_true(lost - killed < 3000 * 3 / 4 + LK_TEST_SLACK_MS);
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "other", &options, &none, &err), err);
    lk_zks_launch_only(&env->members[0]);
    lk_zks_launch_only(&env->members[1]);
    lk_give(lk_take(l, "held"));
    lk_give_lost(held);
    lk_close_locker(l);
}

/* A follower that lags behind knows neither of the release nor of the next queue: it only answers late. */
static void a_follower_lags(void **state)
{
    struct env *env = *state;
    struct lk_zks *follower = lk_zks_follower(env->members, 0), *other = lk_zks_follower(env->members, 1);
    locker *at_follower = lk_open_at(follower, "/shop?ttl=20s&command_timeout=20s");
    locker *l = lk_open_at(other, "/shop?ttl=20s");
    locker_handle *held = lk_take(l, "lags");
    struct lk_locking waiter;
    struct lk_zkc *client = lk_zkc_open(other);
    uint64_t token = locker_handle_token(held);

    lk_locking_start(&waiter, at_follower, "lags", NULL);
    lk_zkc_require_count(client, "/shop/lags", 2);
    lk_zks_freeze(follower);
    lk_give(held);
    lk_zkc_require_count(client, "/shop/lags", 1); /* the leader and the other follower went on */
    lk_expect_busy(l, "lags");                     /* the waiter's place counts, though it can't know */
    lk_zks_thaw(follower);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(locker_handle_token(waiter.held) > token);
    lk_expect_busy(l, "lags");
    lk_give(waiter.held);
    lk_zkc_close(client);
    lk_close_locker(l);
    lk_close_locker(at_follower);
}

/* The answer to create is lost, and the client goes on at a follower that may not have seen the node yet. */
static void a_create_is_found_through_another_server(void **state)
{
    struct env *env = *state;
    struct lk_zks *leader = lk_zks_leader(env->members), *follower = lk_zks_follower(env->members, 0);
    struct lk_zkc *client = lk_zkc_open(leader);

    env->proxy = lk_zkp_start(leader->port);
    for (int round = 0; round < 5; round++) {
        locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=20s&command_timeout=20s",
                                lk_zkp_port(env->proxy), follower->port);
        locker_handle *held = lk_take(l, "found");

        lk_give(held);
        lk_zkp_harm(env->proxy, LK_ZKP_CUT, LK_ZKP_CREATE2, 1, 0);
        held = lk_take(l, "found");
        lk_zkc_require_count(client, "/shop/found", 1);
        lk_give(held);
        lk_zkc_require_count(client, "/shop/found", 0);
        lk_zkp_harm(env->proxy, LK_ZKP_CUT, 0, 0, 0);
        lk_close_locker(l);
    }
    lk_zkc_close(client);
}

/* One server after another is killed and comes back, while processes count under a lock: each increment is
 * there, tokens grow, and everybody gets on. */
static void a_rolling_restart_under_load(void **state)
{
    enum { PUPPETS = 4, TIMES = 150 };
    struct env *env = *state;
    struct lk_child *puppets[PUPPETS];
    char hosts[96], directory[64], path[96];
    long number = 0;
    FILE *file;

    lk_zks_hosts(env->members, hosts, sizeof hosts);
    lk_private_directory(directory);
    snprintf(path, sizeof path, "%s/number", directory);
    for (size_t i = 0; i < PUPPETS; i++) {
        puppets[i] = lk_env_puppet(env, "zookeeper://%s/shop?ttl=30s&command_timeout=20s", hosts);
        lk_child_say(puppets[i], "count load %s %d", path, TIMES);
    }
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        lk_zks_kill(&env->members[i]);
        lk_zks_leader(env->members);
        lk_zks_launch(&env->members[i], true);
    }
    for (size_t i = 0; i < PUPPETS; i++)
        assert_int_equal(lk_puppet_granted(puppets[i], NULL), LOCKER_OK);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &number), 1);
    fclose(file);
    assert_int_equal(number, PUPPETS * TIMES);
    lk_remove_directory(directory);
}

static const struct CMUnitTest tests[] = {
    ensemble_test(the_leader_is_killed),
    ensemble_test(the_quorum_is_lost),
    ensemble_test(a_follower_lags),
    ensemble_test(a_create_is_found_through_another_server),
    ensemble_test(a_rolling_restart_under_load),
};

const struct lk_group lk_ensemble = {"ensemble", tests, sizeof tests / sizeof tests[0], NULL, NULL};
