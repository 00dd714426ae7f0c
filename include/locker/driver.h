/* driver.h: the contract between core and the driver of a lock service. For authors of drivers: docs/drivers.md walks
 * through a complete driver. This interface is less stable than locker.h.
 *
 * Core is liblocker without its drivers. The operation `open` makes a driver instance, and each locker has its own. A claim
 * represents a caller that wants a key or holds it. The claim is a request until the driver grants it, and a grant
 * afterwards. A try is a request that does not wait.
 *
 * The life of a driver instance
 * -----------------------------
 *   open ─▶ (check_key, acquire, withdraw, begin_release, release, pass, renew, keep_over_exec, dispatch, interrupt, show,
 *             break_lock, ping)* ─▶ close
 *                                                                            (in a fork's child: abandon)
 *
 * The life of a claim
 * -------------------
 *            ┌─────────────── wake, or retry_at ──────────────┐
 *   (new) ─▶ acquire ── BUSY, enqueued ── core waits ─────────┘
 *               │  └─ any other failure, or core stops waiting ─▶ withdraw ─▶ (gone)
 *               └─ OK: a grant ── renew* ─▶ release ─▶ (gone)
 *                              ├─ lost, or released in the background ─▶ withdraw ─▶ (gone)
 *                              └─ pass to the next claim of this locker ─▶ (gone)
 * A grant is lost when the driver calls lease_lost, when core gets a conflicting grant with a greater token, or when core
 * sees that valid_until has passed.
 *
 * Core guarantees
 * ---------------
 *   - Core ends every claim by exactly one call: withdraw, release, or a pass that returns OK with the claim as `from`. This
 *     holds for each claim that core gave to acquire, and for each `to` of a pass that returned OK.
 *   - Two operations on the same claim never run at the same time, except interrupt with acquire. But the driver may report
 *     the answers to renew later, at any time until the claim is gone.
 *   - Core holds no lock while it calls an operation.
 *   - Core may give a claim that is gone to acquire again, with the driver's bytes zeroed. For the driver it is then a new
 *     claim.
 *   - Core does all waiting. It handles deadlines, time-outs and cancellation, keeps the FIFO of the locker's calls, decides
 *     when to renew, and declares a grant LOST at its local deadline.
 *
 * A driver must
 * -------------
 *   - Never wait for another holder. acquire makes a single attempt.
 *   - Fill `err` by locker_error_set() for every status except OK and BUSY. `err` may be NULL. acquire may also fill `err`
 *     when it returns BUSY: core quotes that text if the lock call fails.
 *   - Use its own locks. Do not hold a lock during blocking I/O if an operation that must not block needs the same lock.
 *
 * Calling the services (struct locker_services)
 * ---------------------------------------------
 * Any thread may call these functions of core, also while the thread holds a lock of the driver. They take core's locks for a
 * moment, never block, and never call the driver. Lock order: the driver's locks come before core's locks.
 *
 * Threads
 * -------
 * The keeper is the locker's own thread. "A call's thread" is any application thread inside a liblocker call. Times are in ns
 * by services.clock, and deadlines are absolute.
 *
 *   operation         called by                      may block               may run during (same claim)
 *   open              the opening thread             connect_timeout_ns      -
 *   descriptor        the opening thread, once       no                      -
 *   close             the closing thread, last,      at most cleanup_ns      -
 *                     with no other call
 *   abandon           a fork's child                 no; takes no lock       -
 *   check_key         a call's thread                no                      -
 *   acquire           a call's thread                until attempt_until     interrupt
 *   interrupt         the keeper, closing thread     no                      acquire
 *   withdraw          any thread, also the keeper    no                      -
 *   release           a call's thread                until `until`           -
 *   begin_release     a call's thread                no                      -
 *   pass              a call's thread                no                      -
 *   keep_over_exec    a call's thread                no                      -
 *   renew             the keeper                     no                      -
 *   dispatch          the keeper, or a call that     no                      -
 *                     waits; never two at once
 *   show, break_lock, ping   a call's thread         until `until`           - */
#ifndef LOCKER_DRIVER_H
#define LOCKER_DRIVER_H

#include <pthread.h>

#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Version of this contract. Core refuses a driver with another number. The number grows when a change of this file makes
 * existing drivers wrong. Appended members do not change the number, because drivers' tables and core's structs state their
 * size. */
enum { LOCKER_DRIVER_ABI = 3 };

/** A time that never comes. As a deadline, it means that there is no limit. */
#define LOCKER_NEVER INT64_MAX

/* ------------------------------------------------------------------ time ---- */
typedef struct locker_claim locker_claim;

/** A clock, with int64_t times in ns. The system's clock is CLOCK_BOOTTIME, because a lease keeps running while the machine
 * is suspended. A mock's clock is moved by hand. */
typedef struct locker_clock {
    size_t size; /**< sizeof(locker_clock) */
    /** Return the current time in ns. Any thread may call this. Does not block. */
    int64_t (*now)(void *context);
    /** Wait for `cond` as pthread_cond_timedwait() does, until the time `until` (LOCKER_NEVER: no limit). May wake up
     * spuriously. `cond` must be from locker_cond_init(). */
    void (*wait)(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until);
    /** Wait until `fd` is readable or the time is `until`. May wake up spuriously. */
    void (*poll)(void *context, int fd, int64_t until);
    void *context; /**< passed to each function */
    /** Callbacks of a clock that is moved by hand (instrument.h). NULL for other clocks. */
    const struct locker_clock_hooks *hooks;
} locker_clock;

/** Return the system's clock, which is static. */
LOCKER_API const locker_clock *locker_system_clock(void);

/** Initialize a condition variable that locker_clock.wait can wait for. Returns 0, or an errno. */
LOCKER_API int locker_cond_init(pthread_cond_t *cond);

/* ------------------------------------------------------------------ claims ---- */
/** A caller's claim to a key. Core allocates it, with `claim_size` zeroed bytes for the driver. */
struct locker_claim {
    /* Set by core, constant for the claim's life. */
    const char *key;   /**< 1 to 255 bytes of UTF-8, NUL-terminated */
    size_t key_len;    /**< length of key in bytes */
    uint32_t key_hash; /**< locker_key_hash() of key */
    const char *owner; /**< the holder's label, NUL-terminated */
    void *data;        /**< the driver's own bytes, aligned for any type */
    int64_t ttl_ns;    /**< requested lease time in ns */
    bool will_wait;    /**< True if the call waits after BUSY: the driver enqueues the claim. False: a try. */
    bool renewed;      /**< True if the lease is renewed. */
    /* Set by core before each acquire. */
    bool has_waited;       /**< True if the claim has waited in core's FIFO, or made an earlier attempt. */
    int64_t asked_at;      /**< start of this attempt, not later than the first request that it sends */
    int64_t attempt_until; /**< deadline by which acquire must return */

    /* The driver sets the next three members when it grants the claim: before acquire returns OK, or already while the claim
     * waits. For `to` of a pass, pass sets them. */
    uint64_t token; /**< fencing token; 0: none */
    /** Local deadline of the lease, counted from before the request was sent: at most asked_at + ttl_ns. A renewed claim of a
     * driver without `renew` may have a later deadline, because the session may last longer. LOCKER_NEVER means that there is
     * no lease. It is required if semantics.leases is false, and not allowed otherwise. */
    int64_t valid_until;
    /** Time of the grant, if the driver knows it; 0: core reads the clock after the operation. After an acquire that grants a
     * lease, core reads the clock in any case. */
    int64_t granted_at;

    /** After BUSY or UNAVAILABLE, the time at which core makes its next attempt even without a wake. Core sets LOCKER_NEVER
     * before each acquire. A time that the driver sets must not be in the past. If retry_at stays LOCKER_NEVER, core waits
     * for a wake after BUSY, and UNAVAILABLE is final (exception: see acquire). */
    int64_t retry_at;

    /* Set by core, constant for the claim's life. */
    locker_mode mode; /**< LOCKER_SHARED only if semantics.shared says that the driver has shared locks */
    int32_t permits;  /**< 0: a lock; otherwise 1 to semantics.permits_most, with LOCKER_EXCLUSIVE */

    /** Set by the driver when it makes a shared grant. True if the key has no waiter and the driver will call
     * services.awaited for the next waiter. While it is true, other readers of the locker may join the grant. False: the
     * driver does not know. Core sets false before each acquire. */
    bool alone;
    int32_t slot; /**< set by the driver when it grants a permit: 0 to permits - 1, unique among holders */
};

/** Return true if the claim must be the only holder of its key: it is exclusive and without permits. */
static inline bool locker_claim_is_plain(const locker_claim *claim)
{
    return claim->mode == LOCKER_EXCLUSIVE && claim->permits == 0;
}

/** Return a hash of a key of `key_len` bytes, for tables of keys. Do not store or send it: another process or release may
 * compute another value. */
LOCKER_API uint32_t locker_key_hash(const char *key, size_t key_len);

/* ------------------------------------------------------------------ services of core ---- */
/** Functions of core that a driver instance may call. Valid until close returns. */
typedef struct locker_services locker_services;
struct locker_services {
    size_t size; /**< sizeof(locker_services) of the library: an older library lacks later members */
    const locker_clock *clock;

    /** Request another attempt for an enqueued claim, because it may succeed now. A superfluous call costs an attempt. If
     * acquire is running for the claim and returns BUSY, core makes another attempt. A wake is also allowed for a waiting
     * claim that got no answer of the service to its last attempt (TIMEOUT, CANCELED, UNAVAILABLE), because the service may
     * have enqueued the claim. A wake that arrives just after the grant does no harm. */
    void (*wake)(const locker_services *svc, locker_claim *claim);

    /** Report that the service confirmed the lease. The lock is ours until the time `until`, counted from before the
     * confirmed request was sent. Never moves a deadline back, and never revives a lost lock. */
    void (*lease_extended)(const locker_services *svc, locker_claim *grant, int64_t until);

    /** Report that, by the service's answer, the lock is not ours any more. `why` is static text. `grant` NULL means that all
     * grants of this instance are lost, because a session ended. That includes the grant of an acquire or pass in progress:
     * core withdraws that grant, and its call makes another attempt. From this call on, the keeper may call withdraw for a
     * lost grant at any time. */
    void (*lease_lost)(const locker_services *svc, locker_claim *grant, const char *why);

    /** Report that the service is out of reach (true) or back (false). While it is out of reach, every grant with a renewed
     * lease is SUSPECT. When it is back, core at once renews each lease that still awaits an answer to its last renewal. */
    void (*suspect)(const locker_services *svc, bool out_of_reach);

    /** Request a call of dispatch soon, because a descriptor or a time that dispatch waits for has changed. */
    void (*attend)(const locker_services *svc);

    /** Return true if messages of this level are logged. The driver need not format other messages. */
    bool (*log_wanted)(const locker_services *svc, locker_log_level level);

    /** Log a line. Core stores the line, and soon passes it to the log callback. */
    void (*log)(const locker_services *svc, locker_log_level level, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 3, 4)))
#endif
        ;

    /** Report that the key of a shared grant with `alone` true has a waiter now. From this call on, no other reader joins the
     * grant. */
    void (*awaited)(const locker_services *svc, locker_claim *grant);

    /** Shorten a lease that the service may end earlier than it confirmed, because its clock was set forward. The lock is
     * ours at most until the time `until`. Never makes a deadline later, but a later lease_extended may do so. If the lease
     * is one that core renews, core renews it at once. */
    void (*lease_shortened)(const locker_services *svc, locker_claim *grant, int64_t until);
};

/* ------------------------------------------------------------------ configuration ---- */
/** The value of a parameter. Values are in the order of the driver's table of parameters. */
typedef struct locker_value {
    bool given;       /**< True if the configuration names the parameter. False: the value is its default. */
    int64_t number;   /**< a number; a duration in ns; a bool as 0 or 1 */
    const char *text; /**< the value as text; NULL: no value, and number is 0 */
} locker_value;

/** A host of the URI. */
typedef struct locker_host {
    int port;         /**< 0: not given */
    const char *name; /**< a name, or a literal address without brackets */
} locker_host;

/** The parsed URI or profile. Valid only during open: the driver must copy the parts that it needs later. */
typedef struct locker_driver_config {
    size_t size;          /**< sizeof(locker_driver_config) of the library */
    const char *scheme;   /**< in lower case */
    const char *user;     /**< NULL: none */
    const char *password; /**< NULL: none */
    const locker_host *hosts;
    size_t host_count;
    const char *path;           /**< decoded, with the slash of the URI; "": none */
    const char *name_space;     /**< "": none */
    const char *owner;          /**< the locker's label */
    const locker_value *values; /**< a value for each of driver->params, in that order */
    int64_t connect_timeout_ns; /**< limit for a connection */
    int64_t command_timeout_ns; /**< limit for an answer of the service */
    int64_t cleanup_ns;         /**< limit for close, and for each cleanup in the background */
    int64_t ttl_ns;             /**< the locker's default lease time */
    /** File of the password, for locker_secret_read(); NULL: the password cannot be read again. */
    const char *password_file;
    /** The files of the LOCKER_PARAM_SECRET_FILE parameters, at the same indices as `values`, each with the meaning of
     * password_file. */
    const char *const *secret_files;
} locker_driver_config;

/** Read a secret again from `file`. Passwords change while programs run. So a driver calls this before each login, and keeps
 * the last secret if the read fails. Any thread may call this. Blocks while it reads a regular file. The write permissions of
 * the file must meet the rules of locker_open().
 * Returns the first line of the file, which the caller must wipe and free. NULL: the file cannot be read now, and `err`
 * (NULL: ignored) says why. */
LOCKER_API char *locker_secret_read(const char *file, locker_error *err);

/* ------------------------------------------------------------------ the driver table ---- */
/** Capabilities that core cannot see from the operations or the semantics. Core checks these bits and never a driver's name. */
enum {
    /** The service has a queue: core passes every claim to acquire at once. Exception: a shared claim waits in core's FIFO if
     * another shared claim of the locker waits at the service and this claim could join its grant.
     * Without this bit, core calls acquire for only one claim of each key at a time, the contender. The other claims wait in
     * core's FIFO. While the locker holds the key, there is a contender only if the holders share the key or have permits. */
    LOCKER_CAP_QUEUE = 1u << 0,
    /** The service takes a user and a password. Without this bit, core refuses a user or a password, and ignores
     * LOCKER_PASSWORD. */
    LOCKER_CAP_AUTH = 1u << 1
};

typedef struct locker_driver locker_driver;
/** The table of a driver. Must be constant, and outlive the lockers that use it. Required are name, schemes, params,
 * semantics, open, close, acquire, withdraw, release, show and ping. Other operations may be NULL. */
struct locker_driver {
    uint32_t abi;  /**< LOCKER_DRIVER_ABI */
    uint32_t size; /**< sizeof(locker_driver) */
    const char *name;
    const char *const *schemes;     /**< URI schemes, ended by NULL; the first is the usual scheme */
    const char *example;            /**< a URI */
    const char *features;           /**< a line that lists missing features of this build, or "" */
    uint32_t caps;                  /**< LOCKER_CAP_* bits */
    size_t claim_size;              /**< number of bytes that the driver needs in each claim */
    int64_t ttl_min_ms, ttl_max_ms; /**< range of lease times in ms; 0: no limit */
    /** The driver's own parameters, in addition to those that every driver takes. Core parses and checks parameters, and
     * refuses those that are in neither table. */
    const locker_parameter *params;
    /** Promises of the service, for users and for core. If `leases` is true, each grant has a valid_until, and ends unless a
     * renewal or a session extends it. */
    const locker_semantics *semantics;

    /** Connect, check that the service accepts this client, and make an instance in *self. On failure, nothing is left, and
     * the driver must not call any function of `svc` afterwards.
     * Returns OK, CONFIG, UNSUPPORTED, UNAVAILABLE, DENIED, PROTOCOL or NOMEM. */
    locker_status (*open)(const locker_driver_config *config, const locker_services *svc, void **self,
                          locker_error *err);

    /** End the instance. Core has ended all its claims before. The cleanups that are still pending may take at most
     * cleanup_ns. */
    void (*close)(void *self);

    /** Close the descriptors. Core calls this instead of close in a child of fork(). Send nothing, take no lock, and free
     * nothing that another thread of the parent may have been using. NULL: core does nothing. */
    void (*abandon)(void *self);

    /** Check whether the service can take the key. Core calls this before any other operation with the key. NULL: the service
     * takes every key that core accepts. Returns OK or INVALID. */
    locker_status (*check_key)(void *self, const char *key, size_t key_len, locker_error *err);

    /** Make a single attempt to take the lock. Core makes further attempts only for a call that waits.
     *
     * Returns:
     *   - OK: the lock is granted. The driver has set token and valid_until, and for a permit also slot.
     *   - BUSY: another holder has the key. If claim->will_wait, the claim is now enqueued. The driver calls wake when another
     *     attempt may succeed, and may set retry_at to limit the wait.
     *   - UNAVAILABLE with a retry_at: a temporary failure. A server is starting, or a connection broke and may be up again
     *     before core checks whether the service is out of reach.
     *   - UNAVAILABLE without a retry_at: a final failure. It ends the call, even if the claim is enqueued. Exception: after
     *     suspect(true), core makes an attempt every second until suspect(false). For a try, the driver must return
     *     UNAVAILABLE as soon as the connection is refused, and not wait until attempt_until, because there is no server.
     *   - TIMEOUT: no answer came by attempt_until. Core makes the next attempt at once, until the lock call's own deadline.
     *   - CANCELED: interrupt ended the attempt.
     *   - DENIED, INVALID, CONFIG, PROTOCOL, NOMEM, UNSUPPORTED: the lock call fails with this status.
     * After any status except OK, core later calls withdraw or acquire for the claim. So if the request is still in flight
     * when acquire returns, leave the request's cleanup to withdraw. */
    locker_status (*acquire)(void *self, locker_claim *claim, locker_error *err);

    /** Make a running acquire of the claim return soon with CANCELED, unless the claim is granted. Core may call this just
     * before that acquire begins. No other attempt follows for the claim. May be NULL if acquire never blocks for long. */
    void (*interrupt)(void *self, locker_claim *claim);

    /** End the claim, and report no result. Remove the claim from the queue, and release its grant in the background, even a
     * grant that arrives later. Repeat failed requests for at most cleanup_ns. After the return, the driver must not use the
     * claim. */
    void (*withdraw)(void *self, locker_claim *claim);

    /** Release a grant and report the result. After the return, the driver must not use the claim.
     *
     * Returns:
     *   - OK: the service confirmed that it released our lock.
     *   - LOST: the lock was not ours.
     *   - UNKNOWN: no answer came by `until`. The driver continues to release the lock in the background, as after withdraw. */
    locker_status (*release)(void *self, locker_claim *grant, int64_t until, locker_error *err);

    /** Hand a plain grant to another plain claim of the same key and instance, without asking the service. `to` waits in
     * core's FIFO, and core has not given it to acquire. Both claims are renewed and have the same ttl_ns. NULL: the driver
     * cannot hand over grants.
     *
     * Returns:
     *   - OK: `from` is gone. The driver has set a token of `to` that is greater than that of `from`, and a valid_until that
     *     is not later than that of `from`.
     *   - BUSY: the driver cannot hand over this grant now. Nothing has changed, and the driver must not use `to` afterwards.
     *     Core then releases `from`. */
    locker_status (*pass)(void *self, locker_claim *from, locker_claim *to);

    /** Ask the service to extend all these leases together. Report the answers by lease_extended and lease_lost, at any time
     * and from any thread. If a lease gets no answer, it is not extended, and core calls renew again. NULL: the driver itself
     * extends all leases, by keeping a session alive. */
    void (*renew)(void *self, locker_claim *const *grants, size_t count);

    /** Return a descriptor that is readable when dispatch has work. An epoll descriptor can stand for many descriptors. Core
     * calls this once, after open, so the descriptor must not change. The keeper watches the descriptor, or a waiting call
     * does.
     * NULL: core calls dispatch only after attend, and at the time that dispatch returned. */
    int (*descriptor)(void *self);

    /** Do the work that is due: read messages, call wake, reconnect, clean up. Returns the time at which core must call
     * dispatch again at the latest, or LOCKER_NEVER. The keeper calls this. A call that waits for a lock also does, when the
     * descriptor is readable. NULL: the driver has no such work. */
    int64_t (*dispatch)(void *self);

    /** Query the state of a key. Returns the statuses of locker_show(). *info starts zeroed, with -1 in members that can be
     * unknown. Allocate `queue` and `holders` by malloc(), and set their strides; core frees them. If this locker holds the
     * lock without renewal and remaining_ms is still -1, core sets remaining_ms. */
    locker_status (*show)(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                          locker_error *err);

    /** Break the lock, as locker_break() does, for the holders that `only` (never NULL) names. A driver must compare each
     * holder with `only` before it breaks that holder's lock. NULL: locks cannot be broken, and semantics.can_break is false.
     * (`break` is a reserved word of C.)
     *
     * Returns the statuses of locker_break(), in particular:
     *   - OK: broken. `broken` describes the holder.
     *   - INVALID: the key has no holder.
     *   - BUSY: `only` does not name a holder of the key (use locker_break_check()). `broken` describes the holder.
     *   - CONFIG: the data at the key are not known to be a lock, and only->force is false. */
    locker_status (*break_lock)(void *self, const char *key, size_t key_len, const locker_break_options *only,
                                int64_t until, locker_info *broken, locker_error *err);

    /** Make a round trip to the service. */
    locker_status (*ping)(void *self, int64_t until, locker_error *err);

    /** Set if this driver is a decorator: a driver that stands before another driver (instrument.h). NULL for all others. */
    const struct locker_decorator *decorator;

    /** Send the releases of several grants, and return without waiting for the answers. Core then calls release for each
     * grant, which waits for that grant's answer. So all requests are in flight together. After each release, core calls
     * begin_release again with the remaining grants, on the same thread, until only one grant remains. Each time, send a
     * request for every grant that has neither a request in flight nor a final answer, because its connection was lost or the
     * server asked for a retry. So a lost connection costs one more round trip for all grants together, not one for each
     * grant. Return quickly if there is nothing to send. If a request cannot be sent now, leave it to the next call, or to
     * release.
     *
     * Between the first begin_release and a grant's release, core calls no other operation for this grant, but core may call
     * acquire for a new claim of the same key. NULL: core calls release for each grant in turn, all with the same `until`. */
    void (*begin_release)(void *self, locker_claim *const *grants, size_t count);

    /** Make the descriptors of the grant inheritable, so that this process still holds the lock after exec (see
     * locker_handle_keep_over_exec()). Whatever the result, the claim is still a grant, and core still ends it. NULL: grants
     * end with the process, or soon after. Returns OK, LOST (the lock was not ours) or UNAVAILABLE (the driver cannot see
     * whether it is ours). */
    locker_status (*keep_over_exec)(void *self, locker_claim *grant, locker_error *err);
};

/** Name of the only symbol that a module exports: `const locker_driver *const locker_module`, a pointer to its table. */
#define LOCKER_MODULE_ENTRY "locker_module"

/** Find the driver of a URI scheme, as locker_open() does, and return it in *driver (`driver` may be NULL; on failure *driver
 * is NULL). Loads the driver's module if it has one, and blocks while it loads. The module is never unloaded. Does not
 * connect. Any thread may call this.
 *
 * Call this function before a fork if other threads open lockers. If the fork happens while a thread loads a module, the
 * child cannot load any module.
 *
 * Returns:
 *   - OK.
 *   - UNSUPPORTED: there is no such driver, or its module cannot be used. The text says why, and what to do.
 *   - INVALID: scheme is NULL.
 *   - NOMEM. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_driver_find(const char *scheme,
                                                              const locker_driver **driver,
                                                              locker_error *err);

/** Fill an error with status, os_error and the text, which is cut at the size of err->text. Does nothing if err is NULL.
 * Returns status. */
LOCKER_API locker_status locker_error_set(locker_error *err, locker_status status, int os_error,
                                          const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/** Return true if `only` names a holder with this label and token. */
LOCKER_API bool locker_break_names(const locker_break_options *only, const char *owner, uint64_t token);

/** Check whether `only` names `holder`, or an entry of holder->holders. Returns OK if it does, otherwise BUSY with a text
 * that names the holder. */
LOCKER_API locker_status locker_break_check(const locker_break_options *only, const locker_info *holder,
                                            locker_error *err);

/** Complete an info. Before the call, the driver sets `holders` (from malloc()) and `holders_len`, also for a plain lock. 0
 * holders: the key is free. Sorts the holders by token, copies the first holder to the info's own members, and sets the key's
 * mode and permits. Frees `holders` if the key is free or held by a plain lock. */
LOCKER_API void locker_info_settle(locker_info *info, locker_mode mode, int32_t permits);

/** Return CONFIG, with a text that names both uses of the key: it is in use with `in_use` permits, and a call wants `wanted`
 * permits. 0 permits mean a lock. */
LOCKER_API locker_status locker_other_use(locker_error *err, int32_t in_use, int32_t wanted);

/** Options of locker_open_driver(). Start from LOCKER_DRIVER_OPTIONS_INIT. */
typedef struct locker_driver_options {
    size_t size;                   /**< sizeof(locker_driver_options) */
    const char *uri;               /**< URI with hosts, path and parameters; NULL: only `scheme:` */
    const locker_options *options; /**< NULL: the defaults */
    /** The locker's clock; NULL: the system's clock. Core copies the struct, but its context and hooks must outlive the
     * locker. */
    const locker_clock *clock;
} locker_driver_options;

#define LOCKER_DRIVER_OPTIONS_INIT                                                                           \
    {                                                                                                        \
        sizeof(locker_driver_options), 0, 0, 0                                                               \
    }

/** Open a locker on a driver that is not built in. The table must outlive the locker and must not change.
 *
 * Returns the statuses of locker_open(), and:
 *   - INVALID: the table has another ABI, or lacks a required member.
 *   - CONFIG: the table is from a later release and sets members that this release lacks. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_driver(const locker_driver *driver,
                                                              const locker_driver_options *options,
                                                              locker **out, locker_error *err);

/** Return the table that a locker was opened with, and its instance in *self (NULL: ignored). This is for drivers that have
 * functions of their own in addition to this interface. Does not block and takes no lock. The locker must be open. */
LOCKER_API const locker_driver *locker_driver_of(const locker *l, void **self);

#ifdef __cplusplus
}
#endif
#endif
