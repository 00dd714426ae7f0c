/* lk_line.h: lines of those that want the same thing, of whom few are let in at a time. A table has the lines by a hash of what is
 * wanted: two things of one hash share a line. A line is there while somebody is in, or waits. */
#pragma once

#include "lk_table.h"

typedef struct {
    lk_table_link by_hash;
    lk_list waiting; /**< who waits, the first in front */
    unsigned inside; /**< how many have been let in, and are not out yet */
} lk_line;

/** The line for the hash; made if there is none. NULL: no memory. */
static inline lk_line *lk_line_of(lk_table *lines, uint32_t hash)
{
    LK_TABLE_EACH_OF(link, lines, hash)
        if (link->hash == hash)
            return LK_CONTAINER(link, lk_line, by_hash);
    lk_line *const line = lk_table_reserve(lines) ? calloc(1, sizeof *line) : NULL;
    if (line == NULL)
        return NULL;
    lk_list_init(&line->waiting);
    lk_table_add(lines, &line->by_hash, hash);
    return line;
}

/** True if one more may be let in, of `most` at a time. */
static inline bool lk_line_has_room(const lk_line *line, unsigned most)
{
    return line->inside < most;
}

/** Free the line if nobody is in, or waits. */
static inline void lk_line_settle(lk_table *lines, lk_line *line)
{
    if (line->inside > 0 || !lk_list_empty(&line->waiting))
        return;
    lk_table_remove(lines, &line->by_hash);
    free(line);
}
