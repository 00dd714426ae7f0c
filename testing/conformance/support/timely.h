/* timely.h: what hangs on time in tests. A machine that is busy with other tests may be late at any line, by seconds; it is
 * not late each time. So a test that says how long something may take, or looks at what is so for a while, is run anew
 * when it finds something else while the processors had much to do, and fails when it does each time, as it must when the code is
 * what is slow. On a machine that is at rest it fails at once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** How often a test is run at most. */
enum { LK_TIMELY_RUNS = 5 };

/** It took less than so many ms. Else the test goes on, to be run anew; in the last run, and on a machine at rest, it fails. On the
 * test's own thread. */
#define assert_timely(took_ms, limit_ms) lk_timely_check((took_ms), (limit_ms), #took_ms, __FILE__, __LINE__)
void lk_timely_check(int64_t took_ms, int64_t limit_ms, const char *what, const char *file, int line);

/** The same of what follows from the test's steps where none of them is late. Answers whether it is so. What has to be so however late
 * they are, as that no two hold a lock, is asserted as ever. */
#define assert_unless_late(is_so) lk_timely_expect((is_so), #is_so, __FILE__, __LINE__)
bool lk_timely_expect(bool is_so, const char *what, const char *file, int line);

/** For who runs tests, before a run of one (they count from 1). A test that nobody runs so has one run. */
void lk_timely_begin(int run);

/** After it: whether it was late, and is to be run anew. */
bool lk_timely_was_late(void);
