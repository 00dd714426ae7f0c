/* memory.h: memory that there always is, and memory that belongs to one request, which is freed at once. */
#pragma once

#include <stddef.h>

/* Zeroed; aborts when there is none. */
void *lk_simetcd_alloc(size_t size);
/* Room for one more of `size` behind `count`, in an array that grows; *room: for how many it has. */
void *lk_simetcd_grow(void *array, size_t count, size_t *room, size_t size);

/* All zero: empty. */
typedef struct {
    struct lk_simetcd_chunk *last;
} lk_simetcd_arena;

/* Zeroed, until the arena is freed. */
void *lk_simetcd_arena_alloc(lk_simetcd_arena *arena, size_t size);
void lk_simetcd_arena_free(lk_simetcd_arena *arena);
