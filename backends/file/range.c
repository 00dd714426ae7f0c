/* range.c: takes a byte of a lock file over a sweep, which has all of them for the moment in which it removes the
 * file. Who said BUSY then would speak of a lock that nobody holds. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include "lk_time.h"
#include "lockfile.h"
#include "range.h"

enum {
    YIELDS = 16,  /* a sweep takes some µs */
    SLEEPS = 200, /* ... unless the filesystem is slow, or it was stopped */
    SLEEP = 500 * LK_US
};

bool lk_file_sweep_await(int round)
{
    const struct timespec pause = lk_time_spec(SLEEP);
    if (round >= YIELDS + SLEEPS)
        return false;
    if (round < YIELDS)
        sched_yield();
    else
        ppoll(NULL, 0, &pause, NULL);
    return true;
}

int lk_file_range_take(int fd, short type, off_t byte, short *met)
{
    for (int i = 0;; i++) {
        const int code = lk_file_range_lock(fd, type, byte);
        *met = F_UNLCK;
        if (code != EAGAIN || (*met = lk_file_range_met(fd, type, byte)) != F_UNLCK ||
            !lk_file_sweep_await(i))
            return code;
    }
}
