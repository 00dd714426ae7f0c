/* arena.c: see arena.h. */
#include "arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 480 };

struct lk_simzk_chunk {
    lk_simzk_chunk *next;
    size_t used, size;
    alignas(max_align_t) unsigned char bytes[];
};

void *lk_simzk_alloc(size_t size)
{
    void *const memory = calloc(1, size);
    if (memory == NULL)
        abort();
    return memory;
}

void *lk_simzk_arena_alloc(lk_simzk_arena *arena, size_t size)
{
    const size_t align = alignof(max_align_t), wanted = (size + align - 1) / align * align;
    lk_simzk_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->size - chunk->used < wanted) {
        const size_t bytes = wanted > CHUNK_BYTES ? wanted : CHUNK_BYTES;
        chunk = lk_simzk_alloc(sizeof *chunk + bytes);
        chunk->size = bytes;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    chunk->used += wanted;
    return chunk->bytes + chunk->used - wanted;
}

void *lk_simzk_arena_copy(lk_simzk_arena *arena, const void *from, size_t size)
{
    void *const to = lk_simzk_arena_alloc(arena, size);
    if (size > 0)
        memcpy(to, from, size);
    return to;
}

char *lk_simzk_arena_text(lk_simzk_arena *arena, const char *text)
{
    return text == NULL ? NULL : lk_simzk_arena_copy(arena, text, strlen(text) + 1);
}

void lk_simzk_arena_free(lk_simzk_arena *arena)
{
    for (lk_simzk_chunk *chunk = arena->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    arena->chunks = NULL;
}
