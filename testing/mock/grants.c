/* grants.c: who holds a key, and who may beside them: any number that share it, as many as there are permits, or one. */
#include <stdlib.h>

#include "internal.h"

lk_mock_grant *lk_mock_first_grant_locked(const locker_mock *m, const lk_mock_entry *entry)
{
    lk_list *const first = lk_list_first(&entry->grants);
    (void)m;
    return first != NULL ? LK_CONTAINER(first, lk_mock_grant, link) : NULL;
}

static const lk_mock_grant *above_locked(const locker_mock *m, const lk_mock_entry *entry, uint64_t token)
    LK_REQUIRES(m->mutex)
{
    const lk_mock_grant *least = NULL;
    (void)m;
    LK_EACH(const lk_mock_grant, g, link, &entry->grants)
        if (g->token > token && (least == NULL || g->token < least->token))
            least = g;
    return least;
}

const lk_mock_grant *lk_mock_holder_locked(const locker_mock *m, const lk_mock_entry *entry, size_t index)
{
    const lk_mock_grant *g = above_locked(m, entry, 0);
    while (g != NULL && index-- > 0)
        g = above_locked(m, entry, g->token);
    return g;
}

lk_mock_grant *lk_mock_named_locked(const locker_mock *m, const lk_mock_entry *entry,
                                    const locker_break_options *only, uint64_t newest)
{
    (void)m;
    LK_EACH(lk_mock_grant, g, link, &entry->grants)
        if (g->token <= newest && locker_break_names(only, g->owner, g->token))
            return g;
    return NULL;
}

/* The least slot that is free, and in *before the link in front of which its holder stands. */
static int32_t free_slot_locked(const locker_mock *m, const lk_mock_entry *entry, lk_list **before)
    LK_REQUIRES(m->mutex)
{
    int32_t slot = 0;
    (void)m;
    LK_EACH(lk_mock_grant, g, link, &entry->grants) {
        *before = &g->link;
        if (g->slot > slot)
            return slot;
        slot = g->slot + 1;
    }
    *before = (lk_list *)(uintptr_t)&entry->grants;
    return slot;
}

bool lk_mock_has_room_locked(const locker_mock *m, const lk_mock_entry *entry, locker_mode mode,
                             int32_t permits)
{
    const lk_mock_grant *const first = lk_mock_first_grant_locked(m, entry);
    lk_list *before;
    if (first == NULL)
        return true;
    if (first->permits != permits)
        return false;
    if (permits > 0)
        return free_slot_locked(m, entry, &before) < permits;
    return first->mode == LOCKER_SHARED && mode == LOCKER_SHARED;
}

void lk_mock_hold_locked(locker_mock *m, lk_mock_grant *grant, uint64_t token)
{
    lk_list *before = &grant->entry->grants;
    if (grant->permits > 0)
        grant->slot = free_slot_locked(m, grant->entry, &before);
    lk_list_append(before, &grant->link); /* in front of it */
    grant->token = grant->entry->token = token;
    grant->since = lk_mock_now(m);
    grant->until = grant->retry_at = LOCKER_NEVER;
}

void lk_mock_unhold_locked(const locker_mock *m, lk_mock_grant *grant)
{
    (void)m;
    lk_list_remove(&grant->link);
    if (grant->claim == NULL)
        free(grant);
}
