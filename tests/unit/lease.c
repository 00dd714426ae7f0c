/* lease.c: renewal, SUSPECT, and LOST by the local deadline, on a clock moved by hand. */
#include <stdatomic.h>
#include <stdio.h>

#include "locking.h"
#include "mocking.h"

static const locker_mock_options session = {.size = sizeof session, .leases = LOCKER_MOCK_LEASES_SESSION};
static const locker_mock_options no_leases = {.size = sizeof no_leases, .leases = LOCKER_MOCK_LEASES_NONE};

/* A lock with a lease of 9 s, renewed at 3, 5, 6.33 ... s when no answer comes. */
static locker_mock *hold(locker **l, locker_handle **h, bool renew, const char *faults)
{
    locker_mock *mock = lk_mock_begin(NULL, l);
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    lk_mock_faults(mock, faults);
    o.ttl_ms = 9000;
    o.no_renew = !renew;
    assert_ok(locker_lock(*l, "k", &o, h, &err), err);
    return mock;
}

static void test_renewed_at_a_third(void **state)
{
    locker_handle *h;
    locker *l;
    locker_mock *mock = hold(&l, &h, true, "");
    (void)state;
    for (unsigned i = 1; i <= 5; i++) {
        lk_mock_advance_by(mock, 2700); /* a little slack gathers renewals into batches: 1/16 of a third */
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), i - 1);
        lk_mock_advance_by(mock, 300);
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), i);
        assert_int_equal(locker_handle_remaining_ms(h), 9000);
        assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    }
    assert_int_equal(lk_stats(l).renewals, 5);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

static void test_retried_faster_until_the_deadline(void **state)
{
    locker_handle *h;
    locker *l;
    locker_mock *mock = hold(&l, &h, true, "renew always unavailable");
    (void)state;
    lk_mock_advance_by(mock, 3000);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 1);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    lk_mock_advance_by(mock, 2000);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 2);
    lk_mock_advance_by(mock, 1334);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 3);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    lk_mock_advance_by(mock, 2665);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    assert_int_equal(locker_handle_remaining_ms(h), 1);
    lk_mock_advance_by(mock, 1);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_remaining_ms(h), 0);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    locker_handle_free(h);
    assert_int_equal(lk_stats(l).lost, 1);
    assert_int_equal(lk_stats(l).held, 0);
    lk_mock_end(mock, l);
}

static void reconnect(locker_handle *lost, void *user)
{
    (void)lost;
    locker_mock_reconnect(user, NULL);
}

/* At the deadline, before the claim is withdrawn, the service is back and confirms the lease. */
static void test_a_late_confirmation_revives_nothing(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&session, &l);
    (void)state;
    o.on_lost = reconnect;
    o.user = mock;
    assert_ok(locker_lock(l, "k", &o, &h, &err), err);
    locker_mock_disconnect(mock, l);
    lk_mock_advance_by(mock, 30000);
    assert_int_equal(lk_mock_answers(mock, LOCKER_OP_RENEW, LOCKER_OK), 1);
    assert_int_equal(lk_stats(l).renewals, 0);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_status(LOCKER_LOST, locker_unlock(h, &err), err);
    assert_status(LOCKER_INVALID, locker_unlock(h, &err), err);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

/* The first renewal is answered after the second, which was asked for later. */
static void test_a_deadline_never_moves_back(void **state)
{
    locker_handle *h;
    locker *l;
    locker_mock *mock = hold(&l, &h, true, "renew delay=2500ms");
    (void)state;
    lk_mock_advance_by(mock, 5000);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 2);
    assert_int_equal(locker_handle_remaining_ms(h), 9000);
    lk_mock_advance_by(mock, 500);
    assert_int_equal(lk_stats(l).renewals, 2);
    assert_int_equal(locker_handle_remaining_ms(h), 8500);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

static void test_without_renewal(void **state)
{
    locker_handle *h;
    locker *l;
    locker_mock *mock = hold(&l, &h, false, "");
    (void)state;
    lk_mock_advance_by(mock, 8999);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    lk_mock_advance_by(mock, 1);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 0);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

/* A driver without leases: core itself ends what isn't renewed, and leaves the others alone. */
static void test_without_leases(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *kept, *ended;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&no_leases, &l);
    (void)state;
    assert_ok(locker_lock(l, "kept", NULL, &kept, &err), err);
    o.no_renew = true;
    o.ttl_ms = 1000;
    assert_ok(locker_lock(l, "ended", &o, &ended, &err), err);
    assert_int_equal(locker_handle_remaining_ms(kept), -1);
    assert_int_equal(locker_handle_remaining_ms(ended), 1000);
    lk_mock_advance_by(mock, 1000);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_WITHDRAW), 1);
    assert_int_equal(locker_handle_state(kept), LOCKER_STATE_HELD);
    assert_int_equal(locker_handle_state(ended), LOCKER_STATE_LOST);
    locker_handle_free(kept);
    locker_handle_free(ended);
    lk_mock_end(mock, l);
}

static void test_a_session_keeps_all(void **state)
{
    locker_handle *one, *two;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(&session, &l);
    (void)state;
    assert_ok(locker_lock(l, "one", NULL, &one, &err), err);
    lk_mock_advance_by(mock, 5000);
    assert_ok(locker_lock(l, "two", NULL, &two, &err), err);
    lk_mock_advance_by(mock, 5000);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 2);
    assert_int_equal(locker_handle_remaining_ms(one), 30000);
    assert_int_equal(locker_handle_remaining_ms(two), 30000);
    lk_mock_faults(mock, "renew times=4 unavailable");
    lk_mock_advance_by(mock, 20000);
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_SUSPECT);
    lk_mock_advance_by(mock, 9999);
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_SUSPECT);
    lk_mock_faults(mock, "renew times=2 unavailable");
    lk_mock_advance_by(mock, 1);
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(two), LOCKER_STATE_LOST);
    locker_mock_forget(mock);
    locker_handle_free(one);
    locker_handle_free(two);
    lk_mock_end(mock, l);
}

static void test_out_of_reach(void **state)
{
    locker_handle *h;
    locker *l;
    locker_mock *mock = hold(&l, &h, true, "renew unavailable");
    (void)state;
    lk_mock_advance_by(mock, 3000);
    locker_mock_disconnect(mock, l);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    locker_mock_reconnect(mock, l);
    lk_mock_advance_by(mock, 0);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), 2); /* at once */
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    assert_int_equal(locker_handle_remaining_ms(h), 9000);
    locker_handle_free(h);
    lk_mock_end(mock, l);
}

static void test_service_says_lost(void **state)
{
    locker_handle *one, *two;
    lk_locking call;
    locker_error err;
    locker *l;
    locker_mock *mock = hold(&l, &one, true, "");
    (void)state;
    assert_ok(locker_lock(l, "other", NULL, &two, &err), err);
    assert_false(lk_readable(locker_handle_fd(one), 0));
    lk_locking_start(&call, l, "k", NULL);
    lk_mock_await(mock, "k", 1);
    assert_int_equal(locker_mock_lose(mock, "k"), LOCKER_OK);
    lk_mock_advance_by(mock, 0);
    assert_true(lk_readable(locker_handle_fd(one), 0));
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(two), LOCKER_STATE_HELD);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK); /* the next of the FIFO asks the service */
    locker_mock_lose_all(mock, NULL);
    lk_mock_advance_by(mock, 0);
    assert_int_equal(locker_handle_state(two), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(call.held), LOCKER_STATE_LOST);
    assert_true(lk_readable(locker_handle_fd(two), 0));
    locker_handle_free(one);
    locker_handle_free(two);
    locker_handle_free(call.held);
    lk_mock_end(mock, l);
}

static void test_renewals_go_in_batches(void **state)
{
    enum { LEASES = 1500, TOGETHER = 256, ALONE = LEASES % TOGETHER };
    static locker_handle *handles[LEASES];
    static size_t by_size[TOGETHER + 1];
    locker_mock_call call;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    for (unsigned i = 0; i < LEASES; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "k%u", i);
        assert_ok(locker_lock(l, key, NULL, &handles[i], &err), err);
    }
    lk_mock_advance_by(mock, 10000);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), LEASES);
    for (size_t i = LEASES; locker_mock_call_at(mock, i, &call); i++) {
        assert_in_range(call.together, 1, TOGETHER);
        by_size[call.together]++;
    }
    assert_int_equal(by_size[TOGETHER], LEASES - ALONE);
    assert_int_equal(by_size[ALONE], ALONE);
    for (unsigned i = 0; i < LEASES; i++)
        locker_handle_free(handles[i]);
    lk_mock_end(mock, l);
}

/* Thousands in one burst would keep whatever else is asked for waiting. */
static void test_batches_are_spread_as_the_leases_are(void **state)
{
    enum { LEASES = 600, TOGETHER = 256, TTL = 9000 };
    static locker_handle *handles[LEASES];
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    o.ttl_ms = TTL;
    for (unsigned i = 0; i < LEASES; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        assert_ok(locker_lock(l, key, &o, &handles[i], &err), err);
        lk_mock_advance_by(mock, 1);
    }
    lk_mock_advance_by(mock, TTL / 3 - LEASES);
    for (int round = 0; round < 3;
         round++) { /* the first is due; and so is the first of those that did not go along */
        const unsigned before = (unsigned)(round * LEASES);
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), before + TOGETHER);
        lk_mock_advance_by(mock, TOGETHER - 1);
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), before + TOGETHER);
        lk_mock_advance_by(mock, 1);
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), before + 2 * TOGETHER);
        lk_mock_advance_by(mock, TOGETHER);
        assert_int_equal(lk_mock_calls(mock, LOCKER_OP_RENEW), before + LEASES);
        lk_mock_advance_by(mock, TTL / 3 - 2 * TOGETHER);
    }
    for (unsigned i = 0; i < LEASES; i++)
        locker_handle_free(handles[i]);
    lk_mock_end(mock, l);
}

static void test_no_reentry_into_a_lost_lock(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *first, *second;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "renew always unavailable");
    o.owner = "me";
    assert_ok(locker_lock(l, "k", &o, &first, &err), err);
    lk_mock_advance_by(mock, 30000);
    assert_ok(locker_lock(l, "k", &o, &second, &err), err);
    assert_int_equal(lk_mock_calls(mock, LOCKER_OP_ACQUIRE), 2);
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    assert_true(locker_handle_token(second) > locker_handle_token(first));
    locker_handle_free(first);
    locker_handle_free(second);
    lk_mock_end(mock, l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_renewed_at_a_third),
        cmocka_unit_test(test_retried_faster_until_the_deadline),
        cmocka_unit_test(test_a_late_confirmation_revives_nothing),
        cmocka_unit_test(test_a_deadline_never_moves_back),
        cmocka_unit_test(test_without_renewal),
        cmocka_unit_test(test_without_leases),
        cmocka_unit_test(test_a_session_keeps_all),
        cmocka_unit_test(test_out_of_reach),
        cmocka_unit_test(test_service_says_lost),
        cmocka_unit_test(test_renewals_go_in_batches),
        cmocka_unit_test(test_batches_are_spread_as_the_leases_are),
        cmocka_unit_test(test_no_reentry_into_a_lost_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
