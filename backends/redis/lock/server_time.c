/* server_time.c: see server_time.h. */
#include "server_time.h"

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
