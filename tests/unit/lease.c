/* lease.c: renewal, SUSPECT, and LOST by the local deadline, on a clock moved by hand. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

#include "locking.h"
#include "script.h"

/* A lock with a lease of 9 s, renewed at 3, 5, 6.33 ... s when no answer comes. */
static struct script *hold(locker **l, locker_handle **h, bool renew)
{
    struct script *s = script_open(0, l);
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;

    o.ttl_ms = 9000;
    o.no_renew = !renew;
    assert_ok(locker_lock(*l, "k", &o, h, &err), err);
    return s;
}

static void test_renewed_at_a_third(void **state)
{
    locker_handle *h;
    locker *l;
    struct script *s = hold(&l, &h, true);

    (void)state;
    for (unsigned i = 1; i <= 5; i++) {
        script_advance(s, 2700); /* a little slack gathers renewals into batches: 1/16 of a third */
        assert_int_equal(s->renew_calls, i - 1);
        script_advance(s, 300);
        lk_gate_await(&s->renewed, 1, "a renewal");
        script_extend(s, script_claim(s, 0), 9000);
        assert_int_equal(locker_handle_remaining_ms(h), 9000);
        assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    }
    assert_int_equal(lk_stats(l).renewals, 5);
    locker_handle_free(h);
    script_close(s, l);
}

static void test_retried_faster_until_the_deadline(void **state)
{
    locker_handle *h;
    locker *l;
    struct script *s = hold(&l, &h, true);

    (void)state;
    script_advance(s, 3000);
    lk_gate_await(&s->renewed, 1, "the renewal");
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    script_advance(s, 2000);
    lk_gate_await(&s->renewed, 1, "the second try");
    script_advance(s, 1334);
    lk_gate_await(&s->renewed, 1, "the third try");
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    script_advance(s, 2665);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    assert_int_equal(locker_handle_remaining_ms(h), 1);
    script_advance(s, 1);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_remaining_ms(h), 0);
    lk_gate_await(&s->withdrew, 1, "the withdrawal of what was lost");
    locker_handle_free(h);
    assert_int_equal(lk_stats(l).lost, 1);
    assert_int_equal(lk_stats(l).held, 0);
    script_close(s, l);
}

static void test_a_late_confirmation_revives_nothing(void **state)
{
    locker_handle *h;
    locker_error err;
    locker *l;
    struct script *s = hold(&l, &h, true);
    locker_claim *claim = script_claim(s, 0);

    (void)state;
    (void)pthread_mutex_lock(&s->mutex); /* the withdrawal has to wait: the claim is still the driver's */
    script_advance(s, 9000);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    s->svc->lease_extended(s->svc, claim, script_now(s) + INT64_C(9000000000));
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    (void)pthread_mutex_unlock(&s->mutex);
    assert_status(LOCKER_LOST, locker_unlock(h, &err), err);
    assert_status(LOCKER_INVALID, locker_unlock(h, &err), err);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    locker_handle_free(h);
    lk_gate_await(&s->withdrew, 1, "the withdrawal");
    script_close(s, l);
}

static void test_a_deadline_never_moves_back(void **state)
{
    locker_handle *h;
    locker *l;
    struct script *s = hold(&l, &h, true);

    (void)state;
    script_extend(s, script_claim(s, 0), 1000);
    assert_int_equal(locker_handle_remaining_ms(h), 9000);
    locker_handle_free(h);
    script_close(s, l);
}

static void test_without_renewal(void **state)
{
    locker_handle *h;
    locker *l;
    struct script *s = hold(&l, &h, false);

    (void)state;
    script_advance(s, 8999);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    script_advance(s, 1);
    lk_gate_await(&s->withdrew, 1, "the withdrawal");
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_int_equal(s->renew_calls, 0);
    locker_handle_free(h);
    script_close(s, l);
}

/* A driver without leases: core itself ends what isn't renewed, and leaves the others alone. */
static void test_without_leases(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *kept, *ended;
    locker_error err;
    locker *l;
    struct script *s = script_open(SCRIPT_NO_LEASES, &l);

    (void)state;
    script_usual(s, (struct script_answer){LOCKER_OK, 0, -1, 0});
    assert_ok(locker_lock(l, "kept", NULL, &kept, &err), err);
    o.no_renew = true;
    o.ttl_ms = 1000;
    assert_ok(locker_lock(l, "ended", &o, &ended, &err), err);
    assert_int_equal(locker_handle_remaining_ms(kept), -1);
    assert_int_equal(locker_handle_remaining_ms(ended), 1000);
    script_advance(s, 1000);
    lk_gate_await(&s->withdrew, 1, "the withdrawal");
    assert_int_equal(locker_handle_state(kept), LOCKER_STATE_HELD);
    assert_int_equal(locker_handle_state(ended), LOCKER_STATE_LOST);
    locker_handle_free(kept);
    locker_handle_free(ended);
    script_close(s, l);
}

static void test_out_of_reach(void **state)
{
    locker_handle *h;
    locker *l;
    struct script *s = hold(&l, &h, true);

    (void)state;
    script_advance(s, 3000);
    lk_gate_await(&s->renewed, 1, "the renewal");
    s->svc->suspect(s->svc, true);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    s->svc->suspect(s->svc, false);
    lk_gate_await(&s->renewed, 1, "the renewal at once");
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    locker_handle_free(h);
    script_close(s, l);
}

static void test_service_says_lost(void **state)
{
    locker_handle *one, *two;
    struct lk_locking call;
    locker_error err;
    locker *l;
    struct script *s = hold(&l, &one, true);

    (void)state;
    assert_ok(locker_lock(l, "other", NULL, &two, &err), err);
    assert_false(lk_readable(locker_handle_fd(one), 0));
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    s->svc->lease_lost(s->svc, script_claim(s, 0), "it was deleted");
    assert_true(lk_readable(locker_handle_fd(one), LK_TEST_PATIENCE_MS));
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(two), LOCKER_STATE_HELD);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK); /* the next of the FIFO asks the service */
    s->svc->lease_lost(s->svc, NULL, "the session is gone");
    lk_require_state(two, LOCKER_STATE_LOST);
    lk_require_state(call.held, LOCKER_STATE_LOST);
    assert_true(lk_readable(locker_handle_fd(two), LK_TEST_PATIENCE_MS));
    locker_handle_free(one);
    locker_handle_free(two);
    locker_handle_free(call.held);
    script_close(s, l);
}

static bool asked_for_all(void *context)
{
    struct script *s = context;
    bool all;

    (void)pthread_mutex_lock(&s->mutex);
    all = s->renew_grants >= 500;
    (void)pthread_mutex_unlock(&s->mutex);
    return all;
}

static void test_renewals_go_in_batches(void **state)
{
    static locker_handle *handles[500];
    locker_error err;
    locker *l;
    struct script *s = script_open(0, &l);

    (void)state;
    for (unsigned i = 0; i < 500; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "k%u", i);
        assert_ok(locker_lock(l, key, NULL, &handles[i], &err), err);
    }
    script_advance(s, 10000);
    lk_require(asked_for_all, s, "500 renewals");
    assert_int_equal(s->renew_grants, 500);
    assert_int_equal(s->renew_calls, 2);
    for (unsigned i = 0; i < 500; i++)
        locker_handle_free(handles[i]);
    script_close(s, l);
}

static void test_no_reentry_into_a_lost_lock(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *first, *second;
    locker_error err;
    locker *l;
    struct script *s = script_open(0, &l);

    (void)state;
    o.owner = "me";
    assert_ok(locker_lock(l, "k", &o, &first, &err), err);
    script_advance(s, 30000);
    assert_ok(locker_lock(l, "k", &o, &second, &err), err);
    assert_int_equal(s->attempts, 2);
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    assert_true(locker_handle_token(second) > locker_handle_token(first));
    locker_handle_free(first);
    locker_handle_free(second);
    script_close(s, l);
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
        cmocka_unit_test(test_out_of_reach),
        cmocka_unit_test(test_service_says_lost),
        cmocka_unit_test(test_renewals_go_in_batches),
        cmocka_unit_test(test_no_reentry_into_a_lost_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
