/* tracker.c: see tracker.h. */
#include "tracker.h"

#include <stdlib.h>

#include "arena.h"

typedef struct {
    lk_list link;
    int64_t id;
    uint64_t owner;    /* 0: nobody yet */
    int64_t expiry_ms; /* the end of its bucket */
    bool closing;
} tracked;

static tracked *find(const lk_simzk_tracker *t, int64_t session)
{
    LK_LIST_EACH(link, &t->sessions)
        if (LK_CONTAINER(link, tracked, link)->id == session)
            return LK_CONTAINER(link, tracked, link);
    return NULL;
}

/* Buckets are whole ticks, and nothing ends sooner than it may. */
static int64_t bucket(const lk_simzk_tracker *t, int64_t at_ms)
{
    return (at_ms / t->tick_ms + 1) * t->tick_ms;
}

void lk_simzk_tracker_init(lk_simzk_tracker *t, int32_t tick_ms, int64_t now_ms)
{
    lk_list_init(&t->sessions);
    t->tick_ms = tick_ms;
    t->next_ms = bucket(t, now_ms);
}

void lk_simzk_tracker_free(lk_simzk_tracker *t)
{
    for (lk_list *link; (link = lk_list_take(&t->sessions)) != NULL;)
        free(LK_CONTAINER(link, tracked, link));
}

void lk_simzk_tracker_add(lk_simzk_tracker *t, int64_t session, int32_t timeout_ms, int64_t now_ms)
{
    tracked *s = find(t, session);
    if (s == NULL) {
        s = lk_simzk_alloc(sizeof *s);
        s->id = session;
        lk_list_append(&t->sessions, &s->link);
    }
    s->expiry_ms = bucket(t, now_ms + timeout_ms);
}

void lk_simzk_tracker_remove(lk_simzk_tracker *t, int64_t session)
{
    tracked *const s = find(t, session);
    if (s == NULL)
        return;
    lk_list_remove(&s->link);
    free(s);
}

bool lk_simzk_tracker_touch(lk_simzk_tracker *t, int64_t session, int32_t timeout_ms, int64_t now_ms)
{
    tracked *const s = find(t, session);
    if (s == NULL || s->closing)
        return false;
    s->expiry_ms = bucket(t, now_ms + timeout_ms);
    return true;
}

bool lk_simzk_tracker_has(const lk_simzk_tracker *t, int64_t session)
{
    const tracked *const s = find(t, session);
    return s != NULL && !s->closing;
}

void lk_simzk_tracker_closing(lk_simzk_tracker *t, int64_t session)
{
    tracked *const s = find(t, session);
    if (s != NULL)
        s->closing = true;
}

lk_simzk_error lk_simzk_tracker_check(lk_simzk_tracker *t, int64_t session, uint64_t owner, bool alone)
{
    tracked *const s = find(t, session);
    if (s == NULL)
        return alone ? LK_SIMZK_UNKNOWNSESSION : LK_SIMZK_SESSIONEXPIRED;
    if (s->closing)
        return LK_SIMZK_SESSIONEXPIRED;
    if (s->owner == 0)
        s->owner = owner;
    return s->owner == owner ? LK_SIMZK_OK : LK_SIMZK_SESSIONMOVED;
}

void lk_simzk_tracker_own(lk_simzk_tracker *t, int64_t session, uint64_t owner)
{
    tracked *const s = find(t, session);
    if (s != NULL && !s->closing)
        s->owner = owner;
}

int64_t lk_simzk_tracker_expire(lk_simzk_tracker *t, int64_t now_ms)
{
    if (now_ms < t->next_ms)
        return 0;
    LK_LIST_EACH(link, &t->sessions) {
        tracked *const s = LK_CONTAINER(link, tracked, link);
        if (!s->closing && s->expiry_ms <= t->next_ms) {
            s->closing = true;
            return s->id;
        }
    }
    t->next_ms += t->tick_ms;
    return 0;
}
