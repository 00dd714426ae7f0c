/* proxy_test.c: the proxy and the server of the tests, tested with plain hiredis. */
#include <hiredis/hiredis.h>
#include <string.h>

#include "expect.h"
#include "proxying.h"
#include "test_redis.h"

struct pair {
    lk_server *server;
    lk_proxy *proxy;
};

static struct pair pair;

static int set_up(void **state)
{
    pair.server = lk_test_redis(NULL);
    pair.proxy = lk_proxy_begin(&lk_proxy_redis, pair.server->port);
    *state = &pair;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lk_proxy_free(pair.proxy);
    lk_test_redis_free(pair.server);
    return 0;
}

static redisContext *connect_by(const lk_proxy *proxy)
{
    const struct timeval patience = {.tv_sec = LK_TEST_PATIENCE_MS / 1000};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", lk_proxy_port(proxy), patience);
    assert_non_null(context);
    assert_int_equal(context->err, 0);
    redisSetTimeout(context, patience);
    return context;
}

static redisContext *connect_to(const struct pair *p)
{
    return connect_by(p->proxy);
}

/* Sends a command and asks for no answer. */
static void say(redisContext *context, const char *command)
{
    int done = 0;
    assert_int_equal(redisAppendCommand(context, command), REDIS_OK);
    while (!done)
        assert_int_equal(redisBufferWrite(context, &done), REDIS_OK);
}

static bool is_said(void *context)
{
    return lk_server_integer(context, "EXISTS said") == 1;
}

/* The reply's integer, or -1 when there is no reply. */
static long long ask(redisContext *context, const char *command)
{
    redisReply *reply = redisCommand(context, command);
    long long number = reply != NULL ? reply->integer : -1;
    freeReplyObject(reply);
    return number;
}

/* No answer comes, or none that makes sense. The connection is of no use any more. */
static void ask_in_vain(redisContext *context, const char *command)
{
    const struct timeval brief = {.tv_usec = 400000};
    assert_int_equal(redisSetTimeout(context, brief), REDIS_OK);
    assert_int_equal(ask(context, command), -1);
}

static void lengths_of_messages(void **state)
{
    static const struct {
        const char *data;
        size_t length;
    } cases[] = {{"+OK\r\n", 5},
                 {"+OK\r", 0},
                 {":1\r\n:2\r\n", 4},
                 {"$3\r\nabc\r\n", 9},
                 {"$3\r\nabc\r", 0},
                 {"$-1\r\n", 5},
                 {"*-1\r\n", 5},
                 {"*0\r\n", 4},
                 {"*2\r\n:1\r\n$1\r\nx\r\n", 15},
                 {"*2\r\n:1\r\n$1\r\nx", 0},
                 {"*1\r\n*1\r\n:5\r\n", 12},
                 {"", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(lk_proxy_redis.length(cases[i].data, strlen(cases[i].data)), cases[i].length);
}

/* Of a connection's first record and of others: length, number, kind. */
static void records_of_zookeeper(void **state)
{
    static const char list[] = "\0\0\0\x0c\0\0\0\x07\0\0\0\x08path", event[] = "\0\0\0\4\xff\xff\xff\xff";
    const lk_message first = {list, 16, 1}, second = {list, 16, 2}, told = {event, 8, 2};
    const lk_protocol *zk = &lk_proxy_zookeeper;
    (void)state;
    assert_int_equal(zk->length(list, 16), 16);
    assert_int_equal(zk->length(list, 15), 0);
    assert_int_equal(zk->length(list, 3), 0);
    assert_int_equal(zk->number(&second), 7);
    assert_int_not_equal(zk->number(&first), 7);
    assert_int_equal(zk->number(&told), LK_UNASKED);
    assert_true(zk->is(&first, LK_ZKP_CONNECT) && !zk->is(&first, LK_ZKP_LIST));
    assert_true(zk->is(&second, LK_ZKP_LIST) && !zk->is(&second, LK_ZKP_CONNECT));
}

static void it_passes_and_counts(void **state)
{
    struct pair *p = *state;
    redisContext *context = connect_to(p);
    assert_int_equal(ask(context, "INCR passed"), 1);
    assert_int_equal(ask(context, "INCR passed"), 2);
    assert_int_equal(lk_proxy_requests(p->proxy, "passed"), 2);
    lk_proxy_delay(p->proxy, 0, 60);
    int64_t began = lk_test_now_ms();
    assert_int_equal(ask(context, "INCR passed"), 3);
    assert_true(lk_test_now_ms() - began >= 59);
    lk_proxy_delay(p->proxy, 0, 0);
    redisFree(context);
}

/* The server carries the request out; the client gets no sensible reply. */
static void a_harm_meets_one_reply(void **state)
{
    static const lk_harm harms[] = {LK_PROXY_CUT, LK_PROXY_GARBAGE, LK_PROXY_SWALLOW};
    struct pair *p = *state;
    unsigned before = lk_proxy_harmed(p->proxy);
    for (size_t i = 0; i < sizeof harms / sizeof harms[0]; i++) {
        redisContext *context = connect_to(p);

        lk_server_do(p->server, "DEL harmed");
        lk_proxy_harm(p->proxy, harms[i], "harmed", 2, 2);
        assert_int_equal(ask(context, "INCR harmed"), 1);
        ask_in_vain(context, "INCR harmed");
        assert_int_equal(lk_proxy_harmed(p->proxy), before + i + 1);
        assert_int_equal(lk_server_integer(p->server, "INCR harmed"), 3);
        redisFree(context);
    }
    redisContext *context = connect_to(p);
    lk_proxy_harm(p->proxy, LK_PROXY_TRICKLE, "harmed", 1, 0);
    assert_int_equal(ask(context, "INCR harmed"), 4);
    redisFree(context);
}

static void a_harm_meets_each_reply_until_it_ends(void **state)
{
    enum { TIMES = 3 };
    struct pair *p = *state;
    const unsigned before = lk_proxy_harmed(p->proxy);
    lk_server_do(p->server, "DEL harmed");
    lk_proxy_harm_each(p->proxy, LK_PROXY_CUT, "harmed", 0);
    for (int i = 0; i < TIMES; i++) {
        redisContext *const context = connect_to(p);
        ask_in_vain(context, "INCR harmed");
        redisFree(context);
    }
    assert_int_equal(lk_proxy_harmed(p->proxy), before + TIMES);
    lk_proxy_harm_none(p->proxy);
    redisContext *const context = connect_to(p);
    assert_int_equal(ask(context, "INCR harmed"), TIMES + 1);
    redisFree(context);
}

static size_t seven(const lk_message *request, char *out, size_t size)
{
    assert_true(request->length > 0 && size >= 4);
    memcpy(out, ":7\r\n", 4);
    return 4;
}

/* Of two kinds; the server hears of neither. */
static void it_answers_by_itself(void **state)
{
    struct pair *p = *state;
    redisContext *context = connect_to(p);
    lk_server_do(p->server, "DEL one two");
    lk_proxy_answer(p->proxy, "one", seven);
    lk_proxy_answer(p->proxy, "two", seven);
    assert_int_equal(ask(context, "INCR one"), 7);
    assert_int_equal(ask(context, "INCR two"), 7);
    lk_proxy_answer(p->proxy, "one", NULL);
    assert_int_equal(ask(context, "INCR one"), 1);
    assert_int_equal(ask(context, "INCR two"), 7);
    lk_proxy_answer(p->proxy, "two", NULL);
    assert_int_equal(ask(context, "INCR two"), 1);
    redisFree(context);
}

static void what_is_held_back_flows_later(void **state)
{
    struct pair *p = *state;
    redisContext *context = connect_to(p);
    assert_int_equal(ask(context, "INCR held"), 1);
    lk_proxy_hold(p->proxy, 1, 0);
    ask_in_vain(context, "INCR held");
    assert_int_equal(lk_server_integer(p->server, "INCR held"), 2); /* it did not get through */
    redisFree(context);
    lk_proxy_hold(p->proxy, 0, 1);
    context = connect_to(p);
    ask_in_vain(context, "INCR held"); /* it did, but the reply did not */
    redisFree(context);
    lk_proxy_hold(p->proxy, 0, 0);
    lk_proxy_refuse(p->proxy, true);
    context = connect_to(p);
    ask_in_vain(context, "INCR held");
    redisFree(context);
    lk_proxy_refuse(p->proxy, false);
    context = connect_to(p);
    assert_true(ask(context, "INCR held") >= 4);
    lk_proxy_cut_all(p->proxy);
    ask_in_vain(context, "INCR held");
    redisFree(context);
}

/* What was sent on a connection that its client has closed meanwhile: kept back, and on its way. */
static void requests_of_a_closed_client_arrive(void **state)
{
    struct pair *p = *state;
    redisContext *context = connect_to(p);
    assert_int_equal(ask(context, "DEL said"), 0);
    lk_proxy_hold_old(p->proxy, true);
    say(context, "SET said 1");
    redisFree(context);
    context = connect_to(p);
    assert_int_equal(ask(context, "EXISTS said"), 0); /* new connections pass */
    lk_proxy_hold_old(p->proxy, false);
    lk_require(is_said, p->server, "it should arrive when it is let go");
    lk_proxy_delay(p->proxy, 50, 0);
    assert_int_equal(ask(context, "DEL said"), 1);
    say(context, "SET said 1");
    redisFree(context);
    lk_require(is_said, p->server, "what is on its way should arrive before the end does");
    lk_proxy_delay(p->proxy, 0, 0);
}

/* Pieces of a protocol that it doesn't know, each way. */
static void the_proxy_delays_unknown_protocols(void **state)
{
    struct pair *p = *state;
    lk_proxy *proxy = lk_proxy_begin(NULL, p->server->port);
    redisContext *context = connect_by(proxy);
    int64_t began;
    lk_proxy_delay(proxy, 30, 40);
    began = lk_test_now_ms();
    assert_int_equal(ask(context, "DEL unknown"), 0);
    assert_true(lk_test_now_ms() - began >= 69);
    redisFree(context);
    lk_proxy_free(proxy);
}

/* The client reads nothing of a flood, and the proxy can be ended all the same. */
static void a_flood_ends_with_the_proxy(void **state)
{
    struct pair *p = *state;
    lk_proxy *proxy = lk_proxy_begin(&lk_proxy_redis, p->server->port);
    redisContext *context = connect_by(proxy);
    lk_proxy_flood(proxy, "PING", "", "+PONG\r\n");
    say(context, "PING");
    lk_proxy_await_harm(proxy, 1);
    lk_proxy_free(proxy);
    redisFree(context);
}

static void a_server_restarts(void **state)
{
    struct pair *p = *state;
    lk_server_do(p->server, "SET there 1");
    lk_server_kill(p->server);
    lk_test_launch(p->server, false);
    assert_int_equal(lk_server_integer(p->server, "EXISTS there"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_of_messages),
        cmocka_unit_test(records_of_zookeeper),
        cmocka_unit_test(it_passes_and_counts),
        cmocka_unit_test(a_harm_meets_one_reply),
        cmocka_unit_test(a_harm_meets_each_reply_until_it_ends),
        cmocka_unit_test(it_answers_by_itself),
        cmocka_unit_test(what_is_held_back_flows_later),
        cmocka_unit_test(requests_of_a_closed_client_arrive),
        cmocka_unit_test(the_proxy_delays_unknown_protocols),
        cmocka_unit_test(a_flood_ends_with_the_proxy),
        cmocka_unit_test(a_server_restarts),
    };
    return cmocka_run_group_tests_name("proxy", tests, set_up, tear_down);
}
