/* leases.c: leases, one after the other: until when a lock is held by them, what goes from one to the next, and that none stays. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_tests.h"

enum { LATE_MS = 400, MANY = 40, FEW_MS = 3000 };

/* ------------------------------------------------------------------ until when ---- */

/* One lease is granted in that time, and what is on it ends then at the latest. */
static void locks_on_one_lease_end_together(void **state)
{
    lk_env *env = *state;
    enum { TTL_MS = 60000 };
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *first = lk_take(l, "first");
    const int64_t taken = lk_test_now_ms();
    lk_await_time(taken + LATE_MS);
    locker_handle *second = lk_take(l, "second");
    assert_true(lk_test_now_ms() + locker_handle_remaining_ms(second) <= taken + TTL_MS);
    assert_int_equal(lk_etcdctl_nth(env->etcd, "shop/first/", 0).lease,
                     lk_etcdctl_nth(env->etcd, "shop/second/", 0).lease);
    lk_give(second);
    lk_give(first);
    lk_close_locker(l);
}

/* The servers' clocks may run faster than ours. */
static void a_lock_ends_a_hundredth_before_its_lease(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *held = lk_take(l, "held");
    assert_true(locker_handle_remaining_ms(held) <= 59400);
    lk_give(held);
    lk_close_locker(l);
}

/* The next lease is asked for after a third of the time of this one, so that two thirds are left for what goes wrong. */
static void a_held_lock_has_most_of_its_time_left(void **state)
{
    lk_env *env = *state;
    enum { TTL_MS = 9000 };
    locker *l = lk_open_at(env->etcd, "/shop?ttl=9s");
    locker_handle *held = lk_take(l, "held");
    while (lk_stats(l).renewals == 0) {
        assert_true(locker_handle_remaining_ms(held) > TTL_MS / 2);
        lk_await_time(lk_test_now_ms() + 20);
    }
    lk_give(held);
    lk_close_locker(l);
}

/* A second answer of the same lease, and a put to it, which are late, too, make no difference to when it was asked for. */
static void a_deadline_counts_from_before_its_lease_was_asked_for(void **state)
{
    lk_env *env = *state;
    enum { TTL_MS = 6000 };
    locker *l = lk_open_proxied(env, "/shop?ttl=6s");
    lk_proxy_delay(env->proxy, 0, LATE_MS);
    locker_handle *held = lk_take(l, "late");
    assert_true(locker_handle_remaining_ms(held) <= TTL_MS - 2 * LATE_MS);
    lk_require_renewal(l);
    assert_in_range(locker_handle_remaining_ms(held), 1, TTL_MS - 2 * LATE_MS);
    lk_give(held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ from one to the next ---- */

/* Its keeper had no reason to come again before somebody began to wait. */
static void a_waiter_on_a_lease_that_was_there(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_at(env->etcd, "/shop?ttl=3s");
    locker_handle *held = lk_take(holder, "kept");
    lk_locking waiter;
    lk_give(lk_take(l, "other"));
    lk_await_time(lk_test_now_ms() + 200);
    lk_locking_start(&waiter, l, "kept", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/kept/", 2);
    const lk_etcdctl_key place = lk_etcdctl_nth(env->etcd, "shop/kept/", 1);
    lk_await_time(lk_test_now_ms() + FEW_MS + 1500); /* when the server has looked for leases that are over */
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/kept/"), 2);
    lk_give(held);
    held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_token(held), place.create);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* A lock is put to its next lease, and that comes when it is on the one after that: it stays there. */
static void a_move_that_comes_late(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=6s");
    locker_handle *held = lk_take(l, "kept");
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_EP_MOVE, 1, 0);
    lk_require_renewal(l); /* on another connection */
    lk_require_renewal(l);
    const lk_etcdctl_key is = lk_etcdctl_nth(env->etcd, "shop/kept/", 0);
    lk_do_withheld(env);
    assert_true(lk_etcdctl_nth(env->etcd, "shop/kept/", 0).lease == is.lease);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

enum {
    TIMES = 16, /* leases with times of their own */
    SEVERAL = 350,
    REQUESTS = 6
}; /* by six requests, at a server that takes half as much at once as others */

static int half_and_proxied(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--max-txn-ops=64", NULL};
    if (lk_env_with(state, options) != 0)
        return -1;
    lk_env *env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    return 0;
}

static bool all_are_renewed(void *l)
{
    return lk_stats(l).renewals >= SEVERAL;
}

/* Many locks are put to another lease by few requests at a time, so that nobody's call waits for all of them at the server. */
static void few_renewals_are_under_way(void **state)
{
    enum { AT_ONCE = 2 };
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=40s");
    locker_handle *held[SEVERAL];
    lk_locking other;
    char key[32];
    for (int i = 0; i < SEVERAL; i++) {
        snprintf(key, sizeof key, "many-%d", i);
        held[i] = lk_take(l, key);
    }
    lk_have_it_move(env, l); /* it finds out how much the server takes */
    lk_require(all_are_renewed, l, "all locks should be put to another lease");
    const lk_passed moves = lk_proxy_passed(env->proxy, LK_EP_MOVE);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_EP_MOVE, 1, 0);
    lk_have_it_move(env, l);
    lk_proxy_await_passed(moves, AT_ONCE);
    const lk_passed enters = lk_proxy_passed(env->proxy, LK_EP_ENTER);
    lk_locking_start(&other, l, "other", NULL);
    lk_proxy_await_passed(enters, 1); /* what was sent before has passed */
    /* the answer to one that was sent later may have come before the first one, which is kept back with all that follow */
    assert_in_range(lk_proxy_requests(env->proxy, LK_EP_MOVE) - moves.count, AT_ONCE, REQUESTS - 2);
    lk_proxy_cut_all(env->proxy);
    lk_give(lk_locking_grant(&other));
    lk_proxy_await_passed(moves, AT_ONCE + REQUESTS);
    assert_int_equal(lk_stats(l).lost, 0);
    for (int i = 0; i < SEVERAL; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

static bool each_is_renewed_or_lost(void *l)
{
    const locker_statistics stats = lk_stats(l);
    return stats.renewals + stats.lost >= TIMES;
}

/* Each lock is on a lease of another time, so each is put to its next lease by a request of its own, and answers take long: those that
 * have run for half of their time do not wait for the answers to others. */
static void slow_answers_to_renewals_of_many_times(void **state)
{
    enum { TTL_MS = 3000, SLOW_MS = 300 };
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?command_timeout=20s");
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held[TIMES];
    locker_error err;
    char key[32];
    for (int i = 0; i < TIMES; i++) {
        options.ttl_ms = TTL_MS + i;
        snprintf(key, sizeof key, "slow-%d", i);
        assert_ok(locker_lock(l, key, &options, &held[i], &err), err);
    }
    lk_proxy_delay(env->proxy, 0, SLOW_MS);
    lk_require(each_is_renewed_or_lost, l, "all locks should be put to another lease");
    lk_proxy_delay(env->proxy, 0, 0);
    assert_int_equal(lk_stats(l).lost, 0);
    for (int i = 0; i < TIMES; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

/* The request never arrives. */
static size_t keep(const lk_message *request, char *out, size_t size)
{
    (void)request;
    (void)out;
    (void)size;
    return 0;
}

/* The keys of several locks are gone, and that is not notified. The answer to the renewal of all of them says so, and no key is read by a
 * request of its own. */
static void a_renewal_shows_that_keys_are_deleted(void **state)
{
    enum { KEYS = 8 };
    static const char reads[] = ""; /* the kind of a transaction that only reads */
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=40s");
    locker_handle *held[KEYS];
    char key[32];
    lk_proxy_answer(env->proxy, LK_EP_WATCH, keep);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "gone-%d", i);
        held[i] = lk_take(l, key);
    }
    lk_etcdctl_do(env->etcd, "del --prefix shop/gone");
    const unsigned asked = lk_proxy_requests(env->proxy, reads) + lk_proxy_requests(env->proxy, LK_EP_LOOK);
    lk_have_it_move(env, l);
    for (int i = 0; i < KEYS; i++) {
        lk_require_state(held[i], LOCKER_STATE_LOST);
        locker_handle_free(held[i]);
    }
    assert_int_equal(lk_proxy_requests(env->proxy, reads) + lk_proxy_requests(env->proxy, LK_EP_LOOK), asked);
    lk_close_locker(l);
}

/* Somebody has put a waiter's key to a lease of his own, which may end at any time: it is put back before it is granted. */
static void a_place_on_a_foreign_lease(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_proxied(env, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "place");
    char said[512];
    uint64_t other;
    lk_locking waiter;
    lk_locking_start(&waiter, l, "place", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/place/", 2);
    const lk_etcdctl_key place = lk_etcdctl_nth(env->etcd, "shop/place/", 1);
    assert_true(lk_etcdctl_try(env->etcd, said, sizeof said, "lease grant 100"));
    assert_memory_equal(said, "lease ", 6);
    other = strtoull(said + 6, NULL, 16);
    lk_etcdctl_do(env->etcd, "put --lease=%" PRIx64 " %s x", other, place.name);
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_EP_MOVE, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_give(held);
    lk_await_time(lk_test_now_ms() + LATE_MS);
    assert_int_equal(lk_stats(l).acquired, 0);
    lk_proxy_refuse(env->proxy, false);
    held = lk_locking_grant(&waiter);
    assert_false(lk_etcdctl_nth(env->etcd, "shop/place/", 0).lease == other);
    assert_int_equal(locker_handle_token(held), place.create);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* The key of who waits for a permit is on the lease of another, and its own has ended: it looks again, from one that lasts, also where
 * it has taken the permit before, and had no answer. */
static void take_on_a_lease_that_is_over(lk_env *env, bool doubt)
{
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_proxied(env, "/shop?ttl=60s");
    const char *const wants = "shop/permit%permits/1-want-";
    locker_lock_options one = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held;
    locker_error err;
    lk_locking waiter;
    one.permits = 1;
    assert_ok(locker_lock(holder, "permit", &one, &held, &err), err);
    lk_locking_start(&waiter, l, "permit", &one);
    lk_etcdctl_require_count(env->etcd, wants, 1);
    lk_require_waiting(l, 1);
    const lk_etcdctl_key place = lk_etcdctl_nth(env->etcd, wants, 0);
    lk_etcdctl_do(env->etcd, "put %s x", place.name); /* on none */
    if (doubt) {
        lk_proxy_refuse(env->proxy, true);
        lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_EP_TAKE, 1, 0);
        lk_give(held);
        lk_proxy_await_harm(env->proxy, 1);
    }
    lk_etcdctl_revoke(env->etcd, place.lease);
    if (!doubt)
        lk_give(held);
    lk_proxy_refuse(env->proxy, false);
    held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_slot(held), 0);
    assert_false(lk_etcdctl_nth(env->etcd, "shop/permit", 0).lease == place.lease);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static void a_permit_is_looked_for_anew_after_its_leases_end(void **state)
{
    take_on_a_lease_that_is_over(*state, false);
    take_on_a_lease_that_is_over(*state, true);
}

static int few(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--max-txn-ops=16", NULL};
    return lk_env_with(state, options);
}

/* More locks than it lets be put to another lease in one transaction, and fewer than the driver tries to. */
static void a_server_that_takes_few_operations_at_once(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=3s");
    locker_handle *held[MANY];
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "few-%d", i);
        held[i] = lk_take(l, key);
    }
    lk_await_time(lk_test_now_ms() + FEW_MS);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(locker_handle_state(held[i]), LOCKER_STATE_HELD);
        lk_give(held[i]);
    }
    lk_close_locker(l);
}

static atomic_uint refusals_told;

static void count_refusals(locker_log_level level, const char *text, void *user)
{
    (void)level;
    (void)user;
    if (strstr(text, "cannot renew leases") != NULL)
        atomic_fetch_add(&refusals_told, 1);
}

/* With what it tells of refused renewals counted. */
static locker *open_counting(const lk_env *env)
{
    atomic_store(&refusals_told, 0);
    return lk_open_logged(lk_proxy_port(env->proxy), "/shop?ttl=60s", count_refusals);
}

/* They are tried ten times a second, and no oftener; that is told once each time that it begins; and as it isn't for their number, they are put
 * to another lease in one write when they can be. */
static void renewals_that_are_refused(void **state)
{
    lk_env *env = *state;
    enum { LOCKS = 4 };
    locker *l = open_counting(env);
    locker_handle *held[LOCKS];
    for (int i = 0; i < LOCKS; i++)
        held[i] = lk_take(l, (const char[]){(char)('a' + i), '\0'});
    for (unsigned times = 1; times <= 2; times++) {
        const lk_passed moves = lk_proxy_passed(env->proxy, LK_EP_MOVE);
        lk_proxy_answer(env->proxy, LK_EP_MOVE, lk_proxy_etcd_nameless);
        const int64_t began = lk_test_now_ms();
        lk_have_it_move(env, l);
        lk_proxy_await_passed(moves, 10);
        assert_true(lk_test_now_ms() - began >= 500);
        lk_proxy_answer(env->proxy, LK_EP_MOVE, NULL);
        lk_require_renewal(l);
        assert_int_equal(atomic_load(&refusals_told), times);
        for (size_t i = 1; i < LOCKS; i++)
            assert_int_equal(lk_etcdctl_nth(env->etcd, "shop/", i).modified,
                             lk_etcdctl_nth(env->etcd, "shop/", 0).modified);
    }
    for (int i = 0; i < LOCKS; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

/* A few have leases of their own; of more, those that differ by little share one, which is no longer than any of them. */
static void locks_of_many_times_share_leases(void **state)
{
    lk_env *env = *state;
    enum { LOCKS = 64, LEAST_MS = 20000, STEP_MS = 31, LEASES_MOST = 20 };
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held[LOCKS];
    locker_error err;
    char said[8192], key[16];
    for (int i = 0; i < LOCKS; i++) {
        snprintf(key, sizeof key, "time-%d", i);
        options.ttl_ms = LEAST_MS + STEP_MS * i;
        const int64_t began = lk_test_now_ms();
        assert_ok(locker_lock(l, key, &options, &held[i], &err), err);
        const int64_t left = locker_handle_remaining_ms(held[i]);
        assert_true(left <= options.ttl_ms);
        assert_unless_late(left + (lk_test_now_ms() - began) >= options.ttl_ms / 3);
    }
    assert_true(lk_etcdctl_try(env->etcd, said, sizeof said, "lease list"));
    assert_memory_equal(said, "found ", 6);
    assert_in_range(strtol(said + 6, NULL, 10), 2, LEASES_MOST);
    for (int i = 0; i < LOCKS; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

/* A waiter's key is on a lease that it shares with others, because there are many times, and that is not known yet when there are few
 * again. It keeps its place. */
static void a_place_in_doubt_on_a_shared_lease(void **state)
{
    enum { OWN_TIMES = 16, BRIEF_MS = 500, ODD_MS = 60500 };
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"),
           *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=60s");
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = lk_take(holder, "shared");
    locker_error err;
    lk_locking waiter;
    for (int i = 0; i < OWN_TIMES; i++) {
        locker_handle *brief;
        options.ttl_ms = BRIEF_MS + i;
        assert_ok(locker_lock(l, "brief", &options, &brief, &err), err);
        lk_give(brief);
    }
    options.ttl_ms = ODD_MS;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_ENTER, 1, 0);
    lk_locking_start(&waiter, l, "shared", &options);
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_answer(env->proxy, LK_EP_ENTER, lk_proxy_etcd_unavailable);
    lk_etcdctl_require_count(env->etcd, "shop/shared/", 2);
    const lk_etcdctl_key place = lk_etcdctl_nth(env->etcd, "shop/shared/", 1);
    lk_await_time(lk_test_now_ms() + 3000); /* the brief leases are over */
    const lk_passed asked = lk_proxy_passed(env->proxy, LK_EP_ENTER);
    lk_proxy_await_passed(asked, 3);
    lk_proxy_answer(env->proxy, LK_EP_ENTER, NULL);
    lk_require_waiting(l, 1);
    lk_give(held);
    held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_token(held), place.create);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* ------------------------------------------------------------------ the end ---- */

static bool has_no_lease(void *context)
{
    char said[512];
    return lk_etcdctl_try(context, said, sizeof said, "lease list") && strstr(said, "found 0 leases") != NULL;
}

static void closing_gives_the_leases_back(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=200s");
    locker_lock_options other = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held;
    locker_error err;
    other.ttl_ms = 100000;
    lk_give(lk_take(l, "one"));
    assert_ok(locker_lock(l, "other", &other, &held, &err), err);
    assert_false(has_no_lease(env->etcd));
    lk_close_locker(l);
    lk_require(has_no_lease, env->etcd, "the leases should be revoked");
    locker_handle_free(held);
}

/* Not each has a request of its own then, which a server with much to do would not answer in time. */
static void closing_takes_many_locks_by_their_lease(void **state)
{
    lk_env *env = *state;
    enum { LOCKS = 600, DELETES_MOST = 32 };
    locker *l = lk_open_proxied(env, "/shop?ttl=200s&cleanup_timeout=300ms");
    locker_handle *held[LOCKS];
    char key[16];
    for (int i = 0; i < LOCKS; i++) {
        snprintf(key, sizeof key, "close-%d", i);
        held[i] = lk_take(l, key);
    }
    const unsigned before = lk_proxy_requests(env->proxy, LK_EP_DELETE);
    lk_proxy_hold(env->proxy, false, true); /* no answer lets it send more */
    lk_close_locker(l);
    assert_in_range(lk_proxy_requests(env->proxy, LK_EP_DELETE) - before, 1, DELETES_MOST);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    for (int i = 0; i < LOCKS; i++)
        locker_handle_free(held[i]);
}

static const struct CMUnitTest tests[] = {
    server_test(locks_of_many_times_share_leases),
    proxied_test(closing_takes_many_locks_by_their_lease),
    server_test(locks_on_one_lease_end_together),
    server_test(a_lock_ends_a_hundredth_before_its_lease),
    server_test(a_held_lock_has_most_of_its_time_left),
    proxied_test(a_deadline_counts_from_before_its_lease_was_asked_for),
    server_test(a_waiter_on_a_lease_that_was_there),
    cmocka_unit_test_setup_teardown(few_renewals_are_under_way, half_and_proxied, lk_env_end),
    proxied_test(slow_answers_to_renewals_of_many_times),
    proxied_test(a_renewal_shows_that_keys_are_deleted),
    proxied_test(a_place_in_doubt_on_a_shared_lease),
    proxied_test(a_move_that_comes_late),
    proxied_test(a_place_on_a_foreign_lease),
    proxied_test(a_permit_is_looked_for_anew_after_its_leases_end),
    cmocka_unit_test_setup_teardown(a_server_that_takes_few_operations_at_once, few, lk_env_end),
    proxied_test(renewals_that_are_refused),
    server_test(closing_gives_the_leases_back),
};

const lk_group lk_leases = {"leases", tests, sizeof tests / sizeof tests[0], NULL, NULL};
