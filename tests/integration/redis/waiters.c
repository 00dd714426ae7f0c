/* waiters.c: looks at locks that are waited for: they don't grow with the number of those that wait, nor with that of the keys
 * that one process waits for; and what is kept beside a lock goes with it. */
#include "redis_tests.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alone.h"

static const int64_t second_ns = 1000000000;

enum {
    FIRST = 3,         /* who look often */
    OTHERS = FIRST + 1 /* and one behind the one that is watched */
};

/* Lets the keeper have its turns until all that it sent is answered. */
static void turn(void)
{
    for (int i = 0; i < 3; i++) {
        (void)lk_redis_driver.dispatch(lk_alone.self);
        lk_alone_ping();
    }
}

static void go_on(int64_t ms)
{
    lk_alone.ahead += ms * (second_ns / 1000);
    turn();
}

/* So many that wait before anybody else, and whose processes listen no more. */
static void put_dead(lk_server *server, const char *key, int count)
{
    for (int i = 0; i < count; i++)
        lk_server_do(server, "ZADD {%s}:locker:queue %d %s", key, i + 1,
                     i % 2 == 0
                         ? "00000000000000aa00000000000000aa 00000000000000aa0000000000000001 30000 1 gone"
                         : "00000000000000bb00000000000000bb 00000000000000bb0000000000000002 30000 1 gone");
}

static void a_lock_that_became_free_is_found_by_a_look(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_server_do(env->server, "SET found somebody");
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "found");
    asker.wakes = 0;
    go_on(1200); /* a look in each second */
    assert_int_equal(asker.wakes, 0);
    lk_server_do(env->server, "DEL found");
    go_on(1200);
    assert_int_equal(asker.wakes, 1);
    assert_int_equal(lk_asker_ask(&asker), LOCKER_OK);
    lk_asker_give(&asker);
    lk_alone_end();
}

/* It is known when the holder's lease ends, and looked then. */
static void the_end_of_a_lease_is_not_missed(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_alone_begin(env->server->port, "&poll=60s");
    lk_server_do(env->server, "SET ended somebody PX 300");
    lk_asker_enrol(&asker, env->server, "ended");
    asker.wakes = 0;
    for (int64_t began = lk_test_now_ms(); lk_test_now_ms() - began < LK_TEST_PATIENCE_MS && asker.wakes == 0;
         usleep(1000))
        turn();
    assert_int_equal(asker.wakes, 1);
    assert_int_equal(lk_server_integer(env->server, "EXISTS ended"), 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

static void the_dead_go_from_the_front(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_server_do(env->server, "SET front somebody");
    put_dead(env->server, "front", 2);
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(&asker, "front"), LOCKER_BUSY);
    lk_require_told(&asker.wakes, "it should subscribe");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_require_queue(env->server, "front", 3);
    go_on(1200);
    lk_require_queue(env->server, "front", 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* Whose place was lost, with all of the queue, takes one again. */
static void a_place_that_was_lost_is_taken_again(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_server_do(env->server, "SET placeless somebody");
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "placeless");
    asker.wakes = 0;
    lk_server_do(env->server, "DEL {placeless}:locker:queue");
    go_on(1200);
    assert_int_equal(asker.wakes, 1);
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_require_queue(env->server, "placeless", 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

static bool is_listened_to(void *context)
{
    return lk_server_integer(context, "PUBSUB CHANNELS") > 0;
}

/* Its server has become a replica, and the connection to it stays: the lock is given back at the master. */
static void a_waiter_finds_the_new_master(void **state)
{
    lk_env *env = *state;
    lk_locking waiter;
    env->second = lk_test_redis(NULL);
    lk_follow(env->second, env->server);
    locker *l = lk_open_at(env->server, "poll=200ms&ttl=60s");
    lk_server_do(env->server, "SET elsewhere somebody");
    lk_locking_start(&waiter, l, "elsewhere", NULL);
    lk_require_queue(env->server, "elsewhere", 1);
    lk_require_queue(env->second, "elsewhere", 1);
    lk_server_do(env->second, "REPLICAOF NO ONE");
    lk_server_do(env->server, "REPLICAOF 127.0.0.1 %d", env->second->port);
    lk_require(is_listened_to, env->second, "it should listen to the master, by its looks alone");
    lk_server_do(env->second, "DEL elsewhere");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* Three lockers wait, `asker` behind them, and one more behind that; all but that one look once a minute. */
static void stand_behind(lk_env *env, const char *key, locker *others[OTHERS], lk_locking waiters[OTHERS],
                         const locker_lock_options *options, lk_asker *asker)
{
    for (int i = 0; i < OTHERS; i++)
        others[i] = lk_open_at(env->server, "poll=60s&ttl=300s");
    for (int i = 0; i < FIRST; i++) {
        lk_locking_start(&waiters[i], others[i], key, i == 0 ? options : NULL);
        lk_require_queue(env->server, key, i + 1);
    }
    lk_alone_begin(env->server->port, "");
    assert_int_equal(lk_asker_come(asker, key), LOCKER_BUSY);
    lk_require_told(&asker->wakes, "it should subscribe");
    assert_int_equal(lk_asker_ask(asker), LOCKER_BUSY);
    lk_require_queue(env->server, key, FIRST + 1);
    lk_locking_start(&waiters[FIRST], others[FIRST], key, NULL);
    lk_require_queue(env->server, key, FIRST + 2);
    go_on(1200); /* it looks, as the last that it was, and finds that it isn't */
}

/* It hears that it stands among the first, and looks each second from then on. */
static void expect_near(lk_env *env, const char *key)
{
    lk_require_queue(env->server, key, FIRST + 1);
    turn();
    const long long since = lk_calls_of(env->server, "evalsha");
    go_on(1200);
    assert_unless_late(lk_calls_of(env->server, "evalsha") == since + 1);
}

/* Between three that listen and the last it looks each five seconds, since there are five, until it hears that one of the
 * first has gone. */
static void a_waiter_far_behind_polls_seldom(void **state)
{
    lk_env *env = *state;
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker *others[OTHERS];
    lk_locking waiters[OTHERS];
    lk_asker asker;
    options.cancel = locker_cancel_new();
    lk_server_do(env->server, "SET behind somebody");
    stand_behind(env, "behind", others, waiters, &options, &asker);
    const long long looks = lk_calls_of(env->server, "evalsha");
    go_on(3000);
    assert_unless_late(lk_calls_of(env->server, "evalsha") == looks);
    go_on(3000);
    assert_unless_late(lk_calls_of(env->server, "evalsha") == looks + 1);
    locker_cancel_fire(options.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiters[0]), waiters[0].err);
    expect_near(env, "behind");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
    lk_server_do(env->server, "DEL behind");
    for (int i = 0; i < OTHERS; i++) {
        lk_close_locker(others[i]);
        if (i > 0)
            assert_status(LOCKER_CLOSED, lk_locking_join(&waiters[i]), waiters[i].err);
    }
    locker_cancel_free(options.cancel);
}

/* ... or that it was handed the lock. */
static void a_hand_over_notifies_a_waiter_that_comes_near_the_front(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->server, ""), *others[OTHERS];
    locker_handle *held = lk_take(holder, "near");
    lk_locking waiters[OTHERS];
    lk_asker asker;
    stand_behind(env, "near", others, waiters, NULL, &asker);
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiters[0]), waiters[0].err);
    expect_near(env, "near");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
    lk_give(waiters[0].held);
    for (int i = 1; i < OTHERS; i++)
        lk_give(lk_locking_grant(&waiters[i]));
    for (int i = 0; i < OTHERS; i++)
        lk_close_locker(others[i]);
    lk_close_locker(holder);
}

/* All that are due go together, in commands of 128 locks. */
static void keys_are_polled_together(void **state)
{
    enum { KEYS = 300 };
    static lk_asker askers[KEYS];
    static char keys[KEYS][16];
    lk_env *env = *state;
    lk_alone_begin(env->server->port, "");
    for (int i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "many-%d", i);
        lk_server_do(env->server, "SET %s somebody", keys[i]);
    }
    lk_asker_enrol(&askers[0], env->server, keys[0]);
    for (int i = 1; i < KEYS; i++)
        assert_int_equal(lk_asker_come(&askers[i], keys[i]), LOCKER_BUSY);
    const long long looks = lk_calls_of(env->server, "evalsha"), locks = lk_calls_of(env->server, "pttl");
    go_on(1200);
    const long long asked = lk_calls_of(env->server, "pttl") - locks,
                    calls = lk_calls_of(env->server, "evalsha") - looks;
    assert_unless_late(asked == KEYS && calls >= 3 && calls <= 6);
    for (int i = 0; i < KEYS; i++)
        lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&askers[i]));
    lk_alone_end();
}

/* Those of one host stand one behind the other, and all of them die: the last in the queue looks as often as the first. */
static void the_last_finds_that_those_before_it_are_dead(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_server_do(env->server, "SET host somebody");
    lk_alone_begin(env->server->port, "");
    for (int i = 0; i < 40; i++) {
        char member[100];
        snprintf(member, sizeof member, "%032x %032x 30000 1 gone", i + 1, i + 1);
        lk_server_do(env->server, "ZADD {host}:locker:queue %d %s", i + 1, member);
    }
    assert_int_equal(lk_asker_come(&asker, "host"), LOCKER_BUSY);
    lk_require_told(&asker.wakes, "it should subscribe");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    lk_require_queue(env->server, "host", 41);
    go_on(1200);
    lk_require_queue(env->server, "host", 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* The first of them that says something: where nobody hands the lock on, the first three look, and any of them may have it. */
static lk_child *who_speaks(lk_child *const *children, int count)
{
    struct pollfd said[8];
    assert_in_range(count, 1, 8);
    for (int i = 0; i < count; i++)
        said[i] = (struct pollfd){.fd = children[i]->output, .events = POLLIN};
    assert_true(poll(said, (nfds_t)count, LK_TEST_PATIENCE_MS) > 0);
    for (int i = 0; i < count; i++)
        if (said[i].revents != 0)
            return children[i];
    return NULL;
}

/* Who gets the lock by a look of its own tells who comes to stand among the first: three die then, the holder among them, and the
 * last, who looks often, too. */
static void a_waiter_that_moves_up_without_a_hand_over_is_notified(void **state)
{
    enum { TTL = 2000, WAITERS = 10, DEAD = 3, LAST = WAITERS - 1 };
    lk_env *env = *state;
    char uri[128];
    lk_child *waiters[WAITERS];
    lk_server_do(env->server, "SET moved somebody");
    for (int i = 0; i < WAITERS; i++) {
        /* the first finds the lock, and not one of those that die with it */
        snprintf(uri, sizeof uri, "redis://127.0.0.1:%d/0?poll=%s", env->server->port,
                 i == 0     ? "50ms"
                 : i < DEAD ? "60s"
                            : "1s");
        waiters[i] = lk_puppet_start(uri);
        lk_puppet_wait(waiters[i], "moved", 60000, TTL, true);
        lk_require_queue(env->server, "moved", i + 1);
    }
    usleep(1500000); /* they have looked */
    for (int i = 1; i < WAITERS; i++)
        lk_child_stop(waiters[i]);     /* whose look comes first has the lock */
    lk_server_do(env->server, "PING"); /* what they sent before is answered */
    lk_server_do(env->server, "DEL moved");
    assert_int_equal(lk_puppet_granted(waiters[0], NULL), LOCKER_OK);
    lk_child_signal(waiters[LAST], SIGKILL);
    for (int i = DEAD - 1; i >= 0; i--)
        lk_child_signal(waiters[i], SIGKILL);
    const int64_t killed = lk_test_now_ms();
    for (int i = DEAD; i < LAST; i++)
        lk_child_signal(waiters[i], SIGCONT);
    assert_int_equal(lk_puppet_granted(who_speaks(&waiters[DEAD], LAST - DEAD), NULL), LOCKER_OK);
    assert_timely(lk_test_now_ms() - killed, TTL + 1000 + LK_TEST_SLACK_MS);
    for (int i = 0; i < WAITERS; i++)
        lk_child_kill(waiters[i]);
}

/* The holder, and the first two that wait, are killed at once: who comes behind them has the lock when the lease is over. */
static void a_waiter_behind_dead_processes_gets_the_lock_after_the_lease(void **state)
{
    enum { TTL = 2000, WAITERS = 5 };
    lk_env *env = *state;
    char uri[128];
    lk_child *holder, *waiters[WAITERS];
    snprintf(uri, sizeof uri, "redis://127.0.0.1:%d", env->server->port);
    holder = lk_puppet_start(uri);
    assert_int_equal(lk_puppet_lock(holder, "killed", 0, TTL, true, NULL), LOCKER_OK);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = lk_puppet_start(uri);
        lk_puppet_wait(waiters[i], "killed", 60000, TTL, true);
        lk_require_queue(env->server, "killed", i + 1);
    }
    usleep(1500000); /* they have looked */
    for (int i = 0; i < 2; i++)
        lk_child_signal(waiters[i], SIGKILL);
    lk_child_signal(holder, SIGKILL);
    const int64_t killed = lk_test_now_ms();
    lk_child *const next = who_speaks(&waiters[2], WAITERS - 2);
    assert_int_equal(lk_puppet_granted(next, NULL), LOCKER_OK);
    assert_timely(lk_test_now_ms() - killed, TTL + 1000 + LK_TEST_SLACK_MS);
    assert_int_equal(lk_puppet_unlock(next), LOCKER_OK);
    for (int i = 2; i < WAITERS; i++) { /* and the others, in their order */
        if (waiters[i] == next)
            continue;
        assert_int_equal(lk_puppet_granted(waiters[i], NULL), LOCKER_OK);
        assert_int_equal(lk_puppet_unlock(waiters[i]), LOCKER_OK);
    }
    lk_child_kill(holder);
    for (int i = 0; i < WAITERS; i++)
        lk_child_kill(waiters[i]);
}

/* ------------------------------------------------------------------ what is left ---- */

/* However many keys were used, there are no more counters than slots, and nothing else. */
static void nothing_is_left_but_counters(void **state)
{
    enum { KEYS = 3000, SPELL = 10 };
    static locker_handle *held[SPELL];
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "ttl=60s");
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "{few}%d", i);
        lk_give(lk_take(l, key));
    }
    assert_int_equal(lk_server_integer(env->server, "DBSIZE"), 1);
    for (int i = 0; i < SPELL; i++) {
        char key[32];
        snprintf(key, sizeof key, "{few}noted%d", i);
        held[i] = lk_take(l, key);
    }
    for (int64_t began = lk_test_now_ms(); lk_server_integer(env->server, "DBSIZE") < 1 + 2 * SPELL;)
        assert_true(lk_test_now_ms() - began < LK_TEST_PATIENCE_MS); /* each has its info */
    for (int i = 0; i < SPELL; i++)
        lk_give(held[i]);
    assert_int_equal(lk_server_integer(env->server, "DBSIZE"), 1);
    lk_close_locker(l);
}

/* The holder's process dies; and as long as it lives, renewals carry the info along. */
static void the_info_goes_with_the_lease(void **state)
{
    enum { TTL = 600 };
    lk_env *env = *state;
    char uri[128];
    snprintf(uri, sizeof uri, "redis://127.0.0.1:%d", env->server->port);
    lk_child *holder = lk_puppet_start(uri);
    assert_int_equal(lk_puppet_lock(holder, "info", 0, TTL, true, NULL), LOCKER_OK);
    usleep(3 * TTL * 1000);
    assert_unless_late(lk_server_integer(env->server, "EXISTS info {info}:locker:info") == 2);
    const long long left = lk_server_integer(env->server, "PTTL {info}:locker:info");
    assert_unless_late(left > 0 && left <= TTL);
    lk_child_signal(holder, SIGKILL);
    usleep(2 * TTL * 1000);
    assert_int_equal(lk_server_integer(env->server, "EXISTS info {info}:locker:info"), 0);
    lk_child_kill(holder);
}

/* ------------------------------------------------------------------ counters that keys share ---- */

/* Numbers grow for each key, whichever of a slot's keys is locked, and however they are taken. */
static void keys_of_a_slot_share_a_counter(void **state)
{
    static const char *const keys[] = {"{s}a", "{s}b", "{s}c"};
    lk_env *env = *state;
    locker *lockers[2] = {lk_open_at(env->server, ""), lk_open_at(env->server, "")};
    uint64_t last = 0;
    for (int i = 0; i < 60; i++) {
        locker_handle *held = lk_take(lockers[i / 2 % 2], keys[i % 3]);
        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
    }
    assert_int_equal(lk_server_integer(env->server, "DBSIZE"), 1);
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 1 %s",
                                       "return tonumber(redis.call('GET', KEYS[1]))", lk_fence_key("s")),
                     last);
    for (int i = 0; i < 2; i++)
        lk_close_locker(lockers[i]);
}

typedef struct {
    locker *l;
    uint64_t last;
    int index;
    bool went_back;
} racer;

static void *race(void *argument)
{
    racer *const r = argument;
    char key[32];
    snprintf(key, sizeof key, "{storm}%d", r->index / 2); /* two lockers, two threads each, on one key */
    for (int64_t until = lk_test_now_ms() + 1500; lk_test_now_ms() < until;) {
        locker_handle *held = NULL;
        if (locker_lock(r->l, key, NULL, &held, NULL) != LOCKER_OK)
            break;
        r->went_back = r->went_back || locker_handle_token(held) <= r->last;
        r->last = locker_handle_token(held);
        locker_unlock(held, NULL);
        locker_handle_free(held);
    }
    return NULL;
}

/* What is given out faster than time passes could be given out again once it is lost. Here many keys count on one counter, and
 * hand their locks over as fast as they can, for which many numbers are taken at once. */
static void a_counter_is_never_ahead_of_the_time(void **state)
{
    enum { RACERS = 16 };
    static const char ahead[] = "local t = redis.call('TIME')\n"
                                "return tonumber(redis.call('GET', KEYS[1])) - t[1] * 1000000 - t[2]";
    lk_env *env = *state;
    locker *lockers[2] = {lk_open_at(env->server, ""), lk_open_at(env->server, "")};
    pthread_t threads[RACERS];
    racer racers[RACERS];
    lk_give(lk_take(lockers[0], "{storm}0"));
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (racer){.l = lockers[i % 2], .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int64_t until = lk_test_now_ms() + 1500; lk_test_now_ms() < until; usleep(1000))
        assert_true(lk_server_integer(env->server, "EVAL %s 1 %s", ahead, lk_fence_key("storm")) <= 1);
    for (int i = 0; i < RACERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(racers[i].went_back);
        assert_true(racers[i].last > 0);
    }
    for (int i = 0; i < 2; i++)
        lk_close_locker(lockers[i]);
}

/* Earlier releases have a counter for each key, which may be ahead of the slot's where clocks were set back. */
static void tokens_go_on_from_an_earlier_release(void **state)
{
    static const uint64_t old = UINT64_C(4000000000000000);
    lk_env *env = *state;
    locker *l = lk_open_at(env->server, "");
    uint64_t last = old;
    lk_server_do(env->server, "SET {old}:locker:fence %llu", (unsigned long long)old);
    for (int i = 0; i < 3; i++) { /* by the script, then by plain commands */
        locker_handle *held = lk_take(l, "old");
        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_give(held);
    }
    lk_close_locker(l);
}

static const locker_lock_options share = {
    .size = sizeof(locker_lock_options), .wait_ms = -1, .mode = LOCKER_SHARED};

static bool has_two_entries(void *server)
{
    return lk_server_integer(server, "ZCARD {silent}:locker:queue") == 2;
}

/* A share, or with `permits` one of them, is asked for until it waits. */
static void enrol_sharing(lk_env *env, lk_asker *asker, const char *key)
{
    lk_asker_make(asker, key);
    lk_asker_claim(asker)->mode = LOCKER_SHARED;
    assert_int_equal(lk_asker_ask(asker), LOCKER_BUSY);
    lk_require_told(&asker->wakes, "it should subscribe");
    assert_int_equal(lk_asker_ask(asker), LOCKER_BUSY);
    lk_require_queue(env->server, key, 1);
}

/* The name of an instance that listens, and waits for another key. */
static void listen_at(lk_env *env, locker *l, lk_locking *listening, char inst[33])
{
    lk_server_do(env->server, "SET heard somebody");
    lk_locking_start(listening, l, "heard", NULL);
    lk_require_queue(env->server, "heard", 1);
    assert_true(lk_server_text(env->server, inst, 33, "EVAL %s 1 {heard}:locker:queue",
                               "return string.sub(redis.call('ZRANGE', KEYS[1], 0, 0)[1], 1, 32)"));
}

static void listen_no_more(lk_env *env, locker *l, lk_locking *listening)
{
    lk_server_do(env->server, "DEL heard");
    lk_give(lk_locking_grant(listening));
    lk_close_locker(l);
}

/* Of two that are silent the first goes, which would clear a doubt, and the second stays, of an earlier release. */
static void expect_first_to_go(lk_env *env, const char *kind, const char *first, const char *second)
{
    lk_asker asker;
    char inst[33];
    lk_locking listening;
    locker *other = lk_open_at(env->server, "");
    listen_at(env, other, &listening, inst);
    lk_server_do(env->server, "SET silent somebody");
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "silent");
    lk_server_do(
        env->server, "EVAL %s 1 {silent}:locker:queue %s%s %s %s",
        "redis.call('ZADD', KEYS[1], 1, ARGV[1] .. ' 00000000000000aa0000000000000001 60 ' .. ARGV[2],\n"
        "  2, ARGV[1] .. ' 00000000000000aa0000000000000002 60 ' .. ARGV[3])",
        kind, inst, first, second);
    for (int look = 0; look < 20 && !has_two_entries(env->server); look++) {
        usleep(160000); /* a look of others each half a spell, as the server's clock has it, */
        go_on(1200);    /* and by our own clock each second */
    }
    lk_require(has_two_entries, env->server, "the silent one should go");
    assert_int_equal(lk_server_integer(env->server, "ZCOUNT {silent}:locker:queue 2 2"), 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
    lk_server_do(env->server, "DEL silent {silent}:locker:queue");
    listen_no_more(env, other, &listening);
}

/* A process that is cut off, or has left its connection to a child, listens still, as the server sees it: what never looks goes from the
 * front. Of an earlier release nobody clears a doubt, and nobody is doubted. */
static void silent_waiters_are_dequeued_from_the_front(void **state)
{
    expect_first_to_go(*state, "", "01 gone", "1 earlier");
}

static void silent_readers_and_permit_waiters_are_dequeued_from_the_front(void **state)
{
    expect_first_to_go(*state, "S", "0 3 gone", "0 1 earlier");
    expect_first_to_go(*state, "P", "5 2 gone", "5 0 earlier");
}

/* None, or one that was cleared. */
static bool is_without_doubt(void *server)
{
    return lk_server_integer(
               server, "EVAL %s 0",
               "local doubts = 0\n"
               "for _, name in ipairs(redis.call('KEYS', '{living}:locker:doubt:*')) do\n"
               "  if string.sub(redis.call('GET', name), 1, 2) ~= '0 ' then doubts = doubts + 1 end\n"
               "end\n"
               "return doubts") == 0;
}

static bool was_cleared(void *server)
{
    (void)lk_redis_driver.dispatch(lk_alone.self);
    return lk_server_integer(server, "EVAL %s 0", "return #redis.call('KEYS', '{living}:locker:doubt:*')") >
               0 &&
           is_without_doubt(server);
}

/* Doubt whether the first of the queue lives. */
static void doubt_the_first(lk_env *env)
{
    lk_server_do(env->server, "EVAL %s 1 {living}:locker:queue",
                 "local m = redis.call('ZRANGE', KEYS[1], 0, 0)[1]\n"
                 "redis.call('SET', '{living}:locker:doubt:' .. string.match(m, '^[SP]?%x+ (%x+)'), '4 0')");
}

/* A waiter that looks, or asks for the lock, is not doubted any more. */
static void a_live_waiter_clears_a_doubt(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_server_do(env->server, "SET living somebody");
    lk_alone_begin(env->server->port, "");
    lk_asker_enrol(&asker, env->server, "living");
    doubt_the_first(env);
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    assert_true(is_without_doubt(env->server));
    doubt_the_first(env);
    go_on(1200);
    lk_require(is_without_doubt, env->server, "a look should clear the doubt");
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* Who is doubted looks at once, and not when it would have. */
static void a_doubted_waiter_polls_at_once(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    lk_locking behind;
    locker *l = lk_open_at(env->server, "poll=50ms&ttl=600s");
    lk_server_do(env->server, "SET living somebody");
    lk_alone_begin(env->server->port, "&poll=60s");
    lk_asker_enrol(&asker, env->server, "living");
    lk_locking_start(&behind, l, "living", NULL);
    lk_require(was_cleared, env->server, "it should look at once");
    lk_close_locker(l);
    assert_int_equal(lk_locking_join(&behind), LOCKER_CLOSED);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

typedef struct {
    lk_server *server;
    long long calls;
} answering;

static bool has_answered(void *context)
{
    const answering *const a = context;
    return lk_calls_of(a->server, "evalsha") == a->calls;
}

/* Also when it reads of the doubt before the answer to an earlier look. */
static void a_doubt_is_answered_while_an_answer_is_in_flight(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char member[256], inst[33], value[33];
    lk_server_do(env->server, "SET living somebody");
    lk_alone_begin(lk_proxy_port(env->proxy), "&poll=5s");
    lk_asker_enrol(&asker, env->server, "living");
    lk_read_member(env->server, "living", member, inst, value);
    turn();
    answering looks = {env->server, lk_calls_of(env->server, "evalsha") + 1};
    lk_proxy_delay(env->proxy, 0, 500);
    lk_alone.ahead += 6 * second_ns;
    (void)lk_redis_driver.dispatch(lk_alone.self); /* it looks */
    lk_require(has_answered, &looks, "the server should answer its look");
    lk_proxy_delay(env->proxy, 0, 0);
    lk_alone.attends = 0;
    lk_server_do(env->server, "PUBLISH locker:wake:%s %s%s", inst, value, " look living");
    lk_require_told(&lk_alone.attends, "it should read of the doubt");
    turn();
    assert_int_equal(lk_calls_of(env->server, "evalsha"), looks.calls + 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* What the pattern finds in the first member of the key's queue. */
static void read_first(lk_env *env, const char *key, const char *pattern, char found[33])
{
    assert_true(lk_server_text(env->server, found, 33, "EVAL %s 1 {%s}:locker:queue %s",
                               "return string.match(redis.call('ZRANGE', KEYS[1], 0, 0)[1], ARGV[1])", key,
                               pattern));
}

static void tell(lk_env *env, const char *inst, const char *value, const char *what)
{
    char channel[64], text[64];
    snprintf(channel, sizeof channel, "locker:wake:%s", inst);
    snprintf(text, sizeof text, "%s %s", value, what);
    assert_int_equal(lk_server_integer(env->server, "PUBLISH %s %s", channel, text), 1);
}

/* One that would share the lock, and stands behind three, asks seldom. Told that it stands near it asks at once, and not again where it asks
 * often: another, who is told behind that, has come by then. */
static void a_waiting_reader_asks_when_it_comes_near_the_front(void **state)
{
    lk_env *env = *state;
    lk_asker asker, other;
    char inst[33], value[33], others[33];
    lk_server_do(env->server, "SET living somebody");
    lk_server_do(env->server, "SET apart somebody");
    lk_alone_begin(env->server->port, "");
    enrol_sharing(env, &asker, "living");
    assert_int_equal(lk_asker_come(&other, "apart"), LOCKER_BUSY);
    read_first(env, "living", "^S(%x+)", inst);
    read_first(env, "living", "^%S+ (%x+)", value);
    read_first(env, "apart", "^%S+ (%x+)", others);
    lk_server_do(
        env->server, "EVAL %s 1 {living}:locker:queue %s",
        "for i, score in ipairs({1, 2, 3, '4503599627370000'}) do\n"
        "  redis.call('ZADD', KEYS[1], score, ARGV[1] .. ' 00000000000000aa000000000000000' .. i .. ' 60000 1 earlier')\n"
        "end",
        inst);
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    tell(env, inst, value, "near living");
    lk_require_told(&asker.wakes, "it should ask");
    lk_server_do(env->server, "ZREMRANGEBYSCORE {living}:locker:queue 1 3");
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    tell(env, inst, value, "near living");
    tell(env, inst, others, "enter apart");
    lk_require_told(&other.wakes, "it should ask");
    assert_int_equal(asker.wakes, 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&other));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* Two that wait for a share doubt each other, but are told so once in half a spell, which is 10 s here. */
static void expect_no_storm(lk_env *env, const char *uri)
{
    locker_error err;
    locker *lockers[2];
    lk_locking waiting[2];
    lk_server_do(env->server, "SET living somebody");
    for (int i = 0; i < 2; i++) {
        assert_ok(lk_try_uri(&lockers[i], &err, uri, env->server->port), err);
        lk_locking_start(&waiting[i], lockers[i], "living", &share);
        lk_require_queue(env->server, "living", i + 1);
    }
    usleep(500000); /* they have doubted each other */
    const int64_t began = lk_test_now_ms();
    const long long before = lk_calls_of(env->server, "evalsha");
    usleep(1000000);
    const long long calls = lk_calls_of(env->server, "evalsha") - before;
    assert_true(calls < (lk_test_now_ms() - began) / 25); /* each asks ten times a second by itself */
    for (int i = 0; i < 2; i++) {
        lk_close_locker(lockers[i]);
        assert_int_equal(lk_locking_join(&waiting[i]), LOCKER_CLOSED);
    }
}

static void notified_waiters_do_not_notify_each_other_for_ever(void **state)
{
    expect_no_storm(*state, "redis://127.0.0.1:%d?poll=100ms&ttl=60s");
}

/* Their user may only read the doubts, or only write them: so none counts, and nobody is told of any. */
static void notified_waiters_do_not_notify_without_the_right_to_doubt(void **state)
{
    static const char *const rights[] = {"%R~{living}:locker:doubt:*", "%W~{living}:locker:doubt:*"};
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        lk_server_do(env->server,
                     "ACL SETUSER few reset on >pw &* +@all ~living ~{living}:locker:queue "
                     "~{living}:locker:fence ~locker:fence:* ~{living}:locker:shared:* "
                     "~{living}:locker:broken:* %s",
                     rights[i]);
        expect_no_storm(env, "redis://few:pw@127.0.0.1:%d?poll=100ms&ttl=60s");
    }
}

/* One that would share the lock has no looks: it is told to ask, and clears the doubt by that; here it would have asked soon by itself. */
static void a_doubted_reader_is_notified_to_ask(void **state)
{
    lk_env *env = *state;
    lk_asker asker;
    char value[33];
    lk_locking behind;
    locker *l = lk_open_at(env->server, "poll=50ms");
    lk_server_do(env->server, "SET living somebody");
    lk_alone_begin(env->server->port, "&poll=5s");
    enrol_sharing(env, &asker, "living");
    lk_alone.ahead += 5 * second_ns;
    lk_locking_start(&behind, l, "living", NULL);
    lk_require_told(&asker.wakes, "it should be told to ask");
    lk_require_queue(env->server, "living", 2);
    lk_close_locker(l);
    assert_int_equal(lk_locking_join(&behind), LOCKER_CLOSED);
    doubt_the_first(env);
    assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
    assert_true(is_without_doubt(env->server));
    read_first(env, "living", "^%S+ (%x+)", value);
    /* Nobody doubts it again while that is told: for a third of its ttl, which is 90 s. */
    const long long told_ms = lk_server_integer(env->server, "PTTL {living}:locker:doubt:%s", value);
    assert_true(told_ms > 0 && told_ms <= 30000);
    assert_unless_late(told_ms > 29000);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
}

/* A look adds the half spells since the one before, two at most. A spell is a third of the ttl: 20 s here, far more than the test takes. */
static void a_doubt_counts_half_spells(void **state)
{
    static const struct {
        const char *said;
        int ago_ms;
        const char *then;
    } looks[] = {{"", 0, "1 "},      {"0", 9000, "0 "},    {"0", 11000, "1 "},  {"1", 9000, "1 "},
                 {"1", 11000, "2 "}, {"1", 21000, "3 "},   {"1", 500000, "3 "}, {"3", 11000, "4 "},
                 {"3", 21000, ""},   {"4", 9000, "4 "},    {"4", 11000, ""},    {"2", 500000, "4 "},
                 {"1", -9000, "1 "}, {"0", -500000, "1 "}, {"1", -500000, "3 "}};
    lk_env *env = *state;
    lk_asker asker;
    char inst[33], then[32];
    lk_locking listening;
    locker *other = lk_open_at(env->server, "");
    listen_at(env, other, &listening, inst);
    lk_server_do(env->server, "SET counted somebody");
    lk_alone_begin(env->server->port, "");
    enrol_sharing(env, &asker, "counted");
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        lk_server_do(
            env->server, "EVAL %s 1 {counted}:locker:queue %s %s %d",
            "redis.call('ZADD', KEYS[1], 1, ARGV[1] .. ' 00000000000000aa0000000000000001 60000 01 gone')\n"
            "local doubt, t = '{counted}:locker:doubt:00000000000000aa0000000000000001', redis.call('TIME')\n"
            "redis.call('DEL', doubt)\n"
            "if ARGV[2] == '' then return end\n"
            "redis.call('SET', doubt, ARGV[2] .. ' ' .. t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[3])",
            inst, looks[i].said, looks[i].ago_ms);
        assert_int_equal(lk_asker_ask(&asker), LOCKER_BUSY);
        assert_true(lk_server_text(
            env->server, then, sizeof then, "EVAL %s 1 {counted}:locker:queue",
            "return redis.call('ZCARD', KEYS[1]) == 2 and string.sub(redis.call(\n"
            "  'GET', '{counted}:locker:doubt:00000000000000aa0000000000000001'), 1, 2) or ''"));
        if (strcmp(then, looks[i].then) != 0)
            test_fails("%s, %d ms ago: '%s', not '%s'", looks[i].said, looks[i].ago_ms, then, looks[i].then);
    }
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&asker));
    lk_alone_end();
    listen_no_more(env, other, &listening);
}

/* Wait with these options, on a server whose clock has been set back by five minutes since others came. `free` stands behind them all. */
static void expect_last(lk_env *env, const char *key, const locker_lock_options *options)
{
    static const long long back_us = INT64_C(300) * 1000000, free_base = INT64_C(1) << 52;
    locker *l = lk_open_at(env->server, "poll=60s&ttl=600s");
    lk_locking waiting;
    const long long now =
        lk_server_integer(env->server, "EVAL %s 0", "return redis.call('TIME')[1] * 1000000");
    lk_server_do(env->server, "SET %s somebody PX 600000", key);
    lk_server_do(env->server, "ZADD {%s}:locker:queue %lld earlier %lld free", key, now + back_us,
                 free_base + now + back_us);
    lk_locking_start(&waiting, l, key, options);
    lk_require_queue(env->server, key, 3);
    assert_int_equal(lk_server_integer(env->server, "ZCOUNT {%s}:locker:queue (%lld %lld", key, now + back_us,
                                       now + back_us + 1),
                     1);
    lk_close_locker(l);
    assert_int_equal(lk_locking_join(&waiting), LOCKER_CLOSED);
    lk_server_do(env->server, "DEL {%s}:locker:queue", key);
    lk_server_do(env->server, "DEL %s", key);
}

static void a_waiter_that_enqueues_after_a_clock_step_back_is_the_last(void **state)
{
    expect_last(*state, "back", NULL);
    expect_last(*state, "back-shared", &share);
}

static const struct CMUnitTest tests[] = {
    server_test(a_waiter_that_enqueues_after_a_clock_step_back_is_the_last),
    server_test(silent_waiters_are_dequeued_from_the_front),
    server_test(silent_readers_and_permit_waiters_are_dequeued_from_the_front),
    server_test(a_live_waiter_clears_a_doubt),
    server_test(a_doubted_waiter_polls_at_once),
    proxied_test(a_doubt_is_answered_while_an_answer_is_in_flight),
    server_test(a_doubted_reader_is_notified_to_ask),
    server_test(a_waiting_reader_asks_when_it_comes_near_the_front),
    server_test(notified_waiters_do_not_notify_each_other_for_ever),
    server_test(notified_waiters_do_not_notify_without_the_right_to_doubt),
    server_test(a_doubt_counts_half_spells),
    server_test(a_lock_that_became_free_is_found_by_a_look),
    server_test(the_end_of_a_lease_is_not_missed),
    server_test(the_dead_go_from_the_front),
    server_test(a_place_that_was_lost_is_taken_again),
    server_test(a_waiter_finds_the_new_master),
    server_test(a_waiter_far_behind_polls_seldom),
    server_test(a_hand_over_notifies_a_waiter_that_comes_near_the_front),
    server_test(keys_are_polled_together),
    server_test(the_last_finds_that_those_before_it_are_dead),
    server_test(a_waiter_that_moves_up_without_a_hand_over_is_notified),
    server_test(a_waiter_behind_dead_processes_gets_the_lock_after_the_lease),
    server_test(nothing_is_left_but_counters),
    server_test(the_info_goes_with_the_lease),
    server_test(keys_of_a_slot_share_a_counter),
    server_test(a_counter_is_never_ahead_of_the_time),
    server_test(tokens_go_on_from_an_earlier_release),
};

const lk_group lk_waiters = {"waiters", tests, sizeof tests / sizeof tests[0], NULL, NULL};
