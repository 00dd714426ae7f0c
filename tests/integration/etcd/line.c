/* line.c: threads of one locker that come for one key at once: their first requests go out one after the other, in the order of the
 * calls. A proxy keeps the answers back. */
#include <stdio.h>

#include "etcd_tests.h"

enum { LINE = 12, GIVES_UP = 3, TTL_MS = 10000, LATE_MS = 800 };

static unsigned entered(const lk_env *env)
{
    return lk_proxy_requests(env->proxy, LK_EP_ENTER);
}

/* The calls, in their order. The first has its request under way, with the answer kept back, and the others wait for that. */
typedef struct {
    lk_env *env;
    locker *holder, *l;
    locker_handle *held, *own; /* the key that all come for; one of `l`, so that it has a lease */
    lk_locking calls[LINE];
    locker_cancel *cancels[LINE];
    int count;
    unsigned entered;  /* requests, when the first is out */
    uint64_t attempts; /* of `l`, when the latest asks */
} line;

static bool latest_asks(void *context)
{
    const line *const all = context;
    return lk_stats(all->l).attempts == all->attempts;
}

static bool first_is_out(void *context)
{
    const line *const all = context;
    return entered(all->env) == all->entered;
}

static void pause_ms(const line *all, int ms)
{
    assert_false(lk_readable(locker_handle_fd(all->held), ms));
}

static void line_begin(line *all, lk_env *env, const char *rest)
{
    *all =
        (line){.env = env, .holder = lk_open_at(env->etcd, "/shop?ttl=60s"), .l = lk_open_proxied(env, rest)};
    all->held = lk_take(all->holder, "hot");
    all->own = lk_take(all->l, "own");
}

static void line_up(line *all, int count)
{
    all->entered = entered(all->env) + 1;
    all->attempts = lk_stats(all->l).attempts;
    all->count = count;
    for (int i = 0; i < count; i++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        all->cancels[i] = options.cancel = locker_cancel_new();
        all->attempts++;
        lk_locking_start(&all->calls[i], all->l, "hot", &options);
        lk_require(latest_asks, all, "one more should ask");
        lk_locking_await_rest(&all->calls[i]);
    }
    lk_require(first_is_out, all, "the first should be out");
}

static void give_up(line *all, int i)
{
    locker_cancel_fire(all->cancels[i]);
    assert_status(LOCKER_CANCELED, lk_locking_join(&all->calls[i]), all->calls[i].err);
}

static void expect_grants_in_order(line *all)
{
    uint64_t last = 0;
    lk_give(all->held);
    for (int i = 0; i < all->count; i++) {
        if (all->calls[i].status == LOCKER_CANCELED)
            continue;
        locker_handle *const held = lk_locking_grant(&all->calls[i]);
        assert_unless_late(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
    }
}

static void line_end(line *all)
{
    for (int i = 0; i < all->count; i++)
        locker_cancel_free(all->cancels[i]);
    lk_give(all->own);
    lk_etcdctl_require_count(all->env->etcd, "shop/", 0);
    lk_close_locker(all->l);
    lk_close_locker(all->holder);
}

/* Requests of all at once would stand before those of other clients, and servers would carry them out in any order. */
static void waiters_of_a_locker_enqueue_one_after_the_other(void **state)
{
    lk_env *env = *state;
    line all;
    line_begin(&all, env, "/shop?ttl=60s&command_timeout=60s");
    lk_proxy_hold(env->proxy, false, true);
    line_up(&all, LINE);
    pause_ms(&all, 200);
    assert_int_equal(entered(env), all.entered);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_waiting(all.l, LINE);
    assert_int_equal(entered(env), all.entered + LINE - 1);
    expect_grants_in_order(&all);
    line_end(&all);
}

/* The first, whose request is under way, one in the middle and the last: the others go on. */
static void a_waiter_that_gives_up_does_not_delay_the_others(void **state)
{
    lk_env *env = *state;
    line all;
    line_begin(&all, env, "/shop?ttl=60s&command_timeout=60s");
    lk_proxy_hold(env->proxy, false, true);
    line_up(&all, LINE);
    give_up(&all, LINE / 2);
    give_up(&all, 0);
    give_up(&all, LINE - 1);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_waiting(all.l, LINE - GIVES_UP);
    assert_int_equal(entered(env), all.entered + LINE - GIVES_UP);
    expect_grants_in_order(&all);
    line_end(&all);
}

static bool asks_for_a_lease(void *context)
{
    const line *const all = context;
    return lk_proxy_requests(all->env->proxy, LK_EP_GRANT) > 1;
}

/* When it is the second one's turn its locker's lease is about to end, and no other one is granted yet. It gives up, and the third comes
 * once there is one. */
static void a_waiter_gives_up_while_it_waits_for_a_lease(void **state)
{
    lk_env *env = *state;
    line all;
    line_begin(&all, env, "/shop?ttl=10s&command_timeout=60s");
    pause_ms(&all, TTL_MS / 3 - LATE_MS / 2); /* another lease is asked for after a third of its time */
    lk_proxy_delay(env->proxy, 0, LATE_MS);
    line_up(&all, 3);
    lk_require(asks_for_a_lease, &all, "a lease should be asked for");
    lk_require_waiting(all.l, 1);
    give_up(&all, 1); /* before that is granted */
    assert_unless_late(entered(env) == all.entered);
    lk_require_waiting(all.l, 2);
    lk_proxy_delay(env->proxy, 0, 0);
    expect_grants_in_order(&all);
    line_end(&all);
}

/* The connection ends while all wait: they come by another one, in the same order. */
static void lose_connection(lk_env *env, bool first_gives_up)
{
    line all;
    line_begin(&all, env, "/shop?ttl=60s&command_timeout=60s");
    lk_proxy_hold(env->proxy, false, true);
    line_up(&all, LINE);
    if (first_gives_up)
        give_up(&all, 0);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_waiting(all.l, (uint64_t)(LINE - first_gives_up));
    expect_grants_in_order(&all);
    line_end(&all);
}

static void a_connection_lost_while_waiters_queue(void **state)
{
    lose_connection(*state, false);
}

/* Nobody asks again whose answer would let the next one in. */
static void a_lost_connection_when_the_first_has_given_up(void **state)
{
    lose_connection(*state, true);
}

/* A line of a service that answers is no silence of it, however long one stands there: whose time is over is told TIMEOUT. */
static void a_waiter_queued_for_longer_than_command_timeout_gets_timeout(void **state)
{
    enum { ANSWER_MS = 1100, COMMAND_MS = 3000, WAIT_MS = COMMAND_MS + 150, STAND = 6 };
    lk_env *env = *state;
    const locker_lock_options bounded = lk_wait_options(WAIT_MS);
    line all;
    line_begin(&all, env, "/shop?ttl=60s&command_timeout=3s");
    lk_proxy_delay(env->proxy, 0, ANSWER_MS);
    line_up(&all, STAND);
    lk_locking last;
    lk_locking_start(&last, all.l, "hot", &bounded);
    const locker_status status = lk_locking_join(&last);
    assert_unless_late(status == LOCKER_TIMEOUT);
    lk_proxy_delay(env->proxy, 0, 0);
    expect_grants_in_order(&all);
    line_end(&all);
}

/* The lease on which all are to be is no more: whose turn it is then asks on another one, and stays before those behind. */
static void a_lease_revoked_while_waiters_queue_for_it(void **state)
{
    lk_env *env = *state;
    line all;
    uint64_t last = 0;
    line_begin(&all, env, "/shop?ttl=60s&command_timeout=60s");
    lk_proxy_hold(env->proxy, false, true);
    line_up(&all, LINE);
    lk_etcdctl_require_count(env->etcd, "shop/hot/", 2);
    lk_etcdctl_revoke(env->etcd, lk_etcdctl_nth(env->etcd, "shop/own/", 0).lease);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_waiting(all.l, LINE);
    lk_give(all.held);
    for (int i = 1; i <= LINE; i++) { /* the first had a place, which ended with the lease */
        locker_handle *const held = lk_locking_grant(&all.calls[i % LINE]);
        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
    }
    for (int i = 0; i < LINE; i++)
        locker_cancel_free(all.cancels[i]);
    lk_require_state(all.own, LOCKER_STATE_LOST);
    locker_handle_free(all.own);
    lk_close_locker(all.l);
    lk_close_locker(all.holder);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_lease_revoked_while_waiters_queue_for_it),
    proxied_test(waiters_of_a_locker_enqueue_one_after_the_other),
    proxied_test(a_waiter_that_gives_up_does_not_delay_the_others),
    proxied_test(a_waiter_gives_up_while_it_waits_for_a_lease),
    proxied_test(a_waiter_queued_for_longer_than_command_timeout_gets_timeout),
    proxied_test(a_connection_lost_while_waiters_queue),
    proxied_test(a_lost_connection_when_the_first_has_given_up),
};

const lk_group lk_lined_up = {"line", tests, sizeof tests / sizeof tests[0], NULL, NULL};
