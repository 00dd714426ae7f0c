/* shared.c: the instance's mutex, its descriptor, and jitter. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lk_fd.h"
#include "shared.h"

bool lk_redis_shared_init(lk_redis_shared *shared, const locker_services *svc, uint64_t seed)
{
    shared->svc = svc;
    shared->clock = svc->clock;
    shared->jitter = seed | 1;
    shared->epoll_fd = lk_fd_high(epoll_create1(EPOLL_CLOEXEC));
    if (shared->epoll_fd < 0)
        return false;
    const int rc = locker_cond_init(&shared->changed);
    if (rc != 0) {
        close(shared->epoll_fd);
        errno = rc;
        return false;
    }
    lk_mutex_init(&shared->mutex);
    return true;
}

void lk_redis_shared_destroy(lk_redis_shared *shared)
{
    close(shared->epoll_fd);
    pthread_cond_destroy(&shared->changed);
    lk_mutex_destroy(&shared->mutex);
}

void lk_redis_pause(lk_redis_shared *shared, int64_t until)
{
    lk_redis_lock(shared);
    while (lk_redis_now(shared) < until && !shared->closing)
        lk_redis_wait_unlocking(shared, until);
    lk_redis_unlock(shared);
}

/* xorshift64* */
uint64_t lk_redis_random_locked(lk_redis_shared *shared, uint64_t below)
{
    shared->jitter ^= shared->jitter >> 12;
    shared->jitter ^= shared->jitter << 25;
    shared->jitter ^= shared->jitter >> 27;
    return (shared->jitter * UINT64_C(2685821657736338717)) % below;
}
