/* shared.h: what all parts of an instance share: its mutex, the clock and core's services, the descriptor that core
 * waits for.
 *
 * The one mutex guards all that changes; the only locks inside it are core's (the services) and a socket's TLS mutex.
 * It is never held across a system call that can wait. */
#pragma once

#include <lk_atomic.h>
#include <lk_mutex.h>
#include <lk_time.h>
#include <locker/driver.h>

/* An instance's mutex to the compiler, however a part reaches it: no such object is. */
extern lk_mutex lk_redis_mutex;

/* The caller holds it. A function whose name ends in _unlocking lets go of it meanwhile. */
#define LK_REDIS_LOCKED LK_REQUIRES(lk_redis_mutex)

typedef struct {
    const locker_services *svc; /* gone after close, which the thread that connects again may outlive */
    const locker_clock *clock;
    int epoll_fd; /* the driver's descriptor: connection, subscription */
    lk_mutex mutex;
    pthread_cond_t changed; /* a connection is up, a thread has ended, a claim was interrupted, closing */
    bool closing LK_GUARDED_BY(mutex);
    bool dispatching LK_GUARDED_BY(mutex); /* inside dispatch, which will see what is due when */
    uint64_t jitter LK_GUARDED_BY(mutex);  /* state of a small generator; not 0 */
    unsigned eras LK_GUARDED_BY(mutex);    /* how many servers there were: none has the number of another */
    /* Of a cluster: counts what has become known of its slots, from 1. Release/acquire hands over where they are. */
    atomic_uint maps;
    /* How often a server's clock has gained more than leases allowed for. A lease whose request was sent before that, and answered
     * after it, may be from before it: of whichever server, as a request may be answered by another one than it was sent to. Relaxed. */
    atomic_uint leaps;
} lk_redis_shared;

/* `seed`: random bits. False: errno says why; nothing is left to be destroyed. Nobody else sees it yet. */
bool lk_redis_shared_init(lk_redis_shared *shared, const locker_services *svc, uint64_t seed) LK_UNCHECKED;
void lk_redis_shared_destroy(lk_redis_shared *shared);

static inline void lk_redis_lock(lk_redis_shared *shared) LK_ACQUIRE(lk_redis_mutex) LK_UNCHECKED
{
    lk_mutex_lock(&shared->mutex);
}

static inline void lk_redis_unlock(lk_redis_shared *shared) LK_RELEASE(lk_redis_mutex) LK_UNCHECKED
{
    lk_mutex_unlock(&shared->mutex);
}

static inline int64_t lk_redis_now(const lk_redis_shared *shared)
{
    return shared->clock->now(shared->clock->context);
}

/* Wait for `changed`, until `until` at most. Lets go of the mutex meanwhile. */
static inline void lk_redis_wait_unlocking(lk_redis_shared *shared, int64_t until) LK_REDIS_LOCKED
{
    shared->clock->wait(shared->clock->context, &shared->changed, &shared->mutex.plain, until);
}

/* Wait until `until`; less when the instance closes. Called without the mutex. */
void lk_redis_pause(lk_redis_shared *shared, int64_t until);

/* Below `below`, which is not 0; for jitter, not for secrets. */
uint64_t lk_redis_random_locked(lk_redis_shared *shared, uint64_t below) LK_REDIS_LOCKED;
