/*
 * worker.h: the thread of an instance that does in the background what core may not be kept waiting for:
 * renewing leases, and releasing what was withdrawn. All that is wanted at a time goes into one transaction.
 *
 * Each grant has a job, made before the attempt, so that letting go never needs memory. The claim belongs to
 * core, the job to the worker as soon as the claim is gone.
 */
#pragma once

#include "store.h"

typedef struct lock_job lock_job;

/** What is wanted for one grant. Guarded by worker.mutex. */
struct lock_job {
    lock_job *next;      /* in the worker's list */
    locker_claim *claim; /* NULL: core has it no more, or it is no grant yet */
    uint64_t token;      /* the grant's; constant once granted */
    int64_t ttl_ns;
    int64_t release_until; /* until when to try to release */
    bool listed;           /* in the worker's list, or in its hands */
    bool renew, release;   /* wanted */
    bool over;             /* nothing more will be wanted */
    /* of the present transaction, the worker's own */
    enum { JOB_UNTOUCHED, JOB_RENEWED, JOB_RELEASED } done;
    locker_status answer; /* OK or LOST, when something was done */
    char name[];
};

typedef struct {
    lock_store store; /* a connection of its own: it waits for no caller */
    const locker_services *svc;
    int64_t command_timeout_ns, cleanup_ns;
    pthread_t thread;
    pthread_mutex_t mutex; /* taken before core's */
    pthread_cond_t wanted;
    lock_job *first; /* what is listed */
    int64_t stop_at; /* LOCKER_NEVER: go on. Else end when all is done, at the latest then */
} lock_worker;

locker_status worker_start(lock_worker *w, const char *path, const locker_driver_config *config,
                           const locker_services *svc, locker_error *err);

/** Gives what is still to be released its time, ends the thread, closes the connection. */
void worker_stop(lock_worker *w);

/** A job for the key of that name. NULL: out of memory. */
lock_job *worker_job(const char *name, int64_t ttl_ns);

/** The claim is a grant. */
void worker_granted(lock_worker *w, lock_job *job, locker_claim *grant);

/** Renew; the answers come by core's services. */
void worker_renew(lock_worker *w, lock_job *const *jobs, size_t count);

/** Core's claim is touched no more. The job stays the caller's. */
void worker_let_go(lock_worker *w, lock_job *job);

/** The job is the worker's now: release the grant in the background, or just free it. */
void worker_end(lock_worker *w, lock_job *job, bool release);
