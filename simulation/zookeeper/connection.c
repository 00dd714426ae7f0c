/* connection.c: see connection.h. */
#include "connection.h"

#include <stdlib.h>

lk_simzk_parcel *lk_simzk_parcel_new(lk_simzk_answer_kind kind)
{
    lk_simzk_parcel *const parcel = lk_simzk_alloc(sizeof *parcel);
    parcel->answer.kind = kind;
    parcel->answer.data.len = -1;
    return parcel;
}

static void parcel_free(lk_simzk_parcel *parcel)
{
    lk_simzk_arena_free(&parcel->arena);
    free(parcel);
}

void lk_simzk_answer_free(lk_simzk_answer *answer)
{
    if (answer != NULL)
        parcel_free(LK_CONTAINER(answer, lk_simzk_parcel, answer));
}

static void tell(lk_simzk_connection *c)
{
    if (c->on_answer != NULL)
        c->on_answer(c->context, c);
}

void lk_simzk_connection_put(lk_simzk_connection *c, lk_simzk_parcel *parcel)
{
    if (!c->open) {
        parcel_free(parcel);
        return;
    }
    lk_list_append(&c->answers, &parcel->link);
    tell(c);
}

lk_simzk_parcel *lk_simzk_connection_take(lk_simzk_connection *c)
{
    lk_list *const link = lk_list_take(&c->answers);
    return link == NULL ? NULL : LK_CONTAINER(link, lk_simzk_parcel, link);
}

void lk_simzk_connection_close(lk_simzk_connection *c)
{
    if (!c->open)
        return;
    c->open = false;
    lk_list_remove(&c->link);
    tell(c);
    lk_simzk_connection_unref(c); /* the server's */
}

void lk_simzk_connection_add_id(lk_simzk_connection *c, const char *scheme, const char *id)
{
    lk_simzk_ace *const entries = lk_simzk_arena_alloc(&c->arena, (c->ids.count + 1) * sizeof *entries);
    const lk_simzk_acl old = lk_simzk_acl_copy(c->ids, &c->arena);
    for (size_t i = 0; i < old.count; i++)
        entries[i] = old.entries[i];
    entries[old.count] =
        (lk_simzk_ace){0, lk_simzk_arena_text(&c->arena, scheme), lk_simzk_arena_text(&c->arena, id)};
    c->ids = (lk_simzk_acl){entries, old.count + 1};
}

lk_simzk_connection *lk_simzk_connection_ref(lk_simzk_connection *c)
{
    if (c != NULL)
        c->refs++;
    return c;
}

void lk_simzk_connection_unref(lk_simzk_connection *c)
{
    if (c == NULL || --c->refs > 0)
        return;
    for (lk_simzk_parcel *parcel; (parcel = lk_simzk_connection_take(c)) != NULL;)
        parcel_free(parcel);
    lk_simzk_arena_free(&c->arena);
    free(c);
}
