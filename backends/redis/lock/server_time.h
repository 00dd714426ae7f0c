/* server_time.h: the server's time. Asking for it would cost each grant a round trip, so it is known from the handshake
 * and asked for again now and then. */
#pragma once

#include "net/call.h"

typedef struct {
    const lk_redis_shared *shared;
    atomic_int_least64_t ahead_us; /* the server's clock less ours; INT64_MIN: unknown; relaxed */
    int64_t sent;                  /* when it was asked for last; 0: never. Guarded by the mutex */
} lk_redis_server_time;

void lk_redis_server_time_init(lk_redis_server_time *t, const lk_redis_shared *shared);
/* It was `us` at the local time `at`. */
void lk_redis_server_time_set_locked(lk_redis_server_time *t, int64_t us, int64_t at) LK_REDIS_LOCKED;
/* Ask for it, if it was not lately. */
void lk_redis_server_time_ask_locked(lk_redis_server_time *t, lk_redis_pipeline *commands,
                                     int64_t now) LK_REDIS_LOCKED;
/* What the server's clock shows at the local time `at`, in us: a little less rather than more. 0: unknown. */
uint64_t lk_redis_server_us(const lk_redis_server_time *t, int64_t at);
