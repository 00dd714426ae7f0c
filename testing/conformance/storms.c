/* storms.c: many threads, lockers and processes on few keys at once, in every way there is; see storm.h. A
 * storm rages for a short time, or for the rounds that the command line asks for. After each round every key
 * can be had again; in the end nobody holds one or waits. */
#include "storm.h"
#include "watchdog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

unsigned long lk_storm_rounds;
uint64_t lk_storm_seed;

enum { SHORT_TIME_MS = 1000, ROUNDS_AT_LEAST = 2, LOCKERS = 4, JUDGE = 1000, TRIES = 8, TRIERS_AT_MOST = 20 };

struct storm {
    lk_fixture *fixture;
    const char *name;
    char directory[64], path[96];
    lk_detector *detector;
    lk_storm_kind kind;
    locker *judge; /* nobody closes it */
    unsigned long round;
    uint64_t row; /* of this round's random numbers */
    int64_t until_ms;
    unsigned lockers; /* how many there were; each has its number */
};

static void begin(struct storm *storm, lk_fixture *fixture, const char *name, lk_storm_kind kind)
{
    *storm = (struct storm){.fixture = fixture, .name = name, .kind = kind};
    while (lk_storm_seed == 0)
        lk_storm_seed = (uint64_t)lk_storm_now();
    lk_private_directory(storm->directory);
    snprintf(storm->path, sizeof storm->path, "%s/detector", storm->directory);
    storm->detector = lk_detector_open(storm->path);
    storm->judge = lk_open_locker(fixture, "");
    storm->until_ms = lk_test_now_ms() + SHORT_TIME_MS;
}

/* Whether there is another round, and its random numbers: they are those of this round, whatever came
 * before. */
static bool goes_on(struct storm *storm)
{
    storm->row = (lk_storm_seed + storm->round) * UINT64_C(0x9E3779B97F4A7C15) | 1;
    lk_detector_clear(storm->detector);
    if (lk_storm_rounds > 0)
        return storm->round < lk_storm_rounds;
    return storm->round < ROUNDS_AT_LEAST || lk_test_now_ms() < storm->until_ms;
}

/* Whoever was there, and however he went: the key can be had. */
static void require_each_key(struct storm *storm)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_storm_choose(storm->kind, 0, &options);
    for (unsigned key = 0; key < LK_STORM_KEYS; key++) {
        const int64_t asked = lk_storm_now();
        locker_handle *held = NULL;
        locker_error err;
        const locker_status status = locker_lock(storm->judge, lk_storm_key(key), &options, &held, &err);

        if (status != LOCKER_OK)
            test_fails("storm: %s, seed %" PRIu64 ", round %lu: after the round %s cannot be locked: %s",
                       storm->name, lk_storm_seed, storm->round, lk_storm_key(key), err.text);
        lk_stay *stay = lk_detector_enter(storm->detector, key, JUDGE, asked, held, options.mode);
        if (stay != NULL)
            lk_stay_give(stay, held);
        locker_handle_free(held);
    }
}

static void judge(struct storm *storm)
{
    require_each_key(storm);
    char text[600];
    const char *seen = lk_detector_judge(storm->detector, text, sizeof text);
    if (seen != NULL)
        test_fails("storm: %s, seed %" PRIu64 ", round %lu: %s; repeat with --seed %" PRIu64
                   " --rounds %lu storms %s",
                   storm->name, lk_storm_seed, storm->round, seen, lk_storm_seed, storm->round + 1,
                   storm->name);
    storm->round++;
    lk_watchdog_progress();
}

struct asked {
    locker *l;
    const char *key;
};

static bool is_deserted(void *context)
{
    const struct asked *asked = context;
    locker_info info = LOCKER_INFO_INIT;
    const locker_status status = locker_show(asked->l, asked->key, &info, NULL);
    const bool deserted = status == LOCKER_OK && !info.held && info.waiters <= 0;
    locker_info_clear(&info);
    return deserted;
}

static void end(struct storm *storm)
{
    for (unsigned key = 0; key < LK_STORM_KEYS; key++) {
        struct asked asked = {storm->judge, lk_storm_key(key)};

        lk_require(is_deserted, &asked, "the storm's key should have no holder and no waiter");
    }
    lk_close_locker(storm->judge);
    lk_detector_close(storm->detector);
    lk_remove_directory(storm->directory);
}

/* ------------------------------------------------------------------ tries ---- */

struct trier {
    struct tries *tries;
    locker *l;
    unsigned number;
    pthread_t thread;
};

/* Threads that try one key at the same moment, and hold what they got until all have tried. Not on the
 * stack of the test, which may fail while they go on. */
struct tries {
    lk_detector *detector;
    locker_lock_options options;
    pthread_barrier_t together;
    struct trier triers[TRIERS_AT_MOST];
};

static void try_once(struct trier *trier, unsigned key)
{
    lk_detector *detector = trier->tries->detector;
    lk_stay *stay = NULL;
    locker_handle *held = NULL;
    pthread_barrier_wait(&trier->tries->together);
    const int64_t asked = lk_storm_now();
    locker_error err;
    const locker_status status =
        locker_try_lock(trier->l, lk_storm_key(key), &trier->tries->options, &held, &err);
    if (status == LOCKER_OK)
        stay = lk_detector_enter(detector, key, trier->number, asked, held, trier->tries->options.mode);
    else if (status != LOCKER_BUSY || trier->tries->options.mode == LOCKER_SHARED)
        lk_detector_complain(detector, "a try answered %s: %s", locker_status_name(status), err.text);
    pthread_barrier_wait(&trier->tries->together);
    if (stay != NULL)
        lk_stay_give(stay, held);
    locker_handle_free(held);
    pthread_barrier_wait(&trier->tries->together);
}

static void *keep_trying(void *argument)
{
    struct trier *trier = argument;
    for (unsigned i = 0; i < TRIES; i++)
        try_once(trier, i % LK_STORM_KEYS);
    return NULL;
}

static void one_round_of_tries(struct storm *storm, locker *const *lockers, unsigned together, unsigned alone)
{
    struct tries *tries = calloc(1, sizeof *tries);
    assert_non_null(tries);
    tries->detector = storm->detector;
    tries->options = lk_wait_options(0);
    lk_storm_choose(storm->kind, 1, &tries->options);
    pthread_barrier_init(&tries->together, NULL, together + alone);
    for (unsigned i = 0; i < together + alone; i++) {
        const unsigned number = i < together ? 0 : i - together + 1;
        struct trier *trier = &tries->triers[i];

        *trier = (struct trier){tries, lockers[number], number, 0};
        assert_int_equal(pthread_create(&trier->thread, NULL, keep_trying, trier), 0);
    }
    for (unsigned i = 0; i < together + alone; i++)
        lk_join(tries->triers[i].thread, "a thread that tries and gives");
    pthread_barrier_destroy(&tries->together);
    free(tries);
}

/* `together` threads on one locker, and `alone` with one each. */
static void storm_of_tries(void **state, const char *name, lk_storm_kind kind, unsigned together,
                           unsigned alone)
{
    struct storm storm;
    begin(&storm, *state, name, kind);
    locker *lockers[TRIERS_AT_MOST + 1];
    for (unsigned i = 0; i <= alone; i++)
        lockers[i] = lk_open_locker(storm.fixture, "");
    for (; goes_on(&storm); judge(&storm))
        one_round_of_tries(&storm, lockers, together, alone);
    for (unsigned i = 0; i <= alone; i++)
        lk_close_locker(lockers[i]);
    end(&storm);
}

static void tries_on_one_locker(void **state)
{
    storm_of_tries(state, "tries_on_one_locker", LK_STORM_PLAIN, 20, 0);
}

static void tries_on_one_locker_and_some_others(void **state)
{
    storm_of_tries(state, "tries_on_one_locker_and_some_others", LK_STORM_PLAIN, 8, 4);
}

static void tries_on_many_lockers(void **state)
{
    storm_of_tries(state, "tries_on_many_lockers", LK_STORM_PLAIN, 4, 8);
}

static void tries_to_share(void **state)
{
    needs(((lk_fixture *)*state)->promises.shared != LOCKER_ORDER_NONE);
    storm_of_tries(state, "tries_to_share", LK_STORM_SHARED, 8, 4);
}

static void tries_for_permits(void **state)
{
    needs(((lk_fixture *)*state)->promises.permits_most > 0);
    storm_of_tries(state, "tries_for_permits", LK_STORM_OF_PERMITS, 8, 4);
}

/* ------------------------------------------------------------------ everything at once ---- */

/* Where a lock has no lease, none lapses; where nobody can break it, nobody does. */
static lk_plan plan_for(const lk_fixture *fixture, lk_plan plan)
{
    if (!fixture->promises.leases)
        plan.wishes &= ~(unsigned)LK_WISH_LAPSE;
    if (!fixture->promises.can_break)
        plan.wishes &= ~(unsigned)LK_WISH_BREAK;
    return plan;
}

static const unsigned every_wish =
    LK_WISH_TRY | LK_WISH_WAIT | LK_WISH_BRIEF | LK_WISH_CANCEL | LK_WISH_LAPSE | LK_WISH_AGAIN;

/* Crews on `count` lockers that stay open. */
static void storm_of_crews(lk_fixture *fixture, const char *name, unsigned count, lk_plan wanted)
{
    const lk_plan plan = plan_for(fixture, wanted);
    lk_crew *crews[12];
    struct storm storm;
    begin(&storm, fixture, name, plan.kind);
    locker *lockers[12];
    for (unsigned i = 0; i < count; i++)
        lockers[i] = lk_open_locker(fixture, "");
    for (; goes_on(&storm); judge(&storm)) {
        for (unsigned i = 0; i < count; i++)
            crews[i] = lk_crew_start(storm.detector, &plan, lockers[i], i, storm.row + i);
        for (unsigned i = 0; i < count; i++)
            lk_crew_join(crews[i]);
    }
    for (unsigned i = 0; i < count; i++)
        lk_close_locker(lockers[i]);
    end(&storm);
}

static void everything_at_once(void **state)
{
    storm_of_crews(*state, "everything_at_once", LOCKERS,
                   (lk_plan){.wishes = every_wish, .threads = 4, .turns = 12, .keys = 3});
}

static void readers_and_writers(void **state)
{
    needs(((lk_fixture *)*state)->promises.shared != LOCKER_ORDER_NONE);
    storm_of_crews(
        *state, "readers_and_writers", LOCKERS,
        (lk_plan){.wishes = every_wish, .threads = 4, .turns = 12, .keys = 2, .kind = LK_STORM_SHARED});
}

static void permits(void **state)
{
    needs(((lk_fixture *)*state)->promises.permits_most > 0);
    storm_of_crews(
        *state, "permits", LOCKERS,
        (lk_plan){.wishes = every_wish, .threads = 4, .turns = 12, .keys = 2, .kind = LK_STORM_OF_PERMITS});
}

/* One thread each: what was broken is not handed on inside a locker that doesn't know of it yet. */
static void breaks(void **state)
{
    lk_fixture *fixture = *state;
    needs(fixture->promises.can_break);
    storm_of_crews(fixture, "breaks", 10,
                   (lk_plan){.wishes = LK_WISH_TRY | LK_WISH_WAIT | LK_WISH_BRIEF | LK_WISH_BREAK,
                             .threads = 1,
                             .turns = 20,
                             .keys = 3});
}

/* ------------------------------------------------------------------ lockers that are closed ---- */

static void rest(struct storm *storm, unsigned at_most_us)
{
    const struct timespec time = {0, lk_storm_random(&storm->row, at_most_us) * 1000L};
    nanosleep(&time, NULL);
}

/* Waits are in it, and handles are held and being given; then another is opened in its place. */
static void close_one(struct storm *storm, lk_crew *crew, locker **l)
{
    rest(storm, 8000);
    lk_crew_leave(crew);
    rest(storm, 500);
    lk_close_locker(*l);
    lk_crew_join(crew);
    *l = lk_open_locker(storm->fixture, "");
}

static void closes(void **state)
{
    static const lk_plan plan = {.wishes = LK_WISH_TRY | LK_WISH_WAIT | LK_WISH_CANCEL,
                                 .threads = 4,
                                 .turns = 12,
                                 .keys = 2,
                                 .closes = true};
    lk_crew *crews[LOCKERS];
    struct storm storm;
    begin(&storm, *state, "closes", plan.kind);
    locker *lockers[LOCKERS];
    for (unsigned i = 0; i < LOCKERS; i++)
        lockers[i] = lk_open_locker(storm.fixture, "");
    for (; goes_on(&storm); judge(&storm)) {
        for (unsigned i = 0; i < LOCKERS; i++)
            crews[i] = lk_crew_start(storm.detector, &plan, lockers[i], storm.lockers++, storm.row + i);
        for (unsigned i = 0; i < LOCKERS / 2; i++)
            close_one(&storm, crews[i], &lockers[i]);
        for (unsigned i = LOCKERS / 2; i < LOCKERS; i++)
            lk_crew_join(crews[i]);
    }
    for (unsigned i = 0; i < LOCKERS; i++)
        lk_close_locker(lockers[i]);
    end(&storm);
}

/* ------------------------------------------------------------------ processes ---- */

enum { PROCESSES = 4, KILLS_ONE_ROUND_IN = 3 };

/* NULL: the line is none. */
static lk_crew *start_as_told(const char *line, lk_detector *detector, locker *l, unsigned number)
{
    lk_plan plan = {.wishes = LK_WISH_TRY | LK_WISH_WAIT | LK_WISH_BRIEF | LK_WISH_CANCEL | LK_WISH_AGAIN,
                    .threads = 3,
                    .turns = 12,
                    .keys = 3};
    char *kind;
    const uint64_t row = strtoull(line, &kind, 10);
    plan.kind = (lk_storm_kind)strtoul(kind, NULL, 10);
    return lk_crew_start(detector, &plan, l, number, row);
}

int lk_storm_serve(locker *l, const char *path, unsigned number)
{
    lk_detector *detector = lk_detector_open(path);
    lk_side_say("open");
    char line[LK_LINE_MAX];
    while (lk_side_hear(line)) {
        lk_crew_join(start_as_told(line, detector, l, number));
        lk_side_say("done");
    }
    return locker_close(l) == LOCKER_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A lease that is short, so that the others needn't wait long for one that is killed. */
static lk_child *start_process(struct storm *storm)
{
    char number[16], uri[512];
    const char *arguments[] = {uri, storm->path, number, NULL};
    const int64_t kept_ms = storm->fixture->subject->kept_ttl_ms;
    snprintf(uri, sizeof uri, "%s%cttl=%" PRId64 "ms", storm->fixture->uri,
             strchr(storm->fixture->uri, '?') != NULL ? '&' : '?', kept_ms > 0 ? kept_ms : 500);
    snprintf(number, sizeof number, "%u", storm->lockers++);
    lk_child *child = lk_child_start("storm", arguments);
    lk_child_expect(child, "open");
    return child;
}

static void kill_one(struct storm *storm, lk_child **child)
{
    rest(storm, 20000);
    lk_child_kill(*child);
    *child = NULL;
}

static void one_round_of_processes(struct storm *storm, lk_child **children)
{
    const bool kills = lk_storm_random(&storm->row, KILLS_ONE_ROUND_IN) == 0;
    for (unsigned i = 0; i < PROCESSES; i++)
        if (children[i] == NULL)
            children[i] = start_process(storm);
    for (unsigned i = 0; i < PROCESSES; i++)
        lk_child_say(children[i], "%" PRIu64 " %d", storm->row + i, (int)storm->kind);
    if (kills)
        kill_one(storm, &children[0]);
    for (unsigned i = 0; i < PROCESSES; i++)
        if (children[i] != NULL)
            lk_child_expect(children[i], "done");
}

static void storm_of_processes(void **state, const char *name, lk_storm_kind kind)
{
    lk_child *children[PROCESSES] = {NULL};
    struct storm storm;
    begin(&storm, *state, name, kind);
    for (; goes_on(&storm); judge(&storm))
        one_round_of_processes(&storm, children);
    for (unsigned i = 0; i < PROCESSES; i++)
        if (children[i] != NULL)
            assert_int_equal(lk_child_end(children[i]), EXIT_SUCCESS);
    end(&storm);
}

static void processes(void **state)
{
    needs_processes((lk_fixture *)*state);
    storm_of_processes(state, "processes", LK_STORM_PLAIN);
}

static void processes_share(void **state)
{
    needs_processes((lk_fixture *)*state);
    needs(((lk_fixture *)*state)->promises.shared != LOCKER_ORDER_NONE);
    storm_of_processes(state, "processes_share", LK_STORM_SHARED);
}

static void processes_have_permits(void **state)
{
    needs_processes((lk_fixture *)*state);
    needs(((lk_fixture *)*state)->promises.permits_most > 0);
    storm_of_processes(state, "processes_have_permits", LK_STORM_OF_PERMITS);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(tries_on_one_locker),
    cmocka_unit_test(tries_on_one_locker_and_some_others),
    cmocka_unit_test(tries_on_many_lockers),
    cmocka_unit_test(everything_at_once),
    cmocka_unit_test(breaks),
    cmocka_unit_test(closes),
    cmocka_unit_test(processes),
};

/* The same of what is shared. */
static const struct CMUnitTest shared_tests[] = {
    cmocka_unit_test(tries_to_share),      cmocka_unit_test(tries_for_permits),
    cmocka_unit_test(readers_and_writers), cmocka_unit_test(permits),
    cmocka_unit_test(processes_share),     cmocka_unit_test(processes_have_permits),
};

const lk_group lk_storms = {"storms", tests, sizeof tests / sizeof tests[0]};
const lk_group lk_shared_storms = {"shared_storms", shared_tests,
                                   sizeof shared_tests / sizeof shared_tests[0]};
