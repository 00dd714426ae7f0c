/* watch.h: the end of all watches. */
#pragma once

#include "net.h"

/* After the handle was closed. */
void lk_zk_watches_free_locked(lk_zk_net *net) LK_REQUIRES(*net);
