/* handle.h: what a handle of several keys does with those of each. */
#pragma once

#include "state.h"

/** locker_unlock() of all parts, all requests in flight at once, within one command_timeout. In a callback: in the background. */
locker_status lk_parts_unlock(locker *l, locker_handle *const *parts, size_t count, locker_error *err);
/** Release a part in the background. */
void lk_part_let_go(locker_handle *part);
/** Wait until no other thread runs the part's callback. */
void lk_part_await(locker_handle *part);
