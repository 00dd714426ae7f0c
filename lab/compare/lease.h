/* lease.h: how long a service may keep a lock for a holder that is gone, worked out from what a grant tells. */
#pragma once

#include <stdint.h>

/* The lease in ns, of a lock that was asked for at `sent` and is valid until `until` (0: it has no lease). A
 * service may grant longer ones than asked for (ZooKeeper has a shortest session), and the deadline of a
 * lock that is taken on a new connection is at least three quarters of it. */
static inline int64_t lk_lease_ns(int64_t sent, int64_t until, int64_t ttl_ms)
{
    const int64_t told = (until - sent) / 3 * 4, asked = ttl_ms * 1000000;
    if (until == 0)
        return 0;
    return told > asked / 3 * 4 + 50000000 ? told : asked;
}
