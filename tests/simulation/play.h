/* play.h: one random sequence on a real server and on a simulated one: all that both say has to be the same. */
#pragma once

#include <stdint.h>

#include "servers/server.h"

/* Whether it was; if not, or when it is to be verbose, it prints what was said. requests: as many more were made. */
bool play(const lk_server *server, uint64_t seed, bool verbose, uint64_t *requests);
