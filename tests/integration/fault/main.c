/*
 * main.c: faults before a real service, seen by a locker that has them and by a plain one beside it. The
 * argument says which service: file, redis or zookeeper; all have the same tests, but for those of leases.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <locker/driver.h>
#include <locker/fault.h>

#include "holding.h"
#include "locking.h"
#ifdef LK_WITH_REDIS
#include "test_redis.h"
#endif
#ifdef LK_WITH_ZOOKEEPER
#include "test_servers.h"
#endif

static char uri[256];  /* of the service, with parameters */
static bool leases;    /* locks end unless they are renewed */
static char base[64];  /* a private directory */
static locker *faulty; /* with faults; command_timeout is 1.5 s */
static locker *plain;  /* on the same service without */

/* ------------------------------------------------------------------ fixture ---- */

static int begin(void **state)
{
    char with[300];
    locker_error err;
    (void)state;
    (void)snprintf(with, sizeof with, "fault+%s", uri);
    assert_ok(locker_open(with, NULL, &faulty, &err), err);
    assert_ok(locker_open(uri, NULL, &plain, &err), err);
    return 0;
}

static int end(void **state)
{
    (void)state;
    locker_close(faulty);
    locker_close(plain);
    return 0;
}

static void script(const char *text)
{
    locker_error err;
    assert_ok(locker_fault_script(faulty, text, &err), err);
}

static locker_handle *lock(locker *l)
{
    const locker_lock_options o = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(l, "k", &o, &held, &err), err);
    return held;
}

/* Somebody else gets the lock, at once or as soon as what was left behind is cleaned up. */
static void another_gets_it(void)
{
    lk_give(lock(plain));
}

/* ------------------------------------------------------------------ acquire ---- */

static void test_without_a_script_it_is_the_service(void **state)
{
    locker_handle *held = lock(faulty), *other;
    locker_error err;
    (void)state;
    assert_status(LOCKER_BUSY, locker_try_lock(plain, "k", NULL, &other, &err), err);
    lk_give(held);
    assert_int_equal(locker_fault_acted(faulty), 0);
    another_gets_it();
}

static void test_a_failed_attempt_is_repeated_by_the_caller(void **state)
{
    locker_handle *held;
    locker_error err;
    (void)state;
    script("acquire:k times=2 unavailable; acquire:other denied");
    assert_status(LOCKER_UNAVAILABLE, locker_lock(faulty, "k", NULL, &held, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_lock(faulty, "k", NULL, &held, &err), err);
    lk_give(lock(faulty));
    assert_int_equal(locker_fault_acted(faulty), 2);
}

static void test_a_busy_answer_is_waited_out(void **state)
{
    (void)state;
    script("acquire times=3 retry=10ms busy");
    lk_give(lock(faulty));
    assert_int_equal(locker_fault_acted(faulty), 3);
}

static void test_a_lost_grant_is_given_back(void **state)
{
    locker_handle *held;
    locker_error err;
    (void)state;
    script("acquire lose-reply; acquire lose-request");
    for (int i = 0; i < 2; i++) {
        assert_status(LOCKER_UNAVAILABLE, locker_try_lock(faulty, "k", NULL, &held, &err), err);
        another_gets_it();
    }
}

static void test_a_delay_beyond_the_deadline_times_out(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    int64_t began = lk_test_now_ms();
    (void)state;
    o.wait_ms = 200;
    script("acquire delay=30s; acquire delay=100ms");
    assert_status(LOCKER_TIMEOUT, locker_lock(faulty, "k", &o, &held, &err), err);
    assert_true(lk_test_now_ms() - began >= 200);
    assert_true(lk_test_now_ms() - began < 20000);
    another_gets_it();
    began = lk_test_now_ms();
    lk_give(lock(faulty));
    assert_true(lk_test_now_ms() - began >= 100);
}

static bool one_has_acted(void *context)
{
    (void)context;
    return locker_fault_acted(faulty) == 1;
}

static void test_a_delay_can_be_cancelled(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking call;
    locker_handle *blocker;
    (void)state;
    o.cancel = locker_cancel_new();
    assert_non_null(o.cancel);
    blocker = lock(plain);
    script("acquire delay=900ms");
    lk_locking_start(&call, faulty, "k", &o);
    lk_require(one_has_acted, NULL, "the delay begins");
    locker_cancel_fire(o.cancel);
    assert_int_equal(lk_locking_join(&call), LOCKER_CANCELED);
    assert_true(call.ended_ms - call.began_ms < 20000);
    locker_cancel_free(o.cancel);
    lk_give(blocker);
    another_gets_it();
}

/* ------------------------------------------------------------------ release ---- */

static void test_unlock_is_unknown_and_the_lock_is_free(void **state)
{
    static const char *const scripts[] = {"release lose-reply", "release lose-request", "release unknown"};
    locker_error err;
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        locker_handle *held = lock(faulty);

        script(scripts[i]);
        assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
        locker_handle_free(held);
        another_gets_it();
    }
}

static void test_unlock_says_lost(void **state)
{
    locker_handle *held = lock(faulty);
    (void)state;
    script("release lost");
    lk_give_lost(held);
    another_gets_it();
}

/* ------------------------------------------------------------------ losses ---- */

static void lose(const char *text)
{
    locker_handle *held;
    script(text);
    held = lock(faulty);
    lk_require_state(held, LOCKER_STATE_LOST);
    another_gets_it();
    lk_give_lost(held);
}

static void test_a_stolen_lock_is_noticed(void **state)
{
    (void)state;
    lose("acquire lose-lock");
}

static void test_a_lease_is_lost(void **state)
{
    (void)state;
    if (!leases)
        return; /* nothing is renewed */
    lose("renew lost");
    lose("renew lose-lock");
    lose("renew always lose-reply");
    assert_int_equal(locker_fault_forget(faulty), LOCKER_OK);
    lose("renew always unavailable");
    assert_int_equal(locker_fault_forget(faulty), LOCKER_OK);
    lose("renew always delay=20s");
}

static bool two_have_acted(void *context)
{
    (void)context;
    return locker_fault_acted(faulty) == 2;
}

static bool is_lost(void *context)
{
    return locker_handle_state(context) == LOCKER_STATE_LOST;
}

static void test_one_lost_renewal_does_no_harm(void **state)
{
    locker_handle *held = lock(faulty);
    (void)state;
    script("renew lose-reply; renew delay=10ms");
    if (leases)
        lk_require(two_have_acted, NULL, "two renewals");
    assert_false(lk_until(is_lost, held, 3000)); /* longer than the lease */
    lk_give(held);
}

static void test_disconnected_and_back(void **state)
{
    locker_handle *held = lock(faulty), *other;
    locker_error err;
    (void)state;
    script("ping disconnect");
    assert_status(LOCKER_UNAVAILABLE, locker_ping(faulty, NULL, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(faulty, "other", NULL, &other, &err), err);
    if (leases)
        assert_int_not_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_int_equal(locker_fault_reconnect(faulty), LOCKER_OK);
    assert_ok(locker_ping(faulty, NULL, &err), err);
    lk_give(held);
}

/* ------------------------------------------------------------------ the rest ---- */

static void test_show_break_and_ping_fail(void **state)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held = lock(faulty);
    locker_error err;
    (void)state;
    script("show denied; show lose-reply; break unsupported; ping unavailable; ping lose-request");
    assert_status(LOCKER_DENIED, locker_show(faulty, "k", &info, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_show(faulty, "k", &info, &err), err);
    assert_status(LOCKER_UNSUPPORTED, locker_break(faulty, "k", NULL, NULL, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_ping(faulty, NULL, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_ping(faulty, NULL, &err), err);
    assert_ok(locker_show(faulty, "k", &info, &err), err);
    if (locker_handle_state(held) !=
        LOCKER_STATE_LOST) /* three time-outs may have been longer than the lease */
        assert_true(info.held);
    locker_info_clear(&info);
    locker_handle_free(held);
}

static void test_a_refused_pass_is_a_release(void **state)
{
    lk_locking call;
    locker_handle *held = lock(faulty);
    (void)state;
    script("pass always busy");
    lk_locking_start(&call, faulty, "k", NULL);
    lk_require_waiting(faulty, 1);
    lk_give(held);
    lk_give(lk_locking_grant(&call));
    another_gets_it();
}

static void test_unused_faults_are_reported(void **state)
{
    const locker_fault fault = {.op = LOCKER_OP_ACQUIRE, .key = "never", .times = 2, .status = LOCKER_DENIED};
    locker_error err;
    char text[200];
    (void)state;
    assert_ok(locker_fault_on(faulty, &fault, &err), err);
    assert_int_equal(locker_fault_verify(faulty, text, sizeof text), 1);
    assert_string_equal(text, "a fault was not used up: acquire:never times=2 denied (acted 0 times)");
    assert_int_equal(locker_fault_forget(faulty), LOCKER_OK);
    assert_int_equal(locker_fault_verify(faulty, text, sizeof text), 0);
    assert_status(LOCKER_INVALID, locker_fault_on(plain, &fault, &err), err);
    assert_status(LOCKER_INVALID, locker_fault_script(plain, "ping,denied", &err), err);
    assert_int_equal(locker_fault_forget(plain), LOCKER_INVALID);
    assert_int_equal(locker_fault_reconnect(plain), LOCKER_INVALID);
    assert_int_equal(locker_fault_acted(plain), -1);
}

static void refused(const char *scheme, const char *parameter, locker_status status, const char *word)
{
    char wrong[400];
    locker_error err;
    locker *l;
    (void)snprintf(wrong, sizeof wrong, "%s%s%s", scheme, uri, parameter);
    assert_status(status, locker_open(wrong, NULL, &l, &err), err);
    if (strstr(err.text, word) == NULL)
        test_fails("'%s' is not in: %s", word, err.text);
}

static void test_the_error_for_a_wrong_uri_quotes_the_wrong_value(void **state)
{
    (void)state;
    refused("fault+", "&fault=acquire:k,sometimes", LOCKER_CONFIG, "'sometimes'");
    refused("fault+", "&fault=lock,denied", LOCKER_CONFIG, "'lock'");
    refused("fault+", "&fault=release,denied", LOCKER_CONFIG, "'denied'");
    refused("fault+", "&fault_file=/nowhere/script", LOCKER_CONFIG, "/nowhere/script");
    refused("fault+", "&faults=acquire,denied", LOCKER_CONFIG, "'faults'");
    refused("", "&fault=acquire,denied", LOCKER_CONFIG, "'fault'");
    refused("fault+un", "", LOCKER_UNSUPPORTED, "fault+un");
    refused("fault+fault+", "", LOCKER_UNSUPPORTED, "fault+fault+");
}

/* What stands in the member that such a table doesn't have is not its own. */
static void test_the_table_of_an_older_release(void **state)
{
    static const char *const schemes[] = {"older", NULL};
    static locker_driver older; /* kept for good */
    const locker_driver *memory;
    locker_error err;
    (void)state;
    assert_ok(locker_driver_find("memory", &memory, &err), err);
    older = *memory;
    older.schemes = schemes;
    older.size = offsetof(locker_driver, decorator) - sizeof(void *);
    assert_null(locker_fault_over(&older));
    older.size = offsetof(locker_driver, decorator);
    older.decorator = (const struct locker_decorator *)(uintptr_t)1;
    const locker_driver *over = locker_fault_over(&older);
    assert_non_null(over);
    assert_null(over->decorator);
    assert_int_equal(over->size, sizeof *over);
}

static void test_a_script_from_a_file_and_a_profile(void **state)
{
    char path[128], with[500];
    locker_handle *held;
    locker_error err;
    locker *l;
    FILE *file;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/faults", base);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs("acquire:k denied\n\nacquire:k times=2 unavailable\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(with, sizeof with, "fault+%s&fault=acquire,invalid&fault_file=%s", uri, path);
    for (int profile = 0; profile < 2; profile++) {
        char ini[128];

        (void)snprintf(ini, sizeof ini, "%s/profiles", base);
        file = fopen(ini, "we");
        assert_non_null(file);
        assert_true(fprintf(file, "[default]\nuri = %s\n", with) > 0);
        assert_int_equal(fclose(file), 0);
        if (profile == 0)
            assert_ok(locker_open(with, NULL, &l, &err), err);
        else
            assert_ok(locker_open_profile(ini, NULL, NULL, &l, &err), err);
        assert_status(LOCKER_INVALID, locker_lock(l, "k", NULL, &held, &err), err);
        assert_status(LOCKER_DENIED, locker_lock(l, "k", NULL, &held, &err), err);
        assert_status(LOCKER_UNAVAILABLE, locker_lock(l, "k", NULL, &held, &err), err);
        locker_close(l);
    }
}

/* ------------------------------------------------------------------ main ---- */

static int run(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_without_a_script_it_is_the_service),
        TEST(test_a_failed_attempt_is_repeated_by_the_caller),
        TEST(test_a_busy_answer_is_waited_out),
        TEST(test_a_lost_grant_is_given_back),
        TEST(test_a_delay_beyond_the_deadline_times_out),
        TEST(test_a_delay_can_be_cancelled),
        TEST(test_unlock_is_unknown_and_the_lock_is_free),
        TEST(test_unlock_says_lost),
        TEST(test_a_stolen_lock_is_noticed),
        TEST(test_a_lease_is_lost),
        TEST(test_one_lost_renewal_does_no_harm),
        TEST(test_disconnected_and_back),
        TEST(test_show_break_and_ping_fail),
        TEST(test_a_refused_pass_is_a_release),
        TEST(test_unused_faults_are_reported),
        TEST(test_the_error_for_a_wrong_uri_quotes_the_wrong_value),
        TEST(test_the_table_of_an_older_release),
        TEST(test_a_script_from_a_file_and_a_profile),
    };

    return cmocka_run_group_tests_name(uri, tests, NULL, NULL);
}

static int run_on(const char *service)
{
    static const char parameters[] =
        "ttl=2s&command_timeout=1500ms"; /* a machine may stand still for a second */
    int failed = EXIT_FAILURE;
    leases = strcmp(service, "file") != 0;
    if (!leases) {
        (void)snprintf(uri, sizeof uri, "file://%s/locks?%s", base, parameters);
        failed = run();
    }
#ifdef LK_WITH_REDIS
    if (strcmp(service, "redis") == 0) {
        lk_server *server = lk_test_redis(NULL);

        (void)snprintf(uri, sizeof uri, "redis://127.0.0.1:%d/0?%s", server->port, parameters);
        failed = run();
        lk_test_redis_free(server);
    }
#endif
#ifdef LK_WITH_ZOOKEEPER
    if (strcmp(service, "zookeeper") == 0) {
        lk_server *server = lk_test_zookeeper(LK_LOGIN_NONE);

        (void)snprintf(uri, sizeof uri, "zookeeper://127.0.0.1:%d/?%s", server->port, parameters);
        failed = run();
        lk_test_free(server);
    }
#endif
    return failed;
}

int main(int argc, char **argv)
{
    int failed;
    lk_private_directory(base);
    failed = run_on(argc > 1 ? argv[1] : "file");
    lk_remove_directory(base);
    return failed;
}
