/* locker.h: take a lock by name, and unlock it through a handle.
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
 * These rules apply to every declaration below, unless its comment says otherwise:
 *   - Times are int64_t milliseconds. -1 means that there is no limit.
 *   - The library copies every string that the library keeps. Strings that the library returns belong to the library.
 *   - An options pointer may be NULL. The call then uses the defaults.
 *   - A pointer to a locker_error may be NULL. Otherwise the call fills the struct: on failure with status and text, on
 *     success with LOCKER_OK and an empty text. The struct belongs to the caller. The library keeps no error in
 *     thread-local state.
 *   - A struct whose first member is `size` may grow in a later release. Its `*_INIT` macro sets `size`. In every other
 *     member except wait_ms, zero means the default. The program may have been compiled with another release of
 *     liblocker:
 *       - If that release is older, the program's struct may lack members. The library treats missing members as zero,
 *         and cuts results to the size of the program's struct.
 *       - If that release is later, the program's struct may have members that the library does not know. The library
 *         accepts the struct if all unknown members are zero. Otherwise the call returns LOCKER_CONFIG.
 *     If no release has a struct of the given size, the call returns LOCKER_INVALID.
 *   - Functions are thread-safe. Only locker_cancel_fire() and locker_cancel_fired() are async-signal-safe. A thread that
 *     calls the library needs 64 KiB of stack.
 *   - No function is a cancellation point of pthread_cancel(). If a thread is canceled inside a function, the function
 *     first returns, and the thread ends at its next cancellation point. To end a wait, use a locker_cancel.
 *   - In a child of fork(), the program may call locker_close(), locker_handle_free() and locker_unlock() on inherited
 *     objects. These calls release nothing that the parent holds. In the child, locker_unlock() and every call that needs
 *     the service return LOCKER_FORKED.
 *   - Fork before the program starts threads and opens lockers (an open locker has threads), or call exec in the child.
 *     If the program had threads and the child opens a locker without exec, the child can hang. The reason is that,
 *     during the fork, another thread of the parent may have been inside the C library's resolver, OpenSSL or the
 *     loader. A mutex that the other thread held stays locked in the child. In such a child:
 *       - Name servers by address, not by host name.
 *       - Do not use TLS.
 *       - Use only a driver that was loaded before the fork (locker_driver_find()).
 *       - Do not use ZooKeeper, because ZooKeeper's client library passes even addresses to the resolver. */
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
    LOCKER_OK = 0,       /**< success: a lock call got the lock, or locker_unlock() unlocked it */
    LOCKER_BUSY = 1,     /**< another holder has the key, and the call does not wait */
    LOCKER_TIMEOUT = 2,  /**< the key did not become free within wait_ms */
    LOCKER_CANCELED = 3, /**< the caller's locker_cancel was fired */
    LOCKER_LOST = 4,     /**< the caller had already lost the lock */
    LOCKER_UNKNOWN =
        5, /**< the result of the unlock is not known; the lock ends with its lease at the latest */
    LOCKER_UNAVAILABLE = 6, /**< the service is out of reach, or cannot serve now */
    LOCKER_DENIED = 7,      /**< the service refuses the login, or the user lacks a right */
    LOCKER_INVALID = 8,     /**< an argument is wrong, or the call is not allowed at this moment */
    LOCKER_CONFIG = 9, /**< the URI, the profile or an option is wrong, or the key is in use in another way */
    LOCKER_UNSUPPORTED = 10, /**< this driver or this build lacks a feature that the call needs */
    LOCKER_PROTOCOL = 11,    /**< the service's answer makes no sense */
    LOCKER_NOMEM = 12,       /**< out of memory; the call left nothing behind */
    LOCKER_CLOSED = 13,      /**< the locker was closed before or during the call */
    LOCKER_FORKED = 14 /**< this process is a child of fork(); the locker belongs to the parent process */
} locker_status;

/** Return the name of a status in lower case ("ok", "busy", ...). For any other value, the name is "invalid status". The
 * text is static. */
LOCKER_API const char *locker_status_name(locker_status status);

/** Size of locker_error.text in bytes, with the final NUL. */
enum { LOCKER_ERROR_TEXT_MAX = 512 };

/** Description of a failure. The text says what is wrong and what to do, and never contains a password. The text is a
 * single line of printable UTF-8: control characters in quoted text are written as \xNN or \uNNNN. Log lines have the same
 * form. */
typedef struct locker_error {
    locker_status status;
    int os_error; /**< errno of a failed system call; EUSERS if the service accepts no more connections; otherwise 0 */
    char text[LOCKER_ERROR_TEXT_MAX]; /**< NUL-terminated; empty if status is LOCKER_OK */
} locker_error;

/* ------------------------------------------------------------------ opening and closing ---- */
/** A client of a lock service. Opaque, thread-safe. */
typedef struct locker locker;

/** Severity of a log line. */
typedef enum locker_log_level {
    LOCKER_LOG_ERROR = 1, /**< a lock was lost, or an operation fails until a person acts */
    LOCKER_LOG_WARN = 2,  /**< an operation failed and is being retried */
    LOCKER_LOG_INFO = 3,  /**< a connection was made or lost */
    LOCKER_LOG_DEBUG = 4  /**< each attempt, wake-up and renewal */
} locker_log_level;

/** Callback for a log line. The line has no newline and no password. The callback runs on the locker's keeper (a
 * background thread), or on the thread that opens or closes the locker. During the callback, the library holds no
 * internal mutex. The callback receives one line at a time, in the order in which the lines were logged.
 *
 * The callback must not block, because lease renewals wait for it. While the callback runs, the library stores up to
 * 1,024 lines of at most 1,023 bytes each. The library drops further lines, and afterwards logs the number of dropped
 * lines. The callback may call the functions that a locker_lost_fn may call. The callback is not called in a child of
 * fork(). */
typedef void (*locker_log_fn)(locker_log_level level, const char *text, void *user);

/** Options of a locker. Start from LOCKER_OPTIONS_INIT. */
typedef struct locker_options {
    size_t size; /**< sizeof(locker_options) */

    /** Label that locker_show() reports for this locker's holders, 1 to 127 bytes. If NULL, the label is the
     * configuration's `owner`. If the configuration has no `owner` either, the label is host:pid:program. */
    const char *owner;

    int64_t ttl_ms; /**< default lease time of locks in ms; 0: the configuration's `ttl`, or else 30 s */
    const char *name_space; /**< namespace of the keys; NULL: the configuration's `namespace` */

    /** Password for the service. If NULL, the library uses the password of the URI, the profile or the password_file. If
     * none of them has a password, the library uses the password in the environment variable LOCKER_PASSWORD. A program
     * with raised privileges (see locker_open_default()) ignores this variable. The library wipes its copy of the
     * password when the locker is closed. */
    const char *password;

    locker_log_level log_level; /**< most verbose level that is logged; 0: LOCKER_LOG_WARN */
    locker_log_fn log;          /**< callback for log lines; NULL: no log */
    void *log_user;             /**< passed to the log callback */
} locker_options;

#define LOCKER_OPTIONS_INIT                                                                                  \
    {                                                                                                        \
        sizeof(locker_options), 0, 0, 0, 0, (locker_log_level)0, 0, 0                                        \
    }

/** Open the lock service at `uri`, such as "file:///run/lock/shop", "memory:" or "redis://host:6379/0?ttl=10s". Drivers
 * that use a network make the connection during this call. So the call reports a wrong address or password. On success,
 * *out is a locker that the caller must close with locker_close(). On failure, *out is NULL.
 *
 * Blocks for up to `connect_timeout`. With Redis, this limit includes the time to look up host names. With other
 * drivers, the call first waits until the resolver has looked up host names, and this limit does not include the
 * resolver's time.
 *
 * Returns:
 *   - OK: the locker is open.
 *   - CONFIG: the configuration is wrong. The text names the wrong part.
 *   - UNSUPPORTED: this build lacks the scheme or a feature, or cannot load the driver's module.
 *   - INVALID: `uri` or `out` is NULL, or options->size or options->ttl_ms is wrong.
 *   - UNAVAILABLE, DENIED, PROTOCOL, NOMEM: see locker_status. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open(const char *uri, const locker_options *options,
                                                       locker **out, locker_error *err);

/** Open the service that a profile describes. A profile is a section of an INI file. `file` is the path of the file, and
 * `profile` is the name of the section. If `file` is NULL, the call uses the first configuration file in the order of
 * locker_open_default(). If `profile` is NULL, the call uses the profile that LOCKER_PROFILE names, or "default" if
 * LOCKER_PROFILE is not set.
 *
 * A profile has either `uri = ...` or the parts `driver`, `host`, `port`, `user` and `path`. In both forms, a profile
 * may also have `password` and any parameter of the driver.
 *
 * The call returns CONFIG if every user can write to the file or to a directory above the file. Exception: a
 * world-writable directory is allowed if the directory has the sticky bit (as /tmp has), and if the next component of
 * the path belongs to the effective user or root. If the file has a password and every user can read the file, the call
 * uses the file and logs a warning.
 *
 * Blocks and returns as locker_open() does. For CONFIG, the text names the file, and also the line if a single line is
 * wrong. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_profile(const char *file, const char *profile,
                                                               const locker_options *options, locker **out,
                                                               locker_error *err);

/** Open the service that is configured for this machine and user. Programs and the locker command use the first of
 * these sources that exists:
 *   1. the URI in LOCKER_URI;
 *   2. the configuration file that LOCKER_CONFIG names;
 *   3. the user's file: $XDG_CONFIG_HOME/locker/locker.conf, or ~/.config/locker/locker.conf if XDG_CONFIG_HOME is not
 *      set. The file and all directories above it must belong to the effective user or root;
 *   4. /etc/locker.conf;
 *   5. the embedded default: the file driver in the private directory /tmp/locker-UID, where UID is the effective user
 *      ID. The user's login sessions and cron jobs share this directory, and so do systemd services that do not set
 *      PrivateTmp=. The call returns CONFIG if the directory is a link or belongs to another user.
 *
 * From a file, the call uses the profile that LOCKER_PROFILE names, or "default" if LOCKER_PROFILE is not set. If
 * LOCKER_PROFILE is set, the embedded default (5) does not apply. If LOCKER_PROFILE is set but no URI and no file
 * exist, the call returns CONFIG. locker_get_origin() returns the source that was used.
 *
 * A program has raised privileges if the program is set-user-ID or set-group-ID, or has file capabilities (see AT_SECURE
 * in getauxval(3)). In such a program, the library ignores the environment, so only /etc/locker.conf (4) and the embedded
 * default (5) apply. Exception: if the effective user of such a program is the user that started the program, and is
 * not root, only /etc/locker.conf (4) applies. Without this file, the call then returns CONFIG.
 *
 * Blocks and returns as locker_open() does. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_default(const locker_options *options, locker **out,
                                                               locker_error *err);

/** Close a locker. A waiting call returns LOCKER_CLOSED, and every lock that is still held through the locker is
 * released. Blocks until all calls in flight have returned. Then blocks until the remaining clean-up is finished, for up
 * to `cleanup_timeout` (2 s by default). After this call has returned, the program must not use `l`. NULL is allowed.
 *
 * Handles stay valid until they are freed. After the close, the state of a handle is LOCKER_STATE_UNLOCKED, and unlocking
 * the handle returns LOCKER_CLOSED. If the lock was lost before the close, the state of its handle is LOCKER_STATE_LOST,
 * and unlocking the handle returns LOCKER_LOST.
 *
 * Returns:
 *   - OK: the locker is closed.
 *   - INVALID: the call is inside a callback of the locker. Nothing has changed. */
LOCKER_API locker_status locker_close(locker *l);

/* ------------------------------------------------------------------ cancelling ---- */
/** An object with which another thread or a signal handler ends the wait of a call. Any number of calls and lockers can
 * use the same object at the same time. Opaque. The locker_cancel_*() functions allow NULL. */
typedef struct locker_cancel locker_cancel;

/** Create a locker_cancel that is not fired. Returns NULL if memory or descriptors ran out. Free the object with
 * locker_cancel_free(). */
LOCKER_API locker_cancel *locker_cancel_new(void);

/** Fire `cancel`. A call that waits with `cancel` returns LOCKER_CANCELED, and a later call with `cancel` returns
 * LOCKER_CANCELED at once. A lock that was already granted stays held. The function is async-signal-safe, keeps errno, and
 * can be called any number of times. */
LOCKER_API void locker_cancel_fire(locker_cancel *cancel);

/** True if `cancel` was fired. Async-signal-safe. */
LOCKER_API bool locker_cancel_fired(const locker_cancel *cancel);

/** Make a fired `cancel` usable again. Do not reset `cancel` while a call uses it. */
LOCKER_API void locker_cancel_reset(locker_cancel *cancel);

/** Free `cancel`. Do not free `cancel` while a call uses it, or while a signal handler can still fire it. */
LOCKER_API void locker_cancel_free(locker_cancel *cancel);

/* ------------------------------------------------------------------ locking ---- */
/** A lock that is held. Opaque. Unlock with locker_unlock(), then free with locker_handle_free(). */
typedef struct locker_handle locker_handle;

/** Callback for the loss of a lock. Called once per handle, within about 50 ms after the handle's state becomes
 * LOCKER_STATE_LOST. If the process is stopped or the machine sleeps during these 50 ms, the callback is called after
 * the process or the machine continues. If the program unlocks the handle before the callback is called, locker_unlock()
 * reports the loss and the callback is not called.
 *
 * The callback runs on the locker's keeper (a background thread), or on the thread that closes the locker, during
 * locker_close(). During the callback, the library holds no internal mutex. The callback must not block, because lease
 * renewals wait for it. The callback may call:
 *   - every locker_handle_*() function. Freeing a handle of a held lock releases the lock in the background.
 *   - locker_unlock(lost), which returns LOST.
 *   - locker_stats(), locker_get_semantics(), locker_cancel_fire().
 * Calls that wait for the service, and locker_handle_keep_over_exec(), return LOCKER_INVALID inside the callback.
 *
 * The application frees the handle, in the callback or later. When locker_handle_free() has returned on another thread,
 * the callback for this handle is not running and will not be called. */
typedef void (*locker_lost_fn)(locker_handle *lost, void *user);

/** Maximum lengths of a key and of an owner in bytes. A key has 1 to 255 bytes of UTF-8, and an owner or a label has 1 to
 * 127 bytes. These characters are not allowed in a key, an owner or a label: the control characters C0, DEL and C1, line
 * and paragraph separators, and characters that reorder text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to
 * U+2069). */
enum { LOCKER_KEY_MAX = 255, LOCKER_OWNER_MAX = 127 };

/** Mode of a lock: whether its holder shares the key with other holders. */
typedef enum locker_mode {
    LOCKER_EXCLUSIVE = 0, /**< a writer: the only holder of the key, except with permits */
    LOCKER_SHARED = 1     /**< a reader: holds the key together with other readers, never with a writer */
} locker_mode;

/** Largest number of permits of a key. */
enum { LOCKER_PERMITS_MAX = 1 << 20 };

/** Options of a lock call. Start from LOCKER_LOCK_OPTIONS_INIT, which sets no limit for the wait. */
typedef struct locker_lock_options {
    size_t size;     /**< sizeof(locker_lock_options) */
    int64_t wait_ms; /**< longest wait in ms; 0: try once; -1: no limit */

    /** Lease time in ms; 0: the locker's default. For a value outside the driver's range, the call returns CONFIG.
     * Drivers without leases (file, memory) use ttl_ms only if no_renew is set. */
    int64_t ttl_ms;

    bool no_renew;         /**< True if the lease must not be renewed; the lock becomes LOST after ttl_ms. */
    locker_cancel *cancel; /**< object that ends the wait when fired; must outlive the call; NULL: none */

    /** Owner for re-entrant locking, 1 to 127 bytes; NULL: the call never re-enters a lock. If the same owner already
     * holds the key through this locker, the call re-enters that lock: the call returns another handle of the lock at
     * once. If a call already waits for the key when another call of the same owner gets the key, the waiting call
     * re-enters the lock, too. The lock is released when its last handle is unlocked. Tasks that must exclude each other
     * need different owners.
     *
     * Re-entering does not change the lease. In the following cases, the call returns INVALID and does not re-enter the
     * lock:
     *   - The call asks for a longer ttl_ms than the ttl_ms of the call that got the lock.
     *   - The call asks for renewal, but no_renew was set in the call that got the lock.
     *   - The call asks for LOCKER_EXCLUSIVE, but the owner holds the key shared. The call does not wait, because two
     *     owners that hold the key shared could wait for each other forever.
     * If the owner holds the key exclusively, a call for LOCKER_SHARED re-enters the exclusive lock. */
    const char *owner;

    locker_lost_fn on_lost; /**< called when the lock is lost; NULL: none */
    void *user;             /**< passed to on_lost */

    /** Label of the holder in locker_show(), 1 to 127 bytes. If NULL, the label is `owner`. If `owner` is also NULL, the
     * label is the locker's label. The label does not decide which calls exclude each other. */
    const char *label;

    /** Mode of the lock. With LOCKER_SHARED, the caller holds the key together with other shared holders. The call
     * returns UNSUPPORTED if the driver has no shared locks. If the driver serves waiters in order of arrival
     * (locker_semantics.shared), later readers do not overtake a waiting writer.
     *
     * If another call of this locker already holds the key shared, this call may join the other call's grant. A call
     * that joins gets a handle with the grant's token and lease, and does not ask the service. Both calls must have the
     * same ttl_ms and label. Neither call may set no_renew or an owner. During the first 50 ms of the grant, other
     * calls can join. After these 50 ms, a call can join only while the driver knows that the key has no waiter.
     * Joining ends when the driver reports a waiter, or when this locker breaks the lock. No call joins while a writer
     * of this locker waits for the key. With Redis, a call with a wait_ms other than 0 joins only if the remaining time
     * of the grant's lease is at least a third of ttl_ms. */
    locker_mode mode;

    /** Number of permits of the key, 1 to LOCKER_PERMITS_MAX; 0: an ordinary lock. A key with permits has at most this
     * number of holders at a time. Each holder has its own slot (locker_handle_slot()). A call with permits also
     * returns:
     *   - INVALID: the mode is LOCKER_SHARED.
     *   - UNSUPPORTED: the driver has no permits, or supports fewer permits than this number
     *     (locker_semantics.permits_most).
     *   - CONFIG: another holder or waiter uses the key with a different number of permits, or as an ordinary lock. The
     *     text names both uses. */
    int32_t permits;
} locker_lock_options;

#define LOCKER_LOCK_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(locker_lock_options), -1, 0, false, 0, 0, 0, 0, 0, LOCKER_EXCLUSIVE, 0                        \
    }

/** Take the lock `key`. The call waits as long as options->wait_ms allows. If `options` is NULL, the wait has no limit.
 * Callers of the same locker are served in order of arrival. On OK, *out is a handle that the caller must free. If the
 * lock is lost while the call returns, the status is still OK, the handle's state is LOST, and on_lost is called. On any
 * other status, *out is NULL, and the call removes everything that the call has left at the service. If this clean-up is
 * not possible at once, the clean-up continues in the background.
 *
 * Blocks for up to wait_ms. With wait_ms 0, blocks as locker_try_lock() does. A waiting call continues to wait during an
 * outage of the service.
 *
 * Returns:
 *   - OK: the lock is held.
 *   - BUSY: another holder has the key, and wait_ms is 0.
 *   - TIMEOUT: the key did not become free within wait_ms.
 *   - CANCELED: options->cancel was fired.
 *   - UNAVAILABLE: the service was out of reach at the end of the wait. That is, the connection was refused or dropped,
 *     or no answer arrived within `command_timeout`. Exception: if locks that this locker holds are enough to exclude
 *     this call, the status is TIMEOUT even during an outage.
 *   - UNAVAILABLE, before the end of the wait: the directory with the lock files is gone, so waiting cannot help.
 *   - CONFIG: ttl_ms is out of range, the key is used with another number of permits, or an application keeps data at the
 *     key.
 *   - UNSUPPORTED: the driver lacks the mode or the permits.
 *   - DENIED, INVALID, PROTOCOL, NOMEM, CLOSED, FORKED: see locker_status. The call never returns UNKNOWN. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock(locker *l, const char *key,
                                                       const locker_lock_options *options,
                                                       locker_handle **out, locker_error *err);

/** Take the lock if it is free, as locker_lock() does with wait_ms 0. Ignores options->wait_ms. Blocks only for the
 * service's answer, for up to `command_timeout`. Never waits for another holder.
 *
 * Returns as locker_lock() does, with these differences:
 *   - If the connection is refused or the host is unreachable, the call returns UNAVAILABLE at once. Each call tries to
 *     connect again.
 *   - If the service has no queue (Redis) and another call of this locker waits for the key, this call returns the result
 *     of the waiting call's latest attempt: BUSY, or UNAVAILABLE if the service was out of reach. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_try_lock(locker *l, const char *key,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** Largest number of keys in a locker_lock_all() call. */
enum { LOCKER_KEYS_MAX = 64 };

/** Take all of `keys` or none. On success, a single handle stands for all keys. The call takes each key as locker_lock()
 * does, and wait_ms limits the time of the whole call. Owner, mode and permits apply to each key. With wait_ms 0, the
 * call blocks for up to `command_timeout` per key.
 *
 * The call takes the keys in byte order, each key once, regardless of their order in `keys`. So calls for several keys
 * never wait for each other in a circle. The handle lists the keys in byte order, too.
 *
 * If a key is lost while the call waits for another key, the call releases all keys and starts again. The call gives up
 * when wait_ms is over, as locker_lock() does. With wait_ms 0, the call starts again only if less than
 * `command_timeout` has passed since the call began. With wait_ms 0 and no_renew, the call never starts again. If a
 * call with wait_ms 0 does not start again, the call returns UNAVAILABLE. Usually the key was lost because the ttl is
 * too short for that many keys.
 *
 * A call that fails releases the keys that the call has taken. If the call fails with BUSY, the call releases these keys
 * before it returns, and waits for the service's answers for up to `command_timeout` in all. If the call fails with
 * another status, the release continues in the background.
 *
 * If one key is lost, the whole handle is LOST. The handle's state is the worst state of its keys, its remaining time is
 * the shortest remaining time of its keys, and on_lost is called once. locker_unlock() releases all keys.
 * locker_unlock() returns LOST if any key was lost. If no key was lost but the result for any key is unknown,
 * locker_unlock() returns UNKNOWN. The unlock takes as long as the unlock of a single key: locker_unlock() sends all
 * requests at once, and waits for the answers for up to `command_timeout` in all.
 *
 * Returns as locker_lock() does. The error text names the key that caused the failure. The call also returns INVALID if
 * `n` is 0 or above LOCKER_KEYS_MAX. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock_all(locker *l, const char *const *keys, size_t n,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** Release the lock. Call this function once per handle, from any thread, and free the handle afterwards. Blocks for the
 * service's answer, for up to `command_timeout`.
 *
 * Returns:
 *   - OK: the handle is unlocked. One of these statements is true:
 *       - The service removed the lock.
 *       - With Redis, the lock passed to the next waiter of this locker before the lease could end.
 *       - Other handles keep the grant, because other calls re-entered the lock or joined the shared lock. Then the
 *         unlock does not ask the service. So OK is possible even if the lock was broken and this process has not been
 *         notified yet.
 *     If the service's answer to the unlock request was lost, the call repeats the request. If the call then returns OK,
 *     no locker_break() took the lock before this unlock. But a client that does not use liblocker may have deleted the
 *     lock between the two requests. With Redis, OK is possible even if a break or a failover took the lock. This
 *     happens if the lock passes to a waiter of this locker before the notification about the loss arrives.
 *     docs/promises.md lists these cases.
 *   - LOST: the caller had already lost the lock. The call did not change any other lock.
 *   - UNKNOWN: the service did not answer, or its answer does not show whether this call ended the lock. The release
 *     continues in the background. The lock ends with its lease at the latest.
 *   - INVALID: `held` is NULL or was already unlocked, or the call is inside a callback and the lock is still held.
 *   - CLOSED, FORKED: see locker_status. */
LOCKER_API locker_status locker_unlock(locker_handle *held, locker_error *err);

/** Unlock if the lock is still held, and free the handle. Blocks as locker_unlock() does. NULL is allowed. */
LOCKER_API void locker_handle_free(locker_handle *held);

/** Call locker_handle_free(). This function has the signature that pthread_cleanup_push() and similar functions need. */
LOCKER_API void locker_cleanup(void *held);

/** Free *held. With LOCKER_AUTO, the compiler calls this function when the variable goes out of scope. */
static inline void locker_cleanup_scope(locker_handle **held)
{
    locker_handle_free(*held);
}

#if defined(__GNUC__)
/** Attribute of a `locker_handle *` variable. At the end of the variable's scope, the handle is unlocked and freed.
 * Initialize the variable. */
#define LOCKER_AUTO __attribute__((cleanup(locker_cleanup_scope)))
#endif

/** State of a handle's lock. */
typedef enum locker_state {
    LOCKER_STATE_HELD = 0,    /**< held */
    LOCKER_STATE_SUSPECT = 1, /**< held, but a renewal is overdue or the service is out of reach */
    LOCKER_STATE_LOST = 2,    /**< lost; this state is final */
    LOCKER_STATE_UNLOCKED = 3 /**< unlocked, or the locker was closed */
} locker_state;

/** Return the current state. The call compares the clock with the lease's deadline. The call does no I/O and does not
 * block. */
LOCKER_API locker_state locker_handle_state(const locker_handle *held);

/** Return the name of a state in lower case. The text is static. */
LOCKER_API const char *locker_state_name(locker_state state);

/** Return the remaining time in ms, rounded down. For this time, the handle keeps the lock even if no further answer of
 * the service arrives. 0: the lock is lost or unlocked. -1: the lock has no lease that could end. */
LOCKER_API int64_t locker_handle_remaining_ms(const locker_handle *held);

/** Return the lease time in ms that the lock call asked for. -1: the driver has no leases (locker_semantics.leases). */
LOCKER_API int64_t locker_handle_ttl_ms(const locker_handle *held);

/** Return the fencing token, which is greater than the token of every earlier grant of this key. 0: fencing is off. Pass
 * the token to the resource that the lock protects. The resource must reject a token smaller than the greatest token that
 * it has seen (Kleppmann, "How to do distributed locking", 2016). All handles of a re-entered lock have the same token.
 * docs/promises.md lists the cases in which a service cannot promise growing fencing tokens. */
LOCKER_API uint64_t locker_handle_token(const locker_handle *held);

/** Return a descriptor for poll() and similar calls. The descriptor becomes readable when the lock is lost. The first call
 * creates the descriptor, and locker_handle_free() closes it. Do not read from the descriptor, and do not close it. -1: no
 * descriptor could be created; see errno. */
LOCKER_API int locker_handle_fd(locker_handle *held);

/** Return the slot of the handle's permit: a number from 0 to permits - 1. Each holder of the key has a different slot.
 * -1: the handle has an ordinary lock, not a permit. */
LOCKER_API int32_t locker_handle_slot(const locker_handle *held);

/** Return the key as the caller gave it. After locker_lock_all(), the result is the first key in byte order. The text is
 * valid until the handle is freed. */
LOCKER_API const char *locker_handle_key(const locker_handle *held);

/** Return the number of keys: 1, or more after locker_lock_all(). */
LOCKER_API size_t locker_handle_count(const locker_handle *held);

/** Return the key at `index`. The keys are in byte order, and the first index is 0. NULL: `index` is past the last key.
 * The text is valid until the handle is freed. */
LOCKER_API const char *locker_handle_key_at(const locker_handle *held, size_t index);

/** Return the fencing token of the key at `index`. 0: `index` is past the last key, or fencing is off.
 * locker_handle_token() returns the first key's token. */
LOCKER_API uint64_t locker_handle_token_at(const locker_handle *held, size_t index);

/** Return the label that locker_show() reports for this holder. The text is valid until the handle is freed. */
LOCKER_API const char *locker_handle_owner(const locker_handle *held);

/** True if the locker's locks can survive exec, so that locker_handle_keep_over_exec() works. Locks of the file driver
 * can survive exec, because these locks belong to open descriptors. Locks of a network service end with their leases,
 * because after exec no process renews the leases. False if `l` is NULL. */
LOCKER_API bool locker_keeps_over_exec(const locker *l);

/** Make the lock's descriptors inheritable. After exec, the new program holds the lock. The lock lasts until the new
 * program and all processes that inherited the descriptors have ended or have closed the descriptors. After exec, no
 * process watches the lock. So the new program is not notified if the lock is broken or the lock's file is removed.
 *
 * Call this function right before exec, because every program that the process starts afterwards inherits the lock, too.
 * If exec fails, locker_unlock() works as before. Does not wait for another process.
 *
 * Returns:
 *   - OK: the descriptors are inheritable.
 *   - UNSUPPORTED: locker_keeps_over_exec() is false. Nothing has changed.
 *   - LOST: the lock was lost.
 *   - UNAVAILABLE: a system call failed. Either the library cannot see whether the lock is held, or the lock cannot be
 *     kept over exec.
 *   - INVALID: `held` is NULL or unlocked, or the call is inside a callback.
 *   - CLOSED, FORKED: see locker_status. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_handle_keep_over_exec(locker_handle *held,
                                                                        locker_error *err);

/* ------------------------------------------------------------------ inspecting and breaking ---- */
/* A label that another client wrote is reported unchanged and can contain any bytes. Escape labels before you print them
 * to a terminal. In the comments below, a foreign client is a client that does not use liblocker. */

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
    int64_t since_unix_ms;            /**< time of the grant, as in locker_info */
    int64_t remaining_ms; /**< time until the lease ends, as in locker_info; known only with Redis */
    int64_t slot;         /**< slot of the holder's permit; -1: no permit, or unknown */
} locker_holder;

/** State of a key at the service. Free its contents with locker_info_clear(). */
typedef struct locker_info {
    size_t size;                      /**< sizeof(locker_info) */
    bool held;                        /**< True if the key has a holder. */
    char owner[LOCKER_OWNER_MAX + 1]; /**< the holder's label; empty: unknown (a foreign client) */

    /** Time of the grant in ms since the Unix epoch; -1: unknown. With ZooKeeper and etcd, if the holder had to wait, the
     * value is at first the time when the holder joined the queue. About 250 ms after the grant, the value becomes the
     * time of the grant. If the holder is a foreign client of ZooKeeper, the value remains the time when the client
     * joined the queue. */
    int64_t since_unix_ms;

    /** Time in ms until the lease ends if the lease is not renewed; -1: the time is unknown, or the lock has no lease
     * that could end. With file, memory, ZooKeeper and etcd, only the holder's own locker can know the time. Even this
     * locker knows the time only if the lock call set no_renew. */
    int64_t remaining_ms;

    /** Fencing token of the current grant. If the key is free, the value is the token of the last grant, as long as the
     * service stores that token. The file driver stores the token until the lock file is removed. 0: the token is
     * unknown. */
    uint64_t token;

    /** Number of waiters at the service; -1: unknown. File, memory, ZooKeeper and etcd count every waiter. Redis counts
     * each waiting locker as 1, even if several of its threads wait. Redis does not count foreign clients. Redis counts
     * a locker only after the locker has subscribed to its own wake-up channel. If a locker holds the key exclusively,
     * Redis does not count waiters of the same locker. */
    int64_t waiters;

    locker_waiter *queue; /**< the known waiters, in the order in which they are served; may be NULL */
    size_t queue_len;     /**< number of entries in queue */
    size_t queue_stride;  /**< size of an entry in bytes; see locker_info_waiter() */

    locker_mode mode; /**< mode of the holders */
    int32_t permits;  /**< number of permits: the largest number of holders at a time; 0: an ordinary lock */

    /** The holders of a shared lock or of permits, in ascending order of their tokens. `owner`, `since_unix_ms`,
     * `remaining_ms` and `token` above describe the first of these holders. NULL if the key is free or has a single
     * exclusive holder. A grant and all calls that joined the grant appear as a single holder. */
    locker_holder *holders;
    size_t
        holders_len; /**< number of entries in holders (Redis: at most 1,000); each taken permit has an entry */
    size_t holder_stride; /**< size of an entry in bytes; see locker_info_holder() */
} locker_info;

#define LOCKER_INFO_INIT                                                                                     \
    {                                                                                                        \
        sizeof(locker_info), false, {0}, -1, -1, 0, -1, 0, 0, 0, LOCKER_EXCLUSIVE, 0, 0, 0, 0                \
    }

/** Return the entry of info->queue at `index`. The first index is 0. NULL: `index` is past the last entry. Do not index
 * info->queue directly, because an entry may be larger in a later release of liblocker. */
static inline const locker_waiter *locker_info_waiter(const locker_info *info, size_t index)
{
    return index < info->queue_len
               ? (const locker_waiter *)(const void *)((const char *)info->queue + index * info->queue_stride)
               : (const locker_waiter *)0;
}

/** Return the entry of info->holders at `index`. The first index is 0. NULL: `index` is past the last entry. */
static inline const locker_holder *locker_info_holder(const locker_info *info, size_t index)
{
    return index < info->holders_len ? (const locker_holder *)(const void *)((const char *)info->holders +
                                                                             index * info->holder_stride)
                                     : (const locker_holder *)0;
}

/** Query the state of `key` from the service. Blocks for up to `command_timeout`. Overwrites *info. The caller must clear
 * *info afterwards by locker_info_clear().
 *
 * Returns:
 *   - OK: *info is filled, even if the key is free.
 *   - CONFIG: an application keeps data at the key, not a lock.
 *   - UNAVAILABLE, DENIED, INVALID, PROTOCOL, NOMEM, CLOSED, FORKED: see locker_status. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_show(locker *l, const char *key, locker_info *info,
                                                       locker_error *err);

/** Free the contents of *info. The struct itself belongs to the caller, and is not freed. */
LOCKER_API void locker_info_clear(locker_info *info);

/** Selection of holders for locker_break(). Start from LOCKER_BREAK_OPTIONS_INIT, which selects all holders. */
typedef struct locker_break_options {
    size_t size;       /**< sizeof(locker_break_options) */
    uint64_t token;    /**< select only the holder with this fencing token; 0: any */
    const char *owner; /**< select only holders with this label; NULL: any */
    /** True if the call also deletes data that liblocker did not write. False: for such data, the call returns CONFIG. */
    bool force;
    char reserved[7]; /**< must be 0 */
} locker_break_options;

#define LOCKER_BREAK_OPTIONS_INIT                                                                            \
    {                                                                                                        \
        sizeof(locker_break_options), 0, 0, false,                                                           \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }

/** Take a lock away from its holder: a forced unlock for operators. Breaks the lock of every holder that `options` select
 * (NULL: of all holders). If the service does not know the token or the label of a holder, the holder cannot be selected
 * by this token or label. The holder's state becomes LOST as soon as the service can notify the holder. Blocks for up to
 * `command_timeout`.
 *
 * The service compares a holder with `options` and breaks the holder's lock in a single step. So if `options` has a
 * token from locker_show(), and the lock has passed to a new holder since then, the new holder keeps the lock. If a call
 * for several holders fails, some of these holders may have lost the lock. Redis breaks the locks of up to 50 holders in
 * a step, and serves other requests between steps. A holder that got its lock after the first step keeps this lock.
 *
 * Fills *broken (NULL: ignored) in the same way as locker_show() fills *info. On OK, *broken describes the holders that
 * lost the lock. On BUSY, *broken describes the holders that the call found. The caller must clear *broken by
 * locker_info_clear().
 *
 * Returns:
 *   - OK: the selected holders have lost the lock.
 *   - INVALID: the key has no holder, or an argument is wrong.
 *   - BUSY: `options` select none of the holders. With ZooKeeper and etcd, the call also returns BUSY if the key got a
 *     new holder during each attempt of the call. After BUSY, no holder has lost the lock. Exception: with ZooKeeper, if
 *     the key has several holders, some of them may have lost the lock.
 *   - UNAVAILABLE: the service is out of reach. With file and Redis, the call also returns UNAVAILABLE if the key got a
 *     new holder during each attempt of the call.
 *   - DENIED: the user lacks a right. With ZooKeeper, the call also returns DENIED if the user has the right to delete
 *     the lock, but lacks the right to read the lock's holder.
 *   - UNSUPPORTED: the driver cannot break locks (locker_semantics.can_break).
 *   - CONFIG: the data at the key are possibly not a lock. The call did not change the data; see below.
 *   - PROTOCOL, NOMEM, CLOSED, FORKED: see locker_status.
 *
 * After CONFIG, the key may have another client's lock or an application's data. The data are one of these:
 *   - Redis: a string that liblocker did not write, or a hash;
 *   - ZooKeeper: a node that is not ephemeral;
 *   - etcd: a key without a lease, or a key that does not have the form of a lock's key.
 * Look at the data, then delete them with `force`. Data of other types are never deleted, even with `force`. With Redis,
 * these types are lists, sets, sorted sets and streams. For data of these types, lock calls and locker_show() also
 * return CONFIG. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_break(locker *l, const char *key,
                                                        const locker_break_options *options,
                                                        locker_info *broken, locker_error *err);

/** Make a round trip to the service, and set *round_trip_us (NULL: ignored) to the round-trip time in us. Blocks for up
 * to `command_timeout`. Returns OK on success, UNAVAILABLE if no answer arrived, or another status that locker_show()
 * can return. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_ping(locker *l, int64_t *round_trip_us, locker_error *err);

/** Order in which waiters are served. */
typedef enum locker_fairness {
    LOCKER_FAIR_LOCAL = 1, /**< FIFO within a locker, no order among processes */
    LOCKER_FAIR_GLOBAL = 2 /**< FIFO among all waiters of all processes */
} locker_fairness;

/** Range in which a lock excludes other holders. */
typedef enum locker_scope {
    LOCKER_SCOPE_PROCESS = 1, /**< threads of a process */
    LOCKER_SCOPE_HOST = 2,    /**< processes of a host */
    LOCKER_SCOPE_NETWORK = 3  /**< hosts */
} locker_scope;

/** Order in which shared and exclusive waiters of a key are served. */
typedef enum locker_order {
    LOCKER_ORDER_NONE = 0,    /**< the driver has no shared locks */
    LOCKER_ORDER_ARRIVAL = 1, /**< order of arrival for readers and writers together, among all processes */
    LOCKER_ORDER_LOCAL = 2    /**< order of arrival within a locker; among lockers, writers do not starve */
} locker_order;

/** Promises of a lock service. */
typedef struct locker_semantics {
    size_t size;        /**< sizeof(locker_semantics) */
    const char *driver; /**< name of the driver, such as "redis" */
    locker_scope scope;
    locker_fairness fairness;
    /** True if a lock ends when it is not renewed. False: a lock ends when its holder's process ends. */
    bool leases;
    bool tokens_persist;   /**< True if fencing tokens keep growing after clients and the service restart. */
    bool survives_restart; /**< True if locks survive a restart in which the service keeps its data. */
    bool can_break;        /**< True if locker_break() works. */
    bool quorum;           /**< True if a majority of servers agrees to each grant. */

    /** Each of these seven members is a sentence. The first five sentences say what happens when the holder dies, is
     * stopped or is cut off from the service, and when the service restarts or fails over. The last two sentences describe
     * the fencing token and the cost of a lock. */
    const char *holder_dies;
    const char *holder_stalls;
    const char *cut_off;
    const char *service_restarts;
    const char *failover;
    const char *token;
    const char *cost;

    locker_order
        shared; /**< order of shared and exclusive waiters; LOCKER_ORDER_NONE: the driver has no shared locks */
    int64_t permits_most; /**< largest number of permits of a key; 0: the driver has no permits */
} locker_semantics;

/** Return the promises of the locker's service. The struct is valid until the locker is closed. NULL only if `l` is NULL. */
LOCKER_API const locker_semantics *locker_get_semantics(const locker *l);

/** Return the service that keeps this locker's locks, as a URI without user and password:
 * "redis://cache:6379/0?namespace=shop". The URI is for people to read: it has no parameters except the namespace. The
 * text is valid until the locker is closed. NULL only if `l` is NULL. */
LOCKER_API const char *locker_get_service(const locker *l);

/** Return the source of the configuration, in a single line. Examples: "from LOCKER_URI", "from /etc/locker.conf,
 * profile [default]", "the embedded default", "named by the program". The text is valid until the locker is closed.
 * NULL only if `l` is NULL. */
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

/** A parameter of a driver. Users set the parameter in the query of a URI or in a profile. A table of parameters ends with
 * an entry without a name (NULL). The data are static. */
typedef struct locker_parameter {
    const char *name;
    locker_param_kind kind;
    const char *initial; /**< default value, as text that can be parsed; NULL: none */
    int64_t min, max;    /**< range of a number, or of a duration in ms; both 0: any value of at least 0 */
    const char *help;    /**< description in a single line */
} locker_parameter;

/** Return the name of a kind: "duration", "number", "bool", "text" or "path". The text is static. */
LOCKER_API const char *locker_param_kind_name(locker_param_kind kind);

/** A driver. It is built in, or it is a module beside the library. The data are static. */
typedef struct locker_driver_info {
    size_t size; /**< sizeof(locker_driver_info) */
    const char *name;
    const char *schemes;  /**< the URI schemes, separated by single spaces */
    const char *example;  /**< a URI as an example */
    const char *features; /**< abilities and limits of this build's client library, in a line; may be empty */
    const locker_semantics *semantics;
    const locker_parameter *parameters;
    const char *module; /**< file from which the driver is loaded at its first use; NULL: built in */

    /** Reason why the library cannot read the module's description; NULL: the library has read the description. If there
     * is a reason, only the name of the module's file is known. */
    const char *problem;
} locker_driver_info;

#define LOCKER_DRIVER_INFO_INIT                                                                              \
    {                                                                                                        \
        sizeof(locker_driver_info), 0, 0, 0, 0, 0, 0, 0, 0                                                   \
    }

/** Fill *info with the description of the driver at `index`. The first index is 0. Loads no module. Returns false if
 * `index` is past the last driver, info->size is wrong, or memory ran out. */
LOCKER_API bool locker_driver_at(size_t index, locker_driver_info *info);

/** Return the table of the parameters that every driver takes. */
LOCKER_API const locker_parameter *locker_common_parameters(void);

/** Number of buckets in a locker_histogram. */
enum { LOCKER_HISTOGRAM_BUCKETS = 40 };

/** Distribution of times in microseconds. bucket[0] counts times under 1 us. bucket[i] counts times from 2^(i-1) us to
 * less than 2^i us. The last bucket also counts all longer times. */
typedef struct locker_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t max_us;
    uint64_t bucket[LOCKER_HISTOGRAM_BUCKETS];
} locker_histogram;

/** Return the quantile `q` (0 to 1) of the times, in us. For example, at least 99 % of the times are no longer than the
 * quantile 0.99. The result is rounded up to the upper end of its bucket, and is at most h->max_us. Times over 2^39 us
 * (about 6 days) count as 2^39 us. 0: `h` is NULL or has no times. */
LOCKER_API uint64_t locker_histogram_quantile(const locker_histogram *h, double q);

/** Counts since the locker was opened. `held` and `waiting` are current values. All other counts only grow. */
typedef struct locker_statistics {
    size_t size;          /**< sizeof(locker_statistics) */
    uint64_t acquired;    /**< grants, including handed_over; re-entries are not counted */
    uint64_t handed_over; /**< grants passed between calls of this locker without a request to the service */
    uint64_t reentered;   /**< lock calls that re-entered a lock of the same owner */
    uint64_t busy;        /**< lock calls that returned BUSY */
    uint64_t timed_out;   /**< lock calls that returned TIMEOUT */
    uint64_t canceled;    /**< lock calls that returned CANCELED */
    uint64_t failed;      /**< lock calls that failed with a status other than BUSY, TIMEOUT and CANCELED */
    uint64_t
        attempts; /**< attempts of the driver to take a lock, including attempts that found the lock busy */
    uint64_t released; /**< locks released by an unlock that returned OK */
    uint64_t lost;     /**< locks lost while held */
    uint64_t unknown;  /**< unlocks that returned UNKNOWN */
    uint64_t renewals; /**< lease extensions that the service confirmed */
    uint64_t
        renewals_late;     /**< number of times that a lease became SUSPECT because its renewal was overdue */
    uint64_t held;         /**< locks held now */
    uint64_t waiting;      /**< calls that wait now */
    locker_histogram wait; /**< time from the call to the grant */
    locker_histogram hold; /**< time from the grant to the unlock or the loss */
    uint64_t rode; /**< shared lock calls that joined a grant of this locker; not counted in acquired */
} locker_statistics;

#define LOCKER_STATISTICS_INIT                                                                               \
    {                                                                                                        \
        sizeof(locker_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, {0}},              \
            {0, 0, 0, {0}}, 0                                                                                \
    }

/** Copy the statistics into *stats. Set stats->size before the call. Does not wait for the service. Returns OK, FORKED,
 * or INVALID if the size is wrong or a pointer is NULL. */
LOCKER_API locker_status locker_stats(const locker *l, locker_statistics *stats);

/* ------------------------------------------------------------------ utilities ---- */
/** Parse a duration, such as "1.5", "500ms" or "2h", into *ms. `text` is a number with an optional fraction, and a unit:
 * ms, s, m, h or d. A number without a unit means seconds. Returns OK on success. Returns CONFIG if `text` is not a
 * duration, is negative or is over 10 years; the error quotes `text`. Returns INVALID if `text` or `ms` is NULL. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_parse_duration(const char *text, int64_t *ms,
                                                                 locker_error *err);

/** Return the version of the library: the value of LOCKER_VERSION_STRING when the library was built. The text is
 * static. */
LOCKER_API const char *locker_version(void);

#ifdef __cplusplus
}
#endif
#endif
