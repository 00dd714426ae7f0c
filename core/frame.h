/* frame.h: the frame of a call: whether it may begin, and that closing waits for its end. */
#pragma once

#include <locker/instrument.h>

#include "changed.h"

/** Begin a call: refuses in a fork's child, on the thread that runs callbacks and when closing. OK: lk_leave() must
 * follow. */
locker_status lk_enter(locker *l, const char *what, locker_error *err) LK_EXCLUDES(l->mutex);
void lk_leave(locker *l) LK_EXCLUDES(l->mutex);
static inline void lk_leave_locked(locker *l) LK_REQUIRES(l->mutex)
{
    if (l->clock.hooks != NULL && l->clock.hooks->done != NULL)
        l->clock.hooks->done(l->clock.context);
    if (--l->calls == 0)
        lk_changed_locked(l);
}

/** Whether a call may begin at all: refuses in a fork's child and on the thread that runs callbacks. */
locker_status lk_admit(const locker *l, const char *what, locker_error *err);

/** On the thread that runs callbacks, where nothing may wait for the service. */
static inline bool lk_in_callback(const locker *l)
{
    return pthread_equal(atomic_load_explicit(&l->calls_back, memory_order_relaxed), pthread_self());
}

/** The key's length, and whether the service can take it. */
locker_status lk_check_key(const locker *l, const char *key, size_t *length, locker_error *err);
