/* store.c: see store.h. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* ------------------------------------------------------------------ keys ---- */

int lk_simetcd_compare(lk_simetcd_data one, lk_simetcd_data other)
{
    const size_t least = one.len < other.len ? one.len : other.len;
    const int order = least > 0 ? memcmp(one.bytes, other.bytes, least) : 0;
    return order != 0 ? order : one.len < other.len ? -1 : one.len > other.len;
}

lk_simetcd_span lk_simetcd_span_of(lk_simetcd_data key, lk_simetcd_data range_end)
{
    const bool endless = range_end.len == 1 && *(const char *)range_end.bytes == 0;
    return (lk_simetcd_span){
        .from = key, .end = endless ? (lk_simetcd_data){0} : range_end, .alone = range_end.len == 0};
}

bool lk_simetcd_in_span(const lk_simetcd_span *span, lk_simetcd_data key)
{
    const int order = lk_simetcd_compare(key, span->from);
    if (span->alone)
        return order == 0;
    return order >= 0 && (span->end.len == 0 || lk_simetcd_compare(key, span->end) < 0);
}

size_t lk_simetcd_first(const lk_simetcd_store *store, const lk_simetcd_span *span)
{
    size_t low = 0, high = store->key_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (lk_simetcd_compare(store->keys[middle]->name, span->from) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static lk_simetcd_kv *kv_new(const lk_simetcd_kv *like)
{
    char *const bytes = lk_simetcd_alloc(sizeof(lk_simetcd_kv) + like->key.len + like->value.len);
    lk_simetcd_kv *const kv = (lk_simetcd_kv *)(void *)bytes;
    char *const key = bytes + sizeof *kv, *const value = key + like->key.len;
    *kv = *like;
    kv->refs = 1;
    kv->key.bytes = memcpy(key, like->key.bytes, like->key.len);
    if (like->value.len > 0)
        memcpy(value, like->value.bytes, like->value.len);
    kv->value.bytes = value;
    return kv;
}

static void kv_unref(lk_simetcd_kv *kv)
{
    if (--kv->refs == 0)
        free(kv);
}

const lk_simetcd_kv *lk_simetcd_state(const lk_simetcd_key *key, int64_t revision)
{
    for (size_t i = key->count; i > 0; i--)
        if (key->states[i - 1]->mod <= revision)
            return key->states[i - 1]->version > 0 ? key->states[i - 1] : NULL;
    return NULL;
}

static const lk_simetcd_kv *now(const lk_simetcd_key *key)
{
    return lk_simetcd_state(key, INT64_MAX);
}

/* ------------------------------------------------------------------ changes ---- */

static lk_simetcd_key *find_or_add(lk_simetcd_store *store, lk_simetcd_data name)
{
    const lk_simetcd_span span = {.from = name, .alone = true};
    const size_t at = lk_simetcd_first(store, &span);
    if (at < store->key_count && lk_simetcd_in_span(&span, store->keys[at]->name))
        return store->keys[at];
    store->keys = lk_simetcd_grow(store->keys, store->key_count, &store->key_room, sizeof *store->keys);
    memmove(store->keys + at + 1, store->keys + at, (store->key_count - at) * sizeof *store->keys);
    store->key_count++;
    return store->keys[at] = lk_simetcd_alloc(sizeof *store->keys[at]);
}

static void become(lk_simetcd_store *store, lk_simetcd_key *key, const lk_simetcd_kv *like)
{
    lk_simetcd_kv *const kv = kv_new(like);
    kv->refs = 2; /* the key's, and the events' */
    key->states = lk_simetcd_grow(key->states, key->count, &key->room, sizeof *key->states);
    key->states[key->count++] = kv;
    key->name = key->states[0]->key;
    store->events =
        lk_simetcd_grow(store->events, store->event_count, &store->event_room, sizeof *store->events);
    store->events[store->event_count++] = kv;
}

void lk_simetcd_put(lk_simetcd_store *store, int64_t revision, lk_simetcd_data name, lk_simetcd_data value,
                    int64_t lease)
{
    lk_simetcd_key *const key = find_or_add(store, name);
    const lk_simetcd_kv *const before = now(key);
    become(store, key,
           &(lk_simetcd_kv){.create = before != NULL ? before->create : revision,
                            .mod = revision,
                            .version = before != NULL ? before->version + 1 : 1,
                            .lease = lease,
                            .key = name,
                            .value = value});
}

int64_t lk_simetcd_delete(lk_simetcd_store *store, int64_t revision, const lk_simetcd_span *span)
{
    int64_t count = 0;
    for (size_t i = lk_simetcd_first(store, span); i < store->key_count; i++) {
        lk_simetcd_key *const key = store->keys[i];
        if (!lk_simetcd_in_span(span, key->name))
            break;
        if (now(key) == NULL)
            continue;
        become(store, key, &(lk_simetcd_kv){.mod = revision, .key = key->name});
        count++;
    }
    return count;
}

/* ------------------------------------------------------------------ compaction ---- */

/* How many of a key's states go: all before the last at that revision, and that, too, if it says that the key is deleted. */
static size_t to_forget(const lk_simetcd_key *key, int64_t revision)
{
    size_t count = 0;
    while (count < key->count && key->states[count]->mod <= revision)
        count++;
    return count > 0 && key->states[count - 1]->version > 0 ? count - 1 : count;
}

static void key_free(lk_simetcd_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        kv_unref(key->states[i]);
    free(key->states);
    free(key);
}

/* An event of the revision itself stays only with its key's state: the one of a deletion goes, as etcd loses it, too. */
static bool event_goes(const lk_simetcd_kv *event, int64_t revision)
{
    return event->mod < revision || (event->mod == revision && event->refs == 1);
}

void lk_simetcd_compact(lk_simetcd_store *store, int64_t revision)
{
    size_t keys = 0, events = 0;
    for (size_t i = 0; i < store->key_count; i++) {
        lk_simetcd_key *const key = store->keys[i];
        const size_t goes = to_forget(key, revision);
        for (size_t k = 0; k < goes; k++)
            kv_unref(key->states[k]);
        key->count -= goes;
        memmove(key->states, key->states + goes, key->count * sizeof *key->states);
        if (key->count == 0) {
            key_free(key);
            continue;
        }
        key->name = key->states[0]->key;
        store->keys[keys++] = key;
    }
    store->key_count = keys;
    for (size_t i = 0; i < store->event_count; i++) {
        if (event_goes(store->events[i], revision))
            kv_unref(store->events[i]);
        else
            store->events[events++] = store->events[i];
    }
    store->event_count = events;
    store->compacted = revision;
}

/* ------------------------------------------------------------------ leases ---- */

static size_t lease_place(const lk_simetcd_store *store, int64_t id)
{
    size_t at = 0;
    while (at < store->lease_count && store->leases[at].id < id)
        at++;
    return at;
}

lk_simetcd_lease *lk_simetcd_lease_find(const lk_simetcd_store *store, int64_t id)
{
    const size_t at = lease_place(store, id);
    return at < store->lease_count && store->leases[at].id == id ? &store->leases[at] : NULL;
}

lk_simetcd_lease *lk_simetcd_lease_new(lk_simetcd_store *store, int64_t id, int64_t ttl)
{
    const size_t at = lease_place(store, id);
    store->leases =
        lk_simetcd_grow(store->leases, store->lease_count, &store->lease_room, sizeof *store->leases);
    memmove(store->leases + at + 1, store->leases + at, (store->lease_count - at) * sizeof *store->leases);
    store->lease_count++;
    store->leases[at] = (lk_simetcd_lease){.id = id, .ttl = ttl, .until_ns = INT64_MAX};
    return &store->leases[at];
}

void lk_simetcd_lease_end(lk_simetcd_store *store, int64_t id)
{
    const size_t at = lease_place(store, id);
    int64_t deleted = 0;
    for (size_t i = 0; i < store->key_count; i++) {
        const lk_simetcd_kv *const kv = now(store->keys[i]);
        if (kv != NULL && kv->lease == id)
            deleted += lk_simetcd_delete(store, store->revision + 1,
                                         &(lk_simetcd_span){.from = kv->key, .alone = true});
    }
    store->revision += deleted > 0;
    store->lease_count--;
    memmove(store->leases + at, store->leases + at + 1, (store->lease_count - at) * sizeof *store->leases);
}

/* ------------------------------------------------------------------ life ---- */

void lk_simetcd_store_init(lk_simetcd_store *store)
{
    *store = (lk_simetcd_store){.revision = 1, .compacted = -1};
}

void lk_simetcd_store_free(lk_simetcd_store *store)
{
    for (size_t i = 0; i < store->event_count; i++)
        kv_unref(store->events[i]);
    for (size_t i = 0; i < store->key_count; i++)
        key_free(store->keys[i]);
    free(store->events);
    free(store->keys);
    free(store->leases);
    *store = (lk_simetcd_store){0};
}
