/* dial.h: reaching a host. */
#pragma once

#include "socket.h"

/* The host's name could not be looked up, or (LATE) not in time. */
void lk_redis_dial_unresolved(const lk_redis_target *t, const char *peer, lk_redis_resolved how, int rc,
                              lk_redis_failure *why);
/* A socket connected to one of a host's addresses, plain or TLS. *which: the one, which may have failed; their count if none was
 * reached. Blocks until *until, which is then when this one has to have logged in: it has an equal part of the time. */
lk_redis_socket *lk_redis_dial(const lk_redis_target *t, const char *host, const lk_redis_addresses *list,
                               size_t *which, const char *peer, int64_t *until, lk_redis_failure *why);
/* One connected to the target's Unix socket. */
lk_redis_socket *lk_redis_dial_unix(const lk_redis_target *t, int64_t until, lk_redis_failure *why);
