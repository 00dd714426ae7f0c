/* dial.h: reaching a host. */
#pragma once

#include "socket.h"

struct addrinfo;

/* The addresses of a host, for freeaddrinfo(); NULL: none. Blocks for as long as the system does. */
struct addrinfo *lk_redis_resolve(const lk_redis_target *t, const char *host, int port, const char *peer,
                                  lk_redis_failure *why);
/* A socket connected to one address of a host (NULL: the target's Unix socket), plain or TLS. Blocks until `until`. */
lk_redis_socket *lk_redis_dial(const lk_redis_target *t, const char *host, const struct addrinfo *address,
                               const char *peer, int64_t until, lk_redis_failure *why);
