/* master.h: from what the configuration names to the server that grants locks. */
#pragma once

#include "handshake.h"

/* Log in to a master, following replicas to theirs, or as Sentinels say. Ends at `until`, of which each host and each of its
 * addresses may take an equal part, so that none that hangs hides the others. `scripts`: NULL for a subscription, which needs
 * neither them nor the server's time. `redirect`: where to try first, or "". */
lk_redis_socket *lk_redis_connect_master(const lk_redis_target *t, const char *redirect,
                                         const lk_redis_scripts *scripts, int64_t until,
                                         lk_redis_failure *why);
