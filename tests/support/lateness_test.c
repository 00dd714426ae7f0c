/* lateness_test.c: what excuses a test that was late: waiting for a processor, and not sleeping. */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "servers/lateness.h"

enum { LOOPS_MAX = 256, SPIN_MS = 300, TRIES = 5 };

static void spin(int64_t ms)
{
    const int64_t until = lk_test_now_ms() + ms;
    while (lk_test_now_ms() < until)
        ;
}

/* Twice as many loops as there are processors: each gets a third of one at most. */
static void waiting_for_a_processor_is_lateness(void **state)
{
    const long wanted = 2 * sysconf(_SC_NPROCESSORS_ONLN), loops = wanted < LOOPS_MAX ? wanted : LOOPS_MAX;
    pid_t loop[LOOPS_MAX];
    (void)state;
    for (long i = 0; i < loops; i++)
        if ((loop[i] = fork()) == 0)
            for (;;)
                ;
    lk_lateness_mark();
    spin(SPIN_MS);
    const bool is_busy = lk_lateness_is_busy();
    const int64_t late_ms = lk_lateness_ms();
    for (long i = 0; i < loops; i++) {
        kill(loop[i], SIGKILL);
        waitpid(loop[i], NULL, 0);
    }
    assert_true(is_busy);
    assert_true(late_ms >= SPIN_MS / 4);
}

/* A wake-up that never comes looks like this. (A disk that others wait for counts: so once in a few tries.) */
static void sleeping_is_no_lateness(void **state)
{
    int64_t least = INT64_MAX;
    (void)state;
    for (int i = 0; i < TRIES && least >= SPIN_MS; i++) {
        lk_lateness_mark();
        (void)poll(NULL, 0, 2 * SPIN_MS);
        const int64_t late_ms = lk_lateness_ms();
        least = late_ms < least ? late_ms : least;
    }
    assert_true(least < SPIN_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_a_processor_is_lateness),
        cmocka_unit_test(sleeping_is_no_lateness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
