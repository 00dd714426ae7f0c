/* locker.h: take a lock by name and get a handle that unlocks it.
 *
 * An application needs only this header. driver.h is for authors of drivers.
 *
 *     locker *l;
 *     locker_error err;
 *     LOCKER_AUTO locker_handle *held = NULL;
 *
 *     if (locker_open("redis://127.0.0.1/0?namespace=shop&ttl=30s", NULL, &l, &err) != LOCKER_OK)
 *         die(err.text);
 *     if (locker_lock(l, "orders/42", NULL, &held, &err) == LOCKER_OK)
 *         write_to_store(locker_handle_token(held), ...);
 *
 * General rules, for every declaration below unless its comment says otherwise:
 *   - Times are int64_t milliseconds. -1 means without limit.
 *   - The library copies every string that it keeps. Strings that it returns belong to the library.
 *   - An options pointer may be NULL, for the defaults.
 *   - A locker_error * may be NULL. Otherwise the call fills the struct: with status and text on failure, with LOCKER_OK
 *     and an empty text on success. It belongs to the caller. The library keeps no error in thread-local state.
 *   - A struct whose first member is `size` may grow in a later release. Its `*_INIT` sets the size. Zero in another
 *     member means the default, except in wait_ms. If a program was compiled with
 *       - an older release: members that its struct lacks count as zero, and results are cut to its size;
 *       - a later release: the struct is accepted if all members that this release does not know are zero. Otherwise the
 *         call returns LOCKER_CONFIG.
 *     LOCKER_INVALID: no release has such a size.
 *   - Functions are thread-safe. Only locker_cancel_fire() and locker_cancel_fired() are async-signal-safe. A thread that
 *     calls the library needs 64 KiB of stack.
 *   - No function is a cancellation point of pthread_cancel(). A thread that is canceled inside a function ends at its
 *     next cancellation point after the function. Use a locker_cancel to end a wait.
 *   - In a child of fork(), the program may call locker_close(), locker_handle_free() and locker_unlock() on inherited
 *     objects. These calls release nothing that the parent holds. locker_unlock() returns LOCKER_FORKED, like every call
 *     that needs the service.
 *   - Fork before the program has threads (an open locker has some), or call exec in the child. Take care
 *     if the child instead opens a locker of its own. Other threads of the parent may have been inside the C library's
 *     resolver, OpenSSL or the loader during the fork. Mutexes that they held stay locked in the child. So the child must
 *       - name servers by address, not by host name;
 *       - not use TLS;
 *       - use a driver that was loaded before the fork (locker_driver_find());
 *       - not use ZooKeeper, whose client library passes even addresses to the resolver. */
#ifndef LOCKER_LOCKER_H
#define LOCKER_LOCKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <locker/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LOCKER_API        __attribute__((visibility("default")))
#define LOCKER_MUST_CHECK __attribute__((warn_unused_result))
#else
#define LOCKER_API
#define LOCKER_MUST_CHECK
#endif

/* ------------------------------------------------------------------ statuses and errors ---- */
/** Result of a call, with a code for each failure that a caller can act on. */
typedef enum locker_status {
    LOCKER_OK = 0,       /**< success; from a lock call: the lock is held; from locker_unlock(): released */
    LOCKER_BUSY = 1,     /**< another holder has the key, and the call does not wait */
    LOCKER_TIMEOUT = 2,  /**< the key did not become free within wait_ms */
    LOCKER_CANCELED = 3, /**< the caller's locker_cancel was fired */
    LOCKER_LOST = 4,     /**< the lock was not ours any more */
    LOCKER_UNKNOWN = 5,  /**< the result is not known; the lock ends with its lease at the latest */
    LOCKER_UNAVAILABLE = 6,  /**< the service is out of reach, or cannot serve now */
    LOCKER_DENIED = 7,       /**< the service refuses the credentials or the rights */
    LOCKER_INVALID = 8,      /**< an argument is wrong, or the call is not allowed at this moment */
    LOCKER_CONFIG = 9,       /**< the URI, the profile or an option is wrong, or the key has another use */
    LOCKER_UNSUPPORTED = 10, /**< this driver or this build cannot do that */
    LOCKER_PROTOCOL = 11,    /**< the service's answer makes no sense */
    LOCKER_NOMEM = 12,       /**< out of memory; nothing was left behind */
    LOCKER_CLOSED = 13,      /**< the locker was closed before or during the call */
    LOCKER_FORKED = 14       /**< this process is a child of fork(); the locker belongs to its parent */
} locker_status;

/** Return the name of a status in lower case ("ok", "busy", ...), or "invalid status". Static text. */
LOCKER_API const char *locker_status_name(locker_status status);

/** Size of locker_error.text in bytes, with the final NUL. */
enum { LOCKER_ERROR_TEXT_MAX = 512 };

/** Description of a failure. The text says what is wrong and what to do, and never contains a password. It is a single line
 * of printable UTF-8: control characters in quoted text are written as \xNN or \uNNNN. Log lines have the same form. */
typedef struct locker_error {
    locker_status status;
    int os_error; /**< errno of a failed system call; EUSERS: the service accepts no more connections; else 0 */
    char text[LOCKER_ERROR_TEXT_MAX]; /**< NUL-terminated; empty if status is LOCKER_OK */
} locker_error;

/* ------------------------------------------------------------------ opening and closing ---- */
/** A client of a lock service. Opaque, thread-safe. */
typedef struct locker locker;

/** Severity of a log line. */
typedef enum locker_log_level {
    LOCKER_LOG_ERROR = 1, /**< a lock was lost, or something fails until a person acts */
    LOCKER_LOG_WARN = 2,  /**< something failed and is being retried */
    LOCKER_LOG_INFO = 3,  /**< connections made and lost */
    LOCKER_LOG_DEBUG = 4  /**< each attempt, wake-up and renewal */
} locker_log_level;

/** Callback for a log line, which has no newline and no password. Runs on the locker's keeper thread, or on the thread that
 * opens or closes the locker, with no internal lock held. It receives one line at a time, in order.
 *
 * The callback must not block, because lease renewals wait for it. While it runs, up to 1,024 lines of at most 1,023 bytes
 * are kept. Further lines are dropped, and a line reports their number. The callback may call the same functions as
 * locker_lost_fn. It is not called in a child of fork(). */
typedef void (*locker_log_fn)(locker_log_level level, const char *text, void *user);

/** Options of a locker. Start from LOCKER_OPTIONS_INIT. */
typedef struct locker_options {
    size_t size; /**< sizeof(locker_options) */

    /** Label of this locker's holders in locker_show(), 1 to 127 bytes. NULL: the configuration's `owner`, else
     * host:pid:program. */
    const char *owner;

    int64_t ttl_ms;         /**< lease time in ms of locks that set none; 0: the configuration's, else 30 s */
    const char *name_space; /**< namespace of the keys; NULL: the configuration's `namespace` */

    /** Password for the service; wiped when the locker is closed. NULL: from the URI or password_file, else LOCKER_PASSWORD
     * (ignored with raised privileges). */
    const char *password;

    locker_log_level log_level; /**< most verbose level wanted; 0: LOCKER_LOG_WARN */
    locker_log_fn log;          /**< callback for log lines; NULL: no log */
    void *log_user;             /**< passed to log */
} locker_options;

#define LOCKER_OPTIONS_INIT                                                                                  \
    {                                                                                                        \
        sizeof(locker_options), 0, 0, 0, 0, (locker_log_level)0, 0, 0                                        \
    }

/** Open the lock service at `uri`, such as "file:///run/lock/shop", "memory:" or "redis://host:6379/0?ttl=10s". Drivers that
 * use a network connect now, so that a wrong address or password is reported here. On success, *out is a locker that the
 * caller must close with locker_close(). On failure, *out is NULL.
 *
 * Blocks for up to `connect_timeout`. Except with Redis, the call first waits for the resolver to look up host names, for
 * as long as the resolver takes.
 *
 * Returns:
 *   - OK: the locker is open.
 *   - CONFIG: the configuration is wrong. The text names the wrong part.
 *   - UNSUPPORTED: this build lacks the scheme or a feature, or cannot load the driver's module.
 *   - INVALID: `uri` or `out` is NULL, or options->size or options->ttl_ms is wrong.
 *   - UNAVAILABLE, DENIED, PROTOCOL, NOMEM. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open(const char *uri, const locker_options *options,
                                                       locker **out, locker_error *err);

/** Open the profile (section) `profile` of the INI file `file`. file NULL: the first configuration file in the order of
 * locker_open_default(). profile NULL: LOCKER_PROFILE, else "default".
 *
 * A profile has `uri = ...` or the parts `driver`, `host`, `port`, `user`, `password`, `path`, and any parameter of the
 * driver. The file is refused if users other than its owner and its group can write or replace it. If every user can read a
 * password in it, the file is used and the log gets a warning.
 *
 * Blocks and returns as locker_open() does. After CONFIG, the text names the file, and the line if a single line is
 * wrong. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_profile(const char *file, const char *profile,
                                                               const locker_options *options, locker **out,
                                                               locker_error *err);

/** Open the service that this machine and user are configured for. Programs and the locker command use the first of these
 * that exists:
 *   1. the URI in LOCKER_URI;
 *   2. the configuration file that LOCKER_CONFIG names;
 *   3. the user's file: $XDG_CONFIG_HOME/locker/locker.conf, or ~/.config/locker/locker.conf if XDG_CONFIG_HOME is not set.
 *      The file and all directories above it must belong to the effective user or root;
 *   4. /etc/locker.conf;
 *   5. the embedded default: the file driver in the private directory /tmp/locker-UID of the effective user. A login, cron
 *      and a service (without PrivateTmp=) share it. CONFIG if the directory is a link or belongs to another user.
 *
 * In a file, the profile LOCKER_PROFILE is used, else "default". If LOCKER_PROFILE is set, 5 does not apply: CONFIG if there
 * is no file. locker_get_origin() returns which source was used.
 *
 * A program with raised privileges (set-user-ID, set-group-ID, file capabilities: AT_SECURE of getauxval(3)) ignores its
 * environment, so only 4 and 5 apply. For 5, the effective user must be root or differ from the user that started the
 * program; otherwise CONFIG.
 *
 * Blocks and returns as locker_open() does. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_default(const locker_options *options, locker **out,
                                                               locker_error *err);

/** Close a locker. Calls that wait return LOCKER_CLOSED, and every lock that is still held through the locker is released.
 * Blocks until all calls in flight have returned, then for up to `cleanup_timeout` (2 s by default) for the remaining
 * clean-up. No call on `l` may begin after this call has returned. NULL is allowed.
 *
 * Handles stay valid until they are freed. Their state is LOCKER_STATE_UNLOCKED, and unlocking them returns LOCKER_CLOSED.
 * For locks that were lost before, the state is LOCKER_STATE_LOST, and unlocking returns LOCKER_LOST.
 *
 * Returns:
 *   - OK: closed.
 *   - INVALID: called inside a callback of the locker. Nothing was done. */
LOCKER_API locker_status locker_close(locker *l);

/* ------------------------------------------------------------------ cancelling ---- */
/** A means to end waits from another thread or from a signal handler. It serves any number of calls and lockers. Opaque. The
 * functions below allow NULL. */
typedef struct locker_cancel locker_cancel;

/** Create a locker_cancel that is not fired. NULL: out of memory or descriptors. Free it with locker_cancel_free(). */
LOCKER_API locker_cancel *locker_cancel_new(void);

/** Fire: calls that wait with `cancel` return LOCKER_CANCELED, and so do later calls. A lock that was granted before stays
 * held. Async-signal-safe. May be called any number of times. Keeps errno. */
LOCKER_API void locker_cancel_fire(locker_cancel *cancel);

/** True if `cancel` was fired. Async-signal-safe. */
LOCKER_API bool locker_cancel_fired(const locker_cancel *cancel);

/** Make a fired `cancel` usable again. No call may be using it. */
LOCKER_API void locker_cancel_reset(locker_cancel *cancel);

/** Free `cancel`. No call may be using it, and no signal handler may fire it any more. */
LOCKER_API void locker_cancel_free(locker_cancel *cancel);

/* ------------------------------------------------------------------ locking ---- */
/** A lock that is held. Opaque. Unlock with locker_unlock(), then free with locker_handle_free(). */
typedef struct locker_handle locker_handle;

/** Callback for the loss of a lock. Called once per handle, within about 50 ms after its state becomes LOCKER_STATE_LOST. If
 * the process was stopped or the machine slept, it is called after they go on. Not called if the handle was unlocked before:
 * then locker_unlock() reports the loss.
 *
 * Runs on the locker's keeper thread, or during locker_close() on the closing thread, with no internal lock held. The
 * callback must not block, because lease renewals wait for it. It may call:
 *   - every locker_handle_*() function. Freeing a handle of a held lock releases the lock in the background.
 *   - locker_unlock(lost), which returns LOST.
 *   - locker_stats(), locker_get_semantics(), locker_cancel_fire().
 * Calls that wait for the service, and locker_handle_keep_over_exec(), return LOCKER_INVALID here.
 *
 * The application frees the handle, in the callback or later. Once locker_handle_free() has returned on another thread, the
 * callback neither runs nor will run. */
typedef void (*locker_lost_fn)(locker_handle *lost, void *user);

/** Maximum lengths in bytes. A key is 1 to 255 bytes of UTF-8, an owner or a label 1 to 127. Control
 * characters are not allowed: C0, DEL, C1, line and paragraph separators, and characters that reorder text (U+061C, U+200E,
 * U+200F, U+202A to U+202E, U+2066 to U+2069). */
enum { LOCKER_KEY_MAX = 255, LOCKER_OWNER_MAX = 127 };

/** How a lock shares its key with other holders. */
typedef enum locker_mode {
    LOCKER_EXCLUSIVE = 0, /**< a writer: no other holder, except with permits */
    LOCKER_SHARED = 1     /**< a reader: beside other readers, never beside a writer */
} locker_mode;

/** Largest number of permits of a key. */
enum { LOCKER_PERMITS_MAX = 1 << 20 };

/** Options of a lock call. Start from LOCKER_LOCK_OPTIONS_INIT, which waits without limit. */
typedef struct locker_lock_options {
    size_t size;     /**< sizeof(locker_lock_options) */
    int64_t wait_ms; /**< longest wait in ms; 0: try once; -1: without limit */

    /** Lease time in ms; 0: the locker's default. Outside the driver's range: CONFIG. Drivers without leases (file, memory)
     * ignore it unless no_renew is set. */
    int64_t ttl_ms;

    bool no_renew; /**< True if the lease is not renewed: the lock is meant to be LOST after ttl_ms. */
    locker_cancel *cancel; /**< ends the wait; NULL: none. Must outlive the call. */

    /** Owner for re-entrant locking, 1 to 127 bytes; NULL: not re-entrant. If the owner holds the key through this locker,
     * the call returns another handle at once. So does a waiting call when another call of the owner gets the key.
     * Unlocking the last handle releases the lock. Tasks that must exclude each other need different owners.
     *
     * The lease does not change. INVALID if the call asks for
     *   - a longer ttl_ms than the first call did;
     *   - renewal, if the first call set no_renew;
     *   - LOCKER_EXCLUSIVE, if the owner holds the key shared: two such calls would wait for each other without end.
     * If the owner holds the key exclusively, a call for LOCKER_SHARED also re-enters the exclusive lock. */
    const char *owner;

    locker_lost_fn on_lost; /**< called when the lock is lost; NULL: none */
    void *user;             /**< passed to on_lost */

    /** Label of the holder in locker_show(), 1 to 127 bytes; NULL: owner, else the locker's. It excludes no other call and
     * admits none. */
    const char *label;

    /** LOCKER_SHARED: hold the key beside other shared holders. UNSUPPORTED if the driver has no shared locks. If the driver
     * serves in order of arrival (locker_semantics.shared), later readers do not overtake a waiting writer.
     *
     * If this locker already holds the key shared, the call may join that grant, with its token and lease. The service is
     * not asked. Both calls must have the same ttl_ms and label, and neither no_renew nor an owner. A call can join within
     * 50 ms of the grant, and later for as long as the driver knows that there is no waiter. Joining ends when the driver
     * reports a waiter, or when this locker breaks the lock. No call passes a waiting writer of this locker. With Redis, a
     * waiting call joins only if a third of the lease is left. */
    locker_mode mode;

    /** Number of permits, 1 to LOCKER_PERMITS_MAX; 0: an ordinary lock. At most so many holders have the key at a time, each
     * with its own slot (locker_handle_slot()). INVALID with LOCKER_SHARED. UNSUPPORTED if the driver has no permits, or
     * fewer (locker_semantics.permits_most). CONFIG if the key is held, or waited for, with another number or as an
     * ordinary lock. The text names both uses. */
    int32_t permits;
} locker_lock_options;

#define LOCKER_LOCK_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(locker_lock_options), -1, 0, false, 0, 0, 0, 0, 0, LOCKER_EXCLUSIVE, 0                        \
    }

/** Take the lock `key`, waiting as `options` say (NULL: without limit). Callers of a locker are served in order of arrival.
 * On OK, *out is a handle that the caller must free. If the lock is lost as the call returns, the status is OK, the handle's
 * state is LOST, and on_lost is called. On any other status, *out is NULL and nothing is left at the service. If clean-up is
 * not possible at once, it continues in the background.
 *
 * Blocks for up to wait_ms (0: as locker_try_lock()). A waiting call goes on through an outage of the service.
 *
 * Returns:
 *   - OK: the lock is held.
 *   - BUSY: another holder has the key. Only with wait_ms 0.
 *   - TIMEOUT: the key did not become free within wait_ms.
 *   - CANCELED: options->cancel was fired.
 *   - UNAVAILABLE: the service was out of reach at the end of the wait (connection refused or dropped, or no answer for
 *     `command_timeout`). If locks of this locker keep the caller out, TIMEOUT instead.
 *   - UNAVAILABLE at once: waiting cannot help, because the directory of the locks is gone.
 *   - CONFIG: ttl_ms is out of range, the key has another number of permits, or an application keeps data at the key.
 *   - UNSUPPORTED: the driver lacks the mode or the permits.
 *   - DENIED, INVALID, PROTOCOL, NOMEM, CLOSED, FORKED. Never UNKNOWN. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock(locker *l, const char *key,
                                                       const locker_lock_options *options,
                                                       locker_handle **out, locker_error *err);

/** Take the lock if it is free: locker_lock() with wait_ms 0, whatever `options` say. Blocks only for the service's answer,
 * for up to `command_timeout`. Never waits for another holder.
 *
 * Returns as locker_lock() does, with these differences:
 *   - UNAVAILABLE at once if the connection is refused or the host is unreachable. Each call connects again.
 *   - If another call of this locker waits for the key at a service without a queue (Redis): that call's latest result.
 *     It is BUSY, or UNAVAILABLE if the service was out of reach. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_try_lock(locker *l, const char *key,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** Largest number of keys in a locker_lock_all() call. */
enum { LOCKER_KEYS_MAX = 64 };

/** Take all of `keys` or none, with a single handle. Each key is taken as by locker_lock(), and wait_ms limits the whole
 * call. Owner, mode and permits apply to each key. With wait_ms 0, blocks for up to `command_timeout` per key.
 *
 * Keys are taken in byte order, each once, whatever their order in `keys`. So two calls never wait for each other in a
 * circle. The handle lists the keys in that order.
 *
 * If a key is lost while the call waits for others, the call releases all keys and starts again, until wait_ms is over. With
 * wait_ms 0 it starts again for up to `command_timeout` (with no_renew: not at all), then returns UNAVAILABLE: the ttl is
 * too short for that many keys.
 *
 * A call that fails releases in the background the keys that it has taken. After BUSY it waits for the service's answers
 * instead, for up to `command_timeout` in all.
 *
 * Losing a key loses all. The handle's state is the worst of its keys, its remaining time is the shortest, and on_lost is
 * called once. locker_unlock() releases all keys. It returns LOST if any key was lost, else UNKNOWN if any result is
 * unknown. It takes as long as for a single key: it sends all requests at once and waits for the answers for up to
 * `command_timeout` in all.
 *
 * Returns as locker_lock() does, with the key in the text. INVALID if `n` is 0 or above LOCKER_KEYS_MAX. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock_all(locker *l, const char *const *keys, size_t n,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** Release the lock. Call it once per handle, from any thread, and free the handle afterwards. Blocks for the service's
 * answer, for up to `command_timeout`.
 *
 * Returns:
 *   - OK: unlocked. Either
 *       - the service removed our lock, or
 *       - the lock passed to the next waiter of this locker, while our lease was certain, or
 *       - other handles keep the grant (re-entry, joined shared lock). Then the service is not asked. OK does not rule out a
 *         break that this process has not been notified of.
 *     If the service's answer was lost on the way, OK rules out an earlier locker_break(). It does not rule out that a
 *     foreign client deleted the lock at that moment. With Redis, a notification of a break or a failover can be in flight
 *     while a lock is passed on. docs/promises.md lists these cases.
 *   - LOST: the lock was not ours any more. No other lock was touched.
 *   - UNKNOWN: the service did not answer, or cannot tell whether this call ended the lock. Releasing goes on in the
 *     background. The lock ends with its lease at the latest.
 *   - INVALID: already unlocked, or called inside a callback on a lock that is held.
 *   - CLOSED, FORKED. */
LOCKER_API locker_status locker_unlock(locker_handle *held, locker_error *err);

/** Unlock if the lock is still held, and free the handle. Blocks as locker_unlock() does. NULL is allowed. */
LOCKER_API void locker_handle_free(locker_handle *held);

/** Call locker_handle_free(). Has the signature that pthread_cleanup_push() and similar functions need. */
LOCKER_API void locker_cleanup(void *held);

/** Free *held when the variable goes out of scope. For LOCKER_AUTO. */
static inline void locker_cleanup_scope(locker_handle **held)
{
    locker_handle_free(*held);
}

#if defined(__GNUC__)
/** Attribute of a `locker_handle *` variable: unlock and free the handle at the end of its scope. Initialize the variable. */
#define LOCKER_AUTO __attribute__((cleanup(locker_cleanup_scope)))
#endif

/** State of a handle's lock. */
typedef enum locker_state {
    LOCKER_STATE_HELD = 0,    /**< held */
    LOCKER_STATE_SUSPECT = 1, /**< held, but a renewal is overdue or the service is out of reach */
    LOCKER_STATE_LOST = 2,    /**< lost; final */
    LOCKER_STATE_UNLOCKED = 3 /**< unlocked, or the locker was closed */
} locker_state;

/** Return the current state, by comparing the clock with the lease's deadline. No I/O, does not block. */
LOCKER_API locker_state locker_handle_state(const locker_handle *held);

/** Return the name of a state in lower case. Static text. */
LOCKER_API const char *locker_state_name(locker_state state);

/** Return the time in ms, rounded down, for which the lock is certainly ours if no further answer of the service arrives. 0:
 * lost or unlocked. -1: there is no lease that could end. */
LOCKER_API int64_t locker_handle_remaining_ms(const locker_handle *held);

/** Return the lease time in ms that was asked for. -1: the driver has no leases (locker_semantics.leases). */
LOCKER_API int64_t locker_handle_ttl_ms(const locker_handle *held);

/** Return the fencing token, which is greater than that of every earlier grant of this key. 0: fencing is off. Pass it to the
 * resource that the lock protects. The resource must reject a token smaller than the greatest that it has seen (Kleppmann,
 * "How to do distributed locking", 2016). All handles of a re-entered lock have the same token. docs/promises.md lists the
 * cases in which a service cannot keep this promise. */
LOCKER_API uint64_t locker_handle_token(const locker_handle *held);

/** Return a descriptor for poll() and the like that becomes readable when the lock is lost. The first call creates it, and
 * locker_handle_free() closes it. Do not read from it or close it. -1: there is no descriptor; see errno. */
LOCKER_API int locker_handle_fd(locker_handle *held);

/** Return the slot of a permit, 0 to permits - 1, which no other holder of the key has. -1: an ordinary lock. */
LOCKER_API int32_t locker_handle_slot(const locker_handle *held);

/** Return the key as the caller gave it; of several keys, the first. Valid until the handle is freed. */
LOCKER_API const char *locker_handle_key(const locker_handle *held);

/** Return the number of keys: 1, or more after locker_lock_all(). */
LOCKER_API size_t locker_handle_count(const locker_handle *held);

/** Return the key at `index`, in the order of taking; NULL past the last. Valid until the handle is freed. */
LOCKER_API const char *locker_handle_key_at(const locker_handle *held, size_t index);

/** Return the fencing token of the key at `index`; 0 past the last. locker_handle_token() returns the first. */
LOCKER_API uint64_t locker_handle_token_at(const locker_handle *held, size_t index);

/** Return the label that locker_show() reports for this holder. Valid until the handle is freed. */
LOCKER_API const char *locker_handle_owner(const locker_handle *held);

/** True if the locker's locks can survive exec, so that locker_handle_keep_over_exec() works. Locks of the file driver can,
 * because they live in descriptors. Locks of a service end with their lease, which is not renewed after exec. False for
 * NULL. */
LOCKER_API bool locker_keeps_over_exec(const locker *l);

/** Make the descriptors that the lock lives in inheritable. The program that this process becomes by exec then holds the
 * lock. The lock lasts until that program and all processes that inherited the descriptors have ended or closed them. After
 * exec, no process watches the lock: the program is not notified if the lock is broken or its file is removed.
 *
 * Call it right before exec, because every program that the process starts from then on inherits the lock, too. If exec
 * fails, locker_unlock() works as before. Does not wait for another process.
 *
 * Returns:
 *   - OK: the descriptors are inheritable.
 *   - UNSUPPORTED: locker_keeps_over_exec() is false. Nothing has changed.
 *   - LOST: the lock was lost.
 *   - UNAVAILABLE: a system call failed, so that it is not known whether the lock is held, or it cannot be kept.
 *   - INVALID: `held` is NULL or unlocked, or the call is inside a callback.
 *   - CLOSED, FORKED. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_handle_keep_over_exec(locker_handle *held,
                                                                        locker_error *err);

/* ------------------------------------------------------------------ inspecting and breaking ---- */
/* A label that another client wrote is reported unchanged and can contain any bytes. Escape it before it is printed to a
 * terminal. */

/** A waiter that the service knows. */
typedef struct locker_waiter {
    char owner[LOCKER_OWNER_MAX + 1]; /**< the waiter's label; empty: unknown */
    locker_mode mode;
    int32_t permits; /**< number of permits of the key; 0: waits for an ordinary lock */
} locker_waiter;

/** A holder of a key that several can hold. */
typedef struct locker_holder {
    char owner[LOCKER_OWNER_MAX + 1]; /**< the holder's label; empty: unknown */
    uint64_t token;                   /**< the holder's fencing token; 0: unknown */
    int64_t since_unix_ms;            /**< as in locker_info */
    int64_t remaining_ms;             /**< as in locker_info; known only with Redis */
    int64_t slot;                     /**< slot of a permit; else -1 */
} locker_holder;

/** State of a key at the service. Free its contents with locker_info_clear(). */
typedef struct locker_info {
    size_t size;                      /**< sizeof(locker_info) */
    bool held;                        /**< True if the key has a holder. */
    char owner[LOCKER_OWNER_MAX + 1]; /**< the holder's label; empty: unknown (a foreign client) */

    /** Time of the grant in ms since the Unix epoch; -1: unknown. With ZooKeeper and etcd, if the
     * holder had to wait, the value is the time of joining the queue until about 250 ms after the grant. For a foreign client
     * of ZooKeeper it stays that time. */
    int64_t since_unix_ms;

    /** Time in ms until the lease ends unless it is renewed; -1: no lease, no end, or unknown. With file, memory,
     * ZooKeeper and etcd, it is known only for a lock with no_renew, and only to the locker that holds it. */
    int64_t remaining_ms;

    /** Fencing token of the current grant, or of the last grant if the service keeps it (file: until the lock file is
     * removed); 0: unknown. */
    uint64_t token;

    /** Number of waiters at the service; -1: unknown. File, memory, ZooKeeper and etcd count every waiter. Redis counts each
     * locker that waits as 1, whatever the number of its threads. Redis does not count foreign clients, lockers that have
     * not subscribed, and waiters of the locker that holds the key exclusively. */
    int64_t waiters;

    locker_waiter *queue; /**< the known waiters, in the order of service; may be NULL */
    size_t queue_len;     /**< number of entries in queue */
    size_t queue_stride;  /**< size of an entry in bytes; see locker_info_waiter() */

    locker_mode mode; /**< mode of the holders */
    int32_t permits;  /**< number of permits, the most holders at a time; 0: an ordinary lock */

    /** The holders of a shared lock or of permits, in ascending order of their tokens. `owner`, `since_unix_ms`,
     * `remaining_ms` and `token` above describe the first. NULL if the key is free or has a single exclusive holder. Calls
     * that joined a grant count as a single holder. */
    locker_holder *holders;
    size_t holders_len;   /**< entries in holders (Redis: up to 1,000); of permits, the number taken */
    size_t holder_stride; /**< size of an entry in bytes; see locker_info_holder() */
} locker_info;

#define LOCKER_INFO_INIT                                                                                     \
    {                                                                                                        \
        sizeof(locker_info), false, {0}, -1, -1, 0, -1, 0, 0, 0, LOCKER_EXCLUSIVE, 0, 0, 0, 0                \
    }

/** Return the entry of info->queue at `index`, from 0; NULL past the last. Later releases may have larger entries. */
static inline const locker_waiter *locker_info_waiter(const locker_info *info, size_t index)
{
    return index < info->queue_len
               ? (const locker_waiter *)(const void *)((const char *)info->queue + index * info->queue_stride)
               : (const locker_waiter *)0;
}

/** Return the entry of info->holders at `index`, from 0; NULL past the last. */
static inline const locker_holder *locker_info_holder(const locker_info *info, size_t index)
{
    return index < info->holders_len ? (const locker_holder *)(const void *)((const char *)info->holders +
                                                                             index * info->holder_stride)
                                     : (const locker_holder *)0;
}

/** Query the state of `key` from the service. Blocks for up to `command_timeout`. Overwrites *info, which the caller must
 * clear afterwards.
 *
 * Returns:
 *   - OK: *info is filled, also if the key is free.
 *   - CONFIG: an application keeps data at the key, and no lock.
 *   - UNAVAILABLE, DENIED, INVALID, PROTOCOL, NOMEM, CLOSED, FORKED. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_show(locker *l, const char *key, locker_info *info,
                                                       locker_error *err);

/** Free the contents of *info, but not the struct, which belongs to the caller. */
LOCKER_API void locker_info_clear(locker_info *info);

/** Selection of holders for locker_break(). Start from LOCKER_BREAK_OPTIONS_INIT, which selects all. */
typedef struct locker_break_options {
    size_t size;       /**< sizeof(locker_break_options) */
    uint64_t token;    /**< only the holder with this fencing token; 0: any */
    const char *owner; /**< only a holder with this label; NULL: any */
    bool force;        /**< True to delete also data that liblocker did not write; false: CONFIG. */
    char reserved[7];  /**< 0 */
} locker_break_options;

#define LOCKER_BREAK_OPTIONS_INIT                                                                            \
    {                                                                                                        \
        sizeof(locker_break_options), 0, 0, false,                                                           \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }

/** Take a lock away from its holder: a forced unlock for operators. Breaks every holder that `options` select (NULL: all). A
 * holder cannot be selected by a token or label that the service does not know. The holder's state becomes LOST as soon as
 * its service can report the break. Blocks for up to `command_timeout`.
 *
 * The service compares and breaks each holder in a single step, so a lock that changed hands after a query is left alone. If
 * a call that breaks several holders fails, some may have lost the lock. Redis breaks up to 50 holders in a step, and serves
 * other requests between steps. Holders that came after the first step keep the lock.
 *
 * Fills *broken (NULL: ignored) with the holder, as locker_show() does, also on BUSY. The caller must clear it.
 *
 * Returns:
 *   - OK: broken.
 *   - INVALID: the key has no holder, or an argument is wrong.
 *   - BUSY: `options` select no holder, or the holder changed again and again (ZooKeeper, etcd). Nothing was broken, except
 *     perhaps some of several holders at ZooKeeper.
 *   - UNAVAILABLE: the service is out of reach, or the holder changed again and again (file, Redis).
 *   - DENIED: the user lacks a right. With ZooKeeper, also if the user may delete the lock but not read its holder.
 *   - UNSUPPORTED: the driver cannot break locks (locker_semantics.can_break).
 *   - CONFIG: the data at the key are not known to be a lock, and were left as they are; see below.
 *   - PROTOCOL, NOMEM, CLOSED, FORKED.
 *
 * After CONFIG, the key may hold another client's lock or an application's data:
 *   - Redis: a string that liblocker did not write, or a hash;
 *   - ZooKeeper: a node that outlives its session;
 *   - etcd: a key without a lease, or of another form.
 * Look at the data, then delete them with `force`. Data of another type are never deleted (Redis: a list, a set, a sorted
 * set, a stream). Lock calls and locker_show() return CONFIG there, too. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_break(locker *l, const char *key,
                                                        const locker_break_options *options,
                                                        locker_info *broken, locker_error *err);

/** Make a round trip to the service, and set *round_trip_us (NULL: ignored) to its time in microseconds. Blocks for up to
 * `command_timeout`. Returns OK, UNAVAILABLE if no answer came, or another status as locker_show() does. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_ping(locker *l, int64_t *round_trip_us, locker_error *err);

/** Order in which waiters are served. */
typedef enum locker_fairness {
    LOCKER_FAIR_LOCAL = 1, /**< FIFO within a locker, no order among processes */
    LOCKER_FAIR_GLOBAL = 2 /**< FIFO among all waiters of all processes */
} locker_fairness;

/** Range in which a lock excludes others. */
typedef enum locker_scope {
    LOCKER_SCOPE_PROCESS = 1, /**< threads of a process */
    LOCKER_SCOPE_HOST = 2,    /**< processes of a host */
    LOCKER_SCOPE_NETWORK = 3  /**< hosts */
} locker_scope;

/** Order in which shared and exclusive waiters of a key are served. */
typedef enum locker_order {
    LOCKER_ORDER_NONE = 0,    /**< the driver has no shared locks */
    LOCKER_ORDER_ARRIVAL = 1, /**< order of arrival over both modes, among all processes */
    LOCKER_ORDER_LOCAL = 2    /**< the same within a locker; elsewhere, exclusive waiters do not starve */
} locker_order;

/** Promises of a lock service. */
typedef struct locker_semantics {
    size_t size;        /**< sizeof(locker_semantics) */
    const char *driver; /**< "redis", ... */
    locker_scope scope;
    locker_fairness fairness;
    bool leases; /**< True if a lock ends unless it is renewed; false: a lock ends with its process. */
    bool tokens_persist;   /**< True if fencing tokens grow over restarts of all processes. */
    bool survives_restart; /**< True if a lock outlives a restart of its service that keeps its data. */
    bool can_break;        /**< True if locker_break() works. */
    bool quorum;           /**< True if a majority of servers agrees to each grant. */

    /** A sentence each. The first five say what happens when the holder dies, is stopped or is cut off from the service, and
     * when the service restarts or fails over. The others are about the fencing token and the cost of a lock. */
    const char *holder_dies;
    const char *holder_stalls;
    const char *cut_off;
    const char *service_restarts;
    const char *failover;
    const char *token;
    const char *cost;

    locker_order shared;  /**< order of shared locks; LOCKER_ORDER_NONE: there are none */
    int64_t permits_most; /**< largest number of permits of a key; 0: there are none */
} locker_semantics;

/** Return the promises of the locker's service. Valid as long as the locker. NULL only if `l` is NULL. */
LOCKER_API const locker_semantics *locker_get_semantics(const locker *l);

/** Return the service that keeps this locker's locks, as a URI without user and password:
 * "redis://cache:6379/0?namespace=shop". It is for people: the only parameter is the namespace. Valid as long as the
 * locker. NULL only if `l` is NULL. */
LOCKER_API const char *locker_get_service(const locker *l);

/** Return the source of the configuration, in a single line: "from LOCKER_URI", "from /etc/locker.conf, profile [default]",
 * "the embedded default", "named by the program". Valid as long as the locker. NULL only if `l` is NULL. */
LOCKER_API const char *locker_get_origin(const locker *l);

/** Type of a parameter's value. */
typedef enum locker_param_kind {
    LOCKER_PARAM_DURATION = 1,
    LOCKER_PARAM_NUMBER = 2,
    LOCKER_PARAM_BOOL = 3,
    LOCKER_PARAM_TEXT = 4,
    LOCKER_PARAM_PATH = 5,       /**< text, not empty */
    LOCKER_PARAM_SECRET_FILE = 6 /**< path of a file whose first line is the value */
} locker_param_kind;

/** A parameter of a driver's URI query or profile. A table ends with an entry whose name is NULL. Static data. */
typedef struct locker_parameter {
    const char *name;
    locker_param_kind kind;
    const char *initial; /**< default value, as text that can be parsed; NULL: none */
    int64_t min, max;    /**< range of a number, or of a duration in ms; both 0: any that is not negative */
    const char *help;    /**< a single line */
} locker_parameter;

/** Return the name of a kind: "duration", "number", "bool", "text" or "path". Static text. */
LOCKER_API const char *locker_param_kind_name(locker_param_kind kind);

/** A driver that is built in, or a module beside the library. Static data. */
typedef struct locker_driver_info {
    size_t size; /**< sizeof(locker_driver_info) */
    const char *name;
    const char *schemes;  /**< the URI schemes, separated by single spaces */
    const char *example;  /**< a URI */
    const char *features; /**< abilities and limits of the build's client library, a line; may be empty */
    const locker_semantics *semantics;
    const locker_parameter *parameters;
    const char *module; /**< file from which the driver is loaded at its first use; NULL: built in */

    /** Reason why the module's description cannot be read. Then only the name of its file is known. NULL: it was read. */
    const char *problem;
} locker_driver_info;

#define LOCKER_DRIVER_INFO_INIT                                                                              \
    {                                                                                                        \
        sizeof(locker_driver_info), 0, 0, 0, 0, 0, 0, 0, 0                                                   \
    }

/** Fill *info with the driver at `index`, from 0. Loads no module. False: `index` is past the last driver, info->size is
 * wrong, or memory ran out. */
LOCKER_API bool locker_driver_at(size_t index, locker_driver_info *info);

/** Return the table of the parameters that every driver takes. */
LOCKER_API const locker_parameter *locker_common_parameters(void);

/** Number of buckets in a locker_histogram. */
enum { LOCKER_HISTOGRAM_BUCKETS = 40 };

/** Distribution of times in microseconds. bucket[0] counts times under 1 us, bucket[i] times from 2^(i-1) us up to 2^i us. */
typedef struct locker_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t max_us;
    uint64_t bucket[LOCKER_HISTOGRAM_BUCKETS];
} locker_histogram;

/** Return the time in us under which the part `q` (0 to 1) of the samples lies: the upper end of a bucket, at most max_us. */
LOCKER_API uint64_t locker_histogram_quantile(const locker_histogram *h, double q);

/** Counts since the locker was opened. Counters only grow; `held` and `waiting` are current values. */
typedef struct locker_statistics {
    size_t size;            /**< sizeof(locker_statistics) */
    uint64_t acquired;      /**< grants, with those handed over inside the locker, without re-entries */
    uint64_t handed_over;   /**< grants passed on inside the locker, without a release at the service */
    uint64_t reentered;     /**< lock calls that re-entered a lock of their owner */
    uint64_t busy;          /**< lock calls that returned BUSY */
    uint64_t timed_out;     /**< lock calls that returned TIMEOUT */
    uint64_t canceled;      /**< lock calls that returned CANCELED */
    uint64_t failed;        /**< lock calls that ended with any other error */
    uint64_t attempts;      /**< attempts of the driver, with those that found the lock busy */
    uint64_t released;      /**< locks released by an unlock that returned OK */
    uint64_t lost;          /**< locks lost while held */
    uint64_t unknown;       /**< unlocks that returned UNKNOWN */
    uint64_t renewals;      /**< leases extended */
    uint64_t renewals_late; /**< times that a lease became SUSPECT because its renewal was overdue */
    uint64_t held;          /**< locks held now */
    uint64_t waiting;       /**< calls that wait now */
    locker_histogram wait;  /**< time from the call to the grant */
    locker_histogram hold;  /**< time from the grant to the unlock or the loss */
    uint64_t rode;          /**< shared locks that joined another grant of the locker; not in acquired */
} locker_statistics;

#define LOCKER_STATISTICS_INIT                                                                               \
    {                                                                                                        \
        sizeof(locker_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, {0}},              \
            {0, 0, 0, {0}}, 0                                                                                \
    }

/** Copy the statistics into *stats, whose size must be set. Does not wait for the service. Returns OK, INVALID if the size is
 * wrong or a pointer is NULL, or FORKED. */
LOCKER_API locker_status locker_stats(const locker *l, locker_statistics *stats);

/* ------------------------------------------------------------------ utilities ---- */
/** Parse a duration into *ms: a number with an optional fraction, and a unit ms, s, m, h or d (none: seconds), such as "1.5",
 * "500ms", "2h". Returns OK, or CONFIG if `text` is no duration, negative or over 10 years. The error quotes it.
 * INVALID if a pointer is NULL. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_parse_duration(const char *text, int64_t *ms,
                                                                 locker_error *err);

/** Return the library's version: LOCKER_VERSION_STRING at the time of its build. Static text. */
LOCKER_API const char *locker_version(void);

#ifdef __cplusplus
}
#endif
#endif
