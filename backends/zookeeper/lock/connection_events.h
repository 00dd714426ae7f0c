/* connection_events.h: what the connection tells. */
#pragma once

#include "instance.h"

extern const lk_zk_owner lk_zk_connection_events;

/* Take up again what stands still: after a reconnection, or after a server that was too busy. */
void lk_zk_resume_locked(lk_zk *z) LK_REQUIRES(*z->net);
