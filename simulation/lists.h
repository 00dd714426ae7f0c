/* lists.h: going through a list by its links. */
#pragma once

#include "lk_list.h"

/** `link` goes through the list, whose elements stay in it meanwhile. */
#define LK_LIST_EACH(link, list) for (lk_list *link = (list)->next; link != (list); link = link->next)

/** The same; the body may remove the element that it is at, and no other. */
#define LK_LIST_EACH_SAFE(link, list)                                                                        \
    for (lk_list *link = (list)->next, *link##_next = link->next; link != (list);                            \
         link = link##_next, link##_next = link->next)
