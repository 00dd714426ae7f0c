/*
 * claim_table.c: the table that finds a claim by its value's number, for messages. Claims that asked the
 * server to queue them are in it, from before they ask until they end, and grants from when they are noted;
 * so a message that hands a lock to a value which is not in it is for a claim that has ended.
 */
#include <stdlib.h>

#include "internal.h"

static locker_claim **bucket_of(const struct lk_claims *t, uint64_t number)
{
    return &t->bucket[number & (t->buckets - 1)];
}

static void grow_locked(struct lk_claims *t)
{
    struct lk_claims grown = {.buckets = t->buckets > 0 ? 2 * t->buckets : LK_CLAIM_BUCKETS,
                              .count = t->count};
    grown.bucket = calloc(grown.buckets, sizeof(*grown.bucket));
    if (grown.bucket == NULL)
        return; /* longer chains do, once there is a table */
    for (size_t i = 0; i < t->buckets; i++) {
        locker_claim *next;
        for (locker_claim *c = t->bucket[i]; c != NULL; c = next) {
            struct lk_claim_data *data = lk_claim_data(c);
            locker_claim **to = bucket_of(&grown, data->number);
            next = data->next;
            data->next = *to;
            *to = c;
        }
    }
    free(t->bucket);
    *t = grown;
}

void lk_claims_add_locked(struct lk_redis *r, locker_claim *claim)
{
    struct lk_claims *t = &r->claims;
    struct lk_claim_data *data = lk_claim_data(claim);
    if (data->tabled)
        return;
    if (t->count >= t->buckets)
        grow_locked(t);
    if (t->bucket == NULL)
        return; /* no memory: it is not queued, and polls */
    locker_claim **to = bucket_of(t, data->number);
    data->next = *to;
    *to = claim;
    data->tabled = true;
    t->count++;
}

void lk_claims_remove_locked(struct lk_redis *r, locker_claim *claim)
{
    struct lk_claim_data *data = lk_claim_data(claim);
    if (!data->tabled)
        return;
    locker_claim **at = bucket_of(&r->claims, data->number);
    while (*at != claim)
        at = &lk_claim_data(*at)->next;
    *at = data->next;
    data->tabled = false;
    r->claims.count--;
}

locker_claim *lk_claims_find_locked(struct lk_redis *r, uint64_t number)
{
    if (r->claims.bucket == NULL)
        return NULL;
    locker_claim *c = *bucket_of(&r->claims, number);
    while (c != NULL && lk_claim_data(c)->number != number)
        c = lk_claim_data(c)->next;
    return c;
}

void lk_claims_wake_locked(struct lk_redis *r)
{
    for (size_t i = 0; i < r->claims.buckets; i++) {
        for (locker_claim *c = r->claims.bucket[i]; c != NULL; c = lk_claim_data(c)->next) {
            if (!atomic_load_explicit(&lk_claim_data(c)->held, memory_order_relaxed))
                r->svc->wake(r->svc, c);
        }
    }
}

void lk_claim_silence_locked(struct lk_redis *r, locker_claim *claim)
{
    struct lk_claim_data *data = lk_claim_data(claim);
    lk_note_forget_locked(r, data);
    if (data->renewal != NULL)
        *data->renewal = NULL;
    data->renewal = NULL;
}
