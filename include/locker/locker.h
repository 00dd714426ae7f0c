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
 *   - A locker_error * may be NULL. If it is not, the call fills the struct: on failure with status and text, on success
 *     with LOCKER_OK and an empty text. The struct belongs to the caller. The library keeps no error in thread-local state.
 *   - A struct whose first member is `size` may grow in a later release. Its `*_INIT` macro sets `size`. Zero in any other
 *     member means the default, except in wait_ms. If the program was compiled with
 *       - an older release, the library treats members that the program's struct lacks as zero, and cuts results to the
 *         size of that struct;
 *       - a later release, the library accepts the struct if all members that the library does not know are zero. If a
 *         member is not zero, the call returns LOCKER_CONFIG.
 *     If no release has a struct of that size, the call returns LOCKER_INVALID.
 *   - Functions are thread-safe. Only locker_cancel_fire() and locker_cancel_fired() are async-signal-safe. A thread that
 *     calls the library needs 64 KiB of stack.
 *   - No function is a cancellation point of pthread_cancel(). A thread that is canceled inside a function ends at its
 *     next cancellation point after the function. Use a locker_cancel to end a wait.
 *   - In a child of fork(), the program may call locker_close(), locker_handle_free() and locker_unlock() on inherited
 *     objects. These calls release nothing that the parent holds. In the child, locker_unlock() and every call that needs
 *     the service return LOCKER_FORKED.
 *   - Fork before the program has threads (an open locker has some), or call exec in the child. If the program had threads
 *     and the child opens a locker without exec, the child can hang: during the fork, another thread of the parent may have
 *     been inside the C library's resolver, OpenSSL or the loader. A mutex that this thread held stays locked in the child.
 *     So such a child must
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
    LOCKER_OK = 0,           /**< success: a lock call got the lock, or locker_unlock() unlocked it */
    LOCKER_BUSY = 1,         /**< another holder has the key, and the call does not wait */
    LOCKER_TIMEOUT = 2,      /**< the key did not become free within wait_ms */
    LOCKER_CANCELED = 3,     /**< the caller's locker_cancel was fired */
    LOCKER_LOST = 4,         /**< the caller had already lost the lock */
    LOCKER_UNKNOWN = 5,      /**< unlock result not known; the lock ends with its lease at the latest */
    LOCKER_UNAVAILABLE = 6,  /**< the service is out of reach, or cannot serve now */
    LOCKER_DENIED = 7,       /**< the service refuses the login, or the user lacks a right */
    LOCKER_INVALID = 8,      /**< an argument is wrong, or the call is not allowed at this moment */
    LOCKER_CONFIG = 9,       /**< the URI, the profile or an option is wrong, or the key has another use */
    LOCKER_UNSUPPORTED = 10, /**< this driver or this build cannot do that */
    LOCKER_PROTOCOL = 11,    /**< the service's answer makes no sense */
    LOCKER_NOMEM = 12,       /**< out of memory; the call left nothing behind */
    LOCKER_CLOSED = 13,      /**< the locker was closed before or during the call */
    LOCKER_FORKED = 14       /**< this process is a child of fork(); the locker belongs to its parent */
} locker_status;

/** Return the name of a status in lower case ("ok", "busy", ...), or "invalid status". Static text. */
LOCKER_API const char *locker_status_name(locker_status status);

/** Size of locker_error.text in bytes, with the final NUL. */
enum { LOCKER_ERROR_TEXT_MAX = 512 };

/** Description of a failure. The text says what is wrong and what to do, and never contains a password. The text is a
 * single line of printable UTF-8: control characters in quoted text are written as \xNN or \uNNNN. Log lines have the same
 * form. */
typedef struct locker_error {
    locker_status status;
    int os_error; /**< errno of a failed system call; EUSERS: the service accepts no more connections; 0: neither */
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

/** Callback for a log line, which has no newline and no password. Runs on the locker's keeper (a background thread), or on
 * the thread that opens or closes the locker, with no internal lock held. The callback receives one line at a time, in the
 * order in which the lines were logged.
 *
 * The callback must not block, because lease renewals wait for it. While the callback runs, the library stores up to 1,024
 * lines of at most 1,023 bytes each. It drops further lines, and then logs a line with their number. The callback may call
 * the same functions as a locker_lost_fn. It is not called in a child of fork(). */
typedef void (*locker_log_fn)(locker_log_level level, const char *text, void *user);

/** Options of a locker. Start from LOCKER_OPTIONS_INIT. */
typedef struct locker_options {
    size_t size; /**< sizeof(locker_options) */

    /** Label of this locker's holders in locker_show(), 1 to 127 bytes. NULL: the configuration's `owner`. If that is not set
     * either, the label is host:pid:program. */
    const char *owner;

    int64_t ttl_ms;         /**< default lease time in ms of locks; 0: `ttl` of the configuration, or 30 s */
    const char *name_space; /**< namespace of the keys; NULL: the configuration's `namespace` */

    /** Password for the service. NULL: the password of the URI, profile or password_file. If none of them has a password, the
     * one in LOCKER_PASSWORD (ignored with raised privileges). The library wipes its copy when the locker is closed. */
    const char *password;

    locker_log_level log_level; /**< most verbose level wanted; 0: LOCKER_LOG_WARN */
    locker_log_fn log;          /**< callback for log lines; NULL: no log */
    void *log_user;             /**< passed to the log callback */
} locker_options;

#define LOCKER_OPTIONS_INIT                                                                                  \
    {                                                                                                        \
        sizeof(locker_options), 0, 0, 0, 0, (locker_log_level)0, 0, 0                                        \
    }

/** Open the lock service at `uri`, such as "file:///run/lock/shop", "memory:" or "redis://host:6379/0?ttl=10s". Drivers that
 * use a network connect now, so that a wrong address or password is reported here. On success, *out is a locker that the
 * caller must close with locker_close(). On failure, *out is NULL.
 *
 * Blocks for up to `connect_timeout`. With Redis, this includes the time to look up host names. With other drivers, the call
 * waits for the resolver in addition, for as long as the resolver takes.
 *
 * Returns:
 *   - OK: the locker is open.
 *   - CONFIG: the configuration is wrong. The text names the wrong part.
 *   - UNSUPPORTED: this build lacks the scheme or a feature, or cannot load the driver's module.
 *   - INVALID: `uri` or `out` is NULL, or options->size or options->ttl_ms is wrong.
 *   - UNAVAILABLE, DENIED, PROTOCOL, NOMEM. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open(const char *uri, const locker_options *options,
                                                       locker **out, locker_error *err);

/** Open the service that the profile (section) `profile` of the INI file `file` names. If `file` is NULL, the call uses the
 * first configuration file in the order of locker_open_default(). If `profile` is NULL, it uses the profile that
 * LOCKER_PROFILE names, or "default" if LOCKER_PROFILE is not set.
 *
 * A profile has `uri = ...` or the parts `driver`, `host`, `port`, `user`, `password`, `path`. It may also have any
 * parameter of the driver. The call refuses a file that users other than its owner and its group can write or replace. If
 * every user can read the file and it has a password, the call uses the file and logs a warning.
 *
 * Blocks and returns as locker_open() does. For CONFIG, the text names the file, and also the line if a single line is
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
 *   5. the embedded default: the file driver in the private directory /tmp/locker-UID, where UID is the effective user ID.
 *      The user's login sessions, cron jobs and systemd services (without PrivateTmp=) share this directory. The call
 *      returns CONFIG if the directory is a link or belongs to another user.
 *
 * From a file, the call uses the profile that LOCKER_PROFILE names, or "default" if LOCKER_PROFILE is not set. If
 * LOCKER_PROFILE is set, 5 does not apply: without a URI and a file, the call returns CONFIG. locker_get_origin() returns
 * which source was used.
 *
 * A program with raised privileges (set-user-ID, set-group-ID, file capabilities: AT_SECURE of getauxval(3)) ignores its
 * environment, so only 4 and 5 apply. 5 then applies only if the effective user is root, or differs from the user that
 * started the program. If neither is true, the call returns CONFIG.
 *
 * Blocks and returns as locker_open() does. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_default(const locker_options *options, locker **out,
                                                               locker_error *err);

/** Close a locker. Calls that wait return LOCKER_CLOSED, and every lock that is still held through the locker is released.
 * Blocks until all calls in flight have returned, then for up to `cleanup_timeout` (2 s by default) for the remaining
 * clean-up. The program must not use `l` in a call after this call has returned. NULL is allowed.
 *
 * Handles stay valid until they are freed. Their state is then LOCKER_STATE_UNLOCKED, and unlocking them returns
 * LOCKER_CLOSED. For locks that were lost before, the state is LOCKER_STATE_LOST, and unlocking returns LOCKER_LOST.
 *
 * Returns:
 *   - OK: closed.
 *   - INVALID: called inside a callback of the locker. Nothing was done. */
LOCKER_API locker_status locker_close(locker *l);

/* ------------------------------------------------------------------ cancelling ---- */
/** An object that ends waits from another thread or from a signal handler. Any number of calls and lockers can use it at the
 * same time. Opaque. The locker_cancel_*() functions allow NULL. */
typedef struct locker_cancel locker_cancel;

/** Create a locker_cancel that is not fired. Returns NULL if memory or descriptors ran out. Free it with
 * locker_cancel_free(). */
LOCKER_API locker_cancel *locker_cancel_new(void);

/** Fire `cancel`. Calls that wait with `cancel` return LOCKER_CANCELED, and later calls with it return LOCKER_CANCELED at
 * once. A lock that was granted before stays held. Async-signal-safe. Can be called any number of times. Keeps errno. */
LOCKER_API void locker_cancel_fire(locker_cancel *cancel);

/** True if `cancel` was fired. Async-signal-safe. */
LOCKER_API bool locker_cancel_fired(const locker_cancel *cancel);

/** Make a fired `cancel` usable again. Do not reset it while a call uses it. */
LOCKER_API void locker_cancel_reset(locker_cancel *cancel);

/** Free `cancel`. Do not free it while a call uses it, or while a signal handler can still fire it. */
LOCKER_API void locker_cancel_free(locker_cancel *cancel);

/* ------------------------------------------------------------------ locking ---- */
/** A lock that is held. Opaque. Unlock with locker_unlock(), then free with locker_handle_free(). */
typedef struct locker_handle locker_handle;

/** Callback for the loss of a lock. Called once per handle, within about 50 ms after the handle's state becomes
 * LOCKER_STATE_LOST. If the process is stopped or the machine sleeps at that time, the callback is called after the
 * process or machine has continued. If the program unlocks the handle before the callback is called, locker_unlock()
 * reports the loss and the callback is not called.
 *
 * Runs on the locker's keeper (a background thread), or during locker_close() on the closing thread, with no internal lock
 * held. The callback must not block, because lease renewals wait for it. It may call:
 *   - every locker_handle_*() function. Freeing a handle of a held lock releases the lock in the background.
 *   - locker_unlock(lost), which returns LOST.
 *   - locker_stats(), locker_get_semantics(), locker_cancel_fire().
 * Calls that wait for the service, and locker_handle_keep_over_exec(), return LOCKER_INVALID inside the callback.
 *
 * The application frees the handle, in the callback or later. After locker_handle_free() has returned on another thread, the
 * callback is not running and will not be called. */
typedef void (*locker_lost_fn)(locker_handle *lost, void *user);

/** Maximum lengths in bytes. A key has 1 to 255 bytes of UTF-8, and an owner or a label has 1 to 127. These characters are
 * not allowed: the control characters C0, DEL and C1, line and paragraph separators, and characters that reorder text
 * (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069). */
enum { LOCKER_KEY_MAX = 255, LOCKER_OWNER_MAX = 127 };

/** How a lock shares its key with other holders. */
typedef enum locker_mode {
    LOCKER_EXCLUSIVE = 0, /**< a writer: the only holder of the key, except with permits */
    LOCKER_SHARED = 1     /**< a reader: holds the key together with other readers, never with a writer */
} locker_mode;

/** Largest number of permits of a key. */
enum { LOCKER_PERMITS_MAX = 1 << 20 };

/** Options of a lock call. Start from LOCKER_LOCK_OPTIONS_INIT, which waits without limit. */
typedef struct locker_lock_options {
    size_t size;     /**< sizeof(locker_lock_options) */
    int64_t wait_ms; /**< longest wait in ms; 0: try once; -1: without limit */

    /** Lease time in ms; 0: the locker's default. For a value outside the driver's range, the call returns CONFIG.
     * Drivers without leases (file, memory) ignore ttl_ms unless no_renew is set. */
    int64_t ttl_ms;

    bool no_renew; /**< True to leave the lease without renewal: the lock becomes LOST after ttl_ms. */
    locker_cancel *cancel; /**< ends the wait when it is fired; NULL: none. Must outlive the call. */

    /** Owner for re-entrant locking, 1 to 127 bytes; NULL: not re-entrant. If the same owner already holds the key through
     * this locker, the call re-enters that lock: it returns another handle of the lock at once. A call that already waits
     * re-enters when another call of its owner gets the key. Unlocking the last handle releases the lock. Tasks that must
     * exclude each other need different owners.
     *
     * Re-entering does not change the lease. A call that re-enters returns INVALID if it asks for
     *   - a longer ttl_ms than the first call did;
     *   - renewal, if the first call set no_renew;
     *   - LOCKER_EXCLUSIVE, if the owner holds the key shared: two owners that did this would wait for each other forever.
     * If the owner holds the key exclusively, a call for LOCKER_SHARED also re-enters the exclusive lock. */
    const char *owner;

    locker_lost_fn on_lost; /**< called when the lock is lost; NULL: none */
    void *user;             /**< passed to on_lost */

    /** Label of the holder in locker_show(), 1 to 127 bytes. NULL: `owner`. If `owner` is also NULL, the locker's label. The
     * label does not decide which calls exclude each other. */
    const char *label;

    /** LOCKER_SHARED: hold the key together with other shared holders. The call returns UNSUPPORTED if the driver has no
     * shared locks. If the driver serves waiters in order of arrival (locker_semantics.shared), later readers do not overtake
     * a waiting writer.
     *
     * If this locker already holds the key shared, the call may join that grant: it gets a handle with the grant's token and
     * lease, and does not ask the service. Both calls must have the same ttl_ms and label, and must set neither no_renew nor
     * an owner. A call can join within 50 ms after the grant. After these 50 ms, it can join for as long as the driver knows
     * that the key has no waiter. Joining ends when the driver reports a waiter, or when this locker breaks the lock. No call
     * joins while a writer of this locker waits for the key. With Redis, a call that may wait (wait_ms not 0) joins only if
     * at least a third of ttl_ms is left of the lease. */
    locker_mode mode;

    /** Number of permits of the key, 1 to LOCKER_PERMITS_MAX; 0: an ordinary lock. The key then has at most this number of
     * holders at a time, each with its own slot (locker_handle_slot()). The call returns
     *   - INVALID with LOCKER_SHARED;
     *   - UNSUPPORTED if the driver has no permits, or fewer than this number (locker_semantics.permits_most);
     *   - CONFIG if the key is held, or waited for, with another number of permits or as an ordinary lock. The text names
     *     both uses. */
    int32_t permits;
} locker_lock_options;

#define LOCKER_LOCK_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(locker_lock_options), -1, 0, false, 0, 0, 0, 0, 0, LOCKER_EXCLUSIVE, 0                        \
    }

/** Take the lock `key`, waiting as `options` say (NULL: without limit). Callers of the same locker are served in order of
 * arrival. On OK, *out is a handle that the caller must free. If the lock is lost while the call returns, the status is
 * still OK, the handle's state is LOST, and on_lost is called. On any other status, *out is NULL and the call leaves nothing
 * at the service. If this clean-up is not possible at once, it continues in the background.
 *
 * Blocks for up to wait_ms (0: as locker_try_lock()). A waiting call continues to wait during an outage of the service.
 *
 * Returns:
 *   - OK: the lock is held.
 *   - BUSY: another holder has the key. Only with wait_ms 0.
 *   - TIMEOUT: the key did not become free within wait_ms.
 *   - CANCELED: options->cancel was fired.
 *   - UNAVAILABLE: the service was out of reach at the end of the wait (connection refused or dropped, or no answer for
 *     `command_timeout`). But if locks of this same locker keep the caller out, the status is TIMEOUT even then.
 *   - UNAVAILABLE at once: waiting cannot help, because the directory with the lock files is gone.
 *   - CONFIG: ttl_ms is out of range, the key is used with another number of permits, or an application keeps data at
 *     the key.
 *   - UNSUPPORTED: the driver lacks the mode or the permits.
 *   - DENIED, INVALID, PROTOCOL, NOMEM, CLOSED, FORKED. Never UNKNOWN. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock(locker *l, const char *key,
                                                       const locker_lock_options *options,
                                                       locker_handle **out, locker_error *err);

/** Take the lock if it is free, as locker_lock() does with wait_ms 0. Ignores options->wait_ms. Blocks only for the service's
 * answer, for up to `command_timeout`. Never waits for another holder.
 *
 * Returns as locker_lock() does, with these differences:
 *   - UNAVAILABLE at once if the connection is refused or the host is unreachable. Each call tries to connect again.
 *   - If the service has no queue (Redis) and another call of this locker waits for the key, this call returns the waiting
 *     call's latest result: BUSY, or UNAVAILABLE if the service was out of reach. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_try_lock(locker *l, const char *key,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** Largest number of keys in a locker_lock_all() call. */
enum { LOCKER_KEYS_MAX = 64 };

/** Take all of `keys` or none. A single handle stands for all keys. Each key is taken as by locker_lock(), and wait_ms limits
 * the whole call. Owner, mode and permits apply to each key. With wait_ms 0, blocks for up to `command_timeout` per key.
 *
 * The call takes the keys in byte order, each key once, regardless of their order in `keys`. So such calls never wait for
 * each other in a circle. The handle lists the keys in byte order, too.
 *
 * If a key is lost while the call waits for others, the call releases all keys and starts again, until wait_ms is over. With
 * wait_ms 0, it starts again only during its first `command_timeout` (with no_renew: never). Then it returns UNAVAILABLE,
 * because the ttl is too short for that many keys.
 *
 * A call that fails releases in the background the keys that it has taken. If it fails with BUSY, it releases them before
 * it returns, and waits for the service's answers for up to `command_timeout` in all.
 *
 * If one key is lost, the whole handle is LOST. The handle's state is the worst state of its keys, its remaining time is the
 * shortest of its keys, and on_lost is called once. locker_unlock() releases all keys. It returns LOST if any key was lost.
 * If no key was lost but the result of any key is unknown, it returns UNKNOWN. An unlock takes as long as for a single key:
 * it sends all requests at once and waits for the answers for up to `command_timeout` in all.
 *
 * Returns as locker_lock() does. The error text names the key. INVALID if `n` is 0 or above LOCKER_KEYS_MAX. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock_all(locker *l, const char *const *keys, size_t n,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** Release the lock. Call this function once per handle, from any thread, and free the handle afterwards. Blocks for the
 * service's answer, for up to `command_timeout`.
 *
 * Returns:
 *   - OK: unlocked. Either
 *       - the service removed our lock, or
 *       - the lock passed to the next waiter of this locker, before our lease could have ended (Redis), or
 *       - other handles keep the grant (re-entry, joined shared lock). Then the call does not ask the service, so OK is
 *         possible even if the lock was broken and this process has not been notified yet.
 *     If the service's answer was lost, the call asks again. An OK after that means that no locker_break() came before. But a
 *     client that does not use liblocker may have deleted the lock between the two requests. With Redis, OK is also possible if the lock passed to
 *     a waiter while the notification of a break or a failover was in flight. docs/promises.md lists these cases.
 *   - LOST: the caller had already lost the lock. The call did not touch any other lock.
 *   - UNKNOWN: the service did not answer, or cannot tell whether this call ended the lock. The release continues in the
 *     background. The lock ends with its lease at the latest.
 *   - INVALID: the handle was already unlocked, or the call is inside a callback and the lock is held.
 *   - CLOSED, FORKED. */
LOCKER_API locker_status locker_unlock(locker_handle *held, locker_error *err);

/** Unlock if the lock is still held, and free the handle. Blocks as locker_unlock() does. NULL is allowed. */
LOCKER_API void locker_handle_free(locker_handle *held);

/** Call locker_handle_free(). Has the signature that pthread_cleanup_push() and similar functions need. */
LOCKER_API void locker_cleanup(void *held);

/** Free *held. LOCKER_AUTO has this called when the variable goes out of scope. */
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
    LOCKER_STATE_LOST = 2,    /**< lost; this state is final */
    LOCKER_STATE_UNLOCKED = 3 /**< unlocked, or the locker was closed */
} locker_state;

/** Return the current state, by comparing the clock with the lease's deadline. No I/O, does not block. */
LOCKER_API locker_state locker_handle_state(const locker_handle *held);

/** Return the name of a state in lower case. Static text. */
LOCKER_API const char *locker_state_name(locker_state state);

/** Return the time in ms, rounded down, for which the lock stays ours even if no further answer of the service arrives. 0: the
 * lock is lost or unlocked. -1: the lock has no lease that could end. */
LOCKER_API int64_t locker_handle_remaining_ms(const locker_handle *held);

/** Return the lease time in ms that the lock call asked for. -1: the driver has no leases (locker_semantics.leases). */
LOCKER_API int64_t locker_handle_ttl_ms(const locker_handle *held);

/** Return the fencing token, which is greater than that of every earlier grant of this key. 0: fencing is off. Pass the token
 * to the resource that the lock protects. The resource must reject a token smaller than the greatest token that it has seen
 * (Kleppmann, "How to do distributed locking", 2016). All handles of a re-entered lock have the same token.
 * docs/promises.md lists the cases in which a service cannot keep this promise. */
LOCKER_API uint64_t locker_handle_token(const locker_handle *held);

/** Return a descriptor for poll() and similar calls. It becomes readable when the lock is lost. The first call creates it, and
 * locker_handle_free() closes it. Do not read from it or close it. -1: no descriptor could be created; see errno. */
LOCKER_API int locker_handle_fd(locker_handle *held);

/** Return the slot of a permit, 0 to permits - 1, which no other holder of the key has. -1: an ordinary lock. */
LOCKER_API int32_t locker_handle_slot(const locker_handle *held);

/** Return the key as the caller gave it. After locker_lock_all(), the first key in byte order. Valid until the handle is
 * freed. */
LOCKER_API const char *locker_handle_key(const locker_handle *held);

/** Return the number of keys: 1, or more after locker_lock_all(). */
LOCKER_API size_t locker_handle_count(const locker_handle *held);

/** Return the key at `index`, from 0, in byte order; NULL past the last. Valid until the handle is freed. */
LOCKER_API const char *locker_handle_key_at(const locker_handle *held, size_t index);

/** Return the fencing token of the key at `index`; 0 past the last. locker_handle_token() returns the first key's token. */
LOCKER_API uint64_t locker_handle_token_at(const locker_handle *held, size_t index);

/** Return the label that locker_show() reports for this holder. Valid until the handle is freed. */
LOCKER_API const char *locker_handle_owner(const locker_handle *held);

/** True if the locker's locks can survive exec, so that locker_handle_keep_over_exec() works. Locks of the file driver can,
 * because they belong to open descriptors. Locks of a network service end with their lease, which is not renewed after exec.
 * False if `l` is NULL. */
LOCKER_API bool locker_keeps_over_exec(const locker *l);

/** Make the lock's descriptors inheritable. The program that this process becomes by exec then holds the lock.
 * The lock lasts until that program and all processes that inherited the descriptors have ended or closed them. After
 * exec, no process watches the lock: the program is not notified if the lock is broken or its file is removed.
 *
 * Call this function right before exec, because every program that the process starts afterwards inherits the lock, too. If
 * exec fails, locker_unlock() works as before. Does not wait for another process.
 *
 * Returns:
 *   - OK: the descriptors are inheritable.
 *   - UNSUPPORTED: locker_keeps_over_exec() is false. Nothing has changed.
 *   - LOST: the lock was lost.
 *   - UNAVAILABLE: a system call failed. Either it is not known whether the lock is held, or the lock cannot be kept.
 *   - INVALID: `held` is NULL or unlocked, or the call is inside a callback.
 *   - CLOSED, FORKED. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_handle_keep_over_exec(locker_handle *held,
                                                                        locker_error *err);

/* ------------------------------------------------------------------ inspecting and breaking ---- */
/* A label that another client wrote is reported unchanged and can contain any bytes. Escape labels before you print them to a
 * terminal. Below, a foreign client is a client that does not use liblocker. */

/** A waiter that the service knows. */
typedef struct locker_waiter {
    char owner[LOCKER_OWNER_MAX + 1]; /**< the waiter's label; empty: unknown */
    locker_mode mode;
    int32_t permits; /**< number of permits of the key; 0: the waiter wants an ordinary lock */
} locker_waiter;

/** A holder of a key with shared holders or permits. */
typedef struct locker_holder {
    char owner[LOCKER_OWNER_MAX + 1]; /**< the holder's label; empty: unknown */
    uint64_t token;                   /**< the holder's fencing token; 0: unknown */
    int64_t since_unix_ms;            /**< as in locker_info */
    int64_t remaining_ms;             /**< as in locker_info; known only with Redis */
    int64_t slot;                     /**< slot of the holder's permit; -1: no permit, or unknown */
} locker_holder;

/** State of a key at the service. Free its contents with locker_info_clear(). */
typedef struct locker_info {
    size_t size;                      /**< sizeof(locker_info) */
    bool held;                        /**< True if the key has a holder. */
    char owner[LOCKER_OWNER_MAX + 1]; /**< the holder's label; empty: unknown (a foreign client) */

    /** Time of the grant in ms since the Unix epoch; -1: unknown. If a holder with ZooKeeper or etcd had to wait, the value is
     * at first the time when the holder joined the queue. About 250 ms after the grant, the value becomes the time of the
     * grant. For a foreign client of ZooKeeper, the value stays the time of joining the queue. */
    int64_t since_unix_ms;

    /** Time in ms until the lease ends if it is not renewed; -1: there is no lease, the lease has no end, or the time is
     * unknown. With file, memory, ZooKeeper and etcd, only the locker that holds the lock knows the time, and only if the
     * lock has no_renew. */
    int64_t remaining_ms;

    /** Fencing token of the current grant. If the key is free: of the last grant, if the service still has that token (file:
     * until the lock file is removed). 0: unknown. */
    uint64_t token;

    /** Number of waiters at the service; -1: unknown. File, memory, ZooKeeper and etcd count every waiter. Redis counts each
     * waiting locker as 1, for any number of its threads. Redis does not count foreign clients, lockers that have
     * not subscribed, and waiters of the locker that holds the key exclusively. */
    int64_t waiters;

    locker_waiter *queue; /**< the known waiters, the next to be served first; may be NULL */
    size_t queue_len;     /**< number of entries in queue */
    size_t queue_stride;  /**< size of an entry in bytes; see locker_info_waiter() */

    locker_mode mode; /**< mode of the holders */
    int32_t permits;  /**< number of permits: the largest number of holders at a time; 0: an ordinary lock */

    /** The holders of a shared lock or of permits, in ascending order of their tokens. `owner`, `since_unix_ms`,
     * `remaining_ms` and `token` above describe the first of them. NULL if the key is free or has a single exclusive
     * holder. All calls that joined a grant appear as a single holder. */
    locker_holder *holders;
    size_t holders_len;   /**< entries in holders (Redis: at most 1,000); a taken permit has one entry */
    size_t holder_stride; /**< size of an entry in bytes; see locker_info_holder() */
} locker_info;

#define LOCKER_INFO_INIT                                                                                     \
    {                                                                                                        \
        sizeof(locker_info), false, {0}, -1, -1, 0, -1, 0, 0, 0, LOCKER_EXCLUSIVE, 0, 0, 0, 0                \
    }

/** Return the entry of info->queue at `index`, from 0; NULL past the last. Do not index info->queue itself: entries of
 * later releases can be larger. */
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
 *   - CONFIG: the key has an application's data and not a lock.
 *   - UNAVAILABLE, DENIED, INVALID, PROTOCOL, NOMEM, CLOSED, FORKED. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_show(locker *l, const char *key, locker_info *info,
                                                       locker_error *err);

/** Free the contents of *info, but not the struct, which belongs to the caller. */
LOCKER_API void locker_info_clear(locker_info *info);

/** Selection of holders for locker_break(). Start from LOCKER_BREAK_OPTIONS_INIT, which selects all holders. */
typedef struct locker_break_options {
    size_t size;       /**< sizeof(locker_break_options) */
    uint64_t token;    /**< select only the holder with this fencing token; 0: any */
    const char *owner; /**< select only holders with this label; NULL: any */
    bool force;        /**< True to also delete data that liblocker did not write; false: return CONFIG. */
    char reserved[7];  /**< must be 0 */
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
 * the service can notify the holder. Blocks for up to `command_timeout`.
 *
 * The service compares and breaks each holder in a single step. So if `options` has a token from locker_show() and the lock
 * has changed hands since, the new holder keeps it. If a call for several holders fails, some of them may have lost the
 * lock. Redis breaks up to 50 holders in a step, and serves other requests between steps. Holders that got the lock after
 * the first step keep it.
 *
 * Fills *broken (NULL: ignored) as locker_show() fills its *info: on OK with the holders that were broken, on BUSY with the
 * holders that the call found. The caller must clear *broken.
 *
 * Returns:
 *   - OK: broken.
 *   - INVALID: the key has no holder, or an argument is wrong.
 *   - BUSY: `options` select none of the holders. With ZooKeeper and etcd, also if the holder changed at each attempt.
 *     Nothing was broken, with one exception: at ZooKeeper, some of several holders may have been broken.
 *   - UNAVAILABLE: the service is out of reach. With file and Redis, also if the holder changed at each attempt.
 *   - DENIED: the user lacks a right. With ZooKeeper, also if the user has the right to delete the lock but not the right
 *     to read its holder.
 *   - UNSUPPORTED: the driver cannot break locks (locker_semantics.can_break).
 *   - CONFIG: it is not known that the data at the key are a lock. They were left as they are; see below.
 *   - PROTOCOL, NOMEM, CLOSED, FORKED.
 *
 * After CONFIG, the key may hold another client's lock or an application's data:
 *   - Redis: a string that liblocker did not write, or a hash;
 *   - ZooKeeper: a node that outlives its session;
 *   - etcd: a key without a lease, or a key that does not have the form of a lock's key.
 * Look at the data, then delete them with `force`. Data of other types are never deleted, even with `force` (Redis: a list,
 * a set, a sorted set, a stream). For such data, lock calls and locker_show() also return CONFIG. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_break(locker *l, const char *key,
                                                        const locker_break_options *options,
                                                        locker_info *broken, locker_error *err);

/** Make a round trip to the service, and set *round_trip_us (NULL: ignored) to the round-trip time in us. Blocks for up to
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
    LOCKER_ORDER_LOCAL = 2    /**< order of arrival within a locker; among lockers, writers do not starve */
} locker_order;

/** Promises of a lock service. */
typedef struct locker_semantics {
    size_t size;        /**< sizeof(locker_semantics) */
    const char *driver; /**< "redis", ... */
    locker_scope scope;
    locker_fairness fairness;
    bool leases; /**< True if a lock ends unless it is renewed; false: a lock ends with its process. */
    bool tokens_persist;   /**< True if fencing tokens still grow after all processes have restarted. */
    bool survives_restart; /**< True if locks survive a restart in which the service keeps its data. */
    bool can_break;        /**< True if locker_break() works. */
    bool quorum;           /**< True if a majority of servers agrees to each grant. */

    /** Each of these seven members is a sentence. The first five say what happens when the holder dies, is stopped or is cut off
     * from the service, and when the service restarts or fails over. The others describe the fencing token and the cost of a
     * lock. */
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

/** Return the promises of the locker's service. Valid until the locker is closed. NULL only if `l` is NULL. */
LOCKER_API const locker_semantics *locker_get_semantics(const locker *l);

/** Return the service that keeps this locker's locks, as a URI without user and password:
 * "redis://cache:6379/0?namespace=shop". The URI is for people to read: it has no parameter except the namespace. Valid until
 * the locker is closed. NULL only if `l` is NULL. */
LOCKER_API const char *locker_get_service(const locker *l);

/** Return the source of the configuration, in a single line: "from LOCKER_URI", "from /etc/locker.conf, profile [default]",
 * "the embedded default", "named by the program". Valid until the locker is closed. NULL only if `l` is NULL. */
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
    int64_t min, max;    /**< range of a number, or of a duration in ms; both 0: any value from 0 up */
    const char *help;    /**< a single line */
} locker_parameter;

/** Return the name of a kind: "duration", "number", "bool", "text" or "path". Static text. */
LOCKER_API const char *locker_param_kind_name(locker_param_kind kind);

/** A driver, which is built in or is a module beside the library. Static data. */
typedef struct locker_driver_info {
    size_t size; /**< sizeof(locker_driver_info) */
    const char *name;
    const char *schemes;  /**< the URI schemes, separated by single spaces */
    const char *example;  /**< a URI as an example */
    const char *features; /**< a line on abilities and limits of the build's client library; may be empty */
    const locker_semantics *semantics;
    const locker_parameter *parameters;
    const char *module; /**< file from which the driver is loaded at its first use; NULL: built in */

    /** Reason why the module's description cannot be read; NULL: it was read. With a reason, only the name of the module's
     * file is known. */
    const char *problem;
} locker_driver_info;

#define LOCKER_DRIVER_INFO_INIT                                                                              \
    {                                                                                                        \
        sizeof(locker_driver_info), 0, 0, 0, 0, 0, 0, 0, 0                                                   \
    }

/** Fill *info with the driver at `index`, from 0. Loads no module. Returns false if `index` is past the last driver,
 * info->size is wrong, or memory ran out. */
LOCKER_API bool locker_driver_at(size_t index, locker_driver_info *info);

/** Return the table of the parameters that every driver takes. */
LOCKER_API const locker_parameter *locker_common_parameters(void);

/** Number of buckets in a locker_histogram. */
enum { LOCKER_HISTOGRAM_BUCKETS = 40 };

/** Distribution of times in microseconds. bucket[0] counts times under 1 us, bucket[i] times from 2^(i-1) us to
 * less than 2^i us. The last bucket also counts all longer times. */
typedef struct locker_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t max_us;
    uint64_t bucket[LOCKER_HISTOGRAM_BUCKETS];
} locker_histogram;

/** Return a time in us that at least the fraction `q` (0 to 1) of the times does not exceed: the upper end of a bucket, or
 * max_us if that is less. */
LOCKER_API uint64_t locker_histogram_quantile(const locker_histogram *h, double q);

/** Counts since the locker was opened. Counters only grow; `held` and `waiting` are current values. */
typedef struct locker_statistics {
    size_t size;            /**< sizeof(locker_statistics) */
    uint64_t acquired;      /**< grants, including handed_over; re-entries are not counted */
    uint64_t handed_over;   /**< grants passed between calls of this locker without asking the service */
    uint64_t reentered;     /**< lock calls that re-entered a lock of their owner */
    uint64_t busy;          /**< lock calls that returned BUSY */
    uint64_t timed_out;     /**< lock calls that returned TIMEOUT */
    uint64_t canceled;      /**< lock calls that returned CANCELED */
    uint64_t failed;        /**< lock calls that ended with any other error */
    uint64_t attempts;      /**< attempts of the driver, including attempts that found the lock busy */
    uint64_t released;      /**< locks released by an unlock that returned OK */
    uint64_t lost;          /**< locks lost while held */
    uint64_t unknown;       /**< unlocks that returned UNKNOWN */
    uint64_t renewals;      /**< lease extensions that the service confirmed */
    uint64_t renewals_late; /**< times that a lease became SUSPECT because its renewal was overdue */
    uint64_t held;          /**< locks held now */
    uint64_t waiting;       /**< calls that wait now */
    locker_histogram wait;  /**< time from the call to the grant */
    locker_histogram hold;  /**< time from the grant to the unlock or the loss */
    uint64_t rode;          /**< shared lock calls that joined a grant of this locker; not in acquired */
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
/** Parse a duration into *ms, such as "1.5", "500ms" or "2h". `text` is a number with an optional fraction, and a unit: ms, s,
 * m, h or d (no unit: seconds). Returns OK. Returns CONFIG if `text` is not a duration, is negative or is over 10 years; the
 * error quotes `text`. Returns INVALID if a pointer is NULL. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_parse_duration(const char *text, int64_t *ms,
                                                                 locker_error *err);

/** Return the library's version: LOCKER_VERSION_STRING at the time of its build. Static text. */
LOCKER_API const char *locker_version(void);

#ifdef __cplusplus
}
#endif
#endif
