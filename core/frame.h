/* frame.h: the frame of a call: no thread is canceled in it, none begins in a fork's child, closing waits for it. */
#pragma once

#include <locker/instrument.h>
#include <unistd.h>

#include "wake.h"

/* A thread that is canceled (pthread_cancel) inside a call would end with the mutex locked, or with a wait on its stack that
 * others wake. So each public function that may block, or sleep in the kernel, begins with LK_NO_CANCEL. */
#define LK_NO_CANCEL                                                                                         \
    int lk_cancel_before __attribute__((cleanup(lk_cancel_restore), unused)) = lk_cancel_hold()

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

/** In a fork's child, to which the locker does not belong. */
static inline bool lk_forked(const locker *l)
{
    return l->fork_page != NULL ? *l->fork_page == 0 : l->pid != getpid();
}

/** On the thread that runs callbacks, where nothing may wait for the service. */
static inline bool lk_in_callback(const locker *l)
{
    return pthread_equal(LK_READ(l->calls_back), pthread_self());
}

/** Say why a call may not begin. */
locker_status lk_refuse(const locker *l, const char *what, locker_error *err);
/** Whether a call may begin at all: refuses in a fork's child and on the thread that runs callbacks. */
static inline locker_status lk_admit(const locker *l, const char *what, locker_error *err)
{
    return lk_forked(l) || lk_in_callback(l) ? lk_refuse(l, what, err) : LOCKER_OK;
}

/** The end of a call that was counted. */
static inline void lk_leave_locked(locker *l) LK_REQUIRES(l->mutex)
{
    if (l->clock.hooks != NULL && l->clock.hooks->done != NULL)
        l->clock.hooks->done(l->clock.context);
    if (--l->calls == 0)
        lk_changed_locked(l);
}

/** Begin a call that is none on one key: refuses when the locker is being closed, too. OK: lk_leave() must follow. */
locker_status lk_enter(locker *l, const char *what, locker_error *err) LK_EXCLUDES(l->mutex);
void lk_leave(locker *l) LK_EXCLUDES(l->mutex);

/** The key's length, and whether the service can take it. */
locker_status lk_check_key(const locker *l, const char *key, size_t *length, locker_error *err);
