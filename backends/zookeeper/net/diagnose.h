/* diagnose.h: why a server does not serve us, as far as a connection beside can tell. */
#pragma once

#include "lk_error.h"

/* Ask each of the numeric addresses (a comma list) what listens there, and fill the error with what was found first of: it is
 * full, it is no ZooKeeper server, it is one that serves nobody, it is silent, it can't be reached. Takes up to 0.6 s, and
 * waits without a lock. by_tls: what is asked in plain words is left out. */
locker_status lk_zk_diagnose(const locker_clock *clock, const char *addresses, bool by_tls,
                             locker_error *err);
