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

/* Return the system's clock, for connecting before or after an instance exists. */
static inline int64_t lk_redis_system_now(void)
{
    const locker_clock *clock = locker_system_clock();
    return clock->now(clock->context);
}

/* How texts name a server: where its password is given, the scheme of its URIs (with an s behind it for
 * TLS), and how TLS is switched on and off. */
typedef struct {
    const char *name, *password, *scheme, *with_tls, *without_tls;
} lk_redis_service;

typedef struct lk_redis_resolver lk_redis_resolver;

/* Where to connect. Constant from open to close. */
typedef struct lk_redis_target {
    const lk_redis_service *service;
    locker_host *hosts; /* at least one, unless unix_path or sentinels */
    size_t host_count;
    char *unix_path; /* NULL: TCP */
    /* the Sentinels, which name the master for each connection; NULL: the master is among the hosts */
    struct lk_redis_target *sentinels;
    bool cluster;        /* the hosts are some servers of a cluster, which name the others */
    char *master_name;   /* of Sentinels: the name of the master; NULL: these are servers */
    atomic_uint first;   /* of Sentinels: the host to ask first. Relaxed: a hint */
    char *user;          /* NULL: none */
    char *password;      /* NULL: none; wiped when freed */
    char *password_file; /* the file that may have a new password by the next login; NULL: none */
    int64_t database;
    lk_tls_settings tls;
    int64_t connect_timeout_ns, command_timeout_ns;
    lk_redis_resolver *resolver; /* see below */
} lk_redis_target;

/* Why a connection failed. */
typedef struct {
    locker_error error;
    bool permanent; /* the configuration or the server must be changed */
    bool transient; /* the server is starting: try again in a moment */
    bool deserted;  /* nothing listens at any of the hosts */
} lk_redis_failure;

/* ---------------------------------------------------------------- addresses of hosts ----
 * Threads look names up (dial.c), because the system's resolver may take longer than a lease lasts. */

typedef struct {
    socklen_t len; /* 0: there is none */
    struct sockaddr_storage address;
} lk_redis_address;

/* Further addresses of a host are ignored. */
enum { LK_REDIS_ADDRESSES_MAX = 16 };
typedef struct {
    size_t count;
    lk_redis_address list[LK_REDIS_ADDRESSES_MAX];
} lk_redis_addresses;

/* Make the lookups in progress: one for each host, however many threads ask. NULL: no memory. */
lk_redis_resolver *lk_redis_resolver_new(void) LK_UNCHECKED;
/* Drop the lookups. NULL is allowed. Does not wait for a lookup in progress. */
void lk_redis_resolver_drop(lk_redis_resolver *resolver);

/* FAILED: *rc is the result of getaddrinfo(), and errno is set. LATE: there is no answer at `until`. */
typedef enum { LK_REDIS_FOUND, LK_REDIS_FAILED, LK_REDIS_LATE } lk_redis_resolved;
lk_redis_resolved lk_redis_resolve(lk_redis_resolver *resolver, const char *host, int port, int64_t until,
                                   lk_redis_addresses *found, int *rc);
