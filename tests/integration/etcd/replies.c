/* replies.c: answers that are lost, or come late, by a proxy: what the server has done is found out, and nothing of it is in the way. */
#include <time.h>

#include "etcd_tests.h"

enum { TTL_MS = 3000 };
#define SHOP "/shop?ttl=3s"
#define LONG "/shop?ttl=60s"

static int64_t cpu_ms(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

static void rest(int64_t ms)
{
    const struct timespec until = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&until, NULL);
}

/* ------------------------------------------------------------------ leases ---- */

/* It was to be the next one of all that is held: it is asked for once more. */
static void the_answer_to_a_renewal_is_lost(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, SHOP);
    locker_handle *held = lk_take(l, "kept");
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_GRANT, 1, 0);
    lk_proxy_await_harm(env->proxy, 1);
    lk_require_renewal(l);
    rest(TTL_MS);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* Nobody wants the lease any more whose answer was lost: it is let go, and nobody is busy with it. */
static void a_lease_that_nobody_wants_any_more(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, SHOP);
    const locker_lock_options brief = lk_wait_options(50);
    locker_handle *none = NULL;
    locker_error err;
    lk_proxy_hold(env->proxy, true, false);
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "unwanted", &brief, &none, &err), err);
    const int64_t waiting = cpu_ms();
    rest(200);
    assert_true(cpu_ms() - waiting < 100);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_hold(env->proxy, false, false);
    const int64_t began = cpu_ms();
    rest(1000);
    assert_true(cpu_ms() - began < 300);
    lk_give(lk_take(l, "unwanted"));
    lk_close_locker(l);
}

/* The keys were put to the next lease, which isn't known; what another one may have put there isn't wanted. That lease is not
 * revoked before it is known what is on it. */
static void the_answers_to_a_move_and_a_lock_are_lost(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, SHOP);
    locker_handle *held = lk_take(l, "kept");
    const locker_lock_options brief = lk_wait_options(50);
    locker_handle *none = NULL;
    locker_error err;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_EP_MOVE, 1, 0);
    lk_proxy_await_harm(env->proxy, 1);
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "other", &brief, &none, &err), err);
    lk_require_renewal(l);
    lk_etcdctl_require_count(env->etcd, "shop/", 1);
    rest(TTL_MS / 2);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ places ---- */

/* The server has made the place, and the client keeps it, before those that came later. */
static void the_answer_to_a_place_is_lost(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, LONG), *rival = lk_open_at(env->etcd, LONG),
           *l = lk_open_proxied(env, LONG);
    locker_handle *held = lk_take(holder, "place");
    lk_give(lk_take(l, "warm"));
    lk_locking first, second;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_ENTER, 1, 0);
    lk_locking_start(&first, l, "place", NULL);
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_refuse(env->proxy, true);
    lk_etcdctl_require_count(env->etcd, "shop/place/", 2);
    const int64_t place = lk_etcdctl_nth(env->etcd, "shop/place/", 1).create;
    lk_locking_start(&second, rival, "place", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/place/", 3);
    lk_proxy_refuse(env->proxy, false);
    lk_require_waiting(l, 1);
    rest(500);
    lk_give(held);
    held = lk_locking_grant(&first);
    assert_int_equal(locker_handle_token(held), place);
    lk_give(held);
    lk_give(lk_locking_grant(&second));
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
    lk_close_locker(rival);
    lk_close_locker(holder);
}

/* What else the locker does meanwhile has the lease looked at, which the lost request was for. */
static void the_answer_to_a_try_is_lost(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    lk_give(lk_take(l, "warm"));
    for (int i = 0; i < 10; i++) {
        static const locker_lock_options at_once = LOCKER_LOCK_OPTIONS_INIT;
        lk_locking tried;
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_ENTER, 1, 0);
        lk_locking_start(&tried, l, "tried", &at_once);
        lk_proxy_await_harm(env->proxy, (unsigned)i + 1);
        lk_proxy_delay(env->proxy, 0, 2 * i);
        for (int n = 0; n < 10; n++) {
            lk_give(lk_take(l, "other"));
            rest(5);
        }
        locker_handle *held = lk_locking_grant(&tried);
        lk_proxy_delay(env->proxy, 0, 0);
        rest(20);
        assert_int_equal(lk_etcdctl_count(env->etcd, "shop/tried/"), 1);
        assert_int_equal(lk_etcdctl_nth(env->etcd, "shop/tried/", 0).create, locker_handle_token(held));
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
        lk_give(held);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ permits ---- */

static locker_lock_options permit(int32_t permits)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    options.permits = permits;
    return options;
}

/* What shows the permit is old when it comes, so it is looked at once more. */
static void a_permit_is_answered_late(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    const locker_lock_options one_of_two = permit(2);
    locker_handle *held;
    locker_error err;
    lk_proxy_delay(env->proxy, 0, 150);
    assert_ok(locker_lock(l, "late", &one_of_two, &held, &err), err);
    assert_int_equal(locker_handle_slot(held), 0);
    lk_give(held);
    assert_ok(locker_try_lock(l, "late", &one_of_two, &held, &err), err);
    assert_int_equal(locker_handle_slot(held), 0);
    lk_give(held);
    lk_close_locker(l);
}

static void the_answer_to_a_permit_is_lost(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    const locker_lock_options one = permit(1);
    locker_handle *held;
    locker_error err;
    for (int i = 0; i < 20; i++) {
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_TAKE, 1, 0);
        assert_ok(i % 2 == 0 ? locker_lock(l, "permit", &one, &held, &err)
                             : locker_try_lock(l, "permit", &one, &held, &err),
                  err);
        rest(20);
        assert_int_equal(lk_etcdctl_nth(env->etcd, "shop/permit", 0).create, locker_handle_token(held));
        assert_int_equal(lk_etcdctl_count(env->etcd, "shop/permit"), 1);
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
        lk_give(held);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ the end ---- */

static void the_answer_to_an_unlock_is_lost(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    locker_handle *held = lk_take(l, "given");
    locker_error err;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_DELETE, 1, 0);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    locker_handle_free(held);
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/"), 0);
    held = lk_take(l, "given");
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_EP_DELETE, 1, 0);
    const locker_status status = locker_unlock(held, &err);
    assert_true(status == LOCKER_OK);
    locker_handle_free(held);
    lk_close_locker(l);
}

/* Whether it was broken, or given back in that moment, isn't known; who has it by then keeps it. */
static void the_answer_to_a_break_is_lost(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, LONG), *next = lk_open_at(env->etcd, LONG),
           *l = lk_open_proxied(env, LONG);
    locker_handle *held = lk_take(holder, "broken");
    lk_locking waiter;
    locker_info broken = LOCKER_INFO_INIT;
    locker_error err;
    lk_locking_start(&waiter, next, "broken", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/broken/", 2);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_DELETE, 1, 0);
    assert_status(LOCKER_UNAVAILABLE, locker_break(l, "broken", NULL, &broken, &err), err);
    locker_info_clear(&broken);
    locker_handle *other = lk_locking_grant(&waiter);
    rest(200);
    assert_int_equal(locker_handle_state(other), LOCKER_STATE_HELD);
    lk_give(other);
    lk_give_lost(held);
    lk_close_locker(l);
    lk_close_locker(next);
    lk_close_locker(holder);
}

static const struct CMUnitTest tests[] = {
    proxied_test(the_answer_to_a_renewal_is_lost),
    proxied_test(a_lease_that_nobody_wants_any_more),
    proxied_test(the_answers_to_a_move_and_a_lock_are_lost),
    proxied_test(the_answer_to_a_place_is_lost),
    proxied_test(the_answer_to_a_try_is_lost),
    proxied_test(a_permit_is_answered_late),
    proxied_test(the_answer_to_a_permit_is_lost),
    proxied_test(the_answer_to_an_unlock_is_lost),
    proxied_test(the_answer_to_a_break_is_lost),
};

const lk_group lk_replies = {"replies", tests, sizeof tests / sizeof tests[0], NULL, NULL};
