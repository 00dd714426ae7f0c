/* run.c: the kit's one call: command line, groups, the other processes; see <locker/conformance.h>. */
#include "kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lk_sized.h>

#include "bystander.h"
#include "contract_checker.h"
#include "servers/lateness.h"
#include "storm.h"
#include "watchdog.h"

static const lk_group *const groups[] = {&lk_contract,  &lk_basics,  &lk_waiting,       &lk_cancel,
                                         &lk_processes, &lk_leases,  &lk_loss,          &lk_handles,
                                         &lk_fork,      &lk_load,    &lk_storms,        &lk_shared,
                                         &lk_permits,   &lk_several, &lk_shared_storms, &lk_scale};

enum { GROUPS = sizeof groups / sizeof groups[0], TESTS_AT_MOST = 32, BAD_USAGE = 64 };

/* Of the watchdog, in ms; of the hook `stop` after a hang, in s. */
enum { HANG_MS = 60000, HANG_MS_LEAST = 1000, STOP_S = 10 };

/* cmocka's fixtures have no argument of ours, so the run's is here. */
static lk_fixture fixture;
static size_t started;        /* tests of this run */
static const char *group_run; /* the group that is run */
static const char *program;   /* how it was started */

/* ------------------------------------------------------------------ one group ---- */

/* Leaves *state alone: cmocka would give it to the tests in place of what run_watched() wants. */
static int set_up(void **state)
{
    (void)state;
    fixture.uri[0] = '\0';
    lk_watchdog_watch(group_run, NULL);
    lk_watchdog_hook("start");
    fixture.service = fixture.subject->start(fixture.uri, sizeof fixture.uri);
    lk_watchdog_hook(NULL);
    if (fixture.service == NULL)
        test_fails("the subject's hook `start` failed");
    lk_checker_forget();
    lk_checker_begin();
    locker *l = lk_open_locker(&fixture, "");
    const locker_semantics *promises = locker_get_semantics(l);
    fixture.promises = (locker_semantics){.size = sizeof fixture.promises,
                                          .scope = promises->scope,
                                          .fairness = promises->fairness,
                                          .leases = promises->leases,
                                          .tokens_persist = promises->tokens_persist,
                                          .survives_restart = promises->survives_restart,
                                          .can_break = promises->can_break,
                                          .quorum = promises->quorum,
                                          .shared = promises->shared,
                                          .permits_most = promises->permits_most};
    lk_close_locker(l);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    void *const service = fixture.service;
    fixture.service = NULL;
    lk_watchdog_watch(group_run, NULL);
    lk_watchdog_hook("stop");
    if (service != NULL)
        fixture.subject->stop(service);
    lk_watchdog_watch(NULL, NULL);
    return 0;
}

/* After any end of a test, a failed or skipped one too. */
static int after_test(void **state)
{
    const struct CMUnitTest *test = *state;
    void *shared = &fixture;
    lk_checker_end();
    return test->teardown_func != NULL ? test->teardown_func(&shared) : 0;
}

static void judge(void)
{
    if (lk_checker_breaches() > 0)
        test_fails("the driver broke its contract; the lines above say how");
    lk_timely_check(lk_checker_missed_ms(), 1, "the delay of a driver operation beyond its limit", __FILE__,
                    __LINE__);
}

/* A test as the kit runs it: a breach that the checker saw fails it, and one that was late is run again. */
static void run_watched(void **state)
{
    const struct CMUnitTest *test = *state;
    void *shared = &fixture;
    started++;
    for (int run = 1;; run++) {
        lk_watchdog_watch(group_run, test->name);
        lk_checker_begin();
        lk_timely_begin(test->name, run);
        test->test_func(&shared);
        judge();
        if (!lk_timely_was_late())
            return;
        (void)after_test(state);
    }
}

/* Adds to *skipped the tests that were not promised. Answers how many failed. */
static int run_group(const lk_group *group, size_t *skipped)
{
    struct CMUnitTest tests[TESTS_AT_MOST];
    for (size_t i = 0; i < group->count; i++)
        tests[i] = (struct CMUnitTest){.name = group->tests[i].name,
                                       .test_func = run_watched,
                                       .teardown_func = after_test,
                                       .initial_state = (void *)(uintptr_t)&group->tests[i]};
    lk_skipped = 0;
    group_run = group->name;
    const int failed = _cmocka_run_group_tests(group->name, tests, group->count, set_up, tear_down);
    *skipped += lk_skipped;
    return failed;
}

/* ------------------------------------------------------------------ a test that hangs ---- */

/* Say what hangs and what to look at, stop the service and end the run. On the watchdog's thread. The process ends in STOP_S seconds
 * even if the service does not stop. */
static void end_hanging_run(const lk_hang *hang)
{
    const char *const test = hang->test != NULL ? hang->test : "(start or stop)";
    void *const service = fixture.service;
    fprintf(stderr, "\nconformance: %s/%s hangs: it has made no progress for %lld s\n", hang->group, test,
            (long long)(hang->limit_ms / 1000));
    if (hang->hook != NULL)
        fprintf(stderr, "conformance: look at the subject's hook `%s`, which has not returned\n", hang->hook);
    if (!lk_checker_tell_hang() && hang->hook == NULL)
        fprintf(stderr, "conformance: no call waits for the driver\n");
    fprintf(
        stderr,
        "conformance: to see its threads: gdb --args %s %s%s%s, interrupt it when it hangs, `thread apply all bt`\n"
        "conformance: driver %s: the run ends here, after %zu tests\n",
        program, hang->group, hang->test != NULL ? " " : "", hang->test != NULL ? hang->test : "",
        fixture.subject->driver->name, started);
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(STOP_S);
    if (service != NULL && hang->hook == NULL)
        fixture.subject->stop(service);
    _exit(EXIT_FAILURE);
}

/* ------------------------------------------------------------------ the command line ---- */

static int usage(FILE *out, int code)
{
    fprintf(
        out,
        "usage: %s [--rounds N] [--seed N] [--percent N] [GROUP [TEST]]\n"
        "       %s --list | --help\n"
        "Runs the driver conformance kit: all groups, one GROUP, or its tests that match the pattern TEST.\n"
        "  --rounds N   run N rounds of each storm (default: as many as fit in a short time)\n"
        "  --seed N     choose the random numbers of the storms (default: from the time)\n"
        "  --percent N  run the group scale at N percent of its full sizes (default: 10)\n"
        "groups:",
        program, program);
    for (size_t i = 0; i < GROUPS; i++)
        fprintf(out, " %s", groups[i]->name);
    fputc('\n', out);
    return code;
}

static int list(void)
{
    for (size_t i = 0; i < GROUPS; i++)
        for (size_t j = 0; j < groups[i]->count; j++)
            printf("%s/%s\n", groups[i]->name, groups[i]->tests[j].name);
    return 0;
}

static int wrong(const char *text)
{
    fprintf(stderr, "conformance: %s\n", text);
    return BAD_USAGE;
}

/* The caller's subject becomes ours. */
static int take_subject(locker_conformance_subject *own, const locker_conformance_subject *given)
{
    locker_error err;
    if (given == NULL)
        return wrong("the subject is NULL");
    return LK_SIZED_TAKE(locker_conformance_subject, own, given, kept_ttl_ms, &err) == LOCKER_OK
               ? 0
               : wrong(err.text);
}

static int check_subject(const locker_conformance_subject *s)
{
    if (s->driver == NULL || s->start == NULL || s->stop == NULL)
        return wrong("the subject has no driver, start or stop; set all three");
    if ((s->lose == NULL) != (s->replace == NULL))
        return wrong("the subject has only one of lose and replace; set both or none");
    if ((s->freeze == NULL) != (s->thaw == NULL))
        return wrong("the subject has only one of freeze and thaw; set both or none");
    if (s->poll_ms < 0)
        return wrong("the subject's poll_ms is negative; set 0 or more");
    if (s->kept_ttl_ms < 0 || s->kept_ttl_ms > 30000)
        return wrong("the subject's kept_ttl_ms is not between 0 and 30000");
    if (s->freed_ttl_ms < 0 || s->freed_ttl_ms > 30000)
        return wrong("the subject's freed_ttl_ms is not between 0 and 30000");
    if (s->hang_ms != 0 && s->hang_ms < HANG_MS_LEAST)
        return wrong("the subject's hang_ms is less than 1000; set 0 for the default, or 1000 or more");
    if (s->driver->semantics != NULL && s->driver->semantics->leases &&
        (s->driver->ttl_min_ms > 300 || (s->driver->ttl_max_ms > 0 && s->driver->ttl_max_ms < 30000)))
        return wrong(
            "the driver must accept lease times from 300 ms to 30 s; change its ttl_min_ms or ttl_max_ms");
    return 0;
}

static int run_groups(const char *wanted, const char *filter)
{
    size_t matching = 0, skipped = 0;
    int failed = 0;
    if (filter != NULL)
        cmocka_set_test_filter(filter);
    for (size_t i = 0; i < GROUPS; i++) {
        if (wanted != NULL && strcmp(groups[i]->name, wanted) != 0)
            continue;
        failed += run_group(groups[i], &skipped);
        matching++;
    }
    if (matching == 0) {
        fprintf(stderr, "conformance: there is no group %s; --help lists the groups\n", wanted);
        return BAD_USAGE;
    }
    if (started == 0 && failed == 0)
        fprintf(stderr, "conformance: group %s has no test %s; --list lists the tests\n", wanted, filter);
    printf("conformance: driver %s: %zu tests, %d failed, %zu skipped because it doesn't promise what they "
           "test%s\n",
           fixture.subject->driver->name, started, failed, skipped,
           skipped == started ? "; so nothing was tested" : "");
    return failed != 0 || started == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ------------------------------------------------------------------ another process ---- */

/* NULL: it can't, and has said so. */
static locker *open_for_a_role(const char *uri)
{
    locker *l = NULL;
    locker_error err;
    lk_checker_begin();
    lk_lateness_mark();
    if (lk_open_uri(fixture.driver, uri, "", NULL, &l, &err) != LOCKER_OK)
        lk_side_say("can't open: %s", err.text);
    return l;
}

/* Return the exit code of a role that ended with `code`. Its process can't run it again: what the lateness of the machine explains is
 * no breach. */
static int judge_role(int code)
{
    const int64_t missed_ms = lk_checker_missed_ms();
    const bool is_explained = missed_ms == 0 || (lk_lateness_is_busy() && lk_lateness_ms() >= missed_ms);
    return lk_checker_breaches() > 0 || !is_explained ? EXIT_FAILURE : code;
}

static int play_puppet(int argc, char **argv)
{
    locker *l = argc == 1 ? open_for_a_role(argv[0]) : NULL;
    return judge_role(l != NULL ? lk_puppet_serve(l) : EXIT_FAILURE);
}

static int play_storm(int argc, char **argv)
{
    locker *l = argc == 3 ? open_for_a_role(argv[0]) : NULL;
    return judge_role(l != NULL ? lk_storm_serve(l, argv[1], (unsigned)strtoul(argv[2], NULL, 10))
                                : EXIT_FAILURE);
}

static int play_bystander(int argc, char **argv)
{
    locker *l = argc == 1 ? open_for_a_role(argv[0]) : NULL;
    return judge_role(l != NULL ? lk_bystander_serve(l) : EXIT_FAILURE);
}

/* Takes the options for storms and scale from the front of the arguments. False: they are wrong. */
static bool take_options(int *argc, char ***argv)
{
    while (*argc > 1 && (strcmp((*argv)[1], "--rounds") == 0 || strcmp((*argv)[1], "--seed") == 0 ||
                         strcmp((*argv)[1], "--percent") == 0)) {
        char *end = NULL;
        const unsigned long long number = *argc > 2 ? strtoull((*argv)[2], &end, 10) : 0;

        const bool is_percent = (*argv)[1][2] == 'p';

        if (number == 0 || *end != '\0' || (is_percent && number > 100))
            return false;
        if (is_percent)
            lk_scale_percent = (unsigned long)number;
        else if ((*argv)[1][2] == 'r')
            lk_storm_rounds = (unsigned long)number;
        else
            lk_storm_seed = number;
        *argc -= 2;
        *argv += 2;
    }
    return true;
}

int locker_conformance_run(const locker_conformance_subject *subject, int argc, char **argv)
{
    static const lk_role roles[] = {
        {"puppet", play_puppet}, {"storm", play_storm}, {"bystander", play_bystander}, {NULL, NULL}};
    program = argc > 0 ? argv[0] : "conformance";
    static locker_conformance_subject own;
    int code = take_subject(&own, subject);
    if (code == 0)
        code = check_subject(&own);
    if (code != 0)
        return code;
    fixture.subject = &own;
    fixture.driver = lk_checker_driver(own.driver);
    if (fixture.driver == NULL)
        return wrong("out of memory");
    lk_child_main(argc, argv, roles);
    if (!take_options(&argc, &argv))
        return usage(stderr, BAD_USAGE);
    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return usage(stdout, 0);
    if (argc > 1 && strcmp(argv[1], "--list") == 0)
        return list();
    if (argc > 3 || (argc > 1 && argv[1][0] == '-'))
        return usage(stderr, BAD_USAGE);
    if (!lk_watchdog_start(own.hang_ms > 0 ? own.hang_ms : HANG_MS, end_hanging_run))
        return wrong("out of memory or threads");
    code = run_groups(argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : NULL);
    lk_watchdog_end();
    return code;
}
