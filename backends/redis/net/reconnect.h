/* reconnect.h: a thread that exists while a connection is missing, and tries to make it. The thread may
 * block: when it resolves a name, connects, or waits for the next attempt. Its owner knows what is missing
 * and how to make it. */
#pragma once

#include "shared.h"
#include "socket.h"

/* The owner's functions, called with the mutex. */
typedef struct {
    bool (*missing)(const void *owner);
    void (*connect)(void *owner); /* Try once to make what is missing. Releases the mutex meanwhile. */
    void (*left)(void *owner);    /* An ABANDONED thread ends. Called without the mutex. */
} lk_redis_connector;

/* RETURNS: the thread has nothing left to do, and is to be joined. ABANDONED: stop did not wait for it. */
typedef enum { LK_REDIS_NO_THREAD, LK_REDIS_RUNS, LK_REDIS_RETURNS, LK_REDIS_ABANDONED } lk_redis_thread;

/* Guarded by the mutex. */
typedef struct {
    lk_redis_shared *shared;
    const lk_redis_connector *connector;
    void *owner;
    pthread_t thread LK_GUARDED_BY(mutex);
    lk_redis_thread state LK_GUARDED_BY(mutex);
    int64_t retry_at LK_GUARDED_BY(mutex); /* when the next attempt is made */
    /* when the latest attempt at the command connection began, if it failed; else 0 */
    int64_t failed_at LK_GUARDED_BY(mutex);
    unsigned failures LK_GUARDED_BY(mutex);     /* failures in a row */
    lk_redis_failure last LK_GUARDED_BY(mutex); /* why there is no connection */
} lk_redis_reconnect;

/* Have the thread make what is missing. */
void lk_redis_reconnect_want_locked(lk_redis_reconnect *rc) LK_REDIS_LOCKED;
void lk_redis_reconnect_back_off_locked(lk_redis_reconnect *rc) LK_REDIS_LOCKED;
/* Return true if the latest attempt failed, and began at `since` or later. */
bool lk_redis_reconnect_failed_since_locked(const lk_redis_reconnect *rc, int64_t since) LK_REDIS_LOCKED;
/* Have an attempt made now, unless one was made a moment ago. Return from which time on an attempt's
 * failure counts for the caller. */
int64_t lk_redis_reconnect_hurry_locked(lk_redis_reconnect *rc) LK_REDIS_LOCKED;
/* End the thread until `until` at the latest. Return true if it has ended. */
bool lk_redis_reconnect_stop(lk_redis_reconnect *rc, int64_t until);
