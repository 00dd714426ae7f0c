/* session.h: the session, and the client library's handle for it. */
#pragma once

#include "net.h"

/* The servers have moved: those addresses are theirs now. */
void lk_zk_servers_set_locked(lk_zk_net *net, const char *addresses) LK_REQUIRES(*net);
/* Make a client handle when there is none. */
void lk_zk_session_begin_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* End the handle: the session is over, or not wanted any more. */
void lk_zk_session_drop_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* What the driving thread does after each turn: end a session that is over, go on after a reconnection. */
void lk_zk_session_settle_locked(lk_zk_net *net) LK_REQUIRES(*net);
