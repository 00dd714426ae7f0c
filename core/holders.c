/* holders.c: what drivers tell of those who hold a key: whoever it is, how it is used, and whom a break is about. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lk_error.h"

bool locker_break_names(const locker_break_options *only, const char *owner, uint64_t token)
{
    return (only->token == 0 || only->token == token) &&
           (only->owner == NULL || strcmp(only->owner, owner) == 0);
}

locker_status locker_break_check(const locker_break_options *only, const locker_info *holder,
                                 locker_error *err)
{
    if (locker_break_names(only, holder->owner, holder->token))
        return LOCKER_OK;
    for (size_t i = 0; i < holder->holders_len; i++) {
        const locker_holder *const one = locker_info_holder(holder, i);
        if (locker_break_names(only, one->owner, one->token))
            return LOCKER_OK;
    }
    if (holder->holders_len > 1)
        return locker_error_set(err, LOCKER_BUSY, 0, "%zu others hold it, the last %s, token %" PRIu64,
                                holder->holders_len, holder->holders[holder->holders_len - 1].owner,
                                holder->holders[holder->holders_len - 1].token);
    return locker_error_set(err, LOCKER_BUSY, 0, "another holds it: %s, token %" PRIu64,
                            holder->owner[0] != '\0' ? holder->owner : "an unknown holder", holder->token);
}

static int by_token(const void *a, const void *b)
{
    const uint64_t first = ((const locker_holder *)a)->token, second = ((const locker_holder *)b)->token;
    return first < second ? -1 : first > second;
}

void locker_info_settle(locker_info *info, locker_mode mode, int32_t permits)
{
    info->mode = mode;
    info->permits = permits;
    info->holder_stride = sizeof *info->holders;
    info->held = info->holders_len > 0;
    if (info->held) {
        qsort(info->holders, info->holders_len, sizeof *info->holders, by_token);
        const locker_holder *const first = &info->holders[0];
        memcpy(info->owner, first->owner, sizeof info->owner);
        info->token = first->token;
        info->since_unix_ms = first->since_unix_ms;
        info->remaining_ms = first->remaining_ms;
    }
    if (info->held && (mode != LOCKER_EXCLUSIVE || permits > 0))
        return;
    free(info->holders);
    info->holders = NULL;
    info->holders_len = info->holder_stride = 0;
}

locker_status locker_other_use(locker_error *err, int32_t in_use, int32_t wanted)
{
    if (in_use == 0)
        return lk_misconfigured(err,
                                "the key is in use as a lock, but this call asks for one of %d "
                                "permits; use another key",
                                wanted);
    if (wanted == 0)
        return lk_misconfigured(err,
                                "the key is in use with %d permits, but this call asks for a "
                                "lock; use another key",
                                in_use);
    return lk_misconfigured(err,
                            "the key is in use with %d permits, but this call says %d; give the "
                            "same number, or use another key",
                            in_use, wanted);
}
