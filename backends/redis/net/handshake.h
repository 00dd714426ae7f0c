/* handshake.h: from a socket to a server that will serve us. */
#pragma once

#include "socket.h"

enum { LK_REDIS_SCRIPTS_MAX = 8, LK_REDIS_HASH_LEN = 40 };

/* Scripts that the server is given with the log-in. */
typedef struct {
    const char *const *text;
    size_t count;
    /* By which each is called; untouched where the server does not tell. NULL: not wanted. */
    char (*hash)[LK_REDIS_HASH_LEN + 1];
} lk_redis_scripts;

/* Log in, and learn what the server is. `master`: where its master is, if it is a replica or a Sentinel; else "".
 * `scripts`: NULL for one that needs neither them nor the server's time. Waits until `until`. */
bool lk_redis_handshake(const lk_redis_target *t, lk_redis_socket *socket, const lk_redis_scripts *scripts,
                        int64_t until, char master[LK_REDIS_PEER_MAX], lk_redis_failure *why);
