/* replies.c: answers that are lost, or come late, by a proxy: what the server has done is found out, and nothing of it is in the way. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
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

/* The server can't grant the next one, nor revoke one, and says so at once: it is not asked without a pause. */
static void leases_whose_state_is_unknown(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    locker_handle *held = lk_take(l, "kept");
    const lk_passed grants = lk_proxy_passed(env->proxy, LK_EP_GRANT);
    lk_proxy_answer(env->proxy, LK_EP_GRANT, lk_proxy_etcd_unavailable);
    int64_t began = lk_test_now_ms();
    lk_have_it_move(env, l);
    lk_proxy_await_passed(grants, 9); /* by three connections: each is left after three such answers */
    assert_true(lk_test_now_ms() - began >= 300);
    const lk_passed revocations = lk_proxy_passed(env->proxy, LK_EP_REVOKE);
    lk_proxy_answer(env->proxy, LK_EP_REVOKE, lk_proxy_etcd_unavailable);
    began = lk_test_now_ms();
    lk_proxy_answer(env->proxy, LK_EP_GRANT, NULL);
    lk_proxy_await_passed(revocations, 8); /* of the one that it was on */
    assert_true(lk_test_now_ms() - began >= 400);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_proxy_answer(env->proxy, LK_EP_REVOKE, NULL);
    lk_give(held);
    lk_close_locker(l);
}

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
static void a_lease_without_a_caller_is_revoked(void **state)
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

static size_t nothing(const lk_message *request, char *out, size_t size)
{
    (void)request;
    (void)out;
    (void)size;
    return 0;
}

/* ... and asked for once more, on another lease, with no answer yet: the one that it may be on is not revoked, though the locker's own
 * thread looks at the leases, before it has the permit watched. */
static void a_lease_that_a_place_may_be_on(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    locker_lock_options one = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking waiter;
    locker_handle *held;
    locker_error err;
    one.permits = 1;
    lk_give(lk_take(l, "warm"));
    lk_etcdctl_do(env->etcd, "put shop/place/somebody x");
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_ENTER, 1, 0);
    lk_locking_start(&waiter, l, "place", NULL);
    lk_proxy_await_harm(env->proxy, 1);
    const int64_t place = lk_etcdctl_nth(env->etcd, "shop/place/", 1).create;
    const lk_passed entered = lk_proxy_passed(env->proxy, LK_EP_ENTER);
    lk_proxy_answer(env->proxy, LK_EP_ENTER, nothing);
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_await_passed(entered, 1);
    const lk_passed watched = lk_proxy_passed(env->proxy, LK_EP_WATCH);
    assert_ok(locker_try_lock(l, "permit", &one, &held, &err), err);
    lk_proxy_await_passed(watched, 1);
    assert_int_equal(lk_proxy_requests(env->proxy, LK_EP_REVOKE), 0);
    lk_proxy_answer(env->proxy, LK_EP_ENTER, NULL);
    lk_proxy_cut_all(env->proxy);
    lk_etcdctl_do(env->etcd, "del shop/place/somebody");
    lk_give(held);
    held = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_token(held), place);
    lk_give(held);
    lk_close_locker(l);
}

/* The key ahead is deleted before the watch comes, and that very revision is what is compacted: the servers before 3.4.36 and 3.5.18
 * tell such a watch neither of the one nor of the other. */
static void a_deletion_that_a_compaction_hides(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, SHOP);
    lk_locking waiter;
    lk_give(lk_take(l, "warm"));
    lk_etcdctl_do(env->etcd, "put shop/hidden/somebody x");
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&waiter, l, "hidden", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/hidden/", 2);
    const int64_t entered = lk_etcdctl_nth(env->etcd, "shop/hidden/", 1).modified;
    lk_proxy_hold(env->proxy, true, false);
    rest(50);
    lk_etcdctl_do(env->etcd, "del shop/hidden/somebody");
    lk_etcdctl_do(env->etcd, "compact %lld", (long long)entered + 1);
    lk_proxy_hold(env->proxy, false, false);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
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

/* Of a lock that isn't renewed the time counts from its attempt, of which there may be several: the call lasts as long as it was told. */
static void a_brief_lock_on_a_slow_line(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=600ms");
    locker_lock_options brief = lk_wait_options(4000);
    locker_handle *held;
    locker_error err;
    brief.no_renew = true;
    lk_proxy_delay(env->proxy, 0, 120);
    if (assert_unless_late(locker_lock(l, "brief", &brief, &held, &err) == LOCKER_OK)) {
        assert_unless_late(locker_handle_remaining_ms(held) > 0);
        (void)locker_unlock(held, &err);
        locker_handle_free(held);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what is left ---- */

/* A place behind a lock of another's. */
static void wait_behind(lk_env *env, locker *l, const char *key, lk_locking *waiter,
                        locker_lock_options *options)
{
    char queue[64];
    snprintf(queue, sizeof queue, "shop/%s/", key);
    *options = lk_wait_options(LK_TEST_PATIENCE_MS);
    options->cancel = locker_cancel_new();
    lk_etcdctl_do(env->etcd, "put %ssomebody x", queue);
    lk_locking_start(waiter, l, key, options);
    lk_etcdctl_require_count(env->etcd, queue, 2);
    lk_require_waiting(l, 1);
}

static void cancel(lk_locking *waiter, locker_lock_options *options)
{
    locker_cancel_fire(options->cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(waiter), waiter->err);
    locker_cancel_free(options->cancel);
}

/* The server can't delete what was left, and says so at once: it is not asked without a pause. */
static void a_deletion_that_can_not_be_done_now(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    locker_lock_options options;
    lk_locking waiter;
    wait_behind(env, l, "left", &waiter, &options);
    lk_proxy_answer(env->proxy, LK_EP_DELETE, lk_proxy_etcd_unavailable);
    const lk_passed deletions = lk_proxy_passed(env->proxy, LK_EP_DELETE);
    const int64_t began = lk_test_now_ms();
    cancel(&waiter, &options);
    lk_proxy_await_passed(deletions, 9); /* by three connections: each is left after three such answers */
    assert_true(lk_test_now_ms() - began >= 500);
    lk_proxy_answer(env->proxy, LK_EP_DELETE, NULL);
    lk_etcdctl_require_count(env->etcd, "shop/left/", 1);
    lk_close_locker(l);
}

/* A place was put to another lease, of which nothing is known, as the answer was lost; it is left, and the lease that it was on is
 * revoked. It is deleted all the same. */
static void a_move_in_doubt_outlives_its_old_lease(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, LONG);
    locker_lock_options options;
    lk_locking waiter;
    wait_behind(env, l, "moved", &waiter, &options);
    const uint64_t old = lk_etcdctl_nth(env->etcd, "shop/moved/", 1).lease;
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_MOVE, 1, 0);
    lk_have_it_move(env, l);
    lk_proxy_await_harm(env->proxy, 1);
    assert_false(lk_etcdctl_nth(env->etcd, "shop/moved/", 1).lease == old);
    cancel(&waiter, &options);
    lk_proxy_answer(env->proxy, LK_EP_DELETE, lk_proxy_etcd_unavailable);
    const lk_passed revocations = lk_proxy_passed(env->proxy, LK_EP_REVOKE);
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_await_passed(revocations, 1);
    lk_proxy_await_passed(lk_proxy_passed(env->proxy, LK_EP_DELETE), 4); /* it is heard of meanwhile */
    lk_proxy_answer(env->proxy, LK_EP_DELETE, NULL);
    lk_etcdctl_require_count(env->etcd, "shop/moved/", 1);
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

static int patient(void **state)
{
    static const char *const options[] = {LK_TEST_ETCD_FAST, "--election-timeout=5000", NULL};
    if (lk_env_with(state, options) != 0)
        return -1;
    lk_env *env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    return 0;
}

/* Servers keep a lease for 7.5 s at least, by their election time-out: what may be on one that nobody wants is in the way for no
 * longer than the connection is away. */
static void a_permit_without_a_caller_is_freed(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=300ms"), *rival = lk_open_at(env->etcd, LONG);
    locker_lock_options one = permit(1), brief = permit(1);
    locker_handle *held;
    locker_error err;
    brief.wait_ms = 50;
    assert_ok(locker_lock(l, "permit", &one, &held, &err), err);
    lk_give(held);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_EP_TAKE, 1, 0);
    lk_locking unwanted;
    lk_locking_start(&unwanted, l, "permit", &brief);
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_refuse(env->proxy, true);
    assert_int_not_equal(lk_locking_join(&unwanted), LOCKER_OK);
    lk_etcdctl_require_count(env->etcd, "shop/permit", 1);
    rest(700);
    lk_proxy_refuse(env->proxy, false);
    one.wait_ms = 4000;
    assert_ok(locker_lock(rival, "permit", &one, &held, &err), err);
    lk_give(held);
    lk_close_locker(rival);
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

typedef struct {
    lk_harm harm;
    size_t bytes;
} harmed;

/* A lock, or a permit, is taken and given back, with one answer harmed. */
static void take_and_give_harmed(lk_env *env, locker *l, const char *kind, harmed by, bool is_permit)
{
    locker_lock_options options = is_permit ? permit(1) : lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held;
    locker_error err;
    lk_proxy_harm(env->proxy, by.harm, kind, 1, by.bytes);
    assert_ok(locker_lock(l, is_permit ? "permit" : "lock", &options, &held, &err), err);
    rest(10);
    assert_int_equal(lk_etcdctl_nth(env->etcd, is_permit ? "shop/permit" : "shop/lock", 0).create,
                     locker_handle_token(held));
    const locker_status status = locker_unlock(held, &err);
    if (strcmp(kind, LK_EP_DELETE) != 0 || status != LOCKER_UNKNOWN)
        assert_status(LOCKER_OK, status, err);
    locker_handle_free(held);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
}

static void answers_are_cut_or_harmed(void **state)
{
    static const harmed ways[] = {{LK_PROXY_CUT, 0},     {LK_PROXY_CUT, 1},     {LK_PROXY_CUT, 9},
                                  {LK_PROXY_CUT, 12},    {LK_PROXY_GARBAGE, 0}, {LK_PROXY_SWALLOW, 0},
                                  {LK_PROXY_TRICKLE, 0}, {LK_PROXY_WITHHOLD, 0}};
    static const char *const kinds[] = {LK_EP_ENTER, LK_EP_DELETE, LK_EP_TAKE};
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, SHOP);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
            if (n < 2)
                take_and_give_harmed(env, l, kinds[n], ways[i], false);
            take_and_give_harmed(env, l, kinds[n], ways[i], true);
        }
    assert_int_equal(lk_proxy_harmed(env->proxy), 5 * sizeof ways / sizeof *ways);
    lk_close_locker(l);
}

/* What is asked for at the end is asked for again, though the locker's own thread has ended by then. */
static void the_answers_to_a_close_are_lost(void **state)
{
    static const char *const kinds[] = {LK_EP_DELETE, LK_EP_REVOKE};
    lk_env *env = *state;
    for (unsigned i = 0; i < 4; i++) {
        locker *l = lk_open_proxied(env, LONG);
        locker_handle *held = lk_take(l, "open");
        lk_proxy_harm(env->proxy, i < 2 ? LK_PROXY_CUT : LK_PROXY_WITHHOLD, kinds[i % 2], 1, 0);
        const int64_t began = lk_test_now_ms();
        lk_close_locker(l);
        assert_timely(lk_test_now_ms() - began, LK_TEST_SLACK_MS);
        assert_int_equal(lk_proxy_harmed(env->proxy), i + 1);
        assert_int_equal(lk_etcdctl_count(env->etcd, "shop/"), 0);
        locker_handle_free(held);
    }
    char said[512];
    assert_true(lk_etcdctl_try(env->etcd, said, sizeof said, "lease list"));
    assert_non_null(strstr(said, "found 0 leases"));
}

/* Refuse a request as a user without the right gets it refused, except for the second key. */
static size_t refuse_others(const lk_message *request, char *out, size_t size)
{
    static const char *const words[] = {"grpc-status", "7", "grpc-message", "etcdserver: permission denied"};
    static const char second[] = "/bbb/";
    size_t at = 9;
    (void)size;
    for (size_t i = 0; i + sizeof second - 1 <= request->length; i++)
        if (memcmp(request->bytes + i, second, sizeof second - 1) == 0)
            return 0;
    memcpy(out, request->bytes, at); /* a frame's head, with the stream */
    out[at++] = '\x88';              /* :status 200 */
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t len = strlen(words[i]);
        if (i % 2 == 0)
            out[at++] = 0; /* a header, whose name follows */
        out[at++] = (char)len;
        memcpy(out + at, words[i], len);
        at += len;
    }
    out[0] = out[1] = 0;
    out[2] = (char)(at - 9);
    out[3] = 1; /* HEADERS */
    out[4] = 5; /* END_STREAM, END_HEADERS */
    return at;
}

typedef struct {
    locker_handle *held;
    locker_status status;
    locker_error err;
} unlocking;

static void *unlock_all(void *argument)
{
    unlocking *const u = argument;
    u->status = locker_unlock(u->held, &u->err);
    return NULL;
}

/* The first delete was carried out, and its answer lost; the second one is refused. A move then finds no key. */
static void a_refused_release_after_a_lost_answer_is_unknown(void **state)
{
    static const char *const keys[] = {"aaa", "bbb", "ccc"};
    lk_env *const env = *state;
    locker *const l = lk_open_proxied(env, "/shop?ttl=6s&command_timeout=6s");
    unlocking u = {.held = NULL};
    locker_error err;
    pthread_t thread;
    assert_ok(locker_lock_all(l, keys, 3, NULL, &u.held, &err), err);
    lk_etcdctl_require_count(env->etcd, "shop/", 3);
    lk_proxy_hold(env->proxy, false, true);
    assert_int_equal(pthread_create(&thread, NULL, unlock_all, &u), 0);
    lk_etcdctl_require_count(env->etcd, "shop/", 0);
    lk_proxy_answer(env->proxy, LK_EP_DELETE, refuse_others);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_hold(env->proxy, false, false);
    lk_join(thread, "unlock");
    assert_status(LOCKER_UNKNOWN, u.status, u.err);
    locker_handle_free(u.held);
    lk_proxy_answer(env->proxy, LK_EP_DELETE, NULL);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_refused_release_after_a_lost_answer_is_unknown),
    proxied_test(leases_whose_state_is_unknown),
    proxied_test(the_answer_to_a_renewal_is_lost),
    proxied_test(a_lease_without_a_caller_is_revoked),
    proxied_test(the_answers_to_a_move_and_a_lock_are_lost),
    proxied_test(the_answer_to_a_place_is_lost),
    proxied_test(a_lease_that_a_place_may_be_on),
    proxied_test(a_deletion_that_a_compaction_hides),
    proxied_test(the_answer_to_a_try_is_lost),
    proxied_test(a_brief_lock_on_a_slow_line),
    proxied_test(a_deletion_that_can_not_be_done_now),
    proxied_test(a_move_in_doubt_outlives_its_old_lease),
    proxied_test(a_permit_is_answered_late),
    proxied_test(the_answer_to_a_permit_is_lost),
    cmocka_unit_test_setup_teardown(a_permit_without_a_caller_is_freed, patient, lk_env_end),
    proxied_test(the_answer_to_an_unlock_is_lost),
    proxied_test(the_answer_to_a_break_is_lost),
    proxied_test(answers_are_cut_or_harmed),
    proxied_test(the_answers_to_a_close_are_lost),
};

const lk_group lk_replies = {"replies", tests, sizeof tests / sizeof tests[0], NULL, NULL};
