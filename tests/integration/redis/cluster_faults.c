/* cluster_faults.c: masters of a Redis Cluster that die, stand still, or hear nothing of the others. */
#include "cluster_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int begin(void **state)
{
    return lk_cluster_begin(state);
}

/* Its nodes find each other down soon. */
static int begin_hasty(void **state)
{
    return lk_cluster_begin_with(state, &(lk_cluster_setup){.timeout_ms = 1500});
}

/* ------------------------------------------------------------------ a master goes ---- */

/* Has a replica of a master take its place, while that one is dead or stands still. (The others vote for that only twice in a
 * minute.) */
static void replace(lk_cluster *cluster, int master)
{
    const int replica = lk_cluster_replica(cluster, master);
    if (replica < 0)
        test_fails("node %d has no replica", master);
    lk_cluster_need(cluster, lk_cluster_fail_over(cluster, replica, "TAKEOVER"));
}

/* What is replicated when the master goes is all of it; without wait_replicas nobody says so but the test. */
static void require_replicated(lk_cluster *cluster, int master)
{
    const int replica = lk_cluster_replica(cluster, master);
    assert_true(replica >= 0);
    lk_require_replicated(&cluster->node[master], &cluster->node[replica]);
}

/* A handle of one key of each share, the last of which stands still, is unlocked. The releases of the others don't wait for that:
 * who waits for their keys has them, elsewhere and here, before there is an answer from the last, which is asked first. */
static void a_release_does_not_wait_for_other_masters(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "ttl=60s&command_timeout=25s");
    locker *other = lk_open_cluster(cluster, 1, "ttl=60s&command_timeout=25s");
    locker_lock_options here = LOCKER_LOCK_OPTIONS_INIT;
    char text[LK_CLUSTER_MASTERS][32];
    const char *keys[LK_CLUSTER_MASTERS];
    locker_handle *all;
    locker_error err;
    lk_locking waits, waits_here;
    lk_unlocking unlocking;
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++)
        keys[share] = lk_key_of_share(cluster, share, 5, text[share]);
    assert_ok(locker_lock_all(l, keys, LK_CLUSTER_MASTERS, NULL, &all, &err), err);
    here.ttl_ms = 50000; /* another lease: nothing is handed over in here */
    lk_locking_start(&waits, other, keys[0], NULL);
    lk_locking_start(&waits_here, l, keys[1], &here);
    lk_require_waiting(other, 1);
    lk_require_waiting(l, 1);
    lk_server *const stands = &cluster->node[lk_node_of(cluster, keys[2])];
    lk_test_freeze(stands);
    lk_unlocking_start(&unlocking, all);
    lk_give(lk_locking_grant(&waits));
    lk_give(lk_locking_grant(&waits_here));
    lk_server_thaw(stands);
    const locker_status status = lk_unlocking_join(&unlocking);
    assert_true(status == LOCKER_OK ||
                status == LOCKER_UNKNOWN); /* by the others it may have been counted out */
    locker_handle_free(all);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Its keys can be locked again, those of others are not touched, and a lock that the replica had is held on. */
static void a_master_that_dies_harms_no_other(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "ttl=20s&command_timeout=3s");
    char key[LK_CLUSTER_MASTERS][32];
    locker_handle *held[LK_CLUSTER_MASTERS];
    uint64_t token = 0;
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++)
        held[share] = lk_take(l, lk_key_of_share(cluster, share, 3, key[share]));
    lk_load *load = lk_load_begin(cluster, "ttl=2s&command_timeout=3s");
    lk_load_require(load, 20, "locks should be taken");
    const int master = lk_node_of(cluster, key[1]);
    require_replicated(cluster, master);
    lk_server_kill(&cluster->node[master]);
    replace(cluster, master);
    lk_load_require(load, 20, "locks should be taken at the new master");
    const lk_load_result result = lk_load_end(load);
    if (result.answers > 0)
        test_fails("%s", result.text);
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++) {
        assert_true(locker_handle_state(held[share]) != LOCKER_STATE_LOST);
        token = locker_handle_token(held[share]);
        lk_give(held[share]);
        held[share] = lk_take(l, key[share]);
        assert_true(locker_handle_token(held[share]) > token);
        lk_give(held[share]);
    }
    lk_close_locker(l);
}

/* With wait_replicas for the only replica, whatever a master has granted or renewed its replica has. The old master that goes
 * on renews nothing, as nobody follows it. */
static void a_lock_has_one_holder_over_failovers(void **state)
{
    lk_cluster *cluster = *state;
    lk_load *load =
        lk_load_begin(cluster, "ttl=1500ms&command_timeout=2s&wait_replicas=1&wait_timeout=500ms&poll=200ms");
    const char *rounds = getenv("LOCKER_TEST_CLUSTER_ROUNDS");
    const int count = rounds != NULL ? atoi(rounds) : 3;
    char key[32];
    for (int i = 0; i < count; i++) {
        const int master = lk_node_of(cluster, lk_key_of_share(cluster, i % 2, 0, key));
        lk_load_require(load, 10, "locks should be taken");
        if (i % 3 == 0)
            lk_server_kill(&cluster->node[master]);
        else
            lk_test_freeze(&cluster->node[master]);
        replace(cluster, master);
        lk_cluster_need(cluster, lk_cluster_heal(cluster));
    }
    lk_load_require(load, 10, "locks should be taken in the end");
    const lk_load_result result = lk_load_end(load);
    print_message("%u cycles, %u lost\n", result.cycles, result.lost);
    if (result.overlaps + result.tokens + result.answers > 0)
        test_fails("%u overlaps, %u tokens, %u answers: %s", result.overlaps, result.tokens, result.answers,
                   result.text);
}

/* Nobody dies: the replica has all that its master had. */
static void a_planned_failover_loses_nothing(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "ttl=10s"),
           *other = lk_open_cluster(cluster, 0, "ttl=60s&poll=500ms"),
           *third = lk_open_cluster(cluster, 0, "");
    char key[32];
    lk_key_of_share(cluster, 0, 5, key);
    locker_handle *held = lk_take(l, key);
    const uint64_t token = locker_handle_token(held);
    lk_locking waiter;
    lk_locking_start(&waiter, other, key, NULL);
    lk_require_waiting(other, 1);
    lk_cluster_need(cluster,
                    lk_cluster_fail_over(cluster, lk_cluster_replica(cluster, lk_node_of(cluster, key)), ""));
    lk_expect_busy(third, key);
    lk_give(held);
    held = lk_locking_grant(&waiter);
    assert_true(locker_handle_token(held) > token);
    lk_give(held);
    lk_close_locker(third);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Nothing was ever asked of it, and the first attempt to reach it goes on for longer than a call. */
static void a_node_that_was_never_reached_has_said_nothing(void **state)
{
    lk_cluster *cluster = *state;
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held = NULL;
    locker_error err;
    char key[32];
    const int master = lk_node_of(cluster, lk_key_of_share(cluster, 0, 6, key));
    locker *l = lk_open_cluster(cluster, (master + 1) % LK_CLUSTER_MASTERS,
                                "command_timeout=200ms&connect_timeout=9s");
    lk_test_freeze(&cluster->node[master]);
    assert_status(LOCKER_UNAVAILABLE, locker_show(l, key, &info, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_break(l, key, NULL, NULL, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, key, NULL, &held, &err), err);
    lk_server_thaw(&cluster->node[master]);
    lk_give_unless_late(lk_take(l, key));
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cluster_test(a_node_that_was_never_reached_has_said_nothing),
    cluster_test(a_planned_failover_loses_nothing),
    cluster_test(a_release_does_not_wait_for_other_masters),
    cluster_test(a_master_that_dies_harms_no_other),
    cluster_test(a_lock_has_one_holder_over_failovers),
};

const lk_group lk_cluster_faults = {"cluster_faults", tests, sizeof tests / sizeof tests[0], begin,
                                    lk_cluster_end};

/* ------------------------------------------------------------------ no majority ---- */

static bool is_down(void *context)
{
    char answer[4096];
    return lk_server_ask(context, "CLUSTER INFO", answer, sizeof answer) &&
           strstr(answer, "cluster_state:fail") != NULL;
}

/* Who stays says that the cluster is down; that is no answer about a lock. */
static void without_a_majority_nothing_is_granted(void **state)
{
    lk_cluster *cluster = *state;
    locker *l = lk_open_cluster(cluster, 0, "ttl=2s&command_timeout=1s&connect_timeout=1s");
    const locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    char key[LK_CLUSTER_MASTERS][32];
    locker_handle *held = NULL;
    lk_locking waiter;
    locker_error err;
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++)
        lk_give(lk_take(l, lk_key_of_share(cluster, share, 7, key[share])));
    const int left = lk_node_of(cluster, key[0]);
    locker_handle *kept = lk_take(l, key[0]);
    for (int share = 1; share < LK_CLUSTER_MASTERS; share++)
        lk_server_kill(&cluster->node[lk_node_of(cluster, key[share])]);
    lk_require(is_down, &cluster->node[left], "the last master should find the cluster down");
    for (int share = 0; share < 2; share++) {
        char other[32];
        lk_key_of_share(cluster, share, 8, other);
        assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, other, NULL, &held, &err), err);
        assert_null(held);
    }
    lk_require_state(kept, LOCKER_STATE_LOST);
    lk_give_lost(kept);
    lk_locking_start(&waiter, l, key[1], &options); /* over the outage */
    lk_cluster_need(cluster, lk_cluster_heal(cluster));
    lk_give(lk_locking_grant(&waiter));
    for (int share = 0; share < LK_CLUSTER_MASTERS; share++)
        lk_give(lk_take(l, key[share]));
    lk_close_locker(l);
}

/* Nobody tells the replica to. */
static void a_failover_is_followed(void **state)
{
    lk_cluster *cluster = *state;
    char key[32];
    locker *l = lk_open_cluster(cluster, 0, "ttl=20s&command_timeout=2s");
    lk_key_of_share(cluster, 0, 9, key);
    const int master = lk_node_of(cluster, key);
    locker_handle *held = lk_take(l, key);
    require_replicated(cluster, master);
    lk_server_kill(&cluster->node[master]);
    lk_cluster_need(cluster, lk_cluster_await(cluster));
    lk_give(held);
    held = lk_take(l, key);
    assert_int_equal(lk_node_number(cluster, lk_node_of(cluster, key), "EXISTS %s", key), 1);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest hasty_tests[] = {
    cluster_test(a_failover_is_followed),
    cluster_test(without_a_majority_nothing_is_granted),
};

const lk_group lk_cluster_down = {"cluster_down", hasty_tests, sizeof hasty_tests / sizeof hasty_tests[0],
                                  begin_hasty, lk_cluster_end};
