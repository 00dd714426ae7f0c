/* queue.c: the keys in use, the FIFO of each, and the list of what is held. The caller holds locker.mutex
 * throughout. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { FIRST_BUCKETS = 64 };

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
static uint32_t hash_of(const char *name, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static lk_key **bucket_of(const locker *l, uint32_t hash)
{
    return &l->buckets[hash & (l->bucket_count - 1)];
}

/* A table that can't grow is slower, not wrong: no memory is no error here, but for the first table. */
static bool make_room_locked(locker *l)
{
    size_t count = l->bucket_count == 0 ? FIRST_BUCKETS : l->bucket_count * 2;
    lk_key **old = l->buckets, **fresh;
    size_t old_count = l->bucket_count;

    if (l->key_count < l->bucket_count)
        return true;
    fresh = calloc(count, sizeof *fresh);
    if (fresh == NULL)
        return l->bucket_count > 0;
    l->buckets = fresh;
    l->bucket_count = count;
    for (size_t i = 0; i < old_count; i++) {
        for (lk_key *key = old[i], *chain; key != NULL; key = chain) {
            lk_key **bucket = bucket_of(l, key->hash);

            chain = key->chain;
            key->chain = *bucket;
            *bucket = key;
        }
    }
    free(old);
    return true;
}

lk_key *lk_key_use_locked(locker *l, const char *name, size_t length)
{
    uint32_t hash = hash_of(name, length);
    lk_key **bucket, *key;

    if (!make_room_locked(l))
        return NULL;
    bucket = bucket_of(l, hash);
    for (key = *bucket; key != NULL; key = key->chain) {
        if (key->hash == hash && key->length == length && memcmp(key->name, name, length) == 0) {
            key->users++;
            return key;
        }
    }
    key = l->spare_key != NULL && l->spare_key->room >= length ? l->spare_key : NULL;
    if (key != NULL) {
        l->spare_key = NULL;
    } else {
        key = malloc(sizeof *key + length + 1);
        if (key == NULL)
            return NULL;
        key->room = (uint32_t)length;
    }
    *key = (lk_key){.room = key->room};
    memcpy(key->name, name, length);
    key->name[length] = '\0';
    key->hash = hash;
    key->length = (uint32_t)length;
    key->users = 1;
    key->chain = *bucket;
    *bucket = key;
    l->key_count++;
    return key;
}

void lk_key_drop_locked(locker *l, lk_key *key)
{
    lk_key **link;

    if (--key->users > 0)
        return;
    for (link = bucket_of(l, key->hash); *link != key; link = &(*link)->chain)
        ;
    *link = key->chain;
    l->key_count--;
    free(l->spare_key);
    l->spare_key = key;
}

void lk_fifo_append_locked(lk_claim *claim)
{
    lk_key *key = claim->key;

    claim->phase = LK_QUEUED;
    claim->next = NULL;
    claim->prev = key->last;
    if (key->last != NULL)
        key->last->next = claim;
    else
        key->first = claim;
    key->last = claim;
}

void lk_fifo_remove_locked(lk_claim *claim)
{
    lk_key *key = claim->key;

    if (claim->prev != NULL)
        claim->prev->next = claim->next;
    else
        key->first = claim->next;
    if (claim->next != NULL)
        claim->next->prev = claim->prev;
    else
        key->last = claim->prev;
    claim->prev = claim->next = NULL;
}

void lk_promote_locked(locker *l, lk_key *key)
{
    lk_claim *claim = key->first;

    (void)l;
    if (claim == NULL || claim->passing || key->holder != NULL || key->contender != NULL)
        return;
    lk_fifo_remove_locked(claim);
    claim->phase = LK_CONTENDING;
    key->contender = claim;
    lk_rouse_locked(claim->wait);
}

void lk_held_add_locked(locker *l, lk_claim *claim)
{
    claim->prev = NULL;
    claim->next = l->held;
    if (l->held != NULL)
        l->held->prev = claim;
    l->held = claim;
    l->stats.held++;
}

void lk_held_remove_locked(locker *l, lk_claim *claim)
{
    if (claim->prev != NULL)
        claim->prev->next = claim->next;
    else
        l->held = claim->next;
    if (claim->next != NULL)
        claim->next->prev = claim->prev;
    claim->prev = claim->next = NULL;
    l->stats.held--;
}
