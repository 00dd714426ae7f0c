/* lock.h: a lock call that is a part of another. */
#pragma once

#include "state.h"

/** When a call with these options that begins now gives up waiting, in ns of the locker's clock; of a try, LOCKER_NEVER. */
int64_t lk_deadline(const locker *l, const locker_lock_options *options);
/** locker_lock() until that `deadline`. */
locker_status lk_part_lock(locker *l, const char *key, const locker_lock_options *options, int64_t deadline,
                           locker_handle **out, locker_error *err);
