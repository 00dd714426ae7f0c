/* clock_gain.c: see clock_gain.h. A server whose clock has gained ends the leases that it has by so much earlier. They are shortened by
 * what is proved; and since it may be more, or a lease may be from after that, all that are concerned are renewed at once. */
#include "clock_gain.h"
#include "net/reply.h"

static const int64_t ask_each_ns = LK_S;

/* By how much the lease ends earlier than its deadline allows for. */
static int64_t excess(const lk_redis_node *node, const lk_redis_claim *data, const lk_redis_time_proof *p)
{
    return p->gain - p->span / 100 * (data->allowed - node->time.drift);
}

/* One that was confirmed after the request before had been sent may be from after the gain. */
static void shorten_locked(lk_redis_node *node, lk_redis_claim *data,
                           const lk_redis_time_proof *p) LK_REDIS_LOCKED
{
    const locker_services *const svc = node->r->shared.svc;
    int64_t by = excess(node, data, p);
    if (by <= 0)
        return;
    if (data->asks < p->lost)
        by -= lk_time_earlier(by, p->back);
    if (data->asks < p->before)
        data->valid_until = data->valid_until > by ? data->valid_until - by : 0;
    svc->lease_shortened(svc, data->core, data->valid_until);
}

static void shorten_all_locked(lk_redis_node *node, const lk_redis_time_proof *p) LK_REDIS_LOCKED
{
    lk_redis *const r = node->r;
    const unsigned era = lk_redis_era(node->commands);
    for (lk_redis_claim *data = NULL; (data = lk_redis_claims_after_locked(&r->claims, data)) != NULL;)
        if (atomic_load_explicit(&data->held, memory_order_acquire) && !data->silenced && data->era == era)
            shorten_locked(node, data, p);
}

void lk_redis_clock_look_back_locked(lk_redis *r, lk_redis_claim *data)
{
    if (data->leaps != LK_READ(r->shared.leaps))
        r->shared.svc->lease_shortened(r->shared.svc, data->core, data->valid_until);
}

/* Each jump is told, and once of a clock that goes on running too fast or too slow. */
static void tell_locked(lk_redis_node *node, const lk_redis_time_proof *p) LK_REDIS_LOCKED
{
    const int64_t drift = node->time.drift;
    const locker_services *const svc = node->r->shared.svc;
    const char *const peer = lk_redis_net_peer(node->net);
    const int64_t faster = drift + (p->gain + p->span / 200) / (p->span / 100 + 1);
    const bool leaps = p->gain + p->loss > p->span / 3;
    if (p->gain > 0 && (leaps || p->run <= 0))
        svc->log(svc, LOCKER_LOG_WARN,
                 "redis: the clock of %s has gained %lld ms on this host's within %lld "
                 "ms: leases end earlier by this time, and are renewed now",
                 peer, (long long)(p->gain / LK_MS), (long long)(p->span / LK_MS));
    else if (p->gain > 0 && p->run == 1)
        svc->log(svc, LOCKER_LOG_WARN,
                 "redis: the clock of %s runs %lld %% faster than this host's, more than "
                 "clock_drift (%lld); correct that clock more slowly, or raise clock_drift",
                 peer, (long long)faster, (long long)drift);
    else if (p->loss > 0 && (leaps || p->run >= 0))
        svc->log(svc, LOCKER_LOG_WARN,
                 "redis: the clock of %s has lost %lld ms on this host's within %lld "
                 "ms: the locks of dead holders last longer by this time",
                 peer, (long long)(p->loss / LK_MS), (long long)(p->span / LK_MS));
}

static void answered_locked(void *context, redisReply *reply) LK_REDIS_LOCKED
{
    lk_redis_node *const node = context;
    lk_redis_server_time *const t = &node->time;
    lk_redis_time_sample sample = {.number = LK_READ(t->asks), .sent = t->sent};
    t->asking = false;
    if (reply == NULL || !lk_redis_reply_time(reply, &sample.us))
        return;
    sample.received = lk_redis_now(&node->r->shared);
    const lk_redis_time_proof proof =
        lk_redis_server_time_learn_locked(t, &sample, lk_redis_era(node->commands));
    tell_locked(node, &proof);
    if (proof.gain > 0)
        shorten_all_locked(node, &proof);
}

void lk_redis_clock_ask_locked(lk_redis_node *node, lk_redis_pipeline *on, int64_t now)
{
    lk_redis_server_time *const t = &node->time;
    if (t->asking || (t->sent != 0 && now - t->sent < ask_each_ns))
        return;
    const lk_redis_command a = LK_REDIS_COMMAND("TIME");
    if (!lk_redis_submit_command_locked(on, &a, answered_locked, node))
        return;
    t->asking = true;
    t->sent = now;
    LK_WRITE(t->asks, LK_READ(t->asks) + 1);
}
