/* locker.h: take a lock by name, get back a handle that unlocks it.
 *
 * This header is all that an application needs. driver.h is for authors of drivers.
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
 * Conventions, for every declaration below unless it says otherwise:
 *   - Times in the interface are int64_t milliseconds; -1 means for ever.
 *   - A locker_error * may be NULL. When given, it is filled on failure, and on success its status is
 *     LOCKER_OK and its text empty. It belongs to the caller; nothing is kept in thread-local state.
 *   - Structs that may grow start with their size. `*_INIT` sets it; zero in any other member means the default.
 *     A program that was compiled with an older release's struct gets zeros behind it, and answers as far as it
 *     reaches. One that was compiled with a later release's is served as long as what this one doesn't know is
 *     zero, else told LOCKER_CONFIG. LOCKER_INVALID: the size is none.
 *   - Functions are thread-safe. None is async-signal-safe but locker_cancel_fire(). A thread that calls one needs 64 KiB of
 *     stack.
 *   - No function is a cancellation point of pthread_cancel(): a thread that is canceled inside one ends at
 *     its next point behind it. A wait is ended by a locker_cancel.
 *   - After fork() a child may call locker_close(), locker_handle_free() and locker_unlock() on what it
 *     inherited. They release nothing that the parent holds; every call that could answers LOCKER_FORKED.
 *     Fork before the program has threads (an open locker has some), or call exec in the child. If the child opens a locker
 *     of its own instead, other threads of the parent may have been inside the C library's resolver, OpenSSL or the
 *     loader at the moment of the fork, and what they had locked stays locked in the child. So such a child opens it by
 *     addresses instead of hosts' names, without TLS, with a driver that was loaded before (locker_driver_find()). It
 *     doesn't use ZooKeeper, whose client library takes addresses to the resolver, too. */
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
/** What a call answers. One code for each failure that a caller can act on. */
typedef enum locker_status {
    LOCKER_OK = 0,       /**< Done. From a lock call: the lock is held. From unlock: released, with proof. */
    LOCKER_BUSY = 1,     /**< Another holds it, and the caller did not want to wait. */
    LOCKER_TIMEOUT = 2,  /**< It did not become free within wait_ms. */
    LOCKER_CANCELED = 3, /**< The caller's locker_cancel was fired. */
    LOCKER_LOST = 4,     /**< It was no longer ours. */
    LOCKER_UNKNOWN = 5,  /**< The answer could not be had; the lease's end settles it. */
    LOCKER_UNAVAILABLE = 6,  /**< The service can't be reached, or can't serve now. */
    LOCKER_DENIED = 7,       /**< The service refuses these credentials or rights. */
    LOCKER_INVALID = 8,      /**< The call's arguments, or the moment of the call, are wrong. */
    LOCKER_CONFIG = 9,       /**< The URI, the profile or an option is wrong. */
    LOCKER_UNSUPPORTED = 10, /**< This driver or this build can't do that. */
    LOCKER_PROTOCOL = 11,    /**< The service answered with something that makes no sense. */
    LOCKER_NOMEM = 12,       /**< Out of memory; nothing was left behind. */
    LOCKER_CLOSED = 13,      /**< The locker was closed meanwhile. */
    LOCKER_FORKED = 14       /**< This process is a fork's child; the locker belongs to its parent. */
} locker_status;

/** The name of a status in lower case ("ok", "busy", ...); "invalid status" for others. Static text. */
LOCKER_API const char *locker_status_name(locker_status status);

enum { LOCKER_ERROR_TEXT_MAX = 512 };

/** What went wrong, in a caller-owned struct. The text says what, and what to do, and never a password. It is one line of
 * printable UTF-8: control characters in what it quotes are written as \xNN or \uNNNN. Log lines are the same. */
typedef struct locker_error {
    locker_status status;
    int os_error; /**< errno where a system call failed, EUSERS where a service has as many connections as it takes, else 0 */
    char text[LOCKER_ERROR_TEXT_MAX]; /**< one line, NUL-terminated; empty when status is LOCKER_OK */
} locker_error;

/* ------------------------------------------------------------------ opening and closing ---- */
/** One client of one lock service. Opaque, thread-safe. */
typedef struct locker locker;

/** How much a message matters. */
typedef enum locker_log_level {
    LOCKER_LOG_ERROR = 1, /**< a lock was lost, or something will not work until a person acts */
    LOCKER_LOG_WARN = 2,  /**< something failed and is being tried again */
    LOCKER_LOG_INFO = 3,  /**< connections made and lost */
    LOCKER_LOG_DEBUG = 4  /**< each attempt, wake-up and renewal */
} locker_log_level;

/** Receives a message: one line without a newline, no password in it. Called on the locker's keeper (a thread of its
 * own), or on the one that opens or closes it, one line at a time and in their order, with no internal lock held. It must
 * not block: renewals wait for it, and of what comes meanwhile 1,024 lines (of at most 1,023 bytes each) are kept; how many
 * were lost is told by a line. A fork's child gets none. What it may call is what locker_lost_fn may. */
typedef void (*locker_log_fn)(locker_log_level level, const char *text, void *user);

/** Options of a locker. Start from LOCKER_OPTIONS_INIT. */
typedef struct locker_options {
    size_t size;            /**< sizeof(locker_options) */
    const char *owner;      /**< the label that show prints for our locks; NULL: host:pid:program. Copied. */
    int64_t ttl_ms;         /**< lease time for locks that name none; 0: the configuration's, else 30 s */
    const char *name_space; /**< NULL: the configuration's `namespace`. Copied. */
    const char *password;   /**< NULL: from the URI, password_file, LOCKER_PASSWORD (not with
                              raised privileges). Copied, wiped at close */
    locker_log_level log_level; /**< the chattiest level wanted; 0: LOCKER_LOG_WARN */
    locker_log_fn log;          /**< NULL: silent */
    void *log_user;             /**< passed to log */
} locker_options;

#define LOCKER_OPTIONS_INIT                                                                                  \
    {                                                                                                        \
        sizeof(locker_options), 0, 0, 0, 0, (locker_log_level)0, 0, 0                                        \
    }

/** Open the lock service that `uri` names, such as "file:///run/lock/shop", "memory:", "redis://host:6379/0?ttl=10s".
 * Drivers that use a network connect now, so that a wrong address or password is told here; may block for
 * `connect_timeout`, and, but for Redis, before for as long as the resolver takes for the hosts' names. On success *out is
 * the caller's, to be closed with locker_close(); on failure it is NULL. Errors: CONFIG (it names the part that is
 * wrong), UNSUPPORTED (a scheme or feature that this build lacks, or a driver's module that can't be loaded),
 * UNAVAILABLE, DENIED, PROTOCOL, NOMEM, INVALID (uri, out or options->size). */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open(const char *uri, const locker_options *options,
                                                       locker **out, locker_error *err);

/** Open the profile (section) `profile` of the INI file `file`. file NULL: the first configuration file of the order
 * that locker_open_default() has; profile NULL: LOCKER_PROFILE, else "default". A profile has `uri = ...` or the parts
 * `driver`, `host`, `port`, `user`, `password`, `path`, and any parameter of the driver. A file that users other than
 * its owner and its group can write or replace is refused. One with a password that every user can read is used, and
 * the log has a warning. Errors: as locker_open; CONFIG says file and line. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_profile(const char *file, const char *profile,
                                                               const locker_options *options, locker **out,
                                                               locker_error *err);

/** Open the service that this machine and user are configured for. The first of these that there is counts, for
 * programs as for the locker command:
 *   1. the URI LOCKER_URI;
 *   2. the configuration file LOCKER_CONFIG;
 *   3. the user's file, $XDG_CONFIG_HOME/locker/locker.conf, or ~/.config/locker/locker.conf where XDG_CONFIG_HOME is not
 *      set; it has to belong to the effective user or root;
 *   4. /etc/locker.conf;
 *   5. the embedded default: the file driver in the directory /tmp/locker-UID of the effective user, which is private. A
 *      login, cron and a service (without PrivateTmp=) have the same. If it is another user's, or a link: CONFIG.
 * Of a file, the profile LOCKER_PROFILE is used, else "default". locker_get_origin() tells which it was.
 *
 * A program with raised privileges (set-user-ID, set-group-ID, file capabilities; AT_SECURE of getauxval(3)) ignores its
 * environment: for it there are only 4 and 5, and 5 only if the effective user is root or is not the user who started
 * it, else CONFIG. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_open_default(const locker_options *options, locker **out,
                                                               locker_error *err);

/** Close a locker: calls that wait return LOCKER_CLOSED; every lock still held through it is released; what
 * clean-up is left is given up to 2 s. Blocks until all calls in flight have returned. Handles stay valid
 * memory until freed: their state is LOCKER_STATE_UNLOCKED, unlocking them answers LOCKER_CLOSED; of what was
 * lost before, LOCKER_STATE_LOST and LOCKER_LOST. No call on `l` may begin after this one returns. NULL is
 * allowed. Returns OK; INVALID from one of the locker's own callbacks, where nothing is done. */
LOCKER_API locker_status locker_close(locker *l);

/* ------------------------------------------------------------------ cancelling ---- */
/** Lets another thread, or a signal handler, end waits. One serves any number of calls and lockers. */
typedef struct locker_cancel locker_cancel;

/** A new one, not fired; NULL when memory or descriptors ran out. Free it with locker_cancel_free(). */
LOCKER_API locker_cancel *locker_cancel_new(void);

/** Fire: calls that wait with it return LOCKER_CANCELED, and so do calls that come later. A lock that was
 * granted before stays held. Async-signal-safe; any number of times; keeps errno. NULL is allowed, as below. */
LOCKER_API void locker_cancel_fire(locker_cancel *cancel);

/** Whether it was fired. Async-signal-safe. */
LOCKER_API bool locker_cancel_fired(const locker_cancel *cancel);

/** Make it usable again. No call may be using it. */
LOCKER_API void locker_cancel_reset(locker_cancel *cancel);

/** Free it. No call may be using it, and no signal handler may fire it any more. NULL is allowed. */
LOCKER_API void locker_cancel_free(locker_cancel *cancel);

/* ------------------------------------------------------------------ locking ---- */
/** A lock that we hold: the closure that unlocks it. Opaque; free it with locker_handle_free(). */
typedef struct locker_handle locker_handle;

/** Tells that a lock was lost, once for a handle, within about 50 ms of the moment when its state became
 * LOCKER_STATE_LOST (of a process that was stopped, or a machine that slept: when it goes on); not when the handle
 * was unlocked first, since unlock's answer tells it then. Called on the locker's keeper (while it is being
 * closed, on the thread that closes it) with no internal lock held; it must not block, because renewals wait for it.
 * Legal inside: every locker_handle_*() function (freeing a handle that is still held releases it in the background),
 * locker_unlock() of `lost` (it answers LOST), locker_stats(), locker_get_semantics(), locker_cancel_fire(). Calls
 * that wait for the service answer LOCKER_INVALID there. Once locker_handle_free() of a handle has returned on
 * another thread, its callback neither runs nor will. The handle stays the application's to free. */
typedef void (*locker_lost_fn)(locker_handle *lost, void *user);

/** A key is 1 to 255 bytes of UTF-8 without control characters: no C0, DEL or C1, no line or paragraph separator, none that
 * reorders text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069). So is a label, of 1 to 127 bytes. */
enum { LOCKER_KEY_MAX = 255, LOCKER_OWNER_MAX = 127 };

/** Who may hold a key beside us. */
typedef enum locker_mode {
    LOCKER_EXCLUSIVE = 0, /**< nobody */
    LOCKER_SHARED = 1     /**< anybody who holds it shared too: readers, beside whom there is no writer */
} locker_mode;

/** More than so many permits has no key. */
enum { LOCKER_PERMITS_MAX = 1 << 20 };

/** Options of one lock. Start from LOCKER_LOCK_OPTIONS_INIT, which waits for ever. */
typedef struct locker_lock_options {
    size_t size;     /**< sizeof(locker_lock_options) */
    int64_t wait_ms; /**< -1: for ever; 0: try once; else wait at most so long */

    /** Lease time; 0: the locker's. Refused when the driver's limits don't allow it. Drivers without leases
     * (file, memory) ignore it, unless no_renew is set. */
    int64_t ttl_ms;

    bool no_renew; /**< the lease is meant to end: it isn't renewed, and is LOST when the time is over */
    locker_cancel *cancel; /**< NULL: none. Must outlive the call. */

    /** Who enters again: a name of 1 to 127 bytes without control characters; NULL: nobody does. A call with
     * the same owner, on a key that it holds through this locker, enters again and is counted: it gets
     * another handle, and the last handle unlocked releases. So does a call that is waiting when another call
     * of the owner gets the key. So it must differ between tasks that are to exclude each other. The lease stays what it is: a call that asks for more (a longer ttl_ms than was
     * asked for first, or renewal where there was to be none) answers INVALID. So does one that asks for
     * LOCKER_EXCLUSIVE where its owner holds the key shared: two that did so would wait for each other for ever.
     * Who asks for LOCKER_SHARED and holds it exclusive enters that again. */
    const char *owner;

    locker_lost_fn on_lost; /**< NULL: none */
    void *user;             /**< passed to on_lost */

    /** What show prints for the holder, as owner is written; it shuts out and admits nobody. NULL: owner, else the locker's. */
    const char *label;

    /** LOCKER_SHARED: beside others that hold it shared. Who waits for the key exclusive is not overtaken by those who
     * come later where the driver serves in the order of arrival (locker_semantics.shared). One that comes while the
     * locker holds the key shared already, without a no_renew or owner of its own, may ride on that grant, with its token
     * and lease: within 50 ms of it, unless the driver knows that somebody waits, or as long as it knows that nobody does.
     * UNSUPPORTED where the driver has no shared locks. */
    locker_mode mode;

    /** At most so many hold the key at once, each with a slot of its own, locker_handle_slot(): 1 to LOCKER_PERMITS_MAX; 0: it
     * is a lock. While somebody holds the key, or waits, it is used in one way: a call with another number, or none, answers
     * CONFIG, which names both. LOCKER_SHARED with permits is INVALID. UNSUPPORTED where the driver has no permits. */
    int32_t permits;
} locker_lock_options;

#define LOCKER_LOCK_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(locker_lock_options), -1, 0, false, 0, 0, 0, 0, 0, LOCKER_EXCLUSIVE, 0                        \
    }

/** Take the lock `key`; wait for it as the options say (NULL: for ever). On OK it is held and *out is a
 * handle (a loss that comes as the call returns is told by that: its state is LOST, and on_lost is called);
 * on every other answer *out is NULL and nothing is left at the service (what could not be cleaned up at once
 * is cleaned up in the background). Callers of one locker are served in the order in which they came.
 *
 * A call that waits goes on over an outage of the service until its own end, which is UNAVAILABLE, not
 * TIMEOUT, when the service was out of reach to the last (refused, cut off, or silent for `command_timeout`).
 * What no waiting can mend (the directory of the locks is gone) ends it at once, with UNAVAILABLE too.
 *
 * Blocks. Errors: BUSY (only with wait_ms 0), TIMEOUT, CANCELED, UNAVAILABLE, DENIED, INVALID, CONFIG (a TTL
 * out of the driver's range; an application's data at the key), PROTOCOL, NOMEM, CLOSED, FORKED. UNKNOWN is never answered. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock(locker *l, const char *key,
                                                       const locker_lock_options *options,
                                                       locker_handle **out, locker_error *err);

/** As locker_lock() with wait_ms 0, whatever the options say: OK or BUSY, without waiting for another holder.
 * It does wait for the service's answer, for at most the configured `command_timeout`; where connecting is
 * refused, because no server runs there or no way leads there, it is UNAVAILABLE at once, and the service is
 * asked anew each time. Where another call of this locker waits for the key already, that one's knowledge is
 * the answer: BUSY, or UNAVAILABLE when the service was out of reach as it asked last. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_try_lock(locker *l, const char *key,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** At most so many keys are taken at once. */
enum { LOCKER_KEYS_MAX = 64 };

/** Take several keys, each as locker_lock() takes one, all within the one wait_ms or none of them, by one handle. They
 * are taken in the order of their bytes, whatever the order here, and each once, so two calls never wait for each other in
 * a circle. The handle's keys stand in that order. Losing one is losing all: the state is the worst of them, what remains
 * is the least, on_lost is called once; unlocking releases all, and answers LOST if any was lost, else UNKNOWN if of any
 * it isn't known. Unlocking takes as long as for one key: all requests are sent at once, and the call waits for the answers, at
 * most one `command_timeout` in all. A call that fails gives back what it has taken in the background, as one for one key does,
 * except after BUSY: then it waits for the answers likewise. When one key is lost while others are waited for, all are let
 * go and taken again, until wait_ms is over; a try does so for `command_timeout` at most, and without renewal not at all
 * (UNAVAILABLE: the ttl is too short to take that many keys). A key with an owner,
 * a mode or permits: each is meant so. The keys are copied. Errors: as locker_lock(), with the key that it was about in the
 * text; INVALID when n is 0 or more than LOCKER_KEYS_MAX. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_lock_all(locker *l, const char *const *keys, size_t n,
                                                           const locker_lock_options *options,
                                                           locker_handle **out, locker_error *err);

/** Release. Works from any thread, once: the first call gives the answer, later ones LOCKER_INVALID. The
 * handle is still to be freed. Blocks for the service's answer, at most `command_timeout`.
 *   - OK: released. The service removed a lock that was ours, or passed it to the next waiter of this locker
 *     while our lease was certain; for a handle that entered again, or rides, while others have the grant still: counted
 *     down, and the service isn't asked, so it proves nothing of a break not heard of yet. Where an answer was lost on
 *     the way, OK also means that locker_break() did not remove it before; a lock that a foreign client
 *     deletes in that very moment can't be told from one that was released. With Redis, word of a break or of
 *     a failover may still be under way when a lock is passed on; docs/promises.md names each such case.
 *   - LOST: it had not been ours any more; nobody else's lock was touched.
 *   - UNKNOWN: the service could not be asked, or can't tell any more whether it was this call that ended the
 *     lock. Releasing goes on in the background; the lease's end settles it.
 *   - Errors: INVALID (already unlocked, or called from on_lost on a lock that is held), CLOSED, FORKED. */
LOCKER_API locker_status locker_unlock(locker_handle *held, locker_error *err);

/** Unlock if still held, and free. NULL is allowed. May block as locker_unlock(). */
LOCKER_API void locker_handle_free(locker_handle *held);

/** locker_handle_free() in the form that pthread_cleanup_push() and the like call. */
LOCKER_API void locker_cleanup(void *held);

/** For LOCKER_AUTO: frees *held when the variable goes out of scope. */
static inline void locker_cleanup_scope(locker_handle **held)
{
    locker_handle_free(*held);
}

#if defined(__GNUC__)
/** Declare a `locker_handle *` with it, and initialise it: it unlocks when it goes out of scope. */
#define LOCKER_AUTO __attribute__((cleanup(locker_cleanup_scope)))
#endif

/** What a handle knows of its lock. */
typedef enum locker_state {
    LOCKER_STATE_HELD = 0,    /**< ours */
    LOCKER_STATE_SUSPECT = 1, /**< ours, but a renewal is overdue or the service is out of reach */
    LOCKER_STATE_LOST = 2,    /**< not ours any more; it never comes back */
    LOCKER_STATE_UNLOCKED = 3 /**< unlocked, or its locker closed */
} locker_state;

/** The state now: compares the clock with the deadline, without I/O and without blocking. */
LOCKER_API locker_state locker_handle_state(const locker_handle *held);

/** The name of a state in lower case. Static text. */
LOCKER_API const char *locker_state_name(locker_state state);

/** How long the lock is certainly ours if nothing more is heard from the service, in ms, rounded down: 0 when
 * it is lost or unlocked, -1 when there is no lease that could end. */
LOCKER_API int64_t locker_handle_remaining_ms(const locker_handle *held);

/** The lease time that was asked for, in ms; -1 when there is no lease. */
LOCKER_API int64_t locker_handle_ttl_ms(const locker_handle *held);

/** The fencing token: greater than that of every earlier grant of this key. Give it to the resource that the
 * lock guards, which refuses what is smaller than the greatest it has seen (Kleppmann, "How to do distributed
 * locking", 2016); docs/promises.md names when a service can't keep that. 0: fencing is off. Each handle of
 * a re-entered lock has the same. */
LOCKER_API uint64_t locker_handle_token(const locker_handle *held);

/** A descriptor that becomes readable when the lock is lost, for poll() and the like; never read from it,
 * never close it. It lives until the handle is freed. Made at the first call. -1: no descriptor (errno). */
LOCKER_API int locker_handle_fd(locker_handle *held);

/** Which of the permits it has, from 0 to permits - 1: no other holder of the key has the same. -1: it is a lock. */
LOCKER_API int32_t locker_handle_slot(const locker_handle *held);

/** The key, as the caller gave it; of several, the first. Lives as long as the handle. */
LOCKER_API const char *locker_handle_key(const locker_handle *held);

/** How many keys it holds: 1, but for locker_lock_all(). */
LOCKER_API size_t locker_handle_count(const locker_handle *held);

/** The index-th of its keys, in the order in which they were taken; NULL past the last. Lives as long as the handle. */
LOCKER_API const char *locker_handle_key_at(const locker_handle *held, size_t index);

/** The fencing token of the index-th of its keys; 0 past the last. locker_handle_token() is that of the first. */
LOCKER_API uint64_t locker_handle_token_at(const locker_handle *held, size_t index);

/** The label that show prints for it. Lives as long as the handle. */
LOCKER_API const char *locker_handle_owner(const locker_handle *held);

/** True if this locker's locks can live on over exec, in descriptors: locker_handle_keep_over_exec() works. The file
 * driver's do. Those of a service end with their lease, because nothing renews it after exec. False for NULL. */
LOCKER_API bool locker_keeps_over_exec(const locker *l);

/** Make the descriptors that the lock lives in inheritable. The program that this process becomes by exec then holds the
 * lock until it and every process that inherited the descriptors have ended or closed them. After exec nobody watches
 * the lock: if it is broken, or its file is removed, the program is not told. Call it right before exec, because every
 * program that the process starts from here on inherits the lock, too. If exec fails, locker_unlock() works as before.
 * Does not wait for another process. Errors: UNSUPPORTED (see above; nothing has changed), LOST (it was lost), UNAVAILABLE
 * (it can't be seen whether it was), INVALID (held is NULL or unlocked, or inside a callback), CLOSED, FORKED. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_handle_keep_over_exec(locker_handle *held,
                                                                        locker_error *err);

/* ------------------------------------------------------------------ looking ---- */
/* Labels that another client wrote are told as they are, and may have any bytes: escape them before a terminal. */

/** One that waits, as the service knows it. */
typedef struct locker_waiter {
    char owner[LOCKER_OWNER_MAX + 1]; /**< its label; empty when the service doesn't know it */
    locker_mode mode;
    int32_t permits; /**< 0: it waits for a lock */
} locker_waiter;

/** One of several that hold a key at once. */
typedef struct locker_holder {
    char owner[LOCKER_OWNER_MAX + 1]; /**< its label; empty: unknown */
    uint64_t token;                   /**< its fencing token; 0: unknown */
    int64_t since_unix_ms;            /**< as in locker_info */
    int64_t remaining_ms;             /**< as in locker_info */
    int64_t slot;                     /**< of a permit; else -1 */
} locker_holder;

/** What a service knows of one key. Clear it with locker_info_clear(). */
typedef struct locker_info {
    size_t size;                      /**< sizeof(locker_info) */
    bool held;                        /**< somebody holds it */
    char owner[LOCKER_OWNER_MAX + 1]; /**< the holder's label; empty: unknown (a foreign client's) */

    /** Since when, ms of the Unix epoch; -1: unknown. With ZooKeeper, of a holder that has waited: since when
     * it has stood in the queue, in the first quarter of a second, or if it is a foreign client. */
    int64_t since_unix_ms;

    /** Until the lease ends unless renewed; -1: no lease, no end, or not known. With memory, files and
     * ZooKeeper it is known only of a lock with no_renew, and to the locker that holds it. */
    int64_t remaining_ms;

    uint64_t
        token; /**< the fencing token of the present grant, or of the last where the service keeps it (a file as long
                  as nobody has removed it); 0 unknown */

    /** How many contenders wait at the service; -1: the service doesn't know. Files, memory and
     * ZooKeeper: every waiter. Redis: one for each locker that waits, whatever the number of its threads, so
     * none of the holder's own; it knows no foreign clients', and none of lockers not yet subscribed. */
    int64_t waiters;

    locker_waiter *queue; /**< those that are known, in the order in which they'll be served; may be NULL */
    size_t queue_len;     /**< how many are in queue */
    size_t queue_stride;  /**< from one to the next, in bytes; see locker_info_waiter() */

    locker_mode mode; /**< of those who hold it */
    int32_t permits;  /**< how many may hold it at once; 0: it is a lock */

    /** Who holds it shared, or has a permit, the greatest token last; of them, `owner` and the others above tell the first. NULL
     * of what nobody holds, or one alone exclusive. A locker's readers that ride on one grant are one. */
    locker_holder *holders;
    size_t holders_len;   /**< how many are in holders: of permits, so many are taken */
    size_t holder_stride; /**< from one to the next, in bytes; see locker_info_holder() */
} locker_info;

#define LOCKER_INFO_INIT                                                                                     \
    {                                                                                                        \
        sizeof(locker_info), false, {0}, -1, -1, 0, -1, 0, 0, 0, LOCKER_EXCLUSIVE, 0, 0, 0, 0                \
    }

/** The index-th of info->queue, from 0; NULL past the last. A later release may tell more of each. */
static inline const locker_waiter *locker_info_waiter(const locker_info *info, size_t index)
{
    return index < info->queue_len
               ? (const locker_waiter *)(const void *)((const char *)info->queue + index * info->queue_stride)
               : (const locker_waiter *)0;
}

/** The index-th of info->holders, from 0; NULL past the last. */
static inline const locker_holder *locker_info_holder(const locker_info *info, size_t index)
{
    return index < info->holders_len ? (const locker_holder *)(const void *)((const char *)info->holders +
                                                                             index * info->holder_stride)
                                     : (const locker_holder *)0;
}

/** Ask the service about a key. Blocks, at most `command_timeout`. *info is overwritten; clear it afterwards.
 * Errors: UNAVAILABLE, DENIED, INVALID, CONFIG (an application's data are there, and no lock), PROTOCOL, NOMEM, CLOSED,
 * FORKED. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_show(locker *l, const char *key, locker_info *info,
                                                       locker_error *err);

/** Free what is inside; the struct itself is the caller's. */
LOCKER_API void locker_info_clear(locker_info *info);

/** Whose lock is to be broken. Start from LOCKER_BREAK_OPTIONS_INIT, which means whoever's. */
typedef struct locker_break_options {
    size_t size;       /**< sizeof(locker_break_options) */
    uint64_t token;    /**< only the holder with this fencing token; 0: any */
    const char *owner; /**< only a holder with this label; NULL: any */
    bool force;        /**< also delete what liblocker did not write; false: that is refused (CONFIG) */
    char reserved[7];  /**< 0 */
} locker_break_options;

#define LOCKER_BREAK_OPTIONS_INIT                                                                            \
    {                                                                                                        \
        sizeof(locker_break_options), 0, 0, false,                                                           \
        {                                                                                                    \
            0                                                                                                \
        }                                                                                                    \
    }

/** An operator's forced unlock, of just the holder that the options name (NULL: whoever holds it); of several that hold
 * it at once, of each whom they name: the service looks and breaks in one step, so a lock that changed hands after a look is left alone.
 * (Redis takes a lock or permits from more than 50 holders in several steps, and serves others between them. It leaves out who has
 * come since the first step; when an error ends the call, some have lost the lock.) `broken` (NULL allowed) tells whose lock it was, as locker_show(). The holder is told LOST as soon as its service
 * can tell. Errors: as locker_show(); INVALID when nobody holds it; BUSY when another than the one that was
 * named holds it, which `broken` tells, or when it changed again and again meanwhile (ZooKeeper), and nothing
 * is done; DENIED, too, when it may not see whose lock it is (ZooKeeper), though it might delete it. A holder
 * whose token or label the service doesn't know is never the one.
 *
 * CONFIG: what is at the key is not known to be a lock, and is left as it is. It may be another client's lock or an
 * application's data: with Redis a string that liblocker did not write, or a hash; with ZooKeeper a node that outlives its
 * session; with etcd a key without a lease, or of another form. Look at it, and delete it with `force`. Even so data of another type (Redis: a list, a set, a sorted set, a stream) are never deleted: a lock call and
 * locker_show() answer CONFIG there, too. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_break(locker *l, const char *key,
                                                        const locker_break_options *options,
                                                        locker_info *broken, locker_error *err);

/** One round trip to the service; *round_trip_us (NULL allowed) gets its time in microseconds. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_ping(locker *l, int64_t *round_trip_us, locker_error *err);

/** In which order waiters are served. */
typedef enum locker_fairness {
    LOCKER_FAIR_LOCAL = 1, /**< FIFO inside one locker, no order among processes */
    LOCKER_FAIR_GLOBAL = 2 /**< FIFO among all waiters of all processes */
} locker_fairness;

/** From where a lock is seen. */
typedef enum locker_scope {
    LOCKER_SCOPE_PROCESS = 1, /**< threads of one process */
    LOCKER_SCOPE_HOST = 2,    /**< processes of one host */
    LOCKER_SCOPE_NETWORK = 3  /**< hosts */
} locker_scope;

/** In which order those who wait to share a key are served beside those who want it alone. */
typedef enum locker_order {
    LOCKER_ORDER_NONE = 0,    /**< the driver has no shared locks */
    LOCKER_ORDER_ARRIVAL = 1, /**< first come, first served over both modes, among all processes */
    LOCKER_ORDER_LOCAL = 2 /**< the same inside one locker; among processes, who waits alone is not starved */
} locker_order;

/** What a service promises, as data. Lives as long as the locker. */
typedef struct locker_semantics {
    size_t size;        /**< sizeof(locker_semantics) */
    const char *driver; /**< "redis", ... */
    locker_scope scope;
    locker_fairness fairness;
    bool leases;             /**< a lock ends unless renewed; false: it ends with its process */
    bool tokens_persist;     /**< fencing tokens grow over restarts of all processes */
    bool survives_restart;   /**< a lock outlives a restart of its service that keeps its data */
    bool can_break;          /**< locker_break() works */
    bool quorum;             /**< a grant is agreed by a majority of servers */
    const char *holder_dies; /**< what happens then; one sentence each */
    const char *holder_stalls;
    const char *cut_off;
    const char *service_restarts;
    const char *failover;
    const char *token;
    const char *cost;
    locker_order shared;  /**< how shared locks are served; LOCKER_ORDER_NONE: there are none */
    int64_t permits_most; /**< how many permits a key can have; 0: there are none */
} locker_semantics;

/** What this locker's service promises. NULL only for a NULL locker. */
LOCKER_API const locker_semantics *locker_get_semantics(const locker *l);

/** The service that keeps this locker's locks, as a URI without user and password: "redis://cache:6379/0?namespace=shop".
 * For people: it has no parameters but the namespace. Lives as long as the locker. NULL only for a NULL locker. */
LOCKER_API const char *locker_get_service(const locker *l);

/** What named that service: "from LOCKER_URI", "from /etc/locker.conf, profile [default]", "the embedded default", "named by
 * the program". One line. Lives as long as the locker. NULL only for a NULL locker. */
LOCKER_API const char *locker_get_origin(const locker *l);

/** How a parameter's text is read. */
typedef enum locker_param_kind {
    LOCKER_PARAM_DURATION = 1,
    LOCKER_PARAM_NUMBER = 2,
    LOCKER_PARAM_BOOL = 3,
    LOCKER_PARAM_TEXT = 4,
    LOCKER_PARAM_PATH = 5,       /**< text, not empty */
    LOCKER_PARAM_SECRET_FILE = 6 /**< the path of a file whose first line is the value */
} locker_param_kind;

/** One parameter of a driver's URI query or profile; tables end by one whose name is NULL. Static data. */
typedef struct locker_parameter {
    const char *name;
    locker_param_kind kind;
    const char *initial; /**< the default, as text that parses; NULL: none */
    int64_t min, max;    /**< of a number, or of a duration in ms; both 0: no limits but not negative */
    const char *help;    /**< one line */
} locker_parameter;

/** "duration", "number", "bool", "text" or "path". Static. */
LOCKER_API const char *locker_param_kind_name(locker_param_kind kind);

/** One driver that there is: built in, or a module beside the library. Static data. */
typedef struct locker_driver_info {
    size_t size; /**< sizeof(locker_driver_info) */
    const char *name;
    const char *schemes;  /**< the URI schemes, separated by one space */
    const char *example;  /**< a URI */
    const char *features; /**< what the build's client library can and can't do, one line; may be empty */
    const locker_semantics *semantics;
    const locker_parameter *parameters;
    const char *module;  /**< the file that it is loaded from when it is first used; NULL: it is built in */
    const char *problem; /**< why the text that describes the module can't be read; then no more is known of
                            it than its file's name. NULL: it was read */
} locker_driver_info;

#define LOCKER_DRIVER_INFO_INIT                                                                              \
    {                                                                                                        \
        sizeof(locker_driver_info), 0, 0, 0, 0, 0, 0, 0, 0                                                   \
    }

/** The index-th driver that there is, from 0; false past the last, or where info->size is none. No module is loaded for it. */
LOCKER_API bool locker_driver_at(size_t index, locker_driver_info *info);

/** The parameters that every driver takes. */
LOCKER_API const locker_parameter *locker_common_parameters(void);

enum { LOCKER_HISTOGRAM_BUCKETS = 40 };

/** A distribution of times. bucket[0] counts those under 1 us, bucket[i] from 2^(i-1) us up to 2^i us. */
typedef struct locker_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t max_us;
    uint64_t bucket[LOCKER_HISTOGRAM_BUCKETS];
} locker_histogram;

/** The time under which the part q (0 to 1) of the samples lies, in us: a bucket's upper end, at most max_us. */
LOCKER_API uint64_t locker_histogram_quantile(const locker_histogram *h, double q);

/** What happened since the locker was opened. Counters only grow; `held` and `waiting` are of now. */
typedef struct locker_statistics {
    size_t size;          /**< sizeof(locker_statistics) */
    uint64_t acquired;    /**< grants, handed over locally ones included, re-entries not */
    uint64_t handed_over; /**< grants passed on inside the locker, without releasing at the service */
    uint64_t reentered;
    uint64_t busy;
    uint64_t timed_out;
    uint64_t canceled;
    uint64_t failed;        /**< lock calls that ended with any other error */
    uint64_t attempts;      /**< driver attempts, those that found the lock busy included */
    uint64_t released;      /**< unlocks answered OK */
    uint64_t lost;          /**< locks lost while held */
    uint64_t unknown;       /**< unlocks answered UNKNOWN */
    uint64_t renewals;      /**< leases extended */
    uint64_t renewals_late; /**< times that a lease became SUSPECT */
    uint64_t held;          /**< locks held now */
    uint64_t waiting;       /**< calls that wait now */
    locker_histogram wait;  /**< from the call to the grant */
    locker_histogram hold;  /**< from the grant to the unlock or the loss */
    uint64_t rode;          /**< shared locks that ride on another grant of the locker; not in acquired */
} locker_statistics;

#define LOCKER_STATISTICS_INIT                                                                               \
    {                                                                                                        \
        sizeof(locker_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, {0}},              \
            {0, 0, 0, {0}}, 0                                                                                \
    }

/** Copy the statistics. stats->size must be set. INVALID when it isn't. */
LOCKER_API locker_status locker_stats(const locker *l, locker_statistics *stats);

/* ------------------------------------------------------------------ small things ---- */
/** Read a duration: a number with an optional fraction, and a unit ms, s, m, h or d (none: seconds): "1.5",
 * "500ms", "2h". CONFIG with a text that names it when it is none, negative or over 10 years. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_parse_duration(const char *text, int64_t *ms,
                                                                 locker_error *err);

/** The library's version, as LOCKER_VERSION_STRING was when it was built. Static text. */
LOCKER_API const char *locker_version(void);

#ifdef __cplusplus
}
#endif
#endif
