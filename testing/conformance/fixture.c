/* fixture.c: opening lockers on the service under test, taking and giving; see kit.h. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

#include "contract_checker.h"

enum { URI_MAX = 512 };

size_t lk_skipped;

/* `more` is parameters, "" for none. */
static void join_uri(char whole[URI_MAX], const char *uri, const char *more)
{
    snprintf(whole, URI_MAX, "%s%s%s", uri,
             more[0] == '\0'            ? ""
             : strchr(uri, '?') != NULL ? "&"
                                        : "?",
             more);
}

locker_status lk_open_uri(const locker_driver *driver, const char *uri, const char *more,
                          const locker_options *options, locker **out, locker_error *err)
{
    locker_driver_options how = LOCKER_DRIVER_OPTIONS_INIT;
    char whole[URI_MAX];
    join_uri(whole, uri, more);
    how.uri = whole;
    how.options = options;
    return locker_open_driver(driver, &how, out, err);
}

locker *lk_open_locker(lk_fixture *fixture, const char *more)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    locker *l = NULL;
    locker_error err;
    options.log = lk_checker_told;
    options.log_level = LOCKER_LOG_DEBUG;
    assert_ok(lk_open_uri(fixture->driver, fixture->uri, more, &options, &l, &err), err);
    assert_non_null(l);
    return l;
}

/* A lease that is to end may have ended before anybody looks. */
static bool may_be_over(const locker_lock_options *options, int64_t asked)
{
    return options != NULL && options->no_renew && options->ttl_ms > 0 &&
           lk_test_now_ms() - asked >= options->ttl_ms * 8 / 10;
}

locker_handle *lk_take(locker *l, const char *key, const locker_lock_options *options)
{
    const int64_t asked = lk_test_now_ms();
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock(l, key, options, &held, &err), err);
    assert_non_null(held);
    const locker_state state = locker_handle_state(held);
    assert_true(state == LOCKER_STATE_HELD || (state == LOCKER_STATE_LOST && may_be_over(options, asked)));
    return held;
}

struct told {
    locker *l;
    const char *key, *owner;
};

static bool is_told(void *context)
{
    const struct told *wanted = context;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_ok(locker_show(wanted->l, wanted->key, &info, &err), err);
    const bool told = strcmp(info.owner, wanted->owner) == 0;
    locker_info_clear(&info);
    return told;
}

void lk_require_owner(locker *l, const char *key, const char *owner)
{
    lk_require(is_told, &(struct told){l, key, owner}, "show should name the holder");
}

locker_lock_options lk_lease_options(int64_t ttl_ms)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.ttl_ms = ttl_ms;
    options.no_renew = true;
    return options;
}

locker_lock_options lk_shared_options(void)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.mode = LOCKER_SHARED;
    return options;
}

locker_lock_options lk_permit_options(int32_t permits)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.permits = permits;
    return options;
}

uint64_t lk_polls(const lk_fixture *fixture, int64_t began)
{
    const int64_t poll_ms = fixture->subject->poll_ms;
    return poll_ms > 0 ? (uint64_t)((lk_test_now_ms() - began) / poll_ms + 1) : 0;
}

lk_child *lk_start_puppet(const lk_fixture *fixture, const char *more)
{
    char whole[URI_MAX];
    join_uri(whole, fixture->uri, more);
    return lk_puppet_start(whole);
}
