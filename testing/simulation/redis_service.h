/* redis_service.h: a simulated Redis server (redis/server.h) on the simulated network. */
#pragma once

#include "redis/server.h"
#include "world/network.h"

typedef struct lk_sim_redis {
    lk_sim_service service;
    lk_sim_process machine; /**< its clock */
    lk_sr_server *server;
    int64_t due; /**< the event that is to come for it; INT64_MAX: none */
} lk_sim_redis;

/** Listens at host:6379 from now on. */
void lk_sim_redis_begin(lk_sim_redis *redis, const char *host, uint64_t seed);
/** Its process is killed and starts again at once. */
void lk_sim_redis_restart(lk_sim_redis *redis, bool keeps_data);
/** As somebody's FLUSHALL. */
void lk_sim_redis_flush(lk_sim_redis *redis);
/** Take note of the time, before it is asked for anything by hand. */
void lk_sim_redis_advance(lk_sim_redis *redis);
void lk_sim_redis_end(lk_sim_redis *redis);
