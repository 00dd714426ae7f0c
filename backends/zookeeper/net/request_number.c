/* request_number.c: the number that the client library gives the next request. Its own is a variable of the process, which
 * begins at the seconds since 1970 and, 2.5e9 requests later, comes to the numbers -8, -4 and -2. Those are reserved: the
 * library takes the answers for those to its logins, watches and pings, and crashes (ZOOKEEPER-3286). Where the library is
 * an archive, the linker replaces get_xid by this one (cmake/Private.cmake). */
#include "request_number.h"

_Atomic uint32_t lk_zk_last_request;

int32_t __wrap_get_xid(void)
{
    int32_t number;
    do
        number = (int32_t)((atomic_fetch_add_explicit(&lk_zk_last_request, 1, memory_order_relaxed) + 1) &
                           INT32_MAX);
    while (number == 0);
    return number;
}
