/* keyspace.c: see keyspace.h. */
#include "keyspace.h"

enum { KEY_BYTES = 64, ITEM_BYTES = 32 };

static lk_sr_key *key_of(const lk_list *link)
{
    return LK_CONTAINER(link, lk_sr_key, link);
}

static uint32_t hash_of(lk_sr_text name)
{
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 16777619U;
    return hash;
}

void lk_sr_keyspace_init(lk_sr_keyspace *space)
{
    *space = (lk_sr_keyspace){.table = {NULL, 0, 0}};
    lk_list_init(&space->keys);
}

lk_sr_key *lk_sr_keyspace_find(const lk_sr_keyspace *space, lk_sr_text name)
{
    const uint32_t hash = hash_of(name);
    LK_TABLE_EACH_OF(link, &space->table, hash) {
        lk_sr_key *key = LK_CONTAINER(link, lk_sr_key, place);
        if (link->hash == hash && lk_sr_same(lk_sr_view(&key->name), name))
            return key;
    }
    return NULL;
}

lk_sr_key *lk_sr_keyspace_add(lk_sr_keyspace *space, lk_sr_text name, lk_sr_kind kind)
{
    lk_sr_key *key = lk_sr_make(sizeof *key);
    if (!lk_table_reserve(&space->table))
        abort();
    lk_sr_put(&key->name, name);
    key->kind = kind;
    key->expires_ms = -1;
    lk_table_add(&space->table, &key->place, hash_of(name));
    lk_list_append(&space->keys, &key->link);
    return key;
}

void lk_sr_keyspace_remove(lk_sr_keyspace *space, lk_sr_key *key)
{
    lk_table_remove(&space->table, &key->place);
    lk_list_remove(&key->link);
    lk_sr_bytes_free(&key->name);
    lk_sr_bytes_free(&key->text);
    lk_sr_items_free(&key->items);
    free(key);
}

void lk_sr_keyspace_clear(lk_sr_keyspace *space)
{
    LK_LIST_EACH_SAFE(link, &space->keys)
        lk_sr_keyspace_remove(space, key_of(link));
}

void lk_sr_keyspace_copy(lk_sr_keyspace *to, const lk_sr_keyspace *from)
{
    lk_sr_keyspace_clear(to);
    LK_LIST_EACH(link, &from->keys) {
        const lk_sr_key *key = key_of(link);
        lk_sr_key *copy = lk_sr_keyspace_add(to, lk_sr_view(&key->name), key->kind);
        copy->expires_ms = key->expires_ms;
        lk_sr_put(&copy->text, lk_sr_view(&key->text));
        lk_sr_items_copy(&copy->items, &key->items);
    }
}

size_t lk_sr_keyspace_bytes(const lk_sr_keyspace *space)
{
    size_t bytes = 0;
    LK_LIST_EACH(link, &space->keys) {
        const lk_sr_key *key = key_of(link);
        bytes += KEY_BYTES + key->name.len + key->text.len;
        for (size_t i = 0; i < key->items.count; i++)
            bytes += ITEM_BYTES + key->items.at[i].name.len + key->items.at[i].value.len;
    }
    return bytes;
}

void lk_sr_keyspace_destroy(lk_sr_keyspace *space)
{
    lk_sr_keyspace_clear(space);
    lk_table_destroy(&space->table);
}
