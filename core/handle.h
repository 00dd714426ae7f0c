/* handle.h: the handle, for the thread that tells it of a loss. */
#pragma once

#include "state.h"

/** Tell it, and free it if it was freed in its own callback. */
void lk_handle_tell_unlocking(locker *l, locker_handle *held) LK_REQUIRES(l->mutex);
