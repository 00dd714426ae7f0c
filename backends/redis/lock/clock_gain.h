/* clock_gain.h: what follows where the server's clock gains on ours (server_time.h). */
#pragma once

#include "instance.h"

/* The local deadline of a lease that this server has, whose request was sent then (Redlock's allowance for clock drift:
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/). */
static inline int64_t lk_redis_valid_until(const lk_redis_node *node, int64_t sent, int64_t ttl_ns)
{
    return sent + ttl_ns - ttl_ns / 100 * LK_READ(node->time.allowed) - 2 * LK_MS;
}

/* The server has just confirmed the lease. */
static inline void lk_redis_clock_note(const lk_redis_node *node, lk_redis_claim *data)
{
    data->allowed = (uint8_t)LK_READ(node->time.allowed);
    data->asks = LK_READ(node->time.asks);
}

/* Doubt a grant that is only now among the claims, if a server's clock was seen to leap since it was asked for. */
void lk_redis_clock_look_back_locked(lk_redis *r, lk_redis_claim *data) LK_REDIS_LOCKED;

/* Ask for the server's time, if it was not lately, behind other commands on the same connection. */
void lk_redis_clock_ask_locked(lk_redis_node *node, lk_redis_pipeline *on, int64_t now) LK_REDIS_LOCKED;
