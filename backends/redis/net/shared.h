/* shared.h: what all parts of an instance share: the mutex, the clock, core's services, and the descriptor
 * for which core waits.
 *
 * The one mutex guards all that changes. Only core's locks (in the services) and a socket's TLS mutex are
 * taken inside it. No thread holds it across a system call that can wait. */
#pragma once

#include <lk_atomic.h>
#include <lk_mutex.h>
#include <lk_time.h>
#include <locker/driver.h>

/* The name of an instance's mutex for the compiler's analysis, however a part reaches it. No such object
 * exists. */
extern lk_mutex lk_redis_mutex;

/* The caller holds the mutex. A function whose name ends in _unlocking releases it for a while. */
#define LK_REDIS_LOCKED LK_REQUIRES(lk_redis_mutex)

typedef struct {
    const locker_services *svc; /* gone after close; the connecting thread may live longer */
    const locker_clock *clock;
    int epoll_fd; /* the driver's descriptor: it contains the connections */
    lk_mutex mutex;
    pthread_cond_t
        changed; /* signaled when a connection is up, a thread has ended, a claim is interrupted, or the instance closes */
    bool closing LK_GUARDED_BY(mutex);
    bool dispatching LK_GUARDED_BY(mutex); /* a thread is inside dispatch, which looks at all that is due */
    uint64_t jitter LK_GUARDED_BY(mutex);  /* the state of a small random generator; not 0 */
    unsigned eras LK_GUARDED_BY(mutex);    /* counts servers, so that no two have the same number */
    /* of a cluster: counts maps of slots, from 1. Release/acquire hands over the map */
    atomic_uint maps;
    /* how often a server's clock has gained more time than leases allow for. A lease that was requested
     * before, and answered after, such a gain may be from before it, whichever server answered. Relaxed */
    atomic_uint leaps;
} lk_redis_shared;

/* Initialize. `seed`: random bits. False: errno says why, and nothing is left to be destroyed. No other
 * thread sees the object yet. */
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

/* Wait for `changed`, until `until` at most. Releases the mutex meanwhile. */
static inline void lk_redis_wait_unlocking(lk_redis_shared *shared, int64_t until) LK_REDIS_LOCKED
{
    shared->clock->wait(shared->clock->context, &shared->changed, &shared->mutex.plain, until);
}

/* Wait until `until`, or until the instance closes. Called without the mutex. */
void lk_redis_pause(lk_redis_shared *shared, int64_t until);

/* Return a random number below `below`, which is not 0. For jitter, not for secrets. */
uint64_t lk_redis_random_locked(lk_redis_shared *shared, uint64_t below) LK_REDIS_LOCKED;
