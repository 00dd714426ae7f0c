/* clock.c: what is known of the server's clock: the floor of fencing counters, its time, and what it has gained on ours. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "instance.h"
#include "net/command.h"

/* ------------------------------------------------------------------ fencing counters ---- */

void lk_redis_fences_set_least(lk_redis_fences *fences, int64_t server_us)
{
    const uint64_t time = lk_redis_fence_least(server_us);
    LK_WRITE(fences->least, time < LK_REDIS_FENCE_MOST ? time : LK_REDIS_FENCE_MOST);
    for (size_t i = 0; i < sizeof fences->lifted / sizeof *fences->lifted; i++)
        LK_WRITE(fences->lifted[i], 0);
}

const char *lk_redis_fence_least_text(const lk_redis_fences *fences, char text[LK_REDIS_FENCE_DIGITS + 1])
{
    uint64_t n = LK_READ(fences->least);
    text[LK_REDIS_FENCE_DIGITS] = '\0';
    for (int i = LK_REDIS_FENCE_DIGITS; i-- > 0; n /= 10)
        text[i] = (char)('0' + n % 10);
    return text;
}

/* ------------------------------------------------------------------ the server's clock ---- */

static const int64_t proved_least_ns = LK_MS; /* less is within the 2 ms that each lease leaves */
static const int64_t drift_most = 30;         /* in percent, as clock_drift: what is faster was set forward */

void lk_redis_server_time_init(lk_redis_server_time *t, lk_redis_shared *shared, int64_t drift)
{
    t->shared = shared;
    t->drift = drift;
    LK_WRITE(t->ahead_us, INT64_MIN);
    LK_WRITE(t->allowed, drift);
    t->sample = (lk_redis_time_sample){0};
    t->behind = t->run = 0;
}

void lk_redis_server_time_set_locked(lk_redis_server_time *t, int64_t us, int64_t at)
{
    LK_WRITE(t->ahead_us, us - at / LK_US);
}

uint64_t lk_redis_server_us(const lk_redis_server_time *t, int64_t at)
{
    const int64_t ahead = LK_READ(t->ahead_us);
    const int64_t us = ahead == INT64_MIN ? 0 : at / LK_US + ahead;
    return us > 0 ? (uint64_t)us : 0;
}

/* It was asked for at `sent`, and may have been read long after, when the process was stopped. In between the server
 * was at `us`, and what is known of its time, if anything is, is changed by no more than that demands. */
static void set_between_locked(lk_redis_server_time *t, const lk_redis_time_sample *s) LK_REDIS_LOCKED
{
    const int64_t ahead = LK_READ(t->ahead_us);
    const int64_t then = ahead != INT64_MIN ? (s->us - ahead) * LK_US : s->received;
    int64_t at = s->received;
    if (then < at)
        at = then > s->sent ? then : s->sent;
    lk_redis_server_time_set_locked(t, s->us, at);
}

/* What the server's clock has shown more than a clock that ran `drift` percent faster than ours; it tells whole us. */
static int64_t gain(const lk_redis_time_sample *a, const lk_redis_time_sample *b, int64_t drift)
{
    const int64_t span = b->received - a->sent;
    return (b->us - a->us - 1) * LK_US - span - span / 100 * drift;
}

/* What it has shown less than one that ran so much slower. */
static int64_t loss(const lk_redis_time_sample *a, const lk_redis_time_sample *b, int64_t drift)
{
    const int64_t span = b->sent - a->received;
    return span - span / 100 * drift - (b->us - a->us + 1) * LK_US;
}

/* Whether a gain is measured from `b` on more closely than from `a` on. */
static bool is_closer(const lk_redis_time_sample *a, const lk_redis_time_sample *b, int64_t drift)
{
    const int64_t span = b->sent - a->sent;
    return (b->us - a->us) * LK_US < span + span / 100 * drift;
}

/* A clock that runs too fast is expected to go on so, until it is seen not to. */
static void allow_locked(lk_redis_server_time *t, const lk_redis_time_proof *p) LK_REDIS_LOCKED
{
    const int64_t allowed = LK_READ(t->allowed);
    const int64_t percent = p->gain / (p->span / 100 + 1) + t->drift + 1;
    if (p->gain > p->span / 100 * (allowed - t->drift))
        LK_WRITE(t->shared->leaps, LK_READ(t->shared->leaps) + 1);
    if (percent > allowed && percent <= drift_most)
        LK_WRITE(t->allowed, percent);
}

/* A clock that was set back, and then right again, has gained nothing on what was confirmed before both. */
static void balance_locked(lk_redis_server_time *t, lk_redis_time_proof *p) LK_REDIS_LOCKED
{
    if (t->behind == 0)
        t->lost = p->before;
    p->lost = t->lost;
    p->back = lk_time_earlier(p->gain, t->behind);
    t->behind += p->loss - p->back;
}

lk_redis_time_proof lk_redis_server_time_learn_locked(lk_redis_server_time *t,
                                                      const lk_redis_time_sample *sample, unsigned era)
{
    const lk_redis_time_sample *const last = &t->sample;
    lk_redis_time_proof p = {.before = last->number};
    set_between_locked(t, sample);
    if (last->number != 0 && t->era == era) {
        p.span = sample->received - last->sent;
        p.gain = gain(last, sample, t->drift);
        p.loss = loss(last, sample, t->drift);
        p.gain = p.gain < proved_least_ns ? 0 : p.gain;
        p.loss = p.loss < proved_least_ns ? 0 : p.loss;
        if (p.gain == 0 && !is_closer(last, sample, t->drift))
            return p;
        balance_locked(t, &p);
    } else {
        t->behind = 0;
    }
    if (p.gain > 0)
        allow_locked(t, &p);
    else
        LK_WRITE(t->allowed, t->drift);
    p.run = t->run;
    t->run = p.gain > 0 ? (t->run > 0) + 1 : p.loss > 0 ? -(t->run < 0) - 1 : 0;
    t->sample = *sample;
    t->era = era;
    return p;
}

/* ------------------------------------------------------------------ a clock that gains ---- */

/* A server whose clock has gained ends the leases that it has by so much earlier. They are shortened by
 * what is proved; and since it may be more, or a lease may be from after that, all that are concerned are renewed at once. */
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
        if (lk_redis_claim_is_held(data) && data->era == era)
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
