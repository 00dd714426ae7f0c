/* log.h: lines on their way to the application's log callback. */
#pragma once

#include "state.h"

/* For drivers, from any thread, also with their own locks held: locker_services tells what they do. */
bool lk_log_wanted(const locker_services *svc, locker_log_level level);
void lk_log(const locker_services *svc, locker_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Tell what is kept now, and how many lines were lost. By the opener, the keeper and the closer, one after the other. */
void lk_log_tell_unlocking(locker *l) LK_REQUIRES(l->mutex);
/** Whether there is something to tell. */
bool lk_log_waits_locked(const locker *l) LK_REQUIRES(l->mutex);
