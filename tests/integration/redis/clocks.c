/* clocks.c: a server whose clock is set, or runs at another speed, by the driver alone (alone.h). */
#include "cluster_tests.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alone.h"
#include "servers/scratch.h"

static const int64_t ms_ns = 1000000, second_ns = 1000000000;

/* As simulation/tests/clock_shim.c has it. */
static struct {
    char directory[LK_SCRATCH_PATH], path[LK_SCRATCH_PATH + 8];
    volatile int64_t *page;
} server_clock;

static bool make_page(void)
{
    char why[256];
    if (!lk_scratch_make("clock", server_clock.directory, why, sizeof why))
        return false;
    (void)snprintf(server_clock.path, sizeof server_clock.path, "%s/page", server_clock.directory);
    const int fd = open(server_clock.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const size_t size = 2 * sizeof *server_clock.page;
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return false;
    void *const memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    server_clock.page = memory;
    setenv("LOCKER_CLOCK_PAGE", server_clock.path, 1);
    return memory != MAP_FAILED;
}

/* `start`: a setup function of servers that have the clock of the page. */
static int start_on_page(void **state, int (*start)(void **state))
{
    if (!make_page())
        return -1;
    setenv("LD_PRELOAD", LK_CLOCK_SHIM, 1);
    const int started = start(state);
    unsetenv("LD_PRELOAD");
    return started;
}

static int end_on_page(void **state, int (*end)(void **state))
{
    const int ended = end(state);
    (void)munmap((void *)(uintptr_t)server_clock.page, 2 * sizeof *server_clock.page);
    (void)unlink(server_clock.path);
    (void)rmdir(server_clock.directory);
    return ended;
}

static int start_clocked(void **state)
{
    return start_on_page(state, lk_env_proxied);
}

static int end_clocked(void **state)
{
    return end_on_page(state, lk_env_end);
}

static int start_clocked_cluster(void **state)
{
    return start_on_page(state, lk_cluster_begin);
}

static int end_clocked_cluster(void **state)
{
    return end_on_page(state, lk_cluster_end);
}

#define clocked_test(f) cmocka_unit_test_setup_teardown(f, start_clocked, end_clocked)

/* So much passes by our clock, and by the server's. */
static void pass(int64_t ours_ms, int64_t servers_ms)
{
    server_clock.page[1] += servers_ms * 1000;
    lk_alone.ahead += ours_ms * ms_ns;
}

/* `held` was confirmed before the server told its time, which is known now; all that asked by itself has been answered. */
static void begin(const lk_env *env, lk_asker *held, lk_asker *busy)
{
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(lk_asker_come(held, "held"), LOCKER_OK);
    assert_int_equal(lk_asker_come(busy, "busy"), LOCKER_OK);
    (void)lk_redis_driver.dispatch(lk_alone.self);
    pass(1000, 1000);
    lk_require_told(&held->extended,
                    "whose it is should be noted, and renewed when it can be told of a break");
    pass(2000, 2000);
    lk_asker_renew(busy);
    lk_alone_ping();
    assert_int_equal(held->shortened + busy->shortened, 0);
    busy->extended = 0;
}

static void end(lk_asker *held, lk_asker *busy)
{
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(held));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(busy));
    lk_alone_end();
}

/* The server tells its time behind a renewal. */
static void learn(lk_asker *busy)
{
    lk_asker_renew(busy);
    lk_alone_ping();
}

static void expect_about(int64_t is, int64_t should_be)
{
    assert_in_range(is + 30 * second_ns, should_be + 30 * second_ns - 100 * ms_ns,
                    should_be + 30 * second_ns + 100 * ms_ns);
}

/* A hundredth of the time that passed is what the lease allows for anyway. */
static void a_leap_shortens_what_was_confirmed_before(void **state)
{
    lk_asker held, busy;
    begin(*state, &held, &busy);
    pass(2000, 32000);
    learn(&busy);
    assert_int_equal(held.shortened, 1);
    expect_about(held.at_most, held.until[0] - 30 * second_ns + 20 * ms_ns);
    assert_true(held.at_most >= held.until[0] - 30 * second_ns);
    assert_non_null(strstr(lk_alone.told, "has gained 29"));
    end(&held, &busy);
}

/* It was confirmed after the server told its time before: perhaps after the leap, so it is asked about. */
static void a_lease_confirmed_after_a_leap_is_renewed(void **state)
{
    lk_asker held, busy;
    begin(*state, &held, &busy);
    pass(2000, 32000);
    learn(&busy);
    assert_int_equal(busy.extended, 1);
    assert_int_equal(busy.shortened, 1);
    assert_true(busy.at_most == busy.until[0]);
    end(&held, &busy);
}

/* Nor when it is right again: but for what was confirmed in between. */
static void a_clock_that_is_set_back_shortens_nothing(void **state)
{
    lk_asker held, busy, between;
    begin(*state, &held, &busy);
    pass(2000, -28000);
    learn(&busy);
    assert_int_equal(held.shortened + busy.shortened, 0);
    assert_non_null(strstr(lk_alone.told, "29"));
    assert_non_null(strstr(lk_alone.told, "has lost"));
    assert_int_equal(lk_asker_come(&between, "between"), LOCKER_OK);
    (void)lk_redis_driver.dispatch(lk_alone.self);
    pass(1000, 1000);
    lk_asker_renew(&between);
    lk_require_told(&between.extended, "it should be noted, and renewed");
    pass(2000, 2000);
    learn(&busy);
    pass(2000, 32000);
    learn(&busy);
    assert_int_equal(held.shortened, 1);
    expect_about(held.at_most, held.until[0]);
    assert_int_equal(between.shortened, 1);
    expect_about(between.at_most, between.until[0] - 30 * second_ns);
    pass(2000, 32000);
    learn(&busy);
    expect_about(held.at_most, held.until[0] - 30 * second_ns);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&between));
    end(&held, &busy);
}

static bool is_asked(void *server)
{
    return lk_calls_of(server, "time") >= 4;
}

/* The first answer is read late: until the second was asked for, as much may have passed as the server says. */
static void an_answer_that_is_read_late_proves_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker held, busy;
    begin(env, &held, &busy);
    pass(2000, 2000);
    lk_asker_renew(&busy);
    lk_require(is_asked, env->server, "the time should be asked for");
    pass(20000, 20000);
    lk_alone_ping();
    pass(1500, 1500);
    learn(&busy);
    assert_int_equal(held.shortened + busy.shortened, 0);
    assert_string_equal(lk_alone.told, "");
    end(&held, &busy);
}

/* The second request is carried out late. */
static void a_request_that_arrives_late_proves_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker held, busy;
    begin(env, &held, &busy);
    pass(2000, 2000);
    lk_proxy_hold(env->proxy, true, false);
    lk_asker_renew(&busy);
    pass(20000, 20000);
    lk_proxy_hold(env->proxy, false, false);
    lk_alone_ping();
    assert_int_equal(held.shortened + busy.shortened, 0);
    assert_string_equal(lk_alone.told, "");
    end(&held, &busy);
}

/* Its answer would count from a later request: what the server's clock showed before that would be gained. */
static void a_time_that_is_awaited_is_not_asked_for_again(void **state)
{
    lk_env *env = *state;
    lk_asker held, busy;
    begin(env, &held, &busy);
    pass(2000, 2000);
    lk_proxy_hold(env->proxy, false, true);
    lk_asker_renew(&busy);
    lk_require(is_asked, env->server, "the time should be asked for");
    pass(20000, 20000);
    lk_asker_renew(&busy);
    lk_proxy_hold(env->proxy, false, false);
    lk_alone_ping();
    pass(2000, 2000);
    learn(&busy);
    assert_int_equal(held.shortened + busy.shortened, 0);
    assert_string_equal(lk_alone.told, "");
    end(&held, &busy);
}

/* It may be ahead of the one before, whose leases it doesn't have. */
static void each_server_has_its_own_clock(void **state)
{
    lk_env *env = *state;
    lk_asker held, busy, fresh;
    server_clock.page[1] = -60 * INT64_C(1000000);
    begin(env, &held, &busy);
    lk_start_another(env->server, "other");
    lk_alone_ping();
    assert_int_equal(lk_asker_come(&fresh, "fresh"), LOCKER_OK);
    pass(2000, 2000);
    learn(&fresh);
    learn(&fresh);
    assert_true(lk_calls_of(env->server, "time") >= 2); /* when it logged in, and behind a renewal */
    assert_int_equal(held.shortened + busy.shortened + fresh.shortened, 0);
    assert_null(strstr(lk_alone.told, "gained"));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&fresh));
    end(&held, &busy);
}

/* By 8 percent, of which a lease allows for one. Those that are confirmed from then on allow for it. */
static void a_clock_that_runs_too_fast_is_allowed_for(void **state)
{
    lk_asker held, busy;
    begin(*state, &held, &busy);
    pass(10000, 10800);
    learn(&busy);
    assert_int_equal(held.shortened, 1);
    expect_about(held.at_most, held.until[0] - 700 * ms_ns);
    assert_non_null(strstr(lk_alone.told, "has gained"));
    learn(&busy);
    assert_int_equal(busy.extended, 2);
    expect_about(busy.until[1] - lk_alone_now(), 90 * second_ns / 100 * 92);
    const int before = busy.shortened;
    pass(10000, 10800);
    learn(&busy);
    assert_int_equal(busy.shortened, before);
    assert_int_equal(held.shortened, 2);
    expect_about(held.at_most, held.until[0] - 1400 * ms_ns);
    assert_non_null(strstr(lk_alone.told, "8 % faster"));
    lk_alone.told[0] = '\0';
    pass(10000, 10800);
    learn(&busy);
    assert_string_equal(lk_alone.told, "");
    pass(10000, 10000);
    learn(&busy);
    assert_int_equal(busy.shortened, before);
    pass(10000, 10000);
    memset(busy.until, 0, sizeof busy.until);
    busy.extended = 0;
    learn(&busy);
    expect_about(busy.until[0] - lk_alone_now(), 90 * second_ns / 100 * 99);
    end(&held, &busy);
}

/* Nobody knows whether the server confirmed it before its clock leapt, or since. */
static void an_answer_to_what_was_sent_before_extends_nothing(void **state)
{
    lk_asker held, busy;
    begin(*state, &held, &busy);
    pass(2000, 32000);
    lk_asker_renew(&busy);
    lk_asker_renew(&held);
    lk_alone_ping();
    assert_int_equal(held.extended, 0);
    assert_int_equal(held.shortened, 2);
    lk_asker_renew(&held);
    lk_alone_ping();
    assert_int_equal(held.extended, 1);
    end(&held, &busy);
}

static void a_grant_that_crosses_a_leap_is_asked_for_again(void **state)
{
    lk_env *env = *state;
    lk_asker held, busy, late;
    begin(env, &held, &busy);
    pass(2000, 32000);
    lk_asker_renew(&busy);
    const lk_passed asked = lk_proxy_passed(env->proxy, "late");
    assert_int_equal(lk_asker_come(&late, "late"), LOCKER_OK);
    assert_int_equal(lk_proxy_requests(asked.proxy, asked.kind) - asked.count, 2);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&late));
    end(&held, &busy);
}

/* Has `next` the lock, by a hand-over inside the process: before one was asked for a grant has one number alone. */
static void hand_on(lk_asker *next, const char *key)
{
    lk_asker first;
    assert_int_equal(lk_asker_come(&first, key), LOCKER_OK);
    while (lk_asker_pass(&first, next, key) != LOCKER_OK) {
        lk_asker_give(&first);
        assert_int_equal(lk_asker_come(&first, key), LOCKER_OK);
    }
}

/* Sets the server's clock two hours forward, and passes the reply on as it is. */
static size_t two_hours_later(const lk_message *reply, char *out, size_t size)
{
    const size_t length = reply->length < size ? reply->length : size;
    server_clock.page[1] += 7200 * INT64_C(1000000);
    memcpy(out, reply->bytes, length);
    return length;
}

/* A grant that may be handed over takes 64 numbers, or one while the counter is ahead of the server's time. Here the counter is ahead
 * for the first attempt, which the leap makes void, and behind for the second. */
static void a_grant_that_crosses_a_leap_may_have_more_numbers_then(void **state)
{
    enum { NUMBERS = 64 };
    lk_env *env = *state;
    lk_asker held, busy, next, late;
    begin(env, &held, &busy);
    hand_on(&next, "next");
    const char *const counter = lk_fence_key("late");
    lk_server_do(env->server, "EVAL %s 1 %s",
                 "local t = redis.call('TIME')\n"
                 "redis.call('SET', KEYS[1], string.format('%.0f', (t[1] + 3600) * 1000000))",
                 counter);
    const int64_t before = lk_server_integer(env->server, "INCR %s", counter);
    pass(2000, 32000);
    lk_asker_renew(&busy);
    lk_proxy_forge(env->proxy, "late", two_hours_later);
    assert_int_equal(lk_asker_come(&late, "late"), LOCKER_OK);
    assert_true(lk_asker_claim(&late)->token == (uint64_t)before + 2);
    assert_true(lk_server_integer(env->server, "INCR %s", counter) == before + 1 + NUMBERS + 1);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&next));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&late));
    end(&held, &busy);
}

/* Claims are looked through for those that a leap concerns, and one that was just granted isn't among them until it is noted. */
static void a_leap_before_a_grant_is_noted_is_seen_then(void **state)
{
    lk_env *env = *state;
    lk_asker held, busy, fresh, next, later;
    lk_alone_begin(lk_proxy_port(env->proxy), "");
    assert_int_equal(lk_asker_come(&held, "held"), LOCKER_OK);
    assert_int_equal(lk_asker_come(&busy, "busy"), LOCKER_OK);
    learn(&busy);
    pass(2000, 32000);
    assert_int_equal(lk_asker_come(&fresh, "fresh"), LOCKER_OK);
    hand_on(&next, "next");
    learn(&busy);
    assert_non_null(strstr(lk_alone.told, "gained"));
    assert_int_equal(fresh.shortened + next.shortened, 0);
    hand_on(&later, "later");
    (void)lk_redis_driver.dispatch(lk_alone.self);
    pass(100, 100);
    lk_require_told(&fresh.shortened, "the lease should be doubted");
    assert_true(fresh.at_most == lk_asker_claim(&fresh)->valid_until);
    lk_require_told(&next.shortened, "the lease that was handed on should be doubted");
    assert_int_equal(later.shortened, 0);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&fresh));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&next));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&later));
    end(&held, &busy);
}

/* The lease began before the leap, or after it. */
static void a_message_from_before_a_leap_grants_nothing(void **state)
{
    lk_env *env = *state;
    lk_asker held, busy, waiter;
    locker *rival = lk_open_at(env->server, "");
    begin(env, &held, &busy);
    locker_handle *const last = lk_take(rival, "handed");
    assert_int_equal(lk_asker_come(&waiter, "handed"), LOCKER_BUSY);
    lk_require_queue(env->server, "handed", 1);
    pass(4000, 4000);
    learn(&busy);
    pass(4000, 14000);
    learn(&busy);
    lk_give(last);
    lk_require_told(&waiter.wakes, "the lock should be handed over");
    assert_int_equal(lk_asker_ask(&waiter), LOCKER_OK);
    expect_about(lk_asker_claim(&waiter)->valid_until - lk_alone_now(), 90 * second_ns / 100 * 99);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&waiter));
    end(&held, &busy);
    lk_close_locker(rival);
}

/* One node's clock was seen to leap long ago. The other node has its own, and grants in a slot that has moved to it. */
static void a_leap_of_one_node_holds_up_no_grant_by_another(void **state)
{
    lk_cluster *const cluster = *state;
    char hosts[200], held_key[32], late_key[32];
    lk_asker held, late;
    lk_alone_begin_cluster(lk_cluster_hosts(cluster, 0, hosts, sizeof hosts));
    assert_int_equal(lk_asker_come(&held, lk_key_of_share(cluster, 0, 0, held_key)), LOCKER_OK);
    lk_asker_renew(&held);
    lk_require_told(&held.extended, "it should be renewed");
    pass(2000, 32000);
    lk_asker_renew(&held);
    lk_require_told(&held.shortened, "the leap should be seen");
    lk_key_of_share(cluster, 0, 1, late_key);
    const lk_move move = {lk_cluster_slot(late_key), lk_node_of(cluster, late_key), 1};
    lk_cluster_need(cluster, lk_cluster_move_begin(cluster, &move));
    lk_cluster_need(cluster, lk_cluster_move_end(cluster, &move));
    lk_asker_make(&late, late_key);
    assert_int_equal(lk_asker_ask_for(&late, 3 * second_ns), LOCKER_OK);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&late));
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&held));
    lk_alone_end();
}

static const struct CMUnitTest tests[] = {
    clocked_test(a_leap_shortens_what_was_confirmed_before),
    clocked_test(a_lease_confirmed_after_a_leap_is_renewed),
    clocked_test(a_clock_that_is_set_back_shortens_nothing),
    clocked_test(an_answer_that_is_read_late_proves_nothing),
    clocked_test(a_request_that_arrives_late_proves_nothing),
    clocked_test(a_time_that_is_awaited_is_not_asked_for_again),
    clocked_test(each_server_has_its_own_clock),
    clocked_test(a_clock_that_runs_too_fast_is_allowed_for),
    clocked_test(an_answer_to_what_was_sent_before_extends_nothing),
    clocked_test(a_grant_that_crosses_a_leap_is_asked_for_again),
    clocked_test(a_grant_that_crosses_a_leap_may_have_more_numbers_then),
    clocked_test(a_leap_before_a_grant_is_noted_is_seen_then),
    clocked_test(a_message_from_before_a_leap_grants_nothing),
    cmocka_unit_test_setup_teardown(a_leap_of_one_node_holds_up_no_grant_by_another, start_clocked_cluster,
                                    end_clocked_cluster),
};

const lk_group lk_clocks = {"clocks", tests, sizeof tests / sizeof tests[0], NULL, NULL};
