/* renew.h: what is held or waited for goes from one lease to the next, in time. */
#pragma once

#include "place.h"

/* Ask for leases that are to follow, put keys to them, and end those that nothing is on. Returns when it wants to be called. */
int64_t lk_etcd_leases_look_after_locked(lk_etcd *e, int64_t now) LK_REQUIRES(*e->net);
