/* grants.c: what a grant claims: how long its lease lasts, that it is the only one, and what it leaves. */
#include "redis_tests.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The library's calls of getrandom() (CMakeLists.txt). */
ssize_t __real_getrandom(void *, size_t, unsigned);
ssize_t __wrap_getrandom(void *, size_t, unsigned);

static atomic_bool draws_the_same; /* as hosts do that were restored from one snapshot of memory */

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
    if (!draws_the_same)
        return __real_getrandom(bytes, count, flags);
    memset(bytes, 'Z', count);
    return (ssize_t)count;
}

/* ------------------------------------------------------------------ how long it lasts ---- */

static void expect_allowance(locker_handle *held, int64_t percent, const char *way)
{
    enum { TTL_MS = 30000 };
    const int64_t remaining = locker_handle_remaining_ms(held);
    if (remaining > TTL_MS - TTL_MS / 100 * percent - 2)
        test_fails("%s: %lld ms of %d are left", way, (long long)remaining, TTL_MS);
    if (remaining < TTL_MS / 2)
        test_fails("%s: only %lld ms of %d are left", way, (long long)remaining, TTL_MS);
}

/* So much, and 2 ms, is left for clocks that run differently, however the lock was had. */
static void leaves_room(lk_env *env, const char *parameters, int64_t percent)
{
    locker *l = lk_open_at(env->server, parameters), *rival = lk_open_at(env->server, parameters);
    for (int i = 0; i < 20; i++) { /* the first by the script; 2 ms are seen when it takes less than 1 ms */
        locker_handle *held = lk_take(l, "allowance");

        expect_allowance(held, percent, "taken");
        lk_give(held);
    }
    for (int i = 0; i < 5; i++) {
        locker_handle *held = lk_take(rival, "allowance");
        lk_locking waiter;

        lk_locking_start(&waiter, l, "allowance", NULL);
        lk_require_queue(env->server, "allowance", 1);
        lk_give(held);
        assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
        expect_allowance(waiter.held, percent, "handed over");
        lk_give(waiter.held);
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void a_lease_leaves_room_for_the_clocks(void **state)
{
    leaves_room(*state, "ttl=30s", 1);
    leaves_room(*state, "ttl=30s&clock_drift=20", 20);
}

/* The message that hands a lock over may be late: the lease counts from the attempt before it. */
static void a_grant_by_a_late_message_counts_from_before(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=30s"), *rival = lk_open_at(env->server, "ttl=30s");
    locker_handle *held = lk_take(rival, "direct");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "direct", NULL);
    lk_require_queue(env->server, "direct", 1);
    lk_proxy_delay(env->proxy, 0, 600);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_expect_remaining(env->server, "direct", waiter.held);
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A lease at the server, of which `left_ms` or less is left. */
typedef struct {
    lk_server *server;
    const char *pttl; /* the command that asks */
    int64_t left_ms;
} lease;

static bool is_mostly_over(void *context)
{
    const lease *asked = context;
    return lk_server_integer(asked->server, asked->pttl) <= asked->left_ms;
}

static bool is_granted(void *server)
{
    return lk_server_integer(server, "EXISTS slow") == 1;
}

/* A process that was stopped finds the message of a grant when most of its lease is over: it starts anew. */
static void a_grant_that_is_found_late_starts_anew(void **state)
{
    lk_env *env = *state;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "stopped");
    char uri[64];
    uint64_t token;
    snprintf(uri, sizeof uri, "redis://127.0.0.1:%d/0", env->server->port);
    env->child = lk_puppet_start(uri);
    lk_puppet_wait(env->child, "stopped", 60000, 3000, false);
    lk_require_queue(env->server, "stopped", 1);
    lk_child_stop(env->child);
    lk_give(held);
    lk_require(is_mostly_over, &(lease){env->server, "PTTL stopped", 1300},
               "most of its lease should be over");
    lk_child_signal(env->child, SIGCONT);
    assert_int_equal(lk_puppet_granted(env->child, &token), LOCKER_OK);
    assert_unless_late(lk_server_integer(env->server, "PTTL stopped") > 1500);
    assert_int_equal(lk_puppet_unlock(env->child), LOCKER_OK);
    lk_close_locker(rival);
}

/* An answer that comes when most of the lease is over is not passed on: another attempt starts it anew. */
static void an_answer_that_comes_late_is_confirmed(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=3s");
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking taker;
    lk_give(lk_take(l, "slow"));
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&taker, l, "slow", &options);
    lk_require(is_granted, env->server, "the server should have granted it");
    lk_require(is_mostly_over, &(lease){env->server, "PTTL slow", 1000}, "most of its lease should be over");
    lk_proxy_hold(env->proxy, false, false);
    assert_status(LOCKER_OK, lk_locking_join(&taker), taker.err);
    /* at least half of it was left when it was granted, unless this machine has slept since */
    assert_true(locker_handle_remaining_ms(taker.held) + lk_test_now_ms() - taker.ended_ms >= 1490);
    lk_give(taker.held);
    lk_close_locker(l);
}

/* Where each answer is late, what there is is passed on, after it was confirmed twice. */
static void answers_that_are_all_late_are_taken_in_the_end(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=2s&command_timeout=20s");
    locker_lock_options options = lk_wait_options(12000);
    lk_locking taker;
    lk_give(lk_take(l, "late"));
    lk_proxy_delay(env->proxy, 0, 1200);
    lk_locking_start(&taker, l, "late", &options);
    assert_status(LOCKER_OK, lk_locking_join(&taker), taker.err);
    lk_proxy_delay(env->proxy, 0, 0);
    locker_unlock(taker.held, NULL);
    locker_handle_free(taker.held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ that it is the only one ---- */

static void expect_busy(locker *l, const char *key)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(l, key, NULL, &held, &err), err);
}

/* Two lockers that draw the same random bits are two: neither has what the other holds, or is handed what was the other's. */
static void hosts_of_one_snapshot_exclude_each_other(void **state)
{
    lk_env *env = *state;
    draws_the_same = true;
    locker *one = lk_open_at(env->server, "ttl=30s"), *other = lk_open_at(env->server, "ttl=30s");
    draws_the_same = false;
    locker_handle *held = lk_take(one, "snapshot");
    lk_locking waiter;
    expect_busy(other, "snapshot"); /* the first call of each, so their values differ by the name alone */
    lk_locking_start(&waiter, other, "snapshot", NULL);
    lk_require_queue(env->server, "snapshot", 1);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    expect_busy(one, "snapshot");
    lk_give(waiter.held);
    lk_close_locker(other);
    lk_close_locker(one);
}

/* A message of an earlier grant comes when another has the lock: it grants nothing, also when there is no
 * counter that says how old it is, or one that has begun anew. */
static void an_old_message_grants_nothing(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *rival = lk_open_at(env->server, "ttl=30s");
    for (int round = 0; round < 3; round++) {
        char member[256] = "", instance[33], value[33], fence[64], message[128];
        locker_lock_options options = lk_wait_options(700);
        locker_handle *held;
        lk_locking waiter;

        lk_give(lk_take(rival, "old"));
        held = lk_take(rival, "old");
        assert_true(lk_server_text(env->server, fence, sizeof fence, "GET %s", lk_fence_key("old")));
        if (round == 1)
            lk_server_do(env->server, "DEL %s", lk_fence_key("old"));
        else if (round == 2)
            lk_server_do(env->server, "SET %s 1", lk_fence_key("old"));
        lk_locking_start(&waiter, l, "old", &options);
        lk_require_queue(env->server, "old", 1);
        assert_true(lk_server_text(env->server, member, sizeof member, "EVAL %s 1 {old}:locker:queue",
                                   "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]"));
        assert_int_equal(sscanf(member, "%32s %32s", instance, value), 2);
        snprintf(message, sizeof message, "%s %llu/1 0 old", value, strtoull(fence, NULL, 10) - 1);
        assert_int_equal(lk_server_integer(env->server, "PUBLISH locker:wake:%s %s", instance, message), 1);
        assert_status(LOCKER_TIMEOUT, lk_locking_join(&waiter), waiter.err);
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
        lk_give(held);
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* The first waiter's channel and value, as they stand in the queue. */
static void read_waiter(lk_server *server, const char *key, char instance[33], char value[33])
{
    char member[256];
    assert_true(lk_server_text(server, member, sizeof member, "EVAL %s 1 {%s}:locker:queue",
                               "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]", key));
    assert_int_equal(sscanf(member, "%32s %32s", instance, value), 2);
}

struct attempts {
    locker *l;
    uint64_t before;
};

static bool has_tried_again(void *context)
{
    const struct attempts *attempts = context;
    return lk_stats(attempts->l).attempts > attempts->before;
}

/* The message of a grant comes while the lock is being given back, which waits for a connection: it gives
 * nothing back on its own, of which the release would find that the lock was not ours. */
static void a_late_message_takes_nothing_from_a_release(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=90s&poll=60s&command_timeout=25s");
    locker *rival = lk_open_at(env->server, "ttl=90s");
    locker_handle *held = lk_take(rival, "late");
    lk_locking waiter, other;
    lk_unlocking giving;
    struct attempts attempts = {.l = l};
    char instance[33], value[33], other_value[33];
    uint64_t token;
    lk_locking_start(&waiter, l, "late", NULL);
    lk_require_queue(env->server, "late", 1);
    read_waiter(env->server, "late", instance, value);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    token = locker_handle_token(waiter.held);
    lk_server_do(env->server, "SET other somebody");
    lk_locking_start(&other, l, "other", NULL);
    lk_require_queue(env->server, "other", 1);
    read_waiter(env->server, "other", instance, other_value);
    lk_proxy_refuse(env->proxy, true);
    lk_server_do(env->server, "CLIENT KILL TYPE normal"); /* the subscription stays */
    lk_require_state(waiter.held, LOCKER_STATE_SUSPECT);
    lk_unlocking_start(&giving, waiter.held);
    lk_require_state(waiter.held, LOCKER_STATE_UNLOCKED);
    attempts.before = lk_stats(l).attempts;
    lk_server_do(
        env->server, "EVAL %s 0 %s %s %llu",
        "return redis.call('PUBLISH', 'locker:wake:' .. ARGV[1], ARGV[2] .. ' ' .. ARGV[3] .. '/1 0 late')",
        instance, value, (unsigned long long)token);
    lk_server_do(env->server, "EVAL %s 0 %s %s",
                 "return redis.call('PUBLISH', 'locker:wake:' .. ARGV[1], ARGV[2] .. ' broken other')",
                 instance, other_value);
    lk_require(has_tried_again, &attempts, "the messages should be read");
    lk_proxy_refuse(env->proxy, false);
    assert_status(LOCKER_OK, lk_unlocking_join(&giving), giving.err);
    locker_handle_free(waiter.held);
    lk_server_do(env->server, "DEL other");
    lk_close_locker(l);
    assert_status(LOCKER_CLOSED, lk_locking_join(&other), other.err);
    lk_close_locker(rival);
}

static uint64_t counter_of(lk_server *server, const char *key)
{
    char text[32];
    assert_true(lk_server_text(server, text, sizeof text, "GET %s", lk_fence_key(key)));
    return strtoull(text, NULL, 10);
}

/* Have a hand-over inside the process be asked for, so that the next grants reserve numbers for more. */
static void ask_for_a_hand_over(locker *l, const char *key)
{
    locker_handle *held = lk_take(l, key);
    lk_locking waiter;
    lk_locking_start(&waiter, l, key, NULL);
    lk_require_waiting(l, 1);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
}

/* Numbers grow more slowly than time, or a counter that starts at the time after a loss would give out some
 * again. So nobody reserves many of a counter that is ahead of the time. */
static void a_counter_ahead_of_the_time_is_not_hurried(void **state)
{
    static const char ahead[] = "local t = redis.call('TIME')\n"
                                "redis.call('SET', KEYS[1], string.format('%.0f', (t[1] + 60) * 1000000))\n"
                                "return 1";
    enum { GRANTS = 12 };
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    uint64_t before;
    lk_server_do(env->server, "EVAL %s 1 %s", ahead, lk_fence_key("hurried"));
    lk_give(lk_take(l, "hurried"));
    ask_for_a_hand_over(l, "hurried");
    before = counter_of(env->server, "hurried");
    for (int i = 0; i < GRANTS; i++)
        lk_give(lk_take(l, "hurried"));
    assert_int_equal(counter_of(env->server, "hurried") - before, GRANTS);
    lk_close_locker(l);
}

/* Handed over and broken again while the waiter's own attempt has no answer. */
static locker_status handed_over_and_broken_unseen(lk_env *env)
{
    static const char both[] = "local channel = 'locker:wake:' .. KEYS[1]\n"
                               "redis.call('PUBLISH', channel, KEYS[2] .. ' 9000000000000000/1 0 unseen')\n"
                               "return redis.call('PUBLISH', channel, KEYS[2] .. ' broken unseen')";
    locker *l = lk_open_through(env, "ttl=30s&poll=100ms&command_timeout=20s");
    locker *rival = lk_open_at(env->server, "ttl=30s");
    locker_handle *held = lk_take(rival, "unseen");
    locker_lock_options options = lk_wait_options(3000);
    char member[256] = "", instance[33], value[33];
    lk_locking waiter;
    lk_locking_start(&waiter, l, "unseen", &options);
    lk_require_queue(env->server, "unseen", 1);
    assert_true(lk_server_text(env->server, member, sizeof member, "EVAL %s 1 {unseen}:locker:queue",
                               "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]"));
    assert_int_equal(sscanf(member, "%32s %32s", instance, value), 2);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "unseen", 1, 0);
    lk_proxy_await_harm(env->proxy, 1); /* its poll, which has no answer from here on */
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 2 %s %s", both, instance, value), 1);
    usleep(100000); /* both are read meanwhile, if there is a processor */
    lk_proxy_cut_all(env->proxy);
    const locker_status status = lk_locking_join(&waiter);
    if (status == LOCKER_OK)
        locker_handle_free(waiter.held);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(rival);
    lk_close_locker(l);
    return status;
}

/* Then it was never granted. Where the connection was cut between the two, that is not shown: once more. */
static void a_grant_that_was_broken_before_it_was_seen_is_none(void **state)
{
    locker_status status = LOCKER_OK;
    for (int i = 0; i < 5 && status == LOCKER_OK; i++)
        status = handed_over_and_broken_unseen(*state);
    assert_int_equal(status, LOCKER_TIMEOUT);
}

/* ------------------------------------------------------------------ handed on inside the process ---- */

/* Hand-overs inside the process are asked for from the first one on, which is refused. */
static void ask_for_passing(locker *l, const char *key)
{
    locker_handle *held = lk_take(l, key);
    lk_locking waiter;
    lk_locking_start(&waiter, l, key, NULL);
    lk_require_waiting(l, 1);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
}

static bool is_noted(void *context)
{
    return lk_server_integer(
               context, "EVAL %s 2 noted {noted}:locker:info",
               "local info = redis.call('GET', KEYS[2])\n"
               "return info and string.sub(info, 1, 32) == redis.call('GET', KEYS[1]) and 1 or 0") == 1;
}

/* One whose holder the server knows gets another value: whoever breaks that holder's lock breaks no other. */
static void a_lock_whose_holder_is_known_is_not_passed_on(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s");
    char before[64], after[64];
    lk_locking waiter;
    locker_handle *held;
    ask_for_passing(l, "noted");
    held = lk_take(l, "noted");
    lk_locking_start(&waiter, l, "noted", NULL);
    lk_require_waiting(l, 1);
    lk_require(is_noted, env->server, "the server should be told who holds it");
    assert_true(lk_server_text(env->server, before, sizeof before, "GET noted"));
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(lk_server_text(env->server, after, sizeof after, "GET noted"));
    assert_string_not_equal(before, after);
    lk_give(waiter.held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what it leaves ---- */

static void add_ghosts(lk_server *server, const char *key, int count)
{
    for (int i = 0; i < count; i++)
        lk_server_do(server, "ZADD {%s}:locker:queue %d %s%032d%s", key, i,
                     "00000000000000000000000000000000 ", i, " 30000 1 ghost");
}

/* Handed to a process that is gone, a lock goes on to the next at once. */
static void a_dead_waiter_is_passed_over(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *rival = lk_open_at(env->server, "ttl=30s&poll=60s");
    locker_handle *held = lk_take(l, "ghosts");
    lk_locking waiter;
    int64_t released;
    add_ghosts(env->server, "ghosts", 3);
    lk_locking_start(&waiter, rival, "ghosts", NULL);
    lk_require_queue(env->server, "ghosts", 4);
    released = lk_test_now_ms();
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - released, 5000); /* its poll comes after 10 s */
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* One call looks at a hundred dead waiters at most; the rest is left to later ones. */
static void many_dead_waiters_are_left_to_later_calls(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s");
    locker_handle *held = lk_take(l, "ghosts");
    add_ghosts(env->server, "ghosts", 250);
    for (int left = 150; left >= 50; left -= 100) {
        lk_give(held);
        assert_int_equal(lk_server_integer(env->server, "ZCARD {ghosts}:locker:queue"), left);
        lk_expect_value(env->server, "ghosts", NULL);
        held = lk_take(l, "ghosts");
    }
    lk_give(held);
    assert_int_equal(lk_server_integer(env->server, "ZCARD {ghosts}:locker:queue"), 0);
    lk_close_locker(l);
}

static void a_waiter_that_is_served_or_gives_up_leaves_the_queue(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "poll=50ms");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiter;
    options.cancel = cancel;
    lk_server_do(env->server, "SET queued somebody");
    lk_locking_start(&waiter, l, "queued", &options);
    lk_require_queue(env->server, "queued", 1);
    locker_cancel_fire(cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    lk_require_queue(env->server, "queued", 0);
    lk_locking_start(&waiter, l, "queued", NULL);
    lk_require_queue(env->server, "queued", 1);
    lk_server_do(env->server, "DEL queued"); /* it finds out by its poll */
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_int_equal(lk_server_integer(env->server, "ZCARD {queued}:locker:queue"), 0);
    lk_give(waiter.held);
    locker_cancel_free(cancel);
    lk_close_locker(l);
}

/* The lock is left free for a moment, and the first of those who wait, which was told so, gives up. */
static void a_waiter_that_gives_up_in_a_free_moment_leaves_the_lock_to_the_next(void **state)
{
    static const char leave_free[] =
        "local t = redis.call('TIME')\n"
        "redis.call('ZADD', KEYS[2], 2^52 + t[1] * 1000000 + t[2] + 8000, 'free')\n"
        "return redis.call('DEL', KEYS[1])";
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=90s&poll=60s"),
           *next = lk_open_at(env->server, "ttl=90s&poll=60s");
    locker_cancel *cancel = locker_cancel_new();
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking told, waiter;
    int64_t given_up;
    options.cancel = cancel;
    lk_server_do(env->server, "SET moment somebody");
    lk_locking_start(&told, l, "moment", &options);
    lk_require_queue(env->server, "moment", 1);
    lk_locking_start(&waiter, next, "moment", NULL);
    lk_require_queue(env->server, "moment", 2);
    lk_server_do(env->server, "EVAL %s 2 moment {moment}:locker:queue", leave_free);
    given_up = lk_test_now_ms();
    locker_cancel_fire(cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&told), told.err);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - given_up, 15000); /* its poll comes after 30 s */
    lk_give(waiter.held);
    assert_int_equal(lk_server_integer(env->server, "EXISTS {moment}:locker:queue"), 0);
    locker_cancel_free(cancel);
    lk_close_locker(next);
    lk_close_locker(l);
}

/* What could not be given back is given back in the background when the server is there again. */
static void a_release_goes_on_when_the_server_is_back(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=30s&command_timeout=300ms&cleanup_timeout=20s");
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "away");
    locker_lock_options options = lk_wait_options(10000);
    locker_error err;
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    locker_handle_free(held);
    lk_expect_busy(rival, "away");
    lk_proxy_refuse(env->proxy, false);
    lk_give(lk_take_with(rival, "away", &options));
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* ... a place in the queue also after the time for that: it would be handed the lock. */
static void a_place_is_taken_out_however_late(void **state)
{
    lk_env *env = *state;
    lk_locking waiter;
    locker *l = lk_open_through(env, "cleanup_timeout=1ms");
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "place");
    locker_lock_options options = lk_wait_options(500);
    lk_locking_start(&waiter, l, "place", &options);
    lk_require_queue(env->server, "place", 1);
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    assert_unless_late(lk_locking_join(&waiter) == LOCKER_UNAVAILABLE); /* and was cut before its end */
    usleep(20000);                                                      /* until that time is over */
    lk_proxy_refuse(env->proxy, false);
    lk_give(lk_take(l, "beside"));
    lk_require_queue(env->server, "place", 0);
    lk_give(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static int connect_raw(lk_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        test_fails("can't connect: %s", strerror(errno));
    return fd;
}

static void send_raw(int fd, const char *command)
{
    if (send(fd, command, strlen(command), MSG_NOSIGNAL) != (ssize_t)strlen(command))
        test_fails("can't send: %s", strerror(errno));
}

static bool is_busy(void *context)
{
    char answer[64] = "";
    int fd = connect_raw(context);
    send_raw(fd, "GET busy\r\n");
    bool busy = recv(fd, answer, sizeof answer - 1, 0) > 0 && strncmp(answer, "-BUSY", 5) == 0;
    close(fd);
    return busy;
}

/* A connection on which somebody's endless script runs, so that the server answers BUSY to all others. */
static int keep_busy(lk_server *server)
{
    int fd = connect_raw(server);
    send_raw(fd, "EVAL \"while true do end\" 0\r\n");
    lk_require(is_busy, server, "the server should be busy");
    return fd;
}

/* ... and a server that is busy is asked again. */
static void a_release_goes_on_when_the_server_is_not_busy_any_more(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s&command_timeout=700ms&cleanup_timeout=20s");
    locker_handle *held = lk_take(l, "busy");
    locker_lock_options options = lk_wait_options(10000);
    locker_error err;
    int script;
    lk_server_do(env->server, "CONFIG SET lua-time-limit 1");
    script = keep_busy(env->server);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    locker_handle_free(held);
    usleep(250000); /* the background meets it a few times; it may meet it once more or less */
    lk_server_do(env->server, "SCRIPT KILL");
    close(script);
    locker *rival = lk_open_at(env->server, "");
    lk_give(lk_take_with(rival, "busy", &options));
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ several keys ---- */

enum { SEVERAL = 8 };

static locker_handle *take_several(locker *l)
{
    static const char *const keys[SEVERAL] = {"s/0", "s/1", "s/2", "s/3", "s/4", "s/5", "s/6", "s/7"};
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock_all(l, keys, SEVERAL, NULL, &held, &err), err);
    return held;
}

/* A server that has forgotten the script of a release is sent its text. */
static void releases_of_several_find_no_script(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=20s");
    locker_handle *held = take_several(l);
    lk_server_do(env->server, "SCRIPT FLUSH");
    lk_give(held);
    assert_int_equal(lk_server_integer(env->server, "EXISTS s/0 s/1 s/2 s/3 s/4 s/5 s/6 s/7"), 0);
    lk_close_locker(l);
}

/* The connection is lost between two answers: what had none is asked again, and as the leases last, it was us who released. */
static void releases_of_several_are_cut_off(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=20s");
    locker_handle *held = take_several(l);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "EVALSHA", 3, 0);
    lk_give(held);
    lk_proxy_await_harm(env->proxy, 1);
    assert_int_equal(lk_server_integer(env->server, "EXISTS s/0 s/1 s/2 s/3 s/4 s/5 s/6 s/7"), 0);
    lk_close_locker(l);
}

/* Unlocks what is held. The first requests are all at the server, and none has an answer yet, when `disturb` is called. Then the
 * answer to the nth request of that kind is held back: the requests for all other keys are at the server by then, too. At last the
 * connection is lost. */
static locker_status unlock_disturbed(lk_env *env, locker_handle *held, void (*disturb)(lk_server *server),
                                      const char *again, unsigned nth)
{
    lk_unlocking unlocking;
    lk_proxy_hold(env->proxy, false, true);
    const lk_passed first = lk_proxy_passed(env->proxy, "EVALSHA");
    lk_unlocking_start(&unlocking, held);
    lk_proxy_await_passed(first, SEVERAL);
    disturb(env->server);
    const lk_passed second = lk_proxy_passed(env->proxy, again);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, again, nth, 0);
    lk_proxy_hold(env->proxy, false, false);
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_refuse(env->proxy, true); /* nothing is asked again on another connection */
    lk_proxy_await_passed(second, nth - 2 + SEVERAL);
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_cut_all(env->proxy);
    const locker_status status = lk_unlocking_join(&unlocking);
    locker_handle_free(held);
    assert_int_equal(lk_server_integer(env->server, "EXISTS s/0 s/1 s/2 s/3 s/4 s/5 s/6 s/7"), 0);
    return status;
}

static void do_nothing(lk_server *server)
{
    (void)server;
}

/* The first key asks by hash again, and then sends the text. */
static void releases_that_find_no_script_are_sent_again_together(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=60s&command_timeout=60s");
    locker_handle *held = take_several(l);
    lk_server_do(env->server, "SCRIPT FLUSH");
    assert_int_equal(unlock_disturbed(env, held, do_nothing, "EVAL", 3), LOCKER_OK);
    lk_close_locker(l);
}

static void become_master(lk_server *server)
{
    lk_server_do(server, "REPLICAOF NO ONE");
}

/* It may have lost locks meanwhile, so what the lost connection leaves open stays open. */
static void releases_that_meet_a_replica_are_sent_again_together(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=60s&command_timeout=60s");
    locker_handle *held = take_several(l);
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 1");
    const locker_status status = unlock_disturbed(env, held, become_master, "EVALSHA", 2);
    assert_true(status == LOCKER_OK || status == LOCKER_UNKNOWN);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(a_lease_leaves_room_for_the_clocks),
    proxied_test(a_grant_by_a_late_message_counts_from_before),
    server_test(a_grant_that_is_found_late_starts_anew),
    proxied_test(an_answer_that_comes_late_is_confirmed),
    proxied_test(answers_that_are_all_late_are_taken_in_the_end),
    server_test(hosts_of_one_snapshot_exclude_each_other),
    server_test(an_old_message_grants_nothing),
    proxied_test(a_grant_that_was_broken_before_it_was_seen_is_none),
    server_test(a_lock_whose_holder_is_known_is_not_passed_on),
    proxied_test(a_late_message_takes_nothing_from_a_release),
    server_test(a_counter_ahead_of_the_time_is_not_hurried),
    server_test(a_dead_waiter_is_passed_over),
    server_test(many_dead_waiters_are_left_to_later_calls),
    server_test(a_waiter_that_gives_up_in_a_free_moment_leaves_the_lock_to_the_next),
    server_test(a_waiter_that_is_served_or_gives_up_leaves_the_queue),
    proxied_test(a_release_goes_on_when_the_server_is_back),
    proxied_test(a_place_is_taken_out_however_late),
    server_test(a_release_goes_on_when_the_server_is_not_busy_any_more),
    server_test(releases_of_several_find_no_script),
    proxied_test(releases_of_several_are_cut_off),
    proxied_test(releases_that_find_no_script_are_sent_again_together),
    proxied_test(releases_that_meet_a_replica_are_sent_again_together),
};

const lk_group lk_grants = {"grants", tests, sizeof tests / sizeof tests[0], NULL, NULL};
