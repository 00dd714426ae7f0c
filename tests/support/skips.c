/* skips.c: reports a skipped test; see skips.h. */
#include "skips.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lk_test_report_skip(const char *tests, const char *why)
{
    const char *const refuse = getenv("LOCKER_TEST_SKIPS"), *const name = getenv("LOCKER_TEST_SKIPPED");
    if (refuse != NULL && strcmp(refuse, "refuse") == 0)
        test_fails("%s: %s; skips are refused (LOCKER_TEST_SKIPS)", tests, why);
    print_message("SKIPPED: %s: %s\n", tests, why);
    FILE *const file = name != NULL ? fopen(name, "ae") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%s: %s: %s\n", program_invocation_short_name, tests, why);
    fclose(file);
}
