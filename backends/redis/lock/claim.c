/* claim.c: the state of claims, and the table that finds them by their values. */
#include "claim.h"

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
    if (data->in_table || !lk_table_reserve(claims))
        return;
    lk_table_add(claims, &data->table, (uint32_t)data->number);
    data->in_table = true;
}

void lk_redis_claims_remove_locked(lk_table *claims, lk_redis_claim *data)
{
    if (!data->in_table)
        return;
    lk_table_remove(claims, &data->table);
    data->in_table = false;
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
