/* state.h: what core keeps: claims to keys, the calls that wait for them, handles, and the locker. All else in core
 * stands above this header, each part with a header of its own that shows what others may use; script/circles --order
 * core tells in which order. Core is what is the same for every service; it knows drivers only through driver.h.
 *
 * One mutex, locker.mutex, guards what says so. Lock order: a driver's locks, then locker.mutex, then nothing. It is
 * never held across a driver's operation, a callback or a system call that can block. Functions whose names end in
 * _locked are called with it held and keep it; those that end in _unlocking let go of it inside. */
#pragma once

#include <locker/driver.h>
#include <sys/types.h>

#include "lk_atomic.h"
#include "lk_list.h"
#include "lk_mutex.h"
#include "lk_table.h"
#include "lk_time.h"

typedef struct lk_claim lk_claim;
typedef struct lk_wait lk_wait;
typedef struct lk_several lk_several;

/** Where a claim stands. Changes under locker.mutex. */
typedef enum {
    LK_QUEUED,     /**< in its key's local FIFO; the driver has not seen it */
    LK_CONTENDING, /**< being attempted, or enrolled and waiting */
    LK_GRANTED,    /**< held */
    LK_RELEASING,  /**< its owner is in release or pass */
    LK_LOST,       /**< lost; the keeper withdraws it and tells the handles */
    LK_GONE        /**< the driver has let go of it, or never saw it: its call rides on another's grant */
} lk_phase;

/** The operation of the driver that is inside with a claim: one at a time, but for interrupt, which may accompany
 * acquire. See "A claim, step by step" in ARCHITECTURE.md. */
typedef enum {
    LK_IDLE,
    LK_IN_ACQUIRE,
    LK_IN_PASS, /**< as the receiving side */
    LK_IN_RENEW,
    LK_IN_RELEASE, /**< release or withdraw, or pass as the giving side */
    LK_IN_KEEP     /**< keep_over_exec */
} lk_busy;

/** What came for a claim while it could not be acted on. */
enum {
    LK_WOKEN = 1u << 0,    /**< another attempt may succeed */
    LK_CANCELED = 1u << 1, /**< the call that waits for it has to end */
    LK_LOST_IT = 1u << 2,  /**< the driver said that this grant is lost */
    LK_LOST_ALL = 1u << 3, /**< the driver said that all are: whether this one is among them is not known */
    LK_BROKEN = 1u << 4    /**< the locker broke what the key was held by: perhaps this one */
};

#define LK_GUARDED LK_GUARDED_BY(locker.mutex)

/** What ended a handle. */
typedef enum {
    LK_OPEN = 0,    /**< nothing yet */
    LK_UNLOCKED,    /**< the user's unlock */
    LK_COUNTED_OUT, /**< the same, while other handles had the grant: what becomes of the grant is theirs */
    LK_CLOSED       /**< locker_close() */
} lk_ended;

/** How far the loss of a handle's grant has been told. */
typedef enum {
    LK_UNTOLD = 0,
    LK_TELLING, /**< the keeper runs on_lost */
    LK_FREED,   /**< the same, and on_lost has freed the handle: the keeper frees the memory afterwards */
    LK_TOLD     /**< on_lost has run, or will not run */
} lk_notice;

/** The closure that unlocks. The first handle of a grant lives in its claim; those that enter again are allocated. */
struct locker_handle {
    locker *l;              /**< counted */
    lk_claim *claim;        /**< counted */
    locker_handle *sibling; /**< next handle of the claim */
    lk_several *several; /**< it stands for several keys: all else is theirs. Constant; NULL: it does not */
    locker_lost_fn on_lost;
    void *user;
    _Atomic int lost_fd;       /**< eventfd, or -1; written under the mutex */
    _Atomic uint8_t ended;     /**< lk_ended; written under the mutex */
    uint8_t notice LK_GUARDED; /**< lk_notice */
};

/** What the loss of a key means to the handle of several keys, from any thread. */
typedef enum {
    LK_TAKING = 0, /**< not all keys are taken yet */
    LK_MISSING,    /**< the same, and one of them was lost again */
    LK_TAKEN,      /**< the user is to be told */
    LK_SETTLED     /**< the user was told, or is not to be told any more */
} lk_stage;

/** The handle of several keys, above the handles of each. The functions are several.c's, for handle.c. */
struct lk_several {
    locker_state (*state)(const lk_several *all);
    int64_t (*remaining_ms)(const lk_several *all);
    int (*open_fd)(lk_several *all);
    locker_status (*unlock)(lk_several *all, locker_error *err);
    void (*free)(lk_several *all);
    locker_handle head; /**< what the user has; its claim is the first part's */
    locker_lost_fn on_lost;
    void *user;
    _Atomic int stage; /**< lk_stage */
    _Atomic bool unlocked;
    _Atomic int fd; /**< an epoll of the parts' descriptors, or -1 */
    size_t count;   /**< of the parts that are taken */
    locker_handle *parts[];
};

/** A key in use here. It lives in the claim that came first, to which the others point. Guarded by the mutex. */
typedef struct {
    lk_table_link entry; /**< in locker.keys */
    lk_claim *holder;    /**< plain, and granted, releasing, or lost and not yet withdrawn */
    lk_list sharers;     /**< others that are: shared ones, or permits */
    /** The claim that the driver has when the service has no queue; else a shared one, which takes those behind it along. */
    lk_claim *contender;
    lk_list fifo;          /**< the claims behind it, likewise */
    uint32_t writers;      /**< plain ones that contend, when the service has a queue */
    int64_t passing_since; /**< when the service granted what has been handed over locally since */
    uint32_t passed;       /**< how often it was handed over since */
    uint32_t users;        /**< claims that point here */
    bool away;             /**< the driver's latest answer to any of ours: the service is out of reach */
} lk_key;

/** Core's part of a claim; the driver's bytes follow `pub`, then the key's text. */
struct lk_claim {
    lk_key *key LK_GUARDED;         /**< NULL: none yet */
    lk_key own_key LK_GUARDED;      /**< of the key's first claim, which lasts as long as the key has users */
    lk_list link LK_GUARDED;        /**< in key's FIFO, in locker.held or in locker.lost */
    lk_list among LK_GUARDED;       /**< in key's sharers */
    locker_handle *ride LK_GUARDED; /**< a handle of another claim's grant, which the call is to have */
    locker_handle first_handle;     /**< the call's own; unused when it entered another claim again */
    locker_handle *handles LK_GUARDED; /**< handles that refer to it */
    lk_wait *wait LK_GUARDED;          /**< the call that waits for it; NULL once granted */
    const char *lost_why LK_GUARDED;   /**< static text; NULL: the deadline passed */
    _Atomic int64_t valid_until;       /**< D. Written under the mutex, read without: see lk_claim_state() */
    _Atomic int64_t suspect_at;        /**< SUSPECT from then on; likewise */
    uint32_t heap_at LK_GUARDED;       /**< place in locker.heap, LK_NOT_IN_HEAP */
    uint32_t refs LK_GUARDED; /**< handles, and one until the driver has let go and the call is over */
    uint32_t open_handles LK_GUARDED; /**< handles not yet unlocked: the re-entry count */
    _Atomic uint8_t phase; /**< lk_phase. Written under the mutex; handles read it without, one flag */
    /** One handle is all that refers to it: freed without the mutex. Released by who unlocked, acquired by who frees. */
    _Atomic bool alone;
    char *owner;                  /**< who may enter again; NULL: nobody. pub.owner is what show prints */
    uint8_t busy_with LK_GUARDED; /**< lk_busy */
    uint8_t events LK_GUARDED;    /**< LK_WOKEN, ... */
    bool interrupting LK_GUARDED; /**< somebody is inside driver.interrupt for it */
    bool unconfirmed LK_GUARDED;  /**< a renewal was asked for and has not been answered */
    bool late LK_GUARDED;         /**< counted in renewals_late since the last confirmation */
    bool tried LK_GUARDED;        /**< not plain: an attempt came to nothing */
    bool shut LK_GUARDED;         /**< a shared grant: nobody comes to ride on it any more */
    int64_t extended LK_GUARDED;  /**< an event: until when lease_extended said; 0: it didn't */
    int64_t shortened
        LK_GUARDED; /**< the same of lease_shortened, until when at most; LOCKER_NEVER: it didn't */
    locker_claim pub;
    _Alignas(16) char data[]; /**< the driver's */
};

static inline lk_claim *lk_claim_of(locker_claim *pub)
{
    return LK_CONTAINER(pub, lk_claim, pub);
}

#define LK_NOT_IN_HEAP UINT32_MAX

/** A place in locker.heap. The time stands here, so that ordering leases touches none of them. */
typedef struct {
    int64_t at; /**< when the keeper has to look at the lease */
    lk_claim *claim;
} lk_due;

/** What the call that watches the driver's descriptor does. */
typedef enum {
    LK_LEADER_AWAKE = 0,
    LK_LEADER_SLEEPS, /**< it is in its poll */
    LK_LEADER_WOKEN   /**< the same, and leader_wakeup_fd was written and not yet read */
} lk_leading;

/** A lock call in flight. Lives on its thread's stack. */
struct lk_wait {
    pthread_cond_t cond;            /**< made when the call first sleeps */
    bool sleeps;                    /**< cond is made. Changes under locker.mutex */
    lk_list link LK_GUARDED;        /**< in locker.waits */
    lk_claim *claim;                /**< what it waits for */
    locker_cancel *cancel;          /**< NULL: none */
    lk_list cancel_link LK_GUARDED; /**< in locker.cancelable, if it has one */
};

/* Members stand by what they are for, and there is one locker where there are many claims: 40 bytes are no matter. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct locker {
    locker_services services; /**< first member: how the services find their locker. Constant */
    /* constant after open */
    const locker_driver *driver; /**< our copy of the table, `table` */
    const locker_driver *given;  /**< the table itself */
    locker_driver table;
    locker_semantics semantics; /**< our copy of the driver's */
    void *self;                 /**< the driver's instance */
    locker_clock clock;
    char *owner;   /**< the default label */
    char *service; /**< the service as a URI without user and password */
    char *origin;  /**< what named the service, for messages */
    int64_t ttl_ns;
    int64_t command_timeout_ns;
    locker_log_fn log;
    void *log_user;
    locker_log_level log_level;
    pid_t pid;                 /**< who opened it */
    _Atomic(char *) fork_page; /**< one page that a fork's child sees wiped: 1 in our process */
    int epoll_fd;              /**< what the keeper sleeps on */
    int keeper_wakeup_fd;      /**< wakes it */
    int timer_fd;              /**< timerfd: wakes it at timer_at. -1: the clock's poll does */
    int64_t timer_at;          /**< what timer_fd is set to; -1: it has expired. The keeper's own */
    int driver_fd;             /**< the driver's descriptor, or -1 */
    int leader_fd; /**< what the leader sleeps on: driver_fd, leader_wakeup_fd. -1: there is never one */
    int leader_wakeup_fd; /**< wakes it */
    pthread_t keeper;
    /** The thread that runs callbacks: the keeper, after it the closer. Relaxed: a thread asks whether it is itself. */
    _Atomic(pthread_t) calls_back;
    _Atomic bool out_of_reach; /**< the driver said so. Read without the mutex by state */
    /** Less one for each handle freed; closing adds those that were made, and whoever then comes to 0 frees the locker.
     * acq_rel: what the others did is done. */
    _Atomic int64_t owed;

    lk_mutex mutex;
    pthread_cond_t changed;       /**< lk_await_unlocking() */
    uint32_t awaiting LK_GUARDED; /**< threads that wait for that */
    bool closing LK_GUARDED;
    bool stop LK_GUARDED;           /**< the keeper should end */
    bool attend LK_GUARDED;         /**< dispatch is wanted */
    bool dispatching LK_GUARDED;    /**< a thread is inside driver.dispatch */
    lk_wait *leader LK_GUARDED;     /**< the call that watches driver_fd; NULL: the keeper does */
    lk_leading leading LK_GUARDED;  /**< what the leader does */
    int64_t dispatch_at LK_GUARDED; /**< when dispatch wants to be called at the latest */
    int64_t keeper_wakes_at
        LK_GUARDED;               /**< when the keeper means to wake up by itself; 0: it is awake, or woken */
    uint32_t calls LK_GUARDED;    /**< calls in flight */
    uint64_t handles LK_GUARDED;  /**< ever made */
    lk_table keys LK_GUARDED;     /**< those in use */
    lk_list held LK_GUARDED;      /**< granted and releasing claims */
    lk_list lost LK_GUARDED;      /**< lost claims, for the keeper */
    lk_list log_lines LK_GUARDED; /**< to be told */
    uint32_t log_count LK_GUARDED; /**< how many are there */
    uint64_t log_lost LK_GUARDED;  /**< how many were lost since any was told */
    lk_list waits LK_GUARDED;      /**< the calls that wait */
    lk_list cancelable LK_GUARDED; /**< those with a cancel; the keeper watches what these have */
    lk_due *heap LK_GUARDED;       /**< leases, by when they are due */
    size_t heap_len LK_GUARDED, heap_cap LK_GUARDED;
    size_t heap_reserved LK_GUARDED; /**< places promised to calls in flight */
    locker_statistics stats LK_GUARDED;
};

static inline locker *lk_locker_of(const locker_services *services)
{
    return (locker *)(uintptr_t)services;
}

static inline int64_t lk_now(const locker *l)
{
    return l->clock.now(l->clock.context);
}

/* ---- services.c, stats.c, handle.c */
/** What drivers call. */
extern const locker_services lk_services;
/** Count a time in a distribution. */
void lk_histogram_add(locker_histogram *h, int64_t ns);
/** Withdraw what was lost, and tell its handles. By the keeper, or the closer after it. */
void lk_losses_tell_unlocking(locker *l) LK_REQUIRES(l->mutex);

/* ---- log.c: lines for the application's log callback */
/* For drivers, from any thread, also with their own locks held: locker_services tells what they do. */
bool lk_log_wanted(const locker_services *svc, locker_log_level level);
void lk_log(const locker_services *svc, locker_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Tell what is kept now, and how many lines were lost. By the opener, the keeper and the closer, one after the other. */
void lk_log_tell_unlocking(locker *l) LK_REQUIRES(l->mutex);
/** Return true if there is something to tell. */
bool lk_log_waits_locked(const locker *l) LK_REQUIRES(l->mutex);

/* ---- cancel.c: ending waits from outside */
/** Let the keeper watch the cancel of a call. False: the system lacks something. */
bool lk_cancel_watch_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
void lk_cancel_unwatch_locked(locker *l, lk_wait *wait) LK_REQUIRES(l->mutex);
/** Wake up calls that wait: all of them (cancel NULL: closing) or those with this cancel. By the keeper or the closer. */
void lk_interrupt_unlocking(locker *l, const locker_cancel *cancel) LK_REQUIRES(l->mutex);
