/* watch.h: the end of all watches. */
#ifndef LK_ZK_WATCH_H
#define LK_ZK_WATCH_H

#include "net.h"

/* After the handle was closed. */
void lk_zk_watches_free_locked(lk_zk_net *net) LK_REQUIRES(*net);

#endif
