/* wait.c: the clock, and waiting for what nothing can signal; see wait.h. */
#include "servers/wait.h"

#include <errno.h>
#include <time.h>

enum { NS_A_MS = 1000000, LONGEST_PAUSE_MS = 10 };

int64_t lk_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 * NS_A_MS + now.tv_nsec;
}

void lk_pause_ms(int64_t ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_A_MS};
    while (ms > 0 && nanosleep(&rest, &rest) < 0 && errno == EINTR)
        ;
}

/* The longer it takes the less it is asked for: whoever is asked works for it. */
bool lk_until(bool (*is_so)(void *context), void *context, int64_t ms)
{
    const int64_t begin = lk_now_ns(), end = begin + ms * NS_A_MS;
    while (!is_so(context)) {
        const int64_t now = lk_now_ns(), pause_ms = 1 + (now - begin) / NS_A_MS / 50;

        if (now >= end)
            return is_so(context); /* it may have become so while we slept */
        lk_pause_ms(pause_ms < LONGEST_PAUSE_MS ? pause_ms : LONGEST_PAUSE_MS);
    }
    return true;
}
