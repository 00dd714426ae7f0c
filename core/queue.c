/* queue.c: the keys in use, the FIFO of each, and the list of what is held. The caller holds locker.mutex
 * throughout. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15); /* 2^64 over the golden ratio */
    return hash ^ hash >> 32;
}

/* A product's low bits know nothing of the high ones of what was multiplied, where the end of the key stands:
 * so its high bits are the hash. */
static uint32_t finish(uint64_t hash)
{
    return (uint32_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

/* Eight bytes at a time: each lock call hashes its key. */
uint32_t locker_key_hash(const char *key, size_t key_len)
{
    uint64_t hash = key_len, word = 0;

    if (key_len < sizeof word) {
        for (size_t i = 0; i < key_len; i++)
            word = word << 8 | (unsigned char)key[i];
        return finish(mix(hash, word));
    }
    for (size_t i = 0; i < key_len - sizeof word; i += sizeof word) {
        memcpy(&word, key + i, sizeof word);
        hash = mix(hash, word);
    }
    memcpy(&word, key + key_len - sizeof word, sizeof word); /* the last ones, some perhaps again */
    return finish(mix(hash, word));
}

static lk_claim *home_of(lk_key *key)
{
    return (lk_claim *)(void *)((char *)key - offsetof(lk_claim, own_key));
}

static lk_key **bucket_of(const locker *l, uint32_t hash)
{
    return &l->buckets[hash & (l->bucket_count - 1)];
}

/* A table that can't grow is slower, not wrong: no memory is no error here. */
static void make_room_locked(locker *l)
{
    lk_key **old = l->buckets, **fresh;
    size_t old_count = l->bucket_count;

    if (l->key_count < old_count)
        return;
    fresh = calloc(2 * old_count, sizeof *fresh);
    if (fresh == NULL)
        return;
    l->buckets = fresh;
    l->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        for (lk_key *key = old[i], *chain; key != NULL; key = chain) {
            lk_key **bucket = bucket_of(l, home_of(key)->pub.key_hash);

            chain = key->chain;
            key->chain = *bucket;
            *bucket = key;
        }
    }
    free(old);
}

static bool same_key(const locker_claim *a, const locker_claim *b)
{
    return a->key_hash == b->key_hash && a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

lk_key *lk_key_find_locked(const locker *l, const locker_claim *of)
{
    lk_key *key = *bucket_of(l, of->key_hash);

    while (key != NULL && !same_key(&home_of(key)->pub, of))
        key = key->chain;
    return key;
}

void lk_key_use_locked(locker *l, lk_claim *claim)
{
    lk_key *key = lk_key_find_locked(l, &claim->pub);

    if (key == NULL) {
        lk_key **bucket = bucket_of(l, claim->pub.key_hash);

        key = &claim->own_key;
        key->chain = *bucket;
        *bucket = key;
        l->key_count++;
        make_room_locked(l);
    }
    key->users++;
    claim->key = key;
}

void lk_key_drop_locked(locker *l, lk_claim *claim)
{
    lk_key *key = claim->key, **link;
    lk_claim *home = home_of(key);

    if (--key->users > 0)
        return;
    for (link = bucket_of(l, home->pub.key_hash); *link != key; link = &(*link)->chain)
        ;
    *link = key->chain;
    l->key_count--;
    if (home != claim && home->refs == 0)
        lk_claim_free(l, home);
}

void lk_fifo_append_locked(lk_claim *claim)
{
    lk_key *key = claim->key;

    lk_phase_set_locked(claim, LK_QUEUED);
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

    if (claim == NULL || claim->busy_with != LK_IDLE || key->holder != NULL || key->contender != NULL)
        return;
    lk_fifo_remove_locked(claim);
    lk_phase_set_locked(claim, LK_CONTENDING);
    key->contender = claim;
    lk_rouse_locked(l, claim->wait);
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
