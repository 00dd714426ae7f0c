/* leases.c: leases that are renewed, and leases that are meant to end. */
#include "kit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { TTL = 300 };

/* What on_lost saw. */
struct notice {
    atomic_int calls;
    atomic_int state;  /* of the handle, inside the callback */
    atomic_int unlock; /* locker_unlock()'s answer inside the callback */
    atomic_llong at_ms;
    lk_gate gate;
};

static void on_lost(locker_handle *lost, void *user)
{
    struct notice *notice = user;
    atomic_store(&notice->at_ms, lk_test_now_ms());
    atomic_store(&notice->state, (int)locker_handle_state(lost));
    atomic_store(&notice->unlock, (int)locker_unlock(lost, NULL));
    atomic_fetch_add(&notice->calls, 1);
    lk_gate_open(&notice->gate, 1);
}

/* Takes a lock whose lease ends after TTL, with a notice. */
static locker_handle *take_for_a_while(locker *l, const char *key, struct notice *notice)
{
    locker_lock_options options = lk_lease_options(TTL);
    lk_gate_init(&notice->gate);
    options.on_lost = on_lost;
    options.user = notice;
    return lk_take(l, key, &options);
}

/* Leases that are kept. One that is lost nevertheless is forgiven if the service's answers took so long that
 * it could not be renewed in time; it must be kept when it is twice as long then. */
static void are_kept(lk_fixture *fixture, int ttl_ms,
                     bool (*kept)(lk_fixture *fixture, int ttl_ms, const char *parameter))
{
    enum { TTL_MAX_MS = 10000 };
    for (;; ttl_ms *= 2) {
        lk_probe *probe = lk_probe_start(fixture);

        char parameter[32];
        snprintf(parameter, sizeof parameter, "ttl=%dms", ttl_ms);
        const bool done = kept(fixture, ttl_ms, parameter);
        const int64_t late_ms = lk_probe_stop(probe);
        if (done)
            return;
        print_message("a lease of %d ms was not kept; the slowest answer took %lld ms\n", ttl_ms,
                      (long long)late_ms);
        if (!assert_unless_late(late_ms >= ttl_ms / 4 && ttl_ms <= TTL_MAX_MS))
            return;
    }
}

/* Gives it back. Whether it still had it. */
static bool give_kept(locker_handle *held)
{
    const bool kept = locker_unlock(held, NULL) == LOCKER_OK;
    locker_handle_free(held);
    return kept;
}

/* A rival that wants it all the while never gets it, unless it was lost. */
static bool is_kept_from(locker *rival, const char *key, int ttl_ms)
{
    locker_lock_options options = lk_wait_options(5L * ttl_ms);
    locker_handle *second = NULL;
    const locker_status status = locker_lock(rival, key, &options, &second, NULL);
    if (status == LOCKER_OK)
        lk_give(second);
    else
        assert_int_equal(status, LOCKER_TIMEOUT);
    return status == LOCKER_TIMEOUT;
}

static bool one_is_kept(lk_fixture *fixture, int ttl_ms, const char *parameter)
{
    locker *l = lk_open_locker(fixture, parameter), *rival = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "renewed", NULL);
    bool kept = is_kept_from(rival, "renewed", ttl_ms);
    if (locker_handle_state(held) != LOCKER_STATE_HELD || lk_readable(locker_handle_fd(held), 0))
        kept = false;
    if (kept && fixture->promises.leases) {
        assert_true(lk_stats(l).renewals >= 5);
        assert_in_range(locker_handle_remaining_ms(held), 0, ttl_ms);
    } else if (kept) {
        assert_int_equal(locker_handle_remaining_ms(held), -1);
    }
    kept = give_kept(held) && kept;
    lk_give(lk_take(rival, "renewed", NULL));
    lk_close_locker(rival);
    lk_close_locker(l);
    return kept;
}

static void a_renewed_lease_outlives_its_ttl(void **state)
{
    are_kept(*state, TTL, one_is_kept);
}

static bool many_are_kept(lk_fixture *fixture, int ttl_ms, const char *parameter)
{
    enum { MANY = 200 };
    locker *l = lk_open_locker(fixture, parameter), *rival = lk_open_locker(fixture, "");
    locker_handle *held[MANY];
    locker_lock_options lease = LOCKER_LOCK_OPTIONS_INIT;
    for (int i = 0; i < MANY; i++) {
        char key[32];

        snprintf(key, sizeof key, "many-%d", i);
        lease.ttl_ms = ttl_ms + i % 3;
        held[i] = lk_take(l, key, &lease);
    }
    bool kept = is_kept_from(rival, "many-7", ttl_ms / 2);
    if (lk_stats(l).lost != 0)
        kept = false;
    for (int i = 0; i < MANY; i++)
        kept = give_kept(held[i]) && kept;
    lk_close_locker(rival);
    lk_close_locker(l);
    return kept;
}

/* Of several lengths: such are renewed together too. */
static void many_renewed_leases_stay(void **state)
{
    are_kept(*state, 2 * TTL, many_are_kept);
}

static void without_renewal_it_is_lost_at_the_ttl(void **state)
{
    locker *l = lk_open_locker(*state, "");
    struct notice notice = {0};
    const int64_t taken = lk_test_now_ms();
    locker_handle *held = take_for_a_while(l, "ends", &notice);
    const int fd = locker_handle_fd(held);
    assert_true(fd >= 0);
    assert_int_equal(locker_handle_fd(held), fd);
    const bool is_held = !lk_readable(fd, 0) && locker_handle_remaining_ms(held) > 0;
    assert_true(is_held || lk_test_now_ms() - taken >= TTL * 8 / 10);
    assert_true(locker_handle_remaining_ms(held) <= TTL);
    lk_gate_await(&notice.gate, 1, "on_lost");
    const int64_t now = atomic_load(&notice.at_ms);
    assert_true(now - taken >= TTL * 8 / 10);
    assert_timely(now - taken, TTL + LK_TEST_SLACK_MS);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_remaining_ms(held), 0);
    assert_true(lk_readable(fd, LK_TEST_PATIENCE_MS));
    assert_int_equal(atomic_load(&notice.state), LOCKER_STATE_LOST);
    assert_int_equal(atomic_load(&notice.unlock), LOCKER_LOST);
    assert_int_equal(lk_stats(l).lost, 1);
    assert_int_equal(lk_stats(l).held, 0);
    locker_error err;
    assert_status(LOCKER_INVALID, locker_unlock(held, &err), err); /* the callback had the answer */
    locker_handle_free(held);
    lk_close_locker(l);
    assert_int_equal(atomic_load(&notice.calls), 1);
    lk_gate_destroy(&notice.gate);
}

/* Where the service doesn't know when it ends, its own locker does. */
static void show_tells_when_it_ends(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_lock_options options = lk_lease_options(30000);
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held = lk_take(l, "shown-end", &options);
    locker_error err;
    assert_ok(locker_show(l, "shown-end", &info, &err), err);
    assert_in_range(info.remaining_ms, 1, 30000);
    locker_info_clear(&info);
    lk_give(held);
    lk_close_locker(l);
}

/* The state is by the clock: it is LOST at the deadline even where nobody was told. */
static void the_state_follows_the_clock(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_lock_options options = lk_lease_options(TTL);
    const int64_t taken = lk_test_now_ms();
    locker_handle *held = lk_take(l, "clock", &options);
    lk_require_state(held, LOCKER_STATE_LOST);
    assert_timely(lk_test_now_ms() - taken, TTL + LK_TEST_SLACK_MS);
    locker_error err;
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    assert_status(LOCKER_INVALID, locker_unlock(held, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST); /* it never comes back */
    locker_handle_free(held);
    lk_close_locker(l);
}

static void an_ended_lease_goes_to_a_waiter(locker *l, locker *other, const char *key)
{
    locker_lock_options options = lk_lease_options(TTL);
    const int64_t taken = lk_test_now_ms(); /* before, so that a slow machine makes no lease look short */
    locker_handle *held = lk_take(l, key, &options);
    lk_locking waiter;
    lk_locking_start(&waiter, other, key, NULL);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    /* it knew that it was lost before anybody else could have it */
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    assert_true(waiter.ended_ms - taken >= TTL * 8 / 10);
    assert_timely(waiter.ended_ms - taken, TTL + 2 * LK_TEST_SLACK_MS);
    assert_int_equal(locker_unlock(held, NULL), LOCKER_LOST);
    lk_expect_busy(l, key); /* whose lock is untouched by it */
    locker_handle_free(held);
    lk_give(waiter.held);
}

static void expiry_hands_over(void **state)
{
    locker *l = lk_open_locker(*state, ""), *rival = lk_open_locker(*state, "");
    for (int i = 0; i < 2; i++) {
        an_ended_lease_goes_to_a_waiter(l, rival, "expires");
        an_ended_lease_goes_to_a_waiter(l, l, "expires-within");
    }
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void unlocked_in_time_nothing_is_lost(void **state)
{
    locker *l = lk_open_locker(*state, "");
    struct notice notice = {0};
    const int64_t taken = lk_test_now_ms();
    locker_handle *held = take_for_a_while(l, "in-time", &notice);
    locker_lock_options options = lk_lease_options(100L * TTL);
    const int fd = locker_handle_fd(held);
    locker_error err;
    const locker_status status = locker_unlock(held, &err);
    if (lk_test_now_ms() - taken < TTL * 8 / 10) /* however busy the machine is */
        assert_ok(status, err);
    const bool in_time = assert_unless_late(status == LOCKER_OK);
    locker_handle *second = lk_take(l, "in-time", &options);
    if (in_time) {
        assert_false(lk_readable(fd, 2L * TTL)); /* the ended lease's time passes */
        assert_int_equal(atomic_load(&notice.calls), 0);
        assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
        assert_int_equal(lk_stats(l).lost, 0);
    }
    locker_handle_free(held);
    lk_give(second);
    lk_close_locker(l);
    lk_gate_destroy(&notice.gate);
}

static void freed_in_on_lost(locker_handle *lost, void *user)
{
    locker_handle_free(lost);
    lk_gate_open(user, 1);
}

static void a_handle_may_be_freed_in_its_callback(void **state)
{
    locker *l = lk_open_locker(*state, "");
    locker_lock_options options = lk_lease_options(TTL);
    lk_gate gate;
    lk_gate_init(&gate);
    options.on_lost = freed_in_on_lost;
    options.user = &gate;
    locker_handle *held; /* the callback's, at any time */
    locker_error err;
    assert_ok(locker_lock(l, "freed", &options, &held, &err), err);
    lk_gate_await(&gate, 1, "on_lost");
    lk_close_locker(l);
    lk_gate_destroy(&gate);
}

struct illegal {
    locker *l;
    atomic_int lock, show, close;
    lk_gate gate;
};

static void call_what_is_illegal(locker_handle *lost, void *user)
{
    struct illegal *illegal = user;
    locker_handle *held = NULL;
    locker_info info = LOCKER_INFO_INIT;
    (void)lost;
    atomic_store(&illegal->lock, (int)locker_try_lock(illegal->l, "other", NULL, &held, NULL));
    atomic_store(&illegal->show, (int)locker_show(illegal->l, "other", &info, NULL));
    atomic_store(&illegal->close, (int)locker_close(illegal->l));
    lk_gate_open(&illegal->gate, 1);
}

static void illegal_calls_in_on_lost_are_refused(void **state)
{
    struct illegal illegal = {.l = lk_open_locker(*state, "")};
    locker_lock_options options = lk_lease_options(TTL);
    lk_gate_init(&illegal.gate);
    options.on_lost = call_what_is_illegal;
    options.user = &illegal;
    locker_handle *held = lk_take(illegal.l, "illegal", &options);
    lk_gate_await(&illegal.gate, 1, "on_lost");
    assert_int_equal(atomic_load(&illegal.lock), LOCKER_INVALID);
    assert_int_equal(atomic_load(&illegal.show), LOCKER_INVALID);
    assert_int_equal(atomic_load(&illegal.close), LOCKER_INVALID);
    locker_handle_free(held);
    lk_give(lk_take(illegal.l, "illegal", NULL));
    lk_close_locker(illegal.l);
    lk_gate_destroy(&illegal.gate);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_renewed_lease_outlives_its_ttl),
    cmocka_unit_test(many_renewed_leases_stay),
    cmocka_unit_test(without_renewal_it_is_lost_at_the_ttl),
    cmocka_unit_test(show_tells_when_it_ends),
    cmocka_unit_test(the_state_follows_the_clock),
    cmocka_unit_test(expiry_hands_over),
    cmocka_unit_test(unlocked_in_time_nothing_is_lost),
    cmocka_unit_test(a_handle_may_be_freed_in_its_callback),
    cmocka_unit_test(illegal_calls_in_on_lost_are_refused),
};

const lk_group lk_leases = {"leases", tests, sizeof tests / sizeof tests[0]};
