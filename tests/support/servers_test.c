/* servers_test.c: what servers are started by, and the second clients that tests of the ZooKeeper driver
 * and of the etcd driver lean on. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etcdctl.h"
#include "groups.h"
#include "servers/process.h"
#include "zkclient.h"

static bool is_gone(void *path)
{
    return access(path, F_OK) < 0;
}

/* The first to use a scratch directory is a child, which is killed. */
static void a_directory_goes_with_its_program(void **state)
{
    char path[LK_SCRATCH_PATH] = "", why[256];
    int told[2];
    pid_t child;
    (void)state;
    assert_int_equal(pipe(told), 0);
    child = fork();
    if (child == 0) {
        if (lk_scratch_make("gone", path, why, sizeof why) && write(told[1], path, sizeof path) > 0)
            pause();
        _exit(1);
    }
    assert_int_equal(read(told[0], path, sizeof path), sizeof path);
    assert_false(is_gone(path));
    lk_process_kill(child);
    lk_require(is_gone, path, "the directory should go");
    close(told[0]);
    close(told[1]);
}

/* To kill(), 0 is all of us. */
static void freezing_process_0_freezes_nothing(void **state)
{
    const pid_t child = fork();
    int status = 0;
    (void)state;
    if (child == 0) {
        setpgid(0, 0);
        _exit(lk_process_freeze(0) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    lk_process_kill(WIFSTOPPED(status) ? child : 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_server_that_does_not_start_says_why(void **state)
{
    static const char *const options[] = {"-XX:+NoSuchOption", NULL};
    lk_server server;
    char log[4096];
    (void)state;
    assert_true(lk_server_start(&server, &lk_server_zookeeper, &(lk_server_setup){.options = options}));
    assert_false(lk_server_await(&server));
    assert_non_null(strstr(server.error, "ended instead of serving"));
    lk_server_log(&server, log, sizeof log);
    assert_non_null(strstr(log, "NoSuchOption"));
    lk_server_remove(&server);
}

static lk_server
    *zk; /* of the tests that use one server; NULL: none has begun. A Java machine takes seconds to start. */

static void start_zookeeper(void)
{
    if (zk == NULL)
        zk = lk_test_zookeeper(LK_LOGIN_NONE);
}

static int stop_zookeeper(void **state)
{
    (void)state;
    if (zk != NULL)
        lk_test_free(zk);
    return 0;
}

static void a_server_keeps_or_loses_its_data(void **state)
{
    start_zookeeper();
    lk_zkc *client = lk_zkc_open(zk);
    char data[32];
    (void)state;
    assert_int_equal(lk_zkc_create(client, "/kept", "text", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    lk_server_kill(zk);
    lk_test_launch(zk, true);
    lk_zkc_drop(client);
    client = lk_zkc_open(zk);
    assert_int_equal(lk_zkc_get(client, "/kept", data, sizeof data, NULL), LK_ZKC_OK);
    assert_string_equal(data, "text");
    lk_zkc_drop(client);
    lk_server_kill(zk);
    lk_test_launch(zk, false);
    client = lk_zkc_open(zk);
    assert_int_equal(lk_zkc_get(client, "/kept", NULL, 0, NULL), LK_ZKC_NONODE);
    lk_zkc_close(client);
}

static void a_session_is_ended_by_its_id(void **state)
{
    start_zookeeper();
    lk_zkc *victim = lk_zkc_open(zk), *other = lk_zkc_open(zk);
    lk_zkc_stat stat;
    char path[LK_ZKC_NAME_MAX];
    (void)state;
    assert_int_equal(lk_zkc_create(victim, "/parent", "", LK_ZKC_CONTAINER, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(victim, "/parent/a-", "", LK_ZKC_EPHEMERAL_SEQUENTIAL, path), LK_ZKC_OK);
    assert_string_equal(path, "/parent/a-0000000000");
    assert_int_equal(lk_zkc_get(other, path, NULL, 0, &stat), LK_ZKC_OK);
    assert_true(stat.session != 0);
    assert_int_equal(lk_zkc_count(other, "/parent"), 1);
    lk_zkc_end_session(zk, stat.session);
    assert_int_equal(lk_zkc_get(other, path, NULL, 0, NULL), LK_ZKC_NONODE);
    lk_zkc_drop(victim);
    lk_zkc_close(other);
}

static void an_ensemble_survives_its_leader(void **state)
{
    lk_server *members = lk_test_ensemble(0, 0, NULL), *leader = lk_test_leader(members);
    lk_zkc *client = lk_zkc_open(lk_test_follower(members, 1));
    (void)state;
    assert_int_equal(lk_zkc_create(client, "/kept", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    lk_zkc_close(client);
    lk_server_kill(leader);
    assert_ptr_not_equal(lk_test_leader(members), leader);
    lk_test_launch(leader, true);
    client = lk_zkc_open(leader);
    assert_int_equal(lk_zkc_get(client, "/kept", NULL, 0, NULL), LK_ZKC_OK);
    lk_zkc_close(client);
    lk_test_ensemble_free(members);
}

/* ------------------------------------------------------------------ etcd ---- */

static void an_etcd_server_keeps_or_loses_its_data(void **state)
{
    lk_server *etcd = lk_test_etcd(NULL);
    char version[64];
    (void)state;
    lk_server_version(etcd, version, sizeof version);
    assert_memory_equal(version, "etcd 3.", strlen("etcd 3."));
    lk_etcdctl_do(etcd, "put kept text");
    lk_server_kill(etcd);
    lk_test_launch(etcd, true);
    assert_int_equal(lk_etcdctl_count(etcd, "kept"), 1);
    lk_test_freeze(etcd);
    assert_false(lk_server_ask(etcd, "/version", version, sizeof version));
    lk_server_thaw(etcd);
    lk_etcdctl_do(etcd, "put more text");
    lk_server_kill(etcd);
    lk_test_launch(etcd, false);
    assert_int_equal(lk_etcdctl_count(etcd, ""), 0);
    lk_test_free(etcd);
}

static void etcdctl_locks_and_a_lease_is_revoked(void **state)
{
    lk_server *etcd = lk_test_etcd(NULL);
    lk_child *first = lk_etcdctl_lock(etcd, "shop", 60), *second;
    const int64_t create = lk_etcdctl_locked(etcd, first);
    (void)state;
    assert_int_equal(lk_etcdctl_nth(etcd, "shop/", 0).create, create);
    second = lk_etcdctl_lock(etcd, "shop", 60);
    lk_etcdctl_require_count(etcd, "shop/", 2);
    lk_etcdctl_unlock(first);
    assert_true(lk_etcdctl_locked(etcd, second) > create);
    lk_etcdctl_revoke(etcd, lk_etcdctl_nth(etcd, "shop/", 0).lease);
    assert_int_equal(lk_etcdctl_count(etcd, "shop/"), 0);
    lk_child_kill(second);
    lk_test_free(etcd);
}

static void three_etcd_servers_survive_their_leader(void **state)
{
    lk_server *members = lk_test_etcd_ensemble(NULL, NULL), *leader = lk_test_leader(members);
    (void)state;
    lk_etcdctl_do(lk_test_follower(members, 1), "put kept text");
    lk_server_kill(leader);
    assert_ptr_not_equal(lk_test_leader(members), leader);
    lk_test_ensemble_heal(members);
    assert_int_equal(lk_etcdctl_count(leader, "kept"), 1);
    leader = lk_test_leader(members);
    lk_test_freeze(leader);
    assert_ptr_not_equal(lk_test_leader(members), leader);
    lk_test_ensemble_heal(members);
    assert_int_equal(lk_etcdctl_count(leader, "kept"), 1);
    lk_test_ensemble_free(members);
}

static const struct CMUnitTest zookeeper_tests[] = {
    cmocka_unit_test(a_directory_goes_with_its_program), /* before there is one of ours */
    cmocka_unit_test(freezing_process_0_freezes_nothing),
    cmocka_unit_test(a_server_that_does_not_start_says_why),
    cmocka_unit_test(a_server_keeps_or_loses_its_data),
    cmocka_unit_test(a_session_is_ended_by_its_id),
    cmocka_unit_test(an_ensemble_survives_its_leader),
};

static const struct CMUnitTest etcd_tests[] = {
    cmocka_unit_test(an_etcd_server_keeps_or_loses_its_data),
    cmocka_unit_test(etcdctl_locks_and_a_lease_is_revoked),
    cmocka_unit_test(three_etcd_servers_survive_their_leader),
};

static const lk_group zookeeper_group = {
    "zookeeper", zookeeper_tests, sizeof zookeeper_tests / sizeof zookeeper_tests[0], NULL, stop_zookeeper};
static const lk_group etcd_group = {"etcd", etcd_tests, sizeof etcd_tests / sizeof etcd_tests[0], NULL, NULL};

int main(int argc, char **argv)
{
    static const lk_role roles[] = {{NULL, NULL}};
    static const lk_group *const groups[] = {&zookeeper_group, &etcd_group, NULL};
    return lk_run_group(argc, argv, groups, roles);
}
