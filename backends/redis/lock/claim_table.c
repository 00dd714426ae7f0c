/* claim_table.c: see claim_table.h. */
#include "claim_table.h"

static lk_redis_claim *data_of(const lk_table_link *link)
{
    return LK_CONTAINER(link, lk_redis_claim, table);
}

void lk_redis_claims_add_locked(lk_table *claims, locker_claim *claim)
{
    lk_redis_claim *data = lk_redis_claim_of(claim);
    if (data->tabled || !lk_table_reserve(claims))
        return;
    lk_table_add(claims, &data->table, (uint32_t)data->number);
    data->tabled = true;
}

void lk_redis_claims_remove_locked(lk_table *claims, locker_claim *claim)
{
    lk_redis_claim *data = lk_redis_claim_of(claim);
    if (!data->tabled)
        return;
    lk_table_remove(claims, &data->table);
    data->tabled = false;
}

locker_claim *lk_redis_claims_find_locked(const lk_table *claims, uint64_t number)
{
    LK_TABLE_EACH_OF(link, claims, (uint32_t)number) {
        if (data_of(link)->number == number)
            return data_of(link)->core;
    }
    return NULL;
}

void lk_redis_claims_wake_locked(const lk_table *claims, const locker_services *svc)
{
    for (const lk_table_link *link = NULL; (link = lk_table_after(claims, link)) != NULL;) {
        if (!atomic_load_explicit(&data_of(link)->held, memory_order_relaxed))
            svc->wake(svc, data_of(link)->core);
    }
}
