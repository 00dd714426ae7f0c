/* hosts.h: the hosts that are configured, and their addresses. Names are resolved when a locker is opened, and again in a thread
 * when the servers may have moved, as who has the driver's mutex can't wait for that. */
#pragma once

#include <sys/socket.h>

#include "lk_error.h"
#include "lk_mutex.h"

typedef struct {
    const char *name; /* or an address */
    const char *text; /* "name:port", an IPv6 address in brackets: for people, and for servers */
    int port;
} lk_host;

typedef struct {
    size_t host; /* whose address it is: an index of lk_hosts.list */
    socklen_t len;
    struct sockaddr_storage address;
} lk_address;

/* In the order of the hosts. */
typedef struct {
    size_t count;
    lk_address list[];
} lk_addresses;

/* While a thread resolves the names, the hosts have two users: this thread and the instance. The last of them frees the hosts. */
typedef struct {
    const char *names; /* the texts of all hosts, with commas; constant, as are `count` and `list` */
    lk_mutex mutex;    /* taken inside the driver's mutex */
    unsigned users LK_GUARDED_BY(mutex);
    const locker_services *svc LK_GUARDED_BY(mutex); /* NULL: the instance has gone */
    bool ready LK_GUARDED_BY(mutex);                 /* the thread has ended; its result was not taken yet */
    lk_addresses *found LK_GUARDED_BY(mutex);
    size_t count;
    lk_host list[]; /* with the texts behind it */
} lk_hosts;

/* A copy of the hosts that are configured, or this one. Nobody else sees it yet. NULL: no memory. */
lk_hosts *lk_hosts_new(const locker_driver_config *config, int default_port) LK_UNCHECKED;
/* NULL is allowed. A thread that resolves has its own use of it: nothing waits for that. */
void lk_hosts_drop(lk_hosts *h);

/* Whether none has to be resolved. */
bool lk_hosts_literal(const lk_hosts *h);

/* Their addresses, malloc'ed; those of a host that has none now are left out. Blocks while names are resolved. UNAVAILABLE: there is
 * none at all; NOMEM. */
locker_status lk_hosts_resolve(const lk_hosts *h, lk_addresses **found, locker_error *err);
/* The same in a thread, which may outlive the instance; core attends then. One at a time. False: no thread. */
bool lk_hosts_lookup_start(lk_hosts *h, const locker_services *svc);
/* Take the result: malloc'ed; NULL: it has failed. False: there is none yet. */
bool lk_hosts_lookup_take(lk_hosts *h, lk_addresses **found);
