/* sharing.c: faults of one of several that hold a key: the others keep it, and nothing stays behind. Over memory, the model of
 * what a driver does; a plain locker on the same space stands beside the one with faults. */
#include <string.h>

#include <locker/fault.h>

#include "holding.h"
#include "locking.h"

static locker *faulty, *plain;

static int begin(void **state)
{
    locker_error err;
    (void)state;
    assert_ok(locker_open("fault+memory:sharing?command_timeout=200ms", NULL, &faulty, &err), err);
    assert_ok(locker_open("memory:sharing", NULL, &plain, &err), err);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)locker_close(faulty);
    (void)locker_close(plain);
    return 0;
}

static const locker_lock_options share = {
    .size = sizeof share, .wait_ms = LK_TEST_PATIENCE_MS, .mode = LOCKER_SHARED};
static const locker_lock_options one_of_two = {
    .size = sizeof one_of_two, .wait_ms = LK_TEST_PATIENCE_MS, .permits = 2};

static void script(const char *text)
{
    locker_error err;
    assert_ok(locker_fault_script(faulty, text, &err), err);
}

static locker_handle *take(locker *l, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock(l, "k", options, &held, &err), err);
    return held;
}

/* Whoever has it alone gets it: nobody has stayed behind. */
static void a_writer_gets_it(void)
{
    const locker_lock_options alone = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_give(take(plain, &alone));
}

static void only_one_is_stolen(const locker_lock_options *options)
{
    locker_handle *kept = take(plain, options);
    locker_error err;
    script("acquire lose-lock");
    locker_handle *stolen = take(faulty, options);
    assert_status(LOCKER_LOST, locker_unlock(stolen, &err), err);
    assert_int_equal(locker_handle_state(kept), LOCKER_STATE_HELD);
    locker_handle_free(stolen);
    lk_give(kept);
    a_writer_gets_it();
}

static void test_a_stolen_lock_is_one_of_several(void **state)
{
    (void)state;
    only_one_is_stolen(&share);
    only_one_is_stolen(&one_of_two);
}

static void a_lost_grant_is_given_back(const locker_lock_options *options, int32_t slot)
{
    locker_handle *beside = take(plain, options), *held = NULL;
    locker_error err;
    script("acquire lose-reply");
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(faulty, "k", options, &held, &err), err);
    held = take(faulty, options);
    assert_int_equal(locker_handle_slot(held), slot);
    lk_give(beside);
    lk_give(held);
    a_writer_gets_it();
}

static void test_a_lost_grant_is_given_back(void **state)
{
    (void)state;
    a_lost_grant_is_given_back(&share, -1);
    a_lost_grant_is_given_back(&one_of_two, 1);
}

/* While its grant is hidden a writer comes to wait; the call that asks again stands behind it. */
static void test_a_hidden_grant_keeps_nobody_out(void **state)
{
    const locker_lock_options alone = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking reader, writer;
    (void)state;
    script("acquire lose-reply");
    lk_locking_start(&reader, faulty, "k", &share);
    lk_locking_start(&writer, plain, "k", &alone);
    locker_handle *held = lk_locking_grant(&writer);
    lk_give(held);
    lk_give(lk_locking_grant(&reader));
    a_writer_gets_it();
}

static void test_an_unlock_without_an_answer(void **state)
{
    locker_handle *beside = take(plain, &share);
    locker_error err;
    (void)state;
    script("release lose-request; release lost");
    for (int i = 0; i < 2; i++) {
        locker_handle *held = take(faulty, &share);
        assert_status(i == 0 ? LOCKER_UNKNOWN : LOCKER_LOST, locker_unlock(held, &err), err);
        locker_handle_free(held);
    }
    assert_int_equal(locker_handle_state(beside), LOCKER_STATE_HELD);
    lk_give(beside);
    a_writer_gets_it();
}

static void test_another_use_is_refused_with_the_error_of_the_driver(void **state)
{
    locker_handle *beside = take(plain, &one_of_two), *held = NULL;
    locker_error err;
    (void)state;
    assert_status(LOCKER_CONFIG, locker_lock(faulty, "k", &share, &held, &err), err);
    assert_non_null(strstr(err.text, "in use with 2 permits, but this call asks for a lock"));
    lk_give(beside);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_stolen_lock_is_one_of_several),
        TEST(test_a_lost_grant_is_given_back),
        TEST(test_a_hidden_grant_keeps_nobody_out),
        TEST(test_an_unlock_without_an_answer),
        TEST(test_another_use_is_refused_with_the_error_of_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
