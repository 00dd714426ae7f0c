/*
 * cut.c: a follower is cut off from the leader while clients stay connected to it. It goes on answering their
 * pings, so a client that trusts its connection believes in its lock for seconds after the leader has given
 * the lock to somebody else. Three servers in network namespaces of their own, on one bridge; packets between
 * two of them are dropped there. Needs root.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zk_tests.h"

/* Names hold a number of this process, so that tests beside this one, or left over, are in nobody's way. */
static struct lk_zks_site sites[LK_ZKS_ENSEMBLE];
static char names[LK_ZKS_ENSEMBLE][24], addresses[LK_ZKS_ENSEMBLE][16], bridge[24], subnet[12];

/* Runs a command of words separated by spaces, and answers its exit code. */
static int command(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int command(const char *format, ...)
{
    char line[256], *words[24], *rest = line;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), status = 0;
    size_t count = 0;
    va_list args;
    pid_t pid;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    while (count < 23 && (words[count] = strtok_r(rest, " ", &rest)) != NULL)
        count++;
    words[count] = NULL;
    pid = lk_child_exec((const char *const *)words, null, 2, 2);
    close(null);
    if (pid < 0)
        test_fails("can't run %s: %s; install iproute2 and iptables", words[0], strerror(errno));
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#define must(...)                                                                                            \
    do {                                                                                                     \
        if (command(__VA_ARGS__) != 0)                                                                       \
            test_fails("this command failed: " __VA_ARGS__);                                                 \
    } while (0)

/* The links go first: a namespace may stay for a while after its name. */
static void tear_down_network(void)
{
    for (int i = 0; bridge[0] != '\0' && i < LK_ZKS_ENSEMBLE; i++) {
        command("ip link delete lkv%s-%d", bridge + strlen("lkbr"), i);
        command("ip netns delete %s", names[i]);
    }
    if (bridge[0] != '\0')
        command("ip link delete %s", bridge);
    bridge[0] = '\0';
}

static void set_up_network(void)
{
    int number = (int)getpid() % 10000;

    if (geteuid() != 0)
        test_fails("%s", "cutting networks needs root: run this test as root");
    snprintf(bridge, sizeof bridge, "lkbr%d", number);
    snprintf(subnet, sizeof subnet, "10.%d.%d", 128 + number / 256, number % 256);
    must("ip link add %s type bridge", bridge);
    must("ip address add %s.254/24 dev %s", subnet, bridge);
    must("ip link set %s up", bridge);
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        snprintf(names[i], sizeof names[i], "lkns%d-%d", number, i);
        snprintf(addresses[i], sizeof addresses[i], "%s.%d", subnet, i + 1);
        sites[i] = (struct lk_zks_site){names[i], addresses[i]};
        must("ip netns add %s", names[i]);
        must("ip link add lkv%d-%d type veth peer name eth0 netns %s", number, i, names[i]);
        must("ip link set lkv%d-%d master %s up", number, i, bridge);
        must("ip -n %s address add %s/24 dev eth0", names[i], addresses[i]);
        must("ip -n %s link set eth0 up", names[i]);
        must("ip -n %s link set lo up", names[i]);
    }
}

static int set_up(void **state)
{
    if (lk_env_empty(state) != 0)
        return -1;
    set_up_network();
    ((struct env *)*state)->members = lk_zks_ensemble_start(100, sites); /* they give up after 20 s */
    return 0;
}

static int tear_down(void **state)
{
    lk_env_end(state);
    tear_down_network();
    return 0;
}

/* Drops (verb "-A") what comes to the member from the other, or lets it pass again ("-D"). */
static void filter(const struct lk_zks *to, const char *verb, const struct lk_zks *from)
{
    must("ip netns exec %s iptables -w %s INPUT -s %s -j DROP", to->netns, verb, from->address);
}

static void cut(const struct lk_zks *one, const struct lk_zks *other, bool both_ways)
{
    filter(one, "-A", other);
    if (both_ways)
        filter(other, "-A", one);
}

/* The rival gets the lock from the leader's side; by then the holder on the other side has given it up. */
static void exclusion_over_a_cut(struct env *env, bool both_ways)
{
    struct lk_zks *leader = lk_zks_leader(env->members), *follower = lk_zks_follower(env->members, 0);
    locker *l = lk_open_at(follower, "/shop?ttl=4s"), *rival = lk_open_at(leader, "/shop?ttl=4s");
    locker_handle *held = lk_take(l, "cut");
    struct lk_locking waiter;
    int64_t began;

    lk_locking_start(&waiter, rival, "cut", NULL);
    lk_require_waiting(rival, 1);
    began = lk_test_now_ms();
    cut(leader, follower, both_ways);
    lk_require_state(held, LOCKER_STATE_LOST);
    /* at the deadline, and before the leader gives the lock away: the waiter still waits */
    assert_true(lk_test_now_ms() - began < 3000 + LK_TEST_SLACK_MS);
    assert_int_equal(lk_stats(rival).waiting, 1);
    assert_true(lk_zks_is(follower, "follower")); /* it still serves, and believes in its leader */
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    filter(leader, "-D", follower);
    if (both_ways)
        filter(follower, "-D", leader);
    assert_int_equal(locker_handle_state(waiter.held), LOCKER_STATE_HELD);
    lk_give_lost(held);
    assert_int_equal(locker_handle_state(waiter.held), LOCKER_STATE_HELD);
    lk_give(waiter.held);
    lk_give(lk_take(l, "cut")); /* the cut-off one comes back by itself */
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_follower_is_cut_off_from_the_leader(void **state)
{
    exclusion_over_a_cut(*state, true);
}

static void a_follower_is_not_heard_by_the_leader(void **state)
{
    exclusion_over_a_cut(*state, false);
}

/* A client of all servers, cut off from the one that it is connected to, goes on at another in time. */
static void a_client_is_cut_off_from_its_server(void **state)
{
    struct env *env = *state;
    char hosts[96], answer[4096];
    struct lk_zks *mine = NULL;
    locker_handle *held;
    locker *l;

    lk_zks_hosts(env->members, hosts, sizeof hosts);
    l = lk_open_uri("zookeeper://%s/shop?ttl=8s", hosts);
    held = lk_take(l, "moves");
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) /* `cons` lists a connection that has a session */
        if (lk_zks_ask(&env->members[i], "cons", answer, sizeof answer) && strstr(answer, "sid=0x") != NULL)
            mine = &env->members[i];
    assert_non_null(mine);
    must("ip netns exec %s iptables -w -A INPUT -s %s.254 -j DROP", mine->netns, subnet);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    lk_require_state(held, LOCKER_STATE_HELD);
    must("ip netns exec %s iptables -w -D INPUT -s %s.254 -j DROP", mine->netns, subnet);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_follower_is_cut_off_from_the_leader, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_follower_is_not_heard_by_the_leader, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_client_is_cut_off_from_its_server, set_up, tear_down),
};

const struct lk_group lk_cut = {"cut", tests, sizeof tests / sizeof tests[0], NULL, NULL};
