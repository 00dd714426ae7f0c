/* cluster_test.c: the Redis Cluster that tests of the Redis driver lean on (servers/cluster.h). */
#include <stdio.h>
#include <string.h>

#include "expect.h"
#include "servers/cluster.h"
#include "test_redis.h"
#ifdef LK_TEST_TLS
#include "test_tls.h"
#endif

static void need(lk_cluster *cluster, bool good)
{
    if (!good)
        test_fails("%s", cluster->error);
}

static int begin(void **state)
{
    static lk_cluster cluster;
    *state = &cluster;
    need(&cluster, lk_cluster_start(&cluster, &(lk_cluster_setup){.timeout_ms = 2000, .few = 300}));
    return 0;
}

static int end(void **state)
{
    lk_cluster_remove(*state);
    return 0;
}

static void expect(lk_cluster *cluster, int node, const char *question, const char *wanted)
{
    char answer[256];
    (void)lk_server_ask(&cluster->node[node], question, answer, sizeof answer);
    assert_string_equal(answer, wanted);
}

/* "foo" is in slot 12182, as Redis' own documents say. */
static void slots_are_those_of_redis(void **state)
{
    lk_cluster *cluster = *state;
    expect(cluster, 0, "CLUSTER KEYSLOT foo", "12182");
    assert_int_equal(lk_cluster_slot("foo"), 12182);
    assert_int_equal(lk_cluster_slot("{foo}:x"), 12182);
    assert_int_equal(lk_cluster_owner(cluster, 12182), 1);
    assert_int_equal(lk_cluster_owner(cluster, LK_CLUSTER_SLOTS - 1), 2);
}

static void a_slot_moves_key_by_key(void **state)
{
    lk_cluster *cluster = *state;
    const lk_move move = {lk_cluster_slot("{b}"), lk_cluster_owner(cluster, lk_cluster_slot("{b}")), 1};
    char asked[64];
    assert_int_equal(move.from, 0);
    expect(cluster, 0, "SET {b}1 x", "OK");
    expect(cluster, 0, "SET {b}2 y", "OK");
    need(cluster, lk_cluster_move_begin(cluster, &move));
    need(cluster, lk_cluster_move_key(cluster, &move, "{b}1"));
    snprintf(asked, sizeof asked, "ASK %u 127.0.0.1:%d", move.slot, cluster->node[1].port);
    expect(cluster, 0, "GET {b}1", asked);
    expect(cluster, 0, "GET {b}2", "y");
    assert_int_equal(lk_cluster_owner(cluster, move.slot), 0);
    need(cluster, lk_cluster_move_end(cluster, &move));
    need(cluster, lk_cluster_await(cluster));
    assert_int_equal(lk_cluster_owner(cluster, move.slot), 1);
    expect(cluster, 1, "GET {b}2", "y");
}

/* ASKING is the next command's alone, and lives no longer than its connection. */
static void a_key_that_is_made_twice_ends_no_move(void **state)
{
    lk_cluster *cluster = *state;
    const lk_move move = {lk_cluster_slot("{b}"), 1, 0};
    char why[128];
    need(cluster, lk_cluster_move_begin(cluster, &move));
    assert_true(lk_server_tell(&cluster->node[0], "ASKING\r\nSET {b}1 y\r\n", 2, why, sizeof why));
    assert_false(lk_cluster_move_end(cluster, &move));
    assert_non_null(strstr(cluster->error, "BUSYKEY"));
    assert_true(lk_server_tell(&cluster->node[0], "ASKING\r\nDEL {b}1\r\n", 2, why, sizeof why));
    need(cluster, lk_cluster_move_end(cluster, &move));
    expect(cluster, 0, "GET {b}1", "x");
}

static void all_slots_of_a_node_move_away_and_back(void **state)
{
    lk_cluster *cluster = *state;
    expect(cluster, 2, "SET x 2", "OK");
    need(cluster, lk_cluster_move_share(cluster, 2, 0));
    expect(cluster, 0, "GET x", "2");
    need(cluster, lk_cluster_move_share(cluster, 2, 2));
    expect(cluster, 2, "GET x", "2");
    assert_int_equal(lk_cluster_owner(cluster, 0), 0);
}

static void a_master_gives_way_and_another_dies(void **state)
{
    lk_cluster *cluster = *state;
    need(cluster, lk_cluster_fail_over(cluster, 4, ""));
    assert_int_equal(lk_cluster_owner(cluster, LK_CLUSTER_SLOTS / 2), 4);
    expect(cluster, 2, "WAIT 1 5000", "1");
    lk_server_kill(&cluster->node[2]);
    need(cluster, lk_cluster_await(cluster));
    assert_int_equal(lk_cluster_owner(cluster, lk_cluster_slot("x")), 5);
    expect(cluster, 5, "GET x", "2");
    assert_int_equal(lk_cluster_replica(cluster, 5), -1);
    need(cluster, lk_cluster_heal(cluster));
    assert_int_equal(lk_cluster_replica(cluster, 5), 2);
}

#ifdef LK_TEST_TLS
static void a_cluster_may_speak_tls(void **state)
{
    static lk_cluster secret;
    lk_server place = {0};
    char why[256];
    (void)state;
    assert_true(lk_scratch_make("tls", place.directory, why, sizeof why));
    lk_test_certificates(&place);
    need(&secret,
         lk_cluster_start(&secret, &(lk_cluster_setup){.timeout_ms = 2000, .certificates = place.directory}));
    char answer[256];
    assert_true(lk_server_ask(&secret.node[0], "CONFIG GET tls-cluster", answer, sizeof answer));
    assert_true(lk_server_ask(&secret.node[0], "CONFIG GET port", answer, sizeof answer));
    assert_non_null(strstr(answer, "\r\n0"));
    lk_cluster_remove(&secret);
    lk_scratch_remove(place.directory);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_redis),
        cmocka_unit_test(a_slot_moves_key_by_key),
        cmocka_unit_test(a_key_that_is_made_twice_ends_no_move),
        cmocka_unit_test(all_slots_of_a_node_move_away_and_back),
        cmocka_unit_test(a_master_gives_way_and_another_dies),
#ifdef LK_TEST_TLS
        cmocka_unit_test(a_cluster_may_speak_tls),
#endif
    };
    return cmocka_run_group_tests_name("cluster", tests, begin, end);
}
