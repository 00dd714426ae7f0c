/* state.h: what makes up the floor; for call.c and net.c. */
#pragma once

#include <stdatomic.h>

#include "handshake.h"
#include "owner.h"
#include "pipeline.h"
#include "reconnect.h"
#include "subscription.h"

enum { LK_REDIS_OLD_CONNECTIONS = 8 };

/* Guarded by the mutex, unless they say otherwise. */
struct lk_redis_net {
    lk_redis_shared *shared;
    const lk_redis_target *target; /* constant, as the next three */
    const lk_redis_owner *events;
    void *owner;
    lk_redis_scripts scripts; /* without hash: for connecting again */
    lk_redis_reconnect reconnect;
    lk_redis_pipeline pipeline;
    lk_redis_subscription subscription;
    /* The server's names of connections to this run of it that were given up, and may not have ended there; 0: it has. */
    int64_t old[LK_REDIS_OLD_CONNECTIONS] LK_GUARDED_BY(mutex);
    size_t old_count LK_GUARDED_BY(mutex);
    lk_redis_server server LK_GUARDED_BY(mutex); /* that we are, or were last connected to */
    int64_t server_us LK_GUARDED_BY(mutex);      /* its time when the connection was made; 0: not known */
    bool was_lost LK_GUARDED_BY(mutex);
    char redirect[LK_REDIS_PEER_MAX] LK_GUARDED_BY(mutex); /* where the master is said to be; "": not known */
    atomic_uint connection; /* written with the mutex; release/acquire hands over what on_up did */
    atomic_uint era;        /* written with the mutex; relaxed (net.h says why) */
};
