/* skips.h: a test that this machine can't run is skipped, and says so. */
#pragma once

#include "expect.h"

/** Report that some tests are skipped, by a line in the file that LOCKER_TEST_SKIPPED names, which script/test prints. Fail the test
 * where skips are refused (LOCKER_TEST_SKIPS=refuse). */
void lk_test_report_skip(const char *tests, const char *why);

/** Report it, and leave the test as skipped. */
#define skip_reported(tests, why)                                                                            \
    do {                                                                                                     \
        lk_test_report_skip((tests), (why));                                                                 \
        skip();                                                                                              \
    } while (0)
