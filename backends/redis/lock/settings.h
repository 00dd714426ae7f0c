/* settings.h: the driver's parameters, and a checked copy of what a URI or profile says. */
#pragma once

#include "net/socket.h"
#include "slot.h"

/* What open was told; constant afterwards. */
typedef struct {
    lk_redis_target target;
    lk_redis_prefix prefix;
    bool fencing;
    int64_t poll_ns;
    int64_t wait_replicas;
    int64_t wait_timeout_ns;
    int64_t cleanup_ns;
    int64_t recovery_ns; /* 0: none (recovery.h) */
    int64_t clock_drift; /* of the server's, in percent */
} lk_redis_settings;

/* The local deadline of a lease (Redlock's allowance for clock drift):
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ */
static inline int64_t lk_redis_valid_until(const lk_redis_settings *set, int64_t sent, int64_t ttl_ns)
{
    return sent + ttl_ns - ttl_ns / 100 * set->clock_drift - 2 * LK_MS;
}

extern const locker_parameter lk_redis_params[];

/* On settings that are all zero. Clear them also when it fails. */
locker_status lk_redis_settings_init(lk_redis_settings *s, const locker_driver_config *config,
                                     locker_error *err);
void lk_redis_settings_clear(lk_redis_settings *s);
