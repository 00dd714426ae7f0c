/* play.h: one random sequence on a real server and on a simulated one: all that both say has to be the
 * same. */
#pragma once

#include <stdint.h>

#include "servers/server.h"

enum { PLAY_TICK_MS = 2000 }; /* long enough for no server to give up another one */

/* Which server all clients go to, and what that is. */
typedef struct {
    const lk_server *server;
    int servers; /* of its ensemble; 1: it is alone */
    bool leads;
} play_stage;

/* Whether it was; if not, or when it is to be verbose, it prints what was said. requests: as many more were
 * made. */
bool play(const play_stage *stage, uint64_t seed, bool verbose, uint64_t *requests);
