/* losses.c: a lock is taken away: its key is deleted, its lease revoked, the server stops, has no room, or forgets old revisions. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "etcd_tests.h"

/* A lease is renewed after a third of this, and what is gone is found then at the latest. */
enum { TTL_MS = 3000, SOON_MS = 2000 };
#define SHOP "/shop?ttl=3s"

/* ------------------------------------------------------------------ by hand ---- */

static void delete_first(const lk_server *etcd, const char *queue)
{
    lk_etcdctl_do(etcd, "del %s", lk_etcdctl_nth(etcd, queue, 0).name);
}

static void a_deleted_key_is_a_lost_lock(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, SHOP);
    lk_gate gate;
    lk_gate_init(&gate);
    locker_handle *held = lk_take_with_gate(l, "gone", &gate);
    const int64_t deleted = lk_test_now_ms();
    delete_first(env->etcd, "shop/gone/");
    lk_gate_await(&gate, 1, "the loss should be told");
    assert_timely(lk_test_now_ms() - deleted, SOON_MS);
    lk_give(lk_take(l, "gone"));
    lk_give_lost(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

/* With its lease go all keys that have it; the locker goes on with another lease. */
static void a_revoked_lease_is_the_loss_of_all_its_locks(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, SHOP);
    lk_gate gate;
    lk_gate_init(&gate);
    locker_handle *first = lk_take_with_gate(l, "first", &gate),
                  *second = lk_take_with_gate(l, "second", &gate);
    const int64_t revoked = lk_test_now_ms();
    for (uint64_t lease; lk_etcdctl_count(env->etcd, "shop/") > 0;)
        if ((lease = lk_etcdctl_nth(env->etcd, "shop/", 0).lease) != 0)
            lk_etcdctl_revoke(env->etcd, lease);
    lk_gate_await(&gate, 2, "the losses should be told");
    assert_timely(lk_test_now_ms() - revoked, SOON_MS);
    locker_handle *again = lk_take(l, "first");
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(again), LOCKER_STATE_HELD);
    lk_give(again);
    lk_give_lost(first);
    lk_give_lost(second);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

/* The key of another, next in the queue, is never touched by the one that lost its own. */
static void a_lost_lock_leaves_the_next_holder_alone(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, SHOP), *rival = lk_open_at(env->etcd, SHOP);
    locker_handle *held = lk_take(l, "next");
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "next", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/next/", 2);
    delete_first(env->etcd, "shop/next/");
    locker_handle *other = lk_locking_grant(&waiter);
    lk_give_lost(held); /* it may not have been told before */
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/next/"), 1);
    assert_int_equal(locker_handle_state(other), LOCKER_STATE_HELD);
    lk_give(other);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Who has no place any more isn't served: it queues again, behind those who came since. */
static void a_waiter_without_its_key_queues_again(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, SHOP), *l = lk_open_at(env->etcd, SHOP);
    locker_handle *held = lk_take(holder, "queue");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "queue", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/queue/", 2);
    lk_child *other = lk_env_keep(env, lk_etcdctl_lock(env->etcd, "shop/queue", 60));
    lk_etcdctl_require_count(env->etcd, "shop/queue/", 3);
    lk_etcdctl_do(env->etcd, "del %s", lk_etcdctl_nth(env->etcd, "shop/queue/", 1).name);
    lk_give(held);
    lk_etcdctl_locked(env->etcd, other);
    lk_etcdctl_require_count(env->etcd, "shop/queue/", 2);
    lk_etcdctl_unlock(lk_env_release(env, other));
    held = lk_locking_grant(&waiter);
    assert_int_equal(lk_etcdctl_nth(env->etcd, "shop/queue/", 0).create, locker_handle_token(held));
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* ------------------------------------------------------------------ the server ---- */

static void a_restart_with_data_loses_nothing(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *held = lk_take(l, "kept");
    lk_server_kill(env->etcd);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    lk_test_launch(env->etcd, true);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_expect_busy(l, "kept");
    lk_give(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
}

/* Both the holder's key and the waiter's live through it, as does their order. */
static void a_waiter_waits_on_after_a_restart(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "kept");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "kept", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/kept/", 2);
    const lk_etcdctl_key place = lk_etcdctl_nth(env->etcd, "shop/kept/", 1);
    lk_server_kill(env->etcd);
    lk_test_launch(env->etcd, true);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_token(held), place.create);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* LOST comes at the deadline by our own clock, since nobody tells; and it never comes back. */
static void a_server_stopped_beyond_the_lease(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, SHOP);
    lk_gate gate;
    lk_gate_init(&gate);
    locker_handle *held = lk_take_with_gate(l, "stopped", &gate);
    lk_test_freeze(env->etcd);
    const int64_t frozen = lk_test_now_ms();
    lk_require_lost_by(held, frozen + TTL_MS);
    lk_gate_await(&gate, 1, "the loss should be told");
    lk_server_thaw(env->etcd);
    lk_give(lk_take(l, "stopped"));
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    lk_give_lost(held);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

static void a_server_that_comes_back_empty(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, SHOP);
    locker_handle *held = lk_take(l, "wiped");
    lk_server_kill(env->etcd);
    lk_test_launch(env->etcd, false);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give(lk_take(l, "wiped"));
    lk_give_lost(held);
    lk_close_locker(l);
}

/* Another has the same permit, created at the same revision; it is told apart when it is looked at, and when it is given back. */
static void a_permit_that_a_foreign_client_has_after_a_loss_of_data(void **state)
{
    lk_env *env = *state;
    locker_lock_options one = lk_wait_options(LK_TEST_PATIENCE_MS);
    one.permits = 1;
    for (int looks = 1; looks >= 0; looks--) {
        locker *l = lk_open_proxied(env, "/shop?ttl=9s");
        locker_handle *held, *other;
        locker_error err;
        assert_ok(locker_lock(l, "pool", &one, &held, &err), err);
        lk_proxy_refuse(env->proxy, true);
        lk_proxy_cut_all(env->proxy);
        lk_server_kill(env->etcd);
        lk_test_launch(env->etcd, false);
        locker *rival = lk_open_at(env->etcd, "/shop?ttl=9s");
        assert_ok(locker_lock(rival, "pool", &one, &other, &err), err);
        assert_int_equal(locker_handle_token(other), locker_handle_token(held));
        lk_proxy_refuse(env->proxy, false);
        if (looks)
            lk_require_state(held, LOCKER_STATE_LOST);
        lk_give_lost(held);
        lk_require_renewal(rival);
        assert_int_equal(locker_handle_state(other), LOCKER_STATE_HELD);
        lk_give(other);
        lk_close_locker(rival);
        lk_close_locker(l);
        lk_server_kill(env->etcd);
        lk_test_launch(env->etcd, false);
    }
}

static void a_try_under_way(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    lk_check_a_try_under_way(l, env->etcd);
    lk_close_locker(l);
}

/* Of a lease that isn't renewed nothing is left at its end, though the others' go on. */
static void a_lease_that_is_meant_to_end(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=20s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    const int64_t began = lk_test_now_ms();
    locker_handle *held;
    locker_error err;
    options.ttl_ms = 2000;
    options.no_renew = true;
    assert_ok(locker_lock(l, "ends", &options, &held, &err), err);
    const int64_t taken = lk_test_now_ms();
    locker_handle *still = lk_take(l, "other");
    lk_require_lost_by(held, taken + 2000);
    assert_true(lk_test_now_ms() - began >= 1970); /* a hundredth is for the servers' clocks */
    lk_etcdctl_require_count(env->etcd, "shop/ends/", 0);
    assert_int_equal(locker_handle_state(still), LOCKER_STATE_HELD);
    lk_give(still);
    lk_give_lost(held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ room and revisions ---- */

static int small(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--quota-backend-bytes=262144", NULL};
    return lk_env_with(state, options);
}

static bool is_full(void *context)
{
    static char value[9001]; /* whole words of base64 */
    char said[512];
    memset(value, 'x', sizeof value - 1);
    const lk_server *etcd = context;
    for (int i = 0; i < 100; i++) {
        char question[sizeof value + 64];
        snprintf(question, sizeof question, "/v3/kv/put {\"key\":\"ZmlsbA==\",\"value\":\"%s\"}", value);
        if (!lk_server_ask(etcd, question, said, sizeof said))
            return strstr(said, "database space exceeded") != NULL;
    }
    return false;
}

/* What an operator does: forgets old revisions, gives the room back, ends the alarm. */
static void make_room(const lk_server *etcd)
{
    lk_etcdctl_do(etcd, "compact %" PRId64, lk_etcdctl_nth(etcd, "fill", 0).modified);
    lk_etcdctl_do(etcd, "defrag");
    lk_etcdctl_do(etcd, "alarm disarm");
}

static atomic_bool space_told;

static void look_for_space(locker_log_level level, const char *text, void *user)
{
    (void)level;
    (void)user;
    if (strstr(text, "cannot renew leases") != NULL && strstr(text, "space exceeded") != NULL &&
        strstr(text, "defragment") != NULL)
        atomic_store(&space_told, true);
}

static locker *open_told(const lk_env *env)
{
    atomic_store(&space_told, false);
    return lk_open_logged(env->etcd->port, SHOP, look_for_space);
}

/* Nothing new can be written, so the lease isn't renewed, and the log says why; what is held can be released; then all goes on. */
static void a_server_without_room(void **state)
{
    lk_env *env = *state;
    locker *l = open_told(env), *patient = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *held = lk_take(l, "held"), *given = lk_take(patient, "given"), *none = NULL;
    locker_error err;
    lk_require(is_full, env->etcd, "the database should be full");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(patient, "new", NULL, &none, &err), err);
    assert_non_null(strstr(err.text, "space"));
    lk_give(given);
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/given/"), 0);
    lk_require_lost_by(held, lk_test_now_ms() + TTL_MS);
    assert_true(atomic_load(&space_told));
    make_room(env->etcd);
    lk_give(lk_take(l, "held"));
    lk_give(lk_take(patient, "new"));
    lk_give_lost(held);
    lk_close_locker(patient);
    lk_close_locker(l);
}

static bool has_tried(void *context)
{
    return lk_stats(context).attempts > 5;
}

/* Waits until the server has room again, and is served then. The server is not asked without pause meanwhile. */
static void a_lock_waits_for_room(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    lk_locking waiter;
    lk_require(is_full, env->etcd, "the database should be full");
    const int64_t began = lk_test_now_ms();
    lk_locking_start(&waiter, l, "new", NULL);
    lk_require(has_tried, l, "the lock should be asked for again and again");
    assert_true(lk_stats(l).attempts <= 2 + (uint64_t)(lk_test_now_ms() - began) / 20);
    make_room(env->etcd);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* The place of who waited for a permit, and was refused it, is deleted, which needs no room: nobody waits behind it afterwards. */
static void a_permit_waits_for_room(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_lock_options one = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking waiter;
    locker_handle *held;
    locker_error err;
    one.permits = 1;
    assert_ok(locker_lock(holder, "permit", &one, &held, &err), err);
    lk_locking_start(&waiter, l, "permit", &one);
    lk_etcdctl_require_count(env->etcd, "shop/permit%permits/1-want-", 1);
    lk_require(is_full, env->etcd, "the database should be full");
    lk_give(held);
    lk_etcdctl_require_count(env->etcd, "shop/permit", 0);
    make_room(env->etcd);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
    lk_close_locker(holder);
}

static void compact(const lk_server *etcd)
{
    lk_etcdctl_do(etcd, "put newer x");
    lk_etcdctl_do(etcd, "compact %" PRId64, lk_etcdctl_nth(etcd, "newer", 0).modified);
}

static void a_compaction_while_somebody_waits(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, SHOP), *l = lk_open_at(env->etcd, SHOP);
    locker_handle *held = lk_take(holder, "compacted");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "compacted", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/compacted/", 2);
    compact(env->etcd);
    lk_require_renewal(holder);
    compact(env->etcd);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* A watch on the lock that is held can't begin where it was taken: that revision is forgotten. Its deletion is told all the same, and
 * not at its next renewal. */
static void a_compaction_of_a_held_key(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s");
    lk_gate gate;
    lk_gate_init(&gate);
    locker_handle *held = lk_take_with_gate(l, "held", &gate);
    compact(env->etcd);
    compact(env->etcd); /* also of the first revision that the watch wants to hear of */
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    lk_proxy_refuse(env->proxy, false);
    lk_require_state(held, LOCKER_STATE_HELD);
    const int64_t deleted = lk_test_now_ms();
    delete_first(env->etcd, "shop/held/");
    lk_gate_await(&gate, 1, "the loss should be told");
    assert_timely(lk_test_now_ms() - deleted, 10000);
    lk_give_lost(held);
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

/* The key ahead is deleted, and that revision forgotten, while there is no connection: no watch can tell of it. */
static void a_compaction_of_an_unseen_deletion(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    lk_etcdctl_do(env->etcd, "put shop/unseen/somebody x");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "unseen", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/unseen/", 2);
    const int port = env->etcd->port;
    lk_server_kill(env->etcd);
    env->etcd->port = lk_free_port(); /* where the locker doesn't look for it */
    lk_test_launch(env->etcd, true);
    delete_first(env->etcd, "shop/unseen/");
    compact(env->etcd);
    lk_server_kill(env->etcd);
    env->etcd->port = port;
    lk_test_launch(env->etcd, true);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(a_deleted_key_is_a_lost_lock),
    server_test(a_revoked_lease_is_the_loss_of_all_its_locks),
    server_test(a_lost_lock_leaves_the_next_holder_alone),
    server_test(a_waiter_without_its_key_queues_again),
    server_test(a_restart_with_data_loses_nothing),
    server_test(a_waiter_waits_on_after_a_restart),
    server_test(a_server_stopped_beyond_the_lease),
    server_test(a_server_that_comes_back_empty),
    proxied_test(a_permit_that_a_foreign_client_has_after_a_loss_of_data),
    server_test(a_try_under_way),
    server_test(a_lease_that_is_meant_to_end),
    cmocka_unit_test_setup_teardown(a_server_without_room, small, lk_env_end),
    cmocka_unit_test_setup_teardown(a_lock_waits_for_room, small, lk_env_end),
    cmocka_unit_test_setup_teardown(a_permit_waits_for_room, small, lk_env_end),
    server_test(a_compaction_while_somebody_waits),
    proxied_test(a_compaction_of_a_held_key),
    server_test(a_compaction_of_an_unseen_deletion),
};

const lk_group lk_losses = {"losses", tests, sizeof tests / sizeof tests[0], NULL, NULL};
