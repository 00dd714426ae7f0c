/* target.h: where to connect to, the addresses of a host, and why a connection failed. */
#pragma once

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lk_atomic.h"
#include "lk_error.h"
#include "lk_mutex.h"
#include "lk_time.h"
#include "tls_settings.h"

enum { LK_REDIS_PEER_MAX = 300 };

/* "host:port", of LK_REDIS_PEER_MAX bytes at most. */
static inline void lk_redis_peer_name(const char *host, int port, char *out)
{
    const bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(out, LK_REDIS_PEER_MAX, "%s%.255s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

/* The system's clock, for what runs before or after an instance: connecting. */
static inline int64_t lk_redis_system_now(void)
{
    const locker_clock *clock = locker_system_clock();
    return clock->now(clock->context);
}

/* What texts call a server, where its password is given, the scheme of its URIs, which has an s behind it for TLS; and what has
 * TLS spoken with it, or not. */
typedef struct {
    const char *name, *password, *scheme, *with_tls, *without_tls;
} lk_redis_service;

typedef struct lk_redis_resolver lk_redis_resolver;

/* Where to connect to. Constant from open to close. */
typedef struct lk_redis_target {
    const lk_redis_service *service;
    locker_host *hosts; /* at least one, unless unix_path or sentinels */
    size_t host_count;
    char *unix_path; /* NULL: TCP */
    /* Those that say where the master is, on each connection anew; NULL: it is among the hosts. */
    struct lk_redis_target *sentinels;
    bool cluster;        /* the hosts are some of a cluster's, which tell of the others */
    char *master_name;   /* of Sentinels: what they call it; NULL: these are servers */
    atomic_uint first;   /* of Sentinels: the host that is asked first; relaxed: a hint */
    char *user;          /* NULL: none */
    char *password;      /* NULL: none; wiped when freed */
    char *password_file; /* where it may stand anew by the next login; NULL: it never does */
    int64_t database;
    lk_tls_settings tls;
    int64_t connect_timeout_ns, command_timeout_ns;
    lk_redis_resolver *resolver; /* resolve.h */
} lk_redis_target;

/* Why a connection could not be had. */
typedef struct {
    locker_error error;
    bool permanent; /* a person has to change something */
    bool transient; /* the server is there and starting: again in a moment */
    bool deserted;  /* nothing listens at any host that was tried */
} lk_redis_failure;

/* ---------------------------------------------------------------- addresses: dial.c looks names up in threads, because the system's resolver may take longer than a lease lasts ---- */

typedef struct {
    socklen_t len; /* 0: there is none */
    struct sockaddr_storage address;
} lk_redis_address;

/* What more a host has is left out. */
enum { LK_REDIS_ADDRESSES_MAX = 16 };
typedef struct {
    size_t count;
    lk_redis_address list[LK_REDIS_ADDRESSES_MAX];
} lk_redis_addresses;

/* Lookups that are under way: one for each host, however many ask. NULL: no memory. */
lk_redis_resolver *lk_redis_resolver_new(void) LK_UNCHECKED;
/* NULL is allowed. Nothing waits for a lookup that is under way. */
void lk_redis_resolver_drop(lk_redis_resolver *resolver);

/* FAILED: *rc is getaddrinfo()'s, and errno what it left behind. LATE: there is no answer at `until`. */
typedef enum { LK_REDIS_FOUND, LK_REDIS_FAILED, LK_REDIS_LATE } lk_redis_resolved;
lk_redis_resolved lk_redis_resolve(lk_redis_resolver *resolver, const char *host, int port, int64_t until,
                                   lk_redis_addresses *found, int *rc);
