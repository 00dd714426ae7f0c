/* items.h: what a list, a hash or a sorted set consists of: names, with a value or a score. In order: that in which they came,
 * or, in a sorted set, of score and then of name. */
#pragma once

#include "bytes.h"

typedef struct {
    lk_sr_bytes name, value;
    double score;
} lk_sr_item;

typedef struct {
    lk_sr_item *at;
    size_t count, room;
} lk_sr_items;

/** NULL: there is none of that name. */
lk_sr_item *lk_sr_items_find(const lk_sr_items *items, lk_sr_text name);

/** A new one before the one of that index, or at the end. */
lk_sr_item *lk_sr_items_insert(lk_sr_items *items, size_t index, lk_sr_text name);

/** Where one of a sorted set belongs. */
size_t lk_sr_items_rank(const lk_sr_items *items, double score, lk_sr_text name);

void lk_sr_items_remove(lk_sr_items *items, size_t index);
void lk_sr_items_copy(lk_sr_items *to, const lk_sr_items *from);
void lk_sr_items_free(lk_sr_items *items);
