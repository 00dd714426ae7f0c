/* script_call.h: calling a script. */
#pragma once

#include "instance.h"
#include "keys.h"

/* Start a call: EVALSHA where the hash is known and `whole` isn't asked for, else EVAL with the text. */
void lk_redis_script_begin(const lk_redis *r, lk_redis_command *a, lk_redis_script which, bool whole,
                           const lk_redis_keys *keys);
/* As lk_redis_ask(); deals with NOSCRIPT. `fill` is the rest of the arguments, behind which stands what the script needs
 * to know of the counter (fence_least.h). */
lk_redis_outcome lk_redis_ask_script(lk_redis *r, lk_redis_call *call, lk_redis_script which,
                                     const lk_redis_keys *keys, const lk_redis_command *fill,
                                     locker_error *err);
