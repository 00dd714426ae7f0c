/* refusals.c: a server that can't or won't: out of memory, another type, a replica, a disk that fails. */
#include "redis_tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ------------------------------------------------------------------ out of memory ---- */

static void out_of_memory_holders_keep_their_locks(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=600ms");
    locker_handle *held = lk_take(l, "oom"), *second = NULL;
    locker_error err;
    lk_server_do(env->server, "CONFIG SET maxmemory-policy noeviction");
    lk_server_do(env->server, "CONFIG SET maxmemory 1");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "refused", NULL, &second, &err), err);
    assert_non_null(strstr(err.text, "OOM"));
    (void)lk_readable(locker_handle_fd(held), 1500);
    if (lk_give_unless_late(held)) /* it is renewed, and released */
        lk_expect_value(env->server, "oom", NULL);
    lk_server_do(env->server, "CONFIG SET maxmemory 0");
    lk_give(lk_take(l, "refused"));
    lk_close_locker(l);
}

/* The hand-over needs a SET, which is refused; the release is a release all the same. */
static bool has_been_refused_twice(void *context)
{
    return lk_stats(context).attempts >= 2;
}

/* A server that can't write now is an outage like another: who waits, waits on. */
static void out_of_memory_a_wait_goes_on(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    lk_locking waiter;
    lk_server_do(env->server, "CONFIG SET maxmemory-policy noeviction");
    lk_server_do(env->server, "CONFIG SET maxmemory 1");
    lk_locking_start(&waiter, l, "refused", NULL);
    lk_require(has_been_refused_twice, l, "the server should be asked again");
    lk_server_do(env->server, "CONFIG SET maxmemory 0");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

static void out_of_memory_a_release_with_waiters_releases(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *rival = lk_open_at(env->server, "");
    locker_handle *held = lk_take(l, "oom-wait");
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "oom-wait", NULL);
    lk_require_waiting(rival, 1);
    lk_require_subscriber(env->server);
    lk_server_do(env->server, "CONFIG SET maxmemory 1");
    lk_give(held);
    lk_server_do(env->server, "CONFIG SET maxmemory 0");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ another type ---- */

static void another_type_is_busy_when_locking(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_lock_options options = lk_wait_options(150);
    locker_handle *held = NULL;
    locker_info info = LOCKER_INFO_INIT;
    lk_locking waiter;
    locker_error err;
    /* as Redisson does */
    lk_server_do(env->server, "HSET redisson 8a9f:1 1");
    lk_expect_busy(l, "redisson");
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "redisson", &options, &held, &err), err);
    assert_ok(locker_show(l, "redisson", &info, &err), err);
    assert_true(info.held);
    assert_string_equal(info.owner, "");
    locker_info_clear(&info);
    lk_locking_start(&waiter, l, "redisson", NULL);
    lk_require_waiting(l, 1);
    assert_int_equal(lk_server_integer(env->server, "DEL redisson"), 1);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

static void another_type_is_busy_without_fencing_too(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "fencing=off");
    locker_lock_options options = lk_wait_options(150);
    locker_handle *held = NULL;
    locker_error err;
    lk_server_do(env->server, "HSET plain f 1");
    lk_expect_busy(l, "plain");
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "plain", &options, &held, &err), err);
    lk_server_do(env->server, "DEL plain");
    held = lk_take(l, "plain");
    assert_int_equal(locker_handle_token(held), 0);
    lk_give(held);
    lk_close_locker(l);
}

static void another_type_is_lost_when_releasing(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *brief = lk_open_at(env->server, "ttl=600ms");
    locker_handle *held = lk_take(l, "hashed"), *renewed = lk_take(brief, "hashed2");
    locker_error err;
    lk_server_do(env->server, "DEL hashed hashed2");
    lk_server_do(env->server, "HSET hashed f 1");
    lk_server_do(env->server, "HSET hashed2 f 1");
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    assert_true(lk_readable(locker_handle_fd(renewed), LK_TEST_PATIENCE_MS));
    assert_status(LOCKER_LOST, locker_unlock(renewed, &err), err);
    assert_int_equal(lk_server_integer(env->server, "HLEN hashed"), 1);
    assert_int_equal(lk_server_integer(env->server, "HLEN hashed2"), 1);
    assert_int_equal(lk_server_integer(env->server, "TTL hashed2"), -1);
    locker_handle_free(held);
    locker_handle_free(renewed);
    lk_close_locker(brief);
    lk_close_locker(l);
}

/* Somebody's nonsense at the names that the driver keeps beside the lock harms no lock. */
static void garbage_beside_the_lock_is_survived(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_handle *held;
    lk_give(lk_take(l, "beside"));
    lk_server_do(env->server, "SET {beside}:locker:info nonsense");
    lk_server_do(env->server, "SET %s 7", lk_fence_key("beside"));
    lk_give(lk_take(l, "beside"));
    lk_server_do(env->server, "ZADD {beside}:locker:queue 1 nonsense 2 %s", "1 2 3");
    held = lk_take(l, "beside");
    lk_server_do(env->server, "ZADD {beside}:locker:queue 1 more-nonsense");
    lk_give(held);
    lk_give(lk_take(l, "beside"));
    lk_close_locker(l);
}

/* A grant that can't be numbered is none, and is given back. */
static void a_counter_of_another_type_is_told(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    locker_handle *held = NULL;
    locker_error err;
    /* by the script, then by plain commands; the last is 2^53 - 1, behind which Lua's numbers aren't exact */
    enum { KINDS = 3 };
    static const char *const set[KINDS] = {"RPUSH %s a", "SET %s a", "SET %s 9007199254740991"};
    for (size_t n = 0; n < 2 * KINDS; n++) {
        const size_t i = n % KINDS;
        if (n >= KINDS) { /* numbers of this slot are trusted */
            lk_server_do(env->server, "DEL %s", lk_fence_key("numbered"));
            for (int times = 0; times < 20; times++)
                lk_give(lk_take(l, "numbered"));
        }
        lk_server_do(env->server, "DEL %s", lk_fence_key("numbered"));
        lk_server_do(env->server, set[i], lk_fence_key("numbered"));
        assert_status(LOCKER_PROTOCOL, locker_try_lock(l, "numbered", NULL, &held, &err), err);
        assert_non_null(strstr(err.text, lk_fence_key("numbered")));
        assert_null(held);
        lk_give(lk_take(l, "another")); /* behind it, what was taken is given back */
        lk_expect_value(env->server, "numbered", NULL);
    }
    lk_server_do(env->server, "DEL %s", lk_fence_key("numbered"));
    lk_give(lk_take(l, "numbered"));
    lk_close_locker(l);
}

/* Numbers start at the server's time, so they grow though the counter is lost, or is set to anything. */
static void tokens_grow_over_a_flush(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *rival = lk_open_at(env->server, "");
    uint64_t last = 0;
    for (int i = 0; i < 40; i++) {
        locker_handle *held = lk_take(i % 4 < 2 ? l : rival, "flushed");

        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
        if (i % 5 == 4)
            lk_server_do(env->server, "FLUSHALL");
        if (i % 10 == 2)
            lk_server_do(env->server, "SET %s 12", lk_fence_key("flushed"));
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ replicas ---- */

static void at_a_replica_the_master_is_found(void **state)
{
    lk_env *env = *state;
    locker_handle *held;
    locker *l;
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    l = lk_open_at(env->second, "");
    held = lk_take(l, "replicated");
    assert_int_equal(lk_server_integer(env->server, "EXISTS replicated"), 1);
    lk_give(held);
    lk_expect_value(env->server, "replicated", NULL);
    lk_close_locker(l);
}

static bool has_moved(void *context)
{
    return lk_server_integer(context, "EXISTS moved") == 1;
}

static void a_master_that_becomes_a_replica_is_left(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=5s");
    locker_handle *held;
    uint64_t token;
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    held = lk_take(l, "moved");
    token = locker_handle_token(held);
    lk_require(has_moved, env->second, "the lock should be replicated");
    lk_server_do(env->second, "REPLICAOF NO ONE");
    lk_follow(env->server, env->second);
    /* the lock went along with the data */
    lk_expect_busy(l, "moved");
    lk_give(held);
    held = lk_take(l, "moved");
    assert_true(locker_handle_token(held) > token);
    assert_int_equal(lk_server_integer(env->second, "EXISTS moved"), 1);
    lk_give(held);
    lk_close_locker(l);
}

static void a_replica_without_its_master_is_unavailable(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", lk_free_port());
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&l, &err, "redis://127.0.0.1:%d?connect_timeout=1s", env->server->port), err);
}

/* The documented limit of replication: a replica that lacks the last grant and is made master grants the lock
 * again; the token is greater, as long as the servers' clocks are right. */
static void a_failover_can_let_two_hold(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=30s"), *rival;
    locker_handle *held, *second = NULL;
    locker_error err;
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    lk_server_do(env->second, "REPLICAOF 127.0.0.1 %d", lk_free_port()); /* the link is cut */
    held = lk_take(l, "twice");
    lk_server_do(env->second, "REPLICAOF NO ONE");
    rival = lk_open_at(env->second, "");
    assert_status(LOCKER_OK, locker_try_lock(rival, "twice", NULL, &second, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_true(locker_handle_token(second) > locker_handle_token(held));
    lk_give(second);
    lk_give(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* A grant that no replica has confirmed is given back, so that nobody waits for its lease to end. */
static void an_unconfirmed_grant_is_given_back(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "wait_replicas=1&wait_timeout=500ms");
    locker *plain = lk_open_at(env->server, "");
    locker_handle *held = NULL;
    locker_error err;
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "unconfirmed", NULL, &held, &err), err);
    lk_give(lk_take(plain, "unconfirmed"));
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    lk_require_confirming(env->server, 1);
    held = lk_take(l, "confirmed");
    assert_int_equal(lk_server_integer(env->second, "EXISTS confirmed"), 1);
    lk_give(held);
    lk_close_locker(plain);
    lk_close_locker(l);
}

/* Also when the lock is free at once: a replica may come as long as the call lasts. */
static void a_wait_for_replicas_lasts(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "wait_replicas=1&wait_timeout=20ms");
    const locker_lock_options options = lk_wait_options(700);
    locker_handle *held = NULL;
    locker_error err;
    const int64_t began = lk_test_now_ms();
    assert_status(LOCKER_UNAVAILABLE, locker_lock(l, "lasts", &options, &held, &err), err);
    assert_true(lk_test_now_ms() - began >= 700);
    lk_close_locker(l);
}

/* Redis takes the path of a socket for a master's name; with a URI of TCP there is no such way. */
static void a_master_whose_name_is_a_path_is_not_found(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    lk_server_do(env->server, "REPLICAOF /tmp/nobody.sock 6379");
    assert_status(LOCKER_UNAVAILABLE, lk_try_uri(&l, &err, "redis://127.0.0.1:%d", env->server->port), err);
    assert_null(l);
}

struct renewals {
    locker *l;
    uint64_t before;
};

static bool are_more(void *context)
{
    const struct renewals *renewals = context;
    return lk_stats(renewals->l).renewals > renewals->before;
}

/* A locker that has a replica's word for each grant and renewal. */
static locker *open_confirmed(lk_env *env)
{
    locker *l = lk_open_at(env->server, "ttl=2s&wait_replicas=1&wait_timeout=300ms");
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    lk_require_confirming(env->server, 1);
    return l;
}

static void renewals_wait_for_replicas(void **state)
{
    lk_env *env = *state;
    locker *l = open_confirmed(env);
    locker_handle *held = lk_take(l, "renewed");
    struct renewals renewals = {.l = l};
    for (int i = 0; i < 2; i++) { /* also over a loss of all connections */
        if (i > 0)
            lk_server_do(env->server, "CLIENT KILL TYPE normal SKIPME yes");
        renewals.before = lk_stats(l).renewals;
        lk_require(are_more, &renewals, "the lock should be renewed");
    }
    lk_test_freeze(env->second); /* for less than is left of the lease */
    const int64_t from = lk_test_now_ms();
    while (lk_test_now_ms() - from < 900) {
        const int64_t asked = lk_test_now_ms();
        locker_info info = {.size = sizeof info};
        locker_error err;
        assert_ok(locker_show(l, "renewed", &info, &err), err);
        locker_info_clear(&info);
        assert_timely(lk_test_now_ms() - asked,
                      250); /* what else is asked for does not stand behind their WAIT */
    }
    lk_server_thaw(env->second);
    renewals.before = lk_stats(l).renewals;
    lk_require(are_more, &renewals, "the lock should be renewed");
    assert_unless_late(lk_stats(l).lost == 0);
    lk_give_unless_late(held);
    lk_close_locker(l);
}

/* The holder knows before another can have it from the new master, though the old one has the lock for him still. */
static void a_holder_that_is_cut_off_with_the_old_master_loses_it_first(void **state)
{
    lk_env *env = *state;
    locker *l = open_confirmed(env);
    locker_handle *held = lk_take(l, "k"), *second;
    struct renewals renewals = {.l = l};
    locker_error err;
    lk_require(are_more, &renewals, "the lock should be renewed");
    lk_server_do(env->second, "REPLICAOF NO ONE");
    locker *other = lk_open_at(env->second, "");
    const locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    assert_ok(locker_lock(other, "k", &options, &second, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    assert_true(locker_handle_token(second) > locker_handle_token(held));
    locker_handle_free(held);
    lk_give(second);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ a disk that fails ---- */

static bool saving_failed(void *context)
{
    char text[8192];
    lk_server_text(context, text, sizeof text, "INFO persistence");
    return strstr(text, "rdb_last_bgsave_status:err") != NULL;
}

static void refused_writes_make_unlock_unknown(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "command_timeout=1s");
    locker_handle *held = lk_take(l, "misconf"), *second = NULL;
    char path[96];
    locker_error err;
    /* the dump can't be put in the place of a directory */
    snprintf(path, sizeof path, "%s/dump.rdb", env->server->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    lk_server_do(env->server, "CONFIG SET save %s", "3600 1");
    lk_server_do(env->server, "BGSAVE");
    lk_require(saving_failed, env->server, "BGSAVE should fail");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "other", NULL, &second, &err), err);
    assert_non_null(strstr(err.text, "MISCONF"));
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    assert_true(err.text[0] != '\0');
    locker_handle_free(held);
    lk_server_do(env->server, "CONFIG SET stop-writes-on-bgsave-error no");
    lk_give(lk_take(l, "other"));
    lk_close_locker(l);
}

/* A server that wants replicas and has none refuses writes with NOREPLICAS. */
static void missing_replicas_make_unlock_unknown(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "command_timeout=1s");
    locker_handle *held = lk_take(l, "noreplicas"), *second = NULL;
    locker_error err;
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 1");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "other", NULL, &second, &err), err);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    locker_handle_free(held);
    lk_server_do(env->server, "CONFIG SET min-replicas-to-write 0");
    lk_give(lk_take(l, "other"));
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(out_of_memory_holders_keep_their_locks),
    server_test(out_of_memory_a_wait_goes_on),
    server_test(out_of_memory_a_release_with_waiters_releases),
    server_test(another_type_is_busy_when_locking),
    server_test(another_type_is_busy_without_fencing_too),
    server_test(another_type_is_lost_when_releasing),
    server_test(garbage_beside_the_lock_is_survived),
    server_test(a_counter_of_another_type_is_told),
    server_test(tokens_grow_over_a_flush),
    server_test(at_a_replica_the_master_is_found),
    server_test(a_master_that_becomes_a_replica_is_left),
    server_test(a_replica_without_its_master_is_unavailable),
    server_test(an_unconfirmed_grant_is_given_back),
    server_test(a_wait_for_replicas_lasts),
    server_test(a_master_whose_name_is_a_path_is_not_found),
    server_test(renewals_wait_for_replicas),
    server_test(a_holder_that_is_cut_off_with_the_old_master_loses_it_first),
    server_test(refused_writes_make_unlock_unknown),
    server_test(missing_replicas_make_unlock_unknown),
    server_test(a_failover_can_let_two_hold),
};

const lk_group lk_refusals = {"refusals", tests, sizeof tests / sizeof tests[0], NULL, NULL};
