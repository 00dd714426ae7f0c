/* foreign.c: keys of Redis that hold what liblocker did not write: every operation leaves it as it is, byte for byte, but a break that
 * says force. */
#include "redis_tests.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { DATA, HASH, STRING } what;

/* Commands that make them; %s is the key. */
static const struct {
    what is;
    const char *make;
} kinds[] = {
    {DATA, "RPUSH %s a b"},
    {DATA, "SADD %s a b"},
    {DATA, "ZADD %s 1 a 2 b"},
    {DATA, "XADD %s * f v"},
    {HASH, "HSET %s customer 7 total 99.50"},
    {HASH, "HSET %s 8f14e45f-ceea-467a-9b1e-2d3c4b5a6978:1 1"}, /* Redisson's, before its PEXPIRE */
    {STRING, "SET %s cached"},
    {STRING, "SET %s cached EX 100"},
    {STRING, "SET %s ?"},
    {STRING, "SET %s hash"},                                      /* as the type that a look tells */
    {STRING, "SET %s 8f14e45fceea467a9b1e2d3c4b5a6978 PX 60000"}, /* redis-py's lock */
    {STRING, "SET %s E8f14e45fceea467a9b1e2d3c4b5a6978 PX 60000"},
    {STRING, "SET %s 0123456789ABCDEF0123456789abcdef PX 60000"},
    {STRING, "SET %s 0123456789abcdef0123456789abcdef0 PX 60000"},
    {STRING, "SETRANGE %s 5000 long"},
};

/* Asks a server, or a cluster's node. */
__attribute__((format(printf, 3, 4))) static void ask(lk_server *server, char answer[64], const char *format,
                                                      ...)
{
    char question[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(question, sizeof question, format, args);
    va_end(args);
    if (!lk_server_ask(server, question, answer, 64))
        test_fails("%s: %s", question, answer);
}

/* Everything of the key but how long it lasts. */
static void digest(lk_server *server, const char *key, char text[64])
{
    ask(server, text,
        "EVAL \"return redis.sha1hex(redis.call('DUMP',KEYS[1])..tostring(redis.call('PTTL',KEYS[1])<0))\" 1 %s",
        key);
}

static void make(lk_server *server, const char *key, int kind)
{
    char command[128], answer[64];
    (void)snprintf(command, sizeof command, kinds[kind].make, key);
    ask(server, answer, "%s", command);
}

static void delete (lk_server *server, const char *key, bool is_there)
{
    char answer[64];
    ask(server, answer, "DEL %s", key);
    assert_int_equal(strtol(answer, NULL, 10), is_there);
}

static void expect(int kind, const char *call, locker_status wanted, locker_status got,
                   const locker_error *err)
{
    if (got != wanted)
        test_fails("%s: %s says %s: %s", kinds[kind].make, call, locker_status_name(got), err->text);
    if (kinds[kind].is != STRING &&
        strstr(err->text, kinds[kind].is == HASH ? "is a hash" : "of type") == NULL && got != LOCKER_OK &&
        strcmp(call, "a break of a token") != 0)
        test_fails("%s: %s does not say what is there: %s", kinds[kind].make, call, err->text);
}

/* Calls that want the lock, at once and for a while. */
static void expect_no_lock(locker *l, const char *key, int kind, const char *call,
                           locker_lock_options options)
{
    const bool data = kinds[kind].is == DATA;
    locker_handle *held = NULL;
    locker_error err;
    expect(kind, call, data ? LOCKER_CONFIG : LOCKER_BUSY, locker_try_lock(l, key, &options, &held, &err),
           &err);
    options.wait_ms = data ? LK_TEST_PATIENCE_MS : 30;
    locker_status status = locker_lock(l, key, &options, &held, &err);
    while (status == LOCKER_TIMEOUT && strstr(err.text, "did not answer in time") != NULL &&
           (options.wait_ms *= 10) <= LK_TEST_PATIENCE_MS) /* the machine was late */
        status = locker_lock(l, key, &options, &held, &err);
    expect(kind, call, data ? LOCKER_CONFIG : LOCKER_TIMEOUT, status, &err);
    assert_null(held);
}

static void expect_shown(locker *l, const char *key, int kind)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const locker_status status = locker_show(l, key, &info, &err);
    expect(kind, "show", kinds[kind].is == DATA ? LOCKER_CONFIG : LOCKER_OK, status, &err);
    assert_int_equal(info.held, kinds[kind].is != DATA);
    assert_string_equal(info.owner, "");
    locker_info_clear(&info);
}

static void expect_left(locker *l, const char *key, int kind)
{
    const locker_lock_options plain = LOCKER_LOCK_OPTIONS_INIT;
    locker_lock_options share = plain, permit = plain;
    locker_break_options named = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    share.mode = LOCKER_SHARED;
    permit.permits = 2;
    expect_no_lock(l, key, kind, "a lock", plain);
    expect_no_lock(l, key, kind, "a shared lock", share);
    expect_no_lock(l, key, kind, "a permit", permit);
    expect_shown(l, key, kind);
    expect(kind, "a break", LOCKER_CONFIG, locker_break(l, key, NULL, NULL, &err), &err);
    named.token = 1;
    named.force = true;
    expect(kind, "a break of a token", kinds[kind].is == DATA ? LOCKER_CONFIG : LOCKER_BUSY,
           locker_break(l, key, &named, NULL, &err), &err);
}

static bool force_breaks(locker *l, const char *key, int kind)
{
    const bool goes = kinds[kind].is != DATA;
    locker_break_options force = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    force.force = true;
    expect(kind, "a forced break", goes ? LOCKER_OK : LOCKER_CONFIG, locker_break(l, key, &force, NULL, &err),
           &err);
    return goes;
}

void lk_foreign_expect_all(lk_server *server, locker *l, const char *key)
{
    char before[64], after[64];
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof kinds[0]); kind++) {
        make(server, key, kind);
        digest(server, key, before);
        expect_left(l, key, kind);
        digest(server, key, after);
        assert_string_equal(before, after);
        const bool goes = force_breaks(l, key, kind);
        if (!goes) {
            digest(server, key, after);
            assert_string_equal(before, after);
        }
        delete (server, key, !goes);
        lk_give(lk_take(l, key));
    }
}

static void foreign_data_is_left_unchanged(void **state)
{
    lk_env *const env = *state;
    locker *const l = lk_open_at(env->server, "poll=100ms");
    lk_foreign_expect_all(env->server, l, "foreign");
    lk_close_locker(l);
}

/* Our own forms, also those of a holder of whom nothing was noted, and of a lock that is kept for a waiter that has gone. */
static void locks_of_liblocker_are_broken_without_force(void **state)
{
    static const char *const values[] = {"0123456789abcdef0123456789abcdef",
                                         "fedcba98765432107edcba9876543210",
                                         "E0123456789abcdef0123456789abcdef"};
    lk_env *const env = *state;
    locker *const l = lk_open_at(env->server, "");
    locker_error err;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        lk_server_do(env->server, "SET ours %s PX 60000", values[i]);
        assert_ok(locker_break(l, "ours", NULL, NULL, &err), err);
        lk_expect_value(env->server, "ours", NULL);
        lk_server_do(env->server, "SET ours %s", values[i]); /* for ever, as no lock is */
        assert_status(LOCKER_CONFIG, locker_break(l, "ours", NULL, NULL, &err), err);
        lk_expect_value(env->server, "ours", values[i]);
        lk_server_do(env->server, "DEL ours");
    }
    lk_close_locker(l);
}

typedef struct {
    locker *l;
    locker_status status;
    locker_error err;
} breaking;

static void *break_by_force(void *argument)
{
    breaking *const b = argument;
    locker_break_options force = LOCKER_BREAK_OPTIONS_INIT;
    force.force = true;
    b->status = locker_break(b->l, "turns", &force, NULL, &b->err);
    return NULL;
}

static long long scripts_run_by(lk_server *server)
{
    return lk_calls_of(server, "eval") + lk_calls_of(server, "evalsha");
}

/* Return the status of a break that looks at the key made by the command `seen`, and deletes the key made by `there`. */
static locker_status break_behind_a_look(lk_env *env, breaking *b, const char *seen, const char *there)
{
    pthread_t thread;
    lk_server_do(env->server, "DEL turns");
    lk_server_do(env->server, seen);
    const long long run = scripts_run_by(env->server);
    lk_proxy_hold(env->proxy, 0, 1);
    assert_int_equal(pthread_create(&thread, NULL, break_by_force, b), 0);
    while (scripts_run_by(env->server) == run)
        usleep(1000);
    lk_server_do(env->server, "DEL turns"); /* behind the look, which the server has had */
    lk_server_do(env->server, there);
    lk_proxy_hold(env->proxy, 0, 0);
    lk_join(thread, "break");
    return b->status;
}

/* Another client writes between the look of a break and its deletion. The break looks again, and finds data. */
static void a_type_that_changes_meanwhile_is_left(void **state)
{
    static const struct {
        const char *seen, *there;
    } cases[] = {{"HSET turns a b", "RPUSH turns a b"},
                 {"SET turns list", "RPUSH turns a b"},
                 {"SET turns ?", "RPUSH turns a b"},
                 {"SET turns cached", "ZADD turns 1 a"}};
    static breaking b;
    char before[64], after[64];
    lk_env *const env = *state;
    b.l = lk_open_through(env, "command_timeout=20s");
    lk_server_do(env->server, "RPUSH list a b");
    lk_server_do(env->server, "ZADD zset 1 a");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_status(LOCKER_CONFIG, break_behind_a_look(env, &b, cases[i].seen, cases[i].there), b.err);
        digest(env->server, "turns", after);
        digest(env->server, cases[i].there[0] == 'R' ? "list" : "zset", before);
        assert_string_equal(before, after);
    }
    lk_close_locker(b.l);
}

/* A user who may not run TYPE: no lock is granted, and what is no string is never deleted. */
static void without_the_right_to_read_the_type_a_key_is_not_broken(void **state)
{
    lk_env *const env = *state;
    locker_break_options force = LOCKER_BREAK_OPTIONS_INIT;
    char before[64], after[64];
    locker_error err;
    locker *l;
    force.force = true;
    lk_server_do(env->server, "ACL SETUSER blind on >pw ~* &* +@all -type");
    assert_ok(lk_try_uri(&l, &err, "redis://blind:pw@127.0.0.1:%d", env->server->port), err);
    lk_server_do(env->server, "RPUSH foreign a b");
    digest(env->server, "foreign", before);
    lk_expect_busy(l, "foreign");
    assert_status(LOCKER_DENIED, locker_break(l, "foreign", NULL, NULL, &err), err);
    assert_status(LOCKER_DENIED, locker_break(l, "foreign", &force, NULL, &err), err);
    digest(env->server, "foreign", after);
    assert_string_equal(before, after);
    lk_give(lk_take(l, "other"));
    lk_close_locker(l);
}

/* A pattern of the scripts could take time that grows with the square of a value's length. The server serves no other client meanwhile. */
static void a_long_value_keeps_the_server_busy_for_a_moment_only(void **state)
{
    lk_env *const env = *state;
    locker_lock_options reads = LOCKER_LOCK_OPTIONS_INIT;
    locker *const l = lk_open_at(env->server, "command_timeout=20s");
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held;
    locker_error err;
    char text[64];
    reads.mode = LOCKER_SHARED;
    ask(env->server, text,
        "EVAL \"return redis.call('SET', KEYS[1], 'S' .. string.rep('1', 100000) .. 'x')\" 1 long");
    ask(env->server, text, "CONFIG SET slowlog-log-slower-than 500000");
    ask(env->server, text, "SLOWLOG RESET");
    assert_status(LOCKER_BUSY, locker_try_lock(l, "long", &reads, &held, &err), err);
    assert_ok(locker_show(l, "long", &info, &err), err);
    locker_info_clear(&info);
    ask(env->server, text, "SLOWLOG LEN");
    assert_string_equal(text, "0");
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(foreign_data_is_left_unchanged),
    server_test(locks_of_liblocker_are_broken_without_force),
    proxied_test(a_type_that_changes_meanwhile_is_left),
    server_test(without_the_right_to_read_the_type_a_key_is_not_broken),
    server_test(a_long_value_keeps_the_server_busy_for_a_moment_only),
};

const lk_group lk_foreign = {"foreign", tests, sizeof tests / sizeof tests[0], NULL, NULL};
