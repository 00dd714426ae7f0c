/* proxy_test.c: the proxy and the server of the tests, tested with plain hiredis. */
#include <hiredis/hiredis.h>
#include <string.h>

#include "expect.h"
#include "proxy.h"
#include "resp.h"
#include "test_redis.h"

struct pair {
    lk_server *server;
    struct lk_proxy *proxy;
};

static struct pair pair;

static int set_up(void **state)
{
    pair.server = lk_test_redis(NULL);
    pair.proxy = lk_proxy_start(pair.server->port);
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

static redisContext *connect_to(const struct pair *p)
{
    const struct timeval patience = {.tv_usec = 400000};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", lk_proxy_port(p->proxy), patience);

    assert_non_null(context);
    assert_int_equal(context->err, 0);
    redisSetTimeout(context, patience);
    return context;
}

/* The reply's integer, or -1 when there is no reply. */
static long long ask(redisContext *context, const char *command)
{
    redisReply *reply = redisCommand(context, command);
    long long number = reply != NULL ? reply->integer : -1;

    freeReplyObject(reply);
    return number;
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
        assert_int_equal(lk_resp_length(cases[i].data, strlen(cases[i].data)), cases[i].length);
}

static void it_passes_and_counts(void **state)
{
    struct pair *p = *state;
    redisContext *context = connect_to(p);

    assert_int_equal(ask(context, "INCR passed"), 1);
    assert_int_equal(ask(context, "INCR passed"), 2);
    assert_int_equal(lk_proxy_requests(p->proxy, "passed"), 2);
    lk_proxy_delay(p->proxy, 60);
    int64_t began = lk_test_now_ms();
    assert_int_equal(ask(context, "INCR passed"), 3);
    assert_true(lk_test_now_ms() - began >= 59);
    lk_proxy_delay(p->proxy, 0);
    redisFree(context);
}

/* The server carries the request out; the client gets no sensible reply. */
static void a_harm_meets_one_reply(void **state)
{
    static const enum lk_proxy_harm harms[] = {LK_PROXY_CUT, LK_PROXY_GARBAGE, LK_PROXY_SWALLOW};
    struct pair *p = *state;
    unsigned before = lk_proxy_harmed(p->proxy);

    for (size_t i = 0; i < sizeof harms / sizeof harms[0]; i++) {
        redisContext *context = connect_to(p);

        lk_server_do(p->server, "DEL harmed");
        lk_proxy_harm(p->proxy, harms[i], "harmed", 2, 2);
        assert_int_equal(ask(context, "INCR harmed"), 1);
        assert_int_equal(ask(context, "INCR harmed"), -1);
        assert_int_equal(lk_proxy_harmed(p->proxy), before + i + 1);
        assert_int_equal(lk_server_integer(p->server, "INCR harmed"), 3);
        redisFree(context);
    }
    redisContext *context = connect_to(p);
    lk_proxy_harm(p->proxy, LK_PROXY_TRICKLE, "harmed", 1, 0);
    assert_int_equal(ask(context, "INCR harmed"), 4);
    redisFree(context);
}

static void what_is_held_back_flows_later(void **state)
{
    struct pair *p = *state;
    redisContext *context = connect_to(p);

    assert_int_equal(ask(context, "INCR held"), 1);
    lk_proxy_hold(p->proxy, 1, 0);
    assert_int_equal(ask(context, "INCR held"), -1);
    assert_int_equal(lk_server_integer(p->server, "INCR held"), 2); /* it did not get through */
    redisFree(context);
    lk_proxy_hold(p->proxy, 0, 1);
    context = connect_to(p);
    assert_int_equal(ask(context, "INCR held"), -1); /* it did, but the reply did not */
    redisFree(context);
    lk_proxy_hold(p->proxy, 0, 0);
    lk_proxy_refuse(p->proxy, 1);
    context = connect_to(p);
    assert_int_equal(ask(context, "INCR held"), -1);
    redisFree(context);
    lk_proxy_refuse(p->proxy, 0);
    context = connect_to(p);
    assert_true(ask(context, "INCR held") >= 4);
    lk_proxy_cut_all(p->proxy);
    assert_int_equal(ask(context, "INCR held"), -1);
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
        cmocka_unit_test(lengths_of_messages),    cmocka_unit_test(it_passes_and_counts),
        cmocka_unit_test(a_harm_meets_one_reply), cmocka_unit_test(what_is_held_back_flows_later),
        cmocka_unit_test(a_server_restarts),
    };

    return cmocka_run_group_tests_name("proxy", tests, set_up, tear_down);
}
