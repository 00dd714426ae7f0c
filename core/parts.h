/* parts.h: what the handle of several keys (several.c) asks of each key's call (lock.c) and handle (handle.c). */
#pragma once

#include "state.h"

/** When a call that begins at `start` and waits for wait_ms (negative: for ever) gives up, in ns of the locker's clock. */
int64_t lk_deadline(int64_t start, int64_t wait_ms);
/** locker_lock(), or with `try` locker_try_lock(), until that `deadline`; 0: the one that the options say. */
locker_status lk_lock(locker *l, const char *key, const locker_lock_options *options, bool try,
                      int64_t deadline, locker_handle **out, locker_error *err);
/** locker_unlock() of all parts, all requests in flight at once, within one command_timeout. In a callback: in the background. */
locker_status lk_parts_unlock(locker *l, locker_handle *const *parts, size_t count, locker_error *err);
/** Release a part in the background. */
void lk_part_let_go(locker_handle *part);
/** Wait until no other thread runs the part's callback. */
void lk_part_await(locker_handle *part);
