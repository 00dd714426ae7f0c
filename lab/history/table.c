/* table.c: hash tables with open addressing, and arrays that grow. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

bool lk_grow(void *array, size_t element, size_t count, size_t *room)
{
    void **where = array;
    const size_t wanted = *room ? *room * 2 : 8;
    if (count < *room)
        return true;
    void *bigger = reallocarray(*where, wanted, element);
    if (!bigger)
        return false;
    *where = bigger;
    *room = wanted;
    return true;
}

/* FNV-1a, 64 bits */
static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
    return hash;
}

static const uint64_t basis = UINT64_C(14695981039346656037);

/* ------------------------------------------------------------------ strings ---- */

static char **string_slot(char **slots, size_t size, const char *text)
{
    size_t at = mix(basis, text, strlen(text)) & (size - 1);
    while (slots[at] && strcmp(slots[at], text) != 0)
        at = (at + 1) & (size - 1);
    return &slots[at];
}

static bool widen_strings(lk_strings *strings)
{
    const size_t size = strings->size ? strings->size * 2 : 64;
    char **slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < strings->size; i++)
        if (strings->slots[i])
            *string_slot(slots, size, strings->slots[i]) = strings->slots[i];
    free(strings->slots);
    strings->slots = slots;
    strings->size = size;
    return true;
}

const char *lk_strings_add(lk_strings *strings, const char *text)
{
    if (strings->used * 2 >= strings->size && !widen_strings(strings))
        return NULL;
    char **slot = string_slot(strings->slots, strings->size, text);
    if (!*slot && (*slot = strdup(text)) != NULL)
        strings->used++;
    return *slot;
}

void lk_strings_clear(lk_strings *strings)
{
    for (size_t i = 0; i < strings->size; i++)
        free(strings->slots[i]);
    free(strings->slots);
}

/* ------------------------------------------------------------------ numbers ---- */

struct lk_history_table_slot {
    lk_history_table_key key;
    size_t index;
    bool used;
};

static lk_history_table_slot *table_slot(lk_history_table_slot *slots, size_t size,
                                         const lk_history_table_key *key)
{
    const uint64_t hash = mix(basis, key, sizeof *key);
    size_t at = (hash ^ hash >> 32) & (size - 1);
    while (slots[at].used && memcmp(&slots[at].key, key, sizeof *key) != 0)
        at = (at + 1) & (size - 1);
    return &slots[at];
}

static bool widen_table(lk_history_table *table)
{
    const size_t size = table->size ? table->size * 2 : 64;
    lk_history_table_slot *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < table->size; i++)
        if (table->slots[i].used)
            *table_slot(slots, size, &table->slots[i].key) = table->slots[i];
    free(table->slots);
    table->slots = slots;
    table->size = size;
    return true;
}

size_t *lk_history_table_at(lk_history_table *table, const lk_history_table_key *key, bool *added)
{
    if (table->used * 2 >= table->size && !widen_table(table))
        return NULL;
    lk_history_table_slot *slot = table_slot(table->slots, table->size, key);
    *added = !slot->used;
    if (*added) {
        slot->key = *key;
        slot->used = true;
        table->used++;
    }
    return &slot->index;
}

void lk_history_table_clear(lk_history_table *table)
{
    free(table->slots);
}
