/*
 * internal.h: core's own structures. Core is what is the same for every service; it knows drivers only
 * through driver.h.
 *
 *   lock.c         a lock call; contend.c: its waiting and its attempts
 *   handle.c       unlock, and what a handle is asked
 *   queue.c        keys, the local FIFO of each, promotion
 *   lease.c        deadlines, and the services that drivers call
 *   keeper.c       the keeper thread: renewal, loss, cancelling, dispatch
 *   keeper_heap.c  which lease is due next
 *   seat.c         who gives the driver its turns: the keeper, or a caller that waits
 *   locker.c       making a locker, the frame of a call; close.c: closing
 *   open.c         the ways to open; config*.c and params.c: URI, profile, parameters
 *   registry.c     the drivers that there are; modules.c: those that are modules; description.c: what is told
 * of one
 *
 * One mutex, locker.mutex, guards everything below that doesn't say otherwise. Lock order: a driver's locks,
 * then locker.mutex, then nothing. It is never held across a driver's operation, a callback or a system call
 * that can block.
 */
#ifndef LK_INTERNAL_H
#define LK_INTERNAL_H

#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

#include <locker/driver.h>

#define LK_MS INT64_C(1000000)
#define LK_S  INT64_C(1000000000)

typedef struct lk_claim lk_claim;
typedef struct lk_key lk_key;
typedef struct lk_wait lk_wait;

/** Where a claim stands. Changes under locker.mutex. */
typedef enum lk_phase {
    LK_QUEUED,     /**< in its key's local FIFO; the driver has not seen it */
    LK_CONTENDING, /**< being attempted, or enrolled and waiting */
    LK_GRANTED,    /**< held */
    LK_RELEASING,  /**< its owner is in release or pass */
    LK_LOST,       /**< lost; the keeper withdraws it and tells the handles */
    LK_GONE        /**< the driver has let go of it */
} lk_phase;

/** The operation of the driver that is inside with a claim: one at a time, but for interrupt, which may
 * accompany acquire. See "A claim, step by step" in ARCHITECTURE.md. */
typedef enum lk_busy {
    LK_IDLE,
    LK_IN_ACQUIRE,
    LK_IN_PASS, /**< as the receiving side */
    LK_IN_RENEW,
    LK_IN_RELEASE /**< release or withdraw, or pass as the giving side */
} lk_busy;

/** What came for a claim while it could not be acted on. */
enum {
    LK_WOKEN = 1u << 0,    /**< another attempt may succeed */
    LK_CANCELED = 1u << 1, /**< the call that waits for it has to end */
    LK_LOST_IT = 1u << 2,  /**< the driver said that this grant is lost */
    LK_LOST_ALL = 1u << 3  /**< the driver said that all are: whether this one is among them is not known */
};

/** The closure that unlocks. The first handle of a grant lives in its claim; those that enter again are
 * allocated. */
struct locker_handle {
    locker *l;              /**< counted */
    lk_claim *claim;        /**< counted */
    locker_handle *sibling; /**< next handle of the claim */
    locker_lost_fn on_lost;
    void *user;
    _Atomic int lost_fd;   /**< eventfd, or -1; written under the mutex */
    _Atomic bool unlocked; /**< by the user or by close; written under the mutex */
    bool closed;           /**< it was locker_close() that unlocked */
    bool in_callback;      /**< the keeper runs on_lost */
    bool told;             /**< on_lost has run, or will not */
    bool freed;            /**< freed inside its own callback */
};

/** A key in use in this process. It lives in the claim that came first; all others of that key point to
 * it. */
struct lk_key {
    lk_key *chain;          /**< next in the hash bucket */
    lk_claim *holder;       /**< granted, releasing, or lost and not yet withdrawn */
    lk_claim *contender;    /**< the one that the driver has, when the service has no queue */
    lk_claim *first, *last; /**< the local FIFO, likewise */
    int64_t passing_since;  /**< when the service granted what has been handed over locally since */
    uint32_t passed;        /**< how often it was handed over since */
    uint32_t users;         /**< claims that point here */
    bool away;              /**< the driver's latest answer to any of ours: the service is out of reach */
};

/** Core's part of a claim; the driver's bytes follow `pub`, then the key's text. */
struct lk_claim {
    lk_key *key;           /**< NULL: none yet */
    lk_key own_key;        /**< when it was the key's first claim; it lasts as long as the key has users */
    lk_claim *prev, *next; /**< in key's FIFO, in locker.held, or (next alone) in locker.lost */
    locker_handle first_handle;  /**< the call's own; unused when it entered another claim again */
    locker_handle *handles;      /**< handles that refer to it */
    lk_wait *wait;               /**< the call that waits for it; NULL once granted */
    const char *lost_why;        /**< static text; NULL: the deadline passed */
    _Atomic int64_t valid_until; /**< D. Written under the mutex, read without: one number, relaxed order is
                                    enough, see lk_claim_state() */
    _Atomic int64_t suspect_at;  /**< SUSPECT from then on; likewise */
    uint32_t heap_at;            /**< place in locker.heap, LK_NOT_IN_HEAP */
    uint32_t refs;               /**< handles, plus one until the driver has let go and the call is over */
    uint32_t open_handles;       /**< handles not yet unlocked: the re-entry count */
    _Atomic uint8_t phase;       /**< lk_phase. Written under the mutex; handles read it without, one flag */
    _Atomic bool alone; /**< one handle is all that refers to it: freed without the mutex. Released by
                           who unlocked, acquired by who frees */
    char *owner;        /**< who may enter again; NULL: nobody. pub.owner is what show prints */
    uint8_t busy_with;  /**< lk_busy */
    uint8_t events;     /**< LK_WOKEN, ... */
    bool interrupting;  /**< somebody is inside driver.interrupt for it */
    bool unconfirmed;   /**< a renewal was asked for and has not been answered */
    bool late;          /**< counted in renewals_late since the last confirmation */
    int64_t extended;   /**< an event: until when lease_extended said; 0: it didn't */
    _Alignas(16) locker_claim pub;
};

#define LK_NOT_IN_HEAP UINT32_MAX

/** A place in locker.heap. The time stands here, so that ordering leases touches none of them. */
typedef struct lk_due {
    int64_t at; /**< when the keeper has to look at the lease */
    lk_claim *claim;
} lk_due;

static inline lk_claim *lk_claim_of(locker_claim *pub)
{
    return (lk_claim *)(void *)((char *)pub - offsetof(lk_claim, pub));
}

/** A lock call in flight. Lives on its thread's stack. */
struct lk_wait {
    pthread_cond_t cond;   /**< made when the call first sleeps */
    bool sleeps;           /**< cond is made; guarded by the mutex */
    lk_wait *prev, *next;  /**< in locker.waits */
    lk_claim *claim;       /**< what it waits for */
    locker_cancel *cancel; /**< NULL: none */
};

/** A cancel that calls in flight use, registered with the keeper. */
typedef struct lk_cancel_use {
    struct lk_cancel_use *next;
    locker_cancel *cancel;
    uint32_t users;
} lk_cancel_use;

struct locker {
    locker_services services; /**< first member: how the services find their locker. Constant */
    /* constant after open */
    const locker_driver *driver;
    void *self; /**< the driver's instance */
    const locker_clock *clock;
    char *owner; /**< the default label */
    int64_t ttl_ns;
    int64_t command_timeout_ns;
    locker_log_fn log;
    void *log_user;
    locker_log_level log_level;
    pid_t pid;                 /**< who opened it */
    _Atomic(char *) fork_page; /**< one page that a fork's child sees wiped: 1 in our process */
    size_t fork_page_size;
    int epoll_fd;     /**< what the keeper sleeps on */
    int kick_fd;      /**< eventfd: wakes it */
    int timer_fd;     /**< timerfd: wakes it at timer_at. -1: the clock's poll does */
    int64_t timer_at; /**< what timer_fd is set to; -1: it has expired. The keeper's own */
    int driver_fd;    /**< the driver's descriptor, or -1 */
    int seat_fd;      /**< what the caller in the seat sleeps on: driver_fd, rouse_fd. -1: there is no seat */
    int rouse_fd;     /**< eventfd: wakes it */
    pthread_t keeper;
    _Atomic(pthread_t) calls_back; /**< the thread that runs callbacks: the keeper, and when that has ended,
                                      the one that closes. Relaxed: a thread asks only whether it is itself */

    pthread_mutex_t mutex;  /**< guards all that follows */
    pthread_cond_t changed; /**< calls == 0; an operation, interrupt, dispatch or callback has ended */
    uint32_t awaiting;      /**< threads that wait for that */
    bool keeper_runs;
    bool closing;
    bool stop;                 /**< the keeper should end */
    bool attend;               /**< dispatch is wanted */
    bool kicked;               /**< kick_fd was written and not yet read */
    bool dispatching;          /**< a thread is inside driver.dispatch */
    lk_wait *seat;             /**< the call that watches driver_fd; NULL: the keeper does */
    bool seat_sleeps;          /**< it is in its poll */
    bool roused;               /**< rouse_fd was written and not yet read */
    int64_t dispatch_at;       /**< when dispatch wants to be called at the latest */
    _Atomic bool out_of_reach; /**< the driver said so. Read without the mutex by state: one flag, relaxed */
    uint32_t calls;            /**< calls in flight */
    uint64_t handles;          /**< ever made */
    _Atomic int64_t owed; /**< less one for each handle freed; closing adds those that were made, and whoever
                               then comes to 0 frees the locker. acq_rel: what the others did is done */
    int64_t keeper_wakes_at; /**< when the keeper means to wake up by itself */
    lk_key **buckets;        /**< the keys in use, by hash */
    size_t bucket_count;     /**< a power of two */
    size_t key_count;
    lk_claim *held;             /**< granted and releasing claims */
    lk_claim *lost, **lost_end; /**< for the keeper */
    lk_wait *waits;
    lk_cancel_use *cancels;
    lk_due *heap; /**< leases, by when they are due */
    size_t heap_len, heap_cap;
    size_t heap_reserved; /**< places promised to calls in flight */
    locker_statistics stats;
};

/* What each call does a few times over is in this header: it is a part of what a lock in memory takes. */

/* ---- errors */
static inline locker_status lk_ok(locker_error *err)
{
    if (err != NULL) {
        err->status = LOCKER_OK;
        err->os_error = 0;
        err->text[0] = '\0';
    }
    return LOCKER_OK;
}

/* ---- a thread that is canceled (pthread_cancel). Inside a call it would end with the mutex locked, or with
 * a wait on its stack that others rouse. So each public function that may block, or sleep in the kernel,
 * begins with LK_NO_CANCEL, which holds it back to its end. */
static inline int lk_cancel_hold(void)
{
    int before;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void lk_cancel_restore(const int *before)
{
    (void)pthread_setcancelstate(*before, NULL);
}

#define LK_NO_CANCEL                                                                                         \
    int lk_cancel_before __attribute__((cleanup(lk_cancel_restore), unused)) = lk_cancel_hold()

/* ---- clock.c */
static inline int64_t lk_now(const locker *l)
{
    return l->clock->now(l->clock->context);
}

/** a + b, LOCKER_NEVER where that would overflow or a is LOCKER_NEVER. b must not be negative. */
static inline int64_t lk_later(int64_t a, int64_t b)
{
    return a > LOCKER_NEVER - b ? LOCKER_NEVER : a + b;
}

/** A timer for the keeper's epoll, -1 (errno) where it can't be had or the clock is not the system's. It
 * counts a stop of the process and a suspend of the machine, which a wait for the time that is left would
 * not. */
int lk_timer_new(const locker_clock *clock);
/** Have it expire at `at`; LOCKER_NEVER: not at all. */
void lk_timer_set(int fd, int64_t at);

static inline int64_t lk_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- written under the mutex, and read without by who asks for a state: single flags, so relaxed. Plain
 * assignments would be of the strictest order, each as dear as taking a mutex. */
static inline void lk_phase_set_locked(lk_claim *claim, lk_phase phase)
{
    atomic_store_explicit(&claim->phase, (uint8_t)phase, memory_order_relaxed);
}

static inline void lk_unlocked_set_locked(locker_handle *handle)
{
    atomic_store_explicit(&handle->unlocked, true, memory_order_relaxed);
}

/* ---- locker.changed: told only when somebody waits, which is seldom. The caller holds the mutex */
static inline void lk_await_locked(locker *l)
{
    l->awaiting++;
    (void)pthread_cond_wait(&l->changed, &l->mutex);
    l->awaiting--;
}

static inline void lk_changed_locked(locker *l)
{
    if (l->awaiting > 0)
        (void)pthread_cond_broadcast(&l->changed);
}

/* ---- the driver's operations with a claim, one at a time. The caller holds the mutex */
/** Wait until none is inside. */
static inline void lk_busy_wait_locked(locker *l, const lk_claim *claim)
{
    while (claim->busy_with != LK_IDLE)
        lk_await_locked(l);
}

/** One begins, once none is inside. What is noted from here on is about what acquire and pass come to. The
 * others' claims are told directly. */
static inline void lk_busy_begin_locked(locker *l, lk_claim *claim, lk_busy with)
{
    lk_busy_wait_locked(l, claim);
    claim->busy_with = (uint8_t)with;
    if (with == LK_IN_ACQUIRE || with == LK_IN_PASS) {
        claim->events &= LK_CANCELED;
        claim->extended = 0;
    }
}

/** It has returned, and interrupt, if it came, too. */
static inline void lk_busy_end_locked(locker *l, lk_claim *claim)
{
    while (claim->interrupting)
        lk_await_locked(l);
    claim->busy_with = LK_IDLE;
    lk_changed_locked(l);
}

/* ---- locker.c */
/** Begin a call: refuses in a fork's child, on the keeper's thread and when closing. OK: lk_leave() must
 * follow. */
locker_status lk_enter(locker *l, const char *what, locker_error *err);
void lk_leave(locker *l);
static inline void lk_leave_locked(locker *l)
{
    if (l->clock->done != NULL)
        l->clock->done(l->clock->context);
    if (--l->calls == 0)
        lk_changed_locked(l);
}
/** Whether a call may begin at all: refuses in a fork's child and on the keeper's thread. */
locker_status lk_admit(const locker *l, const char *what, locker_error *err);
/** In a fork's child. */
static inline bool lk_forked(const locker *l)
{
    return l->fork_page != NULL ? *l->fork_page == 0 : l->pid != getpid();
}
/** On the thread that runs callbacks, where nothing may wait for the service. */
static inline bool lk_in_callback(const locker *l)
{
    return pthread_equal(atomic_load_explicit(&l->calls_back, memory_order_relaxed), pthread_self());
}
/** One handle less. The caller doesn't hold the mutex. */
void lk_handle_gone(locker *l);
/** The user's reference goes; calls can begin no more. The caller doesn't hold the mutex. */
void lk_user_gone(locker *l);
locker_status lk_check_key(const locker *l, const char *key, size_t *length, locker_error *err);
locker_status lk_check_label(const char *owner, const char *what, locker_error *err);

/* ---- queue.c: the caller holds the mutex in all of these */
enum { LK_FIRST_BUCKETS = 64 };
/** The key that is spelled as that of the claim; NULL when it is not in use. */
lk_key *lk_key_find_locked(const locker *l, const locker_claim *of);
/** Find the claim's key, or make it. */
void lk_key_use_locked(locker *l, lk_claim *claim);
/** One claim less. Frees the one that the key lived in, when it waited for that. */
void lk_key_drop_locked(locker *l, lk_claim *claim);
void lk_fifo_append_locked(lk_claim *claim);
void lk_fifo_remove_locked(lk_claim *claim);
/** Nobody contends or holds: let the first of the FIFO try. */
void lk_promote_locked(locker *l, lk_key *key);
void lk_held_add_locked(locker *l, lk_claim *claim);
void lk_held_remove_locked(locker *l, lk_claim *claim);

/* ---- handle.c */
/** Release a grant in the background, without an answer. The caller holds the mutex, which is released
 * meanwhile. */
void lk_let_go_locked(locker *l, lk_claim *claim);
/** The keeper has told the handle of its loss: free it if it was freed meanwhile. The caller holds the
 * mutex. */
void lk_handle_told_locked(locker *l, locker_handle *held);

/* ---- claim.c */
/** Why it was lost, for people. Static text. */
const char *lk_lost_why(const lk_claim *claim);
/** Zeroed memory, or NULL. */
void *lk_zalloc(size_t size);
lk_claim *lk_claim_new(const locker *l, const char *key, size_t key_len);
/** Drop one reference. The caller holds the mutex. */
void lk_claim_unref_locked(locker *l, lk_claim *claim);
/** The driver has let go of a claim that was held: drop its reference, and see whether a single handle is
 * left. The caller holds the mutex. */
void lk_claim_over_locked(locker *l, lk_claim *claim);
/** Free a claim that is alone. */
void lk_claim_free(const locker *l, lk_claim *claim);
locker_state lk_claim_state(const locker *l, const lk_claim *claim);
/** Have the driver withdraw; the mutex is released meanwhile. To the driver the claim is a new one then. The
 * caller holds the mutex. */
void lk_withdraw_locked(locker *l, lk_claim *claim);

/* ---- contend.c */
/** Wake the call up, if it sleeps; NULL is allowed. The caller holds the mutex. */
void lk_rouse_locked(locker *l, lk_wait *wait);
/** The driver has granted: enter it into the held list and the keeper, unless what came meanwhile says that
 * the grant proves nothing. False: it does, the driver has withdrawn, and the claim is as before. The caller
 * holds the mutex. */
bool lk_grant_locked(locker *l, lk_claim *claim, int64_t now);

/* ---- lease.c: the caller holds the mutex in the _locked ones */
void lk_lease_start_locked(locker *l, lk_claim *claim, int64_t now);
/** The keeper came to a lease whose time it is; true: renew it. */
bool lk_lease_due_locked(locker *l, lk_claim *claim, int64_t now);
void lk_lose_locked(locker *l, lk_claim *claim);
/** Whether the claim is lost, by its deadline too. */
static inline bool lk_lease_over_locked(locker *l, lk_claim *claim, int64_t now)
{
    if (claim->phase == LK_GRANTED && now >= atomic_load_explicit(&claim->valid_until, memory_order_relaxed))
        lk_lose_locked(l, claim);
    return claim->phase == LK_LOST;
}
extern const locker_services lk_services;

/* ---- keeper_heap.c: the caller holds the mutex */
bool lk_heap_reserve_locked(locker *l);
static inline void lk_heap_unreserve_locked(locker *l)
{
    l->heap_reserved--;
}
void lk_heap_set_locked(locker *l, lk_claim *claim, int64_t at);
void lk_heap_remove_locked(locker *l, lk_claim *claim);

/* ---- seat.c: the caller holds the mutex in the _locked ones */
/** 0, or an errno. */
int lk_seat_open(locker *l);
void lk_seat_close(locker *l);
/** One call of driver.dispatch, with the mutex released meanwhile. Nobody else may be inside. */
void lk_dispatch_locked(locker *l);
/** Take the seat if it is free. Whether the call has it. */
bool lk_seat_take_locked(locker *l, lk_wait *wait);
/** Give it back to the keeper, if the call has it. */
void lk_seat_leave_locked(locker *l, const lk_wait *wait);
/** Wake the call up if it has the seat and sleeps there. False: it has not the seat. */
bool lk_seat_rouse_locked(locker *l, const lk_wait *wait);
/** The call that has the seat sleeps until the driver's descriptor is readable, until `until`, or until
 * roused, and gives the driver its turn. The mutex is released meanwhile. */
void lk_seat_sleep_locked(locker *l, int64_t until);

/* ---- keeper.c */
int lk_keeper_start(locker *l);
void lk_keeper_stop(locker *l);
/** Withdraw what was lost and tell its handles. Keeper, or closer after it; the caller holds the mutex. */
void lk_lost_locked(locker *l);
/** Wake the keeper up. The caller holds the mutex. */
void lk_kick_locked(locker *l);
/** Tell calls that wait: all of them (cancel NULL: closing) or those with this cancel. Keeper or closer. */
void lk_interrupt(locker *l, const locker_cancel *cancel);

/* ---- cancel.c */
struct locker_cancel {
    int fd;            /**< eventfd, readable once fired */
    atomic_bool fired; /**< release on firing, acquire on reading: a call that sees it has also seen what came
                          before */
};
/** Let the keeper watch the cancel of a call; 0 or an errno. The caller holds the mutex. */
int lk_cancel_watch_locked(locker *l, locker_cancel *cancel);
void lk_cancel_unwatch_locked(locker *l, locker_cancel *cancel);

/* ---- stats.c */
void lk_histogram_add(locker_histogram *h, int64_t ns);

/* ---- config.c and its neighbours */
typedef struct lk_config lk_config;
struct lk_config {
    const locker_driver *driver;
    char *scheme, *user, *password, *path, *name_space, *owner;
    locker_host *hosts;
    size_t host_count;
    char **names, **texts; /**< parameters as given */
    size_t param_count;
    locker_value *values; /**< one for each of driver->params */
    int64_t ttl_ns, connect_timeout_ns, command_timeout_ns, cleanup_ns;
};
void lk_config_clear(lk_config *config);
/** Parse a URI into config. driver NULL: the scheme's. */
locker_status lk_config_uri(lk_config *config, const char *uri, const locker_driver *driver,
                            locker_error *err);
/** Read a profile into config. */
locker_status lk_config_profile(lk_config *config, const char *file, const char *name, locker_error *err);
/** The text if it is a word of a-z, '_' and '+', else "(not shown)": it may be a password at a wrong
 * place. */
const char *lk_config_word(const char *text);
/** Add one parameter as text; a second one of that name is refused. */
locker_status lk_config_add(lk_config *config, const char *name, const char *text, locker_error *err);
locker_status lk_config_add_host(lk_config *config, const char *text, size_t length, locker_error *err);
/** Check the parameters against the tables, fill values, read the password file. */
locker_status lk_config_finish(lk_config *config, const locker_options *options, locker_error *err);
char *lk_copy(const char *text, size_t length);

/* ---- params.c */
extern const locker_param lk_common_params[];
enum {
    LK_COMMON_TTL,
    LK_COMMON_NAMESPACE,
    LK_COMMON_OWNER,
    LK_COMMON_CONNECT,
    LK_COMMON_COMMAND,
    LK_COMMON_CLEANUP,
    LK_COMMON_PASSWORD_FILE,
    LK_COMMON_COUNT
};
locker_status lk_param_parse(const locker_param *param, const char *text, locker_value *value,
                             locker_error *err);

/** Open with a finished configuration. */
locker_status lk_open(lk_config *config, const locker_options *options, const locker_clock *clock,
                      locker **out, locker_error *err);

#endif
