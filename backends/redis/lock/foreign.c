/* foreign.c: see foreign.h. */
#include <string.h>

#include "foreign.h"
#include "value.h"

bool lk_redis_is_data(const char *type)
{
    static const char *const others[] = {"", "none", "string", "hash"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(type, others[i]) == 0)
            return false;
    return true;
}

locker_status lk_redis_refuse_data(const char *type, const char *lock, locker_error *err)
{
    return lk_misconfigured(err,
                            "'%.120s' at Redis is of type %.40s, so it is data of an application and cannot "
                            "be a lock; lock another key, or set a namespace that only locks use",
                            lock, type);
}

locker_status lk_redis_hash_is_busy(const char *lock, locker_error *err)
{
    return locker_error_set(
        err, LOCKER_BUSY, 0,
        "'%.120s' at Redis is a hash: a lock of Redisson, or an application's data; look at it with HGETALL",
        lock);
}

bool lk_redis_value_is_ours(const char *value, int64_t left_ms)
{
    const char *const digits = value + (*value == 'E'); /* the lock is kept for that value (lua/sets.lua) */
    return left_ms >= 0 && strlen(digits) == LK_REDIS_VALUE_LEN &&
           strspn(digits, "0123456789abcdef") == LK_REDIS_VALUE_LEN &&
           digits[LK_REDIS_VALUE_LEN / 2] <= '7'; /* value.c; no UUID has that */
}

locker_status lk_redis_check_force(const char *type, const char *value, int64_t left_ms,
                                   const locker_break_options *only, const char *lock, locker_error *err)
{
    if (type != NULL && *type == '\0')
        return lk_denied(err,
                         "'%.120s' at Redis is not a string and may be an application's data, so it is not "
                         "broken; give the user the right +type, which shows whether it is a hash",
                         lock);
    if (only->force || (type == NULL && lk_redis_value_is_ours(value, left_ms)))
        return LOCKER_OK;
    if (type != NULL)
        return lk_misconfigured(
            err,
            "'%.120s' at Redis is a hash: a lock of Redisson, or an application's data; look at it "
            "with HGETALL, and use force (locker break --force) to delete it",
            lock);
    return lk_misconfigured(
        err,
        "'%.120s' at Redis is a string that liblocker did not write: another client's lock, or an "
        "application's data; look at it with GET, and use force (locker break --force) to delete it",
        lock);
}
