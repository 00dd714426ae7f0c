/* contract.c: what driver.h asks of a driver and the other groups don't show: the table, what is left after
 * close, rest. While these tests run, as while all others do, the checker looks at every
 * call (contract_checker.h). */
#include "kit.h"

#include <ctype.h>
#include <dirent.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract_checker.h"

/* ------------------------------------------------------------------ the table ---- */

static void the_table_is_whole(void **state)
{
    const locker_driver *driver = ((lk_fixture *)*state)->driver;
    bool exemplary = false;
    assert_int_equal(driver->abi, LOCKER_DRIVER_ABI);
    assert_non_null(driver->name);
    assert_string_not_equal(driver->name, "");
    assert_non_null(driver->features);
    assert_non_null(driver->example);
    for (const char *const *scheme = driver->schemes; *scheme != NULL; scheme++) {
        const size_t length = strlen(*scheme);

        for (size_t i = 0; i < length; i++)
            assert_false(isupper((unsigned char)(*scheme)[i]));
        exemplary =
            exemplary || (strncmp(driver->example, *scheme, length) == 0 && driver->example[length] == ':');
    }
    if (!exemplary)
        test_fails("the driver table's example '%s' does not begin with one of its schemes", driver->example);
    for (const locker_parameter *param = driver->params; param->name != NULL; param++)
        if (param->help == NULL || param->help[0] == '\0')
            test_fails("the driver table's parameter '%s' has no help text", param->name);
}

/* A promise without its operation, or the other way round, is one that nobody keeps. */
static void capabilities_and_promises_agree(void **state)
{
    const locker_driver *driver = ((lk_fixture *)*state)->driver;
    const locker_semantics *promises = driver->semantics;
    if (promises->can_break != (driver->break_lock != NULL))
        test_fails("semantics.can_break must be true if the driver has break_lock, and otherwise false");
    if (!promises->leases && driver->renew != NULL)
        test_fails("the driver has renew, but semantics.leases is false");
    if (promises->fairness == LOCKER_FAIR_GLOBAL && (driver->caps & LOCKER_CAP_QUEUE) == 0)
        test_fails(
            "semantics.fairness is LOCKER_FAIR_GLOBAL without LOCKER_CAP_QUEUE, so core passes one claim "
            "of each locker at a time; add LOCKER_CAP_QUEUE to caps, or set LOCKER_FAIR_LOCAL");
    if (promises->fairness != LOCKER_FAIR_LOCAL && promises->fairness != LOCKER_FAIR_GLOBAL)
        test_fails("semantics.fairness is %d, which is not a locker_fairness", (int)promises->fairness);
    if (promises->scope < LOCKER_SCOPE_PROCESS || promises->scope > LOCKER_SCOPE_NETWORK)
        test_fails("semantics.scope is %d, which is not a locker_scope", (int)promises->scope);
}

static void the_driver_describes_its_promises(void **state)
{
    const locker_driver *driver = ((lk_fixture *)*state)->driver;
    const locker_semantics *p = driver->semantics;
    const char *const told[] = {p->holder_dies, p->holder_stalls, p->cut_off, p->service_restarts,
                                p->failover,    p->token,         p->cost};
    assert_string_equal(p->driver, driver->name);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        if (told[i] == NULL || told[i][0] == '\0' || strchr(told[i], '\n') != NULL)
            test_fails("text %zu of the semantics is missing or has more than one line", i + 1);
}

/* ------------------------------------------------------------------ after close ---- */

/* A bit of everything: a grant, a try and a wait in vain, a hand-over, a renewal, a lease that ends. On a
 * busy machine the short lease that is renewed may be lost, which is as good. */
static void work(lk_fixture *fixture)
{
    locker *l = lk_open_locker(fixture, ""), *rival = lk_open_locker(fixture, "");
    locker_lock_options brief = lk_wait_options(150), lease = lk_lease_options(300), renewed = lease;
    locker_handle *held = lk_take(l, "work", NULL), *none = NULL;
    locker_info info = LOCKER_INFO_INIT;
    renewed.no_renew = false;
    locker_handle *short_one = lk_take(l, "renewed", &renewed);
    lk_expect_busy(rival, "work");
    assert_int_equal(locker_lock(rival, "work", &brief, &none, NULL), LOCKER_TIMEOUT);
    assert_int_equal(locker_show(rival, "work", &info, NULL), LOCKER_OK);
    locker_info_clear(&info);
    lk_locking waiter;
    lk_locking_start(&waiter, rival, "work", NULL);
    lk_require_waiting(rival, 1);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    locker_handle_free(short_one);
    held = lk_take(l, "ends", &lease);
    lk_require_state(held, LOCKER_STATE_LOST);
    locker_handle_free(held);
    held = lk_take(l, "left", NULL); /* closing releases it */
    lk_close_locker(l);
    locker_handle_free(held);
    lk_close_locker(rival);
}

static int entries(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;
    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

struct possessions {
    int descriptors, threads;
};

static struct possessions count_possessions(void)
{
    return (struct possessions){entries("/proc/self/fd"), entries("/proc/self/task")};
}

static bool has_no_more_than(void *context)
{
    const struct possessions *before = context, now = count_possessions();
    return now.descriptors <= before->descriptors && now.threads <= before->threads;
}

static void close_leaves_no_descriptor_and_no_thread(void **state)
{
    work(*state); /* what is made once in a process is there now */
    struct possessions before = count_possessions();
    for (int i = 0; i < 3; i++)
        work(*state);
    /* a thread that was joined may stand in /proc a moment longer */
    if (lk_until(has_no_more_than, &before, LK_TEST_PATIENCE_MS))
        return;
    struct possessions now = count_possessions();
    test_fails("after three lockers were opened and closed there are %d descriptors more, and %d threads",
               now.descriptors - before.descriptors, now.threads - before.threads);
}

enum { OPENED = 50 };

typedef struct {
    const lk_fixture *fixture;
    int wrong; /* lives in which a call did not answer as it should */
} lives;

static bool live(const lk_fixture *fixture)
{
    locker *l = NULL;
    locker_handle *held = NULL, *none = NULL;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_error err;
    const bool is_right = lk_open_uri(fixture->driver, fixture->uri, "", &options, &l, &err) == LOCKER_OK &&
                          locker_try_lock(l, "memory", NULL, &held, NULL) == LOCKER_OK &&
                          locker_try_lock(l, "memory", NULL, &none, NULL) == LOCKER_BUSY &&
                          locker_unlock(held, NULL) == LOCKER_OK;
    locker_handle_free(held);
    locker_handle_free(none);
    return locker_close(l) == LOCKER_OK && is_right;
}

static void *live_many(void *argument)
{
    lives *const all = argument;
    for (int i = 0; i < OPENED; i++)
        all->wrong += !live(all->fixture);
    return NULL;
}

/* On a thread of its own: what the allocator caches for a thread counts as used until the thread ends. */
static void open_and_close(lk_fixture *fixture)
{
    lives all = {.fixture = fixture};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, live_many, &all), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(all.wrong, 0);
}

/* A leak grows by its size in every round. Another arena of the allocator takes some memory, too: there is none from here on. */
static void close_leaves_no_memory(void **state)
{
    enum { TIMES = OPENED, ROUNDS_AT_MOST = 12, EACH = 16 }; /* the smallest block takes more */
    size_t least = SIZE_MAX;
    open_and_close(*state);
    (void)mallopt(M_ARENA_MAX, 1);
    for (int i = 0; i < ROUNDS_AT_MOST && least > (size_t)TIMES * EACH; i++) {
        const size_t before = mallinfo2().uordblks;

        open_and_close(*state);
        const size_t after = mallinfo2().uordblks;
        least = after < before ? 0 : after - before < least ? after - before : least;
    }
    if (least > (size_t)TIMES * EACH)
        test_fails("each open, lock, unlock and close leaves about %zu bytes allocated", least / TIMES);
}

/* Closed amid everything. The checker sees the service that is called too late; here is time for it. */
static void no_service_is_called_after_close(void **state)
{
    lk_fixture *fixture = *state;
    locker *other = lk_open_locker(fixture, "");
    locker_handle *theirs = lk_take(other, "theirs", NULL);
    locker *l = lk_open_locker(fixture, "ttl=300ms");
    locker_handle *held = lk_take(l, "mine", NULL);
    lk_locking waiter;
    lk_locking_start(&waiter, l, "theirs", NULL);
    lk_require_waiting(l, 1);
    lk_close_locker(l);
    assert_status(LOCKER_CLOSED, lk_locking_join(&waiter), waiter.err);
    assert_false(lk_readable(locker_handle_fd(theirs), 700)); /* over the time of a renewal, and of a poll */
    lk_give(theirs);
    locker_handle_free(held);
    lk_close_locker(other);
}

/* ------------------------------------------------------------------ rest and errors ---- */

/* A driver whose dispatch asks to be called again and again would use up a processor. */
static void an_idle_locker_rests(void **state)
{
    enum { REST = 1000, OFTEN = 200 };
    locker *l = lk_open_locker(*state, "");
    locker_handle *held = lk_take(l, "idle", NULL);
    assert_false(lk_readable(locker_handle_fd(held), 200));
    const unsigned long before = lk_checker_dispatches();
    assert_false(lk_readable(locker_handle_fd(held), REST));
    const unsigned long count = lk_checker_dispatches() - before;
    if (count > OFTEN)
        test_fails("dispatch was called %lu times in %d ms, while nothing happened", count, REST);
    lk_give(held);
    lk_close_locker(l);
}

/* Every operation may be called without an error struct. */
static void the_error_struct_may_be_null(void **state)
{
    lk_fixture *fixture = *state;
    locker *l = lk_open_locker(fixture, ""), *rival = lk_open_locker(fixture, "");
    locker_handle *held = lk_take(l, "null", NULL), *none = NULL;
    locker_info info = LOCKER_INFO_INIT;
    assert_int_equal(locker_try_lock(rival, "null", NULL, &none, NULL), LOCKER_BUSY);
    assert_int_equal(locker_show(rival, "null", &info, NULL), LOCKER_OK);
    locker_info_clear(&info);
    assert_int_equal(locker_ping(rival, NULL, NULL), LOCKER_OK);
    if (fixture->promises.can_break) {
        assert_int_equal(locker_break(rival, "null", NULL, NULL, NULL), LOCKER_OK);
        assert_int_equal(locker_unlock(held, NULL), LOCKER_LOST);
        assert_int_equal(locker_break(rival, "null", NULL, NULL, NULL), LOCKER_INVALID);
    }
    locker_handle_free(held);
    lk_close_locker(rival);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ every end of a claim ---- */

enum { STORMERS = 6, ROUNDS = 150 };

struct storm {
    atomic_int inside, overlaps, strange; /* strange: an answer that no call should get */
    atomic_uint done;
};

struct stormer {
    struct storm *storm;
    locker *l;
    unsigned number;
    pthread_t thread;
};

static void take_turn(struct stormer *self, const locker_lock_options *options)
{
    struct storm *storm = self->storm;
    locker_handle *held = NULL;
    const locker_status status = locker_lock(self->l, "storm", options, &held, NULL);
    if (status == LOCKER_OK) {
        if (atomic_fetch_add(&storm->inside, 1) != 0)
            atomic_fetch_add(&storm->overlaps, 1);
        atomic_fetch_sub(&storm->inside, 1);
        if (locker_unlock(held, NULL) != LOCKER_OK)
            atomic_fetch_add(&storm->strange, 1);
        locker_handle_free(held);
    } else if (status != LOCKER_BUSY && status != LOCKER_TIMEOUT && status != LOCKER_CANCELED) {
        atomic_fetch_add(&storm->strange, 1);
    }
}

/* Tries, short waits, and waits that are canceled before or in the middle. */
static void *storm_on(void *argument)
{
    struct stormer *self = argument;
    locker_cancel *cancel = locker_cancel_new();
    unsigned seed = self->number;
    for (int i = 0; i < ROUNDS && cancel != NULL; i++) {
        locker_lock_options options = lk_wait_options(rand_r(&seed) % 4);

        if (rand_r(&seed) % 5 == 0) {
            options.wait_ms = -1;
            options.cancel = cancel;
            locker_cancel_fire(cancel);
        }
        take_turn(self, &options);
        locker_cancel_reset(cancel);
        atomic_fetch_add(&self->storm->done, 1);
    }
    locker_cancel_free(cancel);
    return NULL;
}

/* Claims that are granted, given up, canceled and handed over, all at once; nothing is left of them. */
static void claims_end_in_every_way(void **state)
{
    locker *lockers[2] = {lk_open_locker(*state, ""), lk_open_locker(*state, "")};
    struct storm storm = {0};
    struct stormer stormers[STORMERS];
    for (unsigned i = 0; i < STORMERS; i++) {
        stormers[i] = (struct stormer){&storm, lockers[i % 2], i, 0};
        assert_int_equal(pthread_create(&stormers[i].thread, NULL, storm_on, &stormers[i]), 0);
    }
    for (int i = 0; i < STORMERS; i++)
        lk_join_worker(stormers[i].thread, &storm.done, "threads that lock, give up and cancel");
    assert_int_equal(atomic_load(&storm.overlaps), 0);
    assert_int_equal(atomic_load(&storm.strange), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lk_stats(lockers[i]).held, 0);
        lk_give(lk_take(lockers[i], "storm", NULL));
        lk_close_locker(lockers[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_table_is_whole),
    cmocka_unit_test(capabilities_and_promises_agree),
    cmocka_unit_test(the_driver_describes_its_promises),
    cmocka_unit_test(the_error_struct_may_be_null),
    cmocka_unit_test(claims_end_in_every_way),
    cmocka_unit_test(close_leaves_no_descriptor_and_no_thread),
    cmocka_unit_test(close_leaves_no_memory),
    cmocka_unit_test(no_service_is_called_after_close),
    cmocka_unit_test(an_idle_locker_rests),
};

const lk_group lk_contract = {"contract", tests, sizeof tests / sizeof tests[0]};
