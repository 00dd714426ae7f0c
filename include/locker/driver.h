/* driver.h: what a lock service's driver is to core. For authors of drivers; it promises less stability than
 * locker.h.
 *
 * The life of a driver instance
 * -----------------------------
 *   open ─▶ (acquire, withdraw, begin_release, release, pass, renew, keep_over_exec, dispatch, interrupt, show, break_lock,
 *             ping)* ─▶ close
 *                                                                            (in a fork's child: abandon)
 *
 * The life of a claim: one caller's claim to one key, a request until it is granted, then a grant
 * ------------------------------------------------------------------------------------------------
 *            ┌─────────────── wake, or retry_at ──────────────┐
 *   (new) ─▶ acquire ── BUSY, enrolled ── core waits ─────────┘
 *               │  └─ any other failure, or core stops waiting ─▶ withdraw ─▶ (gone)
 *               └─ OK: a grant ── renew* ─▶ release ─▶ (gone)
 *                              ├─ lost: lease_lost, a greater token granted, or core saw valid_until pass ─▶ withdraw ─▶ (gone)
 *                              └─ pass to the next claim of this locker ─▶ (gone)
 * A claim that is gone may come again, with the driver's bytes zeroed: to the driver it is a new one.
 * Core calls exactly one of withdraw, release or pass (as the giving side) for each claim that acquire or
 * pass ever saw, and never two operations on one claim at once, but for interrupt (during acquire) and
 * renew's answers, which may come at any time before it is gone.
 *
 * An operation's `err` may be NULL. What answers anything but OK or BUSY fills it, by locker_error_set().
 *
 * A driver never waits for another holder: acquire makes one attempt. Core does the waiting: deadlines,
 * cancellation, the FIFO inside the process, time-outs, renewal times, LOST by the local deadline.
 *
 * Threads and locks
 * -----------------
 * Core holds no lock when it calls an operation. Drivers take their own locks; none that an operation needs
 * which may not block is held across blocking I/O. The services (struct locker_services) may be called from
 * any thread, also with a driver's lock held: they take core's locks for a moment, never block and never call
 * the driver back. Lock order: driver's, then core's.
 *
 *   operation    called by                    may block                       on one claim at once with
 *   open         the opener                   until connect_timeout           -
 *   close        the closer, last, alone      at most cleanup_ns              -
 *   abandon      a fork's child               no; takes no lock               -
 *   acquire      any caller's thread          until claim->attempt_until      interrupt
 *   interrupt    keeper, closer               no                              acquire
 *   withdraw     any thread, keeper too       no                              -
 *   release      any caller's thread          until `until`                   -
 *   begin_release  any caller's thread        no                              -
 *   pass         any caller's thread          no                              -
 *   keep_over_exec  any caller's thread       no                              -
 *   renew        keeper                       no                              -
 *   dispatch     keeper, or a caller that     no                              -
 *                waits: one at a time
 *   show, break_lock, ping   any caller's     until `until`                   - */
#ifndef LOCKER_DRIVER_H
#define LOCKER_DRIVER_H

#include <pthread.h>

#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Grows when a contract below changes so that a driver that was written before would be wrong; core refuses a driver of
 * another number. What is only appended leaves it: tables, and what core gives to drivers, tell their size. */
enum { LOCKER_DRIVER_ABI = 3 };

/** A time that never comes. */
#define LOCKER_NEVER INT64_MAX

/* ------------------------------------------------------------------ time ---- */
typedef struct locker_claim locker_claim;

/** Time inside is int64_t ns of one clock, deadlines are absolute. The system's clock is CLOCK_BOOTTIME,
 * because a lease goes on running while the machine is suspended. A mock's clock is moved by hand. */
typedef struct locker_clock {
    size_t size; /**< sizeof(locker_clock) */
    /** The time now, in ns. Any thread, no blocking. */
    int64_t (*now)(void *context);
    /** As pthread_cond_timedwait: waits for `cond` until the time `until` (LOCKER_NEVER: no end) or a
     * spurious wake-up. `cond` must have been made by locker_cond_init(). */
    void (*wait)(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until);
    /** Waits until `fd` is readable, or the time `until`, or a spurious wake-up. */
    void (*poll)(void *context, int fd, int64_t until);
    void *context;
    const struct locker_clock_hooks
        *hooks; /**< for a clock that is moved by hand (instrument.h); else NULL */
} locker_clock;

/** The system's clock. Static. */
LOCKER_API const locker_clock *locker_system_clock(void);

/** Make a condition variable that locker_clock.wait can wait for. 0, or an errno. */
LOCKER_API int locker_cond_init(pthread_cond_t *cond);

/* ------------------------------------------------------------------ claims ---- */
/** One caller's claim to one key. Core makes it, with `claim_size` zeroed bytes of the driver's own. */
struct locker_claim {
    /* set by core, constant for the claim's life */
    const char *key;   /**< 1 to 255 bytes of UTF-8, NUL-terminated */
    size_t key_len;    /**< its length in bytes */
    uint32_t key_hash; /**< locker_key_hash() of it */
    const char *owner; /**< the holder's label, NUL-terminated */
    void *data;        /**< the driver's own bytes, aligned for any type */
    int64_t ttl_ns;    /**< the lease time asked for */
    bool will_wait;    /**< after BUSY it waits: enrol it. False: a try */
    bool renewed;      /**< core will renew it */
    /* set by core before each acquire */
    bool has_waited;       /**< it did already: in core's FIFO, or after an attempt */
    int64_t asked_at;      /**< when this attempt began: not after anything that it sends */
    int64_t attempt_until; /**< the attempt must have returned by then */

    /* set by the driver when acquire answers OK, or before, when one that waits is granted; by pass for the receiver */
    uint64_t token; /**< fencing token; 0: none */
    /** The local deadline D, counted from before the request was sent: at most asked_at + ttl_ns, but for a
     * renewed claim of a driver without `renew`, whose session may last longer. LOCKER_NEVER: no lease, and
     * only where semantics.leases is false. */
    int64_t valid_until;
    /** By a driver that knows when it made the grant; 0: core takes the time when it has returned. */
    int64_t granted_at;

    /** When core makes another attempt, without a wake, after BUSY or UNAVAILABLE. Core sets it to
     * LOCKER_NEVER before each acquire, the driver to a time, now at least. NEVER: it makes none, so BUSY
     * waits for a wake, and UNAVAILABLE is final. */
    int64_t retry_at;

    /* set by core, constant for the claim's life */
    locker_mode mode; /**< SHARED only where semantics.shared says that the driver has it */
    int32_t permits;  /**< 0: a lock; else at most semantics.permits_most, and mode is EXCLUSIVE */

    /** Set by the driver with a shared grant: nobody waits, and it will call services.awaited when somebody does. So other
     * readers of the locker may ride on the grant. False, as core sets it before each acquire: not known. */
    bool alone;
    int32_t slot; /**< set by the driver with a permit: 0 to permits - 1, which no other holder has */
};

/** Whether the claim is to be the only one that holds its key. */
static inline bool locker_claim_is_plain(const locker_claim *claim)
{
    return claim->mode == LOCKER_EXCLUSIVE && claim->permits == 0;
}

/** A hash of a key, for tables of keys. Not the same in another process or release. */
LOCKER_API uint32_t locker_key_hash(const char *key, size_t key_len);

/* ------------------------------------------------------------------ what core gives a driver ---- */
/** Core's side of one driver instance. Valid until close returns. */
typedef struct locker_services locker_services;
struct locker_services {
    size_t size; /**< sizeof(locker_services) of the library: what lies behind is not there */
    const locker_clock *clock;

    /** Another attempt for an enrolled claim may succeed. Calling it once too often costs one attempt; a
     * claim that is being attempted right now is attempted once more if it comes out BUSY. It may come for a
     * claim that waits whose attempt ended without the service's answer (TIMEOUT, CANCELED, UNAVAILABLE),
     * since the service may have enrolled it, and may cross with the grant. */
    void (*wake)(const locker_services *svc, locker_claim *claim);

    /** The service confirmed the lease: it is ours until `until` (counted from before the confirmed request
     * was sent). Never moves a deadline back, and revives nothing that was lost. */
    void (*lease_extended)(const locker_services *svc, locker_claim *grant, int64_t until);

    /** The service said that it isn't ours any more; `why` is static text. grant NULL: all grants of this
     * instance (a session is gone), those included that an acquire or pass has made which has not returned
     * yet: core has such a grant withdrawn and asks again. After it returns core may call withdraw for the
     * grant at any time, from the keeper. */
    void (*lease_lost)(const locker_services *svc, locker_claim *grant, const char *why);

    /** The service is out of reach (true) or back (false): every grant with a lease is SUSPECT meanwhile, and
     * on `false` those whose renewal is overdue are renewed at once. */
    void (*suspect)(const locker_services *svc, bool out_of_reach);

    /** Have dispatch called soon: a descriptor or a time that it waits for has changed. Any thread. */
    void (*attend)(const locker_services *svc);

    /** Whether a message of this level goes anywhere; saves formatting it. */
    bool (*log_wanted)(const locker_services *svc, locker_log_level level);

    /** Log one line, from any thread, also with a driver's lock held: core keeps it, and tells it soon. */
    void (*log)(const locker_services *svc, locker_log_level level, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 3, 4)))
#endif
        ;

    /** Somebody waits for the key of this shared grant, which was told to be `alone`: nobody rides on it any more. */
    void (*awaited)(const locker_services *svc, locker_claim *grant);

    /** Shorten a lease that the service may end earlier than it confirmed, because its clock was set forward. The lock is ours
     * until `until` at most. A deadline never moves forward by this; the next lease_extended counts as ever. A lease that is
     * renewed is due at once. */
    void (*lease_shortened)(const locker_services *svc, locker_claim *grant, int64_t until);
};

/* ------------------------------------------------------------------ configuration ---- */
/** A parameter's value, in the order of the driver's table. */
typedef struct locker_value {
    bool given;       /**< the configuration names it; false: the default */
    int64_t number;   /**< of a number; of a duration, in ns; of a bool, 0 or 1 */
    const char *text; /**< NULL: none, number is 0 */
} locker_value;

/** One host of the URI. */
typedef struct locker_host {
    int port;         /**< 0: none given */
    const char *name; /**< a name or a literal address without brackets */
} locker_host;

/** What the URI or profile says, parsed. Valid during open only: copy what is kept. */
typedef struct locker_driver_config {
    size_t size;          /**< sizeof(locker_driver_config) of the library */
    const char *scheme;   /**< in lower case */
    const char *user;     /**< NULL: none */
    const char *password; /**< NULL: none */
    const locker_host *hosts;
    size_t host_count;
    const char *path;           /**< decoded, as in the URI, with its slash; "" when there is none */
    const char *name_space;     /**< "" when there is none */
    const char *owner;          /**< the locker's label */
    const locker_value *values; /**< one for each of driver->params, in that order */
    int64_t connect_timeout_ns; /**< bound for one connection */
    int64_t command_timeout_ns; /**< bound for one answer of the service */
    int64_t cleanup_ns;         /**< the budget of close, and of each clean-up in the background */
    int64_t ttl_ns;             /**< the locker's default lease time */
    const char *
        password_file; /**< where the password was read from, for locker_secret_read; NULL: it may not be read again */
    /** For each of `values`, if it is a LOCKER_PARAM_SECRET_FILE, what password_file is for the password. */
    const char *const *secret_files;
} locker_driver_config;

/** Read a secret again: passwords are changed while programs run, so a driver does it before each login, and goes on with the
 * last one where it can't. Blocks for the read of a regular file. Any thread. The rules about who may write the file are those
 * of open.
 * \return the first line, to be wiped and freed; NULL: it can't be read now, and `err` (may be NULL) says why. */
LOCKER_API char *locker_secret_read(const char *file, locker_error *err);

/* ------------------------------------------------------------------ the driver table ---- */
/** What a driver can do that its operations and semantics don't tell; core asks for bits, never for names. */
enum {
    /** The service queues: every claim goes to it at once, but for shared ones behind another shared one of the same
     * locker that waits already. Without: core sends one contender per key, and lets the others wait in its own FIFO; it
     * contends while others of the locker hold the key only where those share it or have permits. */
    LOCKER_CAP_QUEUE = 1u << 0,
    /** It takes a user and a password. Without: core refuses them, and doesn't look at LOCKER_PASSWORD. */
    LOCKER_CAP_AUTH = 1u << 1
};

typedef struct locker_driver locker_driver;
struct locker_driver {
    uint32_t abi;  /**< LOCKER_DRIVER_ABI */
    uint32_t size; /**< sizeof(locker_driver) */
    const char *name;
    const char *const *schemes;     /**< ended by NULL; the first is the usual one */
    const char *example;            /**< a URI */
    const char *features;           /**< one line on what the build can't do, or "" */
    uint32_t caps;                  /**< LOCKER_CAP_* */
    size_t claim_size;              /**< bytes of its own in each claim */
    int64_t ttl_min_ms, ttl_max_ms; /**< lease times that it takes; 0: no limit */
    /** What it takes beside what every driver takes. Core parses and checks it, and refuses what no table names. */
    const locker_parameter *params;
    /** For users, and core: with `leases`, grants have a valid_until, and want renewing, or their session confirmed. */
    const locker_semantics *semantics;

    /** Connect, check that the service will serve us, and make an instance. On failure nothing is left.
     * Returns OK, CONFIG, UNSUPPORTED, UNAVAILABLE, DENIED, PROTOCOL, NOMEM. */
    locker_status (*open)(const locker_driver_config *config, const locker_services *svc, void **self,
                          locker_error *err);

    /** End the instance: no claim exists any more. Clean-ups that are pending get at most cleanup_ns. */
    void (*close)(void *self);

    /** In a fork's child, instead of close: close the descriptors; send nothing, take no lock, free nothing
     * that another thread of the parent may have been using. NULL allowed: nothing is done. */
    void (*abandon)(void *self);

    /** Whether this service can take the key: OK or INVALID; comes before all else. NULL: any that core does. */
    locker_status (*check_key)(void *self, const char *key, size_t key_len, locker_error *err);

    /** One attempt. OK: a grant, token and valid_until are set. BUSY: another has it; if claim->will_wait it is
     * enrolled: wake will be called when another attempt may succeed, and retry_at may bound the wait. UNAVAILABLE
     * with a retry_at passes (a server that starts, a connection that broke: it may be up again before core looks);
     * without, it is final and ends the call, also one that was enrolled before; but while the service is out of
     * reach, as `suspect` said, core asks again each second. A try whose connection is refused is UNAVAILABLE at
     * once, not at attempt_until: nobody is there to wait for. TIMEOUT: attempt_until passed; tried again at once
     * while the call lasts. Everything else ends the lock call: CANCELED (interrupted), UNAVAILABLE, DENIED, INVALID,
     * CONFIG, PROTOCOL, NOMEM, UNSUPPORTED. Whatever the answer but OK, withdraw follows or acquire is called again;
     * so an answer whose request is still under way leaves its cleaning up to withdraw. */
    locker_status (*acquire)(void *self, locker_claim *claim, locker_error *err);

    /** An acquire that is under way for the claim, or about to begin, should return soon with CANCELED,
     * unless it is granted. No other attempt is made for the claim then. NULL: acquire never blocks long. */
    void (*interrupt)(void *self, locker_claim *claim);

    /** The claim ends without an answer to anybody: take the enrolment back, have a grant or a late grant
     * released in the background, retried for cleanup_ns at most. On return the driver has let go of the claim. */
    void (*withdraw)(void *self, locker_claim *claim);

    /** Release a grant and say what became of it. OK: with proof; LOST: it was not ours; UNKNOWN: no answer
     * by `until`, and the driver goes on in the background as withdraw does. When it returns, the driver has
     * let go of the claim. */
    locker_status (*release)(void *self, locker_claim *grant, int64_t until, locker_error *err);

    /** Hand a plain grant on to another plain claim of the same key and instance, which waits in core's FIFO and which
     * acquire has not seen, without asking the service. Sets token (greater) and valid_until (not later) of
     * `to`. OK: `from` is gone. BUSY: it can't be done now, nothing has changed, the driver has let go of
     * `to`, core releases. NULL: never. */
    locker_status (*pass)(void *self, locker_claim *from, locker_claim *to);

    /** Ask the service to extend these leases, all in one go; the answers come as lease_extended and
     * lease_lost, later, from any thread. No answer is no extension; core asks again. NULL: a session keeps
     * them, the driver extends by itself. */
    void (*renew)(void *self, locker_claim *const *grants, size_t count);

    /** A descriptor that is readable when dispatch has something to do (an epoll descriptor holds many);
     * asked once, after open. It stays the same, and is watched by the keeper, or by a caller that waits.
     * NULL: dispatch is called by attend and by time alone. */
    int (*descriptor)(void *self);

    /** Do what is due: read messages, wake, connect again, clean up. Called by the keeper, and by a caller
     * that sleeps in a lock call when the descriptor is readable; never by two threads at once. Returns when
     * it wants to be called at the latest, in the clock's ns, or LOCKER_NEVER. NULL: nothing ever is. */
    int64_t (*dispatch)(void *self);

    /** As locker_show(). info is zeroed but for -1 in what is unknown; queue and holders are malloc'ed, and go with
     * their strides. Core adds the end of a lock without renewal that the locker itself holds. */
    locker_status (*show)(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                          locker_error *err);

    /** As locker_break(): tells in `broken` whose lock it was; INVALID when nobody holds it; BUSY, by
     * locker_break_check(), when it is not the one that `only` (never NULL) names; CONFIG, where what is there is not known to be
     * a lock, unless `only` says force. Whom it looks at is whom
     * it breaks. NULL: locks can't be broken; semantics.can_break says the same. Called break_lock because
     * break is a word of C. */
    locker_status (*break_lock)(void *self, const char *key, size_t key_len, const locker_break_options *only,
                                int64_t until, locker_info *broken, locker_error *err);

    /** One round trip. */
    locker_status (*ping)(void *self, int64_t until, locker_error *err);

    const struct locker_decorator
        *decorator; /**< of one that stands before another (instrument.h); else NULL */

    /** Send the releases of several grants, and return without waiting for the answers. Core then calls release for each
     * grant, which waits for its answer: so all are in flight together. After each release, core calls begin_release again
     * with the grants that remain, on the same thread, until one grant remains. Each time, send a request for every grant
     * that has neither a request in flight nor a final answer: its connection was lost, or the server asked to be asked
     * again. So a lost connection costs all grants together one more round trip, not one for each. Return quickly when
     * there is nothing to send. What cannot be sent now is left to the next call, or to release. Between the first call
     * and a grant's release, core calls nothing else for this grant, but a new claim of the same key may be acquired.
     * NULL: core calls release for one grant after the other, all with the same `until`. */
    void (*begin_release)(void *self, locker_claim *const *grants, size_t count);

    /** Make the descriptors that the grant lives in inheritable, so that the program which this process becomes by exec
     * holds it: as locker_handle_keep_over_exec(). OK; LOST: it was not ours; UNAVAILABLE: whether it is can't be seen. The
     * claim stays a grant, whatever the answer. NULL: grants end with the process, or soon after. */
    locker_status (*keep_over_exec)(void *self, locker_claim *grant, locker_error *err);
};

/** A module exports `const locker_driver *const locker_module`, a pointer to its table, and nothing else. */
#define LOCKER_MODULE_ENTRY "locker_module"

/** The driver that serves a scheme, in *driver (NULL allowed; on failure it is NULL): as locker_open() finds it, so a
 * module is loaded, for good. Nothing is connected. A program that forks while other threads open lockers calls it
 * before: the child of a fork that falls into the loading of a module can load none. Errors: UNSUPPORTED (there is
 * none, or its module can't be used: the text says why and what to do), NOMEM, INVALID (scheme NULL). */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_driver_find(const char *scheme,
                                                              const locker_driver **driver,
                                                              locker_error *err);

/** Fill an error: status, os_error and the text (cut at its size). err NULL: nothing. Returns status. */
LOCKER_API locker_status locker_error_set(locker_error *err, locker_status status, int os_error,
                                          const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/** Whether a holder of that label and token is one that a break is about. */
LOCKER_API bool locker_break_names(const locker_break_options *only, const char *owner, uint64_t token);

/** Whether `holder`, or one of its holders, is one that a break is about: OK, or BUSY with a text that says who it is. */
LOCKER_API locker_status locker_break_check(const locker_break_options *only, const locker_info *holder,
                                            locker_error *err);

/** Finish an info for which the driver has set `holders` (malloc'ed) and `holders_len`, those of a plain lock too: what is told
 * of the first, their order, and what is not kept of a plain lock. Nobody holds it: 0. */
LOCKER_API void locker_info_settle(locker_info *info, locker_mode mode, int32_t permits);

/** CONFIG: the key is in use with so many permits (0: as a lock), and a call wants it otherwise. */
LOCKER_API locker_status locker_other_use(locker_error *err, int32_t in_use, int32_t wanted);

/** Options of locker_open_driver(). Start from LOCKER_DRIVER_OPTIONS_INIT. */
typedef struct locker_driver_options {
    size_t size;                   /**< sizeof(locker_driver_options) */
    const char *uri;               /**< for hosts, path and parameters; NULL: `scheme:` with nothing in it */
    const locker_options *options; /**< NULL: the defaults */
    const locker_clock
        *clock; /**< NULL: the system's. Copied; its context and hooks must outlive the locker. */
} locker_driver_options;

#define LOCKER_DRIVER_OPTIONS_INIT                                                                           \
    {                                                                                                        \
        sizeof(locker_driver_options), 0, 0, 0                                                               \
    }

/** Open a locker on a driver that is not built in. The table must outlive the locker, and not change. Errors: as
 * locker_open(), INVALID for a table of another ABI or without a needed operation, and CONFIG for one of a later release
 * that needs what this one doesn't have. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_driver(const locker_driver *driver,
                                                              const locker_driver_options *options,
                                                              locker **out, locker_error *err);

/** The table that a locker was opened with, and, in *self (NULL allowed), its instance: for a driver that has
 * functions of its own beside the interface. Neither blocks nor locks; the locker must be open. */
LOCKER_API const locker_driver *locker_driver_of(const locker *l, void **self);

#ifdef __cplusplus
}
#endif
#endif
