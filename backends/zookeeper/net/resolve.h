/* resolve.h: the hosts, and their addresses. */
#pragma once

#include "lk_error.h"
#include "lk_mutex.h"

typedef struct lk_zk_hosts lk_zk_hosts;

/* A copy of the hosts that are configured, with their ports; and, for as long, a text of them for people. NULL: no memory.
 * Nobody else sees it yet. */
lk_zk_hosts *lk_zk_hosts_new(const locker_driver_config *config, const char **names) LK_UNCHECKED;
/* NULL is allowed. */
void lk_zk_hosts_drop(lk_zk_hosts *h);
/* Whether none has to be resolved. */
bool lk_zk_hosts_literal(const lk_zk_hosts *h);

/* Their numeric addresses, a comma list as the client library reads it; malloc'ed. Blocks while names are resolved. */
locker_status lk_zk_resolve(const lk_zk_hosts *h, char **addresses, locker_error *err);
/* The same in a thread, which may outlive the instance; core attends then. One at a time. False: no thread. */
bool lk_zk_lookup_start(lk_zk_hosts *h, const locker_services *svc);
/* Take the result: malloc'ed; NULL: it has failed. False: there is none yet. */
bool lk_zk_lookup_take(lk_zk_hosts *h, char **addresses);
unsigned lk_zk_address_count(const char *addresses);
