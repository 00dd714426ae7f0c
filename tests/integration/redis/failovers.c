/* failovers.c: another server, or another life of the same: what it has lost is not believed. */
#include "redis_tests.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Locks and unlocks a few times; answers the last token. */
static uint64_t take_tokens(locker *l, const char *key)
{
    uint64_t token = 0;
    for (int i = 0; i < 3; i++) {
        locker_handle *held = lk_take(l, key);

        assert_true(locker_handle_token(held) > token);
        token = locker_handle_token(held);
        lk_give(held);
    }
    return token;
}

struct counter {
    lk_server *server;
    char text[32]; /* what it should be */
};

static bool has_counter(void *context)
{
    struct counter *counter = context;
    char text[32];
    return lk_server_text(counter->server, text, sizeof text, "GET %s", lk_fence_key("counted")) &&
           strcmp(text, counter->text) == 0;
}

/* A replica of the server that has the counter of "counted" as it is now, and is cut off from it. */
static void leave_a_replica_behind(lk_env *env)
{
    struct counter counter;
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    counter.server = env->second;
    assert_true(
        lk_server_text(env->server, counter.text, sizeof counter.text, "GET %s", lk_fence_key("counted")));
    lk_require(has_counter, &counter, "the counter should be replicated");
    lk_server_do(env->second, "REPLICAOF 127.0.0.1 %d", lk_free_port());
}

/* The replica lacks the last counts and is made master: no number is given out again, to those that come from
 * the old master nor to others. */
static void tokens_grow_over_a_failover_that_lost_counts(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *rival;
    uint64_t last;
    char text[32];
    take_tokens(l, "counted");
    leave_a_replica_behind(env);
    last = take_tokens(l, "counted");
    lk_server_do(env->second, "REPLICAOF NO ONE");
    rival = lk_open_at(env->second, "");
    for (int i = 0; i < 2; i++) { /* by a script, then by plain commands */
        locker_handle *held = lk_take(rival, "counted");

        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        assert_true(lk_server_text(env->second, text, sizeof text, "GET %s", lk_fence_key("counted")));
        assert_true(strtoull(text, NULL, 10) >= last); /* also those count on it who came before */
        lk_give(held);
    }
    lk_follow(env->server, env->second);
    last = take_tokens(l, "counted") > last ? last : 0;
    assert_true(last > 0);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* The same for a process that has counted on the old master, and is the first on the new one. */
static void tokens_grow_for_a_process_that_moves_to_the_new_master(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    uint64_t last;
    take_tokens(l, "counted");
    leave_a_replica_behind(env);
    last = take_tokens(l, "counted");
    lk_server_do(env->second, "REPLICAOF NO ONE");
    lk_follow(env->server, env->second);
    lk_give(lk_take(l, "another")); /* it has moved */
    locker_handle *held = lk_take(l, "counted");
    assert_true(locker_handle_token(held) > last);
    lk_give(held);
    lk_close_locker(l);
}

static void expect_renewals_to_follow(lk_env *env, const locker_lock_options *options)
{
    locker *l = lk_open_at(env->server, "ttl=2s");
    locker_handle *held = lk_take_with(l, "followed", options);
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    lk_require_confirming(env->server, 1);
    lk_server_do(env->second, "REPLICAOF NO ONE");
    lk_follow(env->server, env->second);
    (void)assert_unless_late(!lk_readable(locker_handle_fd(held), 2000)); /* a lease */
    lk_give_unless_late(held);
    lk_close_locker(l);
}

/* No other request says that the old one is a replica by now. */
static void renewals_follow_the_master(void **state)
{
    expect_renewals_to_follow(*state, NULL);
}

static void renewals_of_shares_follow_the_master(void **state)
{
    locker_lock_options share = LOCKER_LOCK_OPTIONS_INIT;
    share.mode = LOCKER_SHARED;
    expect_renewals_to_follow(*state, &share);
}

/* Take a lock and make a replica of its server the master. The old server has ended the lock already, as one whose clock is ahead does,
 * and gets no data from the new master, because it logs in there with a password that nobody asked for. */
static locker_handle *take_and_demote(lk_env *env, locker *l, const locker_lock_options *options)
{
    locker_handle *held = lk_take_with(l, "demoted", options);
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    lk_require_confirming(env->server, 1);
    lk_server_do(env->second, "REPLICAOF NO ONE");
    lk_server_do(env->server, "DEL demoted");
    lk_server_do(env->server, "CONFIG SET masterauth nobody");
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", env->second->port);
    return held;
}

static void expect_the_master_to_be_asked(lk_env *env, locker_mode mode)
{
    locker *l = lk_open_at(env->server, "ttl=90s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.mode = mode;
    lk_give(take_and_demote(env, l, &options));
    assert_int_equal(lk_server_integer(env->second, "EXISTS demoted"), 0);
    lk_close_locker(l);
}

static void a_release_does_not_believe_a_replica(void **state)
{
    expect_the_master_to_be_asked(*state, LOCKER_EXCLUSIVE);
}

static void a_release_of_a_reader_does_not_believe_a_replica(void **state)
{
    expect_the_master_to_be_asked(*state, LOCKER_SHARED);
}

static void expect_renewals_not_to_believe_it(lk_env *env, locker_mode mode)
{
    locker *l = lk_open_at(env->server, "ttl=2s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.mode = mode;
    locker_handle *held = take_and_demote(env, l, &options);
    (void)assert_unless_late(!lk_readable(locker_handle_fd(held), 2000)); /* a lease */
    lk_give_unless_late(held);
    lk_close_locker(l);
}

static void a_renewal_does_not_believe_a_replica(void **state)
{
    expect_renewals_not_to_believe_it(*state, LOCKER_EXCLUSIVE);
}

static void a_renewal_of_a_reader_does_not_believe_a_replica(void **state)
{
    expect_renewals_not_to_believe_it(*state, LOCKER_SHARED);
}

/* The old server has carried out a break, too, of which the new master has not heard. */
static void expect_no_break_to_be_believed(lk_env *env, locker_mode mode)
{
    static const char value_lua[] = "local v = redis.call('GET', 'demoted') "
                                    "local epoch = string.match(v, '^S(.*)') "
                                    "local set = '{demoted}:locker:shared:' .. (epoch or '') "
                                    "return epoch and redis.call('ZRANGE', set, 0, 0)[1] or v";
    locker *l = lk_open_at(env->server, "ttl=90s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.mode = mode;
    locker_handle *held = take_and_demote(env, l, &options);
    char value[64];
    assert_true(lk_server_text(env->second, value, sizeof value, "EVAL %s 0", value_lua));
    lk_server_do(env->server, "REPLICAOF NO ONE");
    lk_server_do(env->server, "SET {demoted}:locker:broken:%s 1", value);
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", env->second->port);
    lk_give(held);
    assert_int_equal(lk_server_integer(env->second, "EXISTS demoted"), 0);
    lk_close_locker(l);
}

static void a_release_does_not_believe_the_break_mark_of_a_replica(void **state)
{
    expect_no_break_to_be_believed(*state, LOCKER_EXCLUSIVE);
}

static void a_release_of_a_reader_does_not_believe_the_break_mark_of_a_replica(void **state)
{
    expect_no_break_to_be_believed(*state, LOCKER_SHARED);
}

static void expect_looks_not_to_believe_it(lk_env *env, locker_mode mode)
{
    locker *l = lk_open_at(env->server, "ttl=90s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    options.mode = mode;
    locker_handle *held = take_and_demote(env, l, &options);
    assert_ok(locker_show(l, "demoted", &info, &err), err);
    assert_true(info.held);
    locker_info_clear(&info);
    lk_give(held);
    lk_close_locker(l);
}

static void show_does_not_believe_a_replica(void **state)
{
    expect_looks_not_to_believe_it(*state, LOCKER_EXCLUSIVE);
}

static void show_of_a_reader_does_not_believe_a_replica(void **state)
{
    expect_looks_not_to_believe_it(*state, LOCKER_SHARED);
}

static void a_break_does_not_believe_a_replica(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=90s");
    locker_error err;
    locker_handle *held = take_and_demote(env, l, NULL);
    assert_ok(locker_break(l, "demoted", NULL, NULL, &err), err);
    assert_int_equal(lk_server_integer(env->second, "EXISTS demoted"), 0);
    lk_give_lost(held);
    lk_close_locker(l);
}

/* The new master has no such lock. */
static void expect_tries_not_to_believe_it(lk_env *env, const locker_lock_options *options)
{
    locker *l = lk_open_at(env->server, "ttl=90s");
    locker_handle *held;
    locker_error err;
    env->second = lk_test_redis(NULL);
    lk_give(lk_take_with(l, "demoted", options)); /* by now it has the scripts */
    lk_server_do(env->server, "SET demoted somebody");
    lk_server_do(env->server, "CONFIG SET masterauth nobody");
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", env->second->port);
    assert_status(LOCKER_OK, locker_try_lock(l, "demoted", options, &held, &err), err);
    lk_give(held);
    lk_close_locker(l);
}

static void a_try_does_not_believe_a_replica(void **state)
{
    expect_tries_not_to_believe_it(*state, NULL);
}

static void a_try_to_share_does_not_believe_a_replica(void **state)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.mode = LOCKER_SHARED;
    expect_tries_not_to_believe_it(*state, &options);
}

static void a_try_for_a_permit_does_not_believe_a_replica(void **state)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.permits = 2;
    expect_tries_not_to_believe_it(*state, &options);
}

/* A release that hands the lock on takes the number. */
static void a_hand_over_by_a_new_master_takes_a_greater_token(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, ""), *rival;
    lk_locking waiter;
    locker_handle *held;
    uint64_t before;
    char value[64];
    take_tokens(l, "counted");
    leave_a_replica_behind(env);
    before = take_tokens(l, "counted");
    held = lk_take(l, "counted");
    assert_true(locker_handle_token(held) > before);
    before = locker_handle_token(held);
    lk_server_do(env->second, "REPLICAOF NO ONE"); /* it is given the lock, and has an old counter */
    assert_true(lk_server_text(env->server, value, sizeof value, "GET counted"));
    lk_server_do(env->second, "SET counted %s PX 30000", value);
    rival = lk_open_at(env->second, "");
    lk_locking_start(&waiter, rival, "counted", NULL);
    lk_require_waiting(rival, 1);
    lk_require_queue(env->second, "counted", 1);
    lk_follow(env->server, env->second);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(locker_handle_token(waiter.held) > before);
    lk_give(waiter.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* What a crash with fsync each second, or a restart from an older dump, does. */
static void tokens_grow_over_a_crash_that_lost_counts(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    uint64_t last;
    take_tokens(l, "counted");
    lk_server_do(env->server, "SAVE");
    last = take_tokens(l, "counted");
    lk_server_kill(env->server);
    lk_test_launch(env->server, true);
    lk_give(lk_take(l, "another")); /* it has found the server again */
    for (int i = 0; i < 2; i++) {
        locker_handle *held = lk_take(l, "counted");

        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what else may be lost ---- */

/* The first answer of the release is lost, and the server comes back without the lock: nobody can say whether
 * the release or `lose` has taken it away. */
static void release_over(lk_env *env, void (*lose)(lk_env *env))
{
    locker *l = lk_open_through(env, "command_timeout=20s");
    locker_handle *held = lk_take(l, "unknown");
    lk_unlocking unlocking;
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, "EVALSHA", 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_unlocking_start(&unlocking, held);
    lk_proxy_await_harm(env->proxy, 1);
    lose(env);
    lk_proxy_refuse(env->proxy, false);
    assert_status(LOCKER_UNKNOWN, lk_unlocking_join(&unlocking), unlocking.err);
    assert_non_null(strstr(unlocking.err.text, "restarted"));
    locker_handle_free(held);
    lk_close_locker(l);
}

static void restart_empty(lk_env *env)
{
    lk_server_kill(env->server);
    lk_test_launch(env->server, false);
}

static void a_release_over_a_loss_of_data_is_unknown(void **state)
{
    release_over(*state, restart_empty);
}

/* It does not tell that it is another life. */
static void a_release_over_an_unknown_server_is_unknown(void **state)
{
    release_over(*state, restart_empty);
}

static int start_nameless(void **state)
{
    static const char *const options[] = {"--rename-command", "INFO", "", NULL};
    lk_env *env = calloc(1, sizeof *env);
    if (env == NULL)
        return -1;
    *state = env;
    env->server = lk_test_redis(options);
    env->proxy = lk_proxy_begin(&lk_proxy_redis, env->server->port);
    return 0;
}

/* The same process: it was a replica meanwhile, and has the data of another. */
static void become_another(lk_env *env)
{
    env->second = lk_test_redis(NULL);
    lk_follow(env->server, env->second);
    lk_server_do(env->server, "REPLICAOF NO ONE");
}

static void a_release_over_a_change_of_masters_is_unknown(void **state)
{
    release_over(*state, become_another);
}

/* A waiter subscribes at the new master, and receives its messages. */
static void a_waiter_listens_to_the_new_master(void **state)
{
    lk_env *env = *state;
    locker *l, *rival;
    lk_locking waiter;
    locker_handle *held, *other = NULL;
    locker_error err;
    int64_t released;
    env->second = lk_test_redis(NULL);
    assert_ok(lk_try_uri(&rival, &err, "redis://127.0.0.1:%d,127.0.0.1:%d/0?ttl=90s&poll=60s",
                         env->server->port, env->second->port),
              err);
    lk_server_do(env->server, "SET heard somebody");
    lk_locking_start(&waiter, rival, "heard", NULL);
    lk_require_queue(env->server, "heard", 1);
    l = lk_open_at(env->second, "");
    held = lk_take(l, "heard");
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", lk_free_port());
    assert_status(LOCKER_OK, locker_try_lock(rival, "other", NULL, &other, &err), err); /* it has moved */
    lk_require_queue(env->second, "heard", 1);
    released = lk_test_now_ms();
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - released, 10000); /* its poll comes after 27 s or more */
    lk_give(waiter.held);
    lk_give(other);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* Master and replica change places while somebody waits who is connected to the old master still. He has not
 * asked the new one, which hands him nothing, because nobody listens there for him; and what it publishes for
 * nothing he does not hear at the replica either: it would grant him the lock that the next one gets. */
static void a_replica_hands_no_lock_to_a_waiter(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=90s&poll=60s"), *holder, *next;
    lk_locking waiter;
    holder = lk_open_at(env->server, "ttl=90s");
    locker_handle *held = lk_take(holder, "told"), *taken;
    lk_locking_start(&waiter, l, "told", NULL);
    lk_require_subscriber(env->server);
    lk_require_queue(env->server, "told", 1);
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    lk_require_queue(env->second, "told", 1);
    lk_server_do(env->second, "REPLICAOF NO ONE");
    lk_follow(env->server, env->second);
    lk_give(held); /* by the new master */
    lk_expect_value(env->second, "told", NULL);
    next = lk_open_at(env->second, "ttl=90s");
    taken = lk_take(next, "told");
    lk_require_replicated(env->second, env->server);
    lk_close_locker(l);
    assert_status(LOCKER_CLOSED, lk_locking_join(&waiter), waiter.err);
    lk_give(taken);
    lk_close_locker(next);
    lk_close_locker(holder);
}

static int64_t connections_received(lk_server *server)
{
    char text[8192];
    const char *at;
    assert_true(lk_server_text(server, text, sizeof text, "INFO stats"));
    at = strstr(text, "total_connections_received:");
    assert_non_null(at);
    return strtoll(at + strlen("total_connections_received:"), NULL, 10);
}

struct visited {
    lk_server *server;
    int64_t before;
};

static bool is_visited(void *context)
{
    const struct visited *visited = context;
    return connections_received(visited->server) > visited->before;
}

static int64_t channels(lk_server *server)
{
    return lk_server_integer(server, "EVAL %s 0",
                             "return #redis.call('PUBSUB', 'CHANNELS', 'locker:wake:*')");
}

/* The server takes no further connection, so the one for wake-ups is tried at the other host: what is told
 * there is not about our locks. */
static void a_subscription_is_with_the_server_that_grants(void **state)
{
    lk_env *env = *state;
    struct visited visited;
    lk_locking waiter;
    locker_error err;
    locker *l;
    env->second = lk_test_redis(NULL);
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.1:%d,127.0.0.1:%d/0?poll=1s", lk_proxy_port(env->proxy),
                         env->second->port),
              err);
    lk_server_do(env->server, "SET here somebody");
    lk_proxy_refuse(env->proxy, true);
    visited.server = env->second;
    visited.before = connections_received(env->second);
    lk_locking_start(&waiter, l, "here", NULL);
    lk_require(is_visited, &visited, "the other host should be tried");
    lk_proxy_refuse(env->proxy, false);
    lk_require_queue(env->server, "here", 1);
    assert_int_equal(channels(env->second), 0);
    assert_int_equal(channels(env->server), 1);
    lk_server_do(env->server, "DEL here");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ replicas ---- */

/* A thread that a signal holds up, where it is, until the test lets it go. */
static struct stall {
    int entered[2], leave[2]; /* pipes */
} stall;

static void stall_here(int signal)
{
    char byte = (char)signal;
    if (write(stall.entered[1], &byte, 1) == 1 && read(stall.leave[0], &byte, 1) < 0)
        return;
}

/* One that locks in a thread that the system is asked about. */
static struct late {
    locker *l;
    const char *key;
    locker_handle *held;
    locker_status status;
    locker_error err;
    pthread_t thread;
    _Atomic(pid_t) tid;
} reader, late;

static void *lock_late(void *argument)
{
    struct late *x = argument;
    locker_lock_options options = lk_wait_options(0);
    x->tid = gettid();
    x->status = locker_lock(x->l, x->key, &options, &x->held, &x->err);
    return NULL;
}

static bool exists(void *context)
{
    lk_env *env = ((void **)context)[0];
    return lk_server_integer(env->server, "EXISTS %s", ((const char **)context)[1]) == 1;
}

static void require_key(lk_env *env, const char *key)
{
    const void *context[] = {env, key};
    lk_require(exists, context, "the key should be there");
}

/* The system call in which it sleeps, and that one's second argument. False: in none. */
static bool sleeps(const struct late *x, long *number, unsigned long *how)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)x->tid);
    FILE *const file = fopen(path, "r");
    if (file == NULL)
        return false;
    char text[128] = "", *at = text;
    const bool known = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    *number = strtol(at, &at, 10);
    (void)strtoul(at, &at, 16);
    *how = strtoul(at, NULL, 16);
    return known && *number > 0;
}

/* It waits for another thread to read its answer: FUTEX_WAIT_BITSET, privately. */
static bool sleeps_for_its_answer(void *context)
{
    long number;
    unsigned long how;
    return sleeps(context, &number, &how) && number == SYS_futex && how == 0x89;
}

/* It reads, for all. */
static bool sleeps_for_all_answers(void *context)
{
    long number;
    unsigned long how;
    return sleeps(context, &number, &how) && (number == SYS_poll || number == SYS_ppoll);
}

static bool is_confirming(void *context)
{
    lk_server_do(context, "SET probe 1");
    return lk_server_integer(context, "WAIT 1 100") == 1;
}

/* Another server becomes the master between the grant and the question whether replicas have it: what
 * replicas of that one have is no answer. */
static void replicas_of_another_master_confirm_nothing(void **state)
{
    lk_env *env = *state;
    struct sigaction action = {.sa_handler = stall_here, .sa_flags = SA_RESTART};
    locker_error err;
    char byte = 0;
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    lk_require(is_confirming, env->server, "the replica should confirm writes");
    locker *const l = lk_open_through(env, "wait_replicas=1&wait_timeout=300ms&command_timeout=25s&ttl=90s");
    reader = (struct late){.l = l, .key = "first"};
    late = (struct late){.l = l, .key = "late"};
    assert_true(pipe(stall.entered) == 0 && pipe(stall.leave) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    lk_server_do(env->second, "REPLICAOF 127.0.0.1 %d", lk_free_port()); /* it is cut off */
    lk_proxy_hold(env->proxy, 0, 1);
    assert_int_equal(pthread_create(&reader.thread, NULL, lock_late, &reader), 0);
    require_key(env, "first");
    lk_require(sleeps_for_all_answers, &reader, "it should read the answers");
    assert_int_equal(pthread_create(&late.thread, NULL, lock_late, &late), 0);
    require_key(env, "late");
    lk_require(sleeps_for_its_answer, &late, "it should wait for its answer");
    assert_int_equal(pthread_kill(late.thread, SIGUSR1), 0);
    assert_true(lk_readable(stall.entered[0], LK_TEST_PATIENCE_MS));
    lk_proxy_hold(env->proxy, 0, 0); /* the reader's WAIT comes behind the other's grant */
    lk_join(reader.thread, "the reader's lock");
    assert_status(LOCKER_UNAVAILABLE, reader.status, reader.err);
    lk_server_do(env->second, "REPLICAOF NO ONE");
    lk_follow(env->server, env->second);
    lk_require(is_confirming, env->second, "the old master should confirm writes");
    lk_server_do(env->server, "CLIENT KILL TYPE normal"); /* as Sentinel does */
    assert_ok(locker_ping(late.l, NULL, &err), err);      /* by a new connection */
    assert_int_equal(lk_server_integer(env->second, "EXISTS late"), 0);
    assert_int_equal(write(stall.leave[1], &byte, 1), 1);
    lk_join(late.thread, "lock");
    assert_status(LOCKER_UNAVAILABLE, late.status, late.err);
    lk_close_locker(l);
    for (int i = 0; i < 2; i++) {
        close(stall.entered[i]);
        close(stall.leave[i]);
    }
}

/* ------------------------------------------------------------------ hosts that hang ---- */

/* The first host takes connections, and says nothing. */
static void a_host_that_hangs_hides_no_other(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    env->second = lk_test_redis(NULL);
    assert_true(lk_server_freeze(env->server));
    assert_ok(lk_try_uri(&l, &err, "redis://127.0.0.1:%d,127.0.0.1:%d/0?connect_timeout=3s",
                         env->server->port, env->second->port),
              err);
    lk_give(lk_take(l, "second"));
    lk_close_locker(l);
    lk_server_thaw(env->server);
}

static void a_client_of_a_host_that_hangs_finds_another_host(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    env->second = lk_test_redis(NULL);
    assert_ok(lk_try_uri(&l, &err,
                         "redis://127.0.0.1:%d,127.0.0.1:%d/0?connect_timeout=1s&command_timeout=500ms",
                         env->server->port, env->second->port),
              err);
    lk_give_unless_late(lk_take(l, "first"));
    assert_true(lk_server_freeze(env->server));
    locker_handle *held = lk_take_with(l, "second", &options);
    assert_int_equal(lk_server_integer(env->second, "EXISTS second"), 1);
    lk_give_unless_late(held);
    lk_close_locker(l);
    lk_server_thaw(env->server);
}

static int listen_silently(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void an_address_that_hangs_hides_no_other(void **state)
{
    lk_env *env = *state;
    locker *l;
    locker_error err;
    const int silent = listen_silently(env->server->port);
    assert_ok(lk_try_uri(&l, &err, "redis://two.test:%d/0?connect_timeout=3s", env->server->port), err);
    lk_give(lk_take(l, "second"));
    lk_close_locker(l);
    close(silent);
}

/* A host that is loading its data when it is asked first, and is no Redis from then on. */
struct loader {
    int listener, asked;
};

/* All of a greeting, which ends by TIME: what is not read would have the end of the connection overtake the
 * answer. */
static void take_greeting(int client)
{
    static const char last[] = "TIME\r\n";
    char bytes[1 << 15];
    size_t len = 0;
    ssize_t n;
    while ((n = recv(client, bytes + len, sizeof bytes - len, 0)) > 0) {
        len += (size_t)n;
        if (len >= sizeof last - 1 && memcmp(bytes + len - (sizeof last - 1), last, sizeof last - 1) == 0)
            return;
    }
}

static void *load(void *argument)
{
    static const char loading[] = "-LOADING it is\r\n", strange[] = "HTTP/1.1 400 Bad Request\r\n";
    struct loader *loader = argument;
    int client;
    while ((client = accept4(loader->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        take_greeting(client);
        if (loader->asked++ > 0)
            (void)send(client, strange, sizeof strange - 1, MSG_NOSIGNAL);
        for (int i = 0; loader->asked == 1 && i < 20; i++) /* an answer to each command */
            (void)send(client, loading, sizeof loading - 1, MSG_NOSIGNAL);
        close(client);
    }
    return NULL;
}

static void a_host_that_loads_is_waited_for_beside_one_that_is_away(void **state)
{
    struct loader loader = {.asked = 0};
    pthread_t thread;
    locker *l;
    locker_error err;
    const int port = lk_free_port();
    (void)state;
    loader.listener = listen_silently(port);
    assert_int_equal(pthread_create(&thread, NULL, load, &loader), 0);
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&l, &err, "redis://127.0.0.2:%d,127.0.0.1:%d/0?connect_timeout=20s", port, port),
                  err);
    shutdown(loader.listener, SHUT_RDWR);
    lk_join(thread, "the host that loads");
    close(loader.listener);
    assert_int_equal(loader.asked, 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_host_that_loads_is_waited_for_beside_one_that_is_away),
    server_test(a_host_that_hangs_hides_no_other),
    server_test(a_client_of_a_host_that_hangs_finds_another_host),
    server_test(an_address_that_hangs_hides_no_other),
    server_test(tokens_grow_over_a_failover_that_lost_counts),
    server_test(tokens_grow_for_a_process_that_moves_to_the_new_master),
    server_test(renewals_follow_the_master),
    server_test(renewals_of_shares_follow_the_master),
    server_test(a_release_does_not_believe_a_replica),
    server_test(a_release_of_a_reader_does_not_believe_a_replica),
    server_test(a_renewal_does_not_believe_a_replica),
    server_test(a_renewal_of_a_reader_does_not_believe_a_replica),
    server_test(a_release_does_not_believe_the_break_mark_of_a_replica),
    server_test(a_release_of_a_reader_does_not_believe_the_break_mark_of_a_replica),
    server_test(show_does_not_believe_a_replica),
    server_test(show_of_a_reader_does_not_believe_a_replica),
    server_test(a_break_does_not_believe_a_replica),
    server_test(a_try_does_not_believe_a_replica),
    server_test(a_try_to_share_does_not_believe_a_replica),
    server_test(a_try_for_a_permit_does_not_believe_a_replica),
    server_test(a_hand_over_by_a_new_master_takes_a_greater_token),
    server_test(tokens_grow_over_a_crash_that_lost_counts),
    proxied_test(a_release_over_a_loss_of_data_is_unknown),
    cmocka_unit_test_setup_teardown(a_release_over_an_unknown_server_is_unknown, start_nameless, lk_env_end),
    proxied_test(a_release_over_a_change_of_masters_is_unknown),
    server_test(a_waiter_listens_to_the_new_master),
    server_test(a_replica_hands_no_lock_to_a_waiter),
    proxied_test(a_subscription_is_with_the_server_that_grants),
    proxied_test(replicas_of_another_master_confirm_nothing),
};

const lk_group lk_failovers = {"failovers", tests, sizeof tests / sizeof tests[0], NULL, NULL};
