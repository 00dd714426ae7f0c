/* syscall.c: of a futex the simulated machine does what is used; all else fails the run, and is not taken for that. */
#include <limits.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "simulation/world/seams.h"

long lk_sim_syscall(long number, ...);

static jmp_buf back;
static char why_failed[512];

static void failed(const char *why)
{
    (void)snprintf(why_failed, sizeof why_failed, "%s", why);
    longjmp(back, 1);
}

/* Whether the call, of a word that is 0, ends with these words; "": well. */
static bool ends_with(const char *words, long number, int operation, unsigned value,
                      const struct timespec *timeout)
{
    static unsigned word;
    why_failed[0] = '\0';
    if (setjmp(back) == 0)
        (void)lk_sim_syscall(number, &word, operation, value, timeout, NULL, 1U);
    if (strcmp(why_failed, words) == 0)
        return true;
    (void)fprintf(stderr, "not \"%s\" but \"%s\"\n", words, why_failed);
    return false;
}

int main(void)
{
    static const struct timespec second = {.tv_sec = 1};
    lk_sim_on_fail = failed;
    lk_sim_begin(1, NULL);
    const bool well =
        ends_with("", SYS_futex, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL) &&
        ends_with("", SYS_futex, FUTEX_WAIT_BITSET_PRIVATE, 1, NULL) && /* it is 0: no wait */
        ends_with("a futex that wakes 1 is not simulated, only one that wakes all", SYS_futex,
                  FUTEX_WAKE_BITSET_PRIVATE, 1, NULL) &&
        ends_with("a futex with a time-out is not simulated", SYS_futex, FUTEX_WAIT_BITSET_PRIVATE, 1,
                  &second) &&
        ends_with("operation 3 of a futex is not simulated", SYS_futex, FUTEX_REQUEUE_PRIVATE, 1, NULL) &&
        ends_with("system call 39 is not simulated", 39, 0, 0, NULL);
    lk_sim_end();
    return well ? 0 : 1;
}
