/* store.h: what a member has applied: keys with what they were, events in their order, leases. It has no time: what a lease's
 * deadline is, its member says (lessor.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const void *bytes;
    size_t len;
} lk_simetcd_data;

/* What a key was from a revision on. It doesn't change. */
typedef struct {
    unsigned refs;
    int64_t create, mod, version, lease; /* version 0: it was deleted */
    lk_simetcd_data key, value;
} lk_simetcd_kv;

typedef struct {
    lk_simetcd_data name;   /* of any of them */
    lk_simetcd_kv **states; /* in their order */
    size_t count, room;
} lk_simetcd_key;

typedef struct {
    int64_t id, ttl;  /* s */
    int64_t until_ns; /* of its member's clock; INT64_MAX: as another leads */
    int64_t again_ns; /* before that it is not revoked once more */
} lk_simetcd_lease;

typedef struct {
    lk_simetcd_key **keys; /* in the order of their names */
    size_t key_count, key_room;
    lk_simetcd_kv **events; /* all that keys became, in their order, but for what was compacted */
    size_t event_count, event_room;
    lk_simetcd_lease *leases; /* by id */
    size_t lease_count, lease_room;
    int64_t revision, compacted;
} lk_simetcd_store;

/* All keys from `from` until before `end`; alone: from is the one; end.len 0: without an end. */
typedef struct {
    lk_simetcd_data from, end;
    bool alone;
} lk_simetcd_span;

int lk_simetcd_compare(lk_simetcd_data one, lk_simetcd_data other);
/* As in a request: an end of no bytes: one key; of one that is 0: without an end. */
lk_simetcd_span lk_simetcd_span_of(lk_simetcd_data key, lk_simetcd_data range_end);
bool lk_simetcd_in_span(const lk_simetcd_span *span, lk_simetcd_data key);

void lk_simetcd_store_init(lk_simetcd_store *store);
void lk_simetcd_store_free(lk_simetcd_store *store);

/* The place of the first key that is not before the span, and of the next that is in it; key_count: there is none. */
size_t lk_simetcd_first(const lk_simetcd_store *store, const lk_simetcd_span *span);
/* What that key was at a revision; NULL: it was not there. */
const lk_simetcd_kv *lk_simetcd_state(const lk_simetcd_key *key, int64_t revision);

/* Changes, at the revision that the caller has begun: it makes it the store's when there was one. */
void lk_simetcd_put(lk_simetcd_store *store, int64_t revision, lk_simetcd_data key, lk_simetcd_data value,
                    int64_t lease);
/* Returns how many there were. */
int64_t lk_simetcd_delete(lk_simetcd_store *store, int64_t revision, const lk_simetcd_span *span);
/* What was before that revision is forgotten, but for what still is. */
void lk_simetcd_compact(lk_simetcd_store *store, int64_t revision);

/* NULL: there is none. It is there until the next one is made, or ends. */
lk_simetcd_lease *lk_simetcd_lease_find(const lk_simetcd_store *store, int64_t id);
lk_simetcd_lease *lk_simetcd_lease_new(lk_simetcd_store *store, int64_t id, int64_t ttl);
/* It ends, with its keys; in one revision, if it has any. */
void lk_simetcd_lease_end(lk_simetcd_store *store, int64_t id);
