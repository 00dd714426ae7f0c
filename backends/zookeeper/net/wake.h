/* wake.h: who is to look again. */
#pragma once

#include "net.h"

/* Have whoever drives look again: the connection has changed. */
void lk_zk_kick_locked(lk_zk_net *net) LK_REQUIRES(*net);
