/* calls.h: what the callers that wait are told of the connection, and what they ask of it. */
#pragma once

#include "net.h"

/* Whoever waits for a connection goes on: there is one, or there won't be. */
void lk_zk_calls_go_on_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* An attempt to connect to one of so many servers has failed: nothing listens there, or for another reason. */
void lk_zk_calls_attempt_failed_locked(lk_zk_net *net, bool refused, unsigned servers) LK_REQUIRES(*net);
/* Whether a prompt caller waits for the next attempt: it isn't put off then. */
bool lk_zk_calls_hurried_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* Have one that sleeps drive. False: none does. */
bool lk_zk_calls_drive_locked(const lk_zk_net *net) LK_REQUIRES(*net);
