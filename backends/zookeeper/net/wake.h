/* wake.h: who is to look again. */
#ifndef LK_ZK_WAKE_H
#define LK_ZK_WAKE_H

#include "net.h"

/* Have whoever drives look again: the connection has changed. */
void lk_zk_kick_locked(lk_zk_net *net) LK_REQUIRES(*net);

#endif
