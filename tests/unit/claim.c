/*
 * claim.c: what becomes of events that come while the driver is inside an operation: the table of "A claim,
 * step by step" in ARCHITECTURE.md. And nobody lets go of a claim that is still inside.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <locker/instrument.h>

#include "holding.h"
#include "locking.h"
#include "probe.h"

static locker_status lock(locker *l, locker_handle **h)
{
    locker_error err;
    locker_status status = locker_lock(l, "k", NULL, h, &err);
    assert_int_equal(status, err.status);
    return status;
}

/* ------------------------------------------------------------------ losses ---- */

enum { LOSE_IT = 1, LOSE_ALL = 2 };

/* Once, as `mode` says. */
static locker_status loses(probe *p, locker_claim *claim, locker_status status)
{
    unsigned mode = status == LOCKER_OK ? atomic_exchange(&p->mode, 0) : 0;
    if (mode != 0)
        p->svc->lease_lost(p->svc, mode == LOSE_ALL ? NULL : claim, "the test says so");
    return status;
}

static void a_loss_during_acquire_is_reported(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = loses;
    l = probe_open(&p);
    atomic_store(&p.mode, LOSE_IT);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_true(lk_readable(locker_handle_fd(h), LK_TEST_PATIENCE_MS));
    lk_give_lost(h);
    probe_end(&p, l);
    assert_int_equal(atomic_load(&p.withdraws), 1);
}

/* Whether the grant is of the session that ended is not known: it is given back, and asked for again, also by
 * a try. */
static void a_grant_of_a_session_that_ended_is_asked_for_again(void **state)
{
    (void)state;
    for (int try = 0; try < 2; try++) {
        probe p;
        locker_handle *h;
        locker_error err;
        locker *l;

        probe_init(&p);
        p.acquire = loses;
        l = probe_open(&p);
        atomic_store(&p.mode, LOSE_ALL);
        assert_ok(try ? locker_try_lock(l, "k", NULL, &h, &err) : locker_lock(l, "k", NULL, &h, &err), err);
        assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
        assert_int_equal(locker_handle_token(h), 2);
        assert_int_equal(atomic_load(&p.acquires), 2);
        assert_int_equal(atomic_load(&p.withdraws), 1);
        locker_handle_free(h);
        probe_end(&p, l);
    }
}

static locker_status checks_bytes(probe *p, locker_claim *claim, locker_status status)
{
    const probe_claim *c = claim->data;
    if (c->attempts != 1)
        (void)atomic_fetch_add(&p->leftovers, 1);
    claim->valid_until = atomic_load(&p->acquires) < 3 ? atomic_load(&p->now) : claim->valid_until;
    return status;
}

/* Twice in a row its lease was over when the answer came. To the driver each is a new claim. */
static void a_late_grant_is_withdrawn_once(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = checks_bytes;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    assert_int_equal(atomic_load(&p.acquires), 3);
    assert_int_equal(atomic_load(&p.withdraws), 2);
    assert_int_equal(atomic_load(&p.leftovers), 0);
    locker_handle_free(h);
    probe_end(&p, l);
}

static locker_status is_late(probe *p, locker_claim *claim, locker_status status)
{
    claim->valid_until = atomic_load(&p->now);
    return status;
}

static void a_late_try_is_withdrawn_once(void **state)
{
    probe p;
    locker_handle *h;
    locker_error err;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = is_late;
    l = probe_open(&p);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "k", NULL, &h, &err), err);
    assert_int_equal(atomic_load(&p.withdraws), 1);
    probe_end(&p, l);
}

/* The unlock has handed the lock over, with success; the one that was to have it goes on waiting and
 * contends. */
static void a_loss_during_pass_is_not_a_grant(void **state)
{
    (void)state;
    for (unsigned mode = LOSE_IT; mode <= LOSE_ALL; mode++) {
        probe p;
        lk_locking call;
        locker_handle *h;
        locker *l;

        probe_init(&p);
        p.pass = loses;
        l = probe_open(&p);
        assert_int_equal(lock(l, &h), LOCKER_OK);
        lk_locking_start(&call, l, "k", NULL);
        lk_require_waiting(l, 1);
        atomic_store(&p.mode, mode);
        lk_give(h);
        assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
        assert_int_equal(locker_handle_state(call.held), LOCKER_STATE_HELD);
        assert_int_equal(atomic_load(&p.passes), 1);
        assert_int_equal(atomic_load(&p.withdraws), 1);
        assert_int_equal(atomic_load(&p.acquires), 2);
        assert_int_equal(lk_stats(l).handed_over, 0);
        locker_handle_free(call.held);
        probe_end(&p, l);
    }
}

static const locker_claim *from;

static locker_status loses_the_giver(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    p->svc->lease_lost(p->svc, (locker_claim *)(uintptr_t)from, "the test says so");
    return status;
}

/* The driver passes on what it was told to be lost a moment before: nobody has it. */
static void a_loss_of_what_is_passed_is_a_loss_of_both(void **state)
{
    probe p;
    lk_locking call;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.pass = loses_the_giver;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    from = p.holder;
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    lk_give_lost(h);
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    assert_int_equal(atomic_load(&p.withdraws), 1);
    assert_int_equal(atomic_load(&p.acquires), 2);
    locker_handle_free(call.held);
    probe_end(&p, l);
}

/* ---------------------------------------------------------------- who was handed it has not woken up ---- */

static pthread_cond_t *_Atomic sleeper;
static pthread_mutex_t *_Atomic of_core;
static void (*wait_of_the_probe)(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until);

static void notes_the_mutex(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    atomic_store(&of_core, mutex);
    wait_of_the_probe(context, cond, mutex, until);
}

static void wakes_later(void *context, pthread_cond_t *cond)
{
    (void)context;
    atomic_store(&sleeper, cond);
}

static const struct locker_clock_hooks wakes = {.signal = wakes_later};

static void wake_now(void)
{
    pthread_mutex_lock(atomic_load(&of_core)); /* who wakes up destroys the condition */
    pthread_cond_signal(atomic_load(&sleeper));
    pthread_mutex_unlock(atomic_load(&of_core));
}

/* The same owner enters and leaves before the call that was handed the lock wakes up: the lock is that
 * call's. */
static void an_owner_leaves_before_the_first_call_has_woken_up(void **state)
{
    probe p;
    lk_locking call;
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *h, *again;
    locker_error err;
    locker *l;
    (void)state;
    probe_init(&p);
    p.clock.hooks = &wakes;
    wait_of_the_probe = p.clock.wait;
    p.clock.wait = notes_the_mutex;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    o.owner = "me";
    lk_locking_start(&call, l, "k", &o);
    lk_require_waiting(l, 1);
    lk_give(h);
    assert_ok(locker_lock(l, "k", &o, &again, &err), err);
    assert_ok(locker_unlock(again, &err), err);
    assert_int_equal(atomic_load(&p.releases), 0);
    wake_now();
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    assert_int_equal(locker_handle_state(call.held), LOCKER_STATE_HELD);
    assert_ok(locker_unlock(call.held, &err), err);
    assert_int_equal(atomic_load(&p.releases), 1);
    locker_handle_free(again);
    locker_handle_free(call.held);
    probe_end(&p, l);
}

static bool has_withdrawn(void *p)
{
    return atomic_load(&((probe *)p)->withdraws) == 1;
}

/* Lost, or its lease over, before the call that was handed it wakes up: nobody has used it, so the call goes
 * on waiting for one that is held. */
static void a_lock_lost_before_its_call_wakes_up_is_requested_again(void **state)
{
    (void)state;
    for (unsigned mode = 0; mode <= LOSE_ALL; mode++) {
        probe p;
        lk_locking call;
        locker_handle *h;
        locker *l;

        probe_init(&p);
        p.clock.hooks = &wakes;
        wait_of_the_probe = p.clock.wait;
        p.clock.wait = notes_the_mutex;
        l = probe_open(&p);
        assert_int_equal(lock(l, &h), LOCKER_OK);
        lk_locking_start(&call, l, "k", NULL);
        lk_require_waiting(l, 1);
        lk_give(h);
        if (mode != 0)
            p.svc->lease_lost(p.svc, mode == LOSE_ALL ? NULL : (locker_claim *)(uintptr_t)p.holder,
                              "the test says so");
        else
            probe_advance(&p, PROBE_TTL_MS);
        p.svc->attend(p.svc);
        lk_require(has_withdrawn, &p, "the keeper has ended what was lost");
        wake_now();
        assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
        assert_int_equal(locker_handle_state(call.held), LOCKER_STATE_HELD);
        assert_int_equal(atomic_load(&p.acquires), 2);
        assert_int_equal(lk_stats(l).failed, 0);
        locker_handle_free(call.held);
        probe_end(&p, l);
    }
}

enum { HEAP_BEGINS_WITH = 64 };

static lk_locking other;
static locker *others;

static locker_status grants_all(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    if (claim->key[0] == 'x')
        (void)probe_stands(p, claim, LOCKER_OK);
    claim->token = 1;
    claim->valid_until = atomic_load(&p->now) + claim->ttl_ns;
    return LOCKER_OK;
}

static locker_status another_asks(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    lk_locking_start(&other, others, "x", NULL);
    lk_gate_await(&p->entered, 1, "an attempt during the hand-over");
    return status;
}

/* A lease that is handed over leaves its place in the keeper's table and takes one that was promised to its
 * call; who comes in between and before that call wakes up has a place, too. (The address sanitizer sees.) */
static void every_lease_has_its_place(void **state)
{
    static locker_handle *held[HEAP_BEGINS_WITH - 2];
    probe p;
    lk_locking call;
    locker_handle *h, *y;
    locker_error err;
    (void)state;
    probe_init(&p);
    p.clock.hooks = &wakes;
    wait_of_the_probe = p.clock.wait;
    p.clock.wait = notes_the_mutex;
    p.acquire = grants_all;
    p.pass = another_asks;
    others = probe_open(&p);
    for (int i = 0; i < HEAP_BEGINS_WITH - 2; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "%d", i);
        assert_ok(locker_lock(others, key, NULL, &held[i], &err), err);
    }
    assert_int_equal(lock(others, &h), LOCKER_OK);
    lk_locking_start(&call, others, "k", NULL);
    lk_require_waiting(others, 1);
    assert_ok(locker_unlock(h, &err), err);
    assert_ok(locker_lock(others, "y", NULL, &y, &err), err);
    lk_gate_open(&p.leave, 1);
    assert_status(LOCKER_OK, lk_locking_join(&other), other.err);
    wake_now();
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    for (int i = 0; i < HEAP_BEGINS_WITH - 2; i++)
        locker_handle_free(held[i]);
    locker_handle_free(h);
    locker_handle_free(y);
    locker_handle_free(other.held);
    locker_handle_free(call.held);
    probe_end(&p, others);
}

/* ------------------------------------------------------------------ time ---- */

static locker_status expires(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    probe_advance(p, PROBE_TTL_MS);
    return status;
}

static void a_lease_that_ends_during_pass_is_not_a_grant(void **state)
{
    probe p;
    lk_locking call;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.pass = expires;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    lk_locking_start(&call, l, "k", NULL);
    lk_require_waiting(l, 1);
    lk_give(h);
    assert_status(LOCKER_OK, lk_locking_join(&call), call.err);
    assert_int_equal(locker_handle_state(call.held), LOCKER_STATE_HELD);
    assert_int_equal(atomic_load(&p.withdraws), 1);
    locker_handle_free(call.held);
    probe_end(&p, l);
}

static locker_status extends(probe *p, locker_claim *claim, locker_status status)
{
    p->svc->lease_extended(p->svc, claim, claim->valid_until + claim->ttl_ns);
    return status;
}

static void an_extension_during_acquire_counts(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = extends;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    assert_int_equal(locker_handle_remaining_ms(h), 2 * PROBE_TTL_MS);
    locker_handle_free(h);
    probe_end(&p, l);
}

static locker_status shortens(probe *p, locker_claim *claim, locker_status status)
{
    p->svc->lease_extended(p->svc, claim, claim->valid_until + claim->ttl_ns);
    p->svc->lease_shortened(p->svc, claim, claim->valid_until - INT64_C(1000000000));
    p->svc->lease_shortened(p->svc, claim, claim->valid_until);
    return status;
}

static bool is_renewed(void *context)
{
    return atomic_load(&((probe *)context)->renews) > 0;
}

static void a_lease_that_is_shortened_during_acquire_is_short(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = shortens;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    assert_int_equal(locker_handle_remaining_ms(h), PROBE_TTL_MS - 1000);
    lk_require(is_renewed, &p, "the lease should be renewed at once");
    locker_handle_free(h);
    probe_end(&p, l);
}

static locker_status shortens_to_nothing(probe *p, locker_claim *claim, locker_status status)
{
    if (atomic_load(&p->acquires) == 1)
        p->svc->lease_shortened(p->svc, claim, 0);
    return status;
}

/* By so much that it would have ended before the host came up. */
static void a_lease_that_is_shortened_to_nothing_during_acquire_is_none(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = shortens_to_nothing;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    assert_int_equal(atomic_load(&p.acquires), 2);
    lk_give(h);
    probe_end(&p, l);
}

static void shorten(probe *p, int64_t left_ms)
{
    p->svc->lease_shortened(p->svc, (locker_claim *)(uintptr_t)p->holder,
                            atomic_load(&p->now) + left_ms * INT64_C(1000000));
}

/* It is in doubt from two thirds of what is left on, unless a renewal counts, which is asked for at once. */
static void a_lease_that_is_shortened_ends_then(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    shorten(&p, 3000);
    assert_int_equal(locker_handle_remaining_ms(h), 3000);
    lk_require(is_renewed, &p, "the lease should be renewed at once");
    shorten(&p, 6000);
    assert_int_equal(locker_handle_remaining_ms(h), 3000);
    probe_advance(&p, 1999);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    probe_advance(&p, 1);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_SUSPECT);
    p.svc->lease_extended(p.svc, (locker_claim *)(uintptr_t)p.holder,
                          atomic_load(&p.now) + INT64_C(9000000000));
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    assert_int_equal(locker_handle_remaining_ms(h), 9000);
    shorten(&p, 1000);
    probe_advance(&p, 1000);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    lk_give_lost(h);
    probe_end(&p, l);
}

/* The handle says so at once, and its callback is called by then or soon. */
static void a_lease_that_is_shortened_to_nothing_is_lost(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.withdraw = probe_stands;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    locker_claim *const claim = (locker_claim *)(uintptr_t)p.holder;
    p.svc->lease_shortened(p.svc, claim, atomic_load(&p.now));
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_int_equal(lk_stats(l).lost, 1);
    p.svc->lease_shortened(p.svc, claim, atomic_load(&p.now));
    p.svc->lease_extended(p.svc, claim, atomic_load(&p.now) + INT64_C(9000000000));
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    lk_gate_open(&p.leave, 1);
    lk_give_lost(h);
    probe_end(&p, l);
}

/* The keeper has not had a turn since the deadline, so it is the answer itself that finds it over; or it has, and stands before the
 * claim is let go of. */
static void a_late_renewal_revives_nothing(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.withdraw = probe_stands;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    locker_claim *const claim = (locker_claim *)(uintptr_t)p.holder;
    probe_advance(&p, PROBE_TTL_MS);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    p.svc->lease_extended(p.svc, claim, atomic_load(&p.now) + INT64_C(5000000000));
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    lk_gate_open(&p.leave, 1);
    lk_give_lost(h);
    probe_end(&p, l);
}

/* A thread that stands still between the clock and the deadline: the handle is asked then. */
static _Thread_local locker_handle *asked;
static locker_state said;

static int64_t stands_behind_the_clock(void *context)
{
    probe *const p = context;
    const int64_t now = atomic_load(&p->now);
    locker_handle *const h = asked;
    asked = NULL;
    if (h != NULL) {
        probe_advance(p, PROBE_TTL_MS);
        said = locker_handle_state(h);
    }
    return now;
}

static void a_reported_loss_outlasts_a_renewal(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.clock.now = stands_behind_the_clock;
    p.withdraw = probe_stands;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    asked = h;
    p.svc->lease_extended(p.svc, (locker_claim *)(uintptr_t)p.holder,
                          atomic_load(&p.now) + 2 * PROBE_TTL_MS * INT64_C(1000000));
    assert_int_equal(said, LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    lk_gate_open(&p.leave, 1);
    lk_give_lost(h);
    probe_end(&p, l);
}

enum { HASHED = 400000 };

static int by_hash(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Finds two keys of one length and one hash, of which there is hardly ever none among so many. */
static bool find_twins(char keys[2][16])
{
    static struct {
        uint32_t hash, number;
    } all[HASHED];
    for (uint32_t i = 0; i < HASHED; i++) {
        (void)snprintf(keys[0], 16, "%08u", i);
        all[i].hash = locker_key_hash(keys[0], 8);
        all[i].number = i;
    }
    qsort(all, HASHED, sizeof all[0], by_hash);
    for (uint32_t i = 1; i < HASHED; i++)
        if (all[i].hash == all[i - 1].hash) {
            (void)snprintf(keys[0], 16, "%08u", all[i - 1].number);
            (void)snprintf(keys[1], 16, "%08u", all[i].number);
            return true;
        }
    return false;
}

static void keys_of_one_hash_are_two(void **state)
{
    char keys[2][16];
    locker_handle *held[2];
    locker_error err;
    locker *l;
    (void)state;
    assert_true(find_twins(keys));
    assert_ok(locker_open("memory:", NULL, &l, &err), err);
    for (int i = 0; i < 2; i++)
        assert_ok(locker_try_lock(l, keys[i], NULL, &held[i], &err), err);
    for (int i = 0; i < 2; i++)
        lk_give(held[i]);
    lk_close_locker(l);
}

/* A renewal comes, and then the deadline before it, while a thread that asks a handle reads the clock. */
static int64_t is_renewed_meanwhile(void *context)
{
    probe *const p = context;
    if (asked != NULL) {
        asked = NULL;
        p->svc->lease_extended(p->svc, (locker_claim *)(uintptr_t)p->holder,
                               atomic_load(&p->now) + 2 * PROBE_TTL_MS * INT64_C(1000000));
        probe_advance(p, PROBE_TTL_MS);
    }
    return atomic_load(&p->now);
}

static void what_is_renewed_while_the_clock_is_read_is_held(void **state)
{
    probe p;
    locker_handle *h;
    locker *l;
    (void)state;
    probe_init(&p);
    p.clock.now = is_renewed_meanwhile;
    l = probe_open(&p);
    assert_int_equal(lock(l, &h), LOCKER_OK);
    asked = h;
    assert_int_not_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    assert_int_not_equal(locker_handle_state(h), LOCKER_STATE_LOST);
    lk_give(h);
    probe_end(&p, l);
}

/* ------------------------------------------------------------------ nobody lets go of it meanwhile ---- */

static bool is_releasing(void *handle)
{
    return locker_handle_state(handle) == LOCKER_STATE_UNLOCKED;
}

/* Holds a lock whose renewal is inside the driver. */
static locker *renewing(probe *p, locker_handle **h)
{
    locker *l;
    probe_init(p);
    p->driver.dispatch = NULL; /* whose end would be told to who waits for the renewal's */
    p->renew = probe_stands;
    l = probe_open(p);
    assert_int_equal(lock(l, h), LOCKER_OK);
    probe_advance(p, PROBE_TTL_MS / 3);
    p->svc->attend(p->svc);
    lk_gate_await(&p->entered, 1, "a renewal");
    return l;
}

static void unlock_waits_for_renew(void **state)
{
    probe p;
    lk_unlocking u;
    locker_handle *h;
    locker *l = renewing(&p, &h);
    (void)state;
    lk_unlocking_start(&u, h);
    lk_require(is_releasing, h, "the unlock has begun");
    lk_gate_open(&p.leave, 1);
    assert_int_equal(lk_unlocking_join(&u), LOCKER_OK);
    locker_handle_free(h);
    probe_end(&p, l);
}

/* What was told before the release began counts more than what the release would find. */
static void a_loss_before_the_release_has_begun_is_reported(void **state)
{
    (void)state;
    for (unsigned mode = LOSE_IT; mode <= LOSE_ALL; mode++) {
        probe p;
        lk_unlocking u;
        locker_handle *h;
        locker *l = renewing(&p, &h);

        lk_unlocking_start(&u, h);
        lk_require(is_releasing, h, "the unlock has begun");
        p.svc->lease_lost(p.svc, mode == LOSE_ALL ? NULL : (locker_claim *)(uintptr_t)p.holder,
                          "the test says so");
        lk_gate_open(&p.leave, 1);
        assert_int_equal(lk_unlocking_join(&u), LOCKER_LOST);
        assert_int_equal(atomic_load(&p.releases), 0);
        assert_int_equal(atomic_load(&p.withdraws), 1);
        locker_handle_free(h);
        probe_end(&p, l);
    }
}

/* ------------------------------------------------------------------ closing ---- */

/* Every key is free. */
static locker_status grants(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    claim->token = 1;
    claim->valid_until = atomic_load(&p->now) + claim->ttl_ns;
    return LOCKER_OK;
}

/* By a service with a queue: it has ended the first one, and its word of that is on its way. */
static void a_grant_shows_that_the_last_one_is_lost(void **state)
{
    locker_handle *first, *second;
    probe p;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = grants;
    p.driver.caps |= LOCKER_CAP_QUEUE;
    l = probe_open(&p);
    assert_int_equal(lock(l, &first), LOCKER_OK);
    assert_int_equal(lock(l, &second), LOCKER_OK);
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
    lk_give_lost(first);
    lk_give(second);
    probe_end(&p, l);
}

enum { TOKENS = 16 }; /* in p->mode: there are some */

/* The first one's thread is held up on its way back; its lock is broken, which it may have been told, and
 * granted anew. */
static locker_status grants_the_first_late(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    const unsigned mode = atomic_fetch_add(&p->mode, 1), number = mode % TOKENS;
    (void)grants(p, claim, LOCKER_OK);
    claim->token = mode >= TOKENS ? number + 1 : 0;
    if (number > 0)
        return LOCKER_OK;
    atomic_store(&p->claim, claim);
    return probe_stands(p, claim, LOCKER_OK);
}

static void a_grant_that_comes_late_takes_nothing(void **state)
{
    (void)state;
    static const struct {
        bool told;
        unsigned tokens;
    } cases[] = {{false, TOKENS}, {true, TOKENS}, {true, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        lk_locking first;
        locker_handle *second;
        probe p;
        probe_init(&p);
        p.acquire = grants_the_first_late;
        atomic_store(&p.mode, cases[i].tokens);
        p.driver.caps |= LOCKER_CAP_QUEUE;
        locker *const l = probe_open(&p);
        lk_locking_start(&first, l, "k", NULL);
        lk_gate_await(&p.entered, 1, "the first one is granted");
        if (cases[i].told)
            p.svc->lease_lost(p.svc, atomic_load(&p.claim), "the test says so");
        assert_int_equal(lock(l, &second), LOCKER_OK);
        lk_gate_open(&p.leave, 1);
        assert_status(LOCKER_OK, lk_locking_join(&first), first.err);
        assert_int_equal(locker_handle_state(first.held), LOCKER_STATE_LOST);
        assert_int_equal(locker_handle_state(second), LOCKER_STATE_HELD);
        lk_give_lost(first.held);
        lk_give(second);
        probe_end(&p, l);
    }
}

static const locker_semantics with_permits = {
    .size = sizeof(locker_semantics), .driver = "probe", .leases = true, .permits_most = 3};

static locker *open_with_permits(probe *p)
{
    p->driver.caps |= LOCKER_CAP_QUEUE;
    p->driver.semantics = &with_permits;
    return probe_open(p);
}

/* The call for three permits stands inside the driver meanwhile. */
static locker_status grants_three_late(probe *p, locker_claim *claim, locker_status status)
{
    (void)grants(p, claim, status);
    claim->token = (uint64_t)claim->permits;
    claim->slot = 3 - claim->permits;
    return claim->permits == 3 ? probe_stands(p, claim, LOCKER_OK) : LOCKER_OK;
}

static locker_status refuses_three_late(probe *p, locker_claim *claim, locker_status status)
{
    (void)grants_three_late(p, claim, status);
    return claim->permits == 3 ? LOCKER_CONFIG : LOCKER_OK;
}

/* A break has ended the permit of two, and the driver has not been told that yet when one of three is granted. */
static void a_grant_shows_that_other_permits_are_lost(void **state)
{
    (void)state;
    const locker_lock_options two = {.size = sizeof two, .permits = 2, .wait_ms = -1},
                              three = {.size = sizeof three, .permits = 3, .wait_ms = -1, .owner = "o"};
    locker_handle *broken, *held, *again;
    locker_error err;
    lk_locking late;
    probe p;
    probe_init(&p);
    p.acquire = grants_three_late;
    locker *const l = open_with_permits(&p);
    lk_locking_start(&late, l, "k", &three);
    lk_gate_await(&p.entered, 1, "the call for three permits is inside");
    assert_ok(locker_lock(l, "k", &two, &broken, &err), err);
    lk_gate_open(&p.leave, 1);
    held = lk_locking_grant(&late);
    assert_int_equal(locker_handle_state(broken), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_ok(locker_try_lock(l, "k", &three, &again, &err), err);
    assert_int_equal(locker_handle_token(again), locker_handle_token(held));
    lk_give(again);
    lk_give(held);
    lk_give_lost(broken);
    probe_end(&p, l);
}

/* Both calls have the same owner. It is granted one of two permits while its call for one of three is inside the driver. */
static void an_owner_enters_no_grant_of_other_permits(void **state)
{
    (void)state;
    const locker_lock_options two = {.size = sizeof two, .permits = 2, .wait_ms = -1, .owner = "o"},
                              three = {.size = sizeof three, .permits = 3, .wait_ms = -1, .owner = "o"};
    locker_handle *held;
    locker_error err;
    lk_locking late;
    probe p;
    probe_init(&p);
    p.acquire = refuses_three_late;
    locker *const l = open_with_permits(&p);
    lk_locking_start(&late, l, "k", &three);
    lk_gate_await(&p.entered, 1, "the call for three permits is inside");
    assert_ok(locker_lock(l, "k", &two, &held, &err), err);
    lk_gate_open(&p.leave, 1);
    assert_status(LOCKER_CONFIG, lk_locking_join(&late), late.err);
    lk_give(held);
    probe_end(&p, l);
}

/* The service has carried out the unlock of one of three, and given one of two to another process, before the unlock is answered. */
static void a_released_permit_fixes_no_number_of_permits(void **state)
{
    (void)state;
    const locker_lock_options two = {.size = sizeof two, .permits = 2, .wait_ms = -1},
                              three = {.size = sizeof three, .permits = 3, .wait_ms = -1};
    locker_handle *held, *next = NULL;
    locker_error err;
    lk_unlocking late;
    probe p;
    probe_init(&p);
    p.acquire = grants;
    p.release = probe_stands;
    locker *const l = open_with_permits(&p);
    assert_ok(locker_lock(l, "k", &three, &held, &err), err);
    lk_unlocking_start(&late, held);
    lk_gate_await(&p.entered, 1, "the unlock is inside");
    const locker_status status = locker_try_lock(l, "k", &two, &next, &err);
    lk_gate_open(&p.leave, 2);
    assert_status(LOCKER_OK, status, err);
    assert_int_equal(lk_unlocking_join(&late), LOCKER_OK);
    locker_handle_free(held);
    assert_int_equal(locker_handle_state(next), LOCKER_STATE_HELD);
    lk_give(next);
    probe_end(&p, l);
}

static locker_status loses_others(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    if (atomic_exchange(&p->mode, 0) != 0)
        p->svc->lease_lost(p->svc, NULL, "the test says so");
    return status;
}

struct told {
    locker *l;
    locker_status unlock, close;
    int calls;
};

static void frees(locker_handle *lost, void *user)
{
    struct told *told = user;
    told->calls++;
    told->close = locker_close(told->l);
    told->unlock = locker_unlock(lost, NULL);
    locker_handle_free(lost);
}

/* The callback of what closing itself lost comes on the thread that closes, where all is legal that is on the
 * keeper's. */
static void a_callback_while_closing_may_free_its_handle(void **state)
{
    struct told told = {.calls = 0};
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *one, *two;
    locker_error err;
    probe p;
    (void)state;
    probe_init(&p);
    p.acquire = grants;
    p.withdraw = loses_others;
    o.on_lost = frees;
    o.user = &told;
    told.l = probe_open(&p);
    assert_ok(locker_lock(told.l, "one", &o, &one, &err), err);
    o.on_lost = NULL;
    assert_ok(locker_lock(told.l, "two", &o, &two, &err), err);
    atomic_store(&p.mode, 1);
    probe_end(&p, told.l);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.close, LOCKER_INVALID);
    assert_int_equal(told.unlock, LOCKER_LOST);
    locker_handle_free(two);
}

static void *close_it(void *l)
{
    return (void *)(intptr_t)locker_close(l);
}

static locker_status has_begun(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    lk_gate_open(&p->leave, 1);
    return status;
}

/* An attempt that is granted when the locker is being closed grants nothing. */
static void nothing_is_granted_while_closing(void **state)
{
    probe p;
    lk_locking call;
    pthread_t thread;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = probe_stands;
    p.interrupt = has_begun;
    l = probe_open(&p);
    lk_locking_start(&call, l, "k", NULL);
    lk_gate_await(&p.entered, 1, "an attempt");
    assert_int_equal(pthread_create(&thread, NULL, close_it, l), 0);
    assert_status(LOCKER_CLOSED, lk_locking_join(&call), call.err);
    assert_int_equal(atomic_load(&p.withdraws), 1);
    lk_join(thread, "closing");
}

static locker *closing;
static atomic_int key_checks;

static locker_status counts_checks(void *self, const char *key, size_t key_len, locker_error *err)
{
    (void)self, (void)key, (void)key_len, (void)err;
    atomic_fetch_add(&key_checks, 1);
    return LOCKER_OK;
}

static void logs_its_end(void *self)
{
    const probe *const p = self;
    p->svc->log(p->svc, LOCKER_LOG_WARN, "the driver is closed");
}

/* By the closing thread, when the driver is closed. */
static void locks_late(locker_log_level level, const char *text, void *user)
{
    lk_locking call;
    (void)level, (void)text;
    lk_locking_start(&call, closing, "k", NULL);
    *(locker_status *)user = lk_locking_join(&call);
}

/* Until locker_close() returns, other threads may call. Such a call must not ask a driver that is closed. */
static void a_closed_driver_is_not_asked_about_a_key(void **state)
{
    probe p;
    locker_status late = LOCKER_OK;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker_handle *h;
    (void)state;
    probe_init(&p);
    p.driver.check_key = counts_checks;
    p.driver.close = logs_its_end;
    options.ttl_ms = PROBE_TTL_MS;
    options.log = locks_late;
    options.log_user = &late;
    o.options = &options;
    closing = probe_open_with(&p, &o);
    atomic_store(&key_checks, 0);
    assert_int_equal(lock(closing, &h), LOCKER_OK);
    lk_give(h);
    assert_int_equal(atomic_load(&key_checks), 1);
    probe_end(&p, closing);
    assert_int_equal(late, LOCKER_CLOSED);
    assert_int_equal(atomic_load(&key_checks), 1);
}

static void counts(locker_handle *lost, void *user)
{
    (void)lost;
    ++*(int *)user;
}

static void a_handle_reported_closed_is_not_held(void **state)
{
    int losses = 0;
    locker_handle *one, *two, *expired, *late;
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_error err;
    probe p;
    pthread_t thread;
    locker *l;
    (void)state;
    probe_init(&p);
    p.acquire = grants;
    p.withdraw = probe_stands;
    l = probe_open(&p);
    o.ttl_ms = PROBE_TTL_MS / 9;
    o.on_lost = counts;
    o.user = &losses;
    assert_ok(locker_lock(l, "late", &o, &late, &err), err);
    o.on_lost = NULL;
    assert_ok(locker_lock(l, "expired", &o, &expired, &err), err);
    assert_ok(locker_lock(l, "one", NULL, &one, &err), err);
    assert_ok(locker_lock(l, "two", NULL, &two, &err), err);
    assert_int_equal(pthread_create(&thread, NULL, close_it, l), 0);
    lk_gate_await(&p.entered, 1, "the first withdrawal");
    probe_advance(&p, PROBE_TTL_MS / 9);
    assert_status(LOCKER_LOST, locker_unlock(expired, &err), err);
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_HELD);
    assert_status(LOCKER_CLOSED, locker_unlock(one, &err), err);
    assert_int_equal(locker_handle_state(one), LOCKER_STATE_UNLOCKED);
    assert_status(LOCKER_CLOSED, locker_unlock(one, &err), err);
    lk_gate_open(&p.leave, 4);
    lk_join(thread, "closing");
    assert_int_equal(atomic_load(&p.withdraws), 4);
    assert_int_equal(losses, 1); /* of the one that nobody unlocked */
    assert_int_equal(locker_handle_state(late), LOCKER_STATE_LOST);
    lk_give_lost(late);
    locker_handle_free(one);
    locker_handle_free(two);
    locker_handle_free(expired);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_during_acquire_is_reported),
        cmocka_unit_test(a_grant_of_a_session_that_ended_is_asked_for_again),
        cmocka_unit_test(a_late_grant_is_withdrawn_once),
        cmocka_unit_test(a_late_try_is_withdrawn_once),
        cmocka_unit_test(a_loss_during_pass_is_not_a_grant),
        cmocka_unit_test(a_loss_of_what_is_passed_is_a_loss_of_both),
        cmocka_unit_test(an_owner_leaves_before_the_first_call_has_woken_up),
        cmocka_unit_test(a_lock_lost_before_its_call_wakes_up_is_requested_again),
        cmocka_unit_test(every_lease_has_its_place),
        cmocka_unit_test(nothing_is_granted_while_closing),
        cmocka_unit_test(a_closed_driver_is_not_asked_about_a_key),
        cmocka_unit_test(a_lease_that_ends_during_pass_is_not_a_grant),
        cmocka_unit_test(an_extension_during_acquire_counts),
        cmocka_unit_test(a_lease_that_is_shortened_during_acquire_is_short),
        cmocka_unit_test(a_lease_that_is_shortened_to_nothing_during_acquire_is_none),
        cmocka_unit_test(a_lease_that_is_shortened_ends_then),
        cmocka_unit_test(a_lease_that_is_shortened_to_nothing_is_lost),
        cmocka_unit_test(a_late_renewal_revives_nothing),
        cmocka_unit_test(a_reported_loss_outlasts_a_renewal),
        cmocka_unit_test(keys_of_one_hash_are_two),
        cmocka_unit_test(what_is_renewed_while_the_clock_is_read_is_held),
        cmocka_unit_test(unlock_waits_for_renew),
        cmocka_unit_test(a_loss_before_the_release_has_begun_is_reported),
        cmocka_unit_test(a_grant_shows_that_the_last_one_is_lost),
        cmocka_unit_test(a_grant_that_comes_late_takes_nothing),
        cmocka_unit_test(a_grant_shows_that_other_permits_are_lost),
        cmocka_unit_test(an_owner_enters_no_grant_of_other_permits),
        cmocka_unit_test(a_released_permit_fixes_no_number_of_permits),
        cmocka_unit_test(a_callback_while_closing_may_free_its_handle),
        cmocka_unit_test(a_handle_reported_closed_is_not_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
