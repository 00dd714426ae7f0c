/* resolve.h: the addresses of a host. Names are looked up in threads, because the system's resolver may take far longer than a
 * lease lasts. */
#pragma once

#include <sys/socket.h>

#include "lk_mutex.h"
#include "target.h"

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
