/* items.c: see items.h. */
#include "items.h"

#include <stdlib.h>
#include <string.h>

lk_sr_item *lk_sr_items_find(const lk_sr_items *items, lk_sr_text name)
{
    for (size_t i = 0; i < items->count; i++) {
        if (lk_sr_same(lk_sr_view(&items->at[i].name), name))
            return &items->at[i];
    }
    return NULL;
}

lk_sr_item *lk_sr_items_insert(lk_sr_items *items, size_t index, lk_sr_text name)
{
    if (items->count == items->room) {
        items->room = items->room > 0 ? 2 * items->room : 8;
        items->at = lk_sr_resize(items->at, items->room * sizeof *items->at);
    }
    lk_sr_item *item = &items->at[index];
    memmove(item + 1, item, (items->count - index) * sizeof *item);
    items->count++;
    *item = (lk_sr_item){.score = 0};
    lk_sr_put(&item->name, name);
    return item;
}

size_t lk_sr_items_rank(const lk_sr_items *items, double score, lk_sr_text name)
{
    size_t from = 0, to = items->count;
    while (from < to) {
        const size_t middle = (from + to) / 2;
        const lk_sr_item *item = &items->at[middle];
        if (item->score < score ||
            (!(item->score > score) && lk_sr_compare(lk_sr_view(&item->name), name) < 0))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

void lk_sr_items_remove(lk_sr_items *items, size_t index)
{
    lk_sr_item *item = &items->at[index];
    lk_sr_bytes_free(&item->name);
    lk_sr_bytes_free(&item->value);
    items->count--;
    memmove(item, item + 1, (items->count - index) * sizeof *item);
}

void lk_sr_items_copy(lk_sr_items *to, const lk_sr_items *from)
{
    for (size_t i = 0; i < from->count; i++) {
        lk_sr_item *item = lk_sr_items_insert(to, i, lk_sr_view(&from->at[i].name));
        item->score = from->at[i].score;
        lk_sr_put(&item->value, lk_sr_view(&from->at[i].value));
    }
}

void lk_sr_items_free(lk_sr_items *items)
{
    while (items->count > 0)
        lk_sr_items_remove(items, items->count - 1);
    free(items->at);
    *items = (lk_sr_items){NULL, 0, 0};
}
