/* hosts.h: the hosts that are configured, and their addresses. Names are resolved when a locker is opened, and again in a thread
 * when the servers may have moved, as who has the driver's mutex can't wait for that. */
#pragma once

#include <sys/socket.h>

#include "lk_error.h"
#include "lk_mutex.h"

typedef struct lk_hosts lk_hosts;

typedef struct {
    const char *name; /* or an address */
    const char *text; /* "name:port", an IPv6 address in brackets: for people, and for servers */
    int port;
} lk_host;

typedef struct {
    size_t host; /* whose it is: lk_hosts_at() */
    socklen_t len;
    struct sockaddr_storage address;
} lk_address;

/* In the order of the hosts. */
typedef struct {
    size_t count;
    lk_address list[];
} lk_addresses;

/* A copy of the hosts that are configured, or this one. Nobody else sees it yet. NULL: no memory. */
lk_hosts *lk_hosts_new(const locker_driver_config *config, int default_port) LK_UNCHECKED;
/* NULL is allowed. A thread that resolves has its own use of it: nothing waits for that. */
void lk_hosts_drop(lk_hosts *h);

size_t lk_hosts_count(const lk_hosts *h);
const lk_host *lk_hosts_at(const lk_hosts *h, size_t index);
/* The texts of all, with commas. */
const char *lk_hosts_names(const lk_hosts *h);
/* Whether none has to be resolved. */
bool lk_hosts_literal(const lk_hosts *h);

/* Their addresses, malloc'ed; those of a host that has none now are left out. Blocks while names are resolved. UNAVAILABLE: there is
 * none at all; NOMEM. */
locker_status lk_hosts_resolve(const lk_hosts *h, lk_addresses **found, locker_error *err);
/* The same in a thread, which may outlive the instance; core attends then. One at a time. False: no thread. */
bool lk_hosts_lookup_start(lk_hosts *h, const locker_services *svc);
/* Take the result: malloc'ed; NULL: it has failed. False: there is none yet. */
bool lk_hosts_lookup_take(lk_hosts *h, lk_addresses **found);
