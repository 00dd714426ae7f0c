/* tls.h: TLS by hiredis, where this build has it. */
#pragma once

#include "socket.h"

/* Make tls_context of what the target says of TLS. */
locker_status lk_redis_tls_init(lk_redis_target *target, locker_error *err);
void lk_redis_tls_clear(lk_redis_target *target);

/* The handshake of TLS. It blocks, bounded by the socket's time-outs; afterwards the socket doesn't block. */
bool lk_redis_tls_start(const lk_redis_target *target, lk_redis_socket *socket, int64_t until,
                        lk_redis_failure *why);
