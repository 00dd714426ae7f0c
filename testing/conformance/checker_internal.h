/* checker_internal.h: the parts of the contract checker.
 *
 *   checker_reports.c    reports, the tokens of each key
 *   checker_claims.c     the driver's copies of claims, and the record of each
 *   checker_hangs.c      what a test that hangs is waiting for
 *   checker_services.c   core's side of an instance, as the driver sees it
 *   checker_ops.c        the driver's operations, as core sees them
 *   checker.c            all of it, before a driver
 *
 * Each uses only those before it.
 *
 * lk_checker_mutex guards the records, the tokens and the reports. Lock order: the driver's locks,
 * lk_checker_mutex, then nothing: core and the driver are called without it. */
#pragma once

#include <stdatomic.h>

#include "contract_checker.h"
#include "lk_list.h"
#include "lk_mutex.h"

/** How much later than its deadline an operation may come back on a machine that is busy, and how long one
 * that may not block may take. */
enum { LK_CHECKER_LATE_MS = 1000 };

/** The instance of a driver that is checked. Never freed: a service that is called after close has to be
 * seen. */
typedef struct {
    locker_services services;    /**< the driver's; first member */
    const locker_services *core; /**< ours */
    void *self;                  /**< the driver's instance */
    atomic_bool closed;          /**< closed, or open failed */
    char name_space[256];
} lk_checked;

extern lk_mutex lk_checker_mutex;
#define LK_GUARDED LK_GUARDED_BY(lk_checker_mutex)

/** What is known of one claim. Guarded by the mutex, unless it is a copy. */
typedef struct {
    lk_checked *instance;   /**< NULL: the driver has let go of it */
    locker_claim *outer;    /**< core's claim */
    locker_claim *inner;    /**< the driver's copy */
    bool attempting;        /**< inside acquire */
    bool enrolled;          /**< it waits, and acquire answered BUSY, or without the service's word */
    bool granted;           /**< acquire or pass answered OK */
    bool awaited;           /**< the driver said that somebody waits for its key */
    uint64_t token_before;  /**< the greatest of its key when the driver got it */
    int64_t enrolled_until; /**< when a grant ended that; 0: none has */
    const char *let_go_by;  /**< the operation, static text; NULL: none has yet */
    unsigned long attempts; /**< how many were answered without a grant */
    int64_t answered_at;    /**< when the last of them was, in ns */
    int64_t retry_at;       /**< the time of the next attempt that the driver set then */
    bool woken;             /**< the driver has called wake since */
    char key[64];           /**< the beginning of it, for reports */
} lk_record;

extern const locker_driver *lk_checker_tested; /**< the driver under test; constant */

/* ---- checker_reports.c */
/** A test begins: nothing has been reported. Takes lk_checker_mutex. */
void lk_checker_reports_begin(void);
/** Reports a breach. Takes lk_checker_mutex. */
void lk_checker_report(const char *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** The greatest token that a grant of the key got so far; the caller holds lk_checker_mutex. */
uint64_t lk_checker_last_token_locked(const lk_checked *w, const char *key) LK_REQUIRES(lk_checker_mutex);
/** A grant of the key got this token: reports one that is not greater than `last`. */
void lk_checker_token(const lk_checked *w, const char *key, uint64_t token, uint64_t last);
/** ns of the clock of the instance. */
int64_t lk_checker_now(const lk_checked *w);
/** Report an operation that came back more than LK_CHECKER_LATE_MS after `until`, for lk_checker_missed_ms(). */
void lk_checker_deadline(const lk_checked *w, const char *check, const char *operation, int64_t until);
/** Reports an answer that is not in `allowed` (bits by status), or an error without one line of text. */
void lk_checker_answer(const char *operation, locker_status status, unsigned allowed,
                       const locker_error *err);

/* ---- checker_claims.c */
/** Makes place for copies of claims. False: out of memory. */
bool lk_checker_claims_init(void);
/** The driver's copy of core's claim, made when there is none yet. NULL: out of memory. */
locker_claim *lk_checker_inner(lk_checked *w, locker_claim *outer);
/** Whether there is one: the driver has seen the claim. */
bool lk_checker_is_seen(const locker_claim *outer);
/** The record of the driver's copy; the caller holds the mutex. NULL: the address is none of a claim's. */
lk_record *lk_checker_record_locked(const locker_claim *inner) LK_REQUIRES(lk_checker_mutex);
/** Calls `look` for each claim that the driver has; the caller holds the mutex. */
void lk_checker_each_locked(void (*look)(const lk_record *record, void *context), void *context)
    LK_REQUIRES(lk_checker_mutex);
/** How many claims the instance has. */
size_t lk_checker_count(const lk_checked *w);
/** The driver lets go of it: the copy is not to be touched any more. */
void lk_checker_let_go(locker_claim *outer, const char *operation);
/** Whether its lease may be no longer than what was asked for. What a session keeps may be longer. */
bool lk_checker_is_bounded(const locker_claim *claim);
/** Catches touches of what was let go of, by SIGSEGV; and back. */
void lk_checker_trap(void);
void lk_checker_untrap(void);

/* ---- checker_hangs.c */
/** A driver's operation that is under way, on the stack of the thread that called it. */
typedef struct {
    lk_list link LK_GUARDED;
    const char *name; /**< static text */
    char key[64];     /**< the beginning of it; empty: it is about no key */
    int64_t began;    /**< ns of CLOCK_BOOTTIME */
} lk_operation;
/** Note that an operation begins, for the key (NULL: none), and that it has ended. */
void lk_checker_operation_begin(lk_operation *operation, const char *name, const char *key);
void lk_checker_operation_end(lk_operation *operation);

/* ---- checker_services.c */
extern const locker_services lk_checker_services;

/* ---- checker_ops.c */
/** Fills a table whose operations are checked. */
void lk_checker_fill(locker_driver *table, const locker_driver *driver);
