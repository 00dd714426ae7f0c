/* resolve.h: names of hosts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <locker/driver.h>

/* A resolution in a thread. */
typedef struct lk_zk_lookup lk_zk_lookup;

/* The hosts as numeric addresses, a comma list as the client library reads it; malloc'ed. Blocks while names are
 * resolved. NULL: none could be, err says why. */
char *lk_zk_resolve(const locker_host *hosts, size_t count, locker_error *err);
bool lk_zk_all_literal(const locker_host *hosts, size_t count);

/* The same in a thread of its own, which outlives the instance if it has to; core is asked to attend when it is done.
 * NULL: it could not be begun. */
lk_zk_lookup *lk_zk_lookup_start(const locker_host *hosts, size_t count, const locker_services *svc);
/* Take the result: malloc'ed; NULL: there is none yet, or it has failed. Drops the lookup when it is done. */
char *lk_zk_lookup_take(lk_zk_lookup **lookup);
void lk_zk_lookup_drop(lk_zk_lookup **lookup);
