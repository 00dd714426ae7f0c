/* memory.c: see memory.h. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

struct lk_simetcd_chunk {
    struct lk_simetcd_chunk *before;
    max_align_t bytes[];
};

void *lk_simetcd_alloc(size_t size)
{
    void *const at = calloc(1, size);
    if (at == NULL)
        abort();
    return at;
}

void *lk_simetcd_grow(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    const size_t more = *room > 0 ? 2 * *room : 8;
    void *const grown = realloc(array, more * size);
    if (grown == NULL)
        abort();
    memset((char *)grown + *room * size, 0, (more - *room) * size);
    *room = more;
    return grown;
}

void *lk_simetcd_arena_alloc(lk_simetcd_arena *arena, size_t size)
{
    struct lk_simetcd_chunk *const chunk = lk_simetcd_alloc(sizeof *chunk + size);
    chunk->before = arena->last;
    arena->last = chunk;
    return chunk->bytes;
}

void lk_simetcd_arena_free(lk_simetcd_arena *arena)
{
    for (struct lk_simetcd_chunk *chunk; (chunk = arena->last) != NULL;) {
        arena->last = chunk->before;
        free(chunk);
    }
}
