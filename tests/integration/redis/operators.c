/* operators.c: what an operator does and sees: locks that are broken, and whose they were. */
#include "redis_tests.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* A loss that a renewal would show comes after a third of 30 s. */
static const int64_t told_within_ms = 100 + LK_TEST_SLACK_MS;

static void break_it(locker *operator_, const char *key, const locker_handle *whose)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_ok(locker_break(operator_, key, NULL, &info, &err), err);
    assert_true(info.token == locker_handle_token(whose));
    assert_string_equal(info.owner, locker_handle_owner(whose));
    locker_info_clear(&info);
}

static void expect_told_at_once(locker_handle *held)
{
    const int64_t broken = lk_test_now_ms();
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    assert_timely(lk_test_now_ms() - broken, told_within_ms);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    lk_give_lost(held);
}

static void a_holder_that_never_waited_is_told_at_once(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *operator_ = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "broken"), *other = lk_take(l, "other");
    lk_require_noted(env, "broken");
    break_it(operator_, "broken", held);
    expect_told_at_once(held);
    assert_int_equal(locker_handle_state(other), LOCKER_STATE_HELD);
    lk_give(other);
    lk_give(lk_take(operator_, "broken"));
    lk_close_locker(operator_);
    lk_close_locker(l);
}

/* The lock came by a message, and is broken before the waiter's own attempt could say more. */
static void a_holder_that_waited_is_told_at_once(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *rival = lk_open_at(env->server, "ttl=30s");
    locker_handle *held = lk_take(l, "waited");
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "waited", NULL);
    lk_require_waiting(rival, 1);
    lk_require_subscriber(env->server);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    break_it(l, "waited", waiter.held);
    expect_told_at_once(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

struct breaking {
    locker *l;
    locker_break_options only;
    locker_status status;
    locker_error err;
};

static void *break_named(void *argument)
{
    struct breaking *b = argument;
    b->status = locker_break(b->l, "next", &b->only, NULL, &b->err);
    return NULL;
}

/* The holder that the operator was shown gives the lock back before the break arrives: the next one, whom
 * nobody named, keeps it, and the operator is told. */
static void a_break_that_comes_late_takes_nothing(void **state)
{
    static struct breaking b;
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *rival = lk_open_at(env->server, "ttl=30s");
    locker_handle *held = lk_take(l, "next"), *others;
    pthread_t thread;
    unsigned asked;
    lk_require_noted(env, "next");
    b.l = lk_open_through(env, "command_timeout=20s");
    b.only = (locker_break_options)LOCKER_BREAK_OPTIONS_INIT;
    b.only.token = locker_handle_token(held);
    asked = lk_proxy_requests(env->proxy, "{next}");
    lk_proxy_hold(env->proxy, 0, 1);
    assert_int_equal(pthread_create(&thread, NULL, break_named, &b), 0);
    while (lk_proxy_requests(env->proxy, "{next}") == asked)
        usleep(1000);
    lk_server_integer(env->server, "EXISTS next"); /* what was sent before has been served */
    lk_give(held);
    others = lk_take(rival, "next");
    lk_require_noted(env, "next");
    lk_proxy_hold(env->proxy, 0, 0);
    lk_join(thread, "break");
    assert_status(LOCKER_BUSY, b.status, b.err);
    lk_give(others);
    lk_close_locker(b.l);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Without the right to subscribe, locks work, and the next renewal tells. */
static void a_holder_that_may_not_subscribe_is_told_by_its_renewal(void **state)
{
    lk_env *env = *state;
    locker *operator_ = lk_open_at(env->server, ""), *l;
    locker_handle *held;
    locker_error err;
    lk_server_do(env->server, "ACL SETUSER mute on >pw ~* resetchannels +@all");
    assert_ok(lk_try_uri(&l, &err, "redis://mute:pw@127.0.0.1:%d?ttl=600ms", env->server->port), err);
    held = lk_take(l, "mute");
    while (lk_server_integer(env->server, "EXISTS {mute}:locker:info") == 0)
        ;
    break_it(operator_, "mute", held);
    const int64_t broken = lk_test_now_ms();
    assert_true(lk_readable(locker_handle_fd(held), LK_TEST_PATIENCE_MS));
    assert_timely(lk_test_now_ms() - broken, 600 + LK_TEST_SLACK_MS);
    lk_give_lost(held);
    lk_give(lk_take(l, "mute"));
    lk_close_locker(l);
    lk_close_locker(operator_);
}

/* One that could not listen, as it still connected, or its connection was lost, renews what it has when it can. */
static void a_holder_that_could_not_listen_is_notified_of_a_break_later(void **state)
{
    lk_env *env = *state;
    const locker_lock_options share = {.size = sizeof share, .wait_ms = -1, .mode = LOCKER_SHARED};
    locker *operator_ = lk_open_at(env->server, ""), *l;
    locker_error err;
    lk_server_do(env->server, "ACL SETUSER deaf on >pw ~* resetchannels +@all");
    assert_ok(lk_try_uri(&l, &err, "redis://deaf:pw@127.0.0.1:%d?ttl=10m", env->server->port), err);
    locker_handle *const held = lk_take(l, "deaf"), *const reads = lk_take_with(l, "deaf/read", &share);
    while (lk_server_integer(env->server, "EXISTS {deaf}:locker:info") == 0)
        ;
    break_it(operator_, "deaf", held);
    assert_ok(locker_break(operator_, "deaf/read", NULL, NULL, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_int_equal(locker_handle_state(reads), LOCKER_STATE_HELD);
    const locker_lock_options wait = lk_wait_options(LK_TEST_PATIENCE_MS), brief = lk_wait_options(1000);
    locker_handle *const others = lk_take(operator_, "deaf/others"), *none;
    assert_status(LOCKER_DENIED, locker_lock(l, "deaf/others", &wait, &none, &err), err);
    lk_server_do(env->server, "ACL SETUSER deaf &*");
    const locker_status status = locker_lock(l, "deaf/others", &brief, &none, &err); /* it tries anew */
    assert_true(status == LOCKER_DENIED || status == LOCKER_TIMEOUT);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_require_state(reads, LOCKER_STATE_LOST);
    lk_give(others);
    lk_give_lost(held);
    lk_give_lost(reads);
    lk_close_locker(l);
    lk_close_locker(operator_);
}

/* What is given back at once pays for none of this. */
static void a_lock_given_back_at_once_asks_for_no_subscription(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    int64_t longest = 0;
    for (int i = 0; i < 100; i++) {
        int64_t began = lk_test_now_ms();

        lk_give(lk_take(l, "brief"));
        if (lk_test_now_ms() - began > longest)
            longest = lk_test_now_ms() - began;
    }
    if (longest < 4) /* else the machine held one for us */
        assert_false(lk_is_listened_to(env->server));
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what stands beside a lock ---- */

static void expect_unknown_holder(locker *l, const char *key)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_ok(locker_show(l, key, &info, &err), err);
    assert_true(info.held);
    assert_int_equal(info.token, 0);
    assert_int_equal(info.since_unix_ms, -1);
    assert_string_equal(info.owner, "");
    locker_info_clear(&info);
}

static void a_hostile_info_says_nothing(void **state)
{
    static const char value[] = "0123456789abcdef0123456789abcdef";
    static const char *const tails[] = {
        "1 99999999999999999999999 0123456789abcdef0123456789abcdef me",
        "1 -1 0123456789abcdef0123456789abcdef me",
        "-5 7 0123456789abcdef0123456789abcdef me",
        "99999999999999999999999 7 0123456789abcdef0123456789abcdef me",
        "1 7 me",
        "1 7 ",
        "1  7 0123456789abcdef0123456789abcdef me",
        "",
    };
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    lk_server_do(env->server, "SET victim %s", value);
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        lk_server_do(env->server, "SET {victim}:locker:info %s", value); /* a value alone */
        expect_unknown_holder(l, "victim");
        lk_server_do(env->server, "EVAL %s 1 {victim}:locker:info %s %s",
                     "redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2]) return 1", value, tails[i]);
        expect_unknown_holder(l, "victim");
    }
    lk_close_locker(l);
}

/* Somebody looks at a key that is no lock but holds a lot: that costs a process no connection, and so none of
 * the leases that it keeps by it. */
static void a_long_value_costs_show_no_connection(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_server_do(env->server, "EVAL %s 1 long",
                 "return #redis.call('SET', KEYS[1], string.rep('x', 3000000))");
    assert_ok(locker_show(l, "long", &info, &err), err);
    assert_true(info.held);
    assert_string_equal(info.owner, "");
    locker_info_clear(&info);
    locker_break_options force = LOCKER_BREAK_OPTIONS_INIT;
    force.force = true;
    assert_ok(locker_break(l, "long", &force, NULL, &err), err);
    assert_int_equal(lk_server_integer(env->server, "EXISTS long"), 0);
    lk_close_locker(l);
}

/* A lock that is broken without its mark would be called given back by a release whose answer was lost. */
static void without_the_right_to_its_mark_nothing_is_broken(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *operator_;
    locker_handle *held = lk_take(l, "unmarked");
    locker_error err;
    lk_server_do(
        env->server,
        "ACL SETUSER blind on >pw ~unmarked ~{unmarked}:locker:queue ~%s ~{unmarked}:locker:info &* +@all",
        lk_fence_key("unmarked"));
    assert_ok(lk_try_uri(&operator_, &err, "redis://blind:pw@127.0.0.1:%d", env->server->port), err);
    assert_status(LOCKER_DENIED, locker_break(operator_, "unmarked", NULL, NULL, &err), err);
    lk_close_locker(operator_);
    assert_in_range(lk_server_integer(env->server, "PTTL unmarked"), 1, 30000);
    lk_give(held);
    lk_close_locker(l);
}

/* The holder hears of a break only when no right is missing. */
static void without_its_rights_nothing_is_broken(void **state)
{
    static const char *const rights[] = {"del", "hdel", "pexpireat", "set", "zrem"};
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *operator_;
    locker_lock_options share = LOCKER_LOCK_OPTIONS_INIT;
    share.mode = LOCKER_SHARED;
    for (size_t i = 0; i < 2 * sizeof rights / sizeof *rights; i++) {
        const bool is_shared = i % 2 == 1;
        const char *const right = rights[i / 2];
        if (!is_shared &&
            (strcmp(right, "hdel") == 0 || strcmp(right, "pexpireat") == 0 || strcmp(right, "zrem") == 0))
            continue; /* which it does not need */
        locker_handle *held = lk_take_with(l, "rights", is_shared ? &share : NULL);
        locker_error err;
        lk_server_do(env->server, "ACL SETUSER few reset on >pw ~* &* +@all -%s", right);
        assert_ok(lk_try_uri(&operator_, &err, "redis://few:pw@127.0.0.1:%d", env->server->port), err);
        assert_status(LOCKER_DENIED, locker_break(operator_, "rights", NULL, NULL, &err), err);
        lk_close_locker(operator_);
        assert_ok(locker_ping(l, NULL, &err), err); /* a message would have come before its answer */
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
        lk_give(held);
    }
    lk_close_locker(l);
}

static void *break_unknown(void *l)
{
    static locker_error err;
    assert_ok(locker_break(l, "unknown", NULL, NULL, &err), err);
    return NULL;
}

static int64_t looks(lk_server *server)
{
    return lk_server_integer(server, "EVAL %s 0",
                             "return tonumber(string.match(redis.call('INFO', 'commandstats'), "
                             "'cmdstat_evalsha:calls=(%d+)') or 0)");
}

static bool has_looked_thrice(void *server)
{
    return looks(server) >= 3;
}

/* A holder says who it is some milliseconds after its grant. Another one comes when the first has been looked
 * at for most of the time that it is given: that one has as much. (On a machine that is busy it may come when
 * all is over, and is left.) */
static void each_new_holder_has_time_to_write_its_name(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    bool is_late = true;
    for (int round = 0; round < 10 && is_late; round++) {
        pthread_t thread;
        lk_server_do(env->server, "SET unknown 00000000000000000000000000000001 PX 30000");
        lk_server_do(env->server, "CONFIG RESETSTAT");
        assert_int_equal(pthread_create(&thread, NULL, break_unknown, l), 0);
        lk_require(has_looked_thrice, env->server, "it should look again and again");
        lk_server_do(env->server, "SET unknown 00000000000000000000000000000002 PX 30000");
        assert_int_equal(pthread_join(thread, NULL), 0);
        is_late = lk_server_integer(env->server, "DEL unknown") == 1;
    }
    assert_false(is_late);
    assert_true(looks(env->server) >= 3 + 4); /* looks at the first, and at the other; and the break */
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(each_new_holder_has_time_to_write_its_name),
    server_test(a_holder_that_never_waited_is_told_at_once),
    server_test(a_holder_that_waited_is_told_at_once),
    proxied_test(a_break_that_comes_late_takes_nothing),
    server_test(without_the_right_to_its_mark_nothing_is_broken),
    server_test(without_its_rights_nothing_is_broken),
    server_test(a_holder_that_may_not_subscribe_is_told_by_its_renewal),
    server_test(a_holder_that_could_not_listen_is_notified_of_a_break_later),
    server_test(a_lock_given_back_at_once_asks_for_no_subscription),
    server_test(a_hostile_info_says_nothing),
    server_test(a_long_value_costs_show_no_connection),
};

const lk_group lk_operators = {"operators", tests, sizeof tests / sizeof tests[0], NULL, NULL};
