/* sizes.c: programs and drivers that were compiled with an older or a later release's structs. */
#include <stdlib.h>
#include <string.h>

#include <locker/driver.h>

#include "expect.h"

/* What a later release's struct would be: ours, with a member behind. */
#define LATER(type)                                                                                          \
    struct {                                                                                                 \
        type known;                                                                                          \
        uint64_t member;                                                                                     \
    }

/* The size of one from before the member was appended. */
#define BEFORE(type, member) offsetof(type, member)

/* ------------------------------------------------------------------ options ---- */

/* What stands in the members that the program doesn't have is not its own, and would be refused or obeyed. */
static void options_of_an_older_program(void **state)
{
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_clock clock;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_lock_options how = LOCKER_LOCK_OPTIONS_INIT;
    locker_break_options whom = LOCKER_BREAK_OPTIONS_INIT;
    const locker_driver *memory;
    locker_handle *held;
    locker_error err;
    locker *l;
    (void)state;
    o.owner = "me";
    o.size = BEFORE(locker_options, log_user);
    o.log_user = &l; /* not the program's */
    assert_ok(locker_open("memory:", &o, &l, &err), err);
    how.size = BEFORE(locker_lock_options, label);
    how.label = "";
    assert_ok(locker_lock(l, "k", &how, &held, &err), err);
    assert_string_equal(locker_handle_owner(held), "me");
    whom.size = BEFORE(locker_break_options, owner);
    whom.owner = "somebody else";
    assert_ok(locker_break(l, "k", &whom, NULL, &err), err);
    locker_handle_free(held);
    assert_int_equal(locker_close(l), LOCKER_OK);
    d.size = BEFORE(locker_driver_options, clock);
    d.clock = (const locker_clock *)(const void *)"no clock"; /* not the program's */
    assert_ok(locker_driver_find("memory", &memory, &err), err);
    assert_ok(locker_open_driver(memory, &d, &l, &err), err);
    assert_int_equal(locker_close(l), LOCKER_OK);
    clock = *locker_system_clock();
    d = (locker_driver_options)LOCKER_DRIVER_OPTIONS_INIT;
    d.clock = &clock;
    clock.size = BEFORE(locker_clock, hooks);
    clock.hooks = (const struct locker_clock_hooks *)(uintptr_t)1; /* not the program's */
    assert_ok(locker_open_driver(memory, &d, &l, &err), err);
    assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
    locker_handle_free(held);
    assert_int_equal(locker_close(l), LOCKER_OK);
    clock.size = 0;
    assert_status(LOCKER_INVALID, locker_open_driver(memory, &d, &l, &err), err);
    assert_non_null(strstr(err.text, "locker_clock"));
}

static void options_of_a_later_program(void **state)
{
    LATER(locker_options) o = {LOCKER_OPTIONS_INIT, 0};
    LATER(locker_lock_options) how = {LOCKER_LOCK_OPTIONS_INIT, 0};
    LATER(locker_break_options) whom = {LOCKER_BREAK_OPTIONS_INIT, 0};
    locker_handle *held;
    locker_error err;
    locker *l;

    (void)state;
    o.known.size = sizeof o;
    assert_ok(locker_open("memory:", &o.known, &l, &err), err);
    how.known.size = sizeof how;
    assert_ok(locker_lock(l, "k", &how.known, &held, &err), err);
    locker_handle_free(held);
    how.member = 1;
    assert_status(LOCKER_CONFIG, locker_lock(l, "k", &how.known, &held, &err), err);
    assert_non_null(strstr(err.text, "locker_lock_options"));
    assert_non_null(strstr(err.text, "install the version"));
    assert_non_null(strstr(err.text, LOCKER_VERSION_STRING));
    whom.known.size = sizeof whom;
    whom.member = UINT64_C(1) << 63;
    assert_status(LOCKER_CONFIG, locker_break(l, "k", &whom.known, NULL, &err), err);
    assert_int_equal(locker_close(l), LOCKER_OK);
    o.member = 1;
    assert_status(LOCKER_CONFIG, locker_open("memory:", &o.known, &l, &err), err);
    assert_null(l);
}

static void sizes_that_are_none(void **state)
{
    static const size_t none[] = {
        0,       sizeof(void *), sizeof(locker_lock_options) - 1, sizeof(locker_lock_options) + 4,
        1 << 20, SIZE_MAX};
    locker_lock_options how = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    locker *l;
    (void)state;
    assert_ok(locker_open("memory:", NULL, &l, &err), err);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        how.size = none[i];
        assert_status(LOCKER_INVALID, locker_lock(l, "k", &how, &held, &err), err);
    }
    assert_int_equal(locker_close(l), LOCKER_OK);
}

/* Whatever is wrong with the arguments, what a program closes or frees later is no garbage. */
static void nothing_comes_of_wrong_arguments(void **state)
{
    const locker_driver *memory, *driver;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_clock clock = *locker_system_clock();
    locker_driver_options wrong = LOCKER_DRIVER_OPTIONS_INIT, clocked = LOCKER_DRIVER_OPTIONS_INIT;
    locker_handle *held = (locker_handle *)(void *)state;
    locker *l = (locker *)(void *)state;
    locker_error err;
    assert_ok(locker_driver_find("memory", &memory, &err), err);
    wrong.size = 1;
    assert_status(LOCKER_INVALID, locker_open_driver(memory, &wrong, &l, &err), err);
    assert_null(l);
    l = (locker *)(void *)state;
    clock.size = 1;
    clocked.clock = &clock;
    assert_status(LOCKER_INVALID, locker_open_driver(memory, &clocked, &l, &err), err);
    assert_null(l);
    l = (locker *)(void *)state;
    options.size = 1;
    assert_status(LOCKER_INVALID, locker_open("memory:", &options, &l, &err), err);
    assert_null(l);
    assert_status(LOCKER_INVALID, locker_lock(NULL, "k", NULL, &held, &err), err);
    assert_null(held);
    driver = memory;
    assert_status(LOCKER_INVALID, locker_driver_find(NULL, &driver, &err), err);
    assert_null(driver);
}

/* ------------------------------------------------------------------ answers ---- */

/* Writes nothing past the caller's struct, and zeros where it doesn't know what the caller does. */
static void answers_are_as_large_as_asked_for(void **state)
{
    LATER(locker_info) info = {LOCKER_INFO_INIT, 7};
    LATER(locker_statistics) stats = {LOCKER_STATISTICS_INIT, 7};
    LATER(locker_driver_info) driver = {LOCKER_DRIVER_INFO_INIT, 7};
    locker_handle *held;
    locker_error err;
    locker *l;

    (void)state;
    assert_ok(locker_open("memory:", NULL, &l, &err), err);
    assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
    info.known.size = BEFORE(locker_info, queue_stride);
    info.known.queue_stride = 7;
    assert_ok(locker_show(l, "k", &info.known, &err), err);
    assert_true(info.known.held);
    assert_int_equal(info.known.queue_stride, 7);
    locker_info_clear(&info.known);
    assert_false(info.known.held);
    assert_int_equal(info.known.size, BEFORE(locker_info, queue_stride));
    assert_int_equal(info.known.queue_stride, 7);
    info.known.size = sizeof info;
    assert_ok(locker_show(l, "k", &info.known, &err), err);
    assert_int_equal(info.known.size, sizeof info);
    assert_int_equal(info.member, 0);
    locker_info_clear(&info.known);
    stats.known.size = BEFORE(locker_statistics, hold);
    stats.known.hold.count = 7;
    assert_int_equal(locker_stats(l, &stats.known), LOCKER_OK);
    assert_int_equal(stats.known.acquired, 1);
    assert_int_equal(stats.known.hold.count, 7);
    stats.known.size = sizeof stats;
    assert_int_equal(locker_stats(l, &stats.known), LOCKER_OK);
    assert_int_equal(stats.member, 0);
    driver.known.size = BEFORE(locker_driver_info, problem);
    driver.known.problem = "mine";
    assert_true(locker_driver_at(0, &driver.known));
    assert_string_equal(driver.known.problem, "mine");
    driver.known.size = sizeof driver;
    assert_true(locker_driver_at(0, &driver.known));
    assert_int_equal(driver.member, 0);
    driver.known.size = 1;
    assert_false(locker_driver_at(0, &driver.known));
    locker_handle_free(held);
    assert_int_equal(locker_close(l), LOCKER_OK);
}

static void waiters_are_found_by_their_stride(void **state)
{
    LATER(locker_waiter) waiters[2] = {{{.owner = "first"}, 1}, {{.owner = "second"}, 2}};
    locker_info info = LOCKER_INFO_INIT;

    (void)state;
    info.queue = &waiters[0].known;
    info.queue_len = 2;
    info.queue_stride = sizeof *waiters;
    assert_string_equal(locker_info_waiter(&info, 1)->owner, "second");
    assert_null(locker_info_waiter(&info, 2));
}

/* ------------------------------------------------------------------ drivers ---- */

static locker_status open_table(const locker_driver *driver, locker_error *err)
{
    locker_handle *held;
    locker *l = NULL;
    void *self = NULL;
    const locker_status status = locker_open_driver(driver, NULL, &l, err);
    if (status != LOCKER_OK)
        return status;
    assert_ptr_equal(locker_driver_of(l, NULL), driver);
    assert_ptr_equal(locker_driver_of(l, &self), driver);
    assert_non_null(self);
    assert_ok(locker_lock(l, "k", NULL, &held, err), *err);
    locker_handle_free(held);
    assert_int_equal(locker_close(l), LOCKER_OK);
    return LOCKER_OK;
}

static void drivers_of_other_releases(void **state)
{
    LATER(locker_semantics) promises = {{.size = sizeof promises, .driver = "memory", .token = "grows"}, 0};
    LATER(locker_driver) later;
    locker_driver older;
    const locker_driver *memory;
    locker_error err;

    (void)state;
    assert_ok(locker_driver_find("memory", &memory, &err), err);
    memset(&later, 0, sizeof later);
    older = later.known = *memory;
    older.size = BEFORE(locker_driver, decorator);
    older.decorator = (const struct locker_decorator *)(uintptr_t)1; /* not the driver's */
    assert_ok(open_table(&older, &err), err);
    later.known.size = sizeof later;
    later.known.semantics = &promises.known;
    assert_ok(open_table(&later.known, &err), err);
    promises.member = 1;
    assert_status(LOCKER_CONFIG, open_table(&later.known, &err), err);
    promises.member = 0;
    later.member = 1;
    assert_status(LOCKER_CONFIG, open_table(&later.known, &err), err);
    assert_non_null(strstr(err.text, "locker_driver"));
    later.member = 0;
    later.known.abi++;
    assert_status(LOCKER_INVALID, open_table(&later.known, &err), err);
    assert_non_null(strstr(err.text, "later library"));
    later.known.abi = 2;
    assert_status(LOCKER_INVALID, open_table(&later.known, &err), err);
    assert_non_null(strstr(err.text, "build the driver again"));
    later.known.abi = LOCKER_DRIVER_ABI;
    later.known.size = 0;
    assert_status(LOCKER_INVALID, open_table(&later.known, &err), err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_an_older_program),
        cmocka_unit_test(options_of_a_later_program),
        cmocka_unit_test(sizes_that_are_none),
        cmocka_unit_test(nothing_comes_of_wrong_arguments),
        cmocka_unit_test(answers_are_as_large_as_asked_for),
        cmocka_unit_test(waiters_are_found_by_their_stride),
        cmocka_unit_test(drivers_of_other_releases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
