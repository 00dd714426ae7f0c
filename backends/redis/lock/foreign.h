/* foreign.h: what may be at a lock's key that liblocker did not write: another client's lock, or an application's data. */
#pragma once

#include <lk_error.h>

/* True if data of this type (as TYPE names it) are never a lock. A string is one, a hash may be Redisson's, and `none` and "" (the
 * user may not run TYPE) say nothing. */
bool lk_redis_is_data(const char *type);
/* Return CONFIG: `lock`, the name of a lock's key, holds data of that type. */
locker_status lk_redis_refuse_data(const char *type, const char *lock, locker_error *err);
/* Return BUSY with a text that says that `lock` holds a hash. */
locker_status lk_redis_hash_is_busy(const char *lock, locker_error *err);

/* True if liblocker may have written this value of a lock's key, whose lease lasts `left_ms` (below 0: for ever). */
bool lk_redis_value_is_ours(const char *value, int64_t left_ms);
/* Check whether what is at `lock` may be deleted: OK, or an error.
 * CONFIG: it is not known to be a lock, and `only` does not say force.
 * DENIED: it is no string, and the user may not run TYPE, so it may be an application's data.
 * `type`: of what is no string; NULL: it is the string `value`. */
locker_status lk_redis_check_force(const char *type, const char *value, int64_t left_ms,
                                   const locker_break_options *only, const char *lock, locker_error *err);
