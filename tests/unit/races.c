/*
 * races.c: what two threads may do to a claim at once, made to happen by gates: a wake, a cancel, a loss or a
 * turn that comes while the driver is inside, or between a call's being woken and its going on.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "holding.h"
#include "locking.h"
#include "probe.h"

/* For what must not come: long enough for a thread that does wrong to do it, nearly always. */
enum { A_MOMENT_MS = 200 };

static locker_handle *lock(locker *l, const char *key, const char *owner)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h;
    locker_error err;
    o.owner = owner;
    assert_ok(locker_lock(l, key, &o, &h, &err), err);
    return h;
}

static void finish(lk_locking *call)
{
    assert_status(LOCKER_OK, lk_locking_join(call), call->err);
    locker_handle_free(call->held);
}

/* ------------------------------------------------------------------ the keeper's turns ---- */

static lk_gate turned, turn_begun, turn_may_end;

static int64_t notes_turn(probe *p)
{
    (void)p;
    lk_gate_open(&turned, 1);
    return LOCKER_NEVER;
}

static int64_t stands_in_turn(probe *p)
{
    lk_gate_open(&turn_begun, 1);
    (void)lk_gate_pass(&turn_may_end);
    return notes_turn(p);
}

static void begin(probe *p)
{
    probe_init(p);
    p->dispatch = notes_turn;
    lk_gate_init(&turned);
    lk_gate_init(&turn_begun);
    lk_gate_init(&turn_may_end);
}

static void end(probe *p, locker *l)
{
    probe_end(p, l);
    lk_gate_destroy(&turned);
    lk_gate_destroy(&turn_begun);
    lk_gate_destroy(&turn_may_end);
}

/* The keeper stands in a turn until let_keeper_go(). */
static void hold_keeper(probe *p)
{
    p->svc->attend(p->svc);
    lk_gate_await(&turn_begun, 1, "the keeper is held up");
}

static void let_keeper_go(probe *p)
{
    p->dispatch = notes_turn;
    lk_gate_open(&turn_may_end, 1);
    lk_gate_await(&turned, 1, "the keeper's turn");
}

/* The keeper has looked at everything since. */
static void keeper_turns(probe *p)
{
    for (int i = 0; i < 2; i++) { /* the first turn may be of a round that began before */
        p->svc->attend(p->svc);
        lk_gate_await(&turned, 1, "the keeper's turn");
    }
}

/* ------------------------------------------------------------------ during an attempt ---- */

/* The first attempt is busy, and woken before it answers. */
static locker_status wakes_at_first(probe *p, locker_claim *claim, locker_status status)
{
    if (atomic_fetch_add(&p->mode, 1) > 0)
        return status;
    p->svc->lease_extended(p->svc, claim, claim->valid_until + claim->ttl_ns);
    p->svc->wake(p->svc, claim);
    return LOCKER_BUSY;
}

/* And what an attempt was told of its lease says nothing of the next one's. */
static void a_wake_during_an_attempt_counts(void **state)
{
    probe p;
    lk_locking call;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = wakes_at_first;
    l = probe_open(&p);
    lk_locking_start(&call, l, "k", NULL);
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    assert_int_equal(locker_handle_remaining_ms(call.held), PROBE_TTL_MS);
    assert_int_equal(atomic_load(&p.acquires), 2);
    locker_handle_free(call.held);
    end(&p, l);
}

static locker_status is_silent_at_first(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    return atomic_fetch_add(&p->mode, 1) > 0 ? status : LOCKER_TIMEOUT;
}

/* The first attempt of a call tells whether it has waited, in the lines that core keeps; each later one that it has. */
static locker_status notes_whether_it_waited(probe *p, locker_claim *claim, locker_status status)
{
    (void)atomic_fetch_or(&p->mode, (unsigned)claim->has_waited << (atomic_load(&p->acquires) - 1));
    if (atomic_load(&p->acquires) == 2)
        p->svc->wake(p->svc, claim);
    return atomic_load(&p->acquires) == 2 ? LOCKER_BUSY : status;
}

static void the_driver_learns_whether_a_claim_has_waited(void **state)
{
    probe p;
    lk_locking call;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    p.driver.pass = NULL;
    p.acquire = notes_whether_it_waited;
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    lk_give(h);
    lk_give(lk_locking_grant(&call));
    lk_give(lock(l, "k", NULL));
    assert_int_equal(atomic_load(&p.acquires), 4);
    assert_int_equal(atomic_load(&p.mode), 2 + 4); /* the second and the third */
    end(&p, l);
}

static locker_status is_away_at_first(probe *p, locker_claim *claim, locker_status status)
{
    atomic_store(&p->claim, claim);
    return atomic_load(&p->acquires) == 1 ? LOCKER_UNAVAILABLE : status;
}

/* A service that is out of reach is asked again later, not at once. */
static void a_service_out_of_reach_is_left_in_peace(void **state)
{
    probe p;
    lk_locking call;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = is_away_at_first;
    l = probe_open(&p);
    p.svc->suspect(p.svc, true);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    assert_int_equal(atomic_load(&p.acquires), 1);
    p.svc->suspect(p.svc, false);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    lk_give(lk_locking_grant(&call));
    assert_int_equal(atomic_load(&p.acquires), 2);
    end(&p, l);
}

static locker_status is_over_on_arrival_at_first(probe *p, locker_claim *claim, locker_status status)
{
    atomic_store(&p->claim, claim);
    if (atomic_load(&p->acquires) == 1)
        probe_advance(p, PROBE_TTL_MS + 1);
    return status;
}

/* A lease that is over when its answer comes is asked for again after a pause, in which others can have the lock. */
static void a_lease_that_was_over_is_asked_for_after_a_pause(void **state)
{
    probe p;
    lk_locking call;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = is_over_on_arrival_at_first;
    l = probe_open(&p);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    assert_int_equal(atomic_load(&p.acquires), 1);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    lk_give(lk_locking_grant(&call));
    assert_int_equal(atomic_load(&p.acquires), 2);
    end(&p, l);
}

static void a_silent_service_is_asked_again_at_once(void **state)
{
    probe p;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = is_silent_at_first;
    l = probe_open(&p);
    lk_give(lock(l, "k", NULL));
    assert_int_equal(atomic_load(&p.acquires), 2);
    end(&p, l);
}

/* A second goes by, and the session ends; in the end it holds. */
static locker_status loses_its_session(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    if (atomic_load(&p->acquires) < 100) {
        p->svc->lease_lost(p->svc, NULL, "the test says so");
        probe_advance(p, 1000);
    }
    return status;
}

static void a_try_does_not_outlast_session_after_session(void **state)
{
    probe p;
    locker_handle *none;
    locker_error err;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = loses_its_session;
    l = probe_open(&p);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "k", NULL, &none, &err), err);
    assert_in_range(atomic_load(&p.acquires), 2, 99);
    end(&p, l);
}

static int64_t attempts_until[2];

static locker_status loses_its_session_late(probe *p, locker_claim *claim, locker_status status)
{
    const unsigned at = atomic_fetch_add(&p->mode, 1);
    attempts_until[at % 2] = claim->attempt_until;
    if (at == 0) {
        p->svc->lease_lost(p->svc, NULL, "the test says so");
        probe_advance(p, 500);
    }
    return status;
}

static void a_try_that_is_made_again_has_the_time_of_one(void **state)
{
    probe p;
    locker_handle *held;
    locker_error err;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = loses_its_session_late;
    l = probe_open(&p);
    assert_ok(locker_try_lock(l, "k", NULL, &held, &err), err);
    assert_int_equal(atomic_load(&p.acquires), 2);
    assert_int_equal(attempts_until[1], attempts_until[0]);
    lk_give(held);
    end(&p, l);
}

static locker_status says_mode(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    claim->retry_at = LOCKER_NEVER - 1;
    atomic_store(&p->claim, claim);
    return (locker_status)atomic_load(&p->mode);
}

/* The clock that is moved by hand wakes a call whatever it sleeps until. */
static void a_wait_ends_before_a_retry_that_is_far(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking call;
    probe p;
    locker *l;
    (void)state;
    begin(&p);
    p.real_time = true;
    p.acquire = says_mode;
    atomic_store(&p.mode, LOCKER_BUSY);
    l = probe_open(&p);
    o.wait_ms = 20;
    lk_locking_start(&call, l, "k", &o);
    assert_status(LOCKER_TIMEOUT, lk_locking_join(&call), call.err);
    end(&p, l);
}

static bool has_asked_twice(void *p)
{
    return atomic_load(&((probe *)p)->acquires) == 2;
}

/* Whether somebody holds it is known at the end of the wait only if the service told it last. */
static void the_last_answer_decides_between_timeout_and_unavailable(void **state)
{
    static const struct {
        locker_status first, last;
        bool out_of_reach;
        locker_status answer;
    } cases[] = {{LOCKER_BUSY, LOCKER_BUSY, false, LOCKER_TIMEOUT},
                 {LOCKER_BUSY, LOCKER_UNAVAILABLE, false, LOCKER_UNAVAILABLE},
                 {LOCKER_UNAVAILABLE, LOCKER_BUSY, false, LOCKER_TIMEOUT},
                 {LOCKER_BUSY, LOCKER_BUSY, true, LOCKER_UNAVAILABLE}};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    (void)state;
    o.wait_ms = PROBE_TTL_MS;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        probe p;
        lk_locking call;
        locker *l;

        begin(&p);
        p.acquire = says_mode;
        atomic_store(&p.mode, cases[i].first);
        l = probe_open(&p);
        lk_locking_start(&call, l, "k", &o);
        lk_require_waiting(l, 1);
        atomic_store(&p.mode, cases[i].last);
        p.svc->wake(p.svc, atomic_load(&p.claim));
        lk_require(has_asked_twice, &p, "another attempt");
        lk_require_waiting(l, 1);
        p.svc->suspect(p.svc, cases[i].out_of_reach);
        probe_advance(&p, PROBE_TTL_MS);
        p.svc->wake(p.svc, atomic_load(&p.claim));
        assert_status(cases[i].answer, lk_locking_join(&call), call.err);
        end(&p, l);
    }
}

/* The driver knows no time for the next attempt while its service is out of reach: a waiter asks again after a second. */
static locker_status is_out_of_reach(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    atomic_store(&p->claim, claim);
    if (atomic_load(&p->acquires) > 1)
        return LOCKER_OK;
    p->svc->suspect(p->svc, true);
    claim->retry_at = LOCKER_NEVER;
    return LOCKER_UNAVAILABLE;
}

static void an_outage_is_waited_out_by_a_second(void **state)
{
    probe p;
    lk_locking call;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = is_out_of_reach;
    l = probe_open(&p);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    assert_true(atomic_load(&p.claim)->retry_at - atomic_load(&p.now) == INT64_C(1000000000));
    p.svc->suspect(p.svc, false);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    lk_give(lk_locking_grant(&call));
    end(&p, l);
}

/* ------------------------------------------------------------------ cancelling ---- */

static lk_gate interrupted, interrupt_may_end;
static atomic_int withdrawn_beside_interrupt;

static bool is_withdrawn(void *p)
{
    return atomic_load(&((probe *)p)->withdraws) > 0;
}

static locker_status interrupt_stands(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    lk_gate_open(&interrupted, 1);
    (void)lk_gate_pass(&interrupt_may_end);
    if (lk_until(is_withdrawn, p, A_MOMENT_MS))
        (void)atomic_fetch_add(&withdrawn_beside_interrupt, 1);
    return status;
}

static locker_status stands_beside_interrupt(probe *p, locker_claim *claim, locker_status status)
{
    (void)probe_stands(p, claim, status);
    lk_gate_open(&interrupt_may_end, 1);
    return LOCKER_BUSY;
}

static locker_status stands_and_is_busy(probe *p, locker_claim *claim, locker_status status)
{
    (void)probe_stands(p, claim, status);
    return LOCKER_BUSY;
}

static void a_call_outlives_its_interrupt(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call;
    locker *l;
    (void)state;
    begin(&p);
    lk_gate_init(&interrupted);
    lk_gate_init(&interrupt_may_end);
    p.acquire = stands_beside_interrupt;
    p.interrupt = interrupt_stands;
    o.cancel = locker_cancel_new();
    l = probe_open(&p);
    lk_locking_start(&call, l, "k", &o);
    lk_gate_await(&p.entered, 1, "the attempt");
    locker_cancel_fire(o.cancel);
    lk_gate_await(&interrupted, 1, "the interrupt");
    lk_gate_open(&p.leave, 1);
    assert_status(LOCKER_CANCELED, lk_locking_join(&call), call.err);
    assert_int_equal(atomic_load(&withdrawn_beside_interrupt), 0);
    assert_int_equal(atomic_load(&p.withdraws), 1);
    end(&p, l);
    locker_cancel_free(o.cancel);
    lk_gate_destroy(&interrupted);
    lk_gate_destroy(&interrupt_may_end);
}

static locker_cancel *to_reset;

static void resets(probe *p, pthread_mutex_t *mutex)
{
    (void)p, (void)mutex;
    locker_cancel_reset(to_reset);
}

/* The call was woken for a cancel that is reset before it looks. */
static void a_cancel_that_was_seen_stays_seen(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    p.waited = resets;
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    o.cancel = to_reset = locker_cancel_new();
    lk_locking_start(&call, l, "k", &o);
    lk_require_waiting(l, 1);
    locker_cancel_fire(o.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&call), call.err);
    assert_false(locker_cancel_fired(o.cancel));
    lk_give(h);
    end(&p, l);
    locker_cancel_free(o.cancel);
}

/* Key "x" stands in its attempt, where it is interrupted; all keys are busy
 * until `mode` is set. */
static locker_status stands_for_x(probe *p, locker_claim *claim, locker_status status)
{
    if (strcmp(claim->key, "x") == 0)
        (void)probe_stands(p, claim, status);
    else
        atomic_store(&p->claim, claim);
    return atomic_load(&p->mode) == 0 ? LOCKER_BUSY : status;
}

static locker_status notes_and_stands(probe *p, locker_claim *claim, locker_status status)
{
    (void)p, (void)claim;
    lk_gate_open(&interrupted, 1);
    (void)lk_gate_pass(&interrupt_may_end);
    return status;
}

/* The keeper has heard of two cancels, and is still at the first. The call of the second has ended meanwhile,
 * and its cancel is in use again. */
static void an_old_cancel_says_nothing_of_a_new_call(void **state)
{
    locker_lock_options x = LOCKER_LOCK_OPTIONS_INIT, a = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking first, second;
    locker *l;
    (void)state;
    begin(&p);
    lk_gate_init(&interrupted);
    lk_gate_init(&interrupt_may_end);
    p.acquire = stands_for_x;
    p.interrupt = notes_and_stands;
    p.dispatch = stands_in_turn;
    x.cancel = locker_cancel_new();
    a.cancel = locker_cancel_new();
    l = probe_open(&p);
    hold_keeper(&p);
    lk_locking_start(&first, l, "x", &x);
    lk_gate_await(&p.entered, 1, "the attempt for x");
    lk_locking_start(&second, l, "a", &a);
    lk_require_waiting(l, 1);
    locker_cancel_fire(x.cancel);
    locker_cancel_fire(a.cancel);
    let_keeper_go(&p);
    lk_gate_await(&interrupted, 1, "the keeper is at x's cancel");
    p.svc->wake(p.svc, atomic_load(&p.claim));
    assert_status(LOCKER_CANCELED, lk_locking_join(&second), second.err);
    locker_cancel_reset(a.cancel);
    lk_locking_start(&second, l, "a", &a);
    lk_require_waiting(l, 1);
    lk_gate_open(&interrupt_may_end, 1);
    lk_gate_open(&p.leave, 1);
    assert_status(LOCKER_CANCELED, lk_locking_join(&first), first.err);
    keeper_turns(&p);
    atomic_store(&p.mode, 1);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    finish(&second);
    end(&p, l);
    locker_cancel_free(x.cancel);
    locker_cancel_free(a.cancel);
}

/* ------------------------------------------------------------------ handing over ---- */

static lk_gate woken, may_go_on;

/* The call has been woken up, and does not get the mutex yet. */
/* One cancel for two calls: when the first has ended, it still ends the second. */
static void a_cancel_is_for_all_that_have_it(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call[2];
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    o.cancel = locker_cancel_new();
    for (int i = 0; i < 2; i++) {
        lk_locking_start(&call[i], l, "k", &o);
        lk_require_waiting(l, (uint64_t)i + 1);
    }
    lk_give(h);
    h = lk_locking_grant(&call[0]);
    locker_cancel_fire(o.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&call[1]), call[1].err);
    lk_give(h);
    end(&p, l);
    locker_cancel_free(o.cancel);
}

static void stands_when_woken(probe *p, pthread_mutex_t *mutex)
{
    if (atomic_load(&p->mode) == 0)
        return;
    pthread_mutex_unlock(mutex);
    lk_gate_open(&woken, 1);
    (void)lk_gate_pass(&may_go_on);
    pthread_mutex_lock(mutex);
}

static void a_canceled_waiter_is_handed_no_lock(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    lk_gate_init(&woken);
    lk_gate_init(&may_go_on);
    p.waited = stands_when_woken;
    atomic_store(&p.mode, 1);
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    o.cancel = locker_cancel_new();
    lk_locking_start(&call, l, "k", &o);
    lk_require_waiting(l, 1);
    locker_cancel_fire(o.cancel);
    lk_gate_await(&woken, 1, "the call that is canceled");
    atomic_store(&p.mode, 0);
    lk_give(h);
    lk_gate_open(&may_go_on, 1);
    assert_status(LOCKER_CANCELED, lk_locking_join(&call), call.err);
    assert_int_equal(atomic_load(&p.passes), 0);
    assert_int_equal(atomic_load(&p.releases), 1);
    end(&p, l);
    locker_cancel_free(o.cancel);
    lk_gate_destroy(&woken);
    lk_gate_destroy(&may_go_on);
}

static void notes_waking(probe *p, pthread_mutex_t *mutex)
{
    (void)p, (void)mutex;
    lk_gate_open(&woken, 1);
}

/* The driver works on the claim that receives: a cancel takes it away only afterwards, when it has the
 * lock. */
static void a_cancel_during_pass_waits_for_its_end(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call;
    lk_unlocking release;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    lk_gate_init(&woken);
    p.pass = probe_stands;
    p.waited = notes_waking;
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    o.cancel = locker_cancel_new();
    lk_locking_start(&call, l, "k", &o);
    lk_require_waiting(l, 1);
    lk_unlocking_start(&release, h);
    lk_gate_await(&p.entered, 1, "pass");
    locker_cancel_fire(o.cancel);
    lk_gate_await(&woken, 1, "the call that is canceled");
    lk_require_waiting(l, 1);
    lk_gate_open(&p.leave, 1);
    lk_unlocking_join(&release);
    finish(&call);
    locker_handle_free(h);
    assert_int_equal(atomic_load(&p.passes), 1);
    end(&p, l);
    locker_cancel_free(o.cancel);
    lk_gate_destroy(&woken);
}

static lk_gate releasing, release_may_end;

static locker_status release_stands(probe *p, locker_claim *claim, locker_status status)
{
    (void)p, (void)claim;
    lk_gate_open(&releasing, 1);
    (void)lk_gate_pass(&release_may_end);
    return status;
}

/* What was canceled during a pass that came to nothing does not wait for the release as well. */
static void a_cancel_during_a_refused_pass_ends_the_call(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call;
    lk_unlocking release;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    lk_gate_init(&woken);
    lk_gate_init(&releasing);
    lk_gate_init(&release_may_end);
    p.pass = stands_and_is_busy;
    p.release = release_stands;
    p.waited = notes_waking;
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    o.cancel = locker_cancel_new();
    lk_locking_start(&call, l, "k", &o);
    lk_require_waiting(l, 1);
    lk_unlocking_start(&release, h);
    lk_gate_await(&p.entered, 1, "pass");
    locker_cancel_fire(o.cancel);
    lk_gate_await(&woken, 1, "the call that is canceled");
    lk_require_waiting(l, 1);
    lk_gate_open(&p.leave, 1);
    lk_gate_await(&releasing, 1, "the release");
    assert_status(LOCKER_CANCELED, lk_locking_join(&call), call.err);
    lk_gate_open(&release_may_end, 1);
    lk_unlocking_join(&release);
    locker_handle_free(h);
    end(&p, l);
    locker_cancel_free(o.cancel);
    lk_gate_destroy(&woken);
    lk_gate_destroy(&releasing);
    lk_gate_destroy(&release_may_end);
}

static locker_status extends(probe *p, locker_claim *claim, locker_status status)
{
    p->svc->lease_extended(p->svc, claim, claim->valid_until + claim->ttl_ns);
    return status;
}

static void an_extension_during_pass_counts(void **state)
{
    probe p;
    lk_locking call;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    p.pass = extends;
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    lk_give(h);
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    assert_int_equal(locker_handle_remaining_ms(call.held), 2 * PROBE_TTL_MS);
    locker_handle_free(call.held);
    end(&p, l);
}

static void outlasts_the_lease(probe *p, pthread_mutex_t *mutex)
{
    (void)mutex;
    if (atomic_exchange(&p->mode, 0) != 0)
        probe_advance(p, PROBE_TTL_MS);
}

static locker_status is_asked_at_once(probe *p, locker_claim *claim, locker_status status)
{
    (void)p;
    claim->retry_at = claim->asked_at;
    return status;
}

/* It has the lock anew, and is not told of the one that ended. */
static void a_handed_over_lock_that_expired_is_requested_again(void **state)
{
    probe p;
    lk_locking call;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    p.waited = outlasts_the_lease;
    p.acquire = is_asked_at_once; /* until the keeper has let go of the one that ended */
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    atomic_store(&p.mode, 1);
    lk_give(h);
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    assert_int_equal(locker_handle_state(call.held), LOCKER_STATE_HELD);
    assert_int_equal(atomic_load(&p.passes), 1);
    lk_give(call.held);
    end(&p, l);
}

/* Contenders of other processes get their turn after 64; what the service grants then may be handed over 64
 * times again. The clock stands. */
static void handing_over_is_bounded_in_number(void **state)
{
    enum { AT_MOST = 64 };
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    for (int i = 0; i < 2 * (AT_MOST + 1); i++) {
        lk_locking call;

        lk_locking_start(&call, l, "k", NULL);
        lk_require_waiting(l, 1);
        lk_give(h);
        assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
        h = call.held;
        assert_int_equal(atomic_load(&p.releases), (i + 1) / (AT_MOST + 1));
    }
    lk_give(h);
    assert_int_equal(atomic_load(&p.passes), 2 * AT_MOST);
    end(&p, l);
}

/* ------------------------------------------------------------------ entering again ---- */

static locker_status grants(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    claim->token = (uint64_t)atomic_load(&p->acquires);
    claim->valid_until = atomic_load(&p->now) + claim->ttl_ns;
    return LOCKER_OK;
}

/* The keeper has not seen yet that the lease is over. */
static void an_owner_does_not_enter_an_expired_lease(void **state)
{
    probe p;
    locker_handle *first, *second;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = grants;
    p.dispatch = stands_in_turn;
    l = probe_open(&p);
    first = lock(l, "k", "me");
    hold_keeper(&p);
    probe_advance(&p, PROBE_TTL_MS);
    second = lock(l, "k", "me");
    assert_int_equal(locker_handle_token(second), 2);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    assert_int_equal(lk_stats(l).reentered, 0);
    let_keeper_go(&p);
    lk_give_lost(first);
    lk_give(second);
    end(&p, l);
}

static void an_owner_does_not_enter_a_lock_being_released(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call;
    lk_unlocking release;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    p.release = probe_stands;
    l = probe_open(&p);
    o.owner = "me";
    h = lock(l, "k", "me");
    lk_unlocking_start(&release, h);
    lk_gate_await(&p.entered, 1, "the release");
    lk_locking_start(&call, l, "k", &o);
    lk_require_waiting(l, 1);
    lk_gate_open(&p.leave, 2);
    lk_unlocking_join(&release);
    finish(&call);
    locker_handle_free(h);
    assert_int_equal(lk_stats(l).reentered, 0);
    end(&p, l);
}

/* Two calls of one owner wait. When one of them gets the lock, the other enters, as a call that comes later does. */
static void the_calls_of_an_owner_enter_together(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call[2];
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    o.owner = "me";
    h = lock(l, "k", NULL);
    for (int i = 0; i < 2; i++) {
        lk_locking_start(&call[i], l, "k", &o);
        lk_require_waiting(l, (uint64_t)i + 1);
    }
    lk_give(h);
    locker_handle *const first = lk_locking_grant(&call[0]), *const second = lk_locking_grant(&call[1]);
    assert_true(locker_handle_token(first) == locker_handle_token(second));
    assert_int_equal(lk_stats(l).reentered, 1);
    assert_int_equal(lk_stats(l).rode, 0);
    lk_give(first);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    assert_int_equal(atomic_load(&p.releases), 0);
    lk_give(second);
    end(&p, l);
}

static locker_status notes_the_first_that_waits(probe *p, locker_claim *claim, locker_status status)
{
    locker_claim *none = NULL;
    if (status == LOCKER_BUSY)
        (void)atomic_compare_exchange_strong(&p->claim, &none, claim);
    return status;
}

/* The same where the service has both in its queue: the place of the other is given up. */
static void an_owners_call_leaves_the_service_s_queue_to_enter(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call[2];
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    p.driver.caps |= LOCKER_CAP_QUEUE;
    p.acquire = notes_the_first_that_waits;
    l = probe_open(&p);
    o.owner = "me";
    h = lock(l, "k", NULL);
    for (int i = 0; i < 2; i++) {
        lk_locking_start(&call[i], l, "k", &o);
        lk_require_waiting(l, (uint64_t)i + 1);
    }
    lk_give(h);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    locker_handle *const first = lk_locking_grant(&call[0]), *const second = lk_locking_grant(&call[1]);
    assert_true(locker_handle_token(first) == locker_handle_token(second));
    assert_int_equal(lk_stats(l).reentered, 1);
    assert_int_equal(atomic_load(&p.acquires), 4);
    assert_int_equal(atomic_load(&p.withdraws), 1);
    lk_give(second);
    lk_give(first);
    end(&p, l);
}

/* One that could not enter if it came now would wait for its own owner. */
static void an_owners_call_that_can_not_enter_gets_an_error(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    lk_locking call[2];
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    o.owner = "me";
    h = lock(l, "k", NULL);
    for (int i = 0; i < 2; i++) {
        o.no_renew = i == 0;
        lk_locking_start(&call[i], l, "k", &o);
        lk_require_waiting(l, (uint64_t)i + 1);
    }
    lk_give(h);
    h = lk_locking_grant(&call[0]);
    assert_status(LOCKER_INVALID, lk_locking_join(&call[1]), call[1].err);
    lk_give(h);
    end(&p, l);
}

/* The service knows of the first one's lease alone. */
static void entering_again_makes_no_more_of_a_lease(void **state)
{
    locker_lock_options first = LOCKER_LOCK_OPTIONS_INIT, more = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_handle *h, *none;
    locker_error err;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    first.owner = more.owner = "me";
    first.no_renew = true;
    assert_ok(locker_lock(l, "k", &first, &h, &err), err);
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &more, &none, &err), err);
    more.no_renew = true;
    more.ttl_ms = PROBE_TTL_MS + 1;
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &more, &none, &err), err);
    more.ttl_ms = PROBE_TTL_MS;
    assert_ok(locker_lock(l, "k", &more, &none, &err), err);
    lk_give(none);
    lk_give(h);
    end(&p, l);
}

/* ------------------------------------------------------------------ the keeper and losses ---- */

static atomic_int told;

static void on_lost(locker_handle *lost, void *user)
{
    (void)lost, (void)user;
    (void)atomic_fetch_add(&told, 1);
}

/* Its unlock has said LOST already. */
static void a_handle_unlocked_before_the_keeper_runs_gets_no_callback(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_handle *h;
    locker_error err;
    locker *l;
    (void)state;
    begin(&p);
    p.dispatch = stands_in_turn;
    o.on_lost = on_lost;
    atomic_store(&told, 0);
    l = probe_open(&p);
    assert_ok(locker_lock(l, "k", &o, &h, &err), err);
    hold_keeper(&p);
    p.svc->lease_lost(p.svc, (locker_claim *)(uintptr_t)p.holder, "the test says so");
    assert_status(LOCKER_LOST, locker_unlock(h, &err), err);
    let_keeper_go(&p);
    keeper_turns(&p);
    assert_int_equal(atomic_load(&p.withdraws), 1);
    assert_int_equal(atomic_load(&told), 0);
    locker_handle_free(h);
    end(&p, l);
}

/* Nor has the keeper seen that the lease is over. */
static void an_unlock_sees_for_itself_that_the_lease_is_over(void **state)
{
    probe p;
    locker_handle *h;
    locker_error err;
    locker *l;
    (void)state;
    begin(&p);
    p.dispatch = stands_in_turn;
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    hold_keeper(&p);
    probe_advance(&p, PROBE_TTL_MS);
    assert_status(LOCKER_LOST, locker_unlock(h, &err), err);
    assert_int_equal(atomic_load(&p.releases), 0);
    let_keeper_go(&p);
    locker_handle_free(h);
    end(&p, l);
}

static void the_descriptor_of_what_was_unlocked_is_quiet(void **state)
{
    probe p;
    locker_handle *h;
    locker_error err;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    assert_ok(locker_unlock(h, &err), err);
    assert_false(lk_readable(locker_handle_fd(h), 0));
    locker_handle_free(h);
    end(&p, l);
}

static locker_status confirms(probe *p, locker_claim *claim, locker_status status)
{
    p->svc->lease_extended(p->svc, claim, atomic_load(&p->now) + claim->ttl_ns);
    return status;
}

/* When the service is back in reach, what was not confirmed is renewed at once, and only that. */
static void a_confirmed_lease_is_not_renewed_early(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    p.renew = confirms;
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    probe_advance(&p, PROBE_TTL_MS / 3);
    keeper_turns(&p);
    assert_int_equal(atomic_load(&p.renews), 1);
    p.svc->suspect(p.svc, true);
    p.svc->suspect(p.svc, false);
    keeper_turns(&p);
    assert_int_equal(atomic_load(&p.renews), 1);
    lk_give(h);
    end(&p, l);
}

static size_t together;

static void notes_how_many(void *self, locker_claim *const *grants_, size_t count)
{
    (void)self, (void)grants_;
    together = count > together ? count : together;
}

/* A renewal takes along one that is due a little later. */
static void leases_of_about_one_time_are_renewed_together(void **state)
{
    probe p;
    locker_handle *first, *second;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = grants;
    p.driver.renew = notes_how_many;
    together = 0;
    l = probe_open(&p);
    first = lock(l, "a", NULL);
    probe_advance(&p, PROBE_TTL_MS / 30);
    second = lock(l, "b", NULL);
    probe_advance(&p, PROBE_TTL_MS / 3 - PROBE_TTL_MS / 30);
    keeper_turns(&p);
    assert_int_equal(together, 2);
    lk_give(first);
    lk_give(second);
    end(&p, l);
}

/* However near its end, a lease is renewed with a pause between two attempts. */
static void a_lease_that_ends_is_not_renewed_without_a_pause(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    probe_advance(&p, PROBE_TTL_MS - 30);
    keeper_turns(&p);
    assert_int_equal(atomic_load(&p.renews), 1);
    probe_advance(&p, 10);
    keeper_turns(&p);
    assert_int_equal(atomic_load(&p.renews), 1);
    probe_advance(&p, 10);
    keeper_turns(&p);
    assert_int_equal(atomic_load(&p.renews), 2);
    lk_give(h);
    end(&p, l);
}

/* Whether somebody has tried to renew it or not. */
static void a_lease_is_suspect_when_a_third_is_left(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    h = lock(l, "k", NULL);
    probe_advance(&p, PROBE_TTL_MS * 2 / 3 - 1);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    probe_advance(&p, 1);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    lk_give(h);
    end(&p, l);
}

/* Nobody is to confirm it, so nothing is late. */
static void a_lease_without_renewal_is_never_suspect(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_handle *h;
    locker_error err;
    locker *l;
    (void)state;
    begin(&p);
    l = probe_open(&p);
    o.no_renew = true;
    assert_ok(locker_lock(l, "k", &o, &h, &err), err);
    p.svc->suspect(p.svc, true);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    lk_give(h);
    end(&p, l);
}

/* However leases come and go, each ends at its own time. */
static void each_lease_ends_at_its_own_time(void **state)
{
    enum { LEASES = 200, TIMES = 1000 };
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *handles[LEASES];
    int ended[TIMES + 1] = {0};
    unsigned random = 1;
    probe p;
    locker *l;
    (void)state;
    begin(&p);
    p.acquire = grants;
    l = probe_open(&p);
    o.no_renew = true;
    for (int i = 0; i < LEASES; i++) {
        char key[16];
        locker_error err;

        random = random * 1103515245 + 12345;
        o.ttl_ms = 1 + (random >> 16) % TIMES;
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_ok(locker_lock(l, key, &o, &handles[i], &err), err);
        if (i % 2 != 0)
            ended[o.ttl_ms]++;
    }
    for (int i = 0; i < LEASES; i += 2)
        lk_give(handles[i]);
    for (int at = 1, all = 0; at <= TIMES; at++) {
        probe_advance(&p, 1);
        all += ended[at];
        if (ended[at] == 0)
            continue;
        keeper_turns(&p);
        assert_int_equal(atomic_load(&p.withdraws), all);
    }
    for (int i = 1; i < LEASES; i += 2)
        locker_handle_free(handles[i]);
    end(&p, l);
}

/* ------------------------------------------------------------------ turns ---- */

static atomic_int inside, met;

static bool have_met(void *unused)
{
    (void)unused;
    return atomic_load(&met) > 0;
}

/* The keeper stands in its first turn; who comes next takes what rang, and wakes the call. */
static int64_t one_at_a_time(probe *p)
{
    uint64_t rung;
    if (atomic_fetch_add(&inside, 1) != 0)
        (void)atomic_fetch_add(&met, 1);
    if (atomic_fetch_add(&p->mode, 1) == 0) {
        lk_gate_open(&turn_begun, 1);
        (void)lk_gate_pass(&turn_may_end);
        (void)lk_until(have_met, NULL, A_MOMENT_MS);
    } else if (read(p->fd, &rung, sizeof rung) > 0) {
        p->svc->wake(p->svc, atomic_load(&p->claim));
    }
    (void)atomic_fetch_sub(&inside, 1);
    return LOCKER_NEVER;
}

/* Busy, until the driver's descriptor has rung. */
static locker_status busy_at_first(probe *p, locker_claim *claim, locker_status status)
{
    if (atomic_exchange(&p->claim, claim) == NULL)
        return LOCKER_BUSY;
    return status;
}

static void begin_with_a_leader(probe *p)
{
    begin(p);
    p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->driver.caps |= LOCKER_CAP_QUEUE;
    p->acquire = busy_at_first;
}

static void ring(const probe *p)
{
    const uint64_t one = 1;
    assert_int_equal(write(p->fd, &one, sizeof one), sizeof one);
}

static void dispatch_never_runs_twice_at_once(void **state)
{
    probe p;
    lk_locking call;
    locker *l;
    (void)state;
    begin_with_a_leader(&p);
    p.dispatch = one_at_a_time;
    l = probe_open(&p);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    p.svc->attend(p.svc);
    lk_gate_await(&turn_begun, 1, "the keeper's turn");
    ring(&p);
    lk_gate_open(&turn_may_end, 1);
    finish(&call);
    assert_int_equal(atomic_load(&met), 0);
    end(&p, l);
}

static _Atomic(pthread_t) caller;
static atomic_bool asked;

static locker_status busy_for_a_caller(probe *p, locker_claim *claim, locker_status status)
{
    atomic_store(&caller, pthread_self());
    return busy_at_first(p, claim, status);
}

/* In its turn the call that waits asks for another at once, which is the keeper's to give. What rings before
 * the call leads stays for it. */
static int64_t asks_the_keeper(probe *p)
{
    const bool is_keeper = !pthread_equal(atomic_load(&caller), pthread_self());
    uint64_t rung;
    if (read(p->fd, &rung, sizeof rung) > 0) {
        if (is_keeper)
            ring(p);
        else
            atomic_store(&asked, true);
        return is_keeper ? LOCKER_NEVER : atomic_load(&p->now);
    }
    if (!is_keeper || !atomic_load(&asked))
        return LOCKER_NEVER;
    lk_gate_open(&turned, 1);
    p->svc->wake(p->svc, atomic_load(&p->claim));
    return LOCKER_NEVER;
}

static void an_early_turn_is_the_keepers(void **state)
{
    probe p;
    lk_locking call;
    locker *l;
    (void)state;
    begin_with_a_leader(&p);
    atomic_store(&asked, false);
    p.acquire = busy_for_a_caller;
    p.dispatch = asks_the_keeper;
    l = probe_open(&p);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    ring(&p);
    lk_gate_await(&turned, 1, "the keeper's turn");
    finish(&call);
    end(&p, l);
}

/* ------------------------------------------------------------------ no thread for it ---- */

/* The library's calls of pthread_create() and the tests' own (CMakeLists.txt). */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int no_threads; /* the errno of each; 0: threads are to be had */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument)
{
    return no_threads != 0 ? no_threads : __real_pthread_create(thread, attr, run, argument);
}

static unsigned closed;

static void counts_closing(void *self)
{
    (void)self;
    closed++;
}

/* The limit on threads is reached: no locker is opened that would renew nothing, and the driver is closed again. */
static void without_a_keeper_there_is_no_locker(void **state)
{
    probe p;
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker_error err;
    (void)state;
    begin(&p);
    locker *l = probe_open(&p);
    assert_int_equal(locker_close(l), LOCKER_OK);
    p.driver.close = counts_closing;
    no_threads = EAGAIN;
    const locker_status status = locker_open_driver(&p.driver, &o, &l, &err);
    no_threads = 0;
    assert_status(LOCKER_UNAVAILABLE, status, err);
    assert_null(l);
    assert_int_equal(err.os_error, EAGAIN);
    assert_non_null(strstr(err.text, "raise the limit on processes and threads"));
    assert_int_equal(closed, 1);
    end(&p, probe_open(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wake_during_an_attempt_counts),
        cmocka_unit_test(the_driver_learns_whether_a_claim_has_waited),
        cmocka_unit_test(a_service_out_of_reach_is_left_in_peace),
        cmocka_unit_test(a_lease_that_was_over_is_asked_for_after_a_pause),
        cmocka_unit_test(a_silent_service_is_asked_again_at_once),
        cmocka_unit_test(an_outage_is_waited_out_by_a_second),
        cmocka_unit_test(a_try_does_not_outlast_session_after_session),
        cmocka_unit_test(a_try_that_is_made_again_has_the_time_of_one),
        cmocka_unit_test(a_wait_ends_before_a_retry_that_is_far),
        cmocka_unit_test(the_last_answer_decides_between_timeout_and_unavailable),
        cmocka_unit_test(a_call_outlives_its_interrupt),
        cmocka_unit_test(a_cancel_that_was_seen_stays_seen),
        cmocka_unit_test(a_cancel_is_for_all_that_have_it),
        cmocka_unit_test(an_old_cancel_says_nothing_of_a_new_call),
        cmocka_unit_test(a_canceled_waiter_is_handed_no_lock),
        cmocka_unit_test(a_cancel_during_pass_waits_for_its_end),
        cmocka_unit_test(a_cancel_during_a_refused_pass_ends_the_call),
        cmocka_unit_test(an_extension_during_pass_counts),
        cmocka_unit_test(a_handed_over_lock_that_expired_is_requested_again),
        cmocka_unit_test(handing_over_is_bounded_in_number),
        cmocka_unit_test(an_owner_does_not_enter_an_expired_lease),
        cmocka_unit_test(an_owner_does_not_enter_a_lock_being_released),
        cmocka_unit_test(the_calls_of_an_owner_enter_together),
        cmocka_unit_test(an_owners_call_leaves_the_service_s_queue_to_enter),
        cmocka_unit_test(an_owners_call_that_can_not_enter_gets_an_error),
        cmocka_unit_test(entering_again_makes_no_more_of_a_lease),
        cmocka_unit_test(a_handle_unlocked_before_the_keeper_runs_gets_no_callback),
        cmocka_unit_test(an_unlock_sees_for_itself_that_the_lease_is_over),
        cmocka_unit_test(the_descriptor_of_what_was_unlocked_is_quiet),
        cmocka_unit_test(a_confirmed_lease_is_not_renewed_early),
        cmocka_unit_test(leases_of_about_one_time_are_renewed_together),
        cmocka_unit_test(a_lease_that_ends_is_not_renewed_without_a_pause),
        cmocka_unit_test(a_lease_is_suspect_when_a_third_is_left),
        cmocka_unit_test(a_lease_without_renewal_is_never_suspect),
        cmocka_unit_test(each_lease_ends_at_its_own_time),
        cmocka_unit_test(dispatch_never_runs_twice_at_once),
        cmocka_unit_test(an_early_turn_is_the_keepers),
        cmocka_unit_test(without_a_keeper_there_is_no_locker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
