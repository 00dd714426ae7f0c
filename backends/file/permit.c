/* permit.c: finds a free slot for a permit. The kernel knows who holds a slot, but it walks through all locks of the file for each query:
 * with 1,500 permits held, a query for each slot would take some 100 ms. So the search begins with a hint, which the kernel confirms
 * with one query, and leaves out the slots that this instance holds, about which nobody has to be asked. What is left is searched by
 * halves (beside.c). */
#include <limits.h>
#include <stdlib.h>

#include "permit.h"

void lk_file_permit_note(lk_file *self, const lk_file_claim *c, int32_t slot)
{
    LK_WRITE(self->vacant[c->hash % LK_FILE_BUSY_NAMES], (uint64_t)c->hash << 32 | (uint32_t)slot);
}

/* Return the slot that was noted for the claim's key; -1: none was, or there are fewer slots. */
static int32_t noted(const lk_file *self, const lk_file_claim *c)
{
    const uint64_t note = LK_READ(self->vacant[c->hash % LK_FILE_BUSY_NAMES]);
    const uint32_t slot = (uint32_t)note;
    return note >> 32 == c->hash && slot < (uint32_t)c->claim->permits ? (int32_t)slot : -1;
}

/* Mark each slot in whose byte a grant of this instance is known to be. `own` has a byte for each. */
static void mark_own(lk_file *self, const lk_file_claim *c, const lk_file_broken *broken, char *own)
{
    lk_mutex_lock(&self->mutex);
    LK_EACH(lk_file_claim, other, link, &self->claims) {
        const locker_claim *const grant = other->claim;
        if (other->state == LK_FILE_HELD && grant->permits == c->claim->permits &&
            lk_file_id_is(&other->id, &c->id) &&
            !lk_file_is_broken_byte(broken, lk_file_holder_byte(grant->slot, grant->token)))
            own[grant->slot] = 1;
    }
    lk_mutex_unlock(&self->mutex);
}

int32_t lk_file_permit_find(lk_file *self, const lk_file_claim *c, const lk_file_broken *broken,
                            int32_t queries)
{
    const int32_t permits = c->claim->permits, hint = noted(self, c);
    if (hint >= 0 && lk_file_slot_find(c->fd, hint, hint + 1, broken, &queries) == hint)
        return hint;
    char *const own = calloc((size_t)permits, 1);
    if (own == NULL)
        return lk_file_slot_find(c->fd, 0, permits, broken, &queries);
    mark_own(self, c, broken, own);
    int32_t found = -1;
    for (int32_t first = 0, end; first < permits && found < 0; first = end + 1) {
        for (end = first; end < permits && !own[end];)
            end++;
        if (end > first)
            found = lk_file_slot_find(c->fd, first, end, broken, &queries);
    }
    free(own);
    return found;
}
