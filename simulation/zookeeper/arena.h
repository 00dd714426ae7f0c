/* arena.h: memory that is freed at once, for texts and lists that belong to one request, transaction or answer. */
#pragma once

#include "zookeeper.h"
#include <stdbool.h>
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

/* ------------------------------------------------------------------ acl.c ---- */

/* Whether a client of those ids may. No list at all: everybody. */
bool lk_simzk_acl_allows(lk_simzk_acl acl, int32_t perms, lk_simzk_acl ids);
/* What a node is given: "auth" becomes the client's ids. LK_SIMZK_INVALIDACL: it can't be. */
lk_simzk_error lk_simzk_acl_fix(lk_simzk_acl wanted, lk_simzk_acl ids, lk_simzk_arena *arena,
                                lk_simzk_acl *fixed);
lk_simzk_acl lk_simzk_acl_copy(lk_simzk_acl acl, lk_simzk_arena *arena);

/* ------------------------------------------------------------------ path.c ---- */

/* As PathUtils.validatePath does. */
bool lk_simzk_path_is_valid(const char *path);
/* One of the server's own, which can't be deleted. */
bool lk_simzk_path_is_special(const char *path);
/* The parent's path, malloc'ed: "/" is "/x"'s; NULL: there is no slash in it. */
char *lk_simzk_path_parent(const char *path);
/* What is behind the last slash. */
const char *lk_simzk_path_name(const char *path);
