/* slow.c: answers that come late, on connections that are silent or break: a proxy is before the server. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "etcd_tests.h"

enum { LATE_MS = 150, RENEWALS = 3 };

static locker_lock_options permit(void)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    options.permits = 2;
    return options;
}

/* What an answer shows is believed only for a while: it is looked for again. */
static void a_slow_server_grants_locks_and_permits(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=10s");
    const locker_lock_options one = permit(), try_it = lk_wait_options(0);
    locker_handle *held[3];
    locker_error err;
    lk_proxy_delay(env->proxy, 0, LATE_MS);
    held[0] = lk_take(l, "lock");
    assert_ok(locker_lock(l, "permits", &one, &held[1], &err), err);
    assert_ok(locker_lock(l, "permits", &one, &held[2], &err), err);
    for (int i = 0; i < 3; i++)
        lk_give(held[i]);
    assert_ok(locker_lock(l, "lock", &try_it, &held[0], &err), err);
    assert_ok(locker_try_lock(l, "permits", &one, &held[1], &err), err);
    lk_give(held[0]);
    lk_give(held[1]);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
}

static void a_slow_server_renews(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=3s");
    locker_handle *held = lk_take(l, "kept");
    lk_proxy_delay(env->proxy, LATE_MS, LATE_MS);
    for (int i = 0; i < RENEWALS; i++)
        lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* A connection that is silent is left in time for another one to renew what is held. */
static void a_silent_connection_is_left_in_time(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_proxied(env, "/shop?ttl=6s"), *l = lk_open_proxied(env, "/shop?ttl=6s");
    locker_handle *held = lk_take(holder, "kept");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "kept", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/kept/", 2);
    const lk_etcdctl_key place = lk_etcdctl_nth(env->etcd, "shop/kept/", 1);
    lk_proxy_hold_old(env->proxy, true);
    for (int i = 0; i < RENEWALS; i++)
        lk_require_renewal(holder);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_token(held), place.create);
    lk_proxy_hold_old(env->proxy, false); /* what was given up arrives late, and harms nobody */
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static _Atomic int64_t left_at;

static void see_leaving(locker_log_level level, const char *text, void *user)
{
    int64_t never = 0;
    (void)level;
    (void)user;
    if (strstr(text, "does not answer") != NULL)
        atomic_compare_exchange_strong(&left_at, &never, lk_test_now_ms());
}

static size_t no_answer(const lk_message *request, char *out, size_t size)
{
    (void)request;
    (void)out;
    (void)size;
    return 0;
}

static _Atomic int ended;

static void count_ends(locker_log_level level, const char *text, void *user)
{
    (void)level;
    (void)user;
    if (strstr(text, "was lost") != NULL)
        atomic_fetch_add(&ended, 1);
}

static int begin_hasty(void **state)
{
    static const char *const options[] = {"--grpc-keepalive-interval=1s", "--grpc-keepalive-timeout=500ms",
                                          NULL};
    return lk_env_with(state, options);
}

/* Each second in which nothing is said the server asks whether we are there, and waits 0.5 s for the answer. */
static void a_server_that_asks_is_answered_at_once(void **state)
{
    enum { SILENCE_MS = 4000 };
    lk_env *env = *state;
    atomic_store(&ended, 0);
    locker *l = lk_open_logged(env->etcd->port, "/shop?ttl=60s", count_ends);
    locker_handle *const held = lk_take(l, "kept");
    assert_timely_from();
    lk_await_time(lk_test_now_ms() + SILENCE_MS);
    assert_unless_late(atomic_load(&ended) == 0);
    lk_give(held);
    lk_close_locker(l);
}

/* One request has no answer, and others have: the server has much to do, and is left later than one that is silent. */
static void a_server_that_answers_others_is_left_later(void **state)
{
    lk_env *env = *state;
    enum { PATIENCE_MS = 1000, MORE_MS = 300, MOST_MS = PATIENCE_MS };
    lk_unlocking giving;
    atomic_store(&left_at, 0);
    locker *l = lk_open_logged(lk_proxy_port(env->proxy), "/shop?ttl=6s", see_leaving);
    lk_etcdctl_do(env->etcd, "put shop/busy/somebody x");
    locker_handle *const held = lk_take(l, "given");
    lk_proxy_answer(env->proxy, LK_EP_DELETE, no_answer);
    const int64_t began = lk_test_now_ms();
    lk_unlocking_start(&giving, held);
    while (atomic_load(&left_at) == 0)
        lk_expect_busy(l, "busy");
    lk_proxy_answer(env->proxy, LK_EP_DELETE, NULL);
    assert_unless_late(atomic_load(&left_at) - began >= PATIENCE_MS + MORE_MS);
    assert_unless_late(atomic_load(&left_at) - began <= 2 * PATIENCE_MS + MOST_MS);
    assert_status(LOCKER_OK, lk_unlocking_join(&giving), giving.err);
    locker_handle_free(held);
    lk_close_locker(l);
}

/* The same for what was asked on it: a lock that is being taken, one that is given back. */
static void unanswered_requests_are_sent_again(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=6s");
    locker_handle *held = lk_take(l, "given");
    lk_locking taking;
    lk_unlocking giving;
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&taking, l, "taken", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/taken/", 1);
    lk_unlocking_start(&giving, held);
    lk_etcdctl_require_count(env->etcd, "shop/given/", 0);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_hold(env->proxy, false, false);
    lk_give(lk_locking_grant(&taking));
    const locker_status status = lk_unlocking_join(&giving);
    if (status != LOCKER_OK) /* it was gone when it was asked again */
        assert_status(LOCKER_UNKNOWN, status, giving.err);
    locker_handle_free(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
}

/* It was the first when that was said, and isn't there any more when it is heard. */
static void a_place_that_has_gone_meanwhile(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=20s");
    lk_locking taking;
    lk_give(lk_take(l, "other"));
    lk_proxy_delay(env->proxy, 0, 2000);
    lk_locking_start(&taking, l, "gone", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/gone/", 1);
    lk_etcdctl_do(env->etcd, "del %s", lk_etcdctl_nth(env->etcd, "shop/gone/", 0).name);
    lk_proxy_delay(env->proxy, 0, 0);
    locker_handle *held = lk_locking_grant(&taking);
    if (assert_unless_late(locker_handle_state(held) ==
                           LOCKER_STATE_HELD)) { /* it was deleted before it was heard */
        assert_int_equal(lk_etcdctl_nth(env->etcd, "shop/gone/", 0).create, locker_handle_token(held));
        lk_give(held);
    } else {
        lk_give_lost(held);
    }
    lk_close_locker(l);
}

/* A waiter's predecessor goes while there is no connection. */
static void a_deletion_without_a_watch_event(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=30s");
    lk_locking waiter;
    lk_etcdctl_do(env->etcd, "put shop/untold/somebody x");
    lk_locking_start(&waiter, l, "untold", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/untold/", 2);
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_etcdctl_do(env->etcd, "del shop/untold/somebody");
    lk_proxy_refuse(env->proxy, false);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* A lock is broken while its release has no answer: that it was given back is not said then. */
static void a_lock_that_is_broken_while_it_is_given_back(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=8s");
    locker_handle *held = lk_take(l, "given"), *other = lk_take(l, "other");
    lk_unlocking giving;
    lk_proxy_hold(env->proxy, true, false);
    lk_unlocking_start(&giving, held);
    lk_proxy_refuse(env->proxy, true);
    lk_require_state(other, LOCKER_STATE_SUSPECT); /* it was asked, and is to be asked again */
    lk_etcdctl_do(env->etcd, "del %s", lk_etcdctl_nth(env->etcd, "shop/given/", 0).name);
    lk_proxy_hold(env->proxy, false, false);
    lk_proxy_refuse(env->proxy, false);
    assert_status(LOCKER_UNKNOWN, lk_unlocking_join(&giving), giving.err);
    locker_handle_free(held);
    lk_give(other);
    lk_close_locker(l);
}

/* Who gives up while there is no connection has a place still, until there is one. */
static void an_abandoned_place_is_deleted_later(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_proxied(env, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "left");
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking waiter;
    options.cancel = locker_cancel_new();
    lk_locking_start(&waiter, l, "left", &options);
    lk_etcdctl_require_count(env->etcd, "shop/left/", 2);
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    locker_cancel_fire(options.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/left/"), 2);
    lk_proxy_refuse(env->proxy, false);
    lk_etcdctl_require_count(env->etcd, "shop/left/", 1);
    locker_cancel_free(options.cancel);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* The deletion of what was left is asked for twice, and the first comes when the next place is there: that has another name. */
static void a_deletion_that_comes_late(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s"), *l = lk_open_proxied(env, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "late");
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking waiter;
    lk_give(lk_take(l, "other"));
    options.cancel = locker_cancel_new();
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_ENTER, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_locking_start(&waiter, l, "late", &options);
    lk_etcdctl_require_count(env->etcd, "shop/late/", 2);
    lk_proxy_await_harm(env->proxy, 1);
    locker_cancel_fire(options.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_EP_DELETE, 1, 0);
    lk_proxy_refuse(env->proxy, false);
    lk_etcdctl_require_count(env->etcd, "shop/late/", 1);
    lk_await_time(lk_test_now_ms() + LATE_MS); /* so that its name would be free */
    lk_give(held);
    held = lk_take(l, "late");
    lk_do_withheld(env);
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/late/"), 1);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    locker_cancel_free(options.cancel);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* ------------------------------------------------------------------ permits ---- */

#define PERMITS "shop/permit%permits/1-"

/* Somebody waits for the one permit and takes it when it is given back; the answer to that is cut off. Answers the revision of the
 * permit's key. */
static int64_t take_unanswered(lk_env *env, locker *l, const locker_lock_options *one, lk_locking *waiter)
{
    locker *holder = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(holder, "permit", one, &held, &err), err);
    lk_locking_start(waiter, l, "permit", one);
    lk_etcdctl_require_count(env->etcd, PERMITS "want-", 1);
    lk_proxy_delay(env->proxy, 0, 3000);
    lk_give(held);
    lk_close_locker(holder);
    lk_etcdctl_require_count(env->etcd, PERMITS "want-", 0);
    const int64_t created = lk_etcdctl_nth(env->etcd, PERMITS "slot-", 0).create;
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_delay(env->proxy, 0, 0);
    return created;
}

static locker_lock_options the_only_one(void)
{
    locker_lock_options options = permit();
    options.permits = 1;
    return options;
}

/* Who waits comes between a try's look and its request: the try is later. */
static void a_try_for_a_permit_does_not_overtake(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=20s");
    locker_lock_options one = the_only_one();
    lk_locking trying;
    lk_give(lk_take(l, "other"));
    one.wait_ms = 0;
    lk_proxy_delay(env->proxy, 0, 2000);
    lk_locking_start(&trying, l, "permit", &one);
    lk_await_time(lk_test_now_ms() + 300); /* it looks */
    lk_etcdctl_do(env->etcd, "put %swant-somebody x", PERMITS);
    lk_proxy_delay(env->proxy, 0, 0);
    if (!assert_unless_late(lk_locking_join(&trying) == LOCKER_BUSY)) /* it had asked before */
        locker_handle_free(trying.held);
    lk_close_locker(l);
}

/* A permit is left to each who waits, as he is about to take it. */
static void a_try_leaves_permits_to_waiters(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    const locker_lock_options two = permit();
    locker_handle *held, *none = NULL;
    locker_error err;
    lk_etcdctl_do(env->etcd, "put shop/permit%%permits/2-want-somebody x");
    assert_ok(locker_try_lock(l, "permit", &two, &held, &err), err);
    assert_int_equal(locker_handle_slot(held), 1);
    assert_status(LOCKER_BUSY, locker_try_lock(l, "permit", &two, &none, &err), err);
    lk_give(held);
    lk_close_locker(l);
}

/* Who comes later waits for one who is about to take the permit, though it is free. */
static void a_wait_for_a_permit_does_not_overtake(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s");
    const locker_lock_options one = the_only_one();
    lk_locking waiter;
    lk_etcdctl_do(env->etcd, "put %swant-somebody x", PERMITS);
    lk_locking_start(&waiter, l, "permit", &one);
    lk_etcdctl_require_count(env->etcd, PERMITS "want-", 2);
    lk_await_time(lk_test_now_ms() + LATE_MS);
    assert_int_equal(lk_stats(l).acquired, 0);
    lk_etcdctl_do(env->etcd, "del %swant-somebody", PERMITS);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

static void a_permit_whose_answer_was_lost_is_ours(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=20s");
    const locker_lock_options one = the_only_one();
    lk_locking waiter;
    const int64_t created = take_unanswered(env, l, &one, &waiter);
    lk_proxy_refuse(env->proxy, false);
    locker_handle *held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_token(held), created);
    lk_give(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_close_locker(l);
}

/* ... unless nobody wants it any more: then it is there for others before its lease ends. */
static void a_permit_whose_caller_has_gone_is_given_back(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s&command_timeout=20s");
    locker_lock_options one = the_only_one();
    lk_locking waiter;
    one.cancel = locker_cancel_new();
    (void)take_unanswered(env, l, &one, &waiter);
    locker_cancel_fire(one.cancel);
    const bool canceled = assert_unless_late(lk_locking_join(&waiter) == LOCKER_CANCELED);
    lk_proxy_refuse(env->proxy, false);
    if (!canceled) /* it was answered before */
        locker_handle_free(waiter.held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    locker_cancel_free(one.cancel);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_server_that_answers_others_is_left_later),
    cmocka_unit_test_setup_teardown(a_server_that_asks_is_answered_at_once, begin_hasty, lk_env_end),
    proxied_test(a_slow_server_grants_locks_and_permits),
    proxied_test(a_slow_server_renews),
    proxied_test(a_silent_connection_is_left_in_time),
    proxied_test(unanswered_requests_are_sent_again),
    proxied_test(a_place_that_has_gone_meanwhile),
    proxied_test(a_deletion_without_a_watch_event),
    proxied_test(a_lock_that_is_broken_while_it_is_given_back),
    proxied_test(an_abandoned_place_is_deleted_later),
    proxied_test(a_deletion_that_comes_late),
    proxied_test(a_try_for_a_permit_does_not_overtake),
    server_test(a_try_leaves_permits_to_waiters),
    server_test(a_wait_for_a_permit_does_not_overtake),
    proxied_test(a_permit_whose_answer_was_lost_is_ours),
    proxied_test(a_permit_whose_caller_has_gone_is_given_back),
};

const lk_group lk_slow = {"slow", tests, sizeof tests / sizeof tests[0], NULL, NULL};
