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
 * Core calls the clock with its mutex held, hence the second one. The compiler takes either of them for the
 * one that guards a member, but not for the one that a function requires: so each function is given the mock,
 * and names its mutex.
 */
#pragma once

#include <stdatomic.h>

#include <locker/instrument.h>
#include <locker/mock.h>

#include "lk_mutex.h"
#include "script.h"

#define LK_MS INT64_C(1000000)

#define MOCK_GUARDED LK_GUARDED_BY(locker_mock.mutex)
#define MOCK_CLOCKED LK_GUARDED_BY(locker_mock.clock.mutex)

typedef struct mock_host mock_host;
typedef struct mock_reply mock_reply;
typedef struct mock_sleeper mock_sleeper;
typedef struct mock_slot mock_slot;

/** A thread that sleeps by the clock. Lives on its stack. */
struct mock_sleeper {
    mock_sleeper *prev MOCK_CLOCKED, *next MOCK_CLOCKED;
    pthread_cond_t wake;
    /* constant */
    const pthread_cond_t *cond; /**< core's; NULL: it waits for a delayed answer */
    const locker_claim *claim;  /**< what it waits for; NULL: no lock */
    int64_t until;
    bool moves MOCK_CLOCKED; /**< it moves the clock itself. Constant once it can be found */
    bool woken MOCK_CLOCKED;
};

typedef struct {
    lk_mutex mutex;
    pthread_cond_t changed; /**< something came to rest, or the clock is free to be moved */
    pthread_t owner;        /**< the thread that made the mock. Constant */
    _Atomic int64_t now;    /**< ns. Written under the mutex, read without: one number */
    mock_sleeper *first MOCK_CLOCKED, *last MOCK_CLOCKED;
    size_t active MOCK_CLOCKED;     /**< calls that were woken and neither sleep again nor are over */
    bool moving MOCK_CLOCKED;       /**< a thread moves the clock; no other may */
    char trouble[256] MOCK_CLOCKED; /**< what did not come to rest in time; empty: nothing */
} mock_clock;

/** Where a locker's keeper stands. */
typedef enum { MOCK_KEEPER_GONE, MOCK_KEEPER_RUNS, MOCK_KEEPER_RESTS } mock_keeper;

/** One locker. It lives as long as the mock, because handles ask its clock. */
struct mock_host {
    mock_host *next MOCK_GUARDED; /**< as locker_mock.hosts. Constant once it is in the list */
    /* constant */
    locker_mock *mock;
    locker_clock clock; /**< what core is given; its context is the host */
    int kick_fd;        /**< eventfd */

    mock_keeper keeper MOCK_CLOCKED;
    pthread_t keeper_thread MOCK_CLOCKED;
    bool keeper_known MOCK_CLOCKED; /**< keeper_thread is set */
    bool kicked MOCK_CLOCKED;       /**< kick_fd was written and not yet read */
    int rest_fd MOCK_CLOCKED;       /**< what the keeper rests on */
    int64_t rest_until MOCK_CLOCKED;
    const locker_claim *waits_for; /**< of the call that is about to wait; guarded by core's mutex */

    const locker *l MOCK_GUARDED;            /**< for comparing alone */
    const locker_services *svc MOCK_GUARDED; /**< NULL: closed, or not yet open */
    const char *owner MOCK_GUARDED;          /**< interned; constant after open */
    locker_claim *claims MOCK_GUARDED;       /**< all that it was shown and has not let go of */
    bool cut MOCK_GUARDED;                   /**< disconnected */
    bool session_lost MOCK_GUARDED;          /**< the session has ended, and the locker was not told */
    int64_t session_ns MOCK_GUARDED;         /**< its time-out; constant after open */
    int64_t session_until MOCK_GUARDED;      /**< LOCKER_NEVER: there is none */
    int64_t beat_at MOCK_GUARDED;            /**< the next heartbeat; LOCKER_NEVER: none */
};

/** Where a claim stands at the service. */
typedef enum {
    MOCK_NEW = 0, /**< unknown there */
    MOCK_QUEUED,
    MOCK_GRANTED,
    MOCK_LOST /**< it was granted, and is another's or nobody's now */
} mock_state;

/** The driver's bytes of a claim. */
typedef struct {
    mock_host *host MOCK_GUARDED; /**< NULL: not seen yet */
    mock_slot *slot MOCK_GUARDED;
    locker_claim *prev MOCK_GUARDED, *next MOCK_GUARDED;           /**< in the slot's queue */
    locker_claim *host_prev MOCK_GUARDED, *host_next MOCK_GUARDED; /**< in the host's claims */
    mock_state state MOCK_GUARDED;
    bool answered MOCK_GUARDED; /**< acquire has answered OK: core holds it */
    bool interrupted MOCK_CLOCKED;
} mock_place;

/** A key. Slots are never dropped: records point to their keys. */
struct mock_slot {
    mock_slot *next MOCK_GUARDED;
    bool held MOCK_GUARDED;
    bool stranger MOCK_GUARDED; /**< held by somebody who is no locker */
    /** NULL: a stranger, or a claim that is gone whose release did not arrive. */
    locker_claim *holder MOCK_GUARDED;
    mock_host *host MOCK_GUARDED;   /**< the holder's; NULL: a stranger's */
    const char *owner MOCK_GUARDED; /**< interned */
    uint64_t token MOCK_GUARDED;    /**< of the present or last grant */
    int64_t since MOCK_GUARDED;     /**< when it was granted */
    int64_t until MOCK_GUARDED;     /**< end of the lease; LOCKER_NEVER: none */
    /** When a release that did not arrive is repeated; LOCKER_NEVER: none is under way. */
    int64_t retry_at MOCK_GUARDED;
    locker_claim *first MOCK_GUARDED, *last MOCK_GUARDED; /**< the queue */
    char key[];                                           /**< constant */
};

/** An answer to a renewal that is on its way. */
struct mock_reply {
    mock_reply *next MOCK_GUARDED;
    locker_claim *grant MOCK_GUARDED;
    int64_t at MOCK_GUARDED, until MOCK_GUARDED;
};

struct locker_mock {
    locker_mock_options options; /**< constant */
    locker_driver driver;        /**< constant */
    locker_semantics semantics;  /**< constant */
    mock_clock clock;
    lk_mutex mutex;
    pthread_cond_t recorded; /**< a call was recorded */
    /** In the order of opening. Added to under both mutexes, so either is enough to walk. */
    mock_host *hosts MOCK_GUARDED;
    mock_slot *slots MOCK_GUARDED, **slots_end MOCK_GUARDED;
    void *slot_tree MOCK_GUARDED; /**< by key, of tsearch(3) */
    void *name_tree MOCK_GUARDED; /**< interned texts */
    mock_reply *replies MOCK_GUARDED;
    lk_script *script MOCK_GUARDED;
    bool down MOCK_GUARDED; /**< all are disconnected, also those that will be opened */
    uint64_t last_token MOCK_GUARDED, random MOCK_GUARDED;
    locker_mock_call *calls MOCK_GUARDED;
    size_t call_count MOCK_GUARDED, call_room MOCK_GUARDED;
    size_t claims_left MOCK_GUARDED; /**< claims that were never ended when their locker closed */
};

/** A mock that is only asked, whose mutexes are taken all the same. */
static inline locker_mock *lk_mock_asked(const locker_mock *mock)
{
    return (locker_mock *)(uintptr_t)mock;
}

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
/** Sleep until `until`, for a delayed answer; returns whether it was interrupted. claim NULL: it is about no
 * lock. */
bool lk_mock_sleep(locker_mock *mock, locker_claim *claim, int64_t until)
    LK_EXCLUDES(mock->mutex, mock->clock.mutex);
/** End the sleep of lk_mock_sleep() for this claim, now or when it comes. */
void lk_mock_interrupt(locker_mock *mock, locker_claim *claim) LK_EXCLUDES(mock->clock.mutex);
/** The host's keeper starts (true) or has ended. */
void lk_mock_keeper(locker_mock *mock, mock_host *host, bool runs) LK_EXCLUDES(mock->clock.mutex);
/** Wait until the keeper has come to rest for the first time, and its thread is known. */
void lk_mock_await_keeper(locker_mock *mock, mock_host *host) LK_EXCLUDES(mock->mutex, mock->clock.mutex);
/** Whether this thread is inside a callback of one of the mock's lockers. */
bool lk_mock_in_callback(locker_mock *mock) LK_EXCLUDES(mock->clock.mutex);
/** The absolute time of CLOCK_MONOTONIC at which patience ends. */
struct timespec lk_mock_patience(const locker_mock *mock);
bool lk_mock_is_over(const struct timespec *time);
/** Calls that sleep for the key (NULL: any). */
size_t lk_mock_sleepers_locked(const locker_mock *mock, const char *key) LK_REQUIRES(mock->clock.mutex);
/** Come to rest; false: patience has ended. */
bool lk_mock_await_rest_unlocking(locker_mock *mock) LK_REQUIRES(mock->clock.mutex);
void lk_mock_wake_locked(locker_mock *mock, mock_sleeper *sleeper) LK_REQUIRES(mock->clock.mutex);
void lk_mock_notify_locked(locker_mock *mock) LK_REQUIRES(mock->clock.mutex);

/* ---- advance.c */
/** Move on to `until`; self NULL: by `by`; for a sleeper that moves the clock itself: at most until it is
 * woken. OK, TIMEOUT. */
locker_status lk_mock_move_unlocking(locker_mock *mock, int64_t by, int64_t until, mock_sleeper *self)
    LK_REQUIRES(mock->clock.mutex) LK_EXCLUDES(mock->mutex);

/* ---- service.c */
const char *lk_mock_intern_locked(locker_mock *mock, const char *text) LK_REQUIRES(mock->mutex);
/** The slot of the key, made when there is none; NULL: out of memory. */
mock_slot *lk_mock_slot_locked(locker_mock *mock, const char *key, size_t length) LK_REQUIRES(mock->mutex);
mock_slot *lk_mock_find_locked(locker_mock *mock, const char *key) LK_REQUIRES(mock->mutex);
/** One attempt of the claim: OK, BUSY, NOMEM. */
locker_status lk_mock_attempt_locked(locker_mock *mock, mock_host *host, locker_claim *claim)
    LK_REQUIRES(mock->mutex);
/** Stand in the queue, whether or not somebody holds the lock. */
void lk_mock_enqueue_locked(locker_mock *mock, mock_slot *slot, locker_claim *claim) LK_REQUIRES(mock->mutex);
/** The lock is nobody's now: give it to the next who waits. */
void lk_mock_free_locked(locker_mock *mock, mock_slot *slot) LK_REQUIRES(mock->mutex);
/** The claim's lock is taken away; its holder is not told. */
void lk_mock_take_away_locked(locker_mock *mock, locker_claim *claim) LK_REQUIRES(mock->mutex);
/** The claim ends: out of all lists. Its lock, if it has one, is freed, or with `arrives` false stays until
 * the release is repeated. OK; LOST: it had none. */
locker_status lk_mock_end_locked(locker_mock *mock, locker_claim *claim, bool arrives)
    LK_REQUIRES(mock->mutex);
/** Show the claim to the host for the first time. */
void lk_mock_adopt_locked(locker_mock *mock, mock_host *host, mock_slot *slot, locker_claim *claim)
    LK_REQUIRES(mock->mutex);
/** Extend a lease at the service: OK, or LOST. *until gets the local deadline. */
locker_status lk_mock_extend_locked(locker_mock *mock, locker_claim *grant, int64_t *until)
    LK_REQUIRES(mock->mutex);
void lk_mock_grant_locked(locker_mock *mock, mock_slot *slot, locker_claim *claim) LK_REQUIRES(mock->mutex);
/** Have the lease's extension told at `at`; NOMEM: it never is. */
void lk_mock_reply_later_locked(locker_mock *mock, locker_claim *grant, int64_t at, int64_t until)
    LK_REQUIRES(mock->mutex);
/** Somebody stands in the queue no more; he may have been the one to whom a free lock was left. */
void lk_mock_leave_queue_locked(locker_mock *mock, mock_slot *slot, locker_claim *claim)
    LK_REQUIRES(mock->mutex);
uint64_t lk_mock_token_locked(locker_mock *mock) LK_REQUIRES(mock->mutex);

/* ---- events.c */
/** All of a host's locks are nobody's; it is told if it is connected. */
void lk_mock_end_session_locked(locker_mock *mock, mock_host *host) LK_REQUIRES(mock->mutex);
void lk_mock_cut_locked(locker_mock *mock, mock_host *host) LK_REQUIRES(mock->mutex);
void lk_mock_mend_locked(locker_mock *mock, mock_host *host) LK_REQUIRES(mock->mutex);
/** When something becomes due at the service; LOCKER_NEVER: nothing does. */
int64_t lk_mock_next_due(locker_mock *mock) LK_EXCLUDES(mock->mutex, mock->clock.mutex);
/** Do the first thing that is due by now. */
void lk_mock_run_due(locker_mock *mock) LK_EXCLUDES(mock->mutex, mock->clock.mutex);

/* ---- inspect.c */
locker_status lk_mock_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err);
locker_status lk_mock_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err);
locker_status lk_mock_ping(void *self, int64_t until, locker_error *err);

/* ---- ops.c */
extern const locker_driver lk_mock_driver;
/** A session's heartbeat. */
void lk_mock_beat_locked(locker_mock *mock, mock_host *host) LK_REQUIRES(mock->mutex);

/* ---- records.c */
void lk_mock_record_locked(locker_mock *mock, const locker_mock_call *call) LK_REQUIRES(mock->mutex);
