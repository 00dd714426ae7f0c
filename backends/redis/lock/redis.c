/*
 * redis.c: the driver's table, and the life of an instance: a command connection that the callers' own
 * threads drive (net/pipeline.c), a subscription made when somebody first waits (messages.c), and a thread
 * only while one of them is missing (net/reconnect.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "internal.h"

static const int64_t loading_again_ns = 50 * LK_MS;

/* xorshift64*: for jitter, not for secrets. */
uint64_t lk_random(struct lk_redis *r, uint64_t below)
{
    r->jitter ^= r->jitter >> 12;
    r->jitter ^= r->jitter << 25;
    r->jitter ^= r->jitter >> 27;
    return below > 0 ? (r->jitter * UINT64_C(2685821657736338717)) % below : 0;
}

static bool make_names(struct lk_redis *r)
{
    uint64_t random[5];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    r->base_high = random[0];
    r->base_low = random[1];
    (void)snprintf(r->instance, sizeof(r->instance), "%016llx%016llx", (unsigned long long)random[2],
                   (unsigned long long)random[3]);
    r->jitter = random[4] | 1;
    atomic_store_explicit(&r->server_ahead_us, INT64_MIN, memory_order_relaxed);
    return true;
}

void lk_redis_free(struct lk_redis *r)
{
    lk_link_free(r->conn.link, false);
    lk_link_free(r->sub.link, false);
    lk_cleanups_free_locked(r);
    lk_ops_free(r);
    free(r->claims.bucket);
    if (r->epoll_fd >= 0)
        close(r->epoll_fd);
    if (r->kick_fd >= 0)
        close(r->kick_fd);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    lk_settings_clear(&r->set);
    free(r);
}

static struct lk_redis *make(const locker_services *svc, locker_error *err)
{
    struct lk_redis *r = calloc(1, sizeof(*r));
    if (r == NULL || pthread_mutex_init(&r->lock, NULL) != 0) {
        free(r);
        locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
        return NULL;
    }
    if (locker_cond_init(&r->changed) != 0) {
        pthread_mutex_destroy(&r->lock);
        free(r);
        locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
        return NULL;
    }
    r->svc = svc;
    r->clock = svc->clock;
    r->conn.last = &r->conn.first;
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->epoll_fd < 0 || r->kick_fd < 0 || !make_names(r)) {
        locker_error_set(err, LOCKER_UNAVAILABLE, errno,
                         "can't make the driver's descriptors: %s; raise the limit on open files (ulimit -n)",
                         strerror(errno));
        lk_redis_free(r);
        return NULL;
    }
    return r;
}

/* The first connection. A server that is loading its data is waited for. */
static locker_status connect_first(struct lk_redis *r, locker_error *err)
{
    const int64_t until = lk_system_now() + r->set.connect_timeout_ns;
    struct lk_connect_error why;
    for (;;) {
        why = (struct lk_connect_error){0};
        struct lk_link *link = lk_connect_master(&r->set, "", r->sha, until, &why);
        if (link != NULL) {
            pthread_mutex_lock(&r->lock);
            lk_conn_install_locked(r, link);
            pthread_mutex_unlock(&r->lock);
            return LOCKER_OK;
        }
        if (!why.transient || lk_system_now() >= until)
            break;
        lk_pause(r, NULL, lk_redis_now(r) + loading_again_ns);
    }
    if (err != NULL)
        *err = why.error;
    return why.error.status;
}

static locker_status redis_open(const locker_driver_config *config, const locker_services *svc, void **self,
                                locker_error *err)
{
    struct lk_redis *r = make(svc, err);
    if (r == NULL)
        return err != NULL ? err->status : LOCKER_NOMEM;
    locker_status status = lk_settings_init(&r->set, config, err);
    if (status == LOCKER_OK)
        status = connect_first(r, err);
    if (status != LOCKER_OK) {
        lk_redis_free(r);
        return status;
    }
    *self = r;
    return LOCKER_OK;
}

/* Drive the connection until the clean-ups are done. */
static void finish_cleanups(struct lk_redis *r, int64_t until)
{
    struct lk_op nobody = {0};
    pthread_mutex_lock(&r->lock);
    while (r->cleanups != NULL && lk_redis_now(r) < until) {
        const int64_t turn = lk_earlier(until, lk_redis_now(r) + loading_again_ns);
        (void)lk_cleanups_run_locked(r, lk_redis_now(r));
        lk_flush_locked(r);
        if (r->conn.state == LK_CONN_UP && r->conn.first != NULL)
            lk_read_turn_locked(r, &nobody, turn);
        else
            r->clock->wait(r->clock->context, &r->changed, &r->lock, turn);
    }
    pthread_mutex_unlock(&r->lock);
}

static void redis_close(void *self)
{
    struct lk_redis *r = self;
    const int64_t until = lk_after(lk_redis_now(r), r->set.cleanup_ns);
    finish_cleanups(r, until);
    lk_note_write(r);
    if (lk_connector_stop(r, until))
        lk_redis_free(r);
}

static void redis_abandon(void *self)
{
    const struct lk_redis *r = self;
    if (r->conn.link != NULL)
        close(r->conn.link->fd);
    if (r->sub.link != NULL)
        close(r->sub.link->fd);
    close(r->epoll_fd);
    close(r->kick_fd);
}

static int redis_descriptor(void *self)
{
    const struct lk_redis *r = self;
    return r->epoll_fd;
}

static const locker_semantics semantics = {
    .driver = "redis",
    .scope = LOCKER_SCOPE_NETWORK,
    .fairness = LOCKER_FAIR_LOCAL,
    .leases = true,
    .tokens_persist = true,
    .survives_restart = true,
    .can_break = true,
    .quorum = false,
    .holder_dies = "Its lock ends with its lease, within the TTL.",
    .holder_stalls =
        "Beyond its TTL it loses the lock, which another may take; it is LOST as soon as it goes on. What it "
        "was about to write it may still write: with a fencing token that is out of date.",
    .cut_off =
        "The holder keeps the lock until its local deadline, then it is LOST; the server frees it a little "
        "later, when the TTL ends.",
    .service_restarts =
        "Locks last if Redis keeps its data (appendonly, fsync always); restarted empty it has "
        "forgotten them, and holders are told LOST at their next renewal.",
    .failover =
        "Replication is asynchronous: a replica made master may lack the last grants, so two may hold a lock "
        "until the first is told; wait_replicas makes it rarer, fencing tokens make it harmless.",
    .token = "Grows from grant to grant of a key; only a failover or a loss of all data together with a "
             "server clock set back can repeat one. 0 with fencing=off.",
    .cost = "One round trip to lock and one to unlock; a waiter is sent one message; renewals of all locks "
            "travel together.",
};

static const char *const schemes[] = {"redis", "rediss", "redis+unix", NULL};

extern const locker_driver lk_redis_driver;

const locker_driver lk_redis_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .name = "redis",
    .schemes = schemes,
    .example = "redis://127.0.0.1:6379/0?ttl=30s",
#ifdef LOCKER_REDIS_TLS
    .features = "TLS needs tls_ca; a certificate is checked against it, its name is not",
#else
    .features = "no TLS (rediss://): hiredis 1.0 or later with hiredis_ssl is needed",
#endif
    .caps = LOCKER_CAP_LEASES | LOCKER_CAP_BREAK | LOCKER_CAP_AUTH,
    .claim_size = sizeof(struct lk_claim_data),
    .ttl_min_ms = 50,
    .ttl_max_ms = INT64_C(7) * 24 * 3600 * 1000,
    .params = lk_redis_params,
    .semantics = &semantics,
    .open = redis_open,
    .close = redis_close,
    .abandon = redis_abandon,
    .check_key = lk_redis_check_key,
    .acquire = lk_redis_acquire,
    .interrupt = lk_redis_interrupt,
    .withdraw = lk_redis_withdraw,
    .release = lk_redis_release,
    .pass = lk_redis_pass,
    .renew = lk_redis_renew,
    .descriptor = redis_descriptor,
    .dispatch = lk_redis_dispatch,
    .show = lk_redis_show,
    .break_lock = lk_redis_break,
    .ping = lk_redis_ping,
};
