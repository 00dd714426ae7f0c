/* passing.c: hand-overs within the process, by the driver alone (alone.h). */
#include <unistd.h>

#include "redis_tests.h"

#include "alone.h"

static const int64_t second_ns = 1000000000;

/* Hand-overs in the process are asked for from the first one on, which is refused. */
static void ask_for_passing(void)
{
    lk_asker from, to;
    assert_int_equal(lk_asker_come(&from, "first"), LOCKER_OK);
    assert_int_equal(lk_asker_pass(&from, &to, "first"), LOCKER_BUSY);
    lk_asker_give(&from);
}

/* The slot's counter is lifted, so that many numbers may be taken of it at once: as many as microseconds have gone by since. */
static void use(const char *key)
{
    lk_asker asker;
    assert_int_equal(lk_asker_come(&asker, key), LOCKER_OK);
    lk_asker_give(&asker);
    usleep(1000);
}

static void a_lease_that_another_server_confirmed_is_not_passed_on(void **state)
{
    lk_env *env = *state;
    lk_asker first, second;
    lk_alone_begin(env->server->port, "");
    ask_for_passing();
    use("elsewhere");
    assert_int_equal(lk_asker_come(&first, "elsewhere"), LOCKER_OK);
    lk_start_another(env->server, "elsewhere");
    lk_alone_ping();
    assert_int_equal(lk_asker_pass(&first, &second, "elsewhere"), LOCKER_BUSY);
    lk_redis_driver.withdraw(lk_alone.self, lk_asker_claim(&first));
    lk_alone_end();
}

static void a_lease_that_is_nearly_over_is_not_passed_on(void **state)
{
    lk_env *env = *state;
    lk_asker first, second, third;
    lk_alone_begin(env->server->port, "");
    ask_for_passing();
    use("stalled");
    assert_int_equal(lk_asker_come(&first, "stalled"), LOCKER_OK);
    lk_alone.ahead = 58 * second_ns; /* nobody has run meanwhile: the server was not told who has it */
    assert_int_equal(lk_asker_pass(&first, &second, "stalled"), LOCKER_OK);
    lk_alone.ahead = 60 * second_ns;
    assert_int_equal(lk_asker_pass(&second, &third, "stalled"), LOCKER_BUSY);
    lk_asker_give(&second);
    lk_alone_end();
}

/* A number of the next grant's would be given out twice. */
static void no_more_hand_overs_than_numbers(void **state)
{
    lk_env *env = *state;
    lk_asker askers[2];
    unsigned at = 0, passed = 0;
    uint64_t token;
    lk_alone_begin(env->server->port, "");
    ask_for_passing();
    use("numbers");
    assert_int_equal(lk_asker_come(&askers[0], "numbers"), LOCKER_OK);
    token = lk_asker_claim(&askers[0])->token;
    while (lk_asker_pass(&askers[at], &askers[1 - at], "numbers") == LOCKER_OK) {
        at = 1 - at;
        passed++;
        assert_int_equal(lk_asker_claim(&askers[at])->token, token + passed);
    }
    assert_true(passed > 0);
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 1 %s",
                                       "return tonumber(redis.call('GET', KEYS[1]))",
                                       lk_fence_key("numbers")),
                     token + passed);
    lk_asker_give(&askers[at]);
    lk_alone_end();
}

static void a_renewal_in_flight_extends_the_new_holder(void **state)
{
    lk_env *env = *state;
    lk_asker first, second;
    lk_alone_begin(env->server->port, "");
    ask_for_passing();
    use("renewed");
    assert_int_equal(lk_asker_come(&first, "renewed"), LOCKER_OK);
    lk_asker_renew(&first);
    assert_int_equal(lk_asker_pass(&first, &second, "renewed"), LOCKER_OK);
    lk_alone_ping();
    assert_int_equal(first.extended, 0);
    assert_int_equal(second.extended, 1);
    lk_asker_give(&second);
    lk_alone_end();
}

static void a_holder_that_was_passed_a_lock_is_notified_of_its_break(void **state)
{
    lk_env *env = *state;
    lk_asker first, second;
    char member[256], instance[33], value[33];
    lk_alone_begin(env->server->port, "");
    ask_for_passing();
    use("heard");
    lk_server_do(env->server, "SET heard somebody");
    lk_asker_enrol(&first, env->server, "heard");
    lk_read_member(env->server, "heard", member, instance, value);
    lk_server_do(env->server, "DEL heard");
    assert_int_equal(lk_asker_ask(&first), LOCKER_OK);
    assert_int_equal(lk_asker_pass(&first, &second, "heard"), LOCKER_OK);
    assert_int_equal(lk_server_integer(env->server, "EVAL %s 2 %s %s",
                                       "return redis.call('PUBLISH', 'locker:wake:' .. KEYS[1], "
                                       "KEYS[2] .. ' broken heard')",
                                       instance, value),
                     1);
    lk_require_told(&second.lost, "it should be told");
    assert_int_equal(first.lost, 0);
    lk_asker_give(&second);
    lk_alone_end();
}

static const struct CMUnitTest tests[] = {
    server_test(a_lease_that_another_server_confirmed_is_not_passed_on),
    server_test(a_lease_that_is_nearly_over_is_not_passed_on),
    server_test(no_more_hand_overs_than_numbers),
    server_test(a_renewal_in_flight_extends_the_new_holder),
    server_test(a_holder_that_was_passed_a_lock_is_notified_of_its_break),
};

const lk_group lk_passing = {"passing", tests, sizeof tests / sizeof tests[0], NULL, NULL};
