/*
 * cut.c: a follower is cut off from the leader while clients stay connected to it. It goes on answering their
 * pings, so a client that trusts its connection believes in its lock for seconds after the leader has given
 * the lock to somebody else.
 */
#include <stdio.h>
#include <string.h>

#include "test_network.h"
#include "zk_tests.h"

enum { SESSION_MS = 4000, SYNC_TICKS = 100 }; /* members give each other up after 20 s */

static const lk_network *network;

static int set_up_group(void **state)
{
    (void)state;
    network = lk_test_network();
    lk_group_ensemble_at(SYNC_TICKS, network->members);
    return 0;
}

static int tear_down(void **state)
{
    const lk_env *env = *state;
    for (int i = 0; i < LK_ENSEMBLE; i++)
        lk_test_mend(&env->members[i].place);
    return lk_env_end(state);
}

/* ------------------------------------------------------------------ a follower alone ---- */

/* A client that trusts its pings, as others do: it has a place in a queue, through the server that is cut
 * off. */
static lk_zkc *trusting_client(const lk_server *server)
{
    lk_zkc *client = lk_zkc_open_for(server, SESSION_MS);
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
    locker_handle *held; /* by the library */
    int64_t deadline;    /* of that, in ms of the tests' clock */
    lk_zkc *pinged;      /* holds the other lock */
    bool answered;       /* each of its pings */
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

/* The rival gets the locks from the leader's side. The library's handle on the other side was lost by
 * then. */
static void exclusion_over_a_cut(lk_env *env, bool both_ways)
{
    lk_server *leader = lk_test_leader(env->members), *follower = lk_test_follower(env->members, 0);
    locker *l = lk_open_at(follower, "/shop?ttl=4s&command_timeout=30s"); /* TCP takes its time after a cut */
    struct scene scene = {
        .rival = lk_open_at(leader, "/shop?ttl=4s"), .held = lk_take(l, "cut"), .answered = true};
    lk_locking waiter, second;
    int64_t cut;
    scene.pinged = trusting_client(follower);
    lk_locking_start(&waiter, scene.rival, "cut", NULL);
    lk_locking_start(&second, scene.rival, "pinged", NULL);
    lk_require_waiting(scene.rival, 2);
    lk_test_drop(&leader->place, &follower->place);
    if (both_ways)
        lk_test_drop(&follower->place, &leader->place);
    cut = lk_test_now_ms();
    lk_require(rival_has_both, &scene, "the rival should get both locks");
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_status(LOCKER_OK, lk_locking_join(&second), second.err);
    show_two_holders(&scene, second.ended_ms);
    assert_int_equal(locker_handle_state(scene.held), LOCKER_STATE_LOST);
    assert_true(scene.deadline <= cut + SESSION_MS * 99 / 100 + 1);
    assert_true(scene.deadline <= waiter.ended_ms);
    assert_true(lk_zookeeper_is(follower, "follower")); /* it still serves, and believes in its leader */
    lk_test_mend(&leader->place);
    lk_test_mend(&follower->place);
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
    lk_env *env = *state;
    char hosts[96], answer[4096];
    lk_server *mine = NULL;
    locker_handle *held;
    locker *l;
    lk_ensemble_hosts(env->members, hosts, sizeof hosts);
    l = lk_open_uri("zookeeper://%s/shop?ttl=8s", hosts);
    held = lk_take(l, "moves");
    for (int i = 0; i < LK_ENSEMBLE; i++) /* `cons` lists a connection that has a session */
        if (lk_server_ask(&env->members[i], "cons", answer, sizeof answer) &&
            strstr(answer, "sid=0x") != NULL)
            mine = &env->members[i];
    assert_non_null(mine);
    lk_test_drop(&mine->place, &network->hub);
    for (int i = 0; i < 3; i++) /* the first may have been on its way; the others came by another server */
        lk_require_renewal(l);
    lk_require_state(held, LOCKER_STATE_HELD);
    assert_int_equal(lk_stats(l).lost, 0);
    lk_test_mend(&mine->place);
    lk_give(held);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_follower_is_cut_off_from_the_leader, lk_env_ensemble, tear_down),
    cmocka_unit_test_setup_teardown(a_follower_is_not_heard_by_the_leader, lk_env_ensemble, tear_down),
    cmocka_unit_test_setup_teardown(a_client_is_cut_off_from_its_server, lk_env_ensemble, tear_down),
};

const lk_group lk_cut = {"cut", tests, sizeof tests / sizeof tests[0], set_up_group, lk_group_end};
