/* link.h: a hiredis connection to the server of a run, for server.c and bare.c. */
#ifndef LK_BENCH_LINK_H
#define LK_BENCH_LINK_H

#include <stddef.h>

#include "bench.h"

struct redisContext;

/* Connected, authenticated, its database selected; NULL: `why` says what went wrong. */
struct redisContext *lk_redis_server_connect(const lk_redis_server *server, char *why, size_t size);

#endif
