/* small.c: durations, distributions, names, hashes of keys, the list of drivers. */
#include <stdio.h>
#include <string.h>

#include <locker/driver.h>

#include "expect.h"

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},
                {"1", 1000},
                {"1.5", 1500},
                {"500ms", 500},
                {"10s", 10000},
                {"2h", 7200000},
                {"1m", 60000},
                {"1d", 86400000},
                {".5s", 500},
                {"0.0001s", 1},
                {"3650d", INT64_C(315360000000)}};
    static const char *const bad[] = {"",     "s",   "-1s", "1 s", " 1s",  "1sec",
                                      "0x10", "1e3", "inf", ".",   "1..5", "4000d"};
    locker_error err;
    int64_t ms;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(locker_parse_duration(good[i].text, &ms, &err), err);
        assert_int_equal(ms, good[i].ms);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(LOCKER_CONFIG, locker_parse_duration(bad[i], &ms, &err), err);
        assert_non_null(strstr(err.text, bad[i]));
    }
    assert_status(LOCKER_INVALID, locker_parse_duration(NULL, &ms, &err), err);
}

static void test_histogram(void **state)
{
    locker_histogram h = {0};
    (void)state;
    assert_int_equal(locker_histogram_quantile(&h, 0.5), 0);
    h.count = 100;
    h.bucket[4] = 90;  /* 8 to 16 us */
    h.bucket[10] = 10; /* 512 to 1024 us */
    h.max_us = 700;
    assert_int_equal(locker_histogram_quantile(&h, 0.5), 16);
    assert_int_equal(locker_histogram_quantile(&h, 0.99), 700);
    assert_int_equal(locker_histogram_quantile(NULL, 0.5), 0);
}

/* Numbered keys are the usual ones; tables of keys take the low bits. */
static void test_hashes_of_numbered_keys_spread(void **state)
{
    enum { KEYS = 1024 };
    static const char *const forms[] = {"%u", "%u/orders", "orders/%u", "orders/%08u",
                                        "a/%u/key of many bytes"};
    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        unsigned in[KEYS] = {0};

        for (unsigned i = 0; i < KEYS; i++) {
            char key[64];
            int length = snprintf(key, sizeof key, forms[f], i);
            unsigned *n = &in[locker_key_hash(key, (size_t)length) % KEYS];

            assert_in_range(++*n, 1, 10); /* by chance a bucket has up to 6 or 7 */
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    for (int i = LOCKER_OK; i <= LOCKER_FORKED; i++)
        assert_string_not_equal(locker_status_name((locker_status)i), "invalid status");
    assert_string_equal(locker_status_name((locker_status)(LOCKER_FORKED + 1)), "invalid status");
    assert_string_equal(locker_status_name(LOCKER_LOST), "lost");
    assert_string_equal(locker_state_name(LOCKER_STATE_SUSPECT), "suspect");
    assert_string_equal(locker_state_name((locker_state)99), "invalid state");
    assert_string_equal(locker_version(), LOCKER_VERSION_STRING);
}

static void test_drivers(void **state)
{
    locker_driver_info info = LOCKER_DRIVER_INFO_INIT;
    bool memory = false;
    size_t n = 0;
    (void)state;
    for (; locker_driver_at(n, &info); n++) {
        assert_non_null(info.semantics);
        assert_non_null(info.parameters);
        assert_non_null(info.example);
        memory = memory || strcmp(info.name, "memory") == 0;
    }
    assert_true(memory);
    assert_false(locker_driver_at(n, &info));
    assert_string_equal(locker_common_parameters()[0].name, "ttl");
    assert_string_equal(locker_param_kind_name(locker_common_parameters()[0].kind), "duration");
}

static void test_statistics_need_their_size(void **state)
{
    locker_statistics stats = LOCKER_STATISTICS_INIT;
    locker_error err;
    locker *l;
    (void)state;
    assert_ok(locker_open("memory:", NULL, &l, &err), err);
    assert_int_equal(locker_stats(l, &stats), LOCKER_OK);
    stats.size = 1;
    assert_int_equal(locker_stats(l, &stats), LOCKER_INVALID);
    assert_int_equal(locker_stats(NULL, &stats), LOCKER_INVALID);
    assert_null(locker_get_semantics(NULL));
    assert_false(locker_cancel_fired(NULL));
    locker_cancel_fire(NULL);
    locker_cancel_reset(NULL);
    locker_cancel_free(NULL);
    assert_int_equal(locker_close(l), LOCKER_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_hashes_of_numbered_keys_spread),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_drivers),
        cmocka_unit_test(test_statistics_need_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
