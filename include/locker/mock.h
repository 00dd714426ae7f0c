/* mock.h: a lock service for unit tests, in liblocker-mock. docs/testing.md is the introduction.
 *
 * A mock is a lock service in memory, with a clock that the test moves by hand. Lockers on a mock are ordinary lockers:
 * the code under test cannot see a difference. Without a script of faults, the mock behaves as a real service. It has
 * exclusive and shared locks and permits, serves waiters in order, ends leases that are not renewed, gives growing
 * fencing tokens, and notifies holders of losses.
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
 * Nothing happens by itself. Renewals, ends of leases, time-outs and delays happen during locker_mock_advance(), in the
 * order of their times. When locker_mock_advance() returns, all consequences have happened, too. For example, on_lost
 * has been called. If a locker and the service have work due at the same time, the locker does its work first. So when
 * a lease ends, the old holder notices the end before the service gives the lock to another holder.
 *
 * The thread that made the mock is the test's own thread. If a call on this thread must wait for a held lock or for a
 * delayed answer, the call itself moves the clock from event to event, because no other thread moves the clock. So a
 * lock call that waits 5 s for a busy key returns at once, and the clock has then moved by 5 s. An event or another
 * thread must end the call within `patience_ms` of real time. Otherwise the mock prints a message and aborts the
 * program. Calls on other threads wait until the clock is moved. locker_mock_await_waiters() returns when a given number
 * of calls wait. With `still_clock`, calls on the test's own thread also wait until the clock is moved.
 *
 * Any thread may call the functions below, but not inside a callback of a locker (on_lost, log). Most callbacks run on a
 * locker's keeper thread. On a keeper thread, locker_mock_advance() and the locker_mock_await_*() functions return
 * LOCKER_INVALID, because these functions wait. The functions use no test framework. The functions return results, and
 * the test checks the results. */
#ifndef LOCKER_MOCK_H
#define LOCKER_MOCK_H

#include <locker/fault.h>
#include <locker/locker.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A lock service in memory. Opaque. The mocks of a process are independent of each other. */
typedef struct locker_mock locker_mock;

/** How locks of the service end by themselves. */
typedef enum locker_mock_leases {
    LOCKER_MOCK_LEASES_RENEWED = 0, /**< each lock has a lease that its locker renews, as with Redis */
    /** each locker has a session that keeps all locks of the locker, as with ZooKeeper; the locker's ttl is the session
     * time-out */
    LOCKER_MOCK_LEASES_SESSION = 1,
    LOCKER_MOCK_LEASES_NONE = 2 /**< locks do not end by themselves, as with files */
} locker_mock_leases;

/** Options of a mock. Start from LOCKER_MOCK_OPTIONS_INIT. With these values, the mock resembles Redis. */
typedef struct locker_mock_options {
    size_t size; /**< sizeof(locker_mock_options) */
    locker_mock_leases leases;

    /** True if all waiters stand in a queue of the service (LOCKER_CAP_QUEUE), as with ZooKeeper. False: for each key, a
     * locker sends only one of its waiters to the service, and the other waiters stay inside the locker. */
    bool queue;

    bool pass; /**< True if a locker may hand a lock to its next waiter without asking the service. */

    /** Seed of the random numbers. 0: tokens are 1, 2, 3, ... and waiters are served in order. With any other value,
     * tokens grow by random steps, and if `queue` is false, a free lock goes to a random waiting locker. The same seed
     * leads to the same run. */
    uint64_t seed;

    /** True if only locker_mock_advance() moves the clock. False: the clock also moves while a call on the test's own
     * thread waits. */
    bool still_clock;

    /** Longest real time in ms for which the mock waits for threads to finish due work. At most a day; 0 means 10 s. */
    int64_t patience_ms;
} locker_mock_options;

#define LOCKER_MOCK_OPTIONS_INIT                                                                             \
    {                                                                                                        \
        sizeof(locker_mock_options), LOCKER_MOCK_LEASES_RENEWED, false, false, 0, false, 0                   \
    }

/** Make a service. If `options` is NULL, the call uses LOCKER_MOCK_OPTIONS_INIT. The caller frees *out with
 * locker_mock_free(). Returns OK, INVALID (options->size is wrong, or an option is out of range) or NOMEM. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_new(const locker_mock_options *options,
                                                           locker_mock **out, locker_error *err);

/** Free the mock. Before this call, close the mock's lockers and free their handles. NULL is allowed. */
LOCKER_API void locker_mock_free(locker_mock *mock);

/** Open a locker on the service. Each locker acts as a separate host. `owner` is the locker's label, and replaces the
 * label in `options`. If `owner` is NULL, the locker gets its label as with locker_open(). The other options have the
 * same meaning as with locker_open(). The caller closes *out with locker_close(). Returns the statuses of locker_open().
 * Returns UNAVAILABLE while all lockers are disconnected (locker_mock_disconnect() with NULL). */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_open(locker_mock *mock, const char *owner,
                                                            const locker_options *options, locker **out,
                                                            locker_error *err);

/* ------------------------------------------------------------------ the clock ---- */
/** Return the mock's current time in ms. The time of a new mock is 1,000,000. */
LOCKER_API int64_t locker_mock_now_ms(const locker_mock *mock);

/** Move the clock forward by `ms` ms. With `ms` 0, the call only finishes the work that is due now. Blocks until all due
 * work is done. When the call returns, the lockers' own threads sleep, and each call that waited for a lock either waits
 * again or has returned to its caller. The mock does not wait for the caller's next steps.
 *
 * Returns:
 *   - OK: all due work is done.
 *   - TIMEOUT: the due work was not done within `patience_ms` of real time, for example because a callback blocks. The
 *     clock then shows the time at which that work was due.
 *   - INVALID: ms is negative or too large, or the call is inside a callback. */
LOCKER_API locker_status locker_mock_advance(locker_mock *mock, int64_t ms);

/** Wait until the number of waiting calls, over all lockers, is exactly `count`. The number covers only calls that
 * wait for the lock `key`, or for a delayed answer about this lock. If `key` is NULL, the number covers such calls for
 * all locks. Does not move the clock.
 *
 * Returns:
 *   - OK: exactly `count` calls wait.
 *   - TIMEOUT: the number of waiting calls did not become `count` within `patience_ms` of real time.
 *   - INVALID: the call is inside a callback. */
LOCKER_API LOCKER_MUST_CHECK locker_status locker_mock_await_waiters(locker_mock *mock, const char *key,
                                                                     size_t count);

/** Return the number of calls that are waiting now. Calls are counted as in locker_mock_await_waiters(). */
LOCKER_API size_t locker_mock_waiters(const locker_mock *mock, const char *key);

/** Wait until the records have at least `count` operations of the kind `op` on `key` (NULL: on any key). Does not move the
 * clock. Returns as locker_mock_await_waiters() does. */
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
 * Adds all faults or none. Returns OK, INVALID (a word is wrong, and the text of `err` names the word) or NOMEM. */
LOCKER_API locker_status locker_mock_script(locker_mock *mock, const char *text, locker_error *err);

/** Remove all faults, used or not. */
LOCKER_API void locker_mock_forget(locker_mock *mock);

/** Take the lock on `key` away now. Afterwards the lock is free. The service notifies the holder if the holder is
 * connected. If the lock is shared or has permits, all holders lose the lock. (locker_break() can take the lock from a
 * single holder.) Returns OK, or INVALID if the key has no holder. */
LOCKER_API locker_status locker_mock_lose(locker_mock *mock, const char *key);

/** Take away all locks of the locker `l` now, and end the locker's session. If `l` is NULL, do this for all lockers.
 * Foreign clients keep their locks. */
LOCKER_API void locker_mock_lose_all(locker_mock *mock, const locker *l);

/** Disconnect the locker `l` from the service until locker_mock_reconnect(). If `l` is NULL, disconnect all lockers.
 * Operations of a disconnected locker return UNAVAILABLE at once, and locker_unlock() returns UNKNOWN. The locker's
 * leases are not renewed, and its handles have the state SUSPECT. A call that waits continues to wait until its time
 * limit, or until the locker is connected again.
 *
 * The service does not notice the disconnect. The service keeps each lock until the lock's lease ends. If a lock has no
 * lease, the service keeps this lock for an unlimited time. If a disconnected locker releases a lock, the lock is
 * released at the service when the locker is connected again. */
LOCKER_API void locker_mock_disconnect(locker_mock *mock, const locker *l);

/** Connect the locker `l` again. If `l` is NULL, connect all lockers again. Overdue renewals happen at once. */
LOCKER_API void locker_mock_reconnect(locker_mock *mock, const locker *l);

/** Take the lock `key` for a foreign client with the label `owner`. A foreign client is a client that is no locker of this
 * test. The lock ends after `ttl_ms` ms. If `ttl_ms` is 0, the lock lasts until locker_mock_leave(). *token (NULL:
 * ignored) gets the fencing token. Returns OK, BUSY (the key has a holder), INVALID or NOMEM. */
LOCKER_API locker_status locker_mock_take(locker_mock *mock, const char *key, const char *owner,
                                          int64_t ttl_ms, uint64_t *token);

/** Take the lock `key` for a foreign client, as an exclusive lock, a shared lock or a permit. `mode` and `permits` have
 * the same meaning as in locker_lock_options. Does not wait.
 *
 * Returns the statuses of locker_mock_take(), with these differences:
 *   - BUSY: other holders leave no room for the lock, all permits are taken, or a shared lock would overtake a waiting
 *     writer.
 *   - CONFIG: the key is in use in another way. */
LOCKER_API locker_status locker_mock_take_as(locker_mock *mock, const char *key, const char *owner,
                                             locker_mode mode, int32_t permits, int64_t ttl_ms,
                                             uint64_t *token);

/** Release the lock of the foreign client that holds `key`. If several foreign clients hold `key`, the call releases the
 * lock with the smallest token. Returns OK, or INVALID if no foreign client holds the key. */
LOCKER_API locker_status locker_mock_leave(locker_mock *mock, const char *key);

/** Wake the waiters for `key` (NULL: all waiters). Each of these waiters makes another attempt. This simulates a
 * service that notifies waiters although the lock is not free. */
LOCKER_API void locker_mock_wake(locker_mock *mock, const char *key);

/* ------------------------------------------------------------------ records ---- */
/** A recorded operation of the service. */
typedef struct locker_mock_call {
    locker_op op;
    const char *key;   /**< NULL for a ping, which has no key */
    const char *owner; /**< label of the claim; for ping, show and break: label of the locker */
    uint64_t token;    /**< fencing token of the lock that the operation used or took; 0: none */
    int64_t at_ms;     /**< time of the request in ms, by the mock's clock */
    int64_t took_ms;   /**< time from the request to the answer in ms */

    /** The answer. BUSY means that an attempt found the lock held. A renewal has the answer OK, LOST, or UNAVAILABLE (the
     * lease was not extended). */
    locker_status status;

    bool scripted;   /**< True if a fault acted on the operation. */
    size_t together; /**< for a renewal: number of leases in its batch; for other operations: 1 */
} locker_mock_call;

/** Copy the recorded operation at `index` to *call. The index begins at 0, and the operations are in the order of their
 * answers. Returns false if there is no such operation. The texts in *call belong to the mock, and live as long as the
 * mock. */
LOCKER_API bool locker_mock_call_at(const locker_mock *mock, size_t index, locker_mock_call *call);

/** Return the number of answered operations of the kind `op` (LOCKER_OP_ANY: of all kinds) on `key` (NULL: on any key). */
LOCKER_API size_t locker_mock_count(const locker_mock *mock, locker_op op, const char *key);

/** Return true if the lock has a holder at the service. `owner` and `token` (NULL: ignored) get the holder's label and
 * token. If the lock has several holders, `owner` and `token` describe the holder with the smallest token. */
LOCKER_API bool locker_mock_held(const locker_mock *mock, const char *key, char owner[LOCKER_OWNER_MAX + 1],
                                 uint64_t *token);

/** Copy the label, token and slot of the holder at `index` to `owner`, `token` and `slot` (NULL: ignored). The index
 * begins at 0, and the holders are in ascending order of their tokens. Returns false if there is no such holder. *slot
 * is -1 for a holder without a permit. If several readers of a locker share a grant, these readers are a single
 * holder. */
LOCKER_API bool locker_mock_holder_at(const locker_mock *mock, const char *key, size_t index,
                                      char owner[LOCKER_OWNER_MAX + 1], uint64_t *token, int32_t *slot);

/** Return the number of problems that the test has left behind. Writes a line for each problem into text[size]. A text that
 * is too long is cut. Without problems, the text is empty. Each of these is a problem:
 *   - A locker still holds a lock.
 *   - A call still waits.
 *   - A fault has acted less often than its member `times` says, or a fault with LOCKER_FAULT_ALWAYS has never acted.
 *   - A call of locker_mock_advance() has timed out.
 *   - Core did not end a claim before the claim's locker was closed (a defect of liblocker). */
LOCKER_API size_t locker_mock_verify(const locker_mock *mock, char *text, size_t size);

/** Return the name of an operation in lower case ("acquire", ...). For other values, the name is "invalid operation". The
 * text is static. */
LOCKER_API const char *locker_mock_op_name(locker_op op);

#ifdef __cplusplus
}
#endif
#endif
