/* recovery.c: the parameter `recovery`: holders keep their locks when the server has lost them, and nobody gets them meanwhile. */
#include "redis_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alone.h"

enum { RECOVERY_MS = 3000 };
#define QUERY "ttl=3s&recovery=3s&poll=100ms&connect_timeout=10s"
static const int64_t second_ns = INT64_C(1000000000);

/* What INFO says of the server's life. */
static void read_id(lk_server *server, const char *section, const char *name, char id[41])
{
    char text[16384];
    assert_true(lk_server_text(server, text, sizeof text, "INFO %s", section));
    const char *const at = strstr(text, name);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%40[0-9a-f]", id), 1);
}

/* Its data are known, and by its clock it recovers until then. */
static void know_until(lk_server *server, int64_t ms, int64_t until_ms)
{
    char run[41], replication[41];
    read_id(server, "server", "run_id:", run);
    read_id(server, "replication", "master_replid:", replication);
    char mark[128];
    snprintf(mark, sizeof mark, "%lld %s %s %lld", (long long)ms, run, replication, (long long)until_ms);
    lk_server_do(server, "SET locker:recovery %s", mark);
}

/* Its data are known to be whole since long ago: nobody has to wait at first. */
static void know(lk_server *server, int64_t ms)
{
    know_until(server, ms, 0);
}

static locker *open_known(lk_server *server)
{
    know(server, RECOVERY_MS);
    return lk_open_at(server, QUERY);
}

struct tried {
    locker *l;
    const char *key;
};

static bool is_told_to_wait(void *context)
{
    const struct tried *tried = context;
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(tried->l, tried->key, NULL, &held, &err), err);
    return strstr(err.text, "recovering") != NULL;
}

/* Nothing is granted; as soon as the server is there, because it recovers. */
static void expect_recovering(locker *l, const char *key)
{
    struct tried tried = {l, key};
    lk_require(is_told_to_wait, &tried, "the server should recover");
}

static bool has_key(void *context)
{
    const char *const *what = context;
    return lk_server_integer((lk_server *)(uintptr_t)what[0], "EXISTS %s", what[1]) == 1;
}

static void require_key(lk_server *server, const char *key)
{
    const char *const what[] = {(const char *)server, key};
    lk_require(has_key, (void *)(uintptr_t)what, "the holder should set its lock again");
}

/* Nothing is granted until it is; answers the token of a lock that is taken then. */
static uint64_t wait_until_recovered(locker *l, const char *key)
{
    locker_handle *held = lk_take(l, key);
    const uint64_t token = locker_handle_token(held);
    lk_give(held);
    return token;
}

static void restart_empty(lk_env *env)
{
    lk_server_kill(env->server);
    lk_test_launch(env->server, false);
}

static void flush(lk_env *env)
{
    lk_server_do(env->server, "FLUSHALL");
}

/* A holder keeps its lock over losses, another gets nothing until it is known to have that, and a greater token afterwards. */
static void keep_over(lk_env *env, void (*lose)(lk_env *env), int times)
{
    locker *l = open_known(env->server), *rival = lk_open_at(env->server, QUERY);
    locker_handle *held = lk_take(l, "kept");
    char value[64];
    assert_true(lk_server_text(env->server, value, sizeof value, "GET kept"));
    for (int i = 0; i < times; i++) {
        lose(env);
        expect_recovering(rival, "kept");
        require_key(env->server, "kept");
        expect_recovering(rival, "kept");
    }
    const uint64_t token = locker_handle_token(held);
    assert_true(wait_until_recovered(rival, "another") > 0);
    lk_expect_busy(rival, "kept");
    lk_expect_value(env->server, "kept", value);
    assert_true(locker_handle_state(held) <= LOCKER_STATE_SUSPECT);
    assert_int_equal(lk_stats(l).lost, 0);
    lk_give(held);
    assert_true(wait_until_recovered(rival, "kept") > token);
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void an_empty_restart_loses_nothing(void **state)
{
    keep_over(*state, restart_empty, 1);
}

static void a_second_empty_restart_loses_nothing(void **state)
{
    keep_over(*state, restart_empty, 2);
}

static void flushall_loses_nothing_with_recovery(void **state)
{
    keep_over(*state, flush, 1);
}

/* Without `recovery` no key is written and no more is sent; the mark is the one key that is left with it. */
static void the_mark_is_all_that_it_leaves(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    lk_give(lk_take(l, "plain"));
    assert_int_equal(lk_server_integer(env->server, "EXISTS locker:recovery"), 0);
    lk_close_locker(l);
    l = open_known(env->server);
    lk_server_do(env->server, "CONFIG RESETSTAT");
    for (int i = 0; i < 2; i++)
        lk_give(lk_take(l, "plain"));
    assert_int_equal(lk_calls_of(env->server, "evalsha"), 4);      /* each looks at the mark */
    assert_int_equal(lk_server_integer(env->server, "DBSIZE"), 2); /* and the counter */
    assert_int_equal(lk_server_integer(env->server, "PTTL locker:recovery"), -1);
    lk_close_locker(l);
}

/* What nobody holds any more is free when the time is over, and no sooner: that is the price. */
static void a_lock_without_a_holder_is_free_after_recovery(void **state)
{
    lk_env *env = *state;
    locker *l = open_known(env->server);
    locker_handle *held = lk_take(l, "left");
    char value[64];
    assert_true(lk_server_text(env->server, value, sizeof value, "GET left"));
    lk_give(held);
    lk_server_do(env->server, "SET left %s PX 2000", value); /* of one that was killed */
    lk_server_kill(env->server);
    lk_test_launch(env->server, true);
    expect_recovering(l, "left");
    const int64_t began = lk_test_now_ms();
    lk_give(lk_take(l, "left"));
    const int64_t waited = lk_test_now_ms() - began;
    assert_unless_late(waited > RECOVERY_MS / 2);
    assert_timely(waited, RECOVERY_MS + LK_TEST_SLACK_MS);
    lk_close_locker(l);
}

static int64_t us_of(lk_server *server)
{
    return lk_server_integer(server, "EVAL %s 0",
                             "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

/* The server's clock was set back by an hour after it had begun to recover: that takes as long as ever, and not an hour more. */
static void a_clock_that_was_set_back_prolongs_nothing(void **state)
{
    lk_env *env = *state;
    locker *l = open_known(env->server);
    lk_give(lk_take(l, "clock"));
    know_until(env->server, RECOVERY_MS, us_of(env->server) / 1000 + INT64_C(3600000));
    expect_recovering(l, "clock");
    lk_give(lk_take(l, "clock"));
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ failovers ---- */

/* A replica that has what the server has now, and no more. (With its first replica a server gets another replication id.) */
static void begin_replica(lk_env *env)
{
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
}

static void leave_it_behind(lk_env *env)
{
    lk_require_replicated(env->server, env->second);
    lk_server_do(env->second, "REPLICAOF 127.0.0.1 %d", lk_free_port());
}

static locker *open_both(lk_env *env)
{
    locker_error err;
    locker *l;
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.1:%d,127.0.0.1:%d/0?" QUERY, env->server->port,
                         env->second->port),
              err);
    return l;
}

static void fail_over(lk_env *env)
{
    lk_server_kill(env->server);
    lk_server_do(env->second, "REPLICAOF NO ONE");
}

/* The replica has what its holder gave back, and lacks what the next one took. */
static void a_failover_that_lost_the_lock_loses_nothing(void **state)
{
    lk_env *env = *state;
    begin_replica(env);
    locker *before = lk_open_at(env->server, QUERY), *l, *rival;
    locker_handle *held = lk_take(before, "moved"); /* with a mark that lockers have written */
    char value[64];
    leave_it_behind(env);
    lk_give(held);
    l = open_both(env);
    rival = open_both(env);
    held = lk_take(l, "moved");
    assert_true(lk_server_text(env->server, value, sizeof value, "GET moved"));
    fail_over(env);
    expect_recovering(rival, "moved");
    assert_true(wait_until_recovered(rival, "another") > 0);
    lk_expect_value(env->second, "moved", value);
    lk_expect_busy(rival, "moved");
    assert_int_equal(lk_stats(l).lost, 0);
    const uint64_t token = locker_handle_token(held);
    lk_give(held);
    assert_true(wait_until_recovered(rival, "moved") > token);
    lk_close_locker(rival);
    lk_close_locker(l);
    lk_close_locker(before);
}

/* The mark of an earlier master is not trusted: locks may have been granted at another server since then. */
static void a_master_of_before_is_not_known(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, QUERY);
    lk_give(lk_take(l, "again")); /* with a mark that lockers have written */
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", lk_free_port());
    lk_server_do(env->server, "REPLICAOF NO ONE");
    lk_server_do(env->server, "CLIENT KILL TYPE normal USER default"); /* as Sentinel does */
    expect_recovering(l, "again");
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what is asked for meanwhile ---- */

/* A lease that is not renewed is not set again, and is held all the same: nobody else can have got it. */
static void a_release_during_recovery_is_proven(void **state)
{
    lk_env *env = *state;
    locker *l = open_known(env->server), *rival = lk_open_at(env->server, QUERY);
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking waiter;
    options.ttl_ms = RECOVERY_MS;
    options.no_renew = true;
    locker_handle *held = lk_take_with(l, "given", &options);
    lk_locking_start(&waiter, rival, "given", NULL);
    lk_require_waiting(rival, 1);
    restart_empty(env);
    expect_recovering(l, "another"); /* it is there again */
    const int64_t began = lk_test_now_ms();
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(waiter.ended_ms - began > RECOVERY_MS / 2); /* it is handed to nobody before */
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A lock that is there is given back, and not handed on, whoever stands in the queue. */
static void a_release_during_recovery_hands_no_lock_on(void **state)
{
    lk_env *env = *state;
    locker *l = open_known(env->server), *rival = lk_open_at(env->server, QUERY);
    locker_handle *held = lk_take(l, "queued");
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "queued", NULL);
    lk_require_queue(env->server, "queued", 1);
    lk_server_do(env->server, "SET locker:recovery old");
    expect_recovering(l, "another");
    const int64_t began = lk_test_now_ms();
    lk_give(held);
    lk_expect_value(env->server, "queued", NULL);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(waiter.ended_ms - began > RECOVERY_MS / 2);
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Who holds what is not known yet. */
static void no_holder_is_shown_or_broken_during_recovery(void **state)
{
    lk_env *env = *state;
    locker *l = open_known(env->server);
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_server_do(env->server, "DEL locker:recovery");
    expect_recovering(l, "shown");
    assert_status(LOCKER_UNAVAILABLE, locker_show(l, "shown", &info, &err), err);
    assert_non_null(strstr(err.text, "recovering"));
    assert_status(LOCKER_UNAVAILABLE, locker_break(l, "shown", NULL, NULL, &err), err);
    locker_info_clear(&info);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what is set again ---- */

/* The driver alone renews when it is told to, with leases of 90 s. Set `value` to the name by which the server knows the holder. */
static void take_alone(lk_env *env, lk_asker *asker, locker_mode mode, char value[64])
{
    know(env->server, 90000);
    lk_alone_begin(env->server->port, "&ttl=90s&recovery=90s");
    if (mode == LOCKER_SHARED)
        lk_alone_hear(env->server);
    lk_asker_make(asker, "mine");
    lk_asker_claim(asker)->mode = mode;
    assert_int_equal(lk_asker_ask(asker), LOCKER_OK);
    assert_true(lk_server_text(env->server, value, 64, "EVAL %s 1 mine",
                               "local v = redis.call('GET', KEYS[1])\n"
                               "local epoch = string.match(v, '^S(%d+)$')\n"
                               "local set = epoch and '{mine}:locker:shared:' .. epoch\n"
                               "return set and redis.call('ZRANGE', set, 0, 0)[1] or v"));
}

/* Somebody finds out that the server does not know its data. */
static void find_out(void)
{
    lk_asker another;
    lk_asker_make(&another, "another");
    lk_asker_claim(&another)->will_wait = false;
    assert_int_equal(lk_asker_ask(&another), LOCKER_UNAVAILABLE);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&another));
}

/* An exclusive lock is held; then the server forgets, and knows that it has. */
static void begin_alone(lk_env *env, lk_asker *asker)
{
    char value[64];
    take_alone(env, asker, LOCKER_EXCLUSIVE, value);
    lk_server_do(env->server, "FLUSHALL");
    find_out();
}

static void end_alone(lk_asker *asker)
{
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(asker));
    lk_alone_ping();
    lk_alone_end();
}

static void stand_there(lk_server *server, const char *value, uint64_t token)
{
    char info[128];
    lk_server_do(server, "SET mine %s PX 60000", value);
    if (token == 0)
        return;
    snprintf(info, sizeof info, "%s 1 %llu %s somebody", value, (unsigned long long)token, value);
    lk_server_do(server, "SET {mine}:locker:info %s PX 60000", info);
}

static void renew_beside(lk_env *env, const char *value, int64_t more, bool keeps)
{
    lk_asker asker;
    begin_alone(env, &asker);
    if (value != NULL)
        stand_there(env->server, value, more != 0 ? lk_asker_claim(&asker)->token + (uint64_t)more : 0);
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended, keeps);
    assert_int_equal(asker.lost, !keeps);
    if (!keeps)
        lk_expect_value(env->server, "mine", value);
    end_alone(&asker);
}

#define OURS "0123456789abcdef0123456789abcdef"

static void a_lock_is_set_again_in_place_of_an_earlier_one(void **state)
{
    renew_beside(*state, OURS, -1, true);
}

static void a_lock_is_restored_in_place_of_an_unknown_holder(void **state)
{
    renew_beside(*state, OURS, 0, true);
}

static void a_later_holder_is_left_alone(void **state)
{
    renew_beside(*state, OURS, 1, false);
}

static void a_foreign_client_is_left_alone(void **state)
{
    renew_beside(*state, "somebody", 0, false);
}

/* Which begin as a marker of those who share a lock, and as what keeps a lock for a waiter. */
static void strings_of_an_application_are_left_alone(void **state)
{
    static const char *const strings[] = {"S1apples", "P1/2apples", "E1"};
    lk_env *const env = *state;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        renew_beside(env, strings[i], 0, false);
        lk_server_do(env->server, "DEL mine");
    }
}

static void foreign_data_is_left_unchanged(void **state)
{
    lk_env *const env = *state;
    locker *const l = open_known(env->server);
    lk_foreign_expect_all(env->server, l, "foreign");
    lk_close_locker(l);
}

/* What is set again lifts the counter. */
static void set_again_and_count(lk_env *env, locker_mode mode)
{
    lk_asker asker;
    char value[64], counter[32];
    take_alone(env, &asker, mode, value);
    const uint64_t token = lk_asker_claim(&asker)->token;
    lk_server_do(env->server, "FLUSHALL");
    const int64_t time = us_of(env->server); /* the driver may renew as soon as this is found out */
    find_out();
    lk_alone_ping();
    const int before = asker.extended;
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended, before + 1);
    assert_true(lk_server_text(env->server, counter, sizeof counter, "GET %s", lk_fence_key("mine")));
    assert_true(strtoull(counter, NULL, 10) >= token);
    assert_true(strtoll(counter, NULL, 10) > time); /* other locks of the slot may have had greater numbers */
    if (mode == LOCKER_EXCLUSIVE) {                 /* and it has its info, as `value` had */
        char info[256];
        unsigned long long told = 0;
        assert_true(lk_server_text(env->server, info, sizeof info, "GET {mine}:locker:info"));
        assert_int_equal(strncmp(info, value, 32), 0);
        assert_int_equal(sscanf(info + 32, "%*d %llu", &told), 1);
        assert_int_equal(told, token);
    }
    end_alone(&asker);
}

/* Its info has the token by which a later holder is told from an earlier. */
static void a_restored_lock_is_shown_and_counted(void **state)
{
    set_again_and_count(*state, LOCKER_EXCLUSIVE);
}

static void a_share_that_is_set_again_is_counted(void **state)
{
    set_again_and_count(*state, LOCKER_SHARED);
}

static void expect_release_lost(lk_asker *asker)
{
    locker_error err;
    assert_status(
        LOCKER_LOST,
        lk_redis_driver.release(lk_alone.self, lk_asker_claim(asker), lk_alone_now() + 20 * second_ns, &err),
        err);
    lk_alone_end();
}

/* An operator broke it before the server lost its data: no unlock proves then that it was held until its end. */
static void give_back_what_was_broken(lk_env *env, locker_mode mode)
{
    lk_asker asker;
    char value[64];
    take_alone(env, &asker, mode, value);
    lk_server_do(env->server, "FLUSHALL");
    lk_server_do(env->server, "SET {mine}:locker:broken:%s 1", value);
    find_out();
    expect_release_lost(&asker);
}

static void a_release_after_recovery_reports_a_broken_lock_as_lost(void **state)
{
    give_back_what_was_broken(*state, LOCKER_EXCLUSIVE);
}

static void a_release_after_recovery_reports_a_broken_shared_lock_as_lost(void **state)
{
    give_back_what_was_broken(*state, LOCKER_SHARED);
}

/* The server grants it to nobody before its deadline. Later it may have granted it, and lost that, too. */
static void a_release_after_the_deadline_proves_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    begin_alone(env, &asker);
    lk_alone.ahead = 90 * second_ns;
    expect_release_lost(&asker);
}

static void set_again_what_was_broken(lk_env *env, locker_mode mode)
{
    lk_asker asker;
    char value[64];
    take_alone(env, &asker, mode, value);
    lk_server_do(env->server, "DEL mine");
    lk_server_do(env->server, "SET {mine}:locker:broken:%s 1", value);
    lk_server_do(env->server, "SET locker:recovery old");
    lk_asker_renew(&asker); /* finds out that the data are not known */
    lk_require_told(&lk_alone.found, "it should connect again");
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.lost, 1);
    lk_expect_value(env->server, "mine", NULL);
    end_alone(&asker);
}

static void a_broken_lock_is_not_restored(void **state)
{
    set_again_what_was_broken(*state, LOCKER_EXCLUSIVE);
}

static void a_broken_shared_lock_is_not_restored(void **state)
{
    set_again_what_was_broken(*state, LOCKER_SHARED);
}

static void a_share_that_is_over_is_not_set_again(void **state)
{
    lk_env *env = *state;
    know(env->server, 600000);
    lk_expect_over_share_lost(env->server, "&ttl=90s&recovery=10m");
}

/* The master of a lock becomes a replica of one that lacks it, and whose data are known as long as nobody has come to it. */
static void take_beside_a_replica(lk_env *env, lk_asker *asker, locker_mode mode)
{
    char hosts[64];
    begin_replica(env);
    know(env->server, 90000);
    leave_it_behind(env);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", env->server->port, env->second->port);
    lk_alone_begin_at(hosts, "&ttl=90s&recovery=90s");
    if (mode == LOCKER_SHARED)
        lk_alone_hear(env->server);
    lk_asker_make(asker, "mine");
    lk_asker_claim(asker)->mode = mode;
    assert_int_equal(lk_asker_ask(asker), LOCKER_OK);
    lk_server_do(env->second, "REPLICAOF NO ONE");
}

static void replace_the_master(lk_env *env, lk_asker *asker)
{
    take_beside_a_replica(env, asker, LOCKER_EXCLUSIVE);
    lk_follow(env->server, env->second);
}

static void a_replica_tells_a_renewal_of_no_loss(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    replace_the_master(env, &asker);
    lk_asker_renew(&asker);
    lk_require_told(&lk_alone.found, "it should go to the new master");
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.lost, 0);
    assert_int_equal(asker.extended, 1);
    end_alone(&asker);
}

/* It had lost its data, and is a replica before the holder could set its lock again there. It gets no data from the new master. */
static void renew_at_a_replica_that_recovers(lk_env *env, locker_mode mode)
{
    lk_asker asker;
    take_beside_a_replica(env, &asker, mode);
    lk_server_do(env->server, "DEL mine");
    know_until(env->server, 90000, 1000 * (int64_t)time(NULL) + 80000);
    lk_server_do(env->server, "CONFIG SET masterauth nobody");
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", env->second->port);
    lk_asker_renew(&asker);
    lk_require_told(&lk_alone.found, "it should go to the new master");
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.lost, 0);
    assert_true(asker.extended > 0); /* a share that begins to hear is renewed once more */
    end_alone(&asker);
}

static void a_replica_that_recovers_is_left_by_a_renewal(void **state)
{
    renew_at_a_replica_that_recovers(*state, LOCKER_EXCLUSIVE);
}

static void a_replica_that_recovers_is_left_by_a_renewal_of_a_reader(void **state)
{
    renew_at_a_replica_that_recovers(*state, LOCKER_SHARED);
}

static void a_replica_tells_a_release_of_no_loss(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    replace_the_master(env, &asker);
    lk_asker_give(&asker);
    lk_alone_end();
}

/* One whose deadline has passed brings nothing back. */
static void a_renewal_that_is_late_sets_nothing_again(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    begin_alone(env, &asker);
    lk_alone.ahead = 90 * second_ns;
    lk_asker_renew(&asker);
    lk_alone.ahead = 0;
    lk_alone_ping();
    assert_int_equal(asker.extended, 0);
    lk_expect_value(env->server, "mine", NULL);
    end_alone(&asker);
}

/* Without memory nothing is written, and nobody has lost anything. */
static void a_lock_that_cannot_be_restored_yet_is_not_lost(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    begin_alone(env, &asker);
    lk_server_do(env->server, "CONFIG SET maxmemory 1");
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended + asker.lost, 0);
    lk_server_do(env->server, "CONFIG SET maxmemory 0");
    lk_asker_renew(&asker);
    lk_alone_ping();
    assert_int_equal(asker.extended, 1);
    end_alone(&asker);
}

static long long connections_of(lk_server *server)
{
    static const char label[] = "total_connections_received:";
    char text[16384];
    assert_true(lk_server_text(server, text, sizeof text, "INFO stats"));
    const char *const at = strstr(text, label);
    assert_non_null(at);
    return strtoll(at + sizeof label - 1, NULL, 10);
}

/* A server that takes no writes can't be told that its data are known, whoever connects. */
static void a_mark_that_cannot_be_written_takes_no_connections(void **state)
{
    enum { TRIES = 50 };
    lk_env *env = *state;
    locker *l = open_known(env->server);
    locker_handle *mine = lk_take(l, "mine"), *held = NULL;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_server_do(env->server, "MULTI"); /* no renewal comes in between */
    lk_server_do(env->server, "FLUSHALL");
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 1");
    lk_server_do(env->server, "EXEC");
    const long long before = connections_of(env->server);
    for (int i = 0; i < TRIES; i++) {
        assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "other", NULL, &held, &err), err);
        assert_status(LOCKER_UNAVAILABLE, locker_show(l, "other", &info, &err), err);
    }
    assert_non_null(strstr(err.text, "cannot write 'locker:recovery'"));
    assert_non_null(strstr(err.text, "NOREPLICAS"));
    assert_status(LOCKER_UNKNOWN, locker_unlock(mine, &err), err);
    assert_non_null(strstr(err.text, "NOREPLICAS"));
    assert_in_range(connections_of(env->server) - before, 0, 2);
    locker_handle_free(mine);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 0");
    lk_give(lk_take(l, "other"));
    lk_close_locker(l);
}

/* The server is away until the driver waits for half a second before it looks again, and then it is back. A lease that is to be
 * renewed has it look at once. (A machine that is busy may take that long by itself.) */
static void a_locker_with_a_lease_to_renew_reconnects_soon(void **state)
{
    lk_env *env = *state;
    lk_asker asker, patient;
    bool sooner = false;
    know(env->server, 90000);
    lk_alone_begin(lk_proxy_port(env->proxy), "&ttl=90s&recovery=90s");
    assert_int_equal(lk_asker_come(&asker, "mine"), LOCKER_OK);
    lk_asker_make(&patient, "away");
    lk_asker_claim(&patient)->has_waited = true;
    for (int round = 0; round < 5 && !sooner; round++) {
        lk_proxy_refuse(env->proxy, true);
        lk_proxy_cut_all(env->proxy);
        do
            assert_int_not_equal(lk_asker_ask_for(&patient, second_ns / 10), LOCKER_OK);
        while (lk_alone.until - lk_alone_now() < second_ns / 2);
        lk_alone.found = 0;
        lk_proxy_refuse(env->proxy, false);
        const int64_t looks_at = lk_alone.until;
        lk_asker_renew(&asker);
        lk_require_told(&lk_alone.found, "it should be there again");
        sooner = lk_alone_now() < looks_at;
    }
    assert_true(sooner);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&patient));
    end_alone(&asker);
}

/* ------------------------------------------------------------------ what is not to be ---- */

static void expect_misconfigured(lk_env *env, const char *query, const char *words)
{
    locker_error err;
    locker *l = NULL;
    assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis://127.0.0.1:%d?%s", env->server->port, query),
                  err);
    assert_non_null(strstr(err.text, words));
}

static void one_value_for_all_and_no_lease_beyond_it(void **state)
{
    lk_env *env = *state;
    locker *l = open_known(env->server), *l2 = NULL;
    locker_lock_options options = lk_wait_options(0);
    locker_handle *held = NULL;
    locker_error err;
    expect_misconfigured(env, "ttl=3s&recovery=4s", "3000 ms for other clients");
    expect_misconfigured(env, "ttl=4s&recovery=3s", "longer than recovery");
    expect_misconfigured(env, "ttl=3s&recovery=3s&fencing=off", "fencing");
    assert_status(LOCKER_CONFIG, locker_open("redis+cluster://127.0.0.1?ttl=3s&recovery=3s", NULL, &l2, &err),
                  err);
    assert_non_null(strstr(err.text, "not with a cluster"));
    options.ttl_ms = RECOVERY_MS + 1;
    assert_status(LOCKER_CONFIG, locker_lock(l, "long", &options, &held, &err), err);
    assert_non_null(strstr(err.text, "longer than recovery"));
    options.ttl_ms = RECOVERY_MS;
    lk_give(lk_take_with(l, "long", &options));
    /* one that changes meanwhile is told, too */
    know(env->server, 4000);
    assert_status(LOCKER_CONFIG, locker_try_lock(l, "long", NULL, &held, &err), err);
    know(env->server, RECOVERY_MS);
    locker_handle *other = lk_take_with(l, "other", &options);
    know(env->server, 4000);
    assert_status(LOCKER_UNKNOWN, locker_unlock(other, &err), err);
    assert_non_null(strstr(err.text, "recovery is 3000 ms here but 4000 ms for other clients"));
    locker_handle_free(other);
    assert_status(LOCKER_INVALID, locker_try_lock(l, "a:locker:recovery", NULL, &held, &err), err);
    lk_close_locker(l);
}

static void a_user_without_the_right_to_info_is_refused(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l = NULL;
    lk_server_do(env->server, "ACL SETUSER default -info");
    assert_status(LOCKER_DENIED,
                  lk_try_uri(&l, &err, "redis://127.0.0.1:%d?ttl=3s&recovery=3s", env->server->port), err);
    assert_non_null(strstr(err.text, "+info"));
}

static const locker_lock_options share = {
    .size = sizeof(locker_lock_options), .wait_ms = -1, .mode = LOCKER_SHARED};
static const locker_lock_options permit = {.size = sizeof(locker_lock_options), .wait_ms = -1, .permits = 2};

static bool both_are_in(void *server)
{
    static const char *const keys[] = {"kept", "counted"};
    bool are = true;
    for (size_t i = 0; i < 2; i++) {
        char value[64] = "";
        if (!lk_server_text(server, value, sizeof value, "GET %s", keys[i]) || value[0] == '\0')
            return false;
        are = are && lk_server_integer(server, "ZCARD {%s}:locker:shared:%lld", keys[i],
                                       strtoll(value + 1, NULL, 10)) == 2;
    }
    return are;
}

/* Readers, and those with permits, find each other again by the marker of before. Each permit has its slot again. */
static void readers_and_permit_holders_keep_their_locks_over_a_flush(void **state)
{
    lk_env *env = *state;
    locker *a = open_known(env->server), *b = lk_open_at(env->server, QUERY),
           *rival = lk_open_at(env->server, QUERY);
    locker_handle *held[] = {lk_take_with(a, "kept", &share), lk_take_with(b, "kept", &share),
                             lk_take_with(a, "counted", &permit), lk_take_with(b, "counted", &permit)};
    const uint64_t token = locker_handle_token(held[3]);
    flush(env);
    expect_recovering(rival, "kept");
    lk_require(both_are_in, env->server, "all should enter again");
    assert_true(wait_until_recovered(rival, "another") > token);
    lk_expect_busy(rival, "kept");
    locker_handle *none = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(rival, "counted", &permit, &none, &err), err);
    assert_int_equal(lk_stats(a).lost + lk_stats(b).lost, 0);
    const int32_t free_slot = locker_handle_slot(held[3]);
    lk_give(held[3]);
    held[3] = lk_take_with(rival, "counted", &permit);
    assert_int_equal(locker_handle_slot(held[3]), free_slot);
    for (size_t i = 0; i < 4; i++)
        lk_give(held[i]);
    lk_expect_value(env->server, "kept", NULL);
    lk_expect_value(env->server, "counted", NULL);
    assert_true(wait_until_recovered(rival, "kept") > token);
    lk_close_locker(rival);
    lk_close_locker(b);
    lk_close_locker(a);
}

/* Nobody else can have got it, so it is known to be given back; and it does not come back. */
static void a_shared_lock_released_during_recovery_stays_released(void **state)
{
    lk_env *env = *state;
    locker *a = open_known(env->server), *b = lk_open_at(env->server, QUERY);
    locker_handle *gone = lk_take_with(a, "given", &share), *stays = lk_take_with(b, "given", &share);
    flush(env);
    expect_recovering(a, "given");
    lk_give(gone);
    require_key(env->server, "given");
    char value[64];
    assert_true(lk_server_text(env->server, value, sizeof value, "GET given"));
    assert_int_equal(lk_server_integer(env->server, "ZCARD {given}:locker:shared:%s", value + 1), 1);
    lk_give(stays);
    lk_expect_value(env->server, "given", NULL);
    lk_close_locker(b);
    lk_close_locker(a);
}

static const struct CMUnitTest tests[] = {
    server_test(an_empty_restart_loses_nothing),
    server_test(a_second_empty_restart_loses_nothing),
    server_test(flushall_loses_nothing_with_recovery),
    server_test(the_mark_is_all_that_it_leaves),
    durable_test(a_lock_without_a_holder_is_free_after_recovery),
    server_test(a_clock_that_was_set_back_prolongs_nothing),
    server_test(a_failover_that_lost_the_lock_loses_nothing),
    server_test(a_master_of_before_is_not_known),
    server_test(a_release_during_recovery_is_proven),
    server_test(a_release_during_recovery_hands_no_lock_on),
    server_test(no_holder_is_shown_or_broken_during_recovery),
    server_test(a_lock_is_set_again_in_place_of_an_earlier_one),
    server_test(a_lock_is_restored_in_place_of_an_unknown_holder),
    server_test(a_later_holder_is_left_alone),
    server_test(a_foreign_client_is_left_alone),
    server_test(strings_of_an_application_are_left_alone),
    server_test(foreign_data_is_left_unchanged),
    server_test(a_restored_lock_is_shown_and_counted),
    server_test(a_share_that_is_set_again_is_counted),
    server_test(a_release_after_recovery_reports_a_broken_lock_as_lost),
    server_test(a_release_after_recovery_reports_a_broken_shared_lock_as_lost),
    server_test(a_release_after_the_deadline_proves_nothing),
    server_test(a_broken_lock_is_not_restored),
    server_test(a_broken_shared_lock_is_not_restored),
    server_test(a_share_that_is_over_is_not_set_again),
    server_test(a_replica_tells_a_renewal_of_no_loss),
    server_test(a_replica_that_recovers_is_left_by_a_renewal),
    server_test(a_replica_that_recovers_is_left_by_a_renewal_of_a_reader),
    server_test(a_replica_tells_a_release_of_no_loss),
    server_test(a_renewal_that_is_late_sets_nothing_again),
    server_test(a_lock_that_cannot_be_restored_yet_is_not_lost),
    server_test(a_mark_that_cannot_be_written_takes_no_connections),
    proxied_test(a_locker_with_a_lease_to_renew_reconnects_soon),
    server_test(one_value_for_all_and_no_lease_beyond_it),
    server_test(a_user_without_the_right_to_info_is_refused),
    server_test(readers_and_permit_holders_keep_their_locks_over_a_flush),
    server_test(a_shared_lock_released_during_recovery_stays_released),
};

const lk_group lk_recovery = {"recovery", tests, sizeof tests / sizeof tests[0], NULL, NULL};
