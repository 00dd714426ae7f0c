/* groups.c: runs the group that the command line names; see groups.h. */
#include "groups.h"

#include <stdio.h>
#include <string.h>

int lk_run_group(int argc, char **argv, const lk_group *const *groups, const lk_role *roles)
{
    lk_child_main(argc, argv, roles);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    for (size_t i = 0; argc > 1 && groups[i] != NULL; i++)
        if (strcmp(groups[i]->name, argv[1]) == 0)
            return _cmocka_run_group_tests(groups[i]->name, groups[i]->tests, groups[i]->count,
                                           groups[i]->set_up, groups[i]->tear_down);
    fprintf(stderr, "usage: %s GROUP [TEST]\ngroups:", argv[0]);
    for (size_t i = 0; groups[i] != NULL; i++)
        fprintf(stderr, " %s", groups[i]->name);
    fputc('\n', stderr);
    return 64;
}
