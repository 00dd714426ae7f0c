/* claim.c: see claim.h. */
#include <inttypes.h>
#include <stdio.h>

#include "claim.h"

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

void lk_redis_claim_renewals_to_locked(lk_redis_claim *from, locker_claim *to)
{
    for (lk_redis_renewed *at = from->renewals; at != NULL; at = at->older)
        at->claim = to;
    if (to != NULL)
        lk_redis_claim_of(to)->renewals = from->renewals;
    from->renewals = NULL;
}

static lk_redis_claim *data_of(const lk_table_link *link)
{
    return LK_CONTAINER(link, lk_redis_claim, table);
}

void lk_redis_claims_add_locked(lk_table *claims, lk_redis_claim *data)
{
    if (data->tabled || !lk_table_reserve(claims))
        return;
    lk_table_add(claims, &data->table, (uint32_t)data->number);
    data->tabled = true;
}

void lk_redis_claims_remove_locked(lk_table *claims, lk_redis_claim *data)
{
    if (!data->tabled)
        return;
    lk_table_remove(claims, &data->table);
    data->tabled = false;
}

lk_redis_claim *lk_redis_claims_find_locked(const lk_table *claims, uint64_t number)
{
    LK_TABLE_EACH_OF(link, claims, (uint32_t)number)
        if (data_of(link)->number == number)
            return data_of(link);
    return NULL;
}

lk_redis_claim *lk_redis_claims_after_locked(const lk_table *claims, const lk_redis_claim *data)
{
    const lk_table_link *link = lk_table_after(claims, data != NULL ? &data->table : NULL);
    return link != NULL ? data_of(link) : NULL;
}
