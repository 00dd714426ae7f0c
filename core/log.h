/* log.h: lines on their way to the application's log callback. */
#pragma once

#include "state.h"

/** Whether a line of this level goes anywhere. */
bool lk_log_wanted(const locker *l, locker_log_level level);
/** Keep a line until it is told. It takes the mutex for a moment, so a driver's locks may be held. */
void lk_log_add(locker *l, locker_log_level level, const char *text) LK_EXCLUDES(l->mutex);
/** Tell what is kept now, and how many lines were lost. By the opener, the keeper and the closer, one after the other. */
void lk_log_tell_unlocking(locker *l) LK_REQUIRES(l->mutex);
/** Whether there is something to tell. */
bool lk_log_waits_locked(const locker *l) LK_REQUIRES(l->mutex);
