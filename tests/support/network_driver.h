/* network_driver.h: what tests of a driver do with its service, whichever that is. */
#pragma once

#include <locker/locker.h>

#include "test_servers.h"

/** Opens a URI in printf's form and answers what came of it; *l is NULL on failure. */
locker_status lk_try_uri(locker **l, locker_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Kills the only server of `l` while a try and a lock that waits are under way: the try is told at once, the
 * lock goes on when the server is back. */
void lk_check_a_try_under_way(locker *l, lk_server *server);
