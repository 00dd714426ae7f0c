/* sharing.c: shared locks and permits as they stand in the server, beside clients that know nothing of them. What they promise
 * to callers, the conformance kit tests. */
#include "redis_tests.h"

#include <stdio.h>
#include <string.h>

#include "alone.h"

static const locker_lock_options share = {
    .size = sizeof(locker_lock_options), .wait_ms = -1, .mode = LOCKER_SHARED};

static locker_lock_options permit_of(int32_t permits)
{
    return (locker_lock_options){.size = sizeof(locker_lock_options), .wait_ms = -1, .permits = permits};
}

/* Beside counters of numbers. */
static void expect_nothing_left(lk_server *server)
{
    assert_int_equal(
        lk_server_integer(server, "EVAL %s 0",
                          "return#redis.call('KEYS','*')-#redis.call('KEYS','locker:fence:{*}')"),
        0);
}

/* Everything but the counters ends with the leases, also where no process is left that gives anything back. */
static void expect_all_to_end(lk_server *server)
{
    assert_int_equal(
        lk_server_integer(server, "EVAL %s 0",
                          "local n = 0\n"
                          "for _, key in ipairs(redis.call('KEYS', '*')) do\n"
                          "  local ends = redis.call('PTTL', key) > 0 or string.find(key, '^locker:fence:')\n"
                          "  n = n + (ends and 0 or 1)\n"
                          "end\n"
                          "return n"),
        0);
}

static void expect_marker(lk_server *server, const char *key, const char *from, const char *to)
{
    char value[64];
    assert_true(lk_server_text(server, value, sizeof value, "GET %s", key));
    if (strncmp(value, from, strlen(from)) != 0 || strlen(value) < strlen(to) ||
        strcmp(value + strlen(value) - strlen(to), to) != 0)
        test_fails("'%s' is no marker like %s...%s", value, from, to);
}

static void a_shared_lock_is_held_for_foreign_clients_and_leaves_nothing(void **state)
{
    lk_env *env = *state;
    const locker_lock_options two = permit_of(2);
    locker *l = lk_open_at(env->server, "");
    locker_handle *held = lk_take_with(l, "kept", &share), *permit = lk_take_with(l, "counted", &two);
    expect_marker(env->server, "kept", "S", "");
    expect_marker(env->server, "counted", "P", "/2");
    char answer[16];
    assert_false(lk_server_text(env->server, answer, sizeof answer, "SET kept mine NX PX 1000"));
    expect_all_to_end(env->server);
    lk_give(held);
    lk_give(permit);
    expect_nothing_left(env->server);
    lk_close_locker(l);
}

/* Its lease ends for others when the last of theirs does. */
static void the_marker_is_lowered(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->server, "ttl=60s"), *b = lk_open_at(env->server, "ttl=20s");
    locker_handle *longer = lk_take_with(a, "lowered", &share), *shorter = lk_take_with(b, "lowered", &share);
    assert_true(lk_server_integer(env->server, "PTTL lowered") > 30000);
    lk_give(longer);
    const long long left = lk_server_integer(env->server, "PTTL lowered");
    assert_true(left > 0 && left <= 20000);
    lk_give(shorter);
    lk_expect_value(env->server, "lowered", NULL);
    lk_close_locker(b);
    lk_close_locker(a);
}

static bool has_lost(void *l)
{
    return lk_stats(l).lost > 0;
}

/* What others made of the key meanwhile is theirs, and stays as it is. */
static void a_reader_whose_marker_was_overwritten_is_not_revived(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->server, "ttl=1s"), *b = lk_open_at(env->server, "ttl=60s");
    locker_handle *old = lk_take_with(a, "revived", &share);
    assert_int_equal(lk_server_integer(env->server, "DEL revived"), 1);
    locker_handle *held = lk_take_with(b, "revived", &share);
    char before[64];
    assert_true(lk_server_text(env->server, before, sizeof before, "GET revived"));
    lk_require(has_lost, a, "a renewal should tell the loss");
    lk_expect_value(env->server, "revived", before);
    assert_int_equal(lk_server_integer(env->server, "ZCARD {revived}:locker:shared:%s", before + 1), 1);
    assert_true(lk_server_integer(env->server, "PTTL revived") > 30000);
    locker_error err;
    assert_status(LOCKER_LOST, locker_unlock(old, &err), err);
    locker_handle_free(old);
    lk_expect_value(env->server, "revived", before);
    lk_give(held);
    lk_close_locker(b);
    lk_close_locker(a);
}

static void a_renewal_leaves_another_lock_alone(void **state)
{
    lk_env *env = *state;
    const locker_lock_options two = permit_of(2);
    locker *a = lk_open_at(env->server, "ttl=1s");
    locker_handle *held = lk_take_with(a, "alone", &two);
    lk_server_do(env->server, "SET alone somebody PX 60000");
    lk_require(has_lost, a, "a renewal should tell the loss");
    lk_expect_value(env->server, "alone", "somebody");
    assert_true(lk_server_integer(env->server, "PTTL alone") > 30000);
    locker_error err;
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    locker_handle_free(held);
    lk_expect_value(env->server, "alone", "somebody");
    lk_close_locker(a);
}

/* Most of those that are renewed together: no batch is without one. */
static void an_overwritten_lock_costs_no_other_lock(void **state)
{
    enum { ALL = 20, WHOLE = 10 };
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=1s");
    locker_handle *held[ALL]; /* each tenth stays whole, and the last is none of these */
    for (int i = 0; i < ALL; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%s-%d", i % WHOLE == 0 ? "whole" : "torn", i);
        held[i] = lk_take_with(l, key, &share);
    }
    lk_server_do(env->server, "EVAL %s 0",
                 "for _, name in ipairs(redis.call('KEYS', '{torn-*}:locker:shared:*[0-9]')) do\n"
                 "  redis.call('SET', name, 'x', 'PX', 60000)\n"
                 "end\n"
                 "return 0");
    lk_require_state(held[ALL - 1], LOCKER_STATE_LOST);
    (void)assert_unless_late(!lk_readable(locker_handle_fd(held[0]), 2000)); /* for two leases */
    for (int i = 0; i < ALL; i++) {
        if (i % WHOLE == 0)
            lk_give_unless_late(held[i]);
        else
            locker_handle_free(held[i]);
    }
    lk_server_do(env->server, "FLUSHALL");
    lk_close_locker(l);
}

/* A script ends where a right is missing, whatever it has written by then. */
static void a_denied_script_leaves_nothing_for_ever(void **state)
{
    static const char *const rights[] = {"zadd", "hset", "pexpire", "pexpireat", "set", "zcount", "zrange"};
    lk_env *env = *state;
    const locker_lock_options two = permit_of(2);
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        locker_handle *held = NULL;
        locker_error err;
        locker *l;
        lk_server_do(env->server, "ACL SETUSER few reset on >pw ~* &* +@all -%s", rights[i]);
        assert_ok(lk_try_uri(&l, &err, "redis://few:pw@127.0.0.1:%d", env->server->port), err);
        if (locker_lock(l, "few/permits", &two, &held, &err) != LOCKER_OK)
            assert_status(LOCKER_DENIED, err.status, err);
        expect_all_to_end(env->server);
        locker_handle_free(held);
        if (locker_lock(l, "few/shares", &share, &held, &err) != LOCKER_OK)
            assert_status(LOCKER_DENIED, err.status, err);
        expect_all_to_end(env->server);
        locker_handle_free(held);
        (void)locker_close(l);
        lk_server_do(env->server, "FLUSHALL");
    }
}

/* Earlier releases take what they don't know out of the queue, and give the lock to nobody then. */
static void an_earlier_liblocker_drops_waiters_for_a_share(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->server, "poll=100ms");
    lk_locking waiting;
    lk_server_do(env->server, "SET earlier somebody PX 60000");
    lk_locking_start(&waiting, a, "earlier", &share);
    lk_require_queue(env->server, "earlier", 1);
    lk_server_do(env->server, "ZPOPMIN {earlier}:locker:queue");
    lk_server_do(env->server, "DEL earlier");
    lk_give(lk_locking_grant(&waiting));
    expect_nothing_left(env->server);
    lk_close_locker(a);
}

/* The lock is kept for nobody who doesn't listen any more. */
static void the_dead_are_passed_over(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->server, "");
    locker_handle *held = lk_take(a, "dead");
    lk_server_do(env->server, "ZADD {dead}:locker:queue 1 %s",
                 "S00000000000000aa00000000000000aa 00000000000000aa0000000000000001 30000 0 gone");
    lk_give(held);
    lk_expect_value(env->server, "dead", NULL);
    held = lk_take_with(a, "dead", &share);
    lk_server_do(env->server, "ZADD {dead}:locker:queue 1 %s",
                 "00000000000000aa00000000000000aa 00000000000000aa0000000000000001 30000 1 gone");
    locker *b = lk_open_at(env->server, "");
    lk_give(lk_take_with(b, "dead", &share)); /* not behind a writer that is gone */
    lk_give(held);
    expect_nothing_left(env->server);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* Make a claim of the driver alone that wants to share the key. */
static void make_sharing(lk_asker *asker, const char *key)
{
    lk_asker_make(asker, key);
    lk_asker_claim(asker)->mode = LOCKER_SHARED;
}

/* A waiter for whom a release keeps the lock gives up before it reads the message. */
static void a_lock_kept_for_a_waiter_that_gives_up_is_free(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char value[64];
    locker *l = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "left");
    lk_alone_begin(env->server->port, "&ttl=90s");
    make_sharing(&asker, "left");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_require_told(&asker.wakes, "it should subscribe");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_require_queue(env->server, "left", 1);
    lk_give(held);
    assert_true(lk_server_text(env->server, value, sizeof value, "GET left"));
    assert_int_equal(value[0], 'E');
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    lk_expect_value(env->server, "left", NULL);
    lk_alone_end();
    lk_close_locker(l);
}

void lk_expect_over_share_lost(lk_server *server, const char *query)
{
    lk_asker asker;
    char marker[64];
    locker *l = lk_open_at(server, "ttl=10m");
    locker_handle *held = lk_take_with(l, "over", &share);
    lk_alone_begin(server->port, query);
    lk_alone_hear(server);
    make_sharing(&asker, "over");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_OK);
    assert_true(lk_server_text(server, marker, sizeof marker, "GET over"));
    assert_int_equal(lk_server_integer(server, "EVAL %s 1 {over}:locker:shared:%s",
                                       "local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]\n"
                                       "redis.call('ZADD', KEYS[1], 1, first)\n"
                                       "return redis.call('ZCARD', KEYS[1])",
                                       marker + 1),
                     2);
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended, 0);
    assert_int_equal(asker.lost, 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_ping();
    lk_alone_end();
    lk_give(held);
    lk_close_locker(l);
}

/* When its lease has ended, a share counts for nobody, and another may have its place. */
static void a_renewal_brings_back_no_share_that_is_over(void **state)
{
    lk_env *env = *state;
    lk_expect_over_share_lost(env->server, "&ttl=90s");
}

static lk_server *turned; /* the server of the next test */

/* Pass a reply on as it is, after another client has taken the lock. */
static size_t turn_and_pass_on(const lk_message *reply, char *out, size_t size)
{
    lk_server_do(turned, "SET turned 0123456789abcdef0123456789abcdef PX 60000");
    assert_true(reply->length <= size);
    memcpy(out, reply->bytes, reply->length);
    return reply->length;
}

/* The readers that a break has seen are gone when it comes, and another has the lock alone. */
static void a_break_of_readers_that_have_gone_takes_nothing(void **state)
{
    lk_env *env = *state;
    locker_break_options named = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    locker *holder = lk_open_at(env->server, "owner=reader"), *l = lk_open_through(env, "");
    locker_handle *held = lk_take_with(holder, "turned", &share);
    named.token = locker_handle_token(held);
    turned = env->server;
    lk_proxy_forge(env->proxy, "local page = 1000", turn_and_pass_on); /* the look at who shares it */
    assert_status(LOCKER_BUSY, locker_break(l, "turned", &named, NULL, &err), err);
    assert_int_equal(lk_proxy_harmed(env->proxy), 1);
    lk_expect_value(env->server, "turned", "0123456789abcdef0123456789abcdef");
    locker_handle_free(held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* Of the first of the queue one that wants it alone keeps the others out; when it goes, they are told, without a look. */
static void readers_behind_a_writer_are_notified_when_it_gives_up(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->server, ""), *b = lk_open_at(env->server, "poll=60s&ttl=600s"),
           *c = lk_open_at(env->server, "poll=60s&ttl=600s");
    locker_handle *held = lk_take_with(a, "behind", &share);
    lk_locking writer, reader;
    locker_cancel *cancel = locker_cancel_new();
    assert_non_null(cancel);
    const locker_lock_options alone = {.size = sizeof(locker_lock_options), .wait_ms = -1, .cancel = cancel};
    lk_locking_start(&writer, b, "behind", &alone);
    lk_require_subscriber(env->server);
    lk_locking_start(&reader, c, "behind", &share);
    lk_require_queue(env->server, "behind", 2);
    locker_cancel_fire(cancel);
    assert_int_equal(lk_locking_join(&writer), LOCKER_CANCELED);
    lk_give(lk_locking_grant(&reader));
    lk_give(held);
    locker_cancel_free(cancel);
    lk_close_locker(c);
    lk_close_locker(b);
    lk_close_locker(a);
}

static bool is_free(void *server)
{
    return lk_server_integer(server, "EXISTS replicated") == 0;
}

static void a_share_that_no_replica_has_is_given_back(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->server, "wait_replicas=1&wait_timeout=50ms");
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(a, "replicated", &share, &held, &err), err);
    lk_require(is_free, env->server, "it should be given back");
    lk_close_locker(a);
}

/* The texts of the scripts are sent but once, also after the server has forgotten them. */
static void scripts_are_sent_once(void **state)
{
    lk_env *env = *state;
    locker *a = lk_open_at(env->server, "");
    for (int i = 0; i < 3; i++)
        lk_give(lk_take_with(a, "scripts", &share));
    lk_server_do(env->server, "SCRIPT FLUSH");
    lk_give(lk_take_with(a, "scripts", &share));
    const long long evals = lk_calls_of(env->server, "eval");
    for (int i = 0; i < 3; i++)
        lk_give(lk_take_with(a, "scripts", &share));
    assert_int_equal(lk_calls_of(env->server, "eval"), evals);
    lk_close_locker(a);
}

/* Those who hold it go on, as who holds a lock alone does; so does the operator. */
static void without_memory_leases_are_renewed_and_broken(void **state)
{
    lk_env *env = *state;
    const locker_lock_options two = permit_of(2);
    locker *l = lk_open_at(env->server, "ttl=600ms"), *other = lk_open_at(env->server, "ttl=600ms");
    locker_handle *held = lk_take_with(l, "no-memory", &share),
                  *permit = lk_take_with(l, "no-memory-2", &two);
    locker_handle *broken = lk_take_with(other, "no-memory-3", &share);
    locker_error err;
    lk_server_do(env->server, "CONFIG SET maxmemory-policy noeviction");
    lk_server_do(env->server, "CONFIG SET maxmemory 1");
    (void)lk_readable(locker_handle_fd(held), 1500);
    if (assert_unless_late(locker_handle_state(broken) == LOCKER_STATE_HELD))
        assert_ok(locker_break(l, "no-memory-3", NULL, NULL, &err), err);
    assert_status(LOCKER_LOST, locker_unlock(broken, &err), err);
    locker_handle_free(broken);
    lk_give_unless_late(held);
    lk_give_unless_late(permit);
    lk_server_do(env->server, "CONFIG SET maxmemory 0");
    lk_close_locker(other);
    lk_close_locker(l);
}

/* It is a foreign client's value, or what was left when somebody deleted the set alone: it keeps others out, and an operator sees
 * that, and ends it. */
static void a_marker_without_a_set_is_shown_and_broken(void **state)
{
    lk_env *env = *state;
    const char *const values[] = {"S1", "P7/2"};
    const locker_break_options force = {.size = sizeof force, .force = true};
    locker *l = lk_open_at(env->server, "");
    locker_error err;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        locker_info info = LOCKER_INFO_INIT;
        lk_server_do(env->server, "SET alike %s PX 60000", values[i]);
        assert_ok(locker_show(l, "alike", &info, &err), err);
        assert_true(info.held);
        assert_true(info.remaining_ms > 30000);
        locker_info_clear(&info);
        assert_status(LOCKER_CONFIG, locker_break(l, "alike", NULL, NULL, &err), err);
        assert_ok(locker_break(l, "alike", &force, NULL, &err), err);
        lk_expect_value(env->server, "alike", NULL);
    }
    lk_close_locker(l);
}

/* An earlier release that lets one of ours in writes down what its member says: 2 and 3, where ours write 0 and 1. */
static void a_reader_granted_by_an_earlier_liblocker_has_the_same_owner(void **state)
{
    lk_env *env = *state;
    locker_lock_options reads = LOCKER_LOCK_OPTIONS_INIT;
    locker_break_options named = LOCKER_BREAK_OPTIONS_INIT;
    locker *l = lk_open_at(env->server, "");
    locker_error err;
    reads.mode = LOCKER_SHARED;
    locker_handle *const held = lk_take_with(l, "let-in", &reads);
    named.token = locker_handle_token(held);
    for (int told = 2; told <= 3; told++) {
        locker_info info = LOCKER_INFO_INIT;
        lk_server_do(
            env->server, "EVAL %s 1 let-in %d",
            "local set = '{let-in}:locker:shared:' .. string.sub(redis.call('GET', KEYS[1]), 2) .. ':info'\n"
            "local value, info = unpack(redis.call('HGETALL', set))\n"
            "info = string.gsub(info, '^(%d+ %d+ %d+ %x+) %d ', '%1 ' .. ARGV[1] .. ' ')\n"
            "redis.call('HSET', set, value, info)",
            told);
        assert_ok(locker_show(l, "let-in", &info, &err), err);
        assert_int_equal(info.token, told == 3 ? named.token : 0);
        locker_info_clear(&info);
        assert_status(told == 3 ? LOCKER_OK : LOCKER_BUSY, locker_break(l, "let-in", &named, NULL, &err),
                      err);
    }
    (void)locker_unlock(held, NULL);
    locker_handle_free(held);
    lk_close_locker(l);
}

/* Which permits wait for, as for all that is no lock of ours: redis-py's is 32 hex digits too. */
static void permits_wait_for_a_uuid(void **state)
{
    lk_env *env = *state;
    const locker_lock_options two = permit_of(2);
    locker *l = lk_open_at(env->server, "poll=100ms");
    lk_locking waiting;
    lk_server_do(env->server, "SET uuid 8f14e45fceea467a9b1e2d3c4b5a6978 PX 60000");
    lk_locking_start(&waiting, l, "uuid", &two);
    lk_require_waiting(l, 1);
    lk_server_do(env->server, "DEL uuid");
    lk_give(lk_locking_grant(&waiting));
    lk_close_locker(l);
}

/* Its first answer was lost, and it asks again: the lease that starts anew is that of the marker, too, by which others are kept out. */
static void an_attempt_that_finds_itself_in_moves_the_marker(void **state)
{
    lk_env *env = *state;
    const locker_lock_options kinds[] = {share, permit_of(2)};
    locker *l = lk_open_through(env, "ttl=60s&command_timeout=20s");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        lk_locking asking;
        lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, "again", 1, 0);
        lk_locking_start(&asking, l, "again", &kinds[i]);
        lk_proxy_await_harm(env->proxy, (unsigned)i + 1);
        assert_int_equal(lk_server_integer(env->server, "PEXPIRE again 20000"), 1);
        lk_proxy_cut_all(env->proxy);
        locker_handle *const held = lk_locking_grant(&asking);
        assert_true(lk_server_integer(env->server, "PTTL again") > 30000);
        lk_give(held);
    }
    lk_close_locker(l);
}

/* As many more as one that holds the lock, each with a number of its own. */
static const char copy_lua[] =
    "local one = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')\n"
    "local since, token, rest = string.match(redis.call('HGET', KEYS[1] .. ':info', one[1]), '^(%d+) (%d+) (.*)$')\n"
    "for i = 1, tonumber(ARGV[1]) do\n"
    "  local copy = string.sub(one[1], 1, 24) .. string.format('f%07x', i)\n"
    "  redis.call('ZADD', KEYS[1], one[2], copy)\n"
    "  redis.call('HSET', KEYS[1] .. ':info', copy, since .. ' ' .. string.format('%.0f', token + i) .. ' ' .. rest)\n"
    "end\n"
    "return redis.call('ZCARD', KEYS[1])\n";

/* locker_show() lists the first thousand holders. locker_break() ends all of them, or any single holder that it names. */
static void break_more_than_a_thousand(lk_env *env, bool by_owner)
{
    enum { MORE = 1100, TOLD = 1000 };
    locker *l = lk_open_at(env->server, "ttl=60s&owner=reader");
    locker_handle *held = lk_take_with(l, "many", &share);
    locker_info info = LOCKER_INFO_INIT;
    locker_break_options named = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    char marker[64];
    const uint64_t first = locker_handle_token(held);
    assert_true(lk_server_text(env->server, marker, sizeof marker, "GET many"));
    assert_int_equal(
        lk_server_integer(env->server, "EVAL %s 1 {many}:locker:shared:%s %d", copy_lua, marker + 1, MORE),
        MORE + 1);
    lk_server_do(env->server, "INCRBY %s %d", lk_fence_key("many"), MORE);
    assert_ok(locker_show(l, "many", &info, &err), err);
    assert_int_equal(info.holders_len, TOLD);
    locker_info_clear(&info);
    for (uint64_t i = 1; i <= MORE; i += 100) {
        named.token = first + i;
        assert_ok(locker_break(l, "many", &named, &info, &err), err);
        assert_int_equal(info.holders_len, 1);
        assert_int_equal(info.token, named.token);
        locker_info_clear(&info);
    }
    named.token = first + 1;
    assert_status(LOCKER_BUSY, locker_break(l, "many", &named, &info, &err), err);
    locker_info_clear(&info);
    assert_int_equal(lk_server_integer(env->server, "ZCARD {many}:locker:shared:%s", marker + 1),
                     MORE + 1 - MORE / 100);
    named = (locker_break_options){.size = sizeof named, .owner = by_owner ? "reader" : NULL};
    assert_ok(locker_break(l, "many", &named, &info, &err), err);
    assert_int_equal(info.holders_len, TOLD);
    locker_info_clear(&info);
    lk_expect_value(env->server, "many", NULL);
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    locker_handle_free(held);
    lk_close_locker(l);
}

static void more_than_a_thousand_readers(void **state)
{
    break_more_than_a_thousand(*state, false);
}

static void more_than_a_thousand_readers_of_a_name(void **state)
{
    break_more_than_a_thousand(*state, true);
}

/* A lock that many share, of whom one is `held`, and what happens when a break has taken it from some. */
typedef struct {
    lk_server *server;
    locker *holder;
    locker_handle *held;
    char marker[64], set[96];
    const char *meanwhile; /* a script; its KEYS are the set and the counter */
} crowd;

static crowd many;

static void crowd_begin(lk_env *env, int more, const char *meanwhile)
{
    many = (crowd){.server = env->server, .meanwhile = meanwhile};
    many.holder = lk_open_at(env->server, "ttl=60s&owner=many");
    many.held = lk_take_with(many.holder, "pieces", &share);
    assert_true(lk_server_text(env->server, many.marker, sizeof many.marker, "GET pieces"));
    (void)snprintf(many.set, sizeof many.set, "{pieces}:locker:shared:%.32s", many.marker + 1);
    lk_server_do(env->server, "EVAL %s 1 %s %d", copy_lua, many.set, more);
    lk_server_do(env->server, "INCRBY %s %d", lk_fence_key("pieces"), more);
}

static void crowd_end(void)
{
    locker_handle_free(many.held);
    lk_server_do(many.server, "FLUSHALL");
    lk_close_locker(many.holder);
}

/* Say that the first piece of a break has taken the lock from none, after something else has happened: what it says is larger than a
 * forgery may be. */
static size_t go_on(const lk_message *reply, char *out, size_t size)
{
    static const char none[] = "*0\r\n";
    (void)reply;
    lk_server_do(many.server, "EVAL %s 2 %s %s", many.meanwhile, many.set, lk_fence_key("pieces"));
    assert_true(sizeof none <= size);
    memcpy(out, none, sizeof none - 1);
    return sizeof none - 1;
}

static const char piece_of_a_break[] = "for at = 1, #ARGV[2], 32 do";

static long long scripts_of(lk_server *server)
{
    return lk_calls_of(server, "eval") + lk_calls_of(server, "evalsha");
}

/* A break of many is no one step: the server serves others between its pieces. It takes the lock from those who had it when it began. */
static void a_break_of_many_goes_in_pieces(void **state)
{
    enum { MORE = 1050, PIECE_MAX = 50 };
    static const char enter[] =
        "local one = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')\n"
        "local info = redis.call('HGET', KEYS[1] .. ':info', one[1])\n"
        "local n, value = redis.call('INCR', KEYS[2]), string.rep('f', 32)\n"
        "redis.call('ZADD', KEYS[1], one[2] + 1, value)\n"
        "redis.call('HSET', KEYS[1] .. ':info', value, (string.gsub(info, ' %d+', ' ' .. string.format('%.0f', n), 1)))\n";
    lk_env *env = *state;
    locker_error err;
    locker *l = lk_open_through(env, "");
    crowd_begin(env, MORE, enter);
    lk_proxy_forge(env->proxy, piece_of_a_break, go_on);
    const long long before = scripts_of(env->server);
    assert_ok(locker_break(l, "pieces", NULL, NULL, &err), err);
    assert_int_equal(lk_proxy_harmed(env->proxy), 1);
    assert_true(scripts_of(env->server) - before >= MORE / PIECE_MAX);
    lk_expect_value(env->server, "pieces", many.marker);
    assert_int_equal(lk_server_integer(env->server, "ZCARD %s", many.set), 1);
    assert_status(LOCKER_LOST, locker_unlock(many.held, &err), err);
    crowd_end();
    lk_close_locker(l);
}

/* All leases end together, over more than one page, and the last of a page has left when the next page is asked for. */
static void a_break_finds_where_it_was(void **state)
{
    enum { MORE = 1100 };
    static const char name[] =
        "local one = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')\n"
        "local info = redis.call('HGET', KEYS[1] .. ':info', one[1])\n"
        "for _, digit in ipairs({'0', 'f'}) do\n"
        "  redis.call('ZADD', KEYS[1], one[2], string.rep(digit, 32))\n"
        "  redis.call('HSET', KEYS[1] .. ':info', string.rep(digit, 32), (string.gsub(info, '%S+$', 'named')))\n"
        "end\n";
    static const char leave[] = "redis.call('ZREM', KEYS[1], redis.call('ZRANGE', KEYS[1], 498, 498)[1])\n";
    lk_env *env = *state;
    locker_break_options named = LOCKER_BREAK_OPTIONS_INIT;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    locker *l = lk_open_through(env, "");
    crowd_begin(env, MORE, leave);
    lk_server_do(env->server, "EVAL %s 1 %s", name, many.set);
    lk_proxy_forge(env->proxy, piece_of_a_break, go_on);
    named.owner = "named";
    assert_ok(locker_break(l, "pieces", &named, &info, &err), err);
    assert_int_equal(lk_proxy_harmed(env->proxy), 1);
    assert_int_equal(info.holders_len, 1); /* behind the one in the piece that was forged */
    assert_int_equal(lk_server_integer(env->server, "ZCARD %s", many.set), MORE);
    locker_info_clear(&info);
    crowd_end();
    lk_close_locker(l);
}

enum { RENEWED_MAX = 150 };

/* By a look into a set for each. */
static bool are_renewed(void *server)
{
    return lk_calls_of(server, "zscore") >= 2 * RENEWED_MAX;
}

/* Renewals of many at once go in pieces. */
static void renewals_go_in_pieces(void **state)
{
    enum { PIECE_MAX = 64 };
    lk_env *env = *state;
    const locker_lock_options kinds[] = {share, permit_of(RENEWED_MAX)};
    locker_handle *held[2][RENEWED_MAX];
    locker *l = lk_open_through(env, "ttl=60s");
    for (int i = 0; i < RENEWED_MAX; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "share-%d", i);
        held[0][i] = lk_take_with(l, key, &kinds[0]);
        held[1][i] = lk_take_with(l, "permits", &kinds[1]);
    }
    lk_server_do(env->server, "CONFIG RESETSTAT");
    lk_proxy_cut_all(env->proxy); /* the next connection renews all */
    lk_require(are_renewed, env->server, "all should be renewed");
    assert_true(lk_calls_of(env->server, "zscore") <= PIECE_MAX * scripts_of(env->server));
    for (int i = 0; i < RENEWED_MAX; i++) {
        lk_give(held[0][i]);
        lk_give(held[1][i]);
    }
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(a_shared_lock_is_held_for_foreign_clients_and_leaves_nothing),
    server_test(the_marker_is_lowered),
    server_test(a_reader_whose_marker_was_overwritten_is_not_revived),
    server_test(a_renewal_leaves_another_lock_alone),
    server_test(an_overwritten_lock_costs_no_other_lock),
    server_test(a_denied_script_leaves_nothing_for_ever),
    server_test(an_earlier_liblocker_drops_waiters_for_a_share),
    server_test(the_dead_are_passed_over),
    server_test(readers_behind_a_writer_are_notified_when_it_gives_up),
    server_test(a_lock_kept_for_a_waiter_that_gives_up_is_free),
    server_test(a_renewal_brings_back_no_share_that_is_over),
    proxied_test(a_break_of_readers_that_have_gone_takes_nothing),
    server_test(a_share_that_no_replica_has_is_given_back),
    server_test(scripts_are_sent_once),
    server_test(a_marker_without_a_set_is_shown_and_broken),
    proxied_test(an_attempt_that_finds_itself_in_moves_the_marker),
    server_test(a_reader_granted_by_an_earlier_liblocker_has_the_same_owner),
    server_test(permits_wait_for_a_uuid),
    server_test(more_than_a_thousand_readers),
    server_test(more_than_a_thousand_readers_of_a_name),
    proxied_test(a_break_of_many_goes_in_pieces),
    proxied_test(a_break_finds_where_it_was),
    proxied_test(renewals_go_in_pieces),
    server_test(without_memory_leases_are_renewed_and_broken),
};

const lk_group lk_sharing = {"sharing", tests, sizeof tests / sizeof tests[0], NULL, NULL};
