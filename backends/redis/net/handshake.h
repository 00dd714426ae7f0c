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

/* Log in to a master, following replicas to theirs. Ends at `until`, of which each host and each of its addresses may
 * take an equal part, so that none that hangs hides the others. `scripts`: NULL for a subscription, which needs neither
 * them nor the server's time. `redirect`: where to try first, or "". */
lk_redis_socket *lk_redis_connect_master(const lk_redis_target *t, const char *redirect,
                                         const lk_redis_scripts *scripts, int64_t until,
                                         lk_redis_failure *why);
