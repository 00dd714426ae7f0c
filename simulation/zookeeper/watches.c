/* watches.c: see watches.h. */
#include "watches.h"

#include <stdlib.h>
#include <string.h>

#include "lk_table.h"

static size_t find(const lk_simzk_watch_list *list, const char *path, const lk_simzk_connection *c)
{
    const uint32_t hash = lk_hash_text(path);
    size_t i = 0;
    while (i < list->count && (list->items[i].hash != hash || list->items[i].connection != c ||
                               strcmp(list->items[i].path, path) != 0))
        i++;
    return i;
}

static void remove_at(lk_simzk_watch_list *list, size_t at)
{
    free(list->items[at].path);
    list->count--;
    memmove(&list->items[at], &list->items[at + 1], (list->count - at) * sizeof list->items[0]);
}

void lk_simzk_watches_add(lk_simzk_watch_list *list, const char *path, lk_simzk_connection *c)
{
    if (find(list, path, c) < list->count)
        return;
    if (list->count == list->room) {
        list->room = list->room > 0 ? 2 * list->room : 16;
        list->items = realloc(list->items, list->room * sizeof *list->items);
    }
    char *const copy = strdup(path);
    if (list->items == NULL || copy == NULL)
        abort();
    list->items[list->count++] = (lk_simzk_watch){lk_hash_text(path), copy, c};
}

static bool list_has(const lk_simzk_watch_list *list, const char *path, const lk_simzk_connection *c)
{
    return find(list, path, c) < list->count;
}

bool lk_simzk_watches_remove(lk_simzk_watch_list *list, const char *path, const lk_simzk_connection *c)
{
    const size_t at = find(list, path, c);
    if (at == list->count)
        return false;
    remove_at(list, at);
    return true;
}

static void drop(lk_simzk_watch_list *list, const lk_simzk_connection *c)
{
    for (size_t i = list->count; i-- > 0;)
        if (list->items[i].connection == c)
            remove_at(list, i);
}

void lk_simzk_watches_drop(lk_simzk_watches *w, const lk_simzk_connection *c)
{
    drop(&w->data, c);
    drop(&w->child, c);
}

static void free_list(lk_simzk_watch_list *list)
{
    while (list->count > 0)
        remove_at(list, list->count - 1);
    free(list->items);
    *list = (lk_simzk_watch_list){0};
}

void lk_simzk_watches_free(lk_simzk_watches *w)
{
    free_list(&w->data);
    free_list(&w->child);
}

/* ------------------------------------------------------------------ telling ---- */

void lk_simzk_watches_tell(lk_simzk_connection *c, int32_t type, const char *path, int64_t zxid)
{
    lk_simzk_parcel *const parcel = lk_simzk_parcel_new(LK_SIMZK_EVENT);
    parcel->answer.xid = LK_SIMZK_EVENT_XID;
    parcel->answer.zxid = zxid;
    parcel->answer.type = type;
    parcel->answer.path = lk_simzk_arena_text(&parcel->arena, path);
    lk_simzk_connection_put(c, parcel);
}

/* Whoever watches the node is told, but for those that `other` has for it: they are told from there. */
static void fire(lk_simzk_watch_list *list, int32_t type, lk_simzk_watched node,
                 const lk_simzk_watch_list *other)
{
    const uint32_t hash = lk_hash_text(node.path);
    for (size_t i = 0; i < list->count;) {
        lk_simzk_connection *const c = list->items[i].connection;
        if (list->items[i].hash != hash || strcmp(list->items[i].path, node.path) != 0) {
            i++;
            continue;
        }
        if ((other == NULL || !list_has(other, node.path, c)) &&
            lk_simzk_acl_allows(node.acl, LK_SIMZK_READ, c->ids))
            lk_simzk_watches_tell(c, type, node.path, node.zxid);
        remove_at(list, i);
    }
}

static void without_zxid(const lk_simzk_watches *w, lk_simzk_watched *node)
{
    if (!w->tells_zxid)
        node->zxid = -1;
}

void lk_simzk_watches_created(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent)
{
    if (w == NULL)
        return;
    without_zxid(w, &node);
    without_zxid(w, &parent);
    fire(&w->data, LK_SIMZK_CREATED, node, NULL);
    fire(&w->child, LK_SIMZK_CHILD, parent, NULL);
}

void lk_simzk_watches_deleted(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent)
{
    if (w == NULL)
        return;
    without_zxid(w, &node);
    without_zxid(w, &parent);
    fire(&w->child, LK_SIMZK_DELETED, node, &w->data);
    fire(&w->data, LK_SIMZK_DELETED, node, NULL);
    fire(&w->child, LK_SIMZK_CHILD, parent, NULL);
}

void lk_simzk_watches_changed(lk_simzk_watches *w, lk_simzk_watched node)
{
    if (w == NULL)
        return;
    without_zxid(w, &node);
    fire(&w->data, LK_SIMZK_CHANGED, node, NULL);
}
