/* groups.c: runs the group that the command line names; see groups.h. */
#include "groups.h"

#include <stdio.h>
#include <string.h>

enum { TESTS_AT_MOST = 96 };

/* cmocka's fixtures have no argument of ours, so the run's is here. */
static const lk_group *run;
static void *group_state, *test_state;

static int set_up_group(void **state)
{
    (void)state; /* cmocka would give it to the tests in place of what play() wants */
    return run->set_up != NULL ? run->set_up(&group_state) : 0;
}

static int tear_down_group(void **state)
{
    (void)state;
    return run->tear_down != NULL ? run->tear_down(&group_state) : 0;
}

static int set_up(void **state)
{
    const struct CMUnitTest *test = *state;
    test_state = group_state;
    return test->setup_func != NULL ? test->setup_func(&test_state) : 0;
}

/* After any end of a test. */
static int tear_down(void **state)
{
    const struct CMUnitTest *test = *state;
    return test->teardown_func != NULL ? test->teardown_func(&test_state) : 0;
}

/* One that was late is run anew, with all that it has of its own. */
static void play(void **state)
{
    const struct CMUnitTest *test = *state;
    for (int i = 1;; i++) {
        lk_timely_begin(test->name, i);
        test->test_func(&test_state);
        if (!lk_timely_was_late())
            return;
        if (tear_down(state) != 0 || set_up(state) != 0)
            test_fails("what %s needs can't be made anew", test->name);
    }
}

static int run_group(const lk_group *group)
{
    static struct CMUnitTest tests[TESTS_AT_MOST];
    if (group->count > TESTS_AT_MOST) {
        fprintf(stderr, "the group %s has more than %d tests\n", group->name, TESTS_AT_MOST);
        return 64;
    }
    run = group;
    for (size_t i = 0; i < group->count; i++)
        tests[i] = (struct CMUnitTest){.name = group->tests[i].name,
                                       .test_func = play,
                                       .setup_func = set_up,
                                       .teardown_func = tear_down,
                                       .initial_state = (void *)(uintptr_t)&group->tests[i]};
    return _cmocka_run_group_tests(group->name, tests, group->count, set_up_group, tear_down_group);
}

int lk_run_group(int argc, char **argv, const lk_group *const *groups, const lk_role *roles)
{
    lk_child_main(argc, argv, roles);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    for (size_t i = 0; argc > 1 && groups[i] != NULL; i++)
        if (strcmp(groups[i]->name, argv[1]) == 0)
            return run_group(groups[i]);
    fprintf(stderr, "usage: %s GROUP [TEST]\ngroups:", argv[0]);
    for (size_t i = 0; groups[i] != NULL; i++)
        fprintf(stderr, " %s", groups[i]->name);
    fputc('\n', stderr);
    return 64;
}
