/* values.c: the texts by which the server knows instances, claims, sets of sharers and holders; and what it may hold beside them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "instance.h"

/* ------------------------------------------------------------------ values ---- */

enum { HALF = LK_REDIS_VALUE_LEN / 2 };

static void put_hex(const lk_redis_values *values, uint64_t n, char text[HALF])
{
    for (int i = HALF; (i -= 2) >= 0; n >>= 8)
        memcpy(text + i, values->hex[n & 255], 2);
}

void lk_redis_values_init(lk_redis_values *values, const uint64_t random[2])
{
    for (int byte = 0; byte < 256; byte++) {
        values->hex[byte][0] = "0123456789abcdef"[byte / 16];
        values->hex[byte][1] = "0123456789abcdef"[byte % 16];
    }
    put_hex(values, random[0], values->name);
    put_hex(values, random[0], values->name + HALF);
    values->name[LK_REDIS_VALUE_LEN] = '\0';
    atomic_init(&values->counter, 0);
    values->low = random[1] >> 1; /* so that a number never carries into the half that names the instance */
}

void lk_redis_value_text(const lk_redis_values *values, uint64_t number, char text[LK_REDIS_VALUE_LEN + 1])
{
    memcpy(text, values->name, HALF);
    put_hex(values, values->low + number, text + HALF);
    text[LK_REDIS_VALUE_LEN] = '\0';
}

bool lk_redis_is_name(const char *text, char end)
{
    return strspn(text, "0123456789abcdef") == LK_REDIS_VALUE_LEN && text[LK_REDIS_VALUE_LEN] == end;
}

bool lk_redis_value_number(const lk_redis_values *values, const char *text, uint64_t *number)
{
    char digits[HALF + 1];
    if (strncmp(text, values->name, HALF) != 0 || strspn(text, "0123456789abcdef") != LK_REDIS_VALUE_LEN)
        return false;
    memcpy(digits, text + HALF, HALF);
    digits[HALF] = '\0';
    const uint64_t low = strtoull(digits, NULL, 16);
    *number = low - values->low;
    return low > values->low;
}

bool lk_redis_read_number(const char **text, char end, int64_t *number)
{
    const char *at = *text;
    int64_t n = 0;
    while (*at >= '0' && *at <= '9' && at < *text + LK_REDIS_DIGITS_MAX)
        n = 10 * n + (*at++ - '0');
    if (at == *text || *at != end)
        return false;
    *number = n;
    *text = at + 1;
    return true;
}

/* ------------------------------------------------------------------ names of claims ---- */

void lk_redis_member_text(const char *instance, const locker_claim *claim, const char *value,
                          char out[LK_REDIS_MEMBER_MAX])
{
    const bool plain = locker_claim_is_plain(claim);
    (void)snprintf(out, LK_REDIS_MEMBER_MAX, "%s%s %s %" PRId64 " %s%u %s%.*s",
                   plain                ? ""
                   : claim->permits > 0 ? "P"
                                        : "S",
                   instance, value, claim->ttl_ns / LK_MS, plain ? "0" : "",
                   plain ? (unsigned)lk_redis_claim_of(claim)->numbers : (unsigned)claim->permits,
                   plain                                   ? ""
                   : lk_redis_claim_of(claim)->numbers > 0 ? "3 "
                                                           : "2 ",
                   LOCKER_OWNER_MAX, claim->owner);
}

const char *lk_redis_info_text(lk_redis *r, const lk_redis_claim *data, char info[LK_REDIS_INFO_MAX])
{
    char value[LK_REDIS_VALUE_LEN + 1];
    const uint64_t fence = LK_READ(data->fence);
    lk_redis_value_text(&r->values, data->number, value);
    (void)snprintf(info, LK_REDIS_INFO_MAX, "%s %" PRIu64 " %" PRIu64 " %s %.*s", value,
                   lk_redis_server_us(&lk_redis_node_of(r, data->slot)->time, data->since) / 1000,
                   fence > 0 ? fence + data->passes : 0, r->values.name, LOCKER_OWNER_MAX, data->core->owner);
    return info;
}

/* ------------------------------------------------------------------ markers of shared locks ---- */

void lk_redis_marker_text(const locker_claim *grant, char out[LK_REDIS_MARKER_MAX])
{
    const uint64_t epoch = lk_redis_claim_of(grant)->epoch;
    if (grant->permits > 0)
        (void)snprintf(out, LK_REDIS_MARKER_MAX, "P%" PRIu64 "/%d", epoch, (int)grant->permits);
    else
        (void)snprintf(out, LK_REDIS_MARKER_MAX, "S%" PRIu64, epoch);
}

bool lk_redis_marker_read(const char *value, lk_redis_marker *marker)
{
    const char *at = value + 1;
    int64_t epoch, permits = 0;
    const bool shared = value[0] == 'S' && lk_redis_read_number(&at, '\0', &epoch);
    const bool counted = value[0] == 'P' && lk_redis_read_number(&at, '/', &epoch) &&
                         lk_redis_read_number(&at, '\0', &permits) && permits > 0 &&
                         permits <= LOCKER_PERMITS_MAX;
    if (!shared && !counted)
        return false;
    *marker = (lk_redis_marker){(uint64_t)epoch, (int32_t)permits};
    return true;
}

/* ------------------------------------------------------------------ foreign data ---- */

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
           digits[LK_REDIS_VALUE_LEN / 2] <= '7'; /* values.c; no UUID has that */
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
