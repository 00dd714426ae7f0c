/* settings.h: the driver's parameters, and a checked copy of what a URI or profile says. */
#pragma once

#include "keys.h"
#include "net/socket.h"

/* What open was told; constant afterwards. */
typedef struct {
    lk_redis_target target;
    lk_redis_prefix prefix;
    bool fencing;
    int64_t poll_ns;
    int64_t wait_replicas;
    int64_t wait_timeout_ns;
    int64_t cleanup_ns;
    int64_t recovery_ns; /* 0: none (recovery.c) */
    int64_t clock_drift; /* of the server's, in percent */
} lk_redis_settings;

extern const locker_parameter lk_redis_params[];

/* On settings that are all zero. Clear them also when it fails. */
locker_status lk_redis_settings_init(lk_redis_settings *s, const locker_driver_config *config,
                                     locker_error *err);
void lk_redis_settings_clear(lk_redis_settings *s);
