/* resolve.c: see resolve.h. */
#include <stdlib.h>

#include "lk_resolve.h"
#include "lk_thread.h"
#include "resolve.h"

/* The instance uses it, and each thread; the last frees it. */
struct lk_redis_resolver {
    lk_mutex mutex;
    pthread_cond_t changed; /* a lookup has ended */
    unsigned users LK_GUARDED_BY(mutex);
    struct lookup *first LK_GUARDED_BY(mutex);
};

/* In the resolver's list until the last that waits has taken the answer; where nobody waits, until the thread ends. */
struct lookup {
    lk_redis_resolver *of;
    struct lookup *next LK_GUARDED_BY(mutex);
    pthread_t thread LK_GUARDED_BY(mutex);
    unsigned waiters LK_GUARDED_BY(mutex);
    bool done LK_GUARDED_BY(mutex);
    int rc, error;
    lk_redis_addresses found;
    int port;
    char host[LK_REDIS_PEER_MAX];
};

lk_redis_resolver *lk_redis_resolver_new(void)
{
    lk_redis_resolver *const resolver = calloc(1, sizeof *resolver);
    if (resolver == NULL || locker_cond_init(&resolver->changed) != 0) {
        free(resolver);
        return NULL;
    }
    lk_mutex_init(&resolver->mutex);
    resolver->users = 1;
    return resolver;
}

static void leave(lk_redis_resolver *resolver) LK_RELEASE(resolver->mutex)
{
    const bool last = --resolver->users == 0;
    lk_mutex_unlock(&resolver->mutex);
    if (!last)
        return;
    lk_mutex_destroy(&resolver->mutex);
    pthread_cond_destroy(&resolver->changed);
    free(resolver);
}

void lk_redis_resolver_drop(lk_redis_resolver *resolver)
{
    if (resolver == NULL)
        return;
    lk_mutex_lock(&resolver->mutex);
    leave(resolver);
}

static void take_all(const struct addrinfo *from, lk_redis_addresses *found)
{
    found->count = 0;
    for (const struct addrinfo *a = from; a != NULL && found->count < LK_REDIS_ADDRESSES_MAX;
         a = a->ai_next) {
        lk_redis_address *const to = &found->list[found->count++];
        *to = (lk_redis_address){.len = a->ai_addrlen};
        memcpy(&to->address, a->ai_addr, a->ai_addrlen);
    }
}

/* Blocks for as long as the system does. */
static int look_up(const char *host, int port, lk_redis_addresses *found)
{
    int rc;
    struct addrinfo *const list = lk_resolve(host, port, &rc);
    if (list == NULL)
        return rc;
    take_all(list, found);
    freeaddrinfo(list);
    return 0;
}

static void unlink_locked(lk_redis_resolver *resolver, const struct lookup *lookup)
    LK_REQUIRES(resolver->mutex)
{
    struct lookup **at = &resolver->first;
    while (*at != lookup)
        at = &(*at)->next;
    *at = lookup->next;
}

static void *run(void *argument)
{
    struct lookup *const lookup = argument;
    lk_redis_resolver *const resolver = lookup->of;
    lookup->rc = look_up(lookup->host, lookup->port, &lookup->found);
    lookup->error = errno;
    lk_mutex_lock(&resolver->mutex);
    lookup->done = true;
    if (lookup->waiters > 0) {
        pthread_cond_broadcast(&resolver->changed);
    } else {
        unlink_locked(resolver, lookup);
        pthread_detach(lookup->thread);
        free(lookup);
    }
    leave(resolver);
    return NULL;
}

/* One that is under way, or a new one. NULL: no memory, or no thread. */
static struct lookup *lookup_locked(lk_redis_resolver *resolver, const char *host, int port)
    LK_REQUIRES(resolver->mutex)
{
    for (struct lookup *l = resolver->first; l != NULL; l = l->next)
        if (l->port == port && strcmp(l->host, host) == 0)
            return l;
    struct lookup *const lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL)
        return NULL;
    lookup->of = resolver;
    lookup->port = port;
    (void)snprintf(lookup->host, sizeof lookup->host, "%s", host);
    if (lk_thread_start(&lookup->thread, run, lookup) != 0) {
        free(lookup);
        return NULL;
    }
    lookup->next = resolver->first;
    resolver->first = lookup;
    resolver->users++;
    return lookup;
}

/* Wait for the answer, and take it; the last that waits ends the lookup. Lets go of the mutex. */
static lk_redis_resolved await_unlock(lk_redis_resolver *resolver, struct lookup *lookup, int64_t until,
                                      lk_redis_addresses *found, int *rc) LK_RELEASE(resolver->mutex)
{
    const locker_clock *const clock = locker_system_clock();
    lookup->waiters++;
    while (!lookup->done && lk_redis_system_now() < until)
        clock->wait(clock->context, &resolver->changed, &resolver->mutex.plain, until);
    const bool done = lookup->done;
    const int error = done ? lookup->error : 0;
    const pthread_t thread = lookup->thread;
    if (done) {
        *rc = lookup->rc;
        *found = lookup->found;
    }
    const bool last = --lookup->waiters == 0 && done;
    if (last)
        unlink_locked(resolver, lookup);
    lk_mutex_unlock(&resolver->mutex);
    if (last) {
        pthread_join(thread, NULL);
        free(lookup);
    }
    errno = error;
    if (!done)
        return LK_REDIS_LATE;
    return *rc == 0 ? LK_REDIS_FOUND : LK_REDIS_FAILED;
}

lk_redis_resolved lk_redis_resolve(lk_redis_resolver *resolver, const char *host, int port, int64_t until,
                                   lk_redis_addresses *found, int *rc)
{
    struct addrinfo *const literal = lk_resolve_literal(host, port);
    if (literal != NULL) {
        take_all(literal, found);
        freeaddrinfo(literal);
        return LK_REDIS_FOUND;
    }
    lk_mutex_lock(&resolver->mutex);
    struct lookup *const lookup = lookup_locked(resolver, host, port);
    if (lookup != NULL)
        return await_unlock(resolver, lookup, until, found, rc);
    lk_mutex_unlock(&resolver->mutex);
    *rc = look_up(host, port, found);
    return *rc == 0 ? LK_REDIS_FOUND : LK_REDIS_FAILED;
}
