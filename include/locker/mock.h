/* mock.h: a lock service for unit tests, in liblocker-mock. docs/testing.md is the introduction.
 *
 * A mock is a lock service in memory, with a clock that the test moves by hand. Lockers on it are ordinary lockers: the code
 * under test cannot see a difference. Without a script, the mock behaves as a real service: exclusion, shared locks and
 * permits, waiters in order, leases that end unless they are renewed, fencing tokens that grow, losses.
 *
 *     locker_mock *mock;
 *     locker *l;
 *
 *     locker_mock_new(NULL, &mock, NULL);
 *     locker_mock_open(mock, "shop", NULL, &l, NULL);
 *     ... code under test, with `l` ...
 *     locker_mock_advance(mock, 30000);          thirty seconds later, at once
 *     ...
 *     locker_close(l);
 *     locker_mock_free(mock);
 *
 * The clock
 * ---------
 * Nothing becomes due by itself: renewals, ends of leases, time-outs and delays happen in locker_mock_advance(), in the order
 * of their times. When it returns, all their consequences have happened, too, callbacks of losses included. If a locker and
 * the service have something due at the same time, the locker comes first. So a holder knows that its lease is over before
 * the service gives the lock to another.
 *
 * The thread that made the mock is the test's own thread. A call on it that must wait (for a held lock, or a delayed answer)
 * moves the clock itself, from event to event, because no other thread would. So a lock call of 5 s on a busy key times out
 * at once, 5 s later by the clock. If neither an event nor another thread ends the call within `patience_ms` of real time,
 * the mock prints a message and aborts the program. Calls on other threads wait until the clock is moved.
 * locker_mock_await_waiters() shows when they wait. With `still_clock`, calls on the test's own thread wait, too.
 *
 * Any thread may call the functions below, but not inside a callback of a locker (on_lost, log). On a locker's keeper thread,
 * which runs most callbacks, those that wait return LOCKER_INVALID: locker_mock_advance() and locker_mock_await_*(). No
 * function touches a test framework: the function returns a result, and the test asserts it. */
#ifndef LOCKER_MOCK_H
#define LOCKER_MOCK_H

#include <locker/fault.h>
#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A lock service. Opaque. The mocks of a process are independent of each other. */
typedef struct locker_mock locker_mock;

/** How locks of the service end by themselves. */
typedef enum locker_mock_leases {
    LOCKER_MOCK_LEASES_RENEWED = 0, /**< each lock has a lease that its locker renews, as with Redis */
    /** A locker's session, with the ttl of the locker, keeps all its locks, as with ZooKeeper. */
    LOCKER_MOCK_LEASES_SESSION = 1,
    LOCKER_MOCK_LEASES_NONE = 2 /**< they do not end, as with files */
} locker_mock_leases;

/** Options of a mock. Start from LOCKER_MOCK_OPTIONS_INIT, which resembles Redis. */
typedef struct locker_mock_options {
    size_t size; /**< sizeof(locker_mock_options) */
    locker_mock_leases leases;

    /** True if all waiters stand in a queue of the service (LOCKER_CAP_QUEUE), as with ZooKeeper. False: each locker sends a
     * single waiter, and its other waiters stay inside the locker. */
    bool queue;

    bool pass; /**< True if a lock may be handed over inside a locker, without the service. */

    /** Seed of the random numbers. 0: tokens are 1, 2, 3, ... and waiters are served in order. Otherwise tokens grow by leaps.
     * Without `queue`, a free lock then goes to any waiting locker. The same seed repeats the same run. */
    uint64_t seed;

    bool still_clock; /**< True if only locker_mock_advance() moves the clock, not a call that waits. */
    /** Longest real time in ms that threads may take to come to rest, at most a day; 0: 10 s. */
    int64_t patience_ms;
} locker_mock_options;

#define LOCKER_MOCK_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(locker_mock_options), LOCKER_MOCK_LEASES_RENEWED, false, false, 0, false, 0                   \
    }

/** Make a service (options NULL: LOCKER_MOCK_OPTIONS_INIT). The caller frees *out with locker_mock_free(). Returns OK, INVALID
 * (options->size, or an option out of range) or NOMEM. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_new(const locker_mock_options *options,
                                                           locker_mock **out, locker_error *err);

/** Free the mock. Close its lockers, and free their handles, before. NULL is allowed. */
LOCKER_API void locker_mock_free(locker_mock *mock);

/** Open a locker on the service, as a host among several. `owner` is its label, and replaces the label in `options`; NULL: the
 * label of locker_open(). Other options count as for locker_open(). The caller closes *out with locker_close(). Returns the
 * statuses of locker_open(); UNAVAILABLE while all are disconnected (locker_mock_disconnect() with NULL). */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_open(locker_mock *mock, const char *owner,
                                                            const locker_options *options, locker **out,
                                                            locker_error *err);

/* ------------------------------------------------------------------ the clock ---- */
/** Return the time now in ms. It begins at 1,000,000. */
LOCKER_API int64_t locker_mock_now_ms(const locker_mock *mock);

/** Move the clock on by `ms` ms. 0: only let the work that is due now come to rest. Blocks until all due work is done: the
 * lockers' own threads rest, and each call that waited for a lock either rests again or has returned to its caller. (The
 * mock does not wait for the caller's next steps on its thread.)
 *
 * Returns:
 *   - OK.
 *   - TIMEOUT: the threads did not come to rest within `patience_ms` of real time. For example, a callback blocks. The clock
 *     shows the time of that event.
 *   - INVALID: ms is negative or too large, or the call is inside a callback. */
LOCKER_API locker_status locker_mock_advance(locker_mock *mock, int64_t ms);

/** Wait until exactly `count` calls of all lockers together are waiting for `key` (NULL: any): for the lock, or for a delayed
 * answer about it. Does not move the clock.
 *
 * Returns:
 *   - OK.
 *   - TIMEOUT: not within `patience_ms` of real time.
 *   - INVALID: the call is inside a callback. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_await_waiters(locker_mock *mock, const char *key,
                                                                     size_t count);

/** Return the number of calls that are waiting now, counted as by locker_mock_await_waiters(). */
LOCKER_API size_t locker_mock_waiters(const locker_mock *mock, const char *key);

/** Wait until the records have at least `count` operations of this kind on `key` (NULL: any). Otherwise as
 * locker_mock_await_waiters(). */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_await_calls(locker_mock *mock, locker_op op,
                                                                   const char *key, size_t count);

/* ------------------------------------------------------------------ faults and other clients ---- */
/** Add a fault to the script. See fault.h. Returns OK, INVALID (the text says why the fault is wrong) or NOMEM. */
LOCKER_API locker_status locker_mock_on(locker_mock *mock, const locker_fault *fault, locker_error *err);

/** Add faults that are written as text, separated by semicolons:
 *
 *     OP[:KEY] [skip=N] [times=N|always] [delay=TIME] [retry=TIME]
 *              [STATUS|lose-request|lose-reply|lose-lock|disconnect]
 *
 * Blanks or commas separate the words. A TIME is a duration as for locker_parse_duration(), such as 500ms or 2s.
 * Examples: "acquire:orders/42 times=2 unavailable", "renew,always,lose-reply;release,delay=50ms".
 *
 * Adds all faults or none. Returns OK, INVALID (the text names the wrong word) or NOMEM. */
LOCKER_API locker_status locker_mock_script(locker_mock *mock, const char *text, locker_error *err);

/** Remove all faults, used or not. */
LOCKER_API void locker_mock_forget(locker_mock *mock);

/** Take the lock on `key` away now: the lock is free, and a connected holder is notified. Of a shared lock or
 * permits, all holders lose theirs. (locker_break() can take the lock from a single holder.) Returns OK; INVALID if the
 * key has no holder. */
LOCKER_API locker_status locker_mock_lose(locker_mock *mock, const char *key);

/** Take all locks away now: those of `l`, or with NULL those of all lockers, not of foreign clients. The locker's
 * session ends. */
LOCKER_API void locker_mock_lose_all(locker_mock *mock, const locker *l);

/** Disconnect a locker from the service, or all with NULL, until locker_mock_reconnect(). Operations return UNAVAILABLE at once
 * (unlocking: UNKNOWN). Leases are not renewed, and states are SUSPECT. A call that waits continues to wait; without a limit,
 * it waits until the locker is connected again.
 *
 * The service does not notice: it keeps the locks until their leases end, or for ever. Locks that the locker gives back
 * meanwhile are given back when it is connected again. */
LOCKER_API void locker_mock_disconnect(locker_mock *mock, const locker *l);

/** Connect a locker again, or all with NULL. Renews overdue leases at once. */
LOCKER_API void locker_mock_reconnect(locker_mock *mock, const locker *l);

/** Take the lock for a foreign client, `owner`, which is no locker of this test. The lock ends after `ttl_ms` ms; 0: with
 * locker_mock_leave(). *token (NULL: ignored) gets the fencing token. Returns OK, BUSY (held), INVALID or NOMEM. */
LOCKER_API locker_status locker_mock_take(locker_mock *mock, const char *key, const char *owner,
                                          int64_t ttl_ms, uint64_t *token);

/** Take the lock for a foreign client, shared or with a permit of `permits`, as in locker_lock_options. Does not wait.
 *
 * Returns the statuses of locker_mock_take(), and:
 *   - BUSY: also if all permits are taken, or if a reader would overtake a waiting writer.
 *   - CONFIG: the key is in use in another way. */
LOCKER_API locker_status locker_mock_take_as(locker_mock *mock, const char *key, const char *owner,
                                             locker_mode mode, int32_t permits, int64_t ttl_ms,
                                             uint64_t *token);

/** Release the lock of the foreign client; of several, the client that came first. Returns OK; INVALID if no foreign client
 * holds the key. */
LOCKER_API locker_status locker_mock_leave(locker_mock *mock, const char *key);

/** Wake the waiters for `key` (NULL: any). They attempt again, as after a message without a meaning. */
LOCKER_API void locker_mock_wake(locker_mock *mock, const char *key);

/* ------------------------------------------------------------------ records ---- */
/** An operation that the service was asked for. */
typedef struct locker_mock_call {
    locker_op op;
    const char *key;   /**< NULL: none (ping) */
    const char *owner; /**< label of the caller: the holder's, or the locker's */
    uint64_t token;    /**< fencing token of the lock that the operation was about or returned; 0: none */
    int64_t at_ms;     /**< time of the request, by the clock */
    int64_t took_ms;   /**< time until the answer */

    /** The answer. An attempt that found the lock held: BUSY. Renew: OK, LOST, or UNAVAILABLE (not extended). */
    locker_status status;

    bool scripted;   /**< True if a fault acted on the operation. */
    size_t together; /**< number of leases renewed in the same batch, this lease included; else 1 */
} locker_mock_call;

/** Copy the operation at `index`, from 0 in the order of the answers, to *call. Returns false past the last. The texts belong to
 * the mock, and live as long as the mock. */
LOCKER_API bool locker_mock_call_at(const locker_mock *mock, size_t index, locker_mock_call *call);

/** Return the number of answered operations of this kind (LOCKER_OP_ANY: all) on `key` (NULL: any). */
LOCKER_API size_t locker_mock_count(const locker_mock *mock, locker_op op, const char *key);

/** Return true if the lock has a holder at the service. `owner` and `token` (NULL: ignored) get the holder's label and token; of
 * several holders, those of the holder with the smallest token. */
LOCKER_API bool locker_mock_held(const locker_mock *mock, const char *key, char owner[LOCKER_OWNER_MAX + 1],
                                 uint64_t *token);

/** Copy the label, token and slot of the holder at `index`, from 0 in ascending order of token, to `owner`, `token` and `slot`
 * (NULL: ignored). Returns false past the last. *slot is -1 without a permit. Readers of a locker that joined a
 * grant count as a single holder. */
LOCKER_API bool locker_mock_holder_at(const locker_mock *mock, const char *key, size_t index,
                                      char owner[LOCKER_OWNER_MAX + 1], uint64_t *token, int32_t *slot);

/** Return the number of things that a test should not leave behind, and write a line for each into text[size]. 0, and an empty
 * text: none. These are:
 *   - locks that lockers still hold,
 *   - calls that still wait,
 *   - faults that have not acted, or fewer times than their `times`,
 *   - time-outs of locker_mock_advance(). */
LOCKER_API size_t locker_mock_verify(const locker_mock *mock, char *text, size_t size);

/** Return the name of an operation in lower case ("acquire", ...); "invalid operation" for other values. Static text. */
LOCKER_API const char *locker_mock_op_name(locker_op op);

#ifdef __cplusplus
}
#endif
#endif
