/* request_number.h: the number of each request to a ZooKeeper server; of the process, for all lockers. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* The last one that was given, modulo 2^31. Tests set it. */
extern _Atomic uint32_t lk_zk_last_request;

/* Return 1 to INT32_MAX, each followed by the next, and the last by the first. Called by the client library, in which the
 * linker gives get_xid this name. */
int32_t __wrap_get_xid(void);
