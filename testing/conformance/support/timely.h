/* timely.h: time limits in tests. A machine that is busy with other tests may be late at any line, by seconds. So a test that missed a
 * time limit is run again, at most four times, if the lateness of the machine explains by how much it missed it (servers/lateness.h). Else, and
 * in the last run, it fails at once. Each rerun is printed, and reported to script/test by a line in the file that
 * LOCKER_TEST_RERUNS names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** How often a test is run at most. */
enum { LK_TIMELY_RUNS = 5 };

/** Check, on the test's own thread, that something took less than so many ms. If it took longer because the machine was late, the test
 * goes on and is run again; if not, it fails. The machine's lateness counts from assert_timely_from(), else from the test's begin. */
#define assert_timely(took_ms, limit_ms) lk_timely_check((took_ms), (limit_ms), #took_ms, __FILE__, __LINE__)
void lk_timely_check(int64_t took_ms, int64_t limit_ms, const char *what, const char *file, int line);

/** Count the machine's lateness from here on: what was late before explains nothing of what follows. */
void assert_timely_from(void);

/** Check, likewise, what follows from the test's steps if none of them is late. Return whether it is so. What has to be so however late
 * the steps are, such as that no two hold a lock, is asserted as ever. */
#define assert_unless_late(is_so) lk_timely_expect((is_so), #is_so, __FILE__, __LINE__)
bool lk_timely_expect(bool is_so, const char *what, const char *file, int line);

/** For the code that runs tests, before a run of one; runs count from 1. A test that is run without it has one run. */
void lk_timely_begin(const char *test, int run);

/** After the run: return whether it was late, and is to be run again. */
bool lk_timely_was_late(void);
