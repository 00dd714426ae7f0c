/* lk_table.h: a hash table through its elements. Who uses it knows the keys: it hashes, and compares.
 *
 * All zero is an empty table. It grows by doubling; where there is no memory it becomes slower, not wrong,
 * and only the first place needs some (lk_table_reserve). */
#pragma once

#include <stdlib.h>

#include "lk_list.h"

/** A link in an element. */
typedef struct lk_table_link {
    struct lk_table_link *next; /**< in the bucket */
    uint32_t hash;
} lk_table_link;

typedef struct {
    lk_table_link **buckets;
    size_t bucket_count; /**< a power of two */
    size_t count;        /**< of elements */
} lk_table;

/** A hash of a text. FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
static inline uint32_t lk_hash_text(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

enum { LK_TABLE_FIRST_BUCKETS = 64 };

static inline lk_table_link **lk_table_bucket(const lk_table *table, uint32_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

/** See that elements can be added without fail. False: no memory. */
static inline bool lk_table_reserve(lk_table *table)
{
    if (table->buckets != NULL)
        return true;
    table->buckets = calloc(LK_TABLE_FIRST_BUCKETS, sizeof *table->buckets);
    table->bucket_count = table->buckets != NULL ? LK_TABLE_FIRST_BUCKETS : 0;
    return table->buckets != NULL;
}

/** Frees the table, not its elements, which are in none then. */
static inline void lk_table_destroy(lk_table *table)
{
    free(table->buckets);
    *table = (lk_table){NULL, 0, 0};
}

static inline void lk_table_grow(lk_table *table)
{
    const lk_table old = *table;
    lk_table_link **fresh = calloc(2 * old.bucket_count, sizeof *fresh);
    if (fresh == NULL)
        return;
    table->buckets = fresh;
    table->bucket_count = 2 * old.bucket_count;
    for (size_t i = 0; i < old.bucket_count; i++) {
        for (lk_table_link *link = old.buckets[i], *next; link != NULL; link = next) {
            lk_table_link **const bucket = lk_table_bucket(table, link->hash);
            next = link->next;
            link->next = *bucket;
            *bucket = link;
        }
    }
    free(old.buckets);
}

/** Add an element. It needs a place reserved. */
static inline void lk_table_add(lk_table *table, lk_table_link *link, uint32_t hash)
{
    lk_table_link **const bucket = lk_table_bucket(table, hash);
    link->hash = hash;
    link->next = *bucket;
    *bucket = link;
    if (++table->count > table->bucket_count)
        lk_table_grow(table);
}

static inline void lk_table_remove(lk_table *table, lk_table_link *link)
{
    lk_table_link **at = lk_table_bucket(table, link->hash);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->next = NULL;
    table->count--;
}

/** The first element that has the hash or one that shares its bucket; NULL: there is none. */
static inline lk_table_link *lk_table_first(const lk_table *table, uint32_t hash)
{
    return table->buckets == NULL ? NULL : *lk_table_bucket(table, hash);
}

/** Goes through what may be the element looked for: look at `link->hash` first, then compare keys. */
#define LK_TABLE_EACH_OF(link, table, hash)                                                                  \
    for (lk_table_link *link = lk_table_first(table, hash); link != NULL; link = link->next)

/** All elements, one behind the other: NULL begins and ends. The table must not be added to meanwhile; `link`
 * may have been removed only if the one behind it was asked for before. */
static inline lk_table_link *lk_table_after(const lk_table *table, const lk_table_link *link)
{
    size_t i = 0;
    if (link != NULL && link->next != NULL)
        return link->next;
    if (link != NULL)
        i = (link->hash & (table->bucket_count - 1)) + 1;
    while (i < table->bucket_count && table->buckets[i] == NULL)
        i++;
    return i < table->bucket_count ? table->buckets[i] : NULL;
}
