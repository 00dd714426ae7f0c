/* reconnect.c: the connecting thread and its back-off. */
#include "reconnect.h"
#include "lk_thread.h"

static const int64_t backoff_least = 50 * LK_MS;
static const int64_t backoff_most = 2 * LK_S;

/* Set the time of the next attempt by exponential back-off with full jitter, so that a thousand clients do
 * not come back at once. */
void lk_redis_reconnect_back_off_locked(lk_redis_reconnect *rc)
{
    int64_t most = backoff_least;
    for (unsigned i = 0; i < rc->failures && most < backoff_most; i++)
        most *= 2;
    rc->failures++;
    rc->retry_at = lk_redis_now(rc->shared) +
                   (int64_t)lk_redis_random_locked(rc->shared, (uint64_t)lk_time_earlier(most, backoff_most));
}

bool lk_redis_reconnect_failed_since_locked(const lk_redis_reconnect *rc, int64_t since)
{
    return rc->failed_at != 0 && rc->failed_at >= since;
}

/* A call that hurries does not wait for the back-off, which would report a server as unreachable that is
 * back already. But attempts are made no more often than the shortest back-off, however many calls hurry. */
int64_t lk_redis_reconnect_hurry_locked(lk_redis_reconnect *rc)
{
    const int64_t since = lk_redis_now(rc->shared) - backoff_least;
    const int64_t soon =
        lk_redis_reconnect_failed_since_locked(rc, since) ? rc->failed_at + backoff_least : 0;
    const bool sooner = soon < rc->retry_at;
    if (sooner)
        rc->retry_at = soon;
    if (sooner || rc->state != LK_REDIS_RUNS)
        lk_redis_reconnect_want_locked(rc);
    return since;
}

static void *run(void *argument)
{
    lk_redis_reconnect *rc = argument;
    lk_redis_shared *shared = rc->shared;
    lk_redis_lock(shared);
    while (!shared->closing && rc->connector->missing(rc->owner)) {
        if (lk_redis_now(shared) < rc->retry_at)
            lk_redis_wait_unlocking(shared, rc->retry_at);
        else
            rc->connector->connect(rc->owner);
    }
    const bool abandoned = rc->state == LK_REDIS_ABANDONED;
    rc->state = LK_REDIS_RETURNS;
    if (!shared->closing)
        shared->svc->attend(shared->svc); /* the keeper writes the log */
    pthread_cond_broadcast(&shared->changed);
    lk_redis_unlock(shared);
    if (abandoned)
        rc->connector->left(rc->owner);
    return NULL;
}

void lk_redis_reconnect_want_locked(lk_redis_reconnect *rc)
{
    if (rc->shared->closing || !rc->connector->missing(rc->owner))
        return;
    if (rc->state == LK_REDIS_RUNS) {
        pthread_cond_broadcast(&rc->shared->changed);
        return;
    }
    if (rc->state == LK_REDIS_RETURNS)
        pthread_join(rc->thread, NULL);
    rc->state = lk_thread_start(&rc->thread, run, rc) == 0 ? LK_REDIS_RUNS : LK_REDIS_NO_THREAD;
}

bool lk_redis_reconnect_stop(lk_redis_reconnect *rc, int64_t until)
{
    lk_redis_shared *shared = rc->shared;
    lk_redis_lock(shared);
    shared->closing = true;
    pthread_cond_broadcast(&shared->changed);
    while (rc->state == LK_REDIS_RUNS && lk_redis_now(shared) < until)
        lk_redis_wait_unlocking(shared, until);
    const lk_redis_thread state = rc->state;
    const pthread_t thread = rc->thread;
    if (state == LK_REDIS_RUNS) /* it resolves a name or connects; when it ends, it frees the instance */
        rc->state = LK_REDIS_ABANDONED;
    lk_redis_unlock(shared);
    if (state == LK_REDIS_RETURNS)
        pthread_join(thread, NULL);
    else if (state == LK_REDIS_RUNS)
        pthread_detach(thread);
    return state != LK_REDIS_RUNS;
}
