/*
 * groups.h: a test program with groups of tests, each of which is a test of ctest's own: `PROGRAM GROUP
 * [TEST]`. One that was late (timely.h) is run anew, between its own setup and teardown.
 */
#pragma once

#include "child.h"
#include "expect.h"
#include "timely.h"

typedef struct {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
    int (*set_up)(void **state); /* of the whole group; NULL: nothing */
    int (*tear_down)(void **state);
} lk_group;

/** The body of main(). Both lists end with NULL: the groups, and the roles that the program plays as a
 * child. */
int lk_run_group(int argc, char **argv, const lk_group *const *groups, const lk_role *roles);
