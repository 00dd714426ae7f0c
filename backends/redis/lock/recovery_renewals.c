/* recovery_renewals.c: see recovery_renewals.h. */
#include <inttypes.h>
#include <stdio.h>

#include "batch.h"
#include "grant_info.h"
#include "marker.h"
#include "recovery_renewals.h"

static const char counter_name[] = "locker:fence:";

/* A claim has three keys (lock, queue, counter) and seven arguments (lua/recovery.lua). */
size_t lk_redis_recovery_room(const lk_redis *r, const locker_claim *claim)
{
    return lk_redis_batch_room(r, claim) + r->set.prefix.len + sizeof counter_name + 32 +
           (size_t)4 * (LK_REDIS_NUMBER_MAX + 8) + LK_REDIS_MARKER_MAX + 8 + LK_REDIS_INFO_MAX;
}

static char *put_counter(lk_redis *r, const lk_redis_claim *data, char *out)
{
    char tag[sizeof(lk_redis_tag)];
    const lk_redis_prefix *const prefix = &r->set.prefix;
    const size_t tag_len = (size_t)(lk_redis_tag_put(tag, lk_redis_slot_tag(&r->slots, data->slot)) - tag);
    out = lk_redis_put_line(out, '$', prefix->len + sizeof counter_name - 1 + tag_len);
    memcpy(out, prefix->text, prefix->len);
    memcpy(out + prefix->len, counter_name, sizeof counter_name - 1);
    out += prefix->len + sizeof counter_name - 1;
    memcpy(out, tag, tag_len);
    return lk_redis_put_end(out + tag_len);
}

/* Put the text about a claim in a set: as the script that let it in wrote it (lua/sets.lua). */
static const char *share_info_locked(lk_redis *r, const locker_claim *claim,
                                     char info[LK_REDIS_INFO_MAX]) LK_REDIS_LOCKED
{
    const lk_redis_claim *const data = lk_redis_claim_of(claim);
    (void)snprintf(info, LK_REDIS_INFO_MAX, "%" PRIu64 " %" PRIu64 " %d %s %d %.*s",
                   lk_redis_server_us(&lk_redis_node_of(r, data->slot)->time, data->since) / 1000,
                   LK_READ(data->fence), (int)claim->slot, r->values.name, data->numbers > 0,
                   LOCKER_OWNER_MAX, claim->owner);
    return info;
}

static char *put_lease_locked(lk_redis *r, const locker_claim *claim, char *out) LK_REDIS_LOCKED
{
    char value[LK_REDIS_VALUE_LEN + 1], marker[LK_REDIS_MARKER_MAX] = "", info[LK_REDIS_INFO_MAX];
    lk_redis_claim *const data = lk_redis_claim_of(claim);
    const uint64_t first = LK_READ(data->fence);
    const bool shares = !locker_claim_is_plain(claim);
    if (shares)
        lk_redis_marker_text(claim, marker);
    else
        data->noted = true; /* it may be, from here on */
    lk_redis_value_text(&r->values, data->number, value);
    out = lk_redis_put_text(out, value);
    out = lk_redis_put_number(out, (size_t)(claim->ttl_ns / LK_MS));
    out = lk_redis_put_number(out, (size_t)(shares ? first : first + data->passes));
    out = lk_redis_put_number(out, (size_t)(shares ? first : first + data->numbers - 1));
    out = lk_redis_put_text(out,
                            shares ? share_info_locked(r, claim, info) : lk_redis_info_text(r, data, info));
    out = lk_redis_put_text(out, marker);
    return lk_redis_put_number(out, shares ? (size_t)claim->slot : 0);
}

char *lk_redis_recovery_put_locked(lk_redis *r, const lk_redis_renewed *slots, size_t count,
                                   const char *script, bool whole, char *out)
{
    out = lk_redis_batch_begin(out, script, whole, 3 * count + 1, 7 * count + 1);
    for (size_t i = 0; i < count; i++) {
        out = lk_redis_batch_keys(r, slots[i].claim, LK_REDIS_QUEUE, out);
        out = put_counter(r, lk_redis_claim_of(slots[i].claim), out);
    }
    out = lk_redis_put_text(out, r->recovery.mark);
    for (size_t i = 0; i < count; i++)
        out = put_lease_locked(r, slots[i].claim, out);
    return lk_redis_put_text(out, r->recovery.life);
}
