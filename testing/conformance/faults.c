/* faults.c: takes locks away and services out of reach, by the subject's hooks. Where a service has no other
 * client, locks are taken away as an operator would do it: by breaking them. */
#include "kit.h"
#include "watchdog.h"

/* Who holds what an operator took; NULL: nobody. */
static locker *rival;
static locker_handle *taken;

/* ------------------------------------------------------------------ an operator ---- */

static locker *open_operator(const lk_fixture *fixture)
{
    locker *l = NULL;
    locker_error err;
    assert_ok(lk_open_uri(fixture->driver, fixture->uri, "", NULL, &l, &err), err);
    return l;
}

static void operator_breaks(const lk_fixture *fixture, const char *key)
{
    locker *l = open_operator(fixture);
    locker_error err;
    assert_ok(locker_break(l, key, NULL, NULL, &err), err);
    lk_close_locker(l);
    if (rival == NULL)
        return;
    locker_handle_free(taken);
    taken = NULL;
    lk_close_locker(rival);
    rival = NULL;
}

static void operator_takes(const lk_fixture *fixture, const char *key)
{
    assert_null(rival);
    rival = open_operator(fixture);
    locker_error err;
    if (locker_break(rival, key, NULL, NULL, &err) !=
        LOCKER_OK) /* on a slow machine its lease may have ended */
        assert_status(LOCKER_INVALID, err.status, err);
    assert_ok(locker_try_lock(rival, key, NULL, &taken, &err), err);
}

/* ------------------------------------------------------------------ the hooks ---- */

bool lk_can_lose(const lk_fixture *fixture)
{
    return fixture->subject->lose != NULL || fixture->promises.can_break;
}

bool lk_can_freeze(const lk_fixture *fixture)
{
    return fixture->subject->freeze != NULL;
}

/* Call a hook, which may take long: the watchdog knows. */
static void call_on_key(const lk_fixture *fixture, bool (*hook)(void *, const char *), const char *name,
                        const char *key)
{
    lk_watchdog_hook(name);
    const bool done = hook(fixture->service, key);
    lk_watchdog_hook(NULL);
    if (!done)
        test_fails("the subject's hook `%s` failed on '%s'", name, key);
}

static void call(const lk_fixture *fixture, bool (*hook)(void *), const char *name)
{
    lk_watchdog_hook(name);
    const bool done = hook(fixture->service);
    lk_watchdog_hook(NULL);
    if (!done)
        test_fails("the subject's hook `%s` failed", name);
}

void lk_lose(const lk_fixture *fixture, const char *key)
{
    if (fixture->subject->lose == NULL)
        operator_breaks(fixture, key);
    else
        call_on_key(fixture, fixture->subject->lose, "lose", key);
}

void lk_replace(const lk_fixture *fixture, const char *key)
{
    if (fixture->subject->replace == NULL)
        operator_takes(fixture, key);
    else
        call_on_key(fixture, fixture->subject->replace, "replace", key);
}

void lk_freeze(const lk_fixture *fixture)
{
    call(fixture, fixture->subject->freeze, "freeze");
}

void lk_thaw(const lk_fixture *fixture)
{
    call(fixture, fixture->subject->thaw, "thaw");
}

void lk_restart(const lk_fixture *fixture)
{
    call(fixture, fixture->subject->restart, "restart");
}
