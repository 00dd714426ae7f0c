/*
 * cut.c: a follower is cut off from the leader while clients stay connected to it. It goes on answering their
 * pings, so a client that trusts its connection believes in its lock for seconds after the leader has given
 * the lock to somebody else. Three servers in network namespaces of their own, on one bridge in another one,
 * where the test's own process goes; packets between two of them are dropped there. All of it ends with the
 * process.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zk_tests.h"

enum { HERE = -1, SESSION_MS = 4000, SYNC_TICKS = 100 }; /* members give each other up after 20 s */

#define SUBNET "10.77.0"

static struct lk_zks_site sites[LK_ZKS_ENSEMBLE];

/* ------------------------------------------------------------------ the network ---- */

/* Runs a command of words separated by spaces in a namespace, and answers its exit code. */
static int command(int netns, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int command(int netns, const char *format, ...)
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
    pid = lk_child_exec_in(netns, (const char *const *)words, null, 2, 2);
    close(null);
    if (pid < 0)
        test_fails("can't run %s: %s; install iproute2 and iptables", words[0], strerror(errno));
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#define must(netns, ...)                                                                                     \
    do {                                                                                                     \
        if (command((netns), __VA_ARGS__) != 0)                                                              \
            test_fails("this command failed: " __VA_ARGS__);                                                 \
    } while (0)

static void write_file(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write_file(const char *path, const char *format, ...)
{
    FILE *file = fopen(path, "we");
    va_list args;

    va_start(args, format);
    if (file == NULL || vfprintf(file, format, args) < 0 || fclose(file) != 0)
        test_fails("can't write %s: %s", path, strerror(errno));
    va_end(args);
}

/* Goes to a network namespace of our own; who isn't root becomes it in a user namespace of his own. */
static void leave_the_host(void)
{
    unsigned user = geteuid(), group = getegid();

    if (unshare(CLONE_NEWNET | (user != 0 ? CLONE_NEWUSER : 0)) < 0)
        test_fails(
            "can't make a network namespace to cut: %s; run this test as root, or allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces)",
            strerror(errno));
    if (user == 0)
        return;
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 %u 1", user);
    write_file("/proc/self/gid_map", "0 %u 1", group);
}

/* A namespace lasts as long as a descriptor or a process in it. */
static int make_namespace(void)
{
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), made = -1;

    if (home >= 0 && unshare(CLONE_NEWNET) == 0)
        made = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (made < 0 || setns(home, CLONE_NEWNET) < 0)
        test_fails("can't make a network namespace: %s", strerror(errno));
    close(home);
    return made;
}

static int set_up_group(void **state)
{
    (void)state;
    leave_the_host();
    must(HERE, "ip link set lo up");
    must(HERE, "ip link add bridge0 type bridge");
    must(HERE, "ip address add " SUBNET ".254/24 dev bridge0");
    must(HERE, "ip link set bridge0 up");
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++) {
        int there = make_namespace();

        sites[i].netns = there;
        snprintf(sites[i].address, sizeof sites[i].address, SUBNET ".%d", i + 1);
        must(HERE, "ip link add cable%d type veth peer name eth0 netns /proc/%d/fd/%d", i, (int)getpid(),
             there);
        must(HERE, "ip link set cable%d master bridge0 up", i);
        must(there, "ip address add %s/24 dev eth0", sites[i].address);
        must(there, "ip link set eth0 up");
        must(there, "ip link set lo up");
    }
    lk_group_ensemble_at(SYNC_TICKS, sites);
    return 0;
}

static int tear_down(void **state)
{
    for (int i = 0; i < LK_ZKS_ENSEMBLE; i++)
        must(sites[i].netns, "iptables -w -F INPUT");
    return lk_env_end(state);
}

/* Drops what comes to the member from an address. */
static void drop(const struct lk_zks *to, const char *from)
{
    must(to->netns, "iptables -w -A INPUT -s %s -j DROP", from);
}

static void mend(const struct lk_zks *member)
{
    must(member->netns, "iptables -w -F INPUT");
}

/* ------------------------------------------------------------------ a follower alone ---- */

/* A client that trusts its pings, as others do: it has a place in a queue, through the server that is cut
 * off. */
static struct lk_zkc *trusting_client(const struct lk_zks *server)
{
    struct lk_zkc *client = lk_zkc_open_for(server, SESSION_MS);

    lk_zkc_create(client, "/shop", "", LK_ZKC_CONTAINER, NULL);
    lk_zkc_create(client, "/shop/pinged", "", LK_ZKC_CONTAINER, NULL);
    assert_int_equal(lk_zkc_create(client, "/shop/pinged/_c_00000000-0000-0000-0000-000000000000-lock-", "",
                                   LK_ZKC_EPHEMERAL_SEQUENTIAL, NULL),
                     LK_ZKC_OK);
    return client;
}

/* Two holders at the follower, who are cut off, and their rival at the leader. */
struct scene {
    locker *rival;
    locker_handle *held;   /* by the library */
    int64_t deadline;      /* of that, in ms of the tests' clock */
    struct lk_zkc *pinged; /* holds the other lock */
    bool answered;         /* each of its pings */
};

static bool rival_has_both(void *context)
{
    struct scene *scene = context;
    int64_t remaining = locker_handle_remaining_ms(scene->held);

    if (remaining > 0)
        scene->deadline = lk_test_now_ms() + remaining;
    scene->answered = scene->answered && lk_zkc_ping(scene->pinged);
    return lk_stats(scene->rival).waiting == 0;
}

/* The trusting client still believes in its lock, and its server confirms it, when the rival has it. */
static void show_two_holders(struct scene *scene, int64_t granted)
{
    int64_t until = granted + 2000;

    assert_true(scene->answered);
    while (lk_test_now_ms() < until) {
        assert_true(lk_zkc_ping(scene->pinged));
        assert_int_equal(lk_zkc_count(scene->pinged, "/shop/pinged"), 2);
    }
    print_message("a client that trusts its pings held a lock together with another for %lld ms and more\n",
                  (long long)(lk_test_now_ms() - granted));
}

/* The rival gets the locks from the leader's side. The library's handle on the other side was lost by then.
 */
static void exclusion_over_a_cut(struct env *env, bool both_ways)
{
    struct lk_zks *leader = lk_zks_leader(env->members), *follower = lk_zks_follower(env->members, 0);
    locker *l = lk_open_at(follower, "/shop?ttl=4s&command_timeout=30s"); /* TCP takes its time after a cut */
    struct scene scene = {
        .rival = lk_open_at(leader, "/shop?ttl=4s"), .held = lk_take(l, "cut"), .answered = true};
    struct lk_locking waiter, second;
    int64_t cut;

    scene.pinged = trusting_client(follower);
    lk_locking_start(&waiter, scene.rival, "cut", NULL);
    lk_locking_start(&second, scene.rival, "pinged", NULL);
    lk_require_waiting(scene.rival, 2);
    drop(leader, follower->address);
    if (both_ways)
        drop(follower, leader->address);
    cut = lk_test_now_ms();
    lk_require(rival_has_both, &scene, "the rival should get both locks");
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_status(LOCKER_OK, lk_locking_join(&second), second.err);
    show_two_holders(&scene, second.ended_ms);
    assert_int_equal(locker_handle_state(scene.held), LOCKER_STATE_LOST);
    assert_true(scene.deadline <= cut + SESSION_MS * 99 / 100 + 1);
    assert_true(scene.deadline <= waiter.ended_ms);
    assert_true(lk_zks_is(follower, "follower")); /* it still serves, and believes in its leader */
    mend(leader);
    mend(follower);
    assert_int_equal(locker_handle_state(waiter.held), LOCKER_STATE_HELD);
    lk_give_lost(scene.held);
    assert_int_equal(locker_handle_state(waiter.held), LOCKER_STATE_HELD);
    lk_give(waiter.held);
    lk_give(second.held);
    lk_give(lk_take(l, "cut")); /* the cut-off one comes back by itself */
    lk_zkc_drop(scene.pinged);
    lk_close_locker(scene.rival);
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

/* ------------------------------------------------------------------ a client alone ---- */

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
    drop(mine, SUBNET ".254");
    for (int i = 0; i < 3; i++) /* the first may have been on its way; the others came by another server */
        lk_require_renewal(l);
    lk_require_state(held, LOCKER_STATE_HELD);
    assert_int_equal(lk_stats(l).lost, 0);
    mend(mine);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_follower_is_cut_off_from_the_leader, lk_env_ensemble, tear_down),
    cmocka_unit_test_setup_teardown(a_follower_is_not_heard_by_the_leader, lk_env_ensemble, tear_down),
    cmocka_unit_test_setup_teardown(a_client_is_cut_off_from_its_server, lk_env_ensemble, tear_down),
};

const struct lk_group lk_cut = {"cut", tests, sizeof tests / sizeof tests[0], set_up_group, lk_group_end};
