/* replies.c: the server does what it is asked, and its answer gets lost; for create, list, delete and the
 * heartbeat. No node without an owner stays, and no answer is wrong. */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <locker/driver.h>

#include "zk_tests.h"

/* Unlocks. A delete whose answer was lost, and that is confirmed only after the deadline, may be unknown. */
static void give_in_time(locker_handle *held)
{
    const int64_t began = lk_test_now_ms(), remaining = locker_handle_remaining_ms(held);
    locker_error err;
    const locker_status status = locker_unlock(held, &err);
    if (status != LOCKER_UNKNOWN || lk_test_now_ms() - began < remaining)
        assert_ok(status, err);
    locker_handle_free(held);
}

/* Takes and gives a lock while the reply to a request of that kind is harmed. */
static void survive(lk_env *env, lk_harm harm, const char *kind, unsigned nth, size_t bytes, unsigned harms)
{
    /* of a connection that is silent the client library thinks for two thirds of the session */
    locker *l = lk_open_through(env, harm == LK_PROXY_SWALLOW ? "/shop?ttl=4s&command_timeout=20s"
                                                              : "/shop?ttl=20s&command_timeout=20s");
    locker_handle *held = lk_take(l, "lost");
    const uint64_t token = locker_handle_token(held);

    lk_give(held); /* the key's parents are there */
    lk_proxy_harm(env->proxy, harm, kind, nth, bytes);
    held = lk_take(l, "lost");
    assert_true(locker_handle_token(held) > token); /* also when it is read off a node that a search found */
    lk_expect_busy(l, "lost");
    lk_zkc_require_count(env->client, "/shop/lost", 1);
    give_in_time(held);
    lk_proxy_await_harm(env->proxy, harms);
    lk_zkc_require_count(env->client, "/shop/lost", 0);
    lk_close_locker(l);
}

static void the_reply_to_create_is_cut_off(void **state)
{
    survive(*state, LK_PROXY_CUT, LK_ZKP_CREATE2, 1, 0, 1);
}

static void the_reply_to_create_never_comes(void **state)
{
    survive(*state, LK_PROXY_SWALLOW, LK_ZKP_CREATE2, 1, 0, 1);
}

static void the_reply_to_create_is_garbage(void **state)
{
    survive(*state, LK_PROXY_GARBAGE, LK_ZKP_CREATE2, 1, 0, 1);
}

/* Cut within the frame's length, the header, the path and the stat. */
static void the_reply_to_create_is_cut_at_each_part(void **state)
{
    static const size_t bytes[] = {1, 4, 7, 12, 20, 24, 40, 90, 120};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        survive(*state, LK_PROXY_CUT, LK_ZKP_CREATE2, 1, bytes[i], (unsigned)i + 1);
}

static void the_reply_to_list_is_cut_off(void **state)
{
    survive(*state, LK_PROXY_CUT, LK_ZKP_LIST, 1, 0, 1);
}

static void the_reply_to_delete_is_cut_off(void **state)
{
    survive(*state, LK_PROXY_CUT, LK_ZKP_DELETE, 1, 0, 1);
}

static void the_reply_to_delete_never_comes(void **state)
{
    survive(*state, LK_PROXY_SWALLOW, LK_ZKP_DELETE, 1, 0, 1);
}

static void the_reply_to_delete_is_garbage(void **state)
{
    survive(*state, LK_PROXY_GARBAGE, LK_ZKP_DELETE, 1, 0, 1);
}

/* An eighth of a session of 120 s. */
enum { NEXT_HEARTBEAT_MS = 15000 };

/* A waiter whose create was executed, but not answered, keeps its place: it is looked for behind a check, by
 * which no server misses it, and not made again. */
static void a_waiters_create_is_cut_off(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop?ttl=120s");
    locker_handle *held = lk_take(holder, "waited");
    lk_passed creates = lk_proxy_passed(env->proxy, LK_ZKP_CREATE2),
              checks = lk_proxy_passed(env->proxy, LK_ZKP_MULTI);
    const int64_t began = lk_test_now_ms();
    lk_locking waiter;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_CREATE2, 1, 0);
    lk_locking_start(&waiter, l, "waited", NULL);
    lk_proxy_await_harm(env->proxy, 1);
    lk_require_waiting(l, 1);
    lk_zkc_require_count(env->client, "/shop/waited", 2);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_zkc_require_count(env->client, "/shop/waited", 1);
    assert_int_equal(lk_proxy_requests(env->proxy, LK_ZKP_CREATE2), creates.count + 1);
    lk_proxy_await_passed(checks, 2); /* the heartbeat of the new connection is one, too */
    assert_timely(lk_test_now_ms() - began, NEXT_HEARTBEAT_MS);
    lk_give(waiter.held);
    lk_zkc_require_count(env->client, "/shop/waited", 0);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* The caller stops waiting while the answer to its create is out: the node goes when it turns up. */
static void a_canceled_create_leaves_no_orphan(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=10s&command_timeout=10s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_cancel *cancel = locker_cancel_new();
    lk_locking waiter;
    int64_t fired;
    lk_give(lk_take(l, "orphan"));
    options.cancel = cancel;
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&waiter, l, "orphan", &options);
    lk_zkc_require_count(env->client, "/shop/orphan", 1);
    fired = lk_test_now_ms();
    locker_cancel_fire(cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    assert_timely(lk_test_now_ms() - fired, LK_TEST_SLACK_MS);
    lk_proxy_hold(env->proxy, false, false);
    lk_zkc_require_count(env->client, "/shop/orphan", 0);
    lk_give(lk_take(l, "orphan"));
    lk_close_locker(l);
    locker_cancel_free(cancel);
}

/* The service is silent: unlock answers UNKNOWN in time, and the node is deleted once it can be. */
static void an_unlock_without_an_answer(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=300ms");
    locker_handle *held = lk_take(l, "silent");
    int64_t began = lk_test_now_ms();
    locker_error err;
    lk_proxy_hold(env->proxy, true, true);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    assert_timely(lk_test_now_ms() - began, 300 + LK_TEST_SLACK_MS);
    assert_int_equal(lk_zkc_count(env->client, "/shop/silent"), 1);
    lk_proxy_hold(env->proxy, false, false);
    lk_zkc_require_count(env->client, "/shop/silent", 0);
    locker_handle_free(held);
    lk_close_locker(l);
}

static bool has_asked_again(void *context)
{
    locker *l = context;
    return lk_stats(l).attempts >= 3;
}

/* A new session's first lock: the server takes its time, longer than command_timeout, and the call waits. */
static void a_wait_outlasts_a_silent_server(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=200ms");
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking waiter;
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&waiter, l, "slow", &options);
    lk_require(has_asked_again, l, "the call should go on");
    lk_proxy_hold(env->proxy, false, false);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    locker_handle_free(waiter.held);
    lk_zkc_require_count(env->client, "/shop/slow", 0);
    lk_close_locker(l);
}

/* A claim as core makes it for a call that waits, for the driver itself. */
static locker_claim *claim_of(const locker_driver *driver, const char *key, int64_t attempt_ms)
{
    const int64_t now = lk_test_now_ms() * 1000000;
    struct {
        locker_claim claim; /* the first member: what is freed is all */
        _Alignas(16) char data[];
    } *made = calloc(1, sizeof *made + driver->claim_size);
    assert_non_null(made);
    made->claim = (locker_claim){.key = key,
                                 .key_len = strlen(key),
                                 .key_hash = locker_key_hash(key, strlen(key)),
                                 .owner = "me",
                                 .data = made->data,
                                 .ttl_ns = INT64_C(20000000000),
                                 .will_wait = true,
                                 .renewed = true,
                                 .asked_at = now,
                                 .attempt_until = now + attempt_ms * 1000000};
    return &made->claim;
}

/* The connection may be back before core has looked: so it is not by `suspect` that it knows to ask again. */
static void an_attempt_without_a_connection_is_not_the_last(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s");
    void *self = NULL;
    const locker_driver *driver = locker_driver_of(l, &self);
    locker_handle *held = lk_take(l, "held");
    locker_claim *claim;
    locker_error err;
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    claim = claim_of(driver, "away", 200);
    assert_int_equal(driver->acquire(self, claim, &err), LOCKER_UNAVAILABLE);
    assert_true(claim->retry_at > 0);
    driver->withdraw(self, claim);
    lk_proxy_refuse(env->proxy, false);
    lk_give(held);
    free(claim);
    lk_close_locker(l);
}

/* Core may interrupt an attempt that is about to begin. It ends at once, though the server is silent. */
static void an_interrupt_before_the_attempt(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s");
    void *self = NULL;
    const locker_driver *driver = locker_driver_of(l, &self);
    locker_claim *claim = claim_of(driver, "early", 10000);
    int64_t began = lk_test_now_ms();
    locker_error err;
    lk_proxy_hold(env->proxy, true, true);
    driver->interrupt(self, claim);
    assert_int_equal(driver->acquire(self, claim, &err), LOCKER_CANCELED);
    driver->withdraw(self, claim);
    assert_timely(lk_test_now_ms() - began, LK_TEST_SLACK_MS);
    lk_proxy_hold(env->proxy, false, false);
    lk_zkc_require_count(env->client, "/shop/early", 0);
    free(claim);
    lk_close_locker(l);
}

/* Heartbeats whose answers are kept back don't move the deadline, though the connection stays. */
static void heartbeats_without_answers(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=2s");
    locker_handle *held = lk_take(l, "beat");
    int64_t held_back = lk_test_now_ms();
    lk_proxy_hold(env->proxy, false, true);
    lk_require_lost_by(held, held_back + 2000);
    lk_proxy_hold(env->proxy, false, false);
    lk_give(lk_take(l, "beat"));
    lk_give_lost(held);
    lk_close_locker(l);
}

/* A list is fresh by the check before it. A server that is too busy for that, and has time for the list, is
 * asked again. */
static void a_check_that_is_not_served_proves_nothing(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop?ttl=60s");
    locker_handle *held = lk_take(holder, "checked");
    lk_passed checks = lk_proxy_passed(env->proxy, LK_ZKP_MULTI);
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_proxy_forge(env->proxy, LK_ZKP_MULTI, lk_proxy_zookeeper_throttled);
    lk_expect_busy(l, "checked");
    assert_int_equal(lk_proxy_harmed(env->proxy), 1);
    assert_int_equal(lk_proxy_requests(env->proxy, LK_ZKP_MULTI), checks.count + 2);
    lk_proxy_forge(env->proxy, LK_ZKP_MULTI, lk_proxy_zookeeper_throttled);
    assert_status(LOCKER_UNAVAILABLE, locker_show(l, "checked", &info, &err), err);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static bool has_been_listed(void *context)
{
    const lk_passed *lists = context;
    return lk_proxy_requests(lists->proxy, lists->kind) > lists->count;
}

/* The answers to create and list come late: broken meanwhile, and granted to another, it was never
 * granted. */
static void a_grant_that_was_broken_before_it_was_seen_is_none(void **state)
{
    lk_env *env = *state;
    locker *rival = lk_open_at(env->zk, "/shop?ttl=60s"),
           *l = lk_open_through(env, "/shop?ttl=60s&command_timeout=20s");
    lk_locking late;
    locker_error err;
    lk_give(lk_take(rival, "unseen"));
    lk_passed lists = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&late, l, "unseen", NULL);
    lk_require(has_been_listed, &lists, "its list should be sent");
    lk_zkc_require_count(env->client, "/shop/unseen", 1);
    assert_ok(locker_break(rival, "unseen", NULL, NULL, &err), err);
    locker_handle *held = lk_take(rival, "unseen");
    const uint64_t token = locker_handle_token(held);
    usleep(150000); /* so late is too late */
    lk_proxy_hold(env->proxy, false, false);
    lk_zkc_require_count(env->client, "/shop/unseen", 2); /* it queues again */
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    held = lk_locking_grant(&late);
    assert_true(locker_handle_token(held) > token);
    lk_give(held);
    lk_close_locker(l);
    lk_close_locker(rival);
}

/* Where every answer takes long, two checks are enough for a grant. */
static void a_service_that_is_always_slow_grants(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=60s&command_timeout=20s");
    lk_give(lk_take(l, "slowly"));
    lk_passed checks = lk_proxy_passed(env->proxy, LK_ZKP_MULTI);
    lk_proxy_delay(env->proxy, 0, 150);
    locker_handle *held = lk_take(l, "slowly");
    assert_int_equal(lk_proxy_requests(env->proxy, LK_ZKP_MULTI), checks.count + 2);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give(held);
    lk_close_locker(l);
}

struct passing {
    lk_passed since;
    unsigned more;
};

/* Reads a key all the time, until so many were passed. */
static void show_until_passed(locker *l, const char *key, struct passing passing)
{
    const int64_t began = lk_test_now_ms();
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    while (lk_proxy_requests(passing.since.proxy, passing.since.kind) < passing.since.count + passing.more) {
        assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS);
        assert_ok(locker_show(l, key, &info, &err), err);
        locker_info_clear(&info);
        usleep(20000);
    }
}

/* A touch counts from its sending, P (tick/2 and T/8)  after its answer, for a heartbeat that is
 * sent then: never from an answer. */
static void a_deadline_counts_from_what_was_sent(void **state)
{
    enum { T = 8000, DELAY = 800, P = 1700 };
    lk_env *env = *state;
    locker *l;
    locker_handle *held;
    l = lk_open_through(env, "/shop?ttl=8s&tick=1400ms");
    held = lk_take(l, "slow");
    lk_proxy_delay(env->proxy, 0, DELAY);
    for (int i = 0; i < 7; i++) /* what the beginning of the connection proves is older by then */
        lk_require_renewal(l);
    assert_in_range(locker_handle_remaining_ms(held), T / 4, T * 99 / 100 - P - 2 * DELAY);
    assert_int_equal(lk_stats(l).lost, 0);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give(held);
    lk_close_locker(l);
}

/* A connection counts from when it was asked for, not from when the server said yes. */
static void a_deadline_counts_from_a_connections_beginning(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=8s");
    locker_handle *held = lk_take(l, "begun");
    lk_passed connects = lk_proxy_passed(env->proxy, LK_ZKP_CONNECT);
    int64_t asked, now;
    lk_proxy_hold(env->proxy, false, true);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_await_passed(connects, 1);
    asked = lk_test_now_ms();
    usleep(1000000);
    lk_proxy_hold(env->proxy, false, false);
    lk_require_renewal(l);
    now = lk_test_now_ms();
    assert_true(locker_handle_remaining_ms(held) <= asked + 8000 - 80 - now);
    lk_give(held);
    lk_close_locker(l);
}

/* A read is answered by a server that is cut off, too, and proves nothing. Who waits sends reads alone, so the deadline of
 * the lock that it is given goes by its create, although the reads that came since were all answered. */
static void a_read_proves_nothing(void **state)
{
    enum { T = 8000 };
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=8s&tick=200ms"), *holder = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(holder, "read");
    const lk_passed touches = lk_proxy_passed(env->proxy, LK_ZKP_EXISTS);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "read", NULL);
    lk_require_waiting(l, 1);
    const int64_t created = lk_test_now_ms();
    show_until_passed(l, "read", (struct passing){touches, 2}); /* each T/8 */
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_MULTI, 1,
                  0); /* a heartbeat goes right behind the grant, and would move it */
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    const int64_t deadline = lk_test_now_ms() + locker_handle_remaining_ms(waiter.held);
    assert_true(deadline <= created + T * 99 / 100 + 1);
    lk_give(waiter.held);
    lk_close_locker(holder);
    lk_close_locker(l);
}

/* Who waits costs the servers no transaction, but for the question about what it waits for, once in a session time-out; and
 * then it is granted the lock by a proof, as no deadline of before is far enough. */
static void waiting_asks_the_leader_seldom(void **state)
{
    enum { T = 4000 };
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=4s"), *holder = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(holder, "seldom");
    const lk_passed multis = lk_proxy_passed(env->proxy, LK_ZKP_MULTI),
                    touches = lk_proxy_passed(env->proxy, LK_ZKP_EXISTS);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "seldom", NULL);
    lk_require_waiting(l, 1);
    lk_proxy_await_passed(multis, 1);
    const int64_t asked = lk_test_now_ms();
    lk_proxy_await_passed(multis, 2);
    assert_unless_late(lk_test_now_ms() - asked >= T - LK_TEST_SLACK_MS);
    assert_true(lk_proxy_requests(env->proxy, LK_ZKP_EXISTS) - touches.count >= 8);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(lk_proxy_requests(env->proxy, LK_ZKP_MULTI) >= multis.count + 3);
    assert_true(locker_handle_remaining_ms(waiter.held) >= T / 8);
    lk_give(waiter.held);
    lk_close_locker(holder);
    lk_close_locker(l);
}

/* What was answered on a connection counts once the leader must have been told, after P. Where P leaves too
 * little of the session for a lock, no heartbeat helps, but a new connection does, which touches the session
 * at the leader itself. A process that was stopped for a while finds it so; here P is long. */
static void a_deadline_that_a_heartbeat_cannot_move(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=4s&tick=6s");
    lk_passed connects = lk_proxy_passed(env->proxy, LK_ZKP_CONNECT);
    locker_handle *held;
    lk_proxy_await_passed(lk_proxy_passed(env->proxy, LK_ZKP_EXISTS), 8); /* each eighth */
    held = lk_take(l, "old");
    assert_true(lk_proxy_requests(env->proxy, LK_ZKP_CONNECT) > connects.count);
    lk_give(held);
    lk_close_locker(l);
}

static void the_reply_to_a_heartbeat_is_cut_off(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=12s");
    locker_handle *held = lk_take(l, "beat");
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_MULTI, 1, 0);
    lk_proxy_await_harm(env->proxy, 1);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* A server that keeps the answer to a heartbeat back is left after an eighth of the session. The other
 * address leads to the same one here, which answers a new connection. */
static void a_heartbeat_without_an_answer_moves_us_on(void **state)
{
    lk_env *env = *state;
    int port = lk_proxy_port(env->proxy);
    locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=8s", port, port);
    locker_handle *held = lk_take(l, "silent");
    int64_t silent_since;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_MULTI, 1, 0);
    lk_proxy_await_harm(env->proxy, 1);
    silent_since = lk_test_now_ms();
    lk_require_renewal(l);
    assert_timely(lk_test_now_ms() - silent_since, 8000 / 4); /* an eighth, and not two thirds */
    lk_give(held);
    lk_close_locker(l);
}

/* The next one has let us in, by the leader's word; where it doesn't answer either, a leader that is slow is likelier than a
 * second server that is silent, so that one has twice as long. */
static void a_slow_leader_is_not_run_away_from(void **state)
{
    enum { TTL = 16000 };
    lk_env *env = *state;
    int port = lk_proxy_port(env->proxy);
    locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=%dms", port, port, TTL);
    locker_handle *held = lk_take(l, "slow");
    for (unsigned i = 1; i <= 2; i++) {
        lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_MULTI, 1, 0);
        lk_proxy_await_harm(env->proxy, i);
    }
    const lk_passed connects = lk_proxy_passed(env->proxy, LK_ZKP_CONNECT);
    const int64_t silent_since = lk_test_now_ms();
    lk_proxy_await_passed(connects, 1);
    assert_unless_late(lk_test_now_ms() - silent_since > TTL / 8 * 3 / 2);
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* One that answers just in time is slow still. */
static void a_slow_leader_is_known_by_its_answers(void **state)
{
    enum { TTL = 16000 };
    lk_env *env = *state;
    int port = lk_proxy_port(env->proxy);
    locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=%dms", port, port, TTL);
    locker_handle *held = lk_take(l, "slow");
    int64_t silent_since = 0;
    for (unsigned i = 1; i <= 2; i++) {
        if (i == 2)
            lk_require_renewal(l);
        lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_MULTI, 1, 0);
        lk_proxy_await_harm(env->proxy, i);
        silent_since = lk_test_now_ms();
        const lk_passed connects = lk_proxy_passed(env->proxy, LK_ZKP_CONNECT);
        lk_proxy_delay(env->proxy, 0, TTL / 8 * 3 / 4); /* before the next connection's first answer */
        lk_proxy_await_passed(connects, 1);
    }
    assert_unless_late(lk_test_now_ms() - silent_since > TTL / 8 * 3 / 2 - TTL / 8 * 3 / 4);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

enum { CONNECT_REPLY = 41 /* bytes */ };

static bool waits_no_more(void *l)
{
    return lk_stats(l).waiting == 0;
}

/* As where the watches are too many for a server to take: each connection keeps the session alive, and nothing can be done
 * in it. */
static void a_session_without_answers_ends(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=4s"), *other = lk_open_at(env->zk, "/shop?ttl=4s");
    locker_handle *held = lk_take(l, "k");
    lk_locking waiter;
    lk_locking_start(&waiter, other, "k", NULL);
    lk_require_waiting(other, 1);
    const unsigned before = lk_proxy_harmed(env->proxy);
    lk_proxy_harm_each(env->proxy, LK_PROXY_CUT, LK_ZKP_CONNECT, CONNECT_REPLY);
    lk_proxy_cut_all(env->proxy);
    lk_require(waits_no_more, other, "another should have the lock");
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    (void)assert_unless_late(lk_proxy_harmed(env->proxy) - before > 2);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    locker_handle_free(held);
    lk_give(waiter.held);
    lk_proxy_harm_none(env->proxy);
    lk_give(lk_take(l, "k")); /* in a new one */
    lk_close_locker(other);
    lk_close_locker(l);
}

/* A server that is alone, and takes a connection that it never serves, is connected to again after a quarter
 * of the session, and not after the two thirds that the client library gives it. It has taken the session up
 * on both connections by then. */
static void a_connection_that_is_never_served(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=12s");
    locker_handle *held = lk_take(l, "kept");
    int64_t silent_since;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_CONNECT, 1, 0);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_await_harm(env->proxy, 1);
    silent_since = lk_test_now_ms();
    lk_require_renewal(l);
    assert_timely(lk_test_now_ms() - silent_since, 12000 / 2);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_expect_busy(l, "kept");
    lk_give(held);
    lk_close_locker(l);
}

/* The nearer the deadline is, the sooner another attempt is made. */
static void connections_that_are_never_served(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=12s");
    locker_handle *held = lk_take(l, "kept");
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_CONNECT, 1, 0);
    lk_proxy_cut_all(env->proxy);
    for (unsigned i = 1; i <= 4; i++) { /* with a quarter for each the fifth would be too late */
        lk_proxy_await_harm(env->proxy, i);
        if (i < 4)
            lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_CONNECT, 1, 0);
    }
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* A server alone that is stopped answers none: each attempt more would only stand in its queue when it goes on. */
static void a_server_alone_that_is_silent_is_connected_to_once(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=6s&command_timeout=20s");
    locker_handle *held = lk_take(l, "silent");
    lk_require_renewal(l); /* else the client library gives the connection up before */
    const lk_passed connects = lk_proxy_passed(env->proxy, LK_ZKP_CONNECT);
    lk_proxy_harm_each(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_CONNECT, 0);
    lk_proxy_hold_old(env->proxy, true);
    lk_proxy_await_passed(connects, 1);
    assert_int_not_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    lk_require_state(held, LOCKER_STATE_LOST);
    assert_unless_late(lk_proxy_requests(env->proxy, LK_ZKP_CONNECT) - connects.count == 1);
    lk_proxy_harm_none(env->proxy);
    lk_proxy_hold_old(env->proxy, false);
    lk_give_lost(held);
    lk_close_locker(l);
}

/* While there is no connection, an unlock waits for one, and its answer is proof then. */
static void an_unlock_without_a_connection(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=8s&command_timeout=20s");
    locker_handle *held = lk_take(l, "cut-off");
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_CONNECT, 1, 0);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_await_harm(env->proxy, 1); /* the next attempt to connect is 2 s away */
    lk_give(held);
    lk_close_locker(l);
}

/* Where nothing is held yet, a server may take longer than that to open a session. */
static void a_server_that_opens_a_session_slowly(void **state)
{
    lk_env *env = *state;
    locker *l;
    lk_proxy_delay(env->proxy, 0, 1500);
    l = lk_open_through(env, "/shop?ttl=4s&connect_timeout=20s");
    assert_int_equal(lk_proxy_requests(env->proxy, LK_ZKP_CONNECT), 1);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give(lk_take(l, "slow"));
    lk_close_locker(l);
}

/* Each answer comes 300 ms late: the deadline counts from the sending, and locks are kept. */
static void a_slow_server_is_no_lost_lock(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=8s&command_timeout=20s");
    locker_handle *held;
    lk_proxy_delay(env->proxy, 0, 300);
    held = lk_take(l, "slow");
    assert_true(locker_handle_remaining_ms(held) <=
                8000 * 99 / 100 - 2 * 300); /* its parent was made first */
    lk_require_renewal(l);
    assert_int_equal(lk_stats(l).lost, 0);
    lk_give(held);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_close_locker(l);
}

/* One connection after another is cut, at random moments of the cycle, and every cycle is right. */
static void a_connection_that_breaks_again_and_again(void **state)
{
    static const char *const kinds[] = {LK_ZKP_CREATE2, LK_ZKP_LIST, LK_ZKP_DELETE};
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=10s&command_timeout=20s");
    uint64_t token = 0;
    lk_give(lk_take(l, "again"));
    for (int round = 0; round < 12; round++) {
        locker_handle *held;

        lk_proxy_harm(env->proxy, LK_PROXY_CUT, kinds[round % 3], 1, (size_t)(round * 5) % 40);
        held = lk_take(l, "again");
        assert_true(locker_handle_token(held) > token);
        token = locker_handle_token(held);
        lk_give(held);
    }
    lk_zkc_require_count(env->client, "/shop/again", 0);
    lk_close_locker(l);
}

/* A server that has lost a deletion never tells of it: those who wait find out when they ask the leader, and leave it.
 * Here each of two waiters stands behind a node whose end is not told. */
static void a_deletion_without_a_watch_event_is_found(void **state)
{
    enum { TTL = 4000 };
    lk_env *env = *state;
    const int port = lk_proxy_port(env->proxy);
    locker *holder = lk_open_at(env->zk, "/shop"), *lockers[2];
    locker_handle *held = lk_take(holder, "untold");
    lk_locking waiters[2];
    uint64_t token = locker_handle_token(held);
    for (int i = 0; i < 2; i++) {
        lockers[i] = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=%dms", port, port, TTL);
        lk_locking_start(&waiters[i], lockers[i], "untold", NULL);
        lk_zkc_require_count(env->client, "/shop/untold", (size_t)i + 2);
        lk_require_waiting(lockers[i], 1);
    }
    lk_proxy_drop_unasked(env->proxy, true);
    for (int i = 0; i < 2; i++) {
        const lk_passed before = lk_proxy_passed(env->proxy, LK_ZKP_CONNECT);
        const int64_t began = lk_test_now_ms();

        lk_give(held);
        assert_status(LOCKER_OK, lk_locking_join(&waiters[i]), waiters[i].err);
        assert_timely(waiters[i].ended_ms - began, TTL * 5 / 4 + LK_TEST_SLACK_MS);
        assert_true(locker_handle_token(waiters[i].held) > token);
        token = locker_handle_token(waiters[i].held);
        assert_true(lk_proxy_dropped(env->proxy) > 0);
        lk_proxy_await_passed(before, 1); /* the server is left */
        held = waiters[i].held;
    }
    lk_proxy_drop_unasked(env->proxy, false); /* what comes late does no harm */
    lk_give(held);
    for (int i = 0; i < 2; i++)
        lk_close_locker(lockers[i]);
    lk_give(lk_take(holder, "untold"));
    lk_close_locker(holder);
}

/* One that was lost is no answer: the next pulse asks again, and not the next session time-out. */
static void a_question_that_is_lost_is_asked_again(void **state)
{
    enum { TTL = 8000 };
    lk_env *env = *state;
    const int port = lk_proxy_port(env->proxy);
    locker *holder = lk_open_at(env->zk, "/shop"),
           *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=%dms", port, port, TTL);
    locker_handle *held = lk_take(holder, "untold");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "untold", NULL);
    lk_require_waiting(l, 1);
    lk_proxy_drop_unasked(env->proxy, true);
    lk_give(held);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_MULTI, 1, 0);
    lk_proxy_await_harm(env->proxy, 1);
    const int64_t lost = lk_test_now_ms();
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - lost, TTL / 2);
    lk_proxy_drop_unasked(env->proxy, false);
    lk_give(waiter.held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* What was held is kept: by the time for an answer that doubles it would be lost a moment before the third server is asked. A
 * lock that has been held for a while has half of the time-out left. */
static void two_servers_that_are_silent_lose_no_lock(void **state)
{
    enum { TTL = 8000 };
    lk_env *env = *state;
    const int port = lk_proxy_port(env->proxy);
    locker *l = lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/shop?ttl=%dms", port, port,
                            port, TTL);
    locker_handle *held = lk_take(l, "kept");
    lk_proxy_await_passed(lk_proxy_passed(env->proxy, LK_ZKP_MULTI), 7);
    for (unsigned i = 1; i <= 2; i++) {
        lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_MULTI, 1, 0);
        lk_proxy_await_harm(env->proxy, i);
    }
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

enum { ADDRESSES = 3 };

struct addresses {
    lk_proxy *proxy[ADDRESSES];
    int at; /* one of them; -1: none */
};

/* Whether another than the one at `at` is asked for a connection: it is at `at` then. */
static bool goes_on(void *context)
{
    struct addresses *a = context;
    const int from = a->at;
    for (int i = 0; i < ADDRESSES && a->at == from; i++)
        if (i != from && lk_proxy_requests(a->proxy[i], LK_ZKP_CONNECT) > 0)
            a->at = i;
    return a->at != from;
}

/* And not the one again that was left first. */
static void the_third_server_is_tried_third(void **state)
{
    enum { TTL = 8000 };
    lk_env *env = *state;
    struct addresses a = {.proxy = {env->proxy}, .at = -1};
    for (int i = 1; i < ADDRESSES; i++)
        a.proxy[i] = lk_proxy_begin(&lk_proxy_zookeeper, env->zk->port);
    locker *l =
        lk_open_uri("zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/shop?ttl=%dms",
                    lk_proxy_port(a.proxy[0]), lk_proxy_port(a.proxy[1]), lk_proxy_port(a.proxy[2]), TTL);
    locker_handle *held = lk_take(l, "kept");
    lk_require(goes_on, &a, "one of them should be connected to");
    const int first = a.at;
    lk_proxy_await_passed(lk_proxy_passed(a.proxy[first], LK_ZKP_MULTI), 4);
    for (int i = 0; i < ADDRESSES; i++)
        lk_proxy_hold(a.proxy[i], false, true);
    lk_require(goes_on, &a, "another should be tried");
    lk_proxy_hold(a.proxy[ADDRESSES - first - a.at], false, false);
    lk_require_renewal(l);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
    for (int i = 1; i < ADDRESSES; i++)
        lk_proxy_free(a.proxy[i]);
}

/* What a look has asked for is asked for again where the connection is lost: it changes nothing. A break looks first. */
static void show_and_break_are_retried_over_a_lost_connection(void **state)
{
    static const char *const kinds[] = {LK_ZKP_MULTI, LK_ZKP_LIST, LK_ZKP_GET};
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    locker *other = lk_open_at(env->zk, "/shop?ttl=20s");
    locker_handle *held = lk_take(other, "looked-at");
    locker_error err;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (unsigned nth = 1; nth <= (i == 2 ? 2 : 1); nth++) { /* the key's record, and the holder's node */
            locker_info info = LOCKER_INFO_INIT;
            lk_proxy_harm(env->proxy, LK_PROXY_CUT, kinds[i], nth, 0);
            assert_ok(locker_show(l, "looked-at", &info, &err), err);
            assert_true(info.token == locker_handle_token(held));
            locker_info_clear(&info);
            lk_proxy_await_harm(env->proxy, 1);
        }
    }
    for (int i = 0; i < 5; i++) { /* or where sending finds out */
        locker_info info = LOCKER_INFO_INIT;
        lk_proxy_cut_all(env->proxy);
        assert_ok(locker_show(l, "looked-at", &info, &err), err);
        locker_info_clear(&info);
    }
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_LIST, 1, 0);
    assert_ok(locker_break(l, "looked-at", NULL, NULL, &err), err);
    lk_proxy_await_harm(env->proxy, 1);
    lk_give_lost(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* The driver's calls come here: a program's own function goes before the C library's. The client library's, too, and it takes
 * no memory for that by crashing: what it copies are paths, and for watches that are set meanwhile. */
static atomic_int names_until_none = INT_MAX;
static lk_zkc *remover; /* that name is there, and it takes the first thousand of the queue away */

static void remove_thousand(void)
{
    char path[64];
    for (int n = 0; n < 1000; n++) {
        snprintf(path, sizeof path, "/shop/many/x-lock-%010d", n);
        assert_int_equal(lk_zkc_delete(remover, path), LK_ZKC_OK);
    }
}

__attribute__((visibility("default"))) char *strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    const bool is_name = strchr(text, '/') == NULL && strstr(text, "-lock-") != NULL;
    const bool is_it = is_name && atomic_fetch_sub(&names_until_none, 1) == 0;
    if (is_it && remover != NULL)
        remove_thousand();
    char *const copy = is_it && remover == NULL ? NULL : malloc(size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

/* Who has no memory for all of a queue does not know who is the first of it. */
static void a_queue_without_memory_has_no_holder(void **state)
{
    enum { WAITERS = 4 };
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=20s");
    locker_handle *held = lk_take(l, "long");
    lk_locking waiters[WAITERS];
    locker *others[WAITERS];
    locker_error err;
    for (unsigned i = 0; i < WAITERS; i++) {
        others[i] = lk_open_at(env->zk, "/shop?ttl=20s");
        lk_locking_start(&waiters[i], others[i], "long", NULL);
        lk_zkc_require_count(env->client, "/shop/long", i + 2);
    }
    for (int n = 0; n < 2 * WAITERS + 2; n++) {
        locker_info info = LOCKER_INFO_INIT;
        atomic_store(&names_until_none, n / 2);
        const locker_status status =
            n % 2 == 0 ? locker_show(l, "long", &info, &err) : locker_break(l, "long", NULL, &info, &err);
        atomic_store(&names_until_none, INT_MAX);
        assert_status(LOCKER_NOMEM, status, err);
        locker_info_clear(&info);
    }
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    for (unsigned i = 0; i < WAITERS; i++) {
        lk_give(lk_locking_grant(&waiters[i]));
        lk_close_locker(others[i]);
    }
    lk_close_locker(l);
}

/* Between the list of a queue and the reading of its first places, all of those have gone. */
static void a_queue_whose_first_thousand_go_has_a_holder(void **state)
{
    lk_env *env = *state;
    char path[64];
    locker *l = lk_open_at(env->zk, "/shop?ttl=20s&command_timeout=30s");
    (void)lk_zkc_create(env->client, "/shop", "", LK_ZKC_PLAIN, NULL);
    assert_int_equal(lk_zkc_create(env->client, "/shop/many", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    for (int n = 0; n <= 1000; n++) {
        snprintf(path, sizeof path, "/shop/many/x-lock-%010d", n);
        assert_int_equal(
            lk_zkc_create(env->client, path, n < 1000 ? "one of many" : "the last", LK_ZKC_PLAIN, NULL),
            LK_ZKC_OK);
    }
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    remover = env->client;
    atomic_store(&names_until_none, 1000);
    const locker_status status = locker_show(l, "many", &info, &err);
    atomic_store(&names_until_none, INT_MAX);
    remover = NULL;
    assert_status(LOCKER_OK, status, err);
    assert_true(info.held);
    assert_string_equal(info.owner, "the last");
    assert_int_equal(info.waiters, 0);
    locker_info_clear(&info);
    snprintf(path, sizeof path, "/shop/many/x-lock-%010d", 1000);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_close_locker(l);
}

/* A foreign client's name may be so long that the driver doesn't read it. */
static void a_foreign_name_too_long_to_read_is_a_holder(void **state)
{
    lk_env *env = *state;
    char path[2300] = "/shop/wide/";
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    locker *l = lk_open_at(env->zk, "/shop?ttl=20s");
    (void)lk_zkc_create(env->client, "/shop", "", LK_ZKC_PLAIN, NULL);
    assert_int_equal(lk_zkc_create(env->client, "/shop/wide", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    memset(path + strlen(path), 'x', 2200);
    strcpy(path + 2200, "-lock-0000000001");
    assert_int_equal(lk_zkc_create(env->client, path, "wide", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_status(LOCKER_OK, locker_show(l, "wide", &info, &err), err);
    assert_true(info.held);
    locker_info_clear(&info);
    assert_status(LOCKER_DENIED, locker_break(l, "wide", NULL, NULL, &err), err);
    assert_status(LOCKER_BUSY, locker_try_lock(l, "wide", NULL, &(locker_handle *){NULL}, &err), err);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(the_reply_to_create_is_cut_off),
    proxied_test(the_reply_to_create_never_comes),
    proxied_test(the_reply_to_create_is_garbage),
    proxied_test(the_reply_to_create_is_cut_at_each_part),
    proxied_test(the_reply_to_list_is_cut_off),
    proxied_test(the_reply_to_delete_is_cut_off),
    proxied_test(the_reply_to_delete_never_comes),
    proxied_test(the_reply_to_delete_is_garbage),
    proxied_test(a_waiters_create_is_cut_off),
    proxied_test(a_canceled_create_leaves_no_orphan),
    proxied_test(an_unlock_without_an_answer),
    proxied_test(a_wait_outlasts_a_silent_server),
    proxied_test(an_attempt_without_a_connection_is_not_the_last),
    proxied_test(an_interrupt_before_the_attempt),
    proxied_test(heartbeats_without_answers),
    proxied_test(a_check_that_is_not_served_proves_nothing),
    proxied_test(a_grant_that_was_broken_before_it_was_seen_is_none),
    proxied_test(a_service_that_is_always_slow_grants),
    proxied_test(a_deadline_counts_from_what_was_sent),
    proxied_test(a_deadline_counts_from_a_connections_beginning),
    proxied_test(a_read_proves_nothing),
    proxied_test(waiting_asks_the_leader_seldom),
    proxied_test(a_deadline_that_a_heartbeat_cannot_move),
    proxied_test(the_reply_to_a_heartbeat_is_cut_off),
    proxied_test(a_heartbeat_without_an_answer_moves_us_on),
    proxied_test(a_slow_leader_is_not_run_away_from),
    proxied_test(a_slow_leader_is_known_by_its_answers),
    proxied_test(two_servers_that_are_silent_lose_no_lock),
    proxied_test(the_third_server_is_tried_third),
    proxied_test(a_question_that_is_lost_is_asked_again),
    proxied_test(a_deletion_without_a_watch_event_is_found),
    proxied_test(a_session_without_answers_ends),
    proxied_test(a_connection_that_is_never_served),
    proxied_test(connections_that_are_never_served),
    proxied_test(a_server_alone_that_is_silent_is_connected_to_once),
    proxied_test(an_unlock_without_a_connection),
    proxied_test(a_server_that_opens_a_session_slowly),
    proxied_test(a_slow_server_is_no_lost_lock),
    proxied_test(a_connection_that_breaks_again_and_again),
    proxied_test(show_and_break_are_retried_over_a_lost_connection),
    server_test(a_queue_without_memory_has_no_holder),
    server_test(a_queue_whose_first_thousand_go_has_a_holder),
    server_test(a_foreign_name_too_long_to_read_is_a_holder),
};

const lk_group lk_replies = {"replies", tests, sizeof tests / sizeof tests[0], NULL, NULL};
