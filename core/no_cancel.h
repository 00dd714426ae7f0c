/*
 * no_cancel.h: a thread that is canceled (pthread_cancel). Inside a call it would end with the mutex locked, or with a
 * wait on its stack that others wake. So each public function that may block, or sleep in the kernel, begins with
 * LK_NO_CANCEL, which holds it back to its end.
 */
#pragma once

#include <pthread.h>

static inline int lk_cancel_hold(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void lk_cancel_restore(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

#define LK_NO_CANCEL                                                                                         \
    int lk_cancel_before __attribute__((cleanup(lk_cancel_restore), unused)) = lk_cancel_hold()
