/* lk_thread.h: threads of ours. */
#pragma once

#include <pthread.h>
#include <signal.h>

/** pthread_create(), with signals blocked: they are for the application's threads. 0, or an errno. */
static inline int lk_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
