/* dial.h: reaching a host. */
#pragma once

#include "socket.h"

/* A socket connected to one host (NULL: the target's Unix socket), plain or TLS. Blocks until `until`; resolving a name
 * may take longer. */
lk_redis_socket *lk_redis_dial(const lk_redis_target *t, const char *host, int port, int64_t until,
                               lk_redis_failure *why);

/* "host:port", of LK_REDIS_PEER_MAX bytes at most. */
void lk_redis_peer_name(const char *host, int port, char *out);
