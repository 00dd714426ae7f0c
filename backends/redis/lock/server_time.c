/* server_time.c: see server_time.h. */
#include "server_time.h"
#include "net/reply.h"

static const int64_t time_again_ns = 10 * LK_S; /* it is asked for so often */

void lk_redis_server_time_init(lk_redis_server_time *t, const lk_redis_shared *shared)
{
    t->shared = shared;
    LK_WRITE(t->ahead_us, INT64_MIN);
}

void lk_redis_server_time_set_locked(lk_redis_server_time *t, int64_t us, int64_t at)
{
    LK_WRITE(t->ahead_us, us - at / LK_US);
    t->sent = at;
}

uint64_t lk_redis_server_us(const lk_redis_server_time *t, int64_t at)
{
    const int64_t ahead = LK_READ(t->ahead_us);
    const int64_t us = ahead == INT64_MIN ? 0 : at / LK_US + ahead;
    return us > 0 ? (uint64_t)us : 0;
}

/* It was asked for at t->sent, and may have been read long after, when the process was stopped. In between the server
 * was at `us`, and what is known of its time, if anything is, is changed by no more than that demands. */
static void take_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    lk_redis_server_time *t = context;
    int64_t us, at = lk_redis_now(t->shared);
    if (reply == NULL || !lk_redis_reply_time(reply, &us))
        return;
    const int64_t ahead = LK_READ(t->ahead_us);
    const int64_t then = ahead != INT64_MIN ? (us - ahead) * LK_US : at;
    if (then < at)
        at = then > t->sent ? then : t->sent;
    lk_redis_server_time_set_locked(t, us, at);
}

void lk_redis_server_time_ask_locked(lk_redis_server_time *t, lk_redis_pipeline *commands, int64_t now)
{
    if (now - t->sent < time_again_ns)
        return;
    const lk_redis_command a = LK_REDIS_COMMAND("TIME");
    if (lk_redis_submit_command_locked(commands, &a, take_locked, t))
        t->sent = now;
}
