/*
 * internal.h: the mock's own structures.
 *
 *   mock.c      making and freeing, opening a locker, the driver's table
 *   clock.c     the clock: who sleeps, whether all rest
 *   advance.c   moving it on
 *   service.c   the lock service: keys, holders, queues
 *   events.c    what happens to it in time
 *   ops.c       the driver's operations; inspect.c has those that look
 *   flight.c    the way of an operation, with the script's faults
 *   control.c   what a test does to the service
 *   records.c   calls, and what is left behind
 *
 * Two mutexes: locker_mock.mutex guards the service, the script and the records; clock.mutex guards who
 * sleeps and the moving of the clock. Order: locker_mock.mutex, then core's, then clock.mutex, then nothing.
 * Core calls the clock with its mutex held, hence the second one.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <locker/instrument.h>
#include <locker/mock.h>

#include "script.h"

#define LK_MS INT64_C(1000000)

typedef struct mock_host mock_host;
typedef struct mock_slot mock_slot;

/** A thread that sleeps by the clock. Lives on its stack; guarded by clock.mutex. */
typedef struct mock_sleeper {
    struct mock_sleeper *prev, *next;
    pthread_cond_t wake;
    const pthread_cond_t *cond; /**< core's; NULL: it waits for a delayed answer */
    const locker_claim *claim;  /**< what it waits for; NULL: no lock */
    int64_t until;
    bool moves; /**< it moves the clock itself */
    bool woken;
} mock_sleeper;

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /**< something came to rest, or the clock is free to be moved */
    pthread_t owner;        /**< the thread that made the mock. Constant */
    _Atomic int64_t now;    /**< ns. Written under the mutex, read without: one number */
    mock_sleeper *first, *last;
    size_t active;     /**< calls that were woken and neither sleep again nor are over */
    bool moving;       /**< a thread moves the clock; no other may */
    char trouble[256]; /**< what did not come to rest in time; empty: nothing */
} mock_clock;

/** Where a locker's keeper stands. Guarded by clock.mutex. */
typedef enum { MOCK_KEEPER_GONE, MOCK_KEEPER_RUNS, MOCK_KEEPER_RESTS } mock_keeper;

/** One locker. It lives as long as the mock, because handles ask its clock. */
struct mock_host {
    mock_host *next; /**< constant once it is in the list */
    locker_mock *mock;
    locker_clock clock; /**< what core is given; its context is the host */
    /* guarded by clock.mutex */
    mock_keeper keeper;
    pthread_t keeper_thread;
    bool keeper_known; /**< keeper_thread is set */
    bool kicked;       /**< kick_fd was written and not yet read */
    int kick_fd;       /**< eventfd; constant */
    int rest_fd;       /**< what the keeper rests on */
    int64_t rest_until;
    const locker_claim *waits_for; /**< of the call that is about to wait; guarded by core's mutex */
    /* guarded by locker_mock.mutex */
    const locker *l;            /**< for comparing alone */
    const locker_services *svc; /**< NULL: closed, or not yet open */
    const char *owner;          /**< interned */
    locker_claim *claims;       /**< all that it was shown and has not let go of */
    bool cut;                   /**< disconnected */
    bool session_lost;          /**< the session has ended, and the locker was not told */
    int64_t session_ns;         /**< its time-out; constant after open */
    int64_t session_until;      /**< LOCKER_NEVER: there is none */
    int64_t beat_at;            /**< the next heartbeat; LOCKER_NEVER: none */
};

/** Where a claim stands at the service. */
typedef enum {
    MOCK_NEW = 0, /**< unknown there */
    MOCK_QUEUED,
    MOCK_GRANTED,
    MOCK_LOST /**< it was granted, and is another's or nobody's now */
} mock_state;

/** The driver's bytes of a claim. Guarded by locker_mock.mutex but where it says otherwise. */
typedef struct {
    mock_host *host; /**< NULL: not seen yet */
    mock_slot *slot;
    locker_claim *prev, *next;           /**< in the slot's queue */
    locker_claim *host_prev, *host_next; /**< in the host's claims */
    mock_state state;
    bool answered;    /**< acquire has answered OK: core holds it */
    bool interrupted; /**< guarded by clock.mutex */
} mock_place;

/** A key. Slots are never dropped: records point to their keys. */
struct mock_slot {
    mock_slot *next;
    bool held;
    bool stranger;        /**< held by somebody who is no locker */
    locker_claim *holder; /**< NULL: a stranger, or a claim that is gone whose release did not arrive */
    mock_host *host;      /**< the holder's; NULL: a stranger's */
    const char *owner;    /**< interned */
    uint64_t token;       /**< of the present or last grant */
    int64_t since;        /**< when it was granted */
    int64_t until;        /**< end of the lease; LOCKER_NEVER: none */
    int64_t retry_at; /**< when a release that did not arrive is repeated; LOCKER_NEVER: none is under way */
    locker_claim *first, *last; /**< the queue */
    char key[];
};

/** An answer to a renewal that is on its way. */
typedef struct mock_reply {
    struct mock_reply *next;
    locker_claim *grant;
    int64_t at, until;
} mock_reply;

struct locker_mock {
    locker_mock_options options; /**< constant */
    locker_driver driver;        /**< constant */
    locker_semantics semantics;  /**< constant */
    mock_clock clock;
    pthread_mutex_t mutex;   /**< guards all that follows */
    pthread_cond_t recorded; /**< a call was recorded */
    mock_host
        *hosts; /**< in the order of opening. Added to under both mutexes, so either is enough to walk */
    mock_slot *slots, **slots_end;
    void *slot_tree; /**< by key, of tsearch(3) */
    void *name_tree; /**< interned texts */
    mock_reply *replies;
    lk_script *script;
    bool down; /**< all are disconnected, also those that will be opened */
    uint64_t last_token, random;
    locker_mock_call *calls;
    size_t call_count, call_room;
    size_t claims_left; /**< claims that were never ended when their locker closed */
};

static inline mock_place *lk_mock_place(const locker_claim *claim)
{
    return claim->data;
}

/** a + b, LOCKER_NEVER where that would overflow or a is LOCKER_NEVER. b must not be negative. */
static inline int64_t lk_mock_later(int64_t a, int64_t b)
{
    return a > LOCKER_NEVER - b ? LOCKER_NEVER : a + b;
}

/* ---- clock.c */
int lk_mock_clock_init(mock_clock *clock);
void lk_mock_clock_destroy(mock_clock *clock);
/** The table that core is given for the host. */
locker_clock lk_mock_clock_table(mock_host *host);
static inline int64_t lk_mock_now(const locker_mock *mock)
{
    return atomic_load(&mock->clock.now);
}
/** Sleep until `until`, for a delayed answer; returns whether it was interrupted. No mutex is held. claim
 * NULL: it is about no lock. */
bool lk_mock_sleep(mock_host *host, locker_claim *claim, int64_t until);
/** End the sleep of lk_mock_sleep() for this claim, now or when it comes. */
void lk_mock_interrupt(mock_host *host, locker_claim *claim);
/** The host's keeper starts (true) or has ended. */
void lk_mock_keeper(mock_host *host, bool runs);
/** Wait until the keeper has come to rest for the first time, and its thread is known. */
void lk_mock_await_keeper(mock_host *host);
/** Whether this thread is inside a callback of one of the mock's lockers. */
bool lk_mock_in_callback(locker_mock *mock);
/** The absolute time of CLOCK_MONOTONIC at which patience ends. */
struct timespec lk_mock_patience(const locker_mock *mock);
/** Calls that sleep for the key (NULL: any). The caller holds clock.mutex. */
size_t lk_mock_sleepers_locked(const locker_mock *mock, const char *key);

/** Come to rest; false: patience has ended. The caller holds clock.mutex in these. */
bool lk_mock_await_rest_locked(locker_mock *mock);
void lk_mock_wake_locked(mock_clock *clock, mock_sleeper *sleeper);
void lk_mock_notify_locked(mock_clock *clock);
bool lk_mock_is_over(const struct timespec *time);

/* ---- advance.c */
/** Move on to `until`; self NULL: by `by`; for a sleeper that moves the clock itself: at most until it is
 * woken. The caller holds clock.mutex. OK, TIMEOUT. */
locker_status lk_mock_move_locked(locker_mock *mock, int64_t by, int64_t until, mock_sleeper *self);

/* ---- service.c: the caller holds locker_mock.mutex in the _locked ones */
const char *lk_mock_intern_locked(locker_mock *mock, const char *text);
/** The slot of the key, made when there is none; NULL: out of memory. */
mock_slot *lk_mock_slot_locked(locker_mock *mock, const char *key, size_t length);
mock_slot *lk_mock_find_locked(locker_mock *mock, const char *key);
/** One attempt of the claim: OK, BUSY, NOMEM. */
locker_status lk_mock_attempt_locked(locker_mock *mock, mock_host *host, locker_claim *claim);
/** Stand in the queue, whether or not somebody holds the lock. */
void lk_mock_enqueue_locked(mock_slot *slot, locker_claim *claim);
/** The lock is nobody's now: give it to the next who waits. */
void lk_mock_free_locked(locker_mock *mock, mock_slot *slot);
/** The claim's lock is taken away; its holder is not told. */
void lk_mock_take_away_locked(locker_mock *mock, locker_claim *claim);
/** The claim ends: out of all lists. Its lock, if it has one, is freed, or with `arrives` false stays until
 * the release is repeated. OK; LOST: it had none. */
locker_status lk_mock_end_locked(locker_mock *mock, locker_claim *claim, bool arrives);
/** Show the claim to the host for the first time. */
void lk_mock_adopt_locked(mock_host *host, mock_slot *slot, locker_claim *claim);
/** Extend a lease at the service: OK, or LOST. *until gets the local deadline. */
locker_status lk_mock_extend_locked(locker_mock *mock, locker_claim *grant, int64_t *until);
void lk_mock_grant_locked(locker_mock *mock, mock_slot *slot, locker_claim *claim);
/** Have the lease's extension told at `at`; NOMEM: it never is. */
void lk_mock_reply_later_locked(locker_mock *mock, locker_claim *grant, int64_t at, int64_t until);
/** Somebody stands in the queue no more; he may have been the one to whom a free lock was left. */
void lk_mock_leave_queue_locked(locker_mock *mock, mock_slot *slot, locker_claim *claim);

/* ---- events.c: likewise */
/** All of a host's locks are nobody's; it is told if it is connected. */
void lk_mock_end_session_locked(locker_mock *mock, mock_host *host);
void lk_mock_cut_locked(mock_host *host);
void lk_mock_mend_locked(locker_mock *mock, mock_host *host);
uint64_t lk_mock_token_locked(locker_mock *mock);
/** When something becomes due at the service; LOCKER_NEVER: nothing does. Takes locker_mock.mutex. */
int64_t lk_mock_next_due(locker_mock *mock);
/** Do the first thing that is due by now. Takes locker_mock.mutex. */
void lk_mock_run_due(locker_mock *mock);

/* ---- inspect.c */
locker_status lk_mock_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err);
locker_status lk_mock_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err);
locker_status lk_mock_ping(void *self, int64_t until, locker_error *err);

/* ---- ops.c */
extern const locker_driver lk_mock_driver;
/** A session's heartbeat; the caller holds locker_mock.mutex. */
void lk_mock_beat_locked(locker_mock *mock, mock_host *host);

/* ---- records.c */
void lk_mock_record_locked(locker_mock *mock, const locker_mock_call *call);
