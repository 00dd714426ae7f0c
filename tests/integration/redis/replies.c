/* replies.c: replies that are lost, cut, garbled, late or kept back by a proxy. */
#include "redis_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Waits until the rival can have the key, well before a lease of 30 s would end. */
static void expect_free_soon(lk_env *env, const char *key)
{
    locker *rival = lk_open_at(env->server, "");
    locker_lock_options options = lk_wait_options(6000);
    lk_give(lk_take_with(rival, key, &options));
    lk_close_locker(rival);
}

static void take_with_harm(lk_env *env, const char *query, const char *command, lk_harm harm)
{
    locker *l = lk_open_through(env, query);
    locker_handle *held;
    char value[64];
    lk_give(lk_take(l, "lost-reply")); /* plain commands are used from here on */
    lk_proxy_harm(env->proxy, harm, command, 1, 0);
    held = lk_take(l, "lost-reply");
    assert_int_equal(lk_proxy_harmed(env->proxy), 1);
    assert_true(lk_server_text(env->server, value, sizeof value, "GET lost-reply"));
    lk_expect_remaining(env->server, "lost-reply", held);
    lk_give(held);
    lk_expect_value(env->server, "lost-reply", NULL);
    lk_close_locker(l);
}

static void a_lost_reply_of_an_acquisition_is_found_out(void **state)
{
    take_with_harm(*state, "", "INCR", LK_PROXY_CUT);
}

static void a_lost_reply_of_a_plain_set_is_found_out(void **state)
{
    take_with_harm(*state, "fencing=off", "lost-reply", LK_PROXY_CUT);
}

static void a_reply_that_trickles_is_read(void **state)
{
    take_with_harm(*state, "", "INCR", LK_PROXY_TRICKLE);
}

/* The caller gives up before it can know; the grant is given back when the server is there again. */
static void an_acquisition_of_unknown_outcome_leaves_no_orphan(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "command_timeout=400ms&cleanup_timeout=5s");
    locker_handle *held = NULL;
    locker_error err;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "EVALSHA", 1, 0);
    lk_proxy_refuse(env->proxy, true);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "orphan", NULL, &held, &err), err);
    assert_unless_late(lk_server_integer(env->server, "EXISTS orphan") == 1); /* it was asked for in time */
    lk_proxy_refuse(env->proxy, false);
    expect_free_soon(env, "orphan");
    lk_close_locker(l);
}

static void a_grant_that_comes_too_late_is_given_back(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "command_timeout=300ms");
    locker_handle *held = NULL;
    locker_error err;
    lk_proxy_hold(env->proxy, false, true);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "late", NULL, &held, &err), err);
    lk_proxy_hold(env->proxy, false, false);
    expect_free_soon(env, "late");
    lk_close_locker(l);
}

/* What a connection that was given up has sent may arrive when its caller is gone: the next connection has
 * ended it by then. */
static void a_given_up_connection_takes_nothing_afterwards(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "command_timeout=300ms");
    locker_handle *held = NULL;
    locker_error err;
    lk_give_unless_late(lk_take(l, "abandoned"));
    lk_proxy_hold_old(env->proxy, true);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "abandoned", NULL, &held, &err), err);
    lk_give_unless_late(lk_take(l, "beside")); /* by another connection */
    lk_proxy_hold_old(env->proxy, false);
    lk_give_unless_late(lk_take(l, "beside")); /* it has arrived */
    lk_expect_value(env->server, "abandoned", NULL);
    lk_close_locker(l);
}

/* The connection that ends it is given up before it is told that it has: the next one sees to it again. */
static void a_given_up_connection_is_ended_until_that_is_known(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=30s");
    lk_give(lk_take(l, "warm-up"));
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "KILL", 1, 0);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_await_harm(env->proxy, 1);
    lk_give(lk_take(l, "beside"));
    assert_int_equal(lk_proxy_requests(env->proxy, "KILL"), 3); /* the first again, and the second */
    lk_close_locker(l);
}

/* Another life of the server gives the same names to others. */
static void a_connection_to_an_earlier_server_run_is_not_ended(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=30s");
    lk_give(lk_take(l, "warm-up"));
    lk_server_kill(env->server);
    lk_test_launch(env->server, true);
    lk_give(lk_take(l, "beside"));
    assert_int_equal(lk_proxy_requests(env->proxy, "KILL"), 0);
    lk_close_locker(l);
}

static bool is_attempted(void *context)
{
    return lk_stats(context).attempts > 0;
}

static void a_cancelled_request_in_flight_leaves_no_orphan(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiter;
    int64_t fired;
    options.cancel = cancel;
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&waiter, l, "cancelled", &options);
    lk_require(is_attempted, l, "an attempt should be made");
    fired = lk_test_now_ms();
    locker_cancel_fire(cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - fired, LK_TEST_SLACK_MS);
    lk_proxy_hold(env->proxy, false, false);
    expect_free_soon(env, "cancelled");
    locker_cancel_free(cancel);
    lk_close_locker(l);
}

static void a_lost_reply_of_a_release_is_ok_by_proof(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "");
    locker_handle *held = lk_take(l, "released");
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "EVALSHA", 1, 0);
    lk_give(held); /* nobody else can have removed it before its deadline */
    assert_int_equal(lk_proxy_harmed(env->proxy), 1);
    lk_expect_value(env->server, "released", NULL);
    lk_close_locker(l);
}

/* The release was carried out and handed the lock over before its reply was lost. */
static void a_lost_reply_of_a_hand_over_is_ok_by_proof(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, ""), *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "handed");
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "handed", NULL);
    lk_require_waiting(rival, 1);
    lk_require_subscriber(env->server);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "EVALSHA", 1, 0);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_expect_busy(l, "handed");
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Open a locker that gets no messages, and so learns only by an answer that its lock was broken. */
static locker *open_mute(lk_env *env)
{
    locker_error err;
    locker *l;
    lk_server_do(env->server, "ACL SETUSER mute on >pw ~* resetchannels +@all");
    assert_ok(lk_try_uri(&l, &err, "redis://mute:pw@127.0.0.1:%d?ttl=10m", lk_proxy_port(env->proxy)), err);
    return l;
}

/* A lock that one holds alone, a shared lock, and a permit: the server keeps the last two in another way. `grant` is text of the request
 * that takes the lock, `release` of the one that gives it back. */
static const struct {
    const char *key;
    locker_lock_options options;
    const char *grant, *release;
} locks[] = {
    {"alone", {.size = sizeof(locker_lock_options), .wait_ms = -1}, "INCR", "EVALSHA"},
    {"shared",
     {.size = sizeof(locker_lock_options), .wait_ms = -1, .mode = LOCKER_SHARED},
     "{shared}",
     "{shared}"},
    {"permit", {.size = sizeof(locker_lock_options), .wait_ms = -1, .permits = 2}, "{permit}", "{permit}"},
};
enum { LOCKS = sizeof locks / sizeof locks[0] };

/* The lock was broken, and another has taken it, before the release came: a lost reply does not make that a success. The mark
 * that says so ends with the lease. */
static void a_lost_reply_of_a_broken_locks_release_is_lost(void **state)
{
    lk_env *env = *state;
    locker *l = open_mute(env), *rival = lk_open_at(env->server, "ttl=30s");
    locker_error err;
    for (unsigned i = 0; i < LOCKS; i++) {
        locker_handle *const held = lk_take_with(l, locks[i].key, &locks[i].options);
        assert_ok(locker_break(rival, locks[i].key, NULL, NULL, &err), err);
        assert_in_range(
            lk_server_integer(
                env->server, "EVAL %s 0 {%s}:locker:broken:*",
                "local marks = redis.call('KEYS', ARGV[1]) return #marks == 1 and redis.call('PTTL', marks[1])",
                locks[i].key),
            1, 600000);
        locker_handle *const others = lk_take_with(rival, locks[i].key, &locks[i].options);
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, locks[i].release, 1, 0);
        assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
        assert_int_equal(lk_proxy_harmed(env->proxy), i + 1);
        assert_non_null(strstr(err.text, "broke"));
        lk_give(others);
        locker_handle_free(held);
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A grant that its caller was not told of was broken; the next attempt takes the lock by the same value, and
 * gives it back. */
static void the_mark_of_an_earlier_grant_is_forgotten(void **state)
{
    lk_env *env = *state;
    locker *l = open_mute(env), *rival = lk_open_at(env->server, "");
    locker_error err;
    for (unsigned i = 0; i < LOCKS; i++) {
        lk_locking taker;
        lk_give(lk_take_with(l, locks[i].key, &locks[i].options)); /* plain commands are used from here on */
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, locks[i].grant, 1, 0);
        lk_proxy_refuse(env->proxy, true);
        lk_locking_start(&taker, l, locks[i].key, &locks[i].options);
        lk_proxy_await_harm(env->proxy, 2 * i + 1);
        assert_ok(locker_break(rival, locks[i].key, NULL, NULL, &err), err);
        lk_proxy_refuse(env->proxy, false);
        assert_status(LOCKER_OK, lk_locking_join(&taker), taker.err);
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, locks[i].release, 1, 0);
        lk_give(taker.held);
        assert_int_equal(lk_proxy_harmed(env->proxy), 2 * i + 2);
        lk_expect_value(env->server, locks[i].key, NULL);
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A break whose answer was lost may have taken the lock away. Sent again, it might take it from the next holder. */
static void a_break_whose_answer_was_lost_is_not_sent_again(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->server, ""), *l = lk_open_through(env, "");
    locker_error err;
    for (unsigned i = 0; i < LOCKS; i++) {
        char value[64];
        locker_handle *const held = lk_take_with(holder, locks[i].key, &locks[i].options);
        assert_true(lk_server_text(env->server, value, sizeof value, "GET %s", locks[i].key));
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, value, 1,
                      0); /* only the break names what the look has seen */
        assert_status(LOCKER_UNAVAILABLE, locker_break(l, locks[i].key, NULL, NULL, &err), err);
        assert_int_equal(lk_proxy_harmed(env->proxy), i + 1);
        lk_expect_value(env->server, locks[i].key, NULL);
        assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
        locker_handle_free(held);
    }
    lk_close_locker(l);
    lk_close_locker(holder);
}

static void a_release_whose_reply_never_comes_ends_at_command_timeout(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "command_timeout=300ms");
    locker_handle *held = lk_take(l, "swallowed");
    int64_t began;
    locker_status status;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "EVALSHA", 1, 0);
    began = lk_test_now_ms();
    status = locker_unlock(held, NULL);
    assert_true(status == LOCKER_UNKNOWN || status == LOCKER_OK);
    assert_timely(lk_test_now_ms() - began, 300 + LK_TEST_SLACK_MS);
    locker_handle_free(held);
    lk_proxy_cut_all(env->proxy);
    expect_free_soon(env, "swallowed");
    lk_give_unless_late(lk_take(l, "swallowed"));
    lk_close_locker(l);
}

static void a_lost_reply_of_a_renewal_is_tried_again(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=1500ms");
    locker_handle *held = lk_take(l, "renewal");
    for (unsigned i = 1; i <= 2; i++) {
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, "EVALSHA", 1, 0);
        lk_proxy_await_harm(env->proxy, i);
    }
    assert_unless_late(!lk_readable(locker_handle_fd(held), 1600));
    lk_give_unless_late(held);
    lk_close_locker(l);
}

/* What a lock that is free, and its unlock, ask by. */
static const char *const cycle[] = {"SET", "INCR", "EVALSHA"};

/* Whatever was read of a reply, the connection is given up and the outcome is found out by asking again. */
static void a_reply_cut_at_any_byte_is_found_out(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "");
    for (unsigned bytes = 0; bytes < 36; bytes++) {
        locker_handle *held;
        char key[32];

        snprintf(key, sizeof key, "cut-%u", bytes);
        lk_give(lk_take(l, key)); /* plain commands are used from here on */
        lk_proxy_harm(env->proxy, LK_PROXY_CUT, cycle[bytes % 3], 1, bytes);
        held = lk_take(l, key);
        lk_give(held);
        lk_expect_value(env->server, key, NULL);
        assert_int_equal(lk_proxy_harmed(env->proxy), bytes + 1);
    }
    assert_int_equal(lk_stats(l).lost, 0);
    lk_close_locker(l);
}

static void garbage_is_not_believed(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=20s");
    for (unsigned i = 0; i < 6; i++) {
        locker_handle *held = NULL;
        locker_lock_options options = lk_wait_options(3000);
        locker_status status;
        char key[32];

        snprintf(key, sizeof key, "garbage-%u", i);
        lk_give(lk_take(l, key)); /* plain commands are used from here on */
        lk_proxy_harm(env->proxy, LK_PROXY_GARBAGE, cycle[i % 3], 1, 0);
        status = locker_lock(l, key, &options, &held, NULL);
        if (status == LOCKER_OK) {
            status = locker_unlock(held, NULL);
            assert_true(status == LOCKER_OK || status == LOCKER_UNKNOWN);
            locker_handle_free(held);
        } else {
            assert_true(status == LOCKER_PROTOCOL || status == LOCKER_UNAVAILABLE);
        }
        lk_proxy_await_harm(env->proxy, i + 1);
        expect_free_soon(env, key);
        lk_give(lk_take(l, key));
    }
    lk_close_locker(l);
}

static void a_slow_server_never_makes_remaining_too_long(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=2s");
    locker_handle *held;
    lk_proxy_delay(env->proxy, 0, 150);
    for (int i = 0; i < 3; i++) {
        held = lk_take(l, "slow");
        for (int j = 0; j < 5; j++)
            lk_expect_remaining(env->server, "slow", held);
        lk_give(held);
    }
    lk_proxy_delay(env->proxy, 0, 0);
    lk_close_locker(l);
}

/* So it is with a renewal: it counts from when it was sent. The next one is kept back. */
static void a_slow_renewal_never_makes_remaining_too_long(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=3s&command_timeout=20s");
    locker_handle *held = lk_take(l, "slow");
    int64_t before = 3000, pttl;
    lk_proxy_hold(env->proxy, false, true);
    while ((pttl = lk_server_integer(env->server, "PTTL slow")) <= before) {
        before = pttl;
        usleep(2000);
    }
    lk_proxy_hold(env->proxy, 1, 1);
    usleep(200000); /* or another renewal is sent, and this one is not looked at */
    lk_proxy_hold(env->proxy, 1, 0);
    for (int i = 0; i < 30; i++, usleep(10000))
        lk_expect_remaining(env->server, "slow", held);
    lk_proxy_hold(env->proxy, false, false);
    locker_unlock(held, NULL);
    locker_handle_free(held);
    lk_close_locker(l);
}

/* An extension that wasn't confirmed doesn't move the deadline, though the server made it. */
static void hold_back(lk_env *env, int requests, int replies)
{
    locker *l = lk_open_through(env, "ttl=900ms");
    locker_handle *held = lk_take(l, "held-back");
    int64_t began = lk_test_now_ms();
    lk_proxy_hold(env->proxy, requests, replies);
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    assert_timely(lk_test_now_ms() - began, 900 + LK_TEST_SLACK_MS);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    lk_proxy_hold(env->proxy, false, false);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    assert_int_equal(locker_unlock(held, NULL), LOCKER_LOST);
    locker_handle_free(held);
    expect_free_soon(env, "held-back");
    lk_close_locker(l);
}

static void a_lock_cut_off_both_ways_is_lost_at_the_deadline(void **state)
{
    hold_back(*state, 1, 1);
}

static void a_lock_cut_off_one_way_is_lost_at_the_deadline(void **state)
{
    hold_back(*state, 0, 1);
}

static void a_holder_that_stops_answering_is_suspect_first(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=4s");
    locker_handle *held = lk_take(l, "suspect");
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_require_state(held, LOCKER_STATE_SUSPECT);
    assert_true(locker_handle_remaining_ms(held) > 0);
    lk_proxy_refuse(env->proxy, false);
    lk_require_state(held, LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* ------------------------------------------------- a connection that dies without a word ---- */

/* A holder whose connections keep back what it asks for, while new ones are served. Renewals alone ask by EVALSHA then: nothing is
 * released. */
typedef struct {
    locker *l;
    locker_handle *held;
    lk_passed renewals, logins, kills;
} silent_one;

static bool is_listened_to(void *context)
{
    return lk_server_integer(context, "PUBSUB CHANNELS locker:wake:*") > 0;
}

static silent_one listens(lk_env *env, locker *l)
{
    silent_one s = {.l = l};
    lk_give(lk_take(s.l, "beside")); /* plain commands are used from here on */
    s.held = lk_take(s.l, "silent");
    lk_require_noted(env, "silent");
    lk_require(is_listened_to, env->server, "it should have logged in for messages");
    s.renewals = lk_proxy_passed(env->proxy, "EVALSHA");
    s.logins = lk_proxy_passed(env->proxy, "HELLO");
    s.kills = lk_proxy_passed(env->proxy, "KILL");
    return s;
}

static silent_one falls_silent(lk_env *env, locker *l)
{
    const silent_one s = listens(env, l);
    lk_proxy_hold_old(env->proxy, true);
    return s;
}

static silent_one fall_silent(lk_env *env, const char *query)
{
    return falls_silent(env, lk_open_through(env, query));
}

static unsigned passed_since(lk_passed before)
{
    return lk_proxy_requests(before.proxy, before.kind) - before.count;
}

static void speak_again(lk_env *env, const silent_one *s)
{
    lk_proxy_hold_old(env->proxy, false);
    lk_give_unless_late(s->held);
    lk_close_locker(s->l);
}

/* It is held by renewals over another connection, and by nothing but renewals: what somebody waits for is asked anew when the server
 * has ended the silent one. */
static void a_connection_that_dies_silently_costs_no_lock(void **state)
{
    lk_env *env = *state;
    silent_one s = fall_silent(env, "ttl=5s");
    lk_passed attempts = lk_proxy_passed(env->proxy, "another");
    lk_locking waiter;
    unsigned before;
    bool over;
    lk_locking_start(&waiter, s.l, "another", NULL);
    lk_proxy_await_passed(s.renewals, 1);
    do {
        usleep(5000);
        before = passed_since(attempts);
        over = passed_since(s.kills) > 0;
        assert_true(over || before == 0);
        lk_expect_remaining(env->server, "silent", s.held);
    } while (!over);
    assert_unless_late(locker_handle_remaining_ms(s.held) > 2000 && passed_since(s.logins) == 2);
    lk_give_unless_late(lk_locking_grant(&waiter));
    assert_int_equal(locker_handle_state(s.held), LOCKER_STATE_HELD);
    speak_again(env, &s);
}

typedef struct {
    const silent_one *s;
    int64_t more_than_ms; /* is left of the lease */
} renewal;

static bool is_settled(void *context)
{
    const renewal *const r = context;
    if (locker_handle_state(r->s->held) == LOCKER_STATE_LOST)
        return true;
    return passed_since(r->s->renewals) > 0 && locker_handle_remaining_ms(r->s->held) > r->more_than_ms;
}

/* Over another connection: more is left then than when it was asked. It may have been renewed before the silence, too: the
 * subscription, once it is there, has that done. */
static bool is_renewed(const silent_one *s, int64_t more_than_ms)
{
    renewal r = {s, more_than_ms};
    lk_require(is_settled, &r, "the lease should be renewed over another connection, or lost");
    return assert_unless_late(locker_handle_state(s->held) != LOCKER_STATE_LOST);
}

/* The server was slow, and no more. Its late answers count from when they were asked for. */
static void a_connection_that_speaks_again_is_kept(void **state)
{
    lk_env *env = *state;
    silent_one s = fall_silent(env, "ttl=4s");
    const bool renewed = is_renewed(&s, 3000);
    lk_proxy_hold_old(env->proxy, false);
    if (renewed)
        lk_proxy_await_passed(s.renewals, 4); /* the late one, and two more */
    lk_give_unless_late(lk_take(s.l, "beside"));
    assert_unless_late(passed_since(s.kills) == 0);
    speak_again(env, &s);
}

/* The server ends the newest of the connections whose last command was a script of a known hash, or TIME behind it: the one for
 * renewals. */
static void end_newest(lk_env *env)
{
    char list[8192];
    long long newest = 0;
    assert_true(lk_server_text(env->server, list, sizeof list, "CLIENT LIST"));
    for (char *at = list, *line; (line = strsep(&at, "\n")) != NULL;) {
        const bool renews = strncmp(line, "id=", 3) == 0 &&
                            (strstr(line, "cmd=evalsha") != NULL || strstr(line, "cmd=time") != NULL);
        const long long id = renews ? strtoll(line + 3, NULL, 10) : 0;
        newest = id > newest ? id : newest;
    }
    assert_int_equal(lk_server_integer(env->server, "CLIENT KILL ID %lld", newest), 1);
}

/* The silent one ends, too, and the other carries renewals no more. */
static void a_lock_without_either_connection_is_suspect(void **state)
{
    lk_env *env = *state;
    silent_one s = fall_silent(env, "ttl=4s");
    if (is_renewed(&s, 3000)) {
        lk_proxy_refuse(env->proxy, true);
        end_newest(env);
        usleep(50 * 1000); /* it has noticed */
        lk_proxy_cut_all(env->proxy);
        lk_require_state(s.held, LOCKER_STATE_SUSPECT);
        assert_unless_late(locker_handle_remaining_ms(s.held) > 2000);
        lk_proxy_refuse(env->proxy, false);
        lk_require_state(s.held, LOCKER_STATE_HELD);
    }
    speak_again(env, &s);
}

/* As when a firewall is restarted: there were two by then. */
static void both_connections_die_silently_and_cost_no_lock(void **state)
{
    lk_env *env = *state;
    silent_one s = fall_silent(env, "ttl=3s");
    lk_proxy_await_passed(s.kills, 1);
    lk_proxy_hold_old(env->proxy, true);
    s.renewals = lk_proxy_passed(env->proxy, "EVALSHA");
    (void)is_renewed(&s, 2000);
    speak_again(env, &s);
}

/* Each answer takes longer than renewals can bear, on any connection, and comes in time. */
static void a_long_way_costs_no_lock(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=2400ms");
    locker_handle *held;
    lk_passed logins;
    lk_give(lk_take(l, "beside"));
    held = lk_take(l, "far");
    logins = lk_proxy_passed(env->proxy, "HELLO");
    lk_proxy_delay(env->proxy, 0, 740);
    assert_unless_late(!lk_readable(locker_handle_fd(held), 7000));
    assert_unless_late(passed_since(logins) <= 2); /* of the subscription and for renewals */
    lk_proxy_delay(env->proxy, 0, 0);
    lk_give_unless_late(held);
    lk_close_locker(l);
}

static size_t another_run(const lk_message *reply, char *out, size_t size)
{
    (void)reply;
    return (size_t)snprintf(out, size, "$47\r\nrun_id:%040d\r\n", 7);
}

static size_t another_replication(const lk_message *reply, char *out, size_t size)
{
    (void)reply;
    return (size_t)snprintf(out, size, "$54\r\nmaster_replid:%040d\r\n", 7);
}

/* What another life of the server says, or one that does not tell, is not about these locks. */
static void a_restarted_server_renews_nothing(void **state)
{
    static const struct {
        const char *kind;
        lk_forge *forge;
    } lives[] = {{"\r\nserver\r\n", another_run}, {"\r\nreplication\r\n", another_replication}};
    lk_env *env = *state;
    for (size_t i = 0; i < 2; i++) {
        silent_one s = listens(env, lk_open_through(env, "ttl=1500ms"));
        lk_proxy_answer(env->proxy, lives[i].kind, lives[i].forge); /* what each new connection asks */
        lk_proxy_hold_old(env->proxy, true);
        assert_true(lk_readable(locker_handle_fd(s.held), LK_TEST_PATIENCE_MS));
        assert_int_equal(locker_handle_state(s.held), LOCKER_STATE_LOST);
        assert_unless_late(passed_since(s.logins) > 0);
        assert_int_equal(passed_since(s.renewals), 0);
        lk_proxy_answer(env->proxy, lives[i].kind, NULL);
        lk_proxy_hold_old(env->proxy, false);
        assert_int_equal(locker_unlock(s.held, NULL), LOCKER_LOST);
        locker_handle_free(s.held);
        lk_close_locker(s.l);
    }
}

/* Without INFO nobody knows whether another connection is to the same server: none is made. */
static void a_user_without_the_right_to_info_opens_no_second_connection(void **state)
{
    lk_env *env = *state;
    lk_server_do(env->server, "ACL SETUSER default -info");
    silent_one s = fall_silent(env, "ttl=1500ms");
    assert_true(lk_readable(locker_handle_fd(s.held), LK_TEST_PATIENCE_MS));
    assert_int_equal(locker_handle_state(s.held), LOCKER_STATE_LOST);
    assert_int_equal(passed_since(s.logins), 0);
    lk_proxy_hold_old(env->proxy, false);
    assert_int_equal(locker_unlock(s.held, NULL), LOCKER_LOST);
    locker_handle_free(s.held);
    lk_close_locker(s.l);
}

typedef struct {
    char uri[100];
    locker *l;
} hasty_one;

static bool opens(void *context)
{
    hasty_one *const hasty = context;
    return locker_open(hasty->uri, NULL, &hasty->l, NULL) == LOCKER_OK;
}

/* A machine that is busy may take longer than its connect_timeout. */
static void a_server_that_is_silent_is_not_stormed(void **state)
{
    lk_env *env = *state;
    hasty_one hasty;
    snprintf(hasty.uri, sizeof hasty.uri, "redis://127.0.0.1:%d/0?ttl=2s&connect_timeout=100ms",
             lk_proxy_port(env->proxy));
    lk_require(opens, &hasty, "it should open");
    silent_one s = falls_silent(env, hasty.l);
    const int64_t began = lk_test_now_ms();
    lk_proxy_hold(env->proxy, false, true);
    assert_true(lk_readable(locker_handle_fd(s.held), LK_TEST_PATIENCE_MS));
    assert_timely(lk_test_now_ms() - began, 2000 + LK_TEST_SLACK_MS);
    assert_int_equal(locker_handle_state(s.held), LOCKER_STATE_LOST);
    assert_unless_late(passed_since(s.logins) == 1 || passed_since(s.logins) == 2);
    lk_proxy_hold(env->proxy, false, false);
    lk_proxy_hold_old(env->proxy, false);
    assert_int_equal(locker_unlock(s.held, NULL), LOCKER_LOST);
    locker_handle_free(s.held);
    lk_close_locker(s.l);
}

/* ------------------------------------------------------------------ what is sent ---- */

/* A lock that is free: SET and INCR in one flight, and a script to release it, whether the key was ever used or not. The first of
 * a slot on a connection is taken by a script, whose SET and INCRBY start and lift the slot's counter. Nothing is told of locks
 * that are given back at once. GET, DEL and ZPOPMIN are the scripts'. */
/* The server's time is asked for once a second at most, with what the keeper sends: it is no part of a cycle. */
static unsigned requests_but_time(lk_env *env)
{
    return lk_proxy_requests(env->proxy, "") - lk_proxy_requests(env->proxy, "TIME");
}

static void a_cycle_is_three_commands(void **state)
{
    static const char *const commands[] = {"set", "incr", "incrby", "evalsha", "get", "del"};
    static const long long usual[] = {10, 10, 0, 10, 10, 10}, first[] = {20, 0, 10, 20, 20, 10};
    static const struct {
        const char *format;
        const long long *expected;
    } rounds[] = {{"{counted}", usual}, {"{counted}%d", usual}, {"another %d", first}};
    lk_env *env = *state;
    locker *l = lk_open_through(env, "");
    long long before[6];
    char key[32];
    lk_give(lk_take(l, "{counted}"));
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 6; i++)
            before[i] = lk_calls_of(env->server, commands[i]);
        const unsigned sent = requests_but_time(env);
        for (int i = 0; i < 10; i++) {
            (void)snprintf(key, sizeof key, rounds[round].format, i); /* NOLINT */
            lk_give(lk_take(l, key));
        }
        assert_int_equal(requests_but_time(env) - sent, rounds[round].expected == usual ? 30 : 20);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(lk_calls_of(env->server, commands[i]) - before[i], rounds[round].expected[i]);
    }
    lk_close_locker(l);
}

static void a_waiting_process_is_quiet(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->server, ""), *l = lk_open_through(env, "");
    locker_handle *held = lk_take(holder, "quiet");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiters[10];
    unsigned sent;
    options.cancel = cancel;
    for (int i = 0; i < 10; i++)
        lk_locking_start(&waiters[i], l, "quiet", &options);
    assert_false(lk_readable(locker_handle_fd(held), 2500));
    /* the first attempt, one more when subscribed, and one a second */
    sent = lk_proxy_requests(env->proxy, "quiet");
    if (sent < 1 || sent > 6)
        test_fails("10 waiters of one process sent %u requests in 2.5 s", sent);
    locker_cancel_fire(cancel);
    for (int i = 0; i < 10; i++)
        assert_status(LOCKER_CANCELED, lk_locking_join(&waiters[i]), waiters[i].err);
    lk_give(held);
    locker_cancel_free(cancel);
    lk_close_locker(l);
    lk_close_locker(holder);
}

static void many_leases_are_renewed_in_few_requests(void **state)
{
    enum { MANY = 100 };
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=1500ms");
    locker_handle *held[MANY];
    unsigned before;
    int64_t took = lk_test_now_ms();
    for (int i = 0; i < MANY; i++) {
        char key[32];

        snprintf(key, sizeof key, "batch-%d", i);
        held[i] = lk_take(l, key);
    }
    took = lk_test_now_ms() - took;
    before = lk_proxy_requests(env->proxy, "EVALSHA");
    assert_unless_late(!lk_readable(locker_handle_fd(held[0]), 1600));
    /* three or four renewals of 100 leases; what is due within a sixteenth of a third of the ttl goes
     * together, so they are as many batches as the leases were taken over such spans */
    const int64_t batches = lk_proxy_requests(env->proxy, "EVALSHA") - before;
    assert_unless_late(batches >= 2 && batches <= 4 * (2 + took / (1500 / 48)));
    assert_unless_late(lk_stats(l).lost == 0);
    for (int i = 0; i < MANY; i++)
        lk_give_unless_late(held[i]);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_lost_reply_of_an_acquisition_is_found_out),
    proxied_test(a_lost_reply_of_a_plain_set_is_found_out),
    proxied_test(a_reply_that_trickles_is_read),
    proxied_test(an_acquisition_of_unknown_outcome_leaves_no_orphan),
    proxied_test(a_grant_that_comes_too_late_is_given_back),
    proxied_test(a_given_up_connection_takes_nothing_afterwards),
    proxied_test(a_given_up_connection_is_ended_until_that_is_known),
    proxied_test(a_connection_to_an_earlier_server_run_is_not_ended),
    proxied_test(a_cancelled_request_in_flight_leaves_no_orphan),
    proxied_test(a_lost_reply_of_a_release_is_ok_by_proof),
    proxied_test(a_lost_reply_of_a_hand_over_is_ok_by_proof),
    proxied_test(a_lost_reply_of_a_broken_locks_release_is_lost),
    proxied_test(the_mark_of_an_earlier_grant_is_forgotten),
    proxied_test(a_break_whose_answer_was_lost_is_not_sent_again),
    proxied_test(a_release_whose_reply_never_comes_ends_at_command_timeout),
    proxied_test(a_lost_reply_of_a_renewal_is_tried_again),
    proxied_test(a_reply_cut_at_any_byte_is_found_out),
    proxied_test(garbage_is_not_believed),
    proxied_test(a_slow_server_never_makes_remaining_too_long),
    proxied_test(a_slow_renewal_never_makes_remaining_too_long),
    proxied_test(a_lock_cut_off_both_ways_is_lost_at_the_deadline),
    proxied_test(a_lock_cut_off_one_way_is_lost_at_the_deadline),
    proxied_test(a_holder_that_stops_answering_is_suspect_first),
    proxied_test(a_connection_that_dies_silently_costs_no_lock),
    proxied_test(a_connection_that_speaks_again_is_kept),
    proxied_test(a_lock_without_either_connection_is_suspect),
    proxied_test(both_connections_die_silently_and_cost_no_lock),
    proxied_test(a_long_way_costs_no_lock),
    proxied_test(a_restarted_server_renews_nothing),
    proxied_test(a_user_without_the_right_to_info_opens_no_second_connection),
    proxied_test(a_server_that_is_silent_is_not_stormed),
    proxied_test(a_cycle_is_three_commands),
    proxied_test(a_waiting_process_is_quiet),
    proxied_test(many_leases_are_renewed_in_few_requests),
};

const lk_group lk_replies = {"replies", tests, sizeof tests / sizeof tests[0], NULL, NULL};
