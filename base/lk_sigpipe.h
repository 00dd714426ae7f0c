/* lk_sigpipe.h: keeping SIGPIPE from the application where a library writes with write(), which can't be
 * asked for MSG_NOSIGNAL: it is blocked in this thread, and taken away if it came meanwhile. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

typedef struct {
    sigset_t before;
    bool was_pending;
} lk_sigpipe;

static inline void lk_sigpipe_block(lk_sigpipe *guard)
{
    sigset_t only, pending;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    sigpending(&pending);
    guard->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &only, &guard->before);
}

/** errno stays what it was. */
static inline void lk_sigpipe_restore(const lk_sigpipe *guard)
{
    const struct timespec at_once = {0, 0};
    const int saved = errno;
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    while (!guard->was_pending && sigtimedwait(&only, NULL, &at_once) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = saved;
}
