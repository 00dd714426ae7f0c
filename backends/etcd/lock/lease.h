/* lease.h: leases. None is ever kept alive: before it has run for a third of its time another one is asked for, and all keys are put to
 * that. A server ends a lease by its own clock, counted from when it has heard of it, which is after it was asked for: so a key
 * outlives the moment at which its lease was asked for, plus the lease's time, whichever server believes itself to be the
 * leader. (What a KeepAlive's answer proves is less: ARCHITECTURE.md, etcd.) models/etcd.pml has the rule. */
#pragma once

#include "place.h"

struct lk_etcd_lease {
    lk_list link;    /* in lk_etcd.leases */
    lk_list places;  /* on it */
    int64_t ttl_ns;  /* what was asked for, but for a part of a second; the servers may have given more */
    int64_t id;      /* 0: it has not been granted yet */
    int64_t sent;    /* when it was asked for */
    bool asking;     /* its request is under way */
    bool dead;       /* the servers don't know it, or won't soon */
    bool tainted;    /* a key may come to be on it of which nobody wants to know: it is revoked once nothing else can be on it */
    bool doomed;     /* it was asked to be revoked, which may be done at any time from then on: no key is put to it */
    bool revoking;   /* that is under way */
    unsigned requests; /* that refer to it */
};

/* One that is good for a new place, or will be: with id 0 it has been asked for, and who has a place on it is told when it is there.
 * NULL: no memory. */
lk_etcd_lease *lk_etcd_lease_for_locked(lk_etcd *e, int64_t ttl_ns) LK_REQUIRES(*e->net);
/* Until when a claim has what is on it. */
int64_t lk_etcd_lease_until(const lk_etcd_lease *lease);
/* What is on it goes on to another in time. */
void lk_etcd_lease_used_locked(lk_etcd *e, const lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Something that had no answer may come to be on it. */
void lk_etcd_lease_taint_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* It may be known now that nothing that is wanted can be on one that is tainted. */
void lk_etcd_leases_settle_locked(lk_etcd *e) LK_REQUIRES(*e->net);
/* The servers don't know it. */
void lk_etcd_lease_dead_locked(lk_etcd *e, lk_etcd_lease *lease) LK_REQUIRES(*e->net);
/* Nothing moves to another lease before its time. Returns when it wants to be called. */
int64_t lk_etcd_leases_look_after_locked(lk_etcd *e, int64_t now) LK_REQUIRES(*e->net);
/* At the end: all are given back. They are freed as their answers come. */
void lk_etcd_leases_revoke_locked(lk_etcd *e) LK_REQUIRES(*e->net);
/* Whether one is left that wasn't. */
bool lk_etcd_leases_left_locked(const lk_etcd *e) LK_REQUIRES(*e->net);
/* With all places that are still on them. The connection has ended. */
void lk_etcd_leases_free(lk_etcd *e);
