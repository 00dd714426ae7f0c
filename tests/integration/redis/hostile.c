/* hostile.c: a server that sends what no Redis sends, to exhaust us: it is given up in time, and costs little
 * memory. */
#include "redis_tests.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 1000, MEMORY_MAX_KIB = 64 * 1024 };

#define LONG_64 "0000000000000000000000000000000000000000000000000000000000000000"
#define LONG_1K                                                                                              \
    LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64 LONG_64  \
        LONG_64 LONG_64 LONG_64

static const struct flood {
    const char *name, *head, *more;
} floods[] = {
    {"many elements announced", "*2147483647\r\n", ""},
    {"many elements", "*1000000000\r\n", ":1\r\n"},
    {"an endless line", "+", LONG_1K},
    {"an endless number", ":", LONG_1K},
    {"an endless length", "*", LONG_1K},
    {"a long string announced", "$536870912\r\n", ""},
    {"a long string", "$536870912\r\n", LONG_1K},
    {"long strings in an array", "*600\r\n", "$65536\r\n" LONG_1K},
    {"deep arrays", "", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"},
    {"wide and deep arrays", "", "*1000\r\n"},
    {"endless replies", "", "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n"},
    {"lines of another protocol", "HTTP/1.1 400 Bad Request\r\n", ""},
};

static void reset_memory_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "5", 1) != 1)
        print_message("the peak of memory can't be reset: what is checked is that since the start\n");
    if (fd >= 0)
        close(fd);
}

static void expect_bounded(const struct flood *flood, int64_t began)
{
    int64_t took = lk_test_now_ms() - began;
    print_message("%s: it took %lld ms\n", flood->name, (long long)took);
    assert_timely(took, TIMEOUT_MS + LK_TEST_SLACK_MS);
    if (lk_memory_peak_kib() > MEMORY_MAX_KIB)
        test_fails("%s: it took %ld KiB", flood->name, lk_memory_peak_kib());
}

/* What was harmed is over: the same locker works. */
static void expect_recovered(locker *l)
{
    lk_give_unless_late(lk_take(l, "recovered"));
    lk_close_locker(l);
}

static void floods_while_connecting(void **state)
{
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) {
        locker_error err;
        locker *l;

        reset_memory_peak();
        lk_proxy_flood(env->proxy, "SCRIPT", floods[i].head, floods[i].more);
        int64_t began = lk_test_now_ms();
        if (lk_try_uri(&l, &err, "redis://127.0.0.1:%d?connect_timeout=%dms", lk_proxy_port(env->proxy),
                       TIMEOUT_MS) == LOCKER_OK)
            lk_close_locker(l); /* endless replies are enough replies */
        expect_bounded(&floods[i], began);
    }
}

static void floods_instead_of_an_answer(void **state)
{
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) {
        locker *l = lk_open_through(env, "command_timeout=1s");
        locker_error err;
        int64_t began;

        reset_memory_peak();
        lk_proxy_flood(env->proxy, "PING", floods[i].head, floods[i].more);
        began = lk_test_now_ms();
        /* A lost connection is tried again, and +OK is no PONG. */
        if (locker_ping(l, NULL, &err) == LOCKER_OK && strcmp(floods[i].name, "endless replies") == 0)
            test_fails("anything is believed to be a PONG");
        expect_bounded(&floods[i], began);
        expect_recovered(l);
    }
}

static void floods_on_the_subscription(void **state)
{
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) {
        locker *l = lk_open_through(env, "command_timeout=1s&connect_timeout=1s");
        locker_handle *held;
        int64_t began;
        unsigned harmed = lk_proxy_harmed(env->proxy);

        reset_memory_peak();
        lk_proxy_flood(env->proxy, "SUBSCRIBE", floods[i].head, floods[i].more);
        held = lk_take(l, "subscribed");
        lk_proxy_await_harm(env->proxy, harmed + 1);
        began = lk_test_now_ms();
        lk_give(held);
        expect_recovered(l);
        expect_bounded(&floods[i], began);
    }
}

static void a_pong_is_checked(void **state)
{
    static const char *const answers[] = {"+OK\r\n", "$4\r\nPONG\r\n", ":1\r\n", "*0\r\n", "$-1\r\n"};
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        locker *l = lk_open_through(env, "");
        locker_error err;

        assert_ok(locker_ping(l, NULL, &err), err);
        lk_proxy_flood(env->proxy, "PING", answers[i], "");
        assert_status(LOCKER_PROTOCOL, locker_ping(l, NULL, &err), err);
        expect_recovered(l);
    }
}

static const struct CMUnitTest tests[] = {
    proxied_test(floods_while_connecting),
    proxied_test(floods_instead_of_an_answer),
    proxied_test(floods_on_the_subscription),
    proxied_test(a_pong_is_checked),
};

const lk_group lk_hostile = {"hostile", tests, sizeof tests / sizeof tests[0], NULL, NULL};
