/*
 * old_connections.h: connections to the same run of a server that were given up here, but may not have ended there. What
 * was sent on them may be on its way still, and would be carried out for nobody.
 */
#pragma once

#include "pipeline.h"

enum { LK_REDIS_OLD_CONNECTIONS = 8 };

/* Guarded by the mutex. */
typedef struct {
    int64_t id[LK_REDIS_OLD_CONNECTIONS]; /* the server's names of them; 0: it has ended there */
    size_t count;
} lk_redis_old_connections;

/* The connection, 0: of an unknown name, is given up. */
void lk_redis_old_connections_add_locked(lk_redis_old_connections *old, int64_t id) LK_REDIS_LOCKED;
/* End them, ahead of all commands on this new connection. A user without the right to that is denied it. */
void lk_redis_old_connections_end_locked(lk_redis_old_connections *old, lk_redis_pipeline *p) LK_REDIS_LOCKED;
