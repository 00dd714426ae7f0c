/* reconnect.h: a thread that lives while a connection is missing, and when it tries again. It may block: in resolving a
 * name, in connecting, in waiting for the next try. What is missing, and how it is made, its owner knows. */
#pragma once

#include "shared.h"
#include "socket.h"

/* Called with the mutex. */
typedef struct {
    bool (*missing)(const void *owner);
    void (*connect)(void *owner); /* make what is missing, once; lets go of the mutex meanwhile */
    void (*left)(void *owner);    /* an ABANDONED thread ends now; without the mutex */
} lk_redis_connector;

/* RETURNS: it has nothing left to do, and is to be joined. ABANDONED: stop did not wait for it. */
typedef enum { LK_REDIS_NO_THREAD, LK_REDIS_RUNS, LK_REDIS_RETURNS, LK_REDIS_ABANDONED } lk_redis_thread;

/* Guarded by the mutex. */
typedef struct {
    lk_redis_shared *shared;
    const lk_redis_connector *connector;
    void *owner;
    pthread_t thread LK_GUARDED_BY(mutex);
    lk_redis_thread state LK_GUARDED_BY(mutex);
    int64_t retry_at LK_GUARDED_BY(mutex); /* when it tries again */
    /* When the last attempt at the command connection began, if it failed; else 0. */
    int64_t failed_at LK_GUARDED_BY(mutex);
    unsigned failures LK_GUARDED_BY(mutex);     /* in a row */
    lk_redis_failure last LK_GUARDED_BY(mutex); /* why there is no connection */
} lk_redis_reconnect;

/* Have what is missing connected. */
void lk_redis_reconnect_want_locked(lk_redis_reconnect *rc) LK_REDIS_LOCKED;
void lk_redis_reconnect_back_off_locked(lk_redis_reconnect *rc) LK_REDIS_LOCKED;
/* Whether connecting was last tried in vain, by an attempt that began at `since` or later. */
bool lk_redis_reconnect_failed_since_locked(const lk_redis_reconnect *rc, int64_t since) LK_REDIS_LOCKED;
/* Have it tried again, unless that was done a moment ago. Answers since when an attempt tells. */
int64_t lk_redis_reconnect_hurry_locked(lk_redis_reconnect *rc) LK_REDIS_LOCKED;
/* End the thread, at the latest when `until` has come; true when it has ended. */
bool lk_redis_reconnect_stop(lk_redis_reconnect *rc, int64_t until);
