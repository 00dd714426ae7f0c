/* kinds.c: shared locks and permits: how a lock is asked for, and who had a slot last. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

lk_kind lk_kind_of(const lk_event *asked)
{
    if (asked->permits > 0)
        return LK_KIND_PERMIT;
    return asked->mode && strcmp(asked->mode, "shared") == 0 ? LK_KIND_SHARED : LK_KIND_EXCLUSIVE;
}

/* Where that slot is, made when it is new; NULL: out of memory. */
static const lk_attempt **place_of(lk_latest *latest, int64_t slot)
{
    const lk_history_table_key name = {{slot, 0, 0, 0}};
    bool added;
    size_t *index = lk_history_table_at(&latest->slots, &name, &added);
    if (!index)
        return NULL;
    if (added) {
        if (!lk_grow(&latest->of_slot, sizeof *latest->of_slot, latest->slot_count, &latest->slot_room))
            return NULL;
        latest->of_slot[latest->slot_count] = NULL;
        *index = latest->slot_count++;
    }
    return &latest->of_slot[*index];
}

static bool has_slot(const lk_attempt *attempt)
{
    return attempt->kind == LK_KIND_PERMIT && attempt->answered->slot >= 0;
}

const lk_attempt *lk_latest_of_slot(lk_latest *latest, const lk_attempt *attempt)
{
    const lk_attempt *const *place = has_slot(attempt) ? place_of(latest, attempt->answered->slot) : NULL;
    return place ? *place : NULL;
}

bool lk_latest_set(lk_latest *latest, const lk_attempt *attempt)
{
    latest->of_kind[attempt->kind] = attempt;
    if (!has_slot(attempt))
        return true;
    const lk_attempt **place = place_of(latest, attempt->answered->slot);
    if (place)
        *place = attempt;
    return place != NULL;
}

void lk_latest_clear(lk_latest *latest)
{
    lk_history_table_clear(&latest->slots);
    free(latest->of_slot);
}
