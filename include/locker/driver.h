/* driver.h: the contract between core and the driver of a lock service. For authors of drivers: docs/drivers.md walks
 * through a complete driver. This interface is less stable than locker.h.
 *
 * Core is liblocker without its drivers. The operation `open` makes a driver instance, and each locker has its own
 * instance. A claim represents a caller that wants or holds a key. The claim is a request until the driver grants the
 * claim, and a grant afterwards. A try is a request that does not wait.
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
 *   - Core ends every claim by exactly one call: withdraw, release, or a pass that returns OK with the claim as `from`.
 *     This guarantee covers each claim that core gave to acquire, and each `to` of a pass that returned OK.
 *   - Two operations on the same claim never run at the same time. Exception: interrupt may run during acquire. The driver
 *     may report the answers to renew after renew has returned, at any time until the claim is gone.
 *   - Core holds no mutex while it calls an operation.
 *   - Core may call acquire again with a claim that is gone. Before this call, core zeroes the driver's bytes. The
 *     driver must treat the claim as a new claim.
 *   - Core does all waiting. Core handles deadlines, time-outs and cancellation, keeps the FIFO of the locker's calls,
 *     decides when to renew, and declares a grant LOST at its local deadline.
 *
 * A driver must
 * -------------
 *   - Never wait for another holder. acquire makes a single attempt.
 *   - Fill `err` by locker_error_set() for every status except OK and BUSY. `err` may be NULL. acquire may also fill
 *     `err` before acquire returns BUSY, and core quotes this text if the lock call fails.
 *   - Use its own mutexes. Do not hold a mutex during blocking I/O if an operation that must not block needs the same
 *     mutex.
 *
 * Calling the services (struct locker_services)
 * ---------------------------------------------
 * Any thread may call these functions of core, also while the thread holds a mutex of the driver. The functions take
 * core's mutexes for a moment, never block, and never call the driver. So the order of mutexes is: first the driver's
 * mutexes, then core's mutexes.
 *
 * Threads
 * -------
 * The keeper is the locker's own thread. "A call's thread" is any application thread inside a liblocker call. Times are
 * in ns, by the clock services.clock. Deadlines are absolute times.
 *
 *   operation         called by                      may block               may run during (same claim)
 *   open              the opening thread             connect_timeout_ns      -
 *   descriptor        the opening thread, once       no                      -
 *   close             the closing thread, last,      at most cleanup_ns      -
 *                     with no other call
 *   abandon           a fork's child                 no; takes no mutex      -
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
 * existing drivers wrong. Appended members do not change the number, because drivers' tables and core's structs state
 * their own size. */
enum { LOCKER_DRIVER_ABI = 3 };

/** A time that never comes. A deadline with this value means that there is no limit. */
#define LOCKER_NEVER INT64_MAX

/* ------------------------------------------------------------------ time ---- */
typedef struct locker_claim locker_claim;

/** A clock, with int64_t times in ns. The system's clock is CLOCK_BOOTTIME, because a lease keeps running while the
 * machine is suspended. A test moves the clock of a mock by hand. */
typedef struct locker_clock {
    size_t size; /**< sizeof(locker_clock) */
    /** Return the current time in ns. Any thread may call this function. Does not block. */
    int64_t (*now)(void *context);
    /** Wait for `cond` as pthread_cond_timedwait() does. `until` is the end of the wait (LOCKER_NEVER: no limit). May
     * wake up spuriously. `cond` must be from locker_cond_init(). */
    void (*wait)(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until);
    /** Wait until `fd` is readable. `until` is the end of the wait. May wake up spuriously. */
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
/** A caller's claim to a key. Core allocates the claim, with `claim_size` zeroed bytes for the driver. */
struct locker_claim {
    /* Set by core, constant for the claim's life. */
    const char *key;   /**< 1 to 255 bytes of UTF-8, NUL-terminated */
    size_t key_len;    /**< length of key in bytes */
    uint32_t key_hash; /**< locker_key_hash() of key */
    const char *owner; /**< the holder's label, NUL-terminated */
    void *data;        /**< the driver's own bytes, aligned for any type */
    int64_t ttl_ns;    /**< requested lease time in ns */
    bool
        will_wait; /**< True if the call waits after BUSY. The driver must then enqueue the claim. False: the claim is a try. */
    bool
        renewed; /**< True if the lock call did not set no_renew. Core, or the driver's session, then renews the lease. */
    /* Set by core before each acquire. */
    bool
        has_waited; /**< True if the claim has waited in core's FIFO, or if core has made an earlier attempt. */
    int64_t asked_at; /**< start of this attempt; the driver sends its first request at this time or later */
    int64_t attempt_until; /**< deadline by which acquire must return */

    /* The driver sets the next three members when it grants the claim: before acquire returns OK, or already while the
     * claim waits. For the claim `to` of a pass, the operation pass sets these members. */
    uint64_t token; /**< fencing token; 0: none */
    /** Local deadline of the lease. To compute valid_until, add the lease time to a clock value that was read before the
     * request was sent. The deadline is at most asked_at + ttl_ns. Exception: if `renewed` is true, a driver without
     * `renew` may set valid_until to the deadline of its session, even if this deadline is after asked_at + ttl_ns. Such a
     * driver keeps a session alive instead of renewing leases. LOCKER_NEVER means that there is no lease. A driver must set
     * LOCKER_NEVER if semantics.leases is false. If semantics.leases is true, a driver must not set LOCKER_NEVER. */
    int64_t valid_until;
    /** Time of the grant; 0: the driver does not know this time. Core then reads the clock when acquire or pass has
     * returned. If acquire grants a lease, core ignores granted_at and reads the clock. */
    int64_t granted_at;

    /** Time at which core makes its next attempt after BUSY or UNAVAILABLE, even without a wake. Core sets LOCKER_NEVER
     * before each acquire. A time that the driver sets must not be in the past. If retry_at stays LOCKER_NEVER after
     * BUSY, core waits for a wake. If retry_at stays LOCKER_NEVER after UNAVAILABLE, the failure is final (exception: see
     * acquire). */
    int64_t retry_at;

    /* Set by core, constant for the claim's life. */
    locker_mode mode; /**< LOCKER_SHARED only if semantics.shared says that the driver has shared locks */
    int32_t
        permits; /**< 0: an ordinary lock; otherwise 1 to semantics.permits_most, and mode is LOCKER_EXCLUSIVE */

    /** The driver sets this member when it makes a shared grant. True means two things: the key has no waiter, and the
     * driver will call services.awaited when a waiter arrives. While `alone` is true, other readers of the locker may
     * join the grant. False: the driver does not know whether the key has a waiter. Core sets `alone` to false before
     * each acquire. */
    bool alone;
    int32_t slot; /**< set by the driver when it grants a permit: 0 to permits - 1, unique among holders */
};

/** Return true if the claim must be the only holder of its key: the claim is exclusive and has no permits. */
static inline bool locker_claim_is_plain(const locker_claim *claim)
{
    return claim->mode == LOCKER_EXCLUSIVE && claim->permits == 0;
}

/** Return a hash of a key of `key_len` bytes, for tables of keys. Do not store or send the hash: another process or release
 * may compute another value. */
LOCKER_API uint32_t locker_key_hash(const char *key, size_t key_len);

/* ------------------------------------------------------------------ services of core ---- */
typedef struct locker_services locker_services;
/** Functions of core that a driver instance may call, until close returns. */
struct locker_services {
    size_t
        size; /**< sizeof(locker_services) of the library; an older library lacks members that were added later */
    const locker_clock *clock;

    /** Request another attempt for an enqueued claim, because the attempt may succeed now. An unnecessary wake costs an
     * attempt. If acquire is running for the claim at the time of the wake, and this acquire returns BUSY, core makes
     * another attempt. If the last attempt for a waiting claim ended without an answer of the service (TIMEOUT,
     * CANCELED, UNAVAILABLE), a wake is also allowed, because the service may have enqueued the claim. A wake just after
     * the grant does no harm. */
    void (*wake)(const locker_services *svc, locker_claim *claim);

    /** Report that the service confirmed a request to extend the lease. `until` is the new deadline of the lease. To
     * compute `until`, add the lease time to a clock value that was read before this request was sent. This function
     * never shortens a lease, and never revives a lost lock. */
    void (*lease_extended)(const locker_services *svc, locker_claim *grant, int64_t until);

    /** Report that, according to the service's answer, the grant has lost its lock. `why` is static text. If `grant` is
     * NULL, all grants of this instance are lost, because a session ended. In this case, an acquire or a pass in progress
     * also loses its grant: core withdraws that grant, and the lock call makes another attempt. As soon as the driver
     * calls lease_lost, the keeper may call withdraw for a lost grant, even before lease_lost returns. */
    void (*lease_lost)(const locker_services *svc, locker_claim *grant, const char *why);

    /** Report that the service is out of reach (true) or within reach again (false). While the service is out of reach,
     * each grant that has a lease is SUSPECT if grant->renewed is true. When the service is within reach again, core at
     * once renews each lease whose last renewal has no answer yet. */
    void (*suspect)(const locker_services *svc, bool out_of_reach);

    /** Ask core to call dispatch soon. For example, a driver calls attend when a watched descriptor has changed, or when
     * dispatch must run before the deadline that dispatch last returned. */
    void (*attend)(const locker_services *svc);

    /** Return true if messages of this level are logged. The driver need not format other messages. */
    bool (*log_wanted)(const locker_services *svc, locker_log_level level);

    /** Log a line. Core stores the line, and soon passes it to the log callback. */
    void (*log)(const locker_services *svc, locker_log_level level, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 3, 4)))
#endif
        ;

    /** Report that a shared grant's key has a waiter now. The driver calls this function only if grant->alone is
     * true. From this call on, no other reader joins the grant. */
    void (*awaited)(const locker_services *svc, locker_claim *grant);

    /** Shorten a lease. The driver calls this function if the service's clock was set forward, because the service may
     * then end the lease before the lease's confirmed deadline. `until` is the new deadline of the lease. If `until` is
     * after the present deadline, the deadline does not change. A call of lease_extended can extend a shortened lease
     * again. If grant->renewed is true and the driver has `renew`, core renews the lease at once. */
    void (*lease_shortened)(const locker_services *svc, locker_claim *grant, int64_t until);
};

/* ------------------------------------------------------------------ configuration ---- */
/** The value of a parameter. Values are in the order of the driver's table of parameters. */
typedef struct locker_value {
    bool given;       /**< True if the configuration names the parameter; false: the default is used. */
    int64_t number;   /**< a number, a duration in ns, or a bool as 0 or 1 */
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
    const char *path;           /**< decoded path, with its slashes; "": no path */
    const char *name_space;     /**< "": none */
    const char *owner;          /**< the locker's label */
    const locker_value *values; /**< a value for each parameter in driver->params, in the same order */
    int64_t connect_timeout_ns; /**< limit for a connection */
    int64_t command_timeout_ns; /**< limit for an answer of the service */
    int64_t cleanup_ns;         /**< limit for close, and for each cleanup in the background */
    int64_t ttl_ns;             /**< the locker's default lease time */
    /** File of the password, for locker_secret_read(); NULL: the password cannot be read again. */
    const char *password_file;
    /** The files of the LOCKER_PARAM_SECRET_FILE parameters, at the same indices as in `values`. Each entry has the same
     * meaning as password_file. */
    const char *const *secret_files;
} locker_driver_config;

/** Read a secret again from `file`. A password may change while a program runs. So a driver calls this function before
 * each login. If the read fails, the driver uses the last secret that it has read. Any thread may call this function.
 * The call reads only a regular file, and blocks during the read. The rules of locker_open_profile() about write
 * permissions also apply to this file.
 *
 * Returns the first line of the file. The caller must wipe and free this text. NULL: the file cannot be read now, and
 * `err` (NULL: ignored) says why. */
LOCKER_API char *locker_secret_read(const char *file, locker_error *err);

/* ------------------------------------------------------------------ the driver table ---- */
/** Capabilities that core cannot see from the operations or the semantics. Core checks these bits, and never a driver's
 * name. */
enum {
    /** The service has a queue, so core passes every claim to acquire at once. Exception: a new shared claim can wait in
     * core's FIFO. This happens if the claim is not a try, no writer of the locker waits at the service, a shared claim
     * of the locker already waits there, and both claims could share a grant. Without this bit, core calls acquire for
     * only one claim of each key at a time. This claim is the contender. The other claims wait in core's FIFO. While the
     * locker holds the key by a plain lock, the key has no contender. */
    LOCKER_CAP_QUEUE = 1u << 0,
    /** The service takes a user and a password. Without this bit, core refuses a user or a password, and ignores
     * LOCKER_PASSWORD. */
    LOCKER_CAP_AUTH = 1u << 1
};

typedef struct locker_driver locker_driver;
/** The table of a driver. The table must be constant, and must outlive the lockers that use the table. The members name,
 * schemes, params, semantics, open, close, acquire, withdraw, release, show and ping are required. Other operations may
 * be NULL. */
struct locker_driver {
    uint32_t abi;  /**< LOCKER_DRIVER_ABI */
    uint32_t size; /**< sizeof(locker_driver) */
    const char *name;
    const char *const *schemes;     /**< URI schemes, ended by NULL; the first is the usual scheme */
    const char *example;            /**< a URI */
    const char *features;           /**< a line that lists the features that this build lacks, or "" */
    uint32_t caps;                  /**< LOCKER_CAP_* bits */
    size_t claim_size;              /**< number of bytes that the driver needs in each claim */
    int64_t ttl_min_ms, ttl_max_ms; /**< range of lease times in ms; 0: no limit */
    /** The driver's own parameters, in addition to the parameters that every driver takes (locker_common_parameters()).
     * Core parses and checks the parameters. Core refuses a parameter that is neither in `params` nor in
     * locker_common_parameters(). */
    const locker_parameter *params;
    /** Promises of the service, for users and for core. If `leases` is true, each grant has a valid_until, and ends at this
     * time unless a renewal or a session extends the lease. */
    const locker_semantics *semantics;

    /** Connect, check that the service accepts this client, and make an instance in *self. On failure, the driver must
     * leave nothing behind, and must not call any function of `svc` afterwards. Returns OK, CONFIG, UNSUPPORTED,
     * UNAVAILABLE, DENIED, PROTOCOL or NOMEM. */
    locker_status (*open)(const locker_driver_config *config, const locker_services *svc, void **self,
                          locker_error *err);

    /** End the instance. Before this call, core has ended all claims of the instance. Pending cleanups may take at most
     * cleanup_ns. */
    void (*close)(void *self);

    /** Close the descriptors. In a child of fork(), core calls this operation instead of close. Send nothing, take no
     * mutex, and free nothing that another thread of the parent may have been using. NULL: core does nothing. */
    void (*abandon)(void *self);

    /** Check whether the service can take the key. Core calls this operation before any other operation with the key. NULL:
     * the service takes every key that core accepts. Returns OK or INVALID. */
    locker_status (*check_key)(void *self, const char *key, size_t key_len, locker_error *err);

    /** Make a single attempt to take the lock. Core makes further attempts only for a call that waits.
     *
     * Returns:
     *   - OK: the lock is granted. The driver has set token and valid_until, and for a permit also slot.
     *   - BUSY: another holder has the key. If claim->will_wait is true, the driver has enqueued the claim. The driver
     *     calls wake when another attempt may succeed, and may set retry_at to limit the wait.
     *   - UNAVAILABLE, and the driver has set retry_at: the failure is temporary. For example, a server is starting, or
     *     a connection broke. Set retry_at even after suspect(true): the driver may call suspect(false) before core
     *     examines the failure, and if retry_at is LOCKER_NEVER then, core treats the failure as final.
     *   - UNAVAILABLE, and retry_at is LOCKER_NEVER: the failure is final and ends the lock call, even if the claim is
     *     enqueued. Exception: after suspect(true), core makes an attempt every second until suspect(false). A refused
     *     connection means that no server is running. For a try, the driver must return UNAVAILABLE as soon as the
     *     connection is refused, and must not wait until attempt_until.
     *   - TIMEOUT: no answer came by attempt_until. If the call waits and its own deadline has not passed, core makes the
     *     next attempt at once.
     *   - CANCELED: interrupt ended the attempt.
     *   - DENIED, INVALID, CONFIG, PROTOCOL, NOMEM, UNSUPPORTED: the lock call fails with this status.
     * After any status except OK, core later calls withdraw or acquire for the claim. So if a request is still in flight
     * when acquire returns, let withdraw clean up after this request. */
    locker_status (*acquire)(void *self, locker_claim *claim, locker_error *err);

    /** Make a running acquire of the claim return soon with CANCELED, unless the claim is granted. Core may call
     * interrupt just before acquire begins. In this case, the interrupt applies to the acquire that begins next. After
     * the interrupted acquire, core makes no other attempt for the claim. May be NULL if acquire never blocks for long. */
    void (*interrupt)(void *self, locker_claim *claim);

    /** End the claim, and report no result. Remove the claim from the queue, and release the claim's grant in the
     * background. If the service grants the claim later, release that grant, too. Repeat failed requests for at most
     * cleanup_ns. After the return, the driver must not use the claim. */
    void (*withdraw)(void *self, locker_claim *claim);

    /** Release a grant and report the result. After the return, the driver must not use the claim.
     *
     * Returns:
     *   - OK: the service confirmed the release of the grant's lock.
     *   - LOST: the grant had already lost its lock.
     *   - UNKNOWN: no answer came by `until`. The driver continues to release the lock in the background, as after
     *     withdraw. */
    locker_status (*release)(void *self, locker_claim *grant, int64_t until, locker_error *err);

    /** Hand a plain grant to another plain claim of the same key and instance, without asking the service. `to` waits in
     * core's FIFO, and core has not called acquire for `to`. Core passes a grant only if `renewed` is true in
     * both claims, and both claims have the same ttl_ns. NULL: the driver cannot pass grants.
     *
     * Returns:
     *   - OK: `from` is gone, and `to` has the lock. The driver has set to->token and to->valid_until. to->token is
     *     greater than from->token, or is 0 if the driver gives no fencing tokens. to->valid_until is at most
     *     from->valid_until.
     *   - BUSY: the driver cannot hand over this grant now. Nothing has changed, and the driver must not use `to`
     *     afterwards. Core then releases `from`. */
    locker_status (*pass)(void *self, locker_claim *from, locker_claim *to);

    /** Ask the service to extend the leases of all `grants` together. Report the answers by lease_extended and
     * lease_lost, at any time and from any thread. If no answer arrives for a lease, the lease is not extended, and core
     * calls renew for this lease again. NULL: the driver itself extends all leases, by keeping a session alive. */
    void (*renew)(void *self, locker_claim *const *grants, size_t count);

    /** Return a descriptor that is readable when dispatch has work. An epoll descriptor can stand for many descriptors.
     * Core calls this operation once, after open, so the descriptor must not change. The keeper or a waiting call
     * watches the descriptor. NULL: there is no descriptor. Core then calls dispatch only at the start, after each call
     * of attend, and at the deadline that dispatch last returned. */
    int (*descriptor)(void *self);

    /** Do the work that is due: read messages, call wake, reconnect, clean up. Returns a deadline: core must call dispatch
     * again no later than this time (LOCKER_NEVER: no deadline). The keeper calls dispatch. If the descriptor is
     * readable, a call that waits for a lock may also call dispatch. NULL: the driver has no such work. */
    int64_t (*dispatch)(void *self);

    /** Query the state of a key. Returns the statuses of locker_show(). Before the call, core sets *info to
     * LOCKER_INFO_INIT: members that can be unknown are -1, and all other members except `size` are 0. Allocate `queue`
     * and `holders` by malloc(), and set queue_stride and holder_stride. Core frees `queue` and `holders`. If this locker
     * holds the lock without renewal and remaining_ms is still -1, core sets remaining_ms. */
    locker_status (*show)(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                          locker_error *err);

    /** Break the lock of each holder that `only` selects, as locker_break() does. `only` is never NULL. A driver must
     * compare each holder with `only` before it breaks that holder's lock. If the member break_lock is NULL, locks cannot
     * be broken, and semantics.can_break is false. (The member cannot be named `break`, a reserved word of C.)
     *
     * Returns the statuses of locker_break(), in particular:
     *   - OK: the lock is broken. `broken` describes the holders that lost the lock.
     *   - INVALID: the key has no holder.
     *   - BUSY: `only` selects no holder of the key (use locker_break_check()). `broken` describes the key's holders.
     *   - CONFIG: the data at the key are possibly not a lock, and only->force is false. */
    locker_status (*break_lock)(void *self, const char *key, size_t key_len, const locker_break_options *only,
                                int64_t until, locker_info *broken, locker_error *err);

    /** Make a round trip to the service. */
    locker_status (*ping)(void *self, int64_t until, locker_error *err);

    /** Set if this driver is a decorator, which is a driver that stands before another driver (instrument.h). NULL for
     * all other drivers. */
    const struct locker_decorator *decorator;

    /** Send the releases of several grants, and return without waiting for the answers. Core then calls release for each
     * grant, and release waits for that grant's answer. So all requests are in flight together. After each release, core
     * calls begin_release again with the remaining grants, on the same thread, until only one grant remains. In each
     * call, send a request for every grant that has neither a request in flight nor a final answer. A repeated call
     * sends a request again if the grant's connection was lost, or if the server asked for a retry. So a lost connection
     * costs one more round trip for all grants together, not one for each grant. Return quickly if there is nothing to
     * send. If a request cannot be sent now, the next begin_release or release must send the request.
     *
     * Between the first begin_release and a grant's release, core calls no other operation for this grant, but core may
     * call acquire for a new claim of the same key. NULL: core calls release for each grant in turn, all with the same
     * `until`. */
    void (*begin_release)(void *self, locker_claim *const *grants, size_t count);

    /** Make the descriptors of the grant inheritable, so that this process still holds the lock after exec (see
     * locker_handle_keep_over_exec()). After any result, the claim is still a grant, which core ends later as usual.
     * NULL: the driver cannot do this, and the grants end with the process or soon afterwards. Returns OK, LOST (the
     * grant has lost its lock) or UNAVAILABLE (the driver cannot see whether the grant has its lock). */
    locker_status (*keep_over_exec)(void *self, locker_claim *grant, locker_error *err);
};

/** Name of the only symbol that a module exports: `const locker_driver *const locker_module`, a pointer to the driver's
 * table. */
#define LOCKER_MODULE_ENTRY "locker_module"

/** Find the driver of a URI scheme, as locker_open() does. On success, *driver is the driver's table. On failure, *driver
 * is NULL. `driver` itself may be NULL. If the driver has a module, the call loads the module, and blocks while the module
 * loads. The module is never unloaded. Does not connect. Any thread may call this function.
 *
 * Call this function before a fork if other threads open lockers. If the fork happens while a thread loads a module, the
 * child cannot load any module.
 *
 * Returns:
 *   - OK: the driver was found.
 *   - UNSUPPORTED: there is no such driver, or its module cannot be used. The text says why, and what to do.
 *   - INVALID: `scheme` is NULL.
 *   - NOMEM. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_driver_find(const char *scheme,
                                                              const locker_driver **driver,
                                                              locker_error *err);

/** Fill an error with `status`, `os_error` and the text. A text that is longer than err->text is cut. Does nothing if `err`
 * is NULL. Returns `status`. */
LOCKER_API locker_status locker_error_set(locker_error *err, locker_status status, int os_error,
                                          const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

/** Return true if `only` selects the holder with the label `owner` and the token `token`. */
LOCKER_API bool locker_break_names(const locker_break_options *only, const char *owner, uint64_t token);

/** Check whether `only` selects `holder`, or an entry of holder->holders. Returns OK if `only` selects one of them,
 * otherwise BUSY with a text that describes the holder. */
LOCKER_API locker_status locker_break_check(const locker_break_options *only, const locker_info *holder,
                                            locker_error *err);

/** Complete the description of a key. Before the call, the driver sets `holders` (from malloc()) and `holders_len`, also
 * for a plain lock. With 0 holders, the key is free. The call sorts the holders by token, copies the first holder to the
 * info's own members, and sets the key's mode and permits. The call frees `holders` if the key is free, or if the
 * key has a plain lock. */
LOCKER_API void locker_info_settle(locker_info *info, locker_mode mode, int32_t permits);

/** Return CONFIG, with a text that names both uses of the key: the key is in use with `in_use` permits, and a call wants
 * `wanted` permits. 0 permits mean an ordinary lock. */
LOCKER_API locker_status locker_other_use(locker_error *err, int32_t in_use, int32_t wanted);

/** Options of locker_open_driver(). Start from LOCKER_DRIVER_OPTIONS_INIT. */
typedef struct locker_driver_options {
    size_t size; /**< sizeof(locker_driver_options) */
    /** URI with hosts, path and parameters. NULL means the driver's first scheme followed by a colon, such as `redis:`. */
    const char *uri;
    const locker_options *options; /**< NULL: the defaults */
    /** The locker's clock; NULL: the system's clock. Core copies the struct, but the clock's context and hooks must
     * outlive the locker. */
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

/** Return the table of the driver with which the locker `l` was opened, and set *self to the locker's instance of the
 * driver. If `self` is NULL, the call only returns the table. This function is for drivers that have functions of their
 * own in addition to this interface. Does not block and takes no mutex. The locker must be open. */
LOCKER_API const locker_driver *locker_driver_of(const locker *l, void **self);

#ifdef __cplusplus
}
#endif
#endif
