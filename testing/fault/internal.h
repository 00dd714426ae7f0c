/* internal.h: the fault driver: it stands before another driver, does what that one does, and lets its script
 * decide when something goes wrong.
 *
 *   table.c     the table of a driver with faults before it; opening, closing
 *   ops.c       the operations; flight.c asks the script about each
 *   renew.c     renewals and what else the other driver tells core; delayed answers
 *   thief.c     locks taken away behind their holders' backs
 *   control.c   the functions of fault.h
 *
 * A claim's bytes are the other driver's, with ours behind them, so both work on core's own claim.
 *
 * lk_fault_instance.mutex guards all that changes. Lock order: the other driver's locks,
 * lk_fault_instance.mutex, core's. The other driver is never called with the mutex held. */
#pragma once

#include <locker/fault.h>
#include <locker/instrument.h>

#include "lk_mutex.h"
#include "lk_time.h"
#include "script.h"

/** The prefix of the scheme, with its plus. */
#define LK_FAULT_PREFIX "fault+"

typedef struct lk_fault_place lk_fault_place;
typedef struct lk_fault_theft lk_fault_theft;

/** An instance. */
typedef struct {
    locker_services services; /* what the other driver is given; first member */
    /* constant */
    const locker_services *core;
    const locker_driver *inner;
    void *self; /* the other driver's instance */
    int64_t patience_ns;

    lk_mutex mutex;
    pthread_cond_t changed; /* a sleep was interrupted */
    pthread_cond_t robbing; /* a theft, or the end */
    lk_script *script LK_GUARDED_BY(mutex);
    int64_t acted LK_GUARDED_BY(mutex);           /* operations that a fault acted on */
    bool cut LK_GUARDED_BY(mutex);                /* by a fault */
    bool out_of_reach LK_GUARDED_BY(mutex);       /* the other driver says so */
    lk_fault_place *delayed LK_GUARDED_BY(mutex); /* extensions to be told later */
    lk_fault_theft *thefts LK_GUARDED_BY(mutex);  /* for the thief */
    bool thief_runs LK_GUARDED_BY(mutex);
    bool stop LK_GUARDED_BY(mutex);
    pthread_t thief LK_GUARDED_BY(mutex);
} lk_fault_instance;

/** Our bytes of a claim. */
struct lk_fault_place {
    locker_claim *claim LK_GUARDED_BY(mutex);  /* while it is in `delayed` */
    lk_fault_place *next LK_GUARDED_BY(mutex); /* likewise */
    int64_t tell_at LK_GUARDED_BY(mutex);
    int64_t until LK_GUARDED_BY(mutex);
    bool seen; /* the other driver has the claim. Of the claim's own operations alone */
    bool hidden LK_GUARDED_BY(mutex);          /* it granted, and the answer was lost */
    bool inside LK_GUARDED_BY(mutex);          /* it may be in the other driver's acquire */
    bool interrupted LK_GUARDED_BY(mutex);     /* since the attempt began, or before it */
    bool ending LK_GUARDED_BY(mutex);          /* it is being given back: nothing is told any more */
    locker_fault renewal LK_GUARDED_BY(mutex); /* what the last renewal that was sent suffers */
};

/** One operation on its way. */
typedef struct {
    locker_fault fault; /* zero: nothing goes wrong */
    int64_t asked;
    bool hit;
    bool arrives;          /* the other driver hears of it and does it */
    bool silent;           /* no answer comes */
    bool late;             /* none came in time */
    locker_status refusal; /* when it doesn't arrive, and isn't silent */
} lk_fault_flight;

static inline lk_fault_place *lk_fault_place_of(const lk_fault_instance *f, const locker_claim *claim)
{
    return (lk_fault_place *)(void *)((char *)claim->data + ((f->inner->claim_size + 15) & ~(size_t)15));
}

static inline int64_t lk_fault_now(const lk_fault_instance *f)
{
    return f->core->clock->now(f->core->clock->context);
}

/* ---- flight.c */
/** Show an operation to the script. */
lk_fault_flight lk_fault_take_off_locked(lk_fault_instance *f, locker_op op, const char *key)
    LK_REQUIRES(f->mutex);

/* ---- ops.c */
void lk_fault_fill(locker_driver *table);

/* ---- renew.c */
extern const locker_services lk_fault_services;
void lk_fault_renew(void *self, locker_claim *const *grants, size_t count);
int64_t lk_fault_dispatch(void *self);
/** Tell nothing of this claim any more. */
void lk_fault_hush(lk_fault_instance *f, locker_claim *claim);

/* ---- thief.c */
/** Break the lock now. May block until `until`. */
void lk_fault_steal(lk_fault_instance *f, const char *key, uint64_t token, int64_t until);
/** Have the grant's lock broken soon, by another thread. */
void lk_fault_steal_later_locked(lk_fault_instance *f, const locker_claim *grant) LK_REQUIRES(f->mutex);
void lk_fault_thief_end(lk_fault_instance *f);

/* ---- table.c */
/** Whether it is an instance's table. */
bool lk_fault_is_table(const locker_driver *driver);
