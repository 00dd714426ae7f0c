/* lk_list.h: a doubly linked list through its elements.
 *
 * The list and its elements' links are a ring, so that nothing has an end to be looked after, and an element
 * leaves without knowing which list it is in. All zero is a link in no list; a list has to be initialised. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The `type` whose `member` is at `at`, which isn't NULL. */
#define LK_CONTAINER(at, type, member) ((type *)(void *)((char *)(uintptr_t)(at)-offsetof(type, member)))

/** A link in an element, or the list itself. */
typedef struct lk_list {
    struct lk_list *prev, *next;
} lk_list;

static inline void lk_list_init(lk_list *list)
{
    list->prev = list->next = list;
}

static inline bool lk_list_empty(const lk_list *list)
{
    return list->next == list;
}

/** Whether the element is in a list. */
static inline bool lk_list_linked(const lk_list *link)
{
    return link->next != NULL;
}

static inline void lk_list_append(lk_list *list, lk_list *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void lk_list_prepend(lk_list *list, lk_list *link)
{
    lk_list_append(list->next, link); /* a ring: before the first that there is */
}

/** Out of the list that it is in. */
static inline void lk_list_remove(lk_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/** All that `from` has goes to the end of `to`; `from` is empty then. */
static inline void lk_list_splice(lk_list *to, lk_list *from)
{
    if (lk_list_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    lk_list_init(from);
}

/** The first link, NULL when there is none. */
static inline lk_list *lk_list_first(const lk_list *list)
{
    return lk_list_empty(list) ? NULL : list->next;
}

/** The same, out of the list. The list itself is written, so that static analysis sees it go. */
static inline lk_list *lk_list_take(lk_list *list)
{
    lk_list *const link = lk_list_first(list);
    if (link == NULL)
        return NULL;
    list->next = link->next;
    list->next->prev = list;
    link->prev = link->next = NULL;
    return link;
}

/** What `link` stands in; NULL at the end of the list. */
#define LK_LIST_ELEMENT(link, list, type, member) ((link) == (list) ? NULL : LK_CONTAINER(link, type, member))

/** `element`, a type *, goes through a list of those, by their `member`; they stay in it meanwhile. */
#define LK_EACH(type, element, member, list)                                                                 \
    for (type *element = LK_LIST_ELEMENT((list)->next, list, type, member); element != NULL;                 \
         element = LK_LIST_ELEMENT(element->member.next, list, type, member))

/** The same; the body may remove the element that it is at, and no other. */
#define LK_EACH_SAFE(type, element, member, list)                                                            \
    for (type *element = LK_LIST_ELEMENT((list)->next, list, type, member), *element##_next;                 \
         element != NULL &&                                                                                  \
         (element##_next = LK_LIST_ELEMENT(element->member.next, list, type, member), true);                 \
         element = element##_next)
