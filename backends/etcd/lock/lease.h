/* lease.h: leases. None is ever kept alive: before it has run for a third of its time another one is asked for, and all keys are put to
 * that. A server ends a lease by its own clock, counted from when it has heard of it, which is after it was asked for: so a key
 * outlives the moment at which its lease was asked for, plus the lease's time, whichever server believes itself to be the
 * leader. (What a KeepAlive's answer proves is less: backends/etcd/DESIGN.md.) models/etcd.pml has the rule. */
#pragma once

#include "place.h"

/* One that is good for the claim's place (NULL: it has none yet), or will be: with id 0 it has been asked for, and who has a place on
 * it is told when it is there. NULL: no memory. */
lk_etcd_lease *lk_etcd_lease_for_locked(lk_etcd *e, const locker_claim *claim, const lk_etcd_place *place)
    LK_REQUIRES(*e->net);
/* What is on it goes on to another in time. */
void lk_etcd_lease_used_locked(lk_etcd *e, const lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Something that had no answer may come to be on it. */
void lk_etcd_lease_taint_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* It may be known now that nothing that is wanted can be on one that is tainted. */
void lk_etcd_leases_settle_locked(lk_etcd *e) LK_REQUIRES(*e->net);
/* The servers don't know it. */
void lk_etcd_lease_dead_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* The latest of that time; NULL: none. */
lk_etcd_lease *lk_etcd_lease_newest_locked(const lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net);
/* Another one of that time, which is asked for. NULL: no memory. */
lk_etcd_lease *lk_etcd_lease_new_locked(lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net);
/* Ask for it, unless it is there, or that is under way. */
void lk_etcd_lease_ask_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Log why what is held can't be put to another lease: servers have refused to grant that, or the put. */
void lk_etcd_renewal_refused_locked(lk_etcd *e, const lk_etcd_reply *reply) LK_REQUIRES(*e->net);
/* When another one is to follow it. */
int64_t lk_etcd_lease_next(const lk_etcd_lease *lease);
/* Have the servers end it, unless that is under way. */
void lk_etcd_lease_revoke_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
void lk_etcd_lease_free_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* At the end: all are given back. They are freed as their answers come. */
void lk_etcd_leases_revoke_locked(lk_etcd *e) LK_REQUIRES(*e->net);
/* Whether one is left that wasn't. */
bool lk_etcd_leases_left_locked(const lk_etcd *e) LK_REQUIRES(*e->net);
/* With all places that are still on them. The connection has ended. */
void lk_etcd_leases_free(lk_etcd *e);
