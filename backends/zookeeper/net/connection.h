/* connection.h: whether there is a connection, with which server, and who waits for one. */
#pragma once

#include "net.h"

/* The library told that the session is in this state. */
void lk_zk_session_event_locked(lk_zk_net *net, int state) LK_REQUIRES(*net);
/* The connection is lost. */
void lk_zk_went_down_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* An attempt to connect has failed: nothing listens there, or for another reason. */
void lk_zk_attempt_failed_locked(lk_zk_net *net, bool refused) LK_REQUIRES(*net);
/* How long a server has for its part of connecting, before another attempt is made. LOCKER_NEVER: as long as the client
 * library gives it. */
int64_t lk_zk_patience_locked(const lk_zk_net *net, int64_t now) LK_REQUIRES(*net);

/* Whoever waits for a connection goes on: there is one, or there won't be. */
void lk_zk_calls_go_on_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Whether a prompt caller waits for the next attempt: it isn't put off then. */
bool lk_zk_calls_hurried_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* Have a caller that sleeps drive. False: none does. */
bool lk_zk_calls_drive_locked(const lk_zk_net *net) LK_REQUIRES(*net);
