/* choose.h: random requests, most of them about nodes that are there. */
#pragma once

#include "simulation/zookeeper/arena.h"

enum { CHOOSE_PATHS_MAX = 64 };

typedef struct {
    uint64_t random;
    const char *root;              /* the node below which all happens */
    char *paths[CHOOSE_PATHS_MAX]; /* of nodes that were made with numbers; a ring */
    size_t count;                  /* of all that ever were */
} chooser;

uint64_t choose_draw(chooser *c, uint64_t below);
/* Its texts are the arena's. */
lk_simzk_request choose_request(chooser *c, int32_t xid, lk_simzk_arena *arena);
/* After a reconnection; seen: the last zxid. */
lk_simzk_request choose_watches(chooser *c, int64_t seen, lk_simzk_arena *arena);
/* A node with a number has been made. */
void choose_learn(chooser *c, const char *path);
void choose_free(chooser *c);
