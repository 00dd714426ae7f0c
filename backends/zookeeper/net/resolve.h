/* resolve.h: the hosts' addresses, as the client library takes them. */
#pragma once

#include "hosts.h"

/* Their numeric addresses, a comma list as the client library reads it; malloc'ed. Blocks while names are resolved. */
locker_status lk_zk_resolve(const lk_hosts *h, char **addresses, locker_error *err);
/* What lk_hosts_lookup_start() has found, likewise; NULL: it has failed. False: there is none yet. */
bool lk_zk_lookup_take(lk_hosts *h, char **addresses);
unsigned lk_zk_address_count(const char *addresses);
