/* handle.h: what a handle of several keys does with those of each. */
#pragma once

#include "state.h"

/** locker_unlock() of a part. */
locker_status lk_part_unlock(locker_handle *part, locker_error *err);
/** Release a part in the background, from a callback. */
void lk_part_let_go(locker_handle *part);
/** Wait until no other thread runs the part's callback. */
void lk_part_await(locker_handle *part);
