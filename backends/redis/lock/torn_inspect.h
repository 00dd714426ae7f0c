/* torn_inspect.h: looking at a lock, and breaking it, in a slot that is on its way from one server of a cluster to another. */
#pragma once

#include "instance.h"

/* As the scripts *show* and *break* (`value`: that the lock is taken from; NULL: only look), by commands of one key, so what is
 * seen is not of one moment; but a lock is taken from that value alone. `is_type`: the value names the type of what is no string.
 * ANSWERED: call->reply is as theirs, or an error. */
lk_redis_outcome lk_redis_torn_look(lk_redis *r, uint16_t slot, lk_redis_keys *keys, const char *value,
                                    bool is_type, lk_redis_call *call, locker_error *err);
