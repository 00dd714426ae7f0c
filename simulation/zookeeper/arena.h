/* arena.h: memory that is freed at once, for texts and lists that belong to one request, transaction or answer. */
#pragma once

#include <stddef.h>

typedef struct lk_simzk_chunk lk_simzk_chunk;

/* All zero: empty. */
typedef struct {
    lk_simzk_chunk *chunks; /* the one in use first */
} lk_simzk_arena;

/* Zeroed; aborts when there is none. */
void *lk_simzk_alloc(size_t size);

void *lk_simzk_arena_alloc(lk_simzk_arena *arena, size_t size);
void *lk_simzk_arena_copy(lk_simzk_arena *arena, const void *from, size_t size);
/* NULL stays NULL. */
char *lk_simzk_arena_text(lk_simzk_arena *arena, const char *text);
void lk_simzk_arena_free(lk_simzk_arena *arena);
