/* waiters.h: looking after those that wait: whether their locks have become free without a message. */
#pragma once

#include "instance.h"

/* How it stands with a lock that a claim waits for. */
typedef struct {
    int64_t left_ms; /* the holder's lease; below 0: it has no end */
    int64_t rank;    /* so many stand before the claim in the queue */
    int64_t count;   /* so many stand there */
} lk_redis_standing;

/* For how long a queue is kept since the latest look of one of its first. */
static inline int64_t lk_redis_queue_ns(const lk_redis *r)
{
    return lk_time_later(3 * r->set.poll_ns, 60 * LK_S);
}

/* How long until who stands so looks again. */
int64_t lk_redis_wait_locked(lk_redis *r, const lk_redis_claim *data,
                             const lk_redis_standing *standing) LK_REDIS_LOCKED;
/* Have the keeper look at the lock of a claim that stands in the queue, and in the table, until its next attempt. Answers when
 * that is due, whatever was lost. */
int64_t lk_redis_look_after_locked(lk_redis *r, lk_redis_claim *data,
                                   const lk_redis_standing *standing) LK_REDIS_LOCKED;
/* It has come to stand among the first; `at_once`: another doubts whether it lives. */
void lk_redis_look_soon_locked(lk_redis *r, lk_redis_claim *data, bool at_once) LK_REDIS_LOCKED;
/* Submit what is due; answers when it wants to be called again. The caller pumps. */
int64_t lk_redis_looks_run_locked(lk_redis *r, int64_t now) LK_REDIS_LOCKED;
