/* blocking_connect.h: the parts of connecting in which the client library may block. */
#pragma once

#include "net.h"

/* Whether the library would block now. */
bool lk_zk_blocking_due_locked(const lk_zk_net *net, int events) LK_REQUIRES(*net);
/* Have a thread do it, which takes over the driving from the caller until it is done. */
void lk_zk_blocking_begin_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* End one that has taken too long; returns when to look again, or LOCKER_NEVER. */
int64_t lk_zk_blocking_check_locked(lk_zk_net *net, int64_t now) LK_REQUIRES(*net);
/* End one that is under way, and its thread. Releases the mutex meanwhile; nobody else may be using the instance. */
void lk_zk_blocking_stop_unlocking(lk_zk_net *net) LK_REQUIRES(*net);
