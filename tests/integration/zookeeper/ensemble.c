/* ensemble.c: three servers on this machine; one of them, or two, go away, and come back. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "zk_tests.h"

static locker *open_ensemble(lk_env *env, const char *rest)
{
    char hosts[96];
    lk_ensemble_hosts(env->members, hosts, sizeof hosts);
    return lk_open_uri("zookeeper://%s%s", hosts, rest);
}

/* When the handle will be lost unless it is renewed; in ms of the tests' clock, rounded down. */
static int64_t deadline_of(locker_handle *held)
{
    return lk_test_now_ms() + locker_handle_remaining_ms(held);
}

/* ------------------------------------------------------------------ a leader is killed ---- */

enum { HOLDERS = 8, SESSION_MS = 20000 };

/* A client that holds a lock while the leader is killed. Static, for on_lost of a test that failed. */
static struct holder {
    locker *l;
    locker_handle *held;
    uint64_t renewals; /* before */
    int64_t deadline;  /* before */
    atomic_llong lost_at;
} holders[HOLDERS];

static void note_loss(locker_handle *lost, void *user)
{
    struct holder *holder = user;
    (void)lost;
    atomic_store(&holder->lost_at, (long long)lk_test_now_ms());
}

static void start_holder(lk_env *env, size_t number)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    struct holder *holder = &holders[number];
    char rest[64], key[24];
    locker_error err;
    snprintf(rest, sizeof rest, "/shop?ttl=%dms&command_timeout=20s", SESSION_MS);
    snprintf(key, sizeof key, "held-%zu", number);
    options.on_lost = note_loss;
    options.user = holder;
    atomic_store(&holder->lost_at, 0);
    holder->l = open_ensemble(env, rest);
    assert_ok(locker_lock(holder->l, key, &options, &holder->held, &err), err);
}

static bool is_renewed_or_lost(void *context)
{
    struct holder *holder = context;
    return lk_stats(holder->l).renewals > holder->renewals || atomic_load(&holder->lost_at) != 0;
}

/* It keeps the lock if the majority was there half a session before the deadline: the time to find out that a
 * server doesn't serve, and to go to the next. An election that takes longer than that may cost the lock, but
 * not before the deadline. True: kept. */
static bool check_holder(struct holder *holder, int64_t majority_at)
{
    lk_require(is_renewed_or_lost, holder, "a lock should be renewed, or lost");
    if (atomic_load(&holder->lost_at) == 0) {
        lk_require_state(holder->held, LOCKER_STATE_HELD);
        return true;
    }
    if (atomic_load(&holder->lost_at) < holder->deadline)
        test_fails("LOST %lld ms before the deadline",
                   (long long)holder->deadline - atomic_load(&holder->lost_at));
    if (majority_at + SESSION_MS / 2 <= holder->deadline)
        test_fails("LOST, though the majority was back %lld ms before the deadline",
                   (long long)(holder->deadline - majority_at));
    return false;
}

/* Clients take a server by chance, so that some are connected to the leader. All of them keep their locks
 * when it dies. */
static void the_leader_is_killed(void **state)
{
    lk_env *env = *state;
    lk_server *leader = lk_test_leader(env->members);
    lk_locking waiter;
    int64_t majority_at;
    for (size_t i = 0; i < HOLDERS; i++)
        start_holder(env, i);
    lk_locking_start(&waiter, holders[1].l, "held-0", NULL);
    lk_require_waiting(holders[1].l, 1);
    for (size_t i = 0; i < HOLDERS; i++) {
        holders[i].renewals = lk_stats(holders[i].l).renewals;
        holders[i].deadline = deadline_of(holders[i].held);
    }
    lk_server_kill(leader);
    lk_zkc_require_majority(env->members);
    majority_at = lk_test_now_ms();
    for (size_t i = 0; i < HOLDERS; i++) {
        bool kept = check_holder(&holders[i], majority_at);

        if (kept && i == 0)
            lk_require_waiting(holders[1].l, 1);
        (kept ? lk_give : lk_give_lost)(holders[i].held);
    }
    lk_give(lk_locking_grant(&waiter));
    for (size_t i = 0; i < HOLDERS; i++)
        lk_close_locker(holders[i].l);
}

/* Another server has taken the session over, for a connection that was given up meanwhile. The heartbeats are
 * refused then; the client has to come again. */
static void a_session_is_moved_to_another_server(void **state)
{
    lk_env *env = *state;
    lk_server *leader = lk_test_leader(env->members);
    lk_zkc *client = lk_zkc_open(leader);
    locker *l = lk_open_at(lk_test_follower(env->members, 0), "/shop?ttl=4s");
    locker_handle *held = lk_take(l, "moved");
    lk_zkc_require_count(client, "/shop/moved",
                         1); /* a leader may show it later than the follower that answered */
    lk_zkc_move_session(leader, lk_session_of(client, "/shop/moved", 0));
    for (int i = 0; i < 4; i++) /* until after the deadline that it had */
        lk_require_renewal(l);
    assert_int_equal(lk_stats(l).lost, 0);
    lk_give(held);
    lk_zkc_close(client);
    lk_close_locker(l);
}

/* Without a quorum nothing is confirmed: LOST at the deadline, and not before; and nobody knows who holds
 * what. */
static void the_quorum_is_lost(void **state)
{
    lk_env *env = *state;
    locker *l = open_ensemble(env, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "held");
    int64_t deadline, killed;
    locker_error err;
    locker_handle *none = NULL;
    locker_lock_options options = lk_wait_options(300);
    lk_require_renewal(l);
    lk_server_kill(&env->members[0]);
    lk_server_kill(&env->members[1]);
    killed = lk_test_now_ms();
    deadline = deadline_of(held);
    assert_true(deadline <= killed + 3000 * 99 / 100 + 1);
    assert_true(locker_handle_state(held) <= LOCKER_STATE_SUSPECT || lk_test_now_ms() >= deadline);
    lk_require_state(held, LOCKER_STATE_LOST);
    assert_true(lk_test_now_ms() >= deadline);
    assert_status(LOCKER_UNAVAILABLE, locker_lock(l, "other", &options, &none, &err), err);
    lk_test_ensemble_heal(env->members);
    lk_give(lk_take(l, "held"));
    lk_give_lost(held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ one of them is behind ---- */

/* Followers learn of a change a little later than the leader. Whoever asks after a call has returned gets an
 * answer that knows of it, at whichever server. */
static void an_answer_includes_earlier_answers_of_other_servers(void **state)
{
    enum { ROUNDS = 60 };
    lk_env *env = *state;
    locker *lockers[LK_ENSEMBLE];
    for (int i = 0; i < LK_ENSEMBLE; i++)
        lockers[i] = lk_open_at(&env->members[i], "/shop?ttl=20s");
    for (int round = 0; round < ROUNDS; round++) {
        locker *taker = lockers[round % LK_ENSEMBLE], *other = lockers[(round + 1) % LK_ENSEMBLE],
               *breaker = lockers[(round + 2) % LK_ENSEMBLE];
        locker_info info = LOCKER_INFO_INIT;
        locker_handle *held = lk_take(taker, "known"), *next = NULL;
        locker_error err;

        assert_ok(locker_show(other, "known", &info, &err), err);
        assert_true(info.held);
        assert_int_equal(info.token, locker_handle_token(held));
        locker_info_clear(&info);
        lk_give(held);
        assert_ok(locker_try_lock(other, "known", NULL, &next, &err), err);
        assert_ok(locker_break(breaker, "known", NULL, &info, &err), err);
        assert_int_equal(info.token, locker_handle_token(next));
        locker_info_clear(&info);
        assert_ok(locker_show(taker, "known", &info, &err), err);
        assert_false(info.held);
        locker_info_clear(&info);
        lk_give_lost(next);
    }
    for (int i = 0; i < LK_ENSEMBLE; i++)
        lk_close_locker(lockers[i]);
}

/* A follower that lags behind knows neither of the release nor of the next queue: it only answers late. */
static void a_follower_lags(void **state)
{
    lk_env *env = *state;
    lk_server *follower = lk_test_follower(env->members, 0), *other = lk_test_follower(env->members, 1);
    locker *at_follower = lk_open_at(follower, "/shop?ttl=20s&command_timeout=20s");
    locker *l = lk_open_at(other, "/shop?ttl=20s");
    locker_handle *held = lk_take(l, "lags");
    lk_locking waiter;
    lk_zkc *client = lk_zkc_open(other);
    uint64_t token = locker_handle_token(held);
    lk_locking_start(&waiter, at_follower, "lags", NULL);
    lk_zkc_require_count(client, "/shop/lags", 2);
    lk_test_freeze(follower);
    lk_give(held);
    lk_zkc_require_count(client, "/shop/lags", 1); /* the leader and the other follower went on */
    lk_expect_busy(l, "lags");                     /* the waiter's place counts, though it can't know */
    lk_server_thaw(follower);
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
    lk_env *env = *state;
    lk_server *leader = lk_test_leader(env->members), *follower = lk_test_follower(env->members, 0);
    lk_zkc *client = lk_zkc_open(leader);
    env->proxy = lk_proxy_begin(&lk_proxy_zookeeper, leader->port);
    for (int round = 0; round < 5; round++) {
        locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=20s&command_timeout=20s",
                                lk_proxy_port(env->proxy), follower->port);
        locker_handle *held = lk_take(l, "found");

        lk_give(held);
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_CREATE2, 1, 0);
        held = lk_take(l, "found");
        lk_zkc_require_count(client, "/shop/found", 1);
        lk_give(held);
        lk_zkc_require_count(client, "/shop/found", 0);
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, "", 0, 0); /* none */
        lk_close_locker(l);
    }
    lk_zkc_close(client);
}

/* One server after another is killed and comes back, while processes count under a lock: each increment is
 * there, tokens grow, and everybody gets on.
 *
 * The next one is killed when the last one has caught up. A follower of ZooKeeper 3.8.0 whose leader dies
 * while it is still applying what it has just been sent may apply a creation again after the deletion, and
 * then shows a node that nobody else has until it is restarted. */
static void a_rolling_restart_under_load(void **state)
{
    enum { PUPPETS = 4, TIMES = 150 };
    lk_env *env = *state;
    lk_child *puppets[PUPPETS];
    char hosts[96], directory[64], path[96];
    long number = 0;
    FILE *file;
    lk_ensemble_hosts(env->members, hosts, sizeof hosts);
    lk_private_directory(directory);
    snprintf(path, sizeof path, "%s/number", directory);
    for (size_t i = 0; i < PUPPETS; i++) {
        puppets[i] = lk_env_puppet(env, "zookeeper://%s/shop?ttl=30s&command_timeout=20s", hosts);
        lk_child_say(puppets[i], "count load %s %d", path, TIMES);
    }
    for (int i = 0; i < LK_ENSEMBLE; i++) {
        lk_server_kill(&env->members[i]);
        lk_test_leader(env->members);
        lk_test_launch(&env->members[i], true);
        lk_zkc_require_majority(env->members);
        lk_test_require_in_step(env->members);
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
    ensemble_test(a_session_is_moved_to_another_server),
    ensemble_test(the_quorum_is_lost),
    ensemble_test(an_answer_includes_earlier_answers_of_other_servers),
    ensemble_test(a_follower_lags),
    ensemble_test(a_create_is_found_through_another_server),
    ensemble_test(a_rolling_restart_under_load),
};

const lk_group lk_ensemble = {"ensemble", tests, sizeof tests / sizeof tests[0], lk_group_ensemble,
                              lk_group_end};
