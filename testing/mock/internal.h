/* internal.h: the mock's own structures.
 *
 *   clock.c     the clock: who sleeps, whether all rest
 *   grants.c    who holds a key, and who may beside them
 *   service.c   the lock service: keys, queues, leases
 *   records.c   calls, and what is left behind
 *   flight.c    the way of an operation, with the script's faults
 *   renew.c     renewals, and a session's heartbeat
 *   events.c    what happens to the service in time
 *   advance.c   moving the clock on
 *   sleep.c     sleeping by it, also until an answer is there
 *   ops.c       the driver's operations; inspect.c has those that look
 *   control.c   what a test does to the service
 *   mock.c      making and freeing, opening a locker, the driver's table
 *
 * Each uses only those before it.
 *
 * Two mutexes: locker_mock.mutex guards the service, the script and the records; clock.mutex guards who
 * sleeps and the moving of the clock. Order: locker_mock.mutex, then core's, then clock.mutex, then nothing.
 * Core calls the clock with its mutex held, hence the second one. The compiler takes either of them for the
 * one that guards a member, but not for the one that a function requires: so each function is given the mock,
 * and names its mutex. */
#pragma once

#include <stdatomic.h>

#include <locker/instrument.h>
#include <locker/mock.h>

#include "lk_list.h"
#include "lk_mutex.h"
#include "lk_time.h"
#include "script.h"

#define LK_MOCK_GUARDED LK_GUARDED_BY(locker_mock.mutex)
#define LK_MOCK_CLOCKED LK_GUARDED_BY(locker_mock.clock.mutex)

typedef struct lk_mock_host lk_mock_host;
typedef struct lk_mock_reply lk_mock_reply;
typedef struct lk_mock_sleeper lk_mock_sleeper;
typedef struct lk_mock_entry lk_mock_entry;
typedef struct lk_mock_grant lk_mock_grant;

/** A thread that sleeps by the clock. Lives on its stack. */
struct lk_mock_sleeper {
    lk_list link LK_MOCK_CLOCKED; /**< in the clock's `sleepers` */
    pthread_cond_t wake;
    /* constant */
    const pthread_cond_t *cond; /**< core's; NULL: it waits for a delayed answer */
    const locker_claim *claim;  /**< what it waits for; NULL: no lock */
    int64_t until;
    bool moves LK_MOCK_CLOCKED; /**< it moves the clock itself. Constant once it can be found */
    bool woken LK_MOCK_CLOCKED;
};

typedef struct {
    lk_mutex mutex;
    pthread_cond_t changed; /**< something came to rest, or the clock is free to be moved */
    pthread_t owner;        /**< the thread that made the mock. Constant */
    _Atomic int64_t now;    /**< ns. Written under the mutex, read without: one number */
    lk_list sleepers LK_MOCK_CLOCKED;
    size_t active LK_MOCK_CLOCKED;     /**< calls that were woken and neither sleep again nor are over */
    bool moving LK_MOCK_CLOCKED;       /**< a thread moves the clock; no other may */
    char trouble[256] LK_MOCK_CLOCKED; /**< what did not come to rest in time; empty: nothing */
} lk_mock_clock;

/** Where a locker's keeper stands. */
typedef enum { LK_MOCK_KEEPER_GONE, LK_MOCK_KEEPER_RUNS, LK_MOCK_KEEPER_RESTS } lk_mock_keeper_state;

/** One locker. It lives as long as the mock, because handles ask its clock. */
struct lk_mock_host {
    lk_mock_host *next LK_MOCK_GUARDED; /**< as locker_mock.hosts. Constant once it is in the list */
    /* constant */
    locker_mock *mock;
    locker_clock clock; /**< what core is given; its context is the host */
    int kick_fd;        /**< eventfd */

    lk_mock_keeper_state keeper LK_MOCK_CLOCKED;
    pthread_t keeper_thread LK_MOCK_CLOCKED;
    bool keeper_known LK_MOCK_CLOCKED; /**< keeper_thread is set */
    bool kicked LK_MOCK_CLOCKED;       /**< kick_fd was written and not yet read */
    int rest_fd LK_MOCK_CLOCKED;       /**< what the keeper rests on */
    int64_t rest_until LK_MOCK_CLOCKED;
    const locker_claim *waits_for; /**< of the call that is about to wait; guarded by core's mutex */

    const locker *l LK_MOCK_GUARDED;            /**< for comparing alone */
    const locker_services *svc LK_MOCK_GUARDED; /**< NULL: closed, or not yet open */
    const char *owner LK_MOCK_GUARDED;          /**< interned; constant after open */
    lk_list claims LK_MOCK_GUARDED;     /**< places of all claims that it was shown and has not let go of */
    bool cut LK_MOCK_GUARDED;           /**< disconnected */
    bool session_lost LK_MOCK_GUARDED;  /**< the session has ended, and the locker was not told */
    int64_t session_ns LK_MOCK_GUARDED; /**< its time-out; constant after open */
    int64_t session_until LK_MOCK_GUARDED; /**< LOCKER_NEVER: there is none */
    int64_t beat_at LK_MOCK_GUARDED;       /**< the next heartbeat; LOCKER_NEVER: none */
};

/** Where a claim stands at the service. */
typedef enum {
    LK_MOCK_NEW = 0, /**< unknown there */
    LK_MOCK_QUEUED,
    LK_MOCK_GRANTED,
    LK_MOCK_LOST /**< it was granted, and is another's or nobody's now */
} lk_mock_state;

/** The driver's bytes of a claim. */
typedef struct {
    locker_claim *claim LK_MOCK_GUARDED;  /**< set with the host */
    lk_mock_host *host LK_MOCK_GUARDED;   /**< NULL: not seen yet */
    lk_mock_grant *grant LK_MOCK_GUARDED; /**< its own, as long as it has a host */
    lk_list link LK_MOCK_GUARDED;         /**< in the entry's queue */
    lk_list of_host LK_MOCK_GUARDED;      /**< in the host's claims */
    lk_mock_state state LK_MOCK_GUARDED;
    bool answered LK_MOCK_GUARDED; /**< acquire has answered OK: core holds it */
    bool interrupted LK_MOCK_CLOCKED;
} lk_mock_place;

/** One hold of a key at the service. A claim has it from the start, so that granting needs no memory. */
struct lk_mock_grant {
    lk_list link LK_MOCK_GUARDED; /**< in the entry's `grants`; linked: the key is held by it */
    lk_mock_entry *entry;         /**< constant */
    /** NULL: a foreign client, or a claim that is gone whose release did not arrive. */
    locker_claim *claim LK_MOCK_GUARDED;
    lk_mock_host *host
        LK_MOCK_GUARDED; /**< the claim's; NULL: a foreign client's, or one's that has closed */
    const char *owner;   /**< interned; constant */
    /* constant */
    bool foreign; /**< of a client that is no locker */
    locker_mode mode;
    int32_t permits;
    /* of one that holds the key */
    int32_t slot LK_MOCK_GUARDED; /**< of a permit; else 0 */
    uint64_t token LK_MOCK_GUARDED;
    int64_t since LK_MOCK_GUARDED; /**< when it was granted */
    int64_t until LK_MOCK_GUARDED; /**< end of the lease; LOCKER_NEVER: none */
    /** When a release that did not arrive is repeated; LOCKER_NEVER: none is under way. */
    int64_t retry_at LK_MOCK_GUARDED;
};

/** A key. Entries are never dropped: records point to their keys. */
struct lk_mock_entry {
    lk_mock_entry *next LK_MOCK_GUARDED;
    lk_list grants LK_MOCK_GUARDED; /**< those who hold it: by slot if they have permits, else as they came */
    uint64_t token LK_MOCK_GUARDED; /**< the last that was given for it */
    lk_list queue LK_MOCK_GUARDED;  /**< places of those who wait */
    char key[];                     /**< constant */
};

/** An answer to a renewal that is on its way. */
struct lk_mock_reply {
    lk_mock_reply *next LK_MOCK_GUARDED;
    locker_claim *grant LK_MOCK_GUARDED;
    int64_t at LK_MOCK_GUARDED, until LK_MOCK_GUARDED;
};

struct locker_mock {
    locker_mock_options options; /**< constant */
    locker_driver driver;        /**< constant */
    locker_semantics semantics;  /**< constant */
    lk_mock_clock clock;
    lk_mutex mutex;
    pthread_cond_t recorded; /**< a call was recorded */
    /** In the order of opening. Added to under both mutexes, so either is enough to walk. */
    lk_mock_host *hosts LK_MOCK_GUARDED;
    lk_mock_entry *entries LK_MOCK_GUARDED, **entries_end LK_MOCK_GUARDED;
    void *entry_tree LK_MOCK_GUARDED; /**< by key, of tsearch(3) */
    void *name_tree LK_MOCK_GUARDED;  /**< interned texts */
    lk_mock_reply *replies LK_MOCK_GUARDED;
    lk_script *script LK_MOCK_GUARDED;
    bool down LK_MOCK_GUARDED; /**< all are disconnected, also those that will be opened */
    uint64_t last_token LK_MOCK_GUARDED, random LK_MOCK_GUARDED;
    locker_mock_call *calls LK_MOCK_GUARDED;
    size_t call_count LK_MOCK_GUARDED, call_room LK_MOCK_GUARDED;
    size_t claims_left LK_MOCK_GUARDED; /**< claims that were never ended when their locker closed */
};

/** A mock that is only asked, whose mutexes are taken all the same. */
static inline locker_mock *lk_mock_asked(const locker_mock *mock)
{
    return (locker_mock *)(uintptr_t)mock;
}

static inline lk_mock_place *lk_mock_place_of(const locker_claim *claim)
{
    return claim->data;
}

/* ---- clock.c */
int lk_mock_clock_init(lk_mock_clock *clock);
void lk_mock_clock_destroy(lk_mock_clock *clock);
static inline int64_t lk_mock_now(const locker_mock *mock)
{
    return atomic_load(&mock->clock.now);
}
/** The host's keeper starts (true) or has ended. */
void lk_mock_keeper(locker_mock *mock, lk_mock_host *host, bool runs) LK_EXCLUDES(mock->clock.mutex);
/** Wait until the keeper has come to rest for the first time, and its thread is known. */
void lk_mock_await_keeper(locker_mock *mock, lk_mock_host *host) LK_EXCLUDES(mock->mutex, mock->clock.mutex);
/** Whether this thread is inside a callback of one of the mock's lockers. */
bool lk_mock_in_callback(locker_mock *mock) LK_EXCLUDES(mock->clock.mutex);
/** The absolute time of CLOCK_MONOTONIC at which patience ends. */
struct timespec lk_mock_patience(const locker_mock *mock);
bool lk_mock_is_over(const struct timespec *time);
/** Calls that sleep for the key (NULL: any). */
size_t lk_mock_sleepers_locked(const locker_mock *mock, const char *key) LK_REQUIRES(mock->clock.mutex);
/** Come to rest; false: patience has ended. */
bool lk_mock_await_rest_unlocking(locker_mock *mock) LK_REQUIRES(mock->clock.mutex);
void lk_mock_wake_locked(locker_mock *mock, lk_mock_sleeper *sleeper) LK_REQUIRES(mock->clock.mutex);
void lk_mock_notify_locked(locker_mock *mock) LK_REQUIRES(mock->clock.mutex);

/* ---- advance.c */
/** Move on to `until`; self NULL: by `by`; for a sleeper that moves the clock itself: at most until it is
 * woken. OK, TIMEOUT. */
locker_status lk_mock_move_unlocking(locker_mock *mock, int64_t by, int64_t until, lk_mock_sleeper *self)
    LK_REQUIRES(mock->clock.mutex) LK_EXCLUDES(mock->mutex);

/* ---- grants.c */
/** NULL: nobody holds it. */
lk_mock_grant *lk_mock_first_grant_locked(const locker_mock *mock, const lk_mock_entry *entry)
    LK_REQUIRES(mock->mutex);
/** The index-th of those who hold it, by their tokens; NULL past the last. */
const lk_mock_grant *lk_mock_holder_locked(const locker_mock *mock, const lk_mock_entry *entry, size_t index)
    LK_REQUIRES(mock->mutex);
/** Of those who hold it, and whose token is not greater than `newest`, one whom `only` names; NULL: there is none. */
lk_mock_grant *lk_mock_named_locked(const locker_mock *mock, const lk_mock_entry *entry,
                                    const locker_break_options *only, uint64_t newest)
    LK_REQUIRES(mock->mutex);
/** Whether somebody could hold it so beside those who do. */
bool lk_mock_has_room_locked(const locker_mock *mock, const lk_mock_entry *entry, locker_mode mode,
                             int32_t permits) LK_REQUIRES(mock->mutex);
/** Hold the key, in which there is room, for ever. */
void lk_mock_hold_locked(locker_mock *mock, lk_mock_grant *grant, uint64_t token) LK_REQUIRES(mock->mutex);
/** Hold it no more. One that is no claim's any more is freed. */
void lk_mock_unhold_locked(const locker_mock *mock, lk_mock_grant *grant) LK_REQUIRES(mock->mutex);

/* ---- service.c */
const char *lk_mock_intern_locked(locker_mock *mock, const char *text) LK_REQUIRES(mock->mutex);
/** The entry of the key, made when there is none; NULL: out of memory. */
lk_mock_entry *lk_mock_entry_locked(locker_mock *mock, const char *key, size_t length)
    LK_REQUIRES(mock->mutex);
lk_mock_entry *lk_mock_find_locked(locker_mock *mock, const char *key) LK_REQUIRES(mock->mutex);
/** One attempt of the claim: OK, BUSY, NOMEM, CONFIG (the key is in use in another way; err is filled). */
locker_status lk_mock_attempt_locked(locker_mock *mock, lk_mock_host *host, locker_claim *claim,
                                     locker_error *err) LK_REQUIRES(mock->mutex);
/** A foreign client comes: OK, BUSY (it doesn't wait), NOMEM, CONFIG. `until`: as of a grant. */
locker_status lk_mock_take_locked(locker_mock *mock, lk_mock_entry *entry, const char *owner,
                                  locker_mode mode, int32_t permits, int64_t until, uint64_t *token)
    LK_REQUIRES(mock->mutex);
/** Stand in the queue, whether or not there is room. */
void lk_mock_enqueue_locked(const locker_mock *mock, lk_mock_entry *entry, locker_claim *claim)
    LK_REQUIRES(mock->mutex);
/** Somebody stands in the queue no more; those behind may have waited for that one alone. */
void lk_mock_leave_queue_locked(locker_mock *mock, lk_mock_entry *entry, locker_claim *claim)
    LK_REQUIRES(mock->mutex);
/** Those who wait enter, as far as there is room. */
void lk_mock_admit_locked(locker_mock *mock, lk_mock_entry *entry) LK_REQUIRES(mock->mutex);
/** Somebody holds the key no more; who waits may enter. */
void lk_mock_free_locked(locker_mock *mock, lk_mock_grant *grant) LK_REQUIRES(mock->mutex);
/** The claim's lock is taken away; its holder is not told. */
void lk_mock_take_away_locked(locker_mock *mock, const locker_claim *claim) LK_REQUIRES(mock->mutex);
/** The key is taken away from those who hold it now and whom `only` names, and they are told. How many they were. */
size_t lk_mock_rob_locked(locker_mock *mock, const lk_mock_entry *entry, const locker_break_options *only,
                          const char *why) LK_REQUIRES(mock->mutex);
/** The claim ends: out of all lists. Its lock, if it has one, is freed, or with `arrives` false stays until
 * the release is repeated. OK; LOST: it had none. */
locker_status lk_mock_end_locked(locker_mock *mock, locker_claim *claim, bool arrives)
    LK_REQUIRES(mock->mutex);
/** Show the claim to the host for the first time. False: out of memory. */
bool lk_mock_adopt_locked(locker_mock *mock, lk_mock_host *host, lk_mock_entry *entry, locker_claim *claim)
    LK_REQUIRES(mock->mutex);
/** Extend a lease at the service: OK, or LOST. *until gets the local deadline. */
locker_status lk_mock_extend_locked(locker_mock *mock, locker_claim *grant, int64_t *until)
    LK_REQUIRES(mock->mutex);
void lk_mock_grant_locked(locker_mock *mock, locker_claim *claim) LK_REQUIRES(mock->mutex);
/** Have the lease's extension told at `at`; NOMEM: it never is. */
void lk_mock_reply_later_locked(locker_mock *mock, locker_claim *grant, int64_t at, int64_t until)
    LK_REQUIRES(mock->mutex);
uint64_t lk_mock_token_locked(locker_mock *mock) LK_REQUIRES(mock->mutex);

/* ---- events.c */
/** All of a host's locks are nobody's; it is told if it is connected. */
void lk_mock_end_session_locked(locker_mock *mock, lk_mock_host *host) LK_REQUIRES(mock->mutex);
void lk_mock_mend_locked(locker_mock *mock, lk_mock_host *host) LK_REQUIRES(mock->mutex);
/** When something becomes due at the service; LOCKER_NEVER: nothing does. */
int64_t lk_mock_next_due(locker_mock *mock) LK_EXCLUDES(mock->mutex, mock->clock.mutex);
/** Do the first thing that is due by now. */
void lk_mock_run_due(locker_mock *mock) LK_EXCLUDES(mock->mutex, mock->clock.mutex);

/* ---- sleep.c */
/** The table that core is given for the host. */
locker_clock lk_mock_clock_table(lk_mock_host *host);
/** End the wait for this claim's delayed answer, now or when it comes. */
void lk_mock_interrupt(locker_mock *mock, locker_claim *claim) LK_EXCLUDES(mock->clock.mutex);

/* ---- renew.c */
/** A session's heartbeat. */
void lk_mock_beat_locked(locker_mock *mock, lk_mock_host *host) LK_REQUIRES(mock->mutex);
void lk_mock_renew(void *self, locker_claim *const *grants, size_t count);

/* ---- inspect.c */
locker_status lk_mock_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                           locker_error *err);
locker_status lk_mock_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                            int64_t until, locker_info *broken, locker_error *err);
locker_status lk_mock_ping(void *self, int64_t until, locker_error *err);

/* ---- ops.c */
extern const locker_driver lk_mock_driver;

/* ---- mock.c */
/** A host of which no locker is open yet; one without a keeper does nothing. NULL: out of memory, or of descriptors. */
lk_mock_host *lk_mock_add_host(locker_mock *mock) LK_EXCLUDES(mock->mutex, mock->clock.mutex);

/* ---- records.c */
void lk_mock_record_locked(locker_mock *mock, const locker_mock_call *call) LK_REQUIRES(mock->mutex);
