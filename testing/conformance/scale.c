/* scale.c: many waiters, many locks, many permits, many keys in doubt, each beside a bystander (bystander.h) that must not notice.
 * lk_scale_percent of the full sizes are tested. */
#include "bystander.h"
#include "watchdog.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { WAITERS = 3000, LOCKS = 10000, PERMITS = 10000, DOUBTS = 10000, SERVED_MS = 5000 };

unsigned long lk_scale_percent = 10;

static unsigned scaled(unsigned full)
{
    return (unsigned)(full * lk_scale_percent / 100);
}

/* The end of a measurement, for the tables of docs/data/reliability-kit.md. */
static void say(const char *what, unsigned count, int64_t began)
{
    print_message("scale: %u %s in %" PRId64 " ms\n", count, what, lk_test_now_ms() - began);
}

/* ------------------------------------------------------------------ threads ---- */

/* Threads that do something `count` times in all. */
typedef struct crew {
    bool (*work)(struct crew *crew, unsigned i); /* the i-th time */
    locker *l;
    const locker_lock_options *options;
    locker_handle **held; /* of `count` */
    unsigned count;
    atomic_uint next, failed;
    atomic_ullong last_token; /* of the waiters */
} crew;

static void *work(void *argument)
{
    crew *const c = argument;
    for (unsigned i; (i = atomic_fetch_add(&c->next, 1)) < c->count; lk_watchdog_progress())
        if (!c->work(c, i))
            atomic_fetch_add(&c->failed, 1);
    return NULL;
}

static pthread_t *start_threads(crew *c, unsigned threads)
{
    pthread_t *const started = calloc(threads, sizeof *started);
    pthread_attr_t small;
    assert_non_null(started);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)128 * 1024);
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&started[i], &small, work, c), 0);
    pthread_attr_destroy(&small);
    return started;
}

static void join_threads(pthread_t *started, unsigned threads)
{
    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_join(started[i], NULL), 0);
    free(started);
}

/* Do `what` c->count times by so many threads; each time has to succeed. */
static void each(crew *c, unsigned threads, bool (*what)(crew *, unsigned))
{
    c->work = what;
    atomic_store(&c->next, 0);
    atomic_store(&c->failed, 0);
    join_threads(start_threads(c, threads), threads);
    assert_int_equal(atomic_load(&c->failed), 0);
}

static void key_of(char key[32], unsigned i)
{
    snprintf(key, 32, "scale/%u", i);
}

static bool take(crew *c, unsigned i)
{
    char key[32];
    key_of(key, i);
    return locker_lock(c->l, key, NULL, &c->held[i], NULL) == LOCKER_OK;
}

static bool take_permit(crew *c, unsigned i)
{
    return locker_lock(c->l, "scale/permits", c->options, &c->held[i], NULL) == LOCKER_OK;
}

static bool give(crew *c, unsigned i)
{
    const bool is_ok = locker_unlock(c->held[i], NULL) == LOCKER_OK;
    locker_handle_free(c->held[i]);
    c->held[i] = NULL;
    return is_ok;
}

static bool take_and_give(crew *c, unsigned i)
{
    return take(c, i) && give(c, i);
}

static crew crew_of(locker *l, unsigned count)
{
    crew c = {.l = l, .count = count, .held = calloc(count, sizeof *c.held)};
    assert_non_null(c.held);
    return c;
}

enum { THREADS = 8 };

/* ------------------------------------------------------------------ waiters ---- */

static bool wait_for_a_turn(crew *c, unsigned i)
{
    if (locker_lock(c->l, "scale/crowded", NULL, &c->held[i], NULL) != LOCKER_OK)
        return false;
    const uint64_t token = locker_handle_token(c->held[i]);
    const bool grows = atomic_exchange(&c->last_token, token) < token || token == 0;
    return give(c, i) && grows;
}

static void waiters_are_served(void **state)
{
    lk_fixture *const fixture = *state;
    lk_bystander *const bystander = lk_bystander_start(fixture);
    locker *const holder = lk_open_locker(fixture, ""), *const l = lk_open_locker(fixture, "");
    locker_handle *const held = lk_take(holder, "scale/crowded", NULL);
    crew c = crew_of(l, scaled(WAITERS));
    c.work = wait_for_a_turn;
    const int64_t began = lk_test_now_ms();
    pthread_t *const threads = start_threads(&c, c.count);
    lk_require_waiting(l, c.count);
    say("waiters wait", c.count, began);
    assert_timely_from();
    const int64_t released = lk_test_now_ms();
    lk_give(held);
    join_threads(threads, c.count);
    const int64_t took_ms = lk_test_now_ms() - released;
    say("waiters were served", c.count, released);
    assert_int_equal(atomic_load(&c.failed), 0);
    assert_int_equal(lk_stats(l).acquired, c.count);
    assert_timely(took_ms, SERVED_MS);
    lk_bystander_end(bystander, "waiters");
    free(c.held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* ------------------------------------------------------------------ locks ---- */

/* A grant of a host costs descriptors (load.c), so a process has no more of `wanted` than the limit allows, with so many each. */
static unsigned grants_at_most(const lk_fixture *fixture, unsigned wanted, unsigned descriptors)
{
    enum { OTHERS = 200 };
    struct rlimit limit;
    if (fixture->promises.scope != LOCKER_SCOPE_HOST)
        return wanted;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_max > OTHERS);
    const rlim_t possible = (limit.rlim_max - OTHERS) / descriptors;
    return possible >= wanted ? wanted : (unsigned)possible;
}

static void locks_are_renewed(void **state)
{
    lk_fixture *const fixture = *state;
    const int64_t kept_ms = fixture->subject->kept_ttl_ms, ttl_ms = kept_ms > 1500 ? kept_ms : 1500;
    char ttl[32] = "";
    if (fixture->promises.leases)
        snprintf(ttl, sizeof ttl, "ttl=%" PRId64 "ms", ttl_ms);
    const unsigned count = grants_at_most(fixture, scaled(LOCKS), 1);
    lk_bystander *const bystander = lk_bystander_start(fixture);
    locker *const l = lk_open_locker(fixture, ttl);
    crew c = crew_of(l, count);
    int64_t began = lk_test_now_ms();
    each(&c, THREADS, take);
    say("locks were taken", count, began);
    if (fixture->promises.leases) /* longer than a lease that is not renewed */
        poll(NULL, 0, (int)(ttl_ms * 5 / 4));
    assert_unless_late(lk_stats(l).lost == 0);
    assert_unless_late(lk_stats(l).held == count);
    if (lk_stats(l).lost == 0) {
        began = lk_test_now_ms();
        each(&c, THREADS, give);
        say("locks were released", count, began);
    } else {
        for (unsigned i = 0; i < count; i++)
            locker_handle_free(c.held[i]);
    }
    locker *const next = lk_open_locker(fixture, "");
    c.l = next;
    each(&c, THREADS, take_and_give);
    lk_bystander_end(bystander, "locks");
    free(c.held);
    lk_close_locker(next);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ permits ---- */

/* The time grows with the square of their number where a permit costs a look at those that are taken, so the number is scaled twice.
 * The promised maximum is asked for once: a million grants would take minutes. */
static void all_permits_are_held(void **state)
{
    enum { EACH_PERMIT = 2 }; /* descriptors: its file, and its ticket */
    lk_fixture *const fixture = *state;
    const int32_t most = (int32_t)fixture->promises.permits_most;
    needs(most > 0);
    const unsigned wanted = grants_at_most(fixture, scaled(scaled(PERMITS)), EACH_PERMIT),
                   count = most < (int32_t)wanted ? (unsigned)most : wanted;
    lk_bystander *const bystander = lk_bystander_start(fixture);
    locker *const l = lk_open_locker(fixture, ""), *const rival = lk_open_locker(fixture, "");
    const locker_lock_options promised = lk_permit_options(most), one = lk_permit_options((int32_t)count);
    lk_give(lk_take(l, "scale/promised", &promised));
    crew c = crew_of(l, count);
    c.options = &one;
    int64_t began = lk_test_now_ms();
    each(&c, 1, take_permit);
    say("permits were taken", count, began);
    locker_handle *none = NULL;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(rival, "scale/permits", &one, &none, &err), err);
    began = lk_test_now_ms();
    each(&c, THREADS, give);
    say("permits were released", count, began);
    lk_give(lk_take(rival, "scale/permits", NULL)); /* the key is free: it may be used as a lock */
    lk_bystander_end(bystander, "permits");
    free(c.held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ keys in doubt ---- */

static bool try_in_vain(crew *c, unsigned i)
{
    char key[32];
    key_of(key, i);
    const locker_status status = locker_try_lock(c->l, key, NULL, &c->held[i], NULL);
    return status == LOCKER_UNAVAILABLE || status == LOCKER_UNKNOWN;
}

/* Each call asks for a key of its own and ends without an answer, so its claim may hold the lock. */
static void keys_in_doubt_come_back(void **state)
{
    enum {
        KEYS_OF_A_THREAD = 10
    }; /* of 100 ms each, so the silence is shorter than half of the bystander's lease */
    lk_fixture *const fixture = *state;
    needs(lk_can_freeze(fixture));
    lk_bystander *const bystander = lk_bystander_start(fixture);
    locker *const l = lk_open_locker(fixture, "command_timeout=100ms"), *const next =
                                                                            lk_open_locker(fixture, "");
    crew c = crew_of(l, scaled(DOUBTS));
    lk_give(lk_take(l, "scale/connected", NULL));
    lk_bystander_rest(bystander);
    lk_freeze(fixture);
    int64_t began = lk_test_now_ms();
    each(&c, c.count / KEYS_OF_A_THREAD, try_in_vain);
    say("calls got no reply", c.count, began);
    lk_thaw(fixture);
    lk_bystander_go_on(bystander);
    began = lk_test_now_ms();
    c.l = next;
    each(&c, THREADS, take_and_give);
    say("keys in doubt were locked again", c.count, began);
    lk_bystander_end(bystander, "doubts");
    free(c.held);
    lk_close_locker(next);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(waiters_are_served),
    cmocka_unit_test(locks_are_renewed),
    cmocka_unit_test(all_permits_are_held),
    cmocka_unit_test(keys_in_doubt_come_back),
};

const lk_group lk_scale = {"scale", tests, sizeof tests / sizeof tests[0]};
