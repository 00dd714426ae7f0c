/* messages.c: what the driver alone (alone.h) makes of messages that grant or break, in particular of those
 * that come late. */
#include "redis_tests.h"

#include <stdio.h>
#include <string.h>

#include "alone.h"

static const int64_t second_ns = 1000000000;

/* It was read while the first server was there, and nobody has looked since. */
static void a_message_of_an_earlier_server_grants_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port,
                   ""); /* first: messages of numbers from before a connection grant nothing */
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "earlier");
    lk_asker_enrol(&asker, env->server, "earlier");
    lk_give(held);
    lk_require_told(&asker.wakes, "it should be handed the lock");
    lk_close_locker(rival);
    lk_start_another(env->server, "earlier");
    lk_alone_ping();
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

static void *ask_again(void *argument)
{
    return lk_asker_ask(argument) == LOCKER_BUSY ? argument : NULL;
}

/* A message comes while an attempt is under way that another server answers in the end. */
static void move_while_it_asks(lk_env *env, lk_asker *asker)
{
    char member[256], instance[33], value[33];
    pthread_t thread;
    void *busy;
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "moved", 1, 0);
    assert_int_equal(pthread_create(&thread, NULL, ask_again, asker), 0);
    lk_proxy_await_harm(env->proxy, 1);
    lk_read_member(env->server, "moved", member, instance, value);
    lk_server_do(env->server, "EVAL %s 2 %s %s",
                 "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                 "KEYS[2] .. ' 9000000000000000/1 0 moved')",
                 instance, value);
    lk_require_told(&asker->wakes, "the message should be read");
    lk_proxy_refuse(env->proxy, true);
    lk_start_another(env->server, "moved");
    lk_proxy_refuse(env->proxy, false);
    assert_int_equal(pthread_join(thread, &busy), 0);
    assert_non_null(busy);
    assert_int_equal(lk_asker_ask(asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(asker));
}

static void a_message_from_before_the_attempt_moved_grants_nothing(void **state)
{
    static lk_asker asker;
    lk_env *env = *state;
    lk_server_do(env->server, "SET moved somebody");
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    lk_asker_enrol(&asker, env->server, "moved");
    move_while_it_asks(env, &asker);
    lk_alone_end();
}

/* No server had told anything yet. */
static void a_message_from_before_the_first_attempt_moved_grants_nothing(void **state)
{
    static lk_asker listener, asker;
    lk_env *env = *state;
    lk_server_do(env->server, "SET other somebody");
    lk_server_do(env->server, "SET moved somebody");
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    lk_asker_enrol(&listener, env->server, "other");
    lk_asker_make(&asker, "moved");
    move_while_it_asks(env, &asker);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&listener));
    lk_alone_end();
}

/* Somebody deletes it before its waiter knows of it, and another has the lock; then the waiter has it by an
 * attempt whose answer does not come. The message of the first grant has a smaller number than the other's
 * token. */
static void a_message_from_before_an_unanswered_attempt_grants_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker *rival = lk_open_at(env->server, "");
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    lk_alone_ping(); /* what counts from here on is of this connection */
    locker_handle *held = lk_take(rival, "unanswered");
    lk_asker_enrol(&asker, env->server, "unanswered");
    lk_give(held);
    lk_server_do(env->server, "DEL unanswered");
    held = lk_take(rival, "unanswered");
    const uint64_t token = locker_handle_token(held);
    lk_give(held);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "unanswered", 1, 0);
    assert_int_equal(lk_asker_ask_for(&asker, second_ns / 5), LOCKER_TIMEOUT);
    assert_int_equal(lk_server_integer(env->server, "EXISTS unanswered"), 1);
    lk_require_told(&asker.wakes, "the message should be read");
    lk_proxy_cut_all(env->proxy);
    assert_int_equal(lk_asker_ask(&asker), LOCKER_OK);
    assert_true(lk_asker_claim(&asker)->token > token);
    lk_asker_give(&asker);
    lk_close_locker(rival);
    lk_alone_end();
}

/* The server goes back to a time before the hand-over, as one does that a replica takes the place of: another
 * has the lock, and gives it to the first in its queue. */
static void who_is_handed_what_he_holds_has_lost_it(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "twice");
    char member[256], instance[33], value[33];
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "twice");
    lk_read_member(env->server, "twice", member, instance, value);
    lk_give(held);
    lk_require_told(&asker.wakes, "it should be handed the lock");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_OK);
    lk_server_do(env->server, "EVAL %s 2 %s %s %llu", /* the same once more tells nothing */
                 "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                 "KEYS[2] .. ' ' .. ARGV[1] .. '/1 0 twice')",
                 instance, value, (unsigned long long)lk_asker_claim(&asker)->token);
    lk_server_do(env->server, "DEL twice");
    held = lk_take(rival, "twice");
    lk_server_do(env->server, "ZADD {twice}:locker:queue 0 %s", member);
    (void)lk_redis_driver.dispatch(lk_alone.self);
    assert_int_equal(asker.lost, 0);
    lk_give(held);
    lk_require_told(&asker.lost, "it should be told");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    assert_int_equal(lk_server_integer(env->server, "EXISTS twice"), 0);
    lk_close_locker(rival);
    lk_alone_end();
}

static bool is_told_twice(void *context)
{
    return lk_is_told(context) && *(atomic_int *)context >= 2;
}

/* The holder does not know yet that it is one, so nobody else knows who it is. */
static void a_break_is_notified_after_a_late_hand_over(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    const locker_break_options any = LOCKER_BREAK_OPTIONS_INIT;
    locker *rival = lk_open_at(env->server, "");
    locker_error err;
    lk_alone_begin(env->server->port, ""); /* what counts from here on is of this connection */
    locker_handle *held = lk_take(rival, "late");
    lk_asker_enrol(&asker, env->server, "late");
    lk_give(held);
    assert_ok(locker_break(rival, "late", &any, NULL, &err), err);
    held = lk_take(rival, "late");
    lk_require(is_told_twice, &asker.wakes, "it should be told of the break, too");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    lk_give(held);
    lk_close_locker(rival);
    lk_alone_end();
}

/* It asks before it hears of either, and gets the lock anew. What another hears then came later. */
static void a_break_of_an_earlier_grant_takes_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker asker, other;
    const locker_break_options any = LOCKER_BREAK_OPTIONS_INIT;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "anew"), *others = lk_take(rival, "other");
    locker_error err;
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "anew");
    assert_int_equal(lk_asker_come(&other, "other"), LOCKER_BUSY);
    lk_give(held);
    assert_ok(locker_break(rival, "anew", &any, NULL, &err), err);
    assert_int_equal(lk_asker_ask(&asker), LOCKER_OK);
    lk_give(others);
    lk_require_told(&other.wakes, "it should be handed the lock");
    assert_int_equal(asker.lost, 0);
    lk_asker_give(&asker);
    assert_int_equal(lk_server_integer(env->server, "EXISTS anew"), 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&other));
    lk_close_locker(rival);
    lk_alone_end();
}

/* Commands by the proxy, the subscription past it. */
static void begin_on_two_ways(lk_env *env, const char *query)
{
    char hosts[64];
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", lk_proxy_port(env->proxy), env->server->port);
    lk_alone_begin_at(hosts, query);
    lk_proxy_refuse(env->proxy, true);
}

static struct {
    lk_asker asker;
    locker *rival;
    locker_handle *held;
} overtaken;

/* The answer is on its way while the lock is broken, another takes it, and the word of that is read. */
static size_t broken_meanwhile(const lk_message *reply, char *out, size_t size)
{
    const locker_break_options any = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    assert_true(reply->length <= size);
    memcpy(out, reply->bytes, reply->length);
    assert_ok(locker_break(overtaken.rival, "overtaken", &any, NULL, &err), err);
    overtaken.held = lk_take(overtaken.rival, "overtaken");
    lk_require_told(&overtaken.asker.wakes, "it should be told of the break");
    return reply->length;
}

static void a_break_that_overtakes_the_grant_is_heard_of(void **state)
{
    lk_env *env = *state;
    begin_on_two_ways(env, "");
    overtaken.rival = lk_open_at(env->server, "");
    lk_server_do(env->server, "SET overtaken somebody");
    lk_asker_enrol(&overtaken.asker, env->server, "overtaken");
    lk_server_do(env->server, "DEL overtaken");
    lk_proxy_forge(env->proxy, "overtaken", broken_meanwhile);
    assert_int_equal(lk_asker_ask(&overtaken.asker), LOCKER_BUSY);
    assert_int_equal(overtaken.asker.lost, 0);
    assert_int_equal(lk_asker_ask(&overtaken.asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&overtaken.asker));
    lk_give(overtaken.held);
    lk_close_locker(overtaken.rival);
    lk_alone_end();
}

static void a_message_does_not_count_as_confirmation_by_replicas(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "&wait_replicas=1&wait_timeout=50ms");
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "replicas");
    lk_asker_enrol(&asker, env->server, "replicas");
    lk_give(held);
    lk_require_told(&asker.wakes, "it should be handed the lock");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_UNAVAILABLE);
    assert_true(lk_asker_claim(&asker)->retry_at > 0); /* not the last word: a replica may come */
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_close_locker(rival);
    lk_alone_end();
}

static char listener[33];

static bool is_heard_by_nobody(void *context)
{
    return lk_server_integer(context, "PUBLISH locker:wake:%s none", listener) == 0;
}

static void *end_beside(void *none)
{
    lk_alone_end();
    return none;
}

/* Its place can't be taken out of the queue, for as long as that is tried. */
static void a_closing_locker_is_handed_no_lock(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char member[256], value[33];
    pthread_t closer;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "closing");
    begin_on_two_ways(env, "&cleanup_timeout=1m");
    lk_asker_enrol(&asker, env->server, "closing");
    lk_read_member(env->server, "closing", member, listener, value);
    lk_proxy_hold(env->proxy, true, true);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    assert_int_equal(pthread_create(&closer, NULL, end_beside, NULL), 0);
    lk_require(is_heard_by_nobody, env->server, "it should not listen any more");
    lk_give(held);
    assert_int_equal(lk_server_integer(env->server, "EXISTS closing"), 0);
    lk_proxy_hold(env->proxy, false, false);
    assert_int_equal(pthread_join(closer, NULL), 0);
    lk_close_locker(rival);
}

static bool is_free(void *context)
{
    (void)lk_redis_driver.dispatch(lk_alone.self);
    return lk_server_integer(context, "EXISTS gone") == 0;
}

/* Its entry of the queue could not be taken out: it is handed the lock, and nobody is there. */
static void a_lock_handed_to_a_waiter_that_has_gone_is_given_back(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "gone");
    char member[256], instance[33], value[33];
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "gone");
    lk_read_member(env->server, "gone", member, instance, value);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    lk_require_queue(env->server, "gone", 0);
    lk_server_do(env->server, "ZADD {gone}:locker:queue 0 %s", member);
    lk_give(held);
    lk_require(is_free, env->server, "it should be given back");
    lk_close_locker(rival);
    lk_alone_end();
}

/* Likewise, and it is closed before it could read that. */
static void a_lock_handed_to_a_locker_before_its_close_is_given_back(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    locker *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(rival, "unread");
    char member[256], instance[33], value[33];
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "unread");
    lk_read_member(env->server, "unread", member, instance, value);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    lk_require_queue(env->server, "unread", 0);
    lk_server_do(env->server, "ZADD {unread}:locker:queue 0 %s", member);
    lk_give(held);
    assert_int_equal(lk_server_integer(env->server, "EXISTS unread"), 1);
    lk_alone_end();
    assert_int_equal(lk_server_integer(env->server, "EXISTS unread"), 0);
    lk_close_locker(rival);
}

static char handed[256]; /* a message that comes before the answer to UNSUBSCRIBE */

static size_t handed_meanwhile(const lk_message *reply, char *out, size_t size)
{
    const size_t len = strlen(handed);
    assert_true(len + reply->length <= size);
    memcpy(out, handed, len);
    memcpy(out + len, reply->bytes, reply->length);
    return len + reply->length;
}

/* Likewise, and the message is on its way when it is closed. */
static void a_lock_handed_to_a_locker_during_its_close_is_given_back(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char member[256], instance[33], value[33], text[128];
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    lk_server_do(env->server, "SET late somebody");
    lk_asker_enrol(&asker, env->server, "late");
    lk_read_member(env->server, "late", member, instance, value);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    lk_server_do(env->server, "SET late %s", value);
    const int len = snprintf(text, sizeof text, "%s 1700000000000000/1 0 late", value);
    snprintf(handed, sizeof handed, "*3\r\n$7\r\nmessage\r\n$4\r\nwake\r\n$%d\r\n%s\r\n", len, text);
    lk_proxy_forge(env->proxy, "UNSUBSCRIBE", handed_meanwhile);
    lk_alone_end();
    assert_int_equal(lk_server_integer(env->server, "EXISTS late"), 0);
}

static bool is_anybody_heard(void *context)
{
    return lk_server_integer(context, "EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS')") > 0;
}

/* What the answer to that takes, clean-ups have not. */
static void closing_waits_for_messages_for_a_part_of_cleanup_timeout(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "ttl=30s&cleanup_timeout=200ms");
    locker_handle *held = lk_take(l, "silent");
    lk_require(is_anybody_heard, env->server, "it should listen");
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "UNSUBSCRIBE", 1, 0);
    lk_server_do(env->server, "SCRIPT FLUSH");
    lk_close_locker(l);
    assert_int_equal(lk_server_integer(env->server, "EXISTS silent"), 0);
    locker_handle_free(held);
}

static bool is_other_free(void *context)
{
    (void)lk_redis_driver.dispatch(lk_alone.self);
    return lk_server_integer(context, "EXISTS other") == 0;
}

/* It stands in the queue of another lock, and is handed that one. */
static void a_message_of_another_lock_grants_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char member[256], instance[33], value[33];
    lk_alone_begin(env->server->port, "");
    lk_server_do(env->server, "SET named somebody");
    lk_asker_enrol(&asker, env->server, "named");
    lk_read_member(env->server, "named", member, instance, value);
    lk_server_do(env->server, "SET other %s", value);
    lk_server_do(env->server, "EVAL %s 2 %s %s",
                 "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                 "KEYS[2] .. ' 9000000000000000/1 0 other')",
                 instance, value);
    lk_require(is_other_free, env->server, "it should be given back");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

static const struct CMUnitTest tests[] = {
    server_test(a_message_of_an_earlier_server_grants_nothing),
    proxied_test(a_message_from_before_the_attempt_moved_grants_nothing),
    proxied_test(a_message_from_before_the_first_attempt_moved_grants_nothing),
    proxied_test(a_message_from_before_an_unanswered_attempt_grants_nothing),
    server_test(who_is_handed_what_he_holds_has_lost_it),
    server_test(a_break_is_notified_after_a_late_hand_over),
    server_test(a_break_of_an_earlier_grant_takes_nothing),
    proxied_test(a_break_that_overtakes_the_grant_is_heard_of),
    server_test(a_message_does_not_count_as_confirmation_by_replicas),
    proxied_test(a_closing_locker_is_handed_no_lock),
    server_test(a_lock_handed_to_a_waiter_that_has_gone_is_given_back),
    server_test(a_lock_handed_to_a_locker_before_its_close_is_given_back),
    proxied_test(a_lock_handed_to_a_locker_during_its_close_is_given_back),
    proxied_test(closing_waits_for_messages_for_a_part_of_cleanup_timeout),
    server_test(a_message_of_another_lock_grants_nothing),
};

const lk_group lk_messages = {"messages", tests, sizeof tests / sizeof tests[0], NULL, NULL};
