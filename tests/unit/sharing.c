/*
 * sharing.c: what core does with shared locks and several keys when threads meet at the worst moment, made to happen by
 * gates: see races.c.
 */
#include <poll.h>
#include <string.h>

#include "holding.h"
#include "locking.h"
#include "probe.h"

/* For what must not come: long enough for a thread that does wrong to do it, nearly always. */
enum { A_MOMENT_MS = 200 };

static const locker_lock_options share = {.size = sizeof share, .wait_ms = -1, .mode = LOCKER_SHARED};
static const locker_lock_options try_to_share = {.size = sizeof share, .mode = LOCKER_SHARED};

static void begin(probe *p, locker_semantics *promises)
{
    probe_init(p);
    *promises = *p->driver.semantics;
    promises->shared = LOCKER_ORDER_LOCAL;
    p->driver.semantics = promises;
}

static void grant(probe *p, locker_claim *claim)
{
    claim->token = (uint64_t)atomic_load(&p->acquires);
    claim->valid_until = atomic_load(&p->now) + claim->ttl_ns;
}

static locker_handle *lock(locker *l, const char *key, const locker_lock_options *options)
{
    locker_handle *h;
    locker_error err;
    assert_ok(locker_lock(l, key, options, &h, &err), err);
    return h;
}

/* ------------------------------------------------------------------ tries ---- */

/* The first stands inside; a writer is let in when `mode` says so. */
static locker_status readers_before_a_writer(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    if (claim->mode == LOCKER_EXCLUSIVE) {
        atomic_store(&p->claim, claim);
        if (atomic_load(&p->mode) == 0)
            return LOCKER_BUSY;
    } else if (atomic_load(&p->acquires) == 1) {
        (void)probe_stands(p, claim, LOCKER_OK);
    }
    grant(p, claim);
    return LOCKER_OK;
}

static bool three_wait(void *l)
{
    return lk_stats(l).waiting == 3;
}

static bool writer_has_asked(void *p)
{
    return atomic_load(&((probe *)p)->claim) != NULL;
}

/* It came while those before it were being told whether there is room, and behind a writer, who waits on. */
static void a_try_does_not_wait_behind_a_writer(void **state)
{
    probe p;
    locker_semantics promises;
    lk_locking reader, first, writer, second;
    (void)state;
    begin(&p, &promises);
    p.acquire = readers_before_a_writer;
    locker *const l = probe_open(&p);
    lk_locking_start(&reader, l, "k", &share);
    lk_gate_await(&p.entered, 1, "a reader asks");
    lk_locking_start(&first, l, "k", &try_to_share);
    lk_require_waiting(l, 1);
    lk_locking_start(&writer, l, "k", NULL);
    lk_require_waiting(l, 2);
    lk_locking_start(&second, l, "k", &try_to_share);
    (void)lk_until(three_wait, l, A_MOMENT_MS); /* it is answered before, unless it does wrong */
    lk_gate_open(&p.leave, 1);
    locker_handle *const reads = lk_locking_grant(&reader), *const rides = lk_locking_grant(&first);
    assert_status(LOCKER_BUSY, lk_locking_join(&second), second.err);
    lk_give(rides);
    lk_give(reads);
    lk_require(writer_has_asked, &p, "the writer asks");
    atomic_store(&p.mode, 1);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    lk_give(lk_locking_grant(&writer));
    probe_end(&p, l);
}

/* The first stands inside, and its lease is over when it comes out. */
static locker_status comes_late_at_first(probe *p, locker_claim *claim, locker_status status)
{
    const bool is_first = atomic_load(&p->acquires) == 1;
    (void)status;
    atomic_store(&p->claim, claim);
    if (is_first)
        (void)probe_stands(p, claim, LOCKER_OK);
    grant(p, claim);
    if (is_first)
        probe_advance(p, PROBE_TTL_MS);
    return LOCKER_OK;
}

/* A try that stands behind a reader which is asking, until now. */
static locker *try_behind_a_reader(probe *p, lk_locking *reader, lk_locking *trial)
{
    locker *const l = probe_open(p);
    lk_locking_start(reader, l, "k", &share);
    lk_gate_await(&p->entered, 1, "a reader asks");
    lk_locking_start(trial, l, "k", &try_to_share);
    lk_require_waiting(l, 1);
    lk_gate_open(&p->leave, 1);
    return l;
}

/* Before whom asks again there is as long a wait as its attempt took: a try isn't kept for that. */
static void a_try_does_not_wait_behind_a_grant_that_came_too_late(void **state)
{
    probe p;
    locker_semantics promises;
    lk_locking reader, trial;
    (void)state;
    begin(&p, &promises);
    p.acquire = comes_late_at_first;
    locker *const l = try_behind_a_reader(&p, &reader, &trial);
    assert_status(LOCKER_BUSY, lk_locking_join(&trial), trial.err);
    assert_int_equal(atomic_load(&p.acquires), 1);
    probe_advance(&p, PROBE_TTL_MS);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    lk_give(lk_locking_grant(&reader));
    probe_end(&p, l);
}

/* The first stands inside, and is refused. */
static locker_status is_refused_at_first(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    if (atomic_load(&p->acquires) == 1)
        return probe_stands(p, claim, LOCKER_DENIED);
    grant(p, claim);
    return LOCKER_OK;
}

/* As long as a try behind it takes to be answered wrongly. */
static locker_status takes_a_moment(probe *p, locker_claim *claim, locker_status status)
{
    (void)p, (void)claim;
    (void)poll(NULL, 0, A_MOMENT_MS);
    return status;
}

/* What ended that one's call doesn't say that there is no room. */
static void a_try_asks_when_the_one_before_it_was_refused(void **state)
{
    probe p;
    locker_semantics promises;
    lk_locking reader, trial;
    (void)state;
    begin(&p, &promises);
    p.acquire = is_refused_at_first;
    p.withdraw = takes_a_moment;
    locker *const l = try_behind_a_reader(&p, &reader, &trial);
    assert_status(LOCKER_DENIED, lk_locking_join(&reader), reader.err);
    lk_give(lk_locking_grant(&trial));
    assert_int_equal(atomic_load(&p.acquires), 2);
    probe_end(&p, l);
}

/* The first stands inside, and is granted; the next one hears nothing when `mode` says so. */
static locker_status is_slow_at_first(probe *p, locker_claim *claim, locker_status status)
{
    const int asked = (int)atomic_load(&p->acquires);
    (void)status;
    if (asked == 2 && atomic_load(&p->mode) != 0)
        return LOCKER_UNAVAILABLE;
    claim->slot = asked - 1;
    grant(p, claim);
    return asked == 1 ? probe_stands(p, claim, LOCKER_OK) : LOCKER_OK;
}

/* Three tries for three permits: the second stands behind the first for twice so long, the third, which came later, for so long. */
static void three_try(int64_t each_ms, const char *why, int asked)
{
    probe p;
    locker_semantics promises;
    lk_locking first, second, third;
    locker_lock_options one_of = LOCKER_LOCK_OPTIONS_INIT;
    begin(&p, &promises);
    promises.permits_most = LOCKER_PERMITS_MAX;
    p.acquire = is_slow_at_first;
    p.withdraw = takes_a_moment;
    atomic_store(&p.mode, asked == 3);
    one_of.permits = 3;
    one_of.wait_ms = 0;
    locker *const l = probe_open(&p);
    lk_locking_start(&first, l, "k", &one_of);
    lk_gate_await(&p.entered, 1, "a try asks");
    lk_locking_start(&second, l, "k", &one_of);
    lk_require_waiting(l, 1);
    probe_advance(&p, each_ms);
    lk_locking_start(&third, l, "k", &one_of);
    lk_require_waiting(l, 2);
    probe_advance(&p, each_ms);
    lk_gate_open(&p.leave, 1);
    lk_give(lk_locking_grant(&first));
    assert_status(LOCKER_UNAVAILABLE, lk_locking_join(&second), second.err);
    assert_true(why == NULL || strstr(second.err.text, why) != NULL);
    lk_give(lk_locking_grant(&third));
    assert_int_equal(atomic_load(&p.acquires), asked);
    probe_end(&p, l);
}

/* It was not asked whether there is room, and those behind it, who have time, are not told that there is none. */
static void a_try_that_timed_out_in_the_queue_proves_nothing(void **state)
{
    (void)state;
    three_try(3000, "earlier attempts of this call", 2);
}

/* Nor that nobody answers, where that was but a rest of its time. */
static void a_try_with_little_time_left_proves_nothing(void **state)
{
    (void)state;
    three_try(2000, NULL, 3);
}

/* The first is granted; then nobody answers. */
static locker_status is_away_later(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    if (atomic_load(&p->acquires) > 1) {
        claim->retry_at = LOCKER_NEVER - 1;
        atomic_store(&p->claim, claim);
        return probe_stands(p, claim, LOCKER_UNAVAILABLE);
    }
    claim->slot = 0;
    grant(p, claim);
    return LOCKER_OK;
}

/* One that waits, and a try behind it. */
static void is_told_that_nobody_answers(const locker_lock_options *options, bool known)
{
    probe p;
    locker_semantics promises;
    lk_locking waits, trial;
    locker_lock_options bounded = *options, at_once = *options;
    begin(&p, &promises);
    promises.permits_most = LOCKER_PERMITS_MAX;
    p.acquire = is_away_later;
    bounded.wait_ms = 1000;
    at_once.wait_ms = 0;
    locker *const l = probe_open(&p);
    locker_handle *const first = lock(l, "k", options);
    probe_advance(&p, 100);
    lk_locking_start(&waits, l, "k", &bounded);
    lk_gate_await(&p.entered, 1, "one asks");
    lk_locking_start(&trial, l, "k", &at_once);
    lk_require_waiting(l, 1);
    lk_gate_open(&p.leave, 1);
    assert_status(known ? LOCKER_BUSY : LOCKER_UNAVAILABLE, lk_locking_join(&trial), trial.err);
    probe_advance(&p, 1000);
    p.svc->wake(p.svc, atomic_load(&p.claim));
    assert_status(known ? LOCKER_TIMEOUT : LOCKER_UNAVAILABLE, lk_locking_join(&waits), waits.err);
    lk_give(first);
    probe_end(&p, l);
}

/* What is held here tells that there is no room only where it fills the key. */
static void a_holder_of_one_of_several_permits_does_not_know_of_room(void **state)
{
    locker_lock_options one_of = LOCKER_LOCK_OPTIONS_INIT;
    (void)state;
    is_told_that_nobody_answers(&share, false);
    one_of.permits = 2;
    is_told_that_nobody_answers(&one_of, false);
    one_of.permits = 1;
    is_told_that_nobody_answers(&one_of, true);
}

/* ------------------------------------------------------------------ a grant of several handles ---- */

static locker_status grants(probe *p, locker_claim *claim, locker_status status)
{
    (void)status;
    grant(p, claim);
    return LOCKER_OK;
}

/* The service has passed the key on to a reader; the writer's thread has not come back with the answer yet. */
static void an_owner_is_known_while_the_writer_before_still_unlocks(void **state)
{
    probe p;
    locker_semantics promises;
    lk_unlocking unlocking;
    locker_error err;
    locker_handle *again, *none;
    (void)state;
    begin(&p, &promises);
    p.driver.caps |= LOCKER_CAP_QUEUE;
    p.acquire = grants;
    p.release = probe_stands;
    locker *const l = probe_open(&p);
    locker_handle *const writes = lock(l, "k", NULL);
    lk_unlocking_start(&unlocking, writes);
    lk_gate_await(&p.entered, 1, "the writer unlocks");
    locker_lock_options mine = share;
    mine.owner = "me";
    locker_handle *const reads = lock(l, "k", &mine);
    mine.wait_ms = 0;
    assert_ok(locker_lock(l, "k", &mine, &again, &err), err);
    mine.mode = LOCKER_EXCLUSIVE;
    assert_status(LOCKER_INVALID, locker_lock(l, "k", &mine, &none, &err), err);
    assert_int_equal(lk_stats(l).reentered, 1);
    assert_int_equal(atomic_load(&p.acquires), 2);
    lk_gate_open(&p.leave, 1);
    assert_status(LOCKER_OK, lk_unlocking_join(&unlocking), unlocking.err);
    locker_handle_free(writes);
    lk_give(again);
    p.release = NULL;
    lk_give(reads);
    probe_end(&p, l);
}

static bool is_told(void *told)
{
    return atomic_load((atomic_int *)told) > 0;
}

static void counts(locker_handle *lost, void *told)
{
    (void)lost;
    (void)atomic_fetch_add((atomic_int *)told, 1);
}

/* A handle that was unlocked while another still rode on the grant answered OK; a later loss of the grant is not reported to it. */
static void an_unlocked_handle_is_not_lost_with_its_grant(void **state)
{
    static atomic_int told;
    probe p;
    locker_semantics promises;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants;
    locker *const l = probe_open(&p);
    locker_lock_options watched = share;
    watched.on_lost = counts;
    watched.user = &told;
    atomic_store(&told, 0);
    locker_handle *const unlocked = lock(l, "k", &share), *const early = lock(l, "k", &share),
                         *const reads = lock(l, "k", &watched);
    assert_int_equal(lk_stats(l).rode, 2);
    struct pollfd fd = {.fd = locker_handle_fd(early), .events = POLLIN};
    assert_int_equal(locker_unlock(unlocked, NULL), LOCKER_OK);
    assert_int_equal(locker_unlock(early, NULL), LOCKER_OK);
    p.svc->lease_lost(p.svc, NULL, "the test says so");
    lk_require(is_told, &told, "the loss is told to who has it");
    assert_int_equal(locker_handle_state(reads), LOCKER_STATE_LOST);
    assert_int_equal(locker_handle_state(early), LOCKER_STATE_UNLOCKED);
    assert_int_equal(poll(&fd, 1, 0), 0);
    fd.fd = locker_handle_fd(unlocked);
    assert_int_equal(poll(&fd, 1, 0), 0);
    locker_handle_free(unlocked);
    locker_handle_free(early);
    lk_give_lost(reads);
    probe_end(&p, l);
}

static locker_status grants_it_alone(probe *p, locker_claim *claim, locker_status status)
{
    atomic_store(&p->claim, claim);
    claim->alone = true;
    return grants(p, claim, status);
}

/* Whether it was told soon after the grant or late. */
static void no_reader_rides_past_a_known_waiter(void **state)
{
    probe p;
    locker_semantics promises;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants_it_alone;
    locker *const l = probe_open(&p);
    locker_handle *const first = lock(l, "k", &share), *const rides = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 1);
    p.svc->awaited(p.svc, atomic_load(&p.claim));
    locker_handle *const asks = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 2);
    lk_give(asks);
    lk_give(rides);
    lk_give(first);
    probe_end(&p, l);
}

/* Others may stand in the service's queue, who would be overtaken: a grant takes riders for 50 ms only. */
static void a_grant_beside_others_takes_riders_for_50_ms(void **state)
{
    probe p;
    locker_semantics promises;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants;
    locker *const l = probe_open(&p);
    locker_handle *const first = lock(l, "k", &share);
    probe_advance(&p, 49);
    locker_handle *const rides = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 1);
    probe_advance(&p, 1);
    locker_handle *const asks = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 2);
    lk_give(asks);
    lk_give(rides);
    lk_give(first);
    probe_end(&p, l);
}

/* A writer is let in when `mode` says so. */
static locker_status keeps_a_writer_out(probe *p, locker_claim *claim, locker_status status)
{
    if (claim->mode != LOCKER_EXCLUSIVE)
        return grants_it_alone(p, claim, status);
    atomic_store(&p->claim, claim);
    return atomic_load(&p->mode) == 0 ? LOCKER_BUSY : grants(p, claim, status);
}

/* One who stands in the service's queue. */
static void a_reader_does_not_ride_past_a_writer_of_its_locker(void **state)
{
    probe p;
    locker_semantics promises;
    lk_locking writer;
    (void)state;
    begin(&p, &promises);
    p.driver.caps |= LOCKER_CAP_QUEUE;
    p.acquire = keeps_a_writer_out;
    locker *const l = probe_open(&p);
    locker_handle *const first = lock(l, "k", &share);
    lk_locking_start(&writer, l, "k", NULL);
    lk_require_waiting(l, 1);
    locker_claim *const waits = atomic_load(&p.claim);
    locker_handle *const asks = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 3);
    assert_int_equal(lk_stats(l).rode, 0);
    lk_give(asks);
    lk_give(first);
    atomic_store(&p.mode, 1);
    p.svc->wake(p.svc, waits);
    lk_give(lk_locking_grant(&writer));
    probe_end(&p, l);
}

static locker_status breaks(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err)
{
    (void)self, (void)key, (void)key_len, (void)only, (void)until, (void)broken, (void)err;
    return LOCKER_OK;
}

/* Though the word of it is still under way. */
static void no_reader_rides_on_a_grant_that_its_locker_has_broken(void **state)
{
    probe p;
    locker_semantics promises;
    locker_error err;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants;
    p.driver.break_lock = breaks;
    locker *const l = probe_open(&p);
    locker_handle *const first = lock(l, "k", &share);
    assert_ok(locker_break(l, "k", NULL, NULL, &err), err);
    locker_handle *const asks = lock(l, "k", &share), *const rides = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 2);
    assert_int_equal(lk_stats(l).rode, 1);
    lk_give(rides);
    lk_give(asks);
    lk_give(first);
    probe_end(&p, l);
}

/* Nor those who came behind it after that, while its caller was being told of the grant. */
static void no_reader_rides_on_a_broken_grant(void **state)
{
    probe p;
    locker_semantics promises;
    locker_error err;
    lk_locking first, second;
    (void)state;
    begin(&p, &promises);
    p.acquire = readers_before_a_writer;
    p.driver.break_lock = breaks;
    locker *const l = probe_open(&p);
    lk_locking_start(&first, l, "k", &share);
    lk_gate_await(&p.entered, 1, "a reader asks");
    assert_ok(locker_break(l, "k", NULL, NULL, &err), err);
    lk_locking_start(&second, l, "k", &share);
    lk_require_waiting(l, 1);
    lk_gate_open(&p.leave, 1);
    locker_handle *const broken = lk_locking_grant(&first), *const asks = lk_locking_grant(&second),
                         *const rides = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 2);
    assert_int_equal(lk_stats(l).rode, 1);
    assert_int_equal(locker_handle_token(rides), locker_handle_token(asks));
    lk_give(rides);
    lk_give(asks);
    lk_give(broken);
    probe_end(&p, l);
}

/* The first claim stands inside, and its answer comes when less than a third of its lease is left. */
static locker_status answers_late_at_first(probe *p, locker_claim *claim, locker_status status)
{
    if (atomic_load(&p->acquires) > 1)
        return grants(p, claim, status);
    (void)probe_stands(p, claim, LOCKER_OK);
    grant(p, claim);
    probe_advance(p, PROBE_TTL_MS * 2 / 3 + 1);
    return LOCKER_OK;
}

/* A driver confirms a short lease for a waiter, but not for a try. So a waiter asks the service itself; another try rides. */
static void a_waiter_is_not_taken_along_on_a_try_s_short_lease(void **state)
{
    probe p;
    locker_semantics promises;
    lk_locking first, second, waiter;
    (void)state;
    begin(&p, &promises);
    p.acquire = answers_late_at_first;
    locker *const l = probe_open(&p);
    lk_locking_start(&first, l, "k", &try_to_share);
    lk_gate_await(&p.entered, 1, "a try asks");
    lk_locking_start(&second, l, "k", &try_to_share);
    lk_require_waiting(l, 1);
    lk_locking_start(&waiter, l, "k", &share);
    lk_require_waiting(l, 2);
    lk_gate_open(&p.leave, 1);
    locker_handle *const tries = lk_locking_grant(&first), *const rides = lk_locking_grant(&second),
                         *const waits = lk_locking_grant(&waiter);
    assert_int_equal(atomic_load(&p.acquires), 2);
    assert_int_equal(lk_stats(l).rode, 1);
    assert_int_equal(locker_handle_token(rides), locker_handle_token(tries));
    assert_int_equal(locker_handle_remaining_ms(waits), PROBE_TTL_MS);
    lk_give(waits);
    lk_give(rides);
    lk_give(tries);
    probe_end(&p, l);
}

/* Its renewals may have failed since. */
static void a_waiter_rides_only_while_a_third_of_the_lease_is_left(void **state)
{
    probe p;
    locker_semantics promises;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants_it_alone;
    locker *const l = probe_open(&p);
    locker_handle *const first = lock(l, "k", &share);
    probe_advance(&p, PROBE_TTL_MS * 2 / 3);
    locker_handle *const rides = lock(l, "k", &share);
    assert_int_equal(lk_stats(l).rode, 1);
    probe_advance(&p, 1);
    locker_handle *const tries = lock(l, "k", &try_to_share);
    assert_int_equal(lk_stats(l).rode, 2);
    locker_handle *const asks = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 2);
    assert_int_equal(lk_stats(l).rode, 2);
    lk_give(asks);
    lk_give(tries);
    lk_give(rides);
    lk_give(first);
    probe_end(&p, l);
}

/* Where the service has a queue: behind a writer of the locker that waits there, a reader asks for a place, too. */
static void a_reader_stands_behind_a_writer_that_the_service_has(void **state)
{
    const locker_lock_options *const how[] = {&share, NULL, &share};
    probe p;
    locker_semantics promises;
    lk_locking call[3];
    (void)state;
    begin(&p, &promises);
    p.driver.caps |= LOCKER_CAP_QUEUE;
    locker *const l = probe_open(&p);
    locker_handle *const h = lock(l, "k", NULL);
    for (int i = 0; i < 3; i++) {
        lk_locking_start(&call[i], l, "k", how[i]);
        lk_require_waiting(l, (uint64_t)i + 1);
        assert_int_equal(atomic_load(&p.acquires), i + 2);
    }
    probe_end(&p, l);
    for (int i = 0; i < 3; i++)
        assert_status(LOCKER_CLOSED, lk_locking_join(&call[i]), call[i].err);
    locker_handle_free(h);
}

/* show names one label for all who ride, and what an owner enters is counted as its own. */
static void no_reader_rides_with_another_label_or_owner(void **state)
{
    locker_lock_options owned = share, named = share;
    probe p;
    locker_semantics promises;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants;
    locker *const l = probe_open(&p);
    owned.owner = "me";
    named.label = owned.label = "a label";
    locker_handle *const h[] = {lock(l, "k", &owned), lock(l, "k", &named), lock(l, "k", &share)};
    assert_int_equal(atomic_load(&p.acquires), 3);
    assert_int_equal(lk_stats(l).rode, 0);
    for (int i = 0; i < 3; i++)
        lk_give(h[i]);
    probe_end(&p, l);
}

static void outlasts_the_lease(probe *p, pthread_mutex_t *mutex)
{
    (void)mutex;
    if (atomic_exchange(&p->mode, 0) != 0)
        probe_advance(p, PROBE_TTL_MS);
}

/* The first stands inside with what it is granted. */
static locker_status grants_late_at_first(probe *p, locker_claim *claim, locker_status status)
{
    if (atomic_load(&p->acquires) == 1)
        (void)probe_stands(p, claim, LOCKER_OK);
    return grants(p, claim, status);
}

/* A reader is taken along, and the lease is over before its thread runs; the keeper has not seen that. It asks for itself. */
static void a_ride_that_expired_before_its_call_wakes_up_is_no_grant(void **state)
{
    probe p;
    locker_semantics promises;
    lk_locking first, second;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants_late_at_first;
    p.waited = outlasts_the_lease;
    locker *const l = probe_open(&p);
    lk_locking_start(&first, l, "k", &share);
    lk_gate_await(&p.entered, 1, "a reader asks");
    lk_locking_start(&second, l, "k", &share);
    lk_require_waiting(l, 1);
    atomic_store(&p.mode, 1);
    lk_gate_open(&p.leave, 1);
    locker_handle *const over = lk_locking_grant(&first), *const asks = lk_locking_grant(&second);
    assert_int_equal(locker_handle_state(asks), LOCKER_STATE_HELD);
    assert_int_equal(atomic_load(&p.acquires), 2);
    lk_give_lost(over);
    lk_give(asks);
    probe_end(&p, l);
}

/* The service would give a waiter the session's deadline, as the grant has it, and a place behind whoever has come since. */
static void a_waiter_rides_on_a_session_however_short(void **state)
{
    probe p;
    locker_semantics promises;
    (void)state;
    begin(&p, &promises);
    p.driver.renew = NULL;
    p.acquire = grants_it_alone;
    locker *const l = probe_open(&p);
    locker_handle *const first = lock(l, "k", &share);
    probe_advance(&p, PROBE_TTL_MS * 2 / 3 + 1);
    locker_handle *const rides = lock(l, "k", &share);
    assert_int_equal(atomic_load(&p.acquires), 1);
    assert_int_equal(lk_stats(l).rode, 1);
    lk_give(rides);
    lk_give(first);
    probe_end(&p, l);
}

/* ------------------------------------------------------------------ several keys ---- */

static locker_status takes_a_second(probe *p, locker_claim *claim, locker_status status)
{
    probe_advance(p, 1000);
    return grants(p, claim, status);
}

/* The lease of the first ends first. */
static void remaining_of_several_keys_is_that_of_the_first_to_expire(void **state)
{
    static const char *const keys[] = {"a", "b", "c"};
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    (void)state;
    begin(&p, &promises);
    p.acquire = takes_a_second;
    locker *const l = probe_open(&p);
    assert_ok(locker_lock_all(l, keys, 3, NULL, &h, &err), err);
    assert_int_equal(locker_handle_remaining_ms(h), PROBE_TTL_MS - 2000);
    lk_give(h);
    probe_end(&p, l);
}

/* One wait_ms for all of them. */
static void several_keys_have_the_time_of_one(void **state)
{
    static const char *const keys[] = {"a", "b", "c", "d"};
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    (void)state;
    begin(&p, &promises);
    p.acquire = takes_a_second;
    locker *const l = probe_open(&p);
    options.wait_ms = 1500;
    assert_status(LOCKER_TIMEOUT, locker_lock_all(l, keys, 4, &options, &h, &err), err);
    assert_int_equal(atomic_load(&p.acquires), 2);
    assert_int_equal(atomic_load(&p.withdraws), 2); /* and nothing waits for an answer */
    assert_int_equal(atomic_load(&p.releases), 0);
    probe_end(&p, l);
}

/* The leases are too short for so many keys. */
static locker_status takes_a_third_of_the_lease(probe *p, locker_claim *claim, locker_status status)
{
    status = grants(p, claim, status);
    probe_advance(p, PROBE_TTL_MS / 3);
    return status;
}

static void a_try_whose_leases_are_too_short_ends(void **state)
{
    static const char *const keys[] = {"a", "b", "c"};
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    (void)state;
    begin(&p, &promises);
    p.acquire = takes_a_third_of_the_lease;
    p.driver.renew = NULL;
    locker *const l = probe_open(&p);
    options.wait_ms = 0;
    options.no_renew = true;
    assert_status(LOCKER_UNAVAILABLE, locker_lock_all(l, keys, 3, &options, &h, &err), err);
    assert_int_equal(atomic_load(&p.acquires), 3);
    options.no_renew = false; /* for which a try has one command_timeout, over by now */
    assert_status(LOCKER_UNAVAILABLE, locker_lock_all(l, keys, 3, &options, &h, &err), err);
    assert_int_equal(atomic_load(&p.acquires), 6);
    options.wait_ms = PROBE_TTL_MS + 1; /* a wait has its time for that */
    assert_status(LOCKER_TIMEOUT, locker_lock_all(l, keys, 3, &options, &h, &err), err);
    assert_non_null(strstr(err.text, "lost before the last"));
    assert_int_equal(atomic_load(&p.acquires), 10);
    probe_end(&p, l);
}

/* The lease of what was taken before is over by then, and the keeper hasn't looked. */
static locker_status is_slow_at_the_second(probe *p, locker_claim *claim, locker_status status)
{
    if (atomic_load(&p->acquires) == 2)
        probe_advance(p, PROBE_TTL_MS);
    return grants(p, claim, status);
}

static void a_key_expired_when_the_last_is_locked_is_locked_again(void **state)
{
    static const char *const keys[] = {"a", "b"};
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    (void)state;
    begin(&p, &promises);
    p.acquire = is_slow_at_the_second;
    locker *const l = probe_open(&p);
    assert_ok(locker_lock_all(l, keys, 2, NULL, &h, &err), err);
    assert_int_equal(locker_handle_state(h), LOCKER_STATE_HELD);
    assert_int_equal(atomic_load(&p.acquires), 4);
    lk_give(h);
    probe_end(&p, l);
}

/* What releases are told, and answer. */
static struct {
    size_t begun;  /* grants, in the first call */
    size_t begins; /* calls */
    size_t ended;
    bool strays; /* a call was not about the grants that remained then, in the order of their releases */
    const locker_claim *order[3];
    int64_t until;      /* of the first */
    bool differs;       /* another one had another */
    const char *stands; /* the key whose release stands at the gate; NULL: none */
    locker_status answer[3];
} releases;

static void begins(void *self, locker_claim *const *grants, size_t count)
{
    (void)self;
    if (releases.begins++ == 0) {
        releases.begun = count;
        memcpy(releases.order, grants, count * sizeof grants[0]);
    }
    const size_t done = releases.begun - count;
    releases.strays = releases.strays || done != releases.ended ||
                      memcmp(releases.order + done, grants, count * sizeof grants[0]) != 0;
}

static locker_status ends(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    probe *const p = self;
    const locker_status answer = releases.answer[releases.ended % 3];
    if (releases.ended++ == 0)
        releases.until = until;
    releases.differs = releases.differs || until != releases.until;
    probe_advance(p, 100);
    if (releases.stands != NULL && strcmp(releases.stands, grant->key) == 0)
        (void)probe_stands(p, grant, answer);
    return answer == LOCKER_OK ? answer : locker_error_set(err, answer, 0, "the release of %s", grant->key);
}

static locker *begin_releasing(probe *p, locker_semantics *promises)
{
    begin(p, promises);
    memset(&releases, 0, sizeof releases);
    p->acquire = grants;
    p->driver.begin_release = begins;
    p->driver.release = ends;
    return probe_open(p);
}

/* Each is begun before the first is awaited, and begun again after each answer while several remain; all of them are awaited until
 * the same time; and what is worst is told. */
static void several_are_released_together(void **state)
{
    static const char *const keys[] = {"a", "b", "c"};
    static const locker_status answers[][4] = {
        {LOCKER_OK, LOCKER_OK, LOCKER_OK, LOCKER_OK},
        {LOCKER_OK, LOCKER_UNKNOWN, LOCKER_OK, LOCKER_UNKNOWN},
        {LOCKER_LOST, LOCKER_UNKNOWN, LOCKER_OK, LOCKER_LOST},
        {LOCKER_UNKNOWN, LOCKER_OK, LOCKER_LOST, LOCKER_LOST},
    };
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    (void)state;
    locker *const l = begin_releasing(&p, &promises);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        memset(&releases, 0, sizeof releases);
        memcpy(releases.answer, answers[i], sizeof releases.answer);
        assert_ok(locker_lock_all(l, keys, 3, NULL, &h, &err), err);
        assert_status(answers[i][3], locker_unlock(h, &err), err);
        assert_int_equal(releases.begun, 3);
        assert_int_equal(releases.begins, 2);
        assert_int_equal(releases.ended, 3);
        assert_false(releases.strays);
        assert_false(releases.differs);
        locker_handle_free(h);
    }
    memset(&releases, 0, sizeof releases);
    assert_ok(locker_lock_all(l, keys, 3, NULL, &h, &err), err);
    locker_handle_free(h);
    assert_int_equal(releases.begun, 3);
    assert_false(releases.differs);
    p.holder = NULL; /* which these releases don't tell the probe */
    probe_end(&p, l);
}

/* A key that is not handed over is open to the next who wants it, whatever the others' answers take. */
static void a_waiter_of_one_key_does_not_wait_for_the_others(void **state)
{
    static const char *const keys[] = {"a", "b"};
    locker_lock_options shorter = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    lk_locking waits;
    lk_unlocking unlocking;
    (void)state;
    locker *const l = begin_releasing(&p, &promises);
    releases.stands = "b"; /* which is awaited first */
    assert_ok(locker_lock_all(l, keys, 2, NULL, &h, &err), err);
    shorter.ttl_ms = PROBE_TTL_MS - 1;
    lk_locking_start(&waits, l, "a", &shorter);
    lk_require_waiting(l, 1);
    lk_unlocking_start(&unlocking, h);
    lk_gate_await(&p.entered, 1, "a release");
    lk_give(lk_locking_grant(&waits));
    lk_gate_open(&p.leave, 1);
    assert_status(LOCKER_OK, lk_unlocking_join(&unlocking), unlocking.err);
    locker_handle_free(h);
    p.holder = NULL;
    probe_end(&p, l);
}

/* What may be handed over to a waiter of the locker is, part by part. */
static void parts_are_handed_over(void **state)
{
    static const char *const keys[] = {"a", "b", "c"};
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    lk_locking waits;
    (void)state;
    locker *const l = begin_releasing(&p, &promises);
    assert_ok(locker_lock_all(l, keys, 3, NULL, &h, &err), err);
    lk_locking_start(&waits, l, "b", NULL);
    lk_require_waiting(l, 1);
    assert_ok(locker_unlock(h, &err), err);
    locker_handle *const next = lk_locking_grant(&waits);
    assert_int_equal(atomic_load(&p.passes), 1);
    assert_int_equal(releases.begun, 2);
    lk_give(next);
    locker_handle_free(h);
    p.holder = NULL;
    probe_end(&p, l);
}

/* A session ends, and all keys are lost one after the other: the handle is told once. */
static void a_loss_of_all_keys_is_reported_once(void **state)
{
    static const char *const keys[] = {"a", "b", "c"};
    static atomic_int told;
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    (void)state;
    begin(&p, &promises);
    p.acquire = grants;
    locker *const l = probe_open(&p);
    options.on_lost = counts;
    options.user = &told;
    atomic_store(&told, 0);
    assert_ok(locker_lock_all(l, keys, 3, &options, &h, &err), err);
    p.svc->lease_lost(p.svc, NULL, "the session has ended");
    probe_end(&p, l); /* which tells all losses before it ends */
    assert_int_equal(atomic_load(&told), 1);
    lk_give_lost(h);
}

static lk_gate in_callback, may_look;
static atomic_size_t seen;

static void looks_later(locker_handle *lost, void *unused)
{
    (void)unused;
    lk_gate_open(&in_callback, 1);
    (void)lk_gate_pass(&may_look);
    atomic_store(&seen, locker_handle_count(lost));
}

static void *free_it(void *h)
{
    locker_handle_free(h);
    return NULL;
}

static bool another_is_given_back(void *p)
{
    return atomic_load(&((probe *)p)->releases) > 0;
}

static locker_status grants_and_tells_which(probe *p, locker_claim *claim, locker_status status)
{
    if (atomic_load(&p->claim) == NULL)
        atomic_store(&p->claim, claim);
    return grants(p, claim, status);
}

/* Freeing waits for the callback, which may ask for any of the parts. */
static void all_parts_exist_while_a_loss_is_reported(void **state)
{
    static const char *const keys[] = {"a", "b"};
    locker_lock_options watched = LOCKER_LOCK_OPTIONS_INIT;
    probe p;
    locker_semantics promises;
    locker_error err;
    locker_handle *h;
    pthread_t freer;
    (void)state;
    begin(&p, &promises);
    lk_gate_init(&in_callback);
    lk_gate_init(&may_look);
    p.acquire = grants_and_tells_which;
    watched.on_lost = looks_later;
    locker *const l = probe_open(&p);
    assert_ok(locker_lock_all(l, keys, 2, &watched, &h, &err), err);
    p.svc->lease_lost(p.svc, atomic_load(&p.claim), "the test says so");
    lk_gate_await(&in_callback, 1, "the loss is told");
    assert_int_equal(pthread_create(&freer, NULL, free_it, h), 0);
    assert_false(lk_until(another_is_given_back, &p, A_MOMENT_MS));
    lk_gate_open(&may_look, 1);
    lk_join(freer, "freeing");
    assert_int_equal(atomic_load(&seen), 2);
    probe_end(&p, l);
    lk_gate_destroy(&in_callback);
    lk_gate_destroy(&may_look);
}

static probe *checked;
static atomic_int checks;

/* Both keys are looked at first, then each once more as its turn comes. */
static locker_status stands_before_the_second(void *self, const char *key, size_t key_len, locker_error *err)
{
    (void)self, (void)key, (void)key_len, (void)err;
    if (atomic_fetch_add(&checks, 1) == 3)
        (void)probe_stands(checked, NULL, LOCKER_OK);
    return LOCKER_OK;
}

static locker_status several_answer;
static atomic_bool closed;

static void *take_two(void *l)
{
    static const char *const keys[] = {"a", "b"};
    locker_handle *h;
    several_answer = locker_lock_all(l, keys, 2, NULL, &h, NULL);
    return NULL;
}

static void *close_it(void *l)
{
    (void)locker_close(l);
    atomic_store(&closed, true);
    return NULL;
}

static bool is_closed(void *unused)
{
    (void)unused;
    return atomic_load(&closed);
}

/* Between two keys, too, the call is in flight: its driver is there, and so is the locker. */
static void closing_waits_for_a_call_that_is_between_two_keys(void **state)
{
    static probe p;
    locker_semantics promises;
    pthread_t taker, closer;
    (void)state;
    begin(&p, &promises);
    checked = &p;
    atomic_store(&checks, 0);
    atomic_store(&closed, false);
    p.driver.check_key = stands_before_the_second;
    locker *const l = probe_open(&p);
    assert_int_equal(pthread_create(&taker, NULL, take_two, l), 0);
    lk_gate_await(&p.entered, 1, "the call is between two keys");
    assert_int_equal(pthread_create(&closer, NULL, close_it, l), 0);
    assert_false(lk_until(is_closed, NULL, A_MOMENT_MS));
    lk_gate_open(&p.leave, 1);
    lk_join(taker, "a call for two keys");
    lk_join(closer, "closing");
    assert_int_equal(several_answer, LOCKER_CLOSED);
    assert_int_equal(atomic_load(&p.acquires), 1);
    probe_end(&p, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_try_does_not_wait_behind_a_writer),
        cmocka_unit_test(a_try_does_not_wait_behind_a_grant_that_came_too_late),
        cmocka_unit_test(a_try_asks_when_the_one_before_it_was_refused),
        cmocka_unit_test(a_try_that_timed_out_in_the_queue_proves_nothing),
        cmocka_unit_test(a_try_with_little_time_left_proves_nothing),
        cmocka_unit_test(a_holder_of_one_of_several_permits_does_not_know_of_room),
        cmocka_unit_test(an_owner_is_known_while_the_writer_before_still_unlocks),
        cmocka_unit_test(an_unlocked_handle_is_not_lost_with_its_grant),
        cmocka_unit_test(no_reader_rides_past_a_known_waiter),
        cmocka_unit_test(a_grant_beside_others_takes_riders_for_50_ms),
        cmocka_unit_test(a_reader_does_not_ride_past_a_writer_of_its_locker),
        cmocka_unit_test(no_reader_rides_on_a_grant_that_its_locker_has_broken),
        cmocka_unit_test(no_reader_rides_on_a_broken_grant),
        cmocka_unit_test(a_waiter_is_not_taken_along_on_a_try_s_short_lease),
        cmocka_unit_test(a_waiter_rides_only_while_a_third_of_the_lease_is_left),
        cmocka_unit_test(a_waiter_rides_on_a_session_however_short),
        cmocka_unit_test(a_reader_stands_behind_a_writer_that_the_service_has),
        cmocka_unit_test(no_reader_rides_with_another_label_or_owner),
        cmocka_unit_test(a_ride_that_expired_before_its_call_wakes_up_is_no_grant),
        cmocka_unit_test(remaining_of_several_keys_is_that_of_the_first_to_expire),
        cmocka_unit_test(several_keys_have_the_time_of_one),
        cmocka_unit_test(a_try_whose_leases_are_too_short_ends),
        cmocka_unit_test(a_key_expired_when_the_last_is_locked_is_locked_again),
        cmocka_unit_test(a_loss_of_all_keys_is_reported_once),
        cmocka_unit_test(several_are_released_together),
        cmocka_unit_test(a_waiter_of_one_key_does_not_wait_for_the_others),
        cmocka_unit_test(parts_are_handed_over),
        cmocka_unit_test(all_parts_exist_while_a_loss_is_reported),
        cmocka_unit_test(closing_waits_for_a_call_that_is_between_two_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
